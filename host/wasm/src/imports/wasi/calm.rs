//! What `wasmtime-wasi` would do by waiting, or without a price: the host's own functions instead.
//!
//! A poll is ready at once, a sleep is over when it begins, standard input has ended, standard output
//! and error go to the log, and random bytes cost fuel. The numbers and the time are the context's,
//! as everywhere else.

use wasmtime::StoreContextMut;
use wasmtime::component::{
    ComponentNamedList, ComponentType, Lift, LinkerInstance, Lower, Resource, WasmList,
};
use wasmtime_wasi::p2::IoError;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::Host as _;
use wasmtime_wasi::p2::bindings::random::insecure::Host as _;
use wasmtime_wasi::p2::bindings::random::random::Host as _;

use crate::imports::log::Stream;
use crate::imports::{State, charge};

/// Fuel for each random byte: drawn, written and copied.
const FUEL_PER_RANDOM_BYTE: u64 = 4;
/// The most bytes that one write takes: what the contract of `wasi:io` says is always allowed.
const MOST_WRITTEN_BYTES: u64 = 4096;

/// A thing to wait for, which has always happened.
pub(super) struct Pollable;
/// A stream that has ended.
pub(super) struct Input;
/// A stream to the log; its number says which.
pub(super) struct Output;

/// The number of standard output; standard error has the next.
const STDOUT: u32 = 1;
const STDERR: u32 = 2;

#[derive(ComponentType, Lower, Lift)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// Defines a function that answers from the arguments and the state alone.
fn wrap<P, R>(
    at: &mut LinkerInstance<'_, State>,
    function: &str,
    answer: impl Fn(&mut State, P) -> R + Send + Sync + 'static,
) -> wasmtime::Result<bool>
where
    P: ComponentNamedList + Lift + 'static,
    (R,): ComponentNamedList + Lower + 'static,
{
    at.func_wrap(function, move |mut store: StoreContextMut<'_, State>, arguments: P| {
        Ok((answer(store.data_mut(), arguments),))
    })?;
    Ok(true)
}

/// Defines a function that does nothing.
fn nothing<P>(at: &mut LinkerInstance<'_, State>, function: &str) -> wasmtime::Result<bool>
where
    P: ComponentNamedList + Lift + 'static,
{
    at.func_wrap(function, |_: StoreContextMut<'_, State>, _: P| Ok(()))?;
    Ok(true)
}

type OutputCall = (Resource<Output>, WasmList<u8>);

pub(super) fn define(
    at: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match (interface, function) {
        ("io/poll", "[method]pollable.ready") => {
            wrap(at, function, |_, _: (Resource<Pollable>,)| true)
        }
        ("io/poll", "[method]pollable.block") => nothing::<(Resource<Pollable>,)>(at, function),
        ("io/poll", "poll") => {
            at.func_wrap(
                function,
                |mut store: StoreContextMut<'_, State>, (all,): (Vec<Resource<Pollable>>,)| {
                    charge(&mut store, all.len() as u64)?;
                    if all.is_empty() {
                        return Err(wasmtime::Error::msg("called poll with nothing to wait for"));
                    }
                    Ok(((0..all.len() as u32).collect::<Vec<u32>>(),))
                },
            )?;
            Ok(true)
        }
        ("io/streams", "[method]input-stream.read" | "[method]input-stream.blocking-read") => {
            wrap(at, function, |_, _: (Resource<Input>, u64)| {
                Err::<Vec<u8>, _>(StreamError::Closed)
            })
        }
        ("io/streams", "[method]input-stream.skip" | "[method]input-stream.blocking-skip") => {
            wrap(at, function, |_, _: (Resource<Input>, u64)| Err::<u64, _>(StreamError::Closed))
        }
        ("io/streams", "[method]input-stream.subscribe") => {
            wrap(at, function, |_, _: (Resource<Input>,)| Resource::<Pollable>::new_own(0))
        }
        ("io/streams", "[method]output-stream.subscribe") => {
            wrap(at, function, |_, _: (Resource<Output>,)| Resource::<Pollable>::new_own(0))
        }
        ("io/streams", "[method]output-stream.check-write") => {
            wrap(at, function, |_, _: (Resource<Output>,)| Ok::<_, StreamError>(MOST_WRITTEN_BYTES))
        }
        (
            "io/streams",
            "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush",
        ) => {
            at.func_wrap(function, |store: StoreContextMut<'_, State>, call: OutputCall| {
                write(store, &call)?;
                Ok((Ok::<(), StreamError>(()),))
            })?;
            Ok(true)
        }
        ("io/streams", "[method]output-stream.flush" | "[method]output-stream.blocking-flush") => {
            wrap(at, function, |_, _: (Resource<Output>,)| Ok::<(), StreamError>(()))
        }
        ("clocks/monotonic-clock", "now") => {
            at.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
                Ok((store.data_mut().outside.clocks().now()?,))
            })?;
            Ok(true)
        }
        ("clocks/monotonic-clock", "resolution") => {
            at.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
                Ok((store.data_mut().outside.clocks().resolution()?,))
            })?;
            Ok(true)
        }
        ("clocks/monotonic-clock", "subscribe-instant" | "subscribe-duration") => {
            wrap(at, function, |_, _: (u64,)| Resource::<Pollable>::new_own(0))
        }
        ("random/random", "get-random-u64") => {
            at.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
                Ok((store.data_mut().outside.random().get_random_u64()?,))
            })?;
            Ok(true)
        }
        ("random/random", "get-random-bytes") => {
            at.func_wrap(function, |mut store: StoreContextMut<'_, State>, (length,): (u64,)| {
                charge_bytes(&mut store, length)?;
                Ok((store.data_mut().outside.random().get_random_bytes(length)?,))
            })?;
            Ok(true)
        }
        ("random/insecure", "get-insecure-random-u64") => {
            at.func_wrap(function, |mut store: StoreContextMut<'_, State>, (): ()| {
                Ok((store.data_mut().outside.random().get_insecure_random_u64()?,))
            })?;
            Ok(true)
        }
        ("random/insecure", "get-insecure-random-bytes") => {
            at.func_wrap(function, |mut store: StoreContextMut<'_, State>, (length,): (u64,)| {
                charge_bytes(&mut store, length)?;
                Ok((store.data_mut().outside.random().get_insecure_random_bytes(length)?,))
            })?;
            Ok(true)
        }
        ("cli/stdin", "get-stdin") => wrap(at, function, |_, (): ()| Resource::<Input>::new_own(0)),
        ("cli/stdout", "get-stdout") => {
            wrap(at, function, |_, (): ()| Resource::<Output>::new_own(STDOUT))
        }
        ("cli/stderr", "get-stderr") => {
            wrap(at, function, |_, (): ()| Resource::<Output>::new_own(STDERR))
        }
        _ => Ok(false),
    }
}

fn charge_bytes(store: &mut StoreContextMut<'_, State>, bytes: u64) -> wasmtime::Result<()> {
    charge(store, bytes.saturating_mul(FUEL_PER_RANDOM_BYTE))
}

fn write(
    mut store: StoreContextMut<'_, State>,
    (output, contents): &OutputCall,
) -> wasmtime::Result<()> {
    let length = contents.len() as u64;
    charge(&mut store, length)?;
    if length > MOST_WRITTEN_BYTES {
        let text = format!("wrote {length} bytes at once, wanted at most {MOST_WRITTEN_BYTES}");
        return Err(wasmtime::Error::msg(text));
    }
    let bytes = contents.as_le_slice(&store).to_vec();
    let stream = if output.rep() == STDERR { Stream::Err } else { Stream::Out };
    store.data_mut().log.stream(stream, &bytes);
    Ok(())
}
