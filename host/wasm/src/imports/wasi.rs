//! A WASI in which nothing is: enough for a language's runtime to start, and the same every time.
//!
//! Clocks show the decision's time and stand still during a call; random numbers come from the
//! decision's seed; a poll is ready at once; standard output and error go to the log; there are no
//! files, arguments or variables. Functions are found by name under any 0.2.x version.

use wasmtime::component::{
    ComponentNamedList, ComponentType, Lift, LinkerInstance, Lower, Resource, ResourceType,
    WasmList,
};
use wasmtime::{StoreContextMut, Trap};

use pointsman_core::clock::Chance;

use super::log::Stream;
use super::{State, charge};

/// The most random bytes that one call gives.
const MOST_RANDOM_BYTES: u64 = 64 << 10;
/// Fuel for each of them: drawn, written and copied.
const FUEL_PER_RANDOM_BYTE: u64 = 4;
/// The most bytes that one write takes: what the contract of `wasi:io` says is always allowed.
const MOST_WRITTEN_BYTES: u64 = 4096;

/// Apart from the numbers that the policy itself draws from the same seed.
const WASI_STREAM: u64 = 0x5741_5349_0000_0002;

/// What the guest learns of the world during one call.
#[derive(Debug)]
pub(super) struct Outside {
    now_ms: u64,
    chance: Chance,
}

impl Default for Outside {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

impl Outside {
    pub(super) fn new(now_ms: u64, seed: u64) -> Self {
        Self { now_ms, chance: Chance::new(seed ^ WASI_STREAM) }
    }
}

/// A thing to wait for, which has always happened.
struct Pollable;
/// A stream that has ended.
struct Input;
/// A stream to the log; its number says which.
struct Output;
/// An error, which no stream gives.
struct IoError;
/// A file, a socket, a terminal: there are none.
struct Absent;

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

#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

/// The host's type for a resource, which goes by its name alone, so that an interface that uses
/// another's resource gets the same.
pub(super) fn resource(name: &str) -> ResourceType {
    match name {
        "pollable" => ResourceType::host::<Pollable>(),
        "input-stream" => ResourceType::host::<Input>(),
        "output-stream" => ResourceType::host::<Output>(),
        "error" => ResourceType::host::<IoError>(),
        _ => ResourceType::host::<Absent>(),
    }
}

/// Defines a function of WASI. False if it is none of those that are there.
pub(super) fn define(
    at: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    let Some((interface, version)) =
        interface.strip_prefix("wasi:").and_then(|name| name.split_once('@'))
    else {
        return Ok(false);
    };
    if !version.starts_with("0.2.") {
        return Ok(false);
    }
    let group = match interface.split_once('/') {
        Some(("io", _)) => define_io,
        Some(("clocks", _)) => define_clocks,
        Some(("random", _)) => define_random,
        Some(("cli", _) | ("filesystem", _)) => define_cli,
        _ => return Ok(false),
    };
    group(at, interface, function)
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

fn define_io(
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
        ("io/error", "[method]error.to-debug-string") => {
            wrap(at, function, |_, _: (Resource<IoError>,)| String::new())
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
        _ => Ok(false),
    }
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

fn define_clocks(
    at: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match (interface, function) {
        ("clocks/monotonic-clock", "now") => {
            wrap(at, function, |state, (): ()| state.outside.now_ms.saturating_mul(1_000_000))
        }
        // The router's clock has milliseconds.
        ("clocks/monotonic-clock", "resolution") => wrap(at, function, |_, (): ()| 1_000_000_u64),
        ("clocks/monotonic-clock", "subscribe-instant" | "subscribe-duration") => {
            wrap(at, function, |_, _: (u64,)| Resource::<Pollable>::new_own(0))
        }
        ("clocks/wall-clock", "now") => wrap(at, function, |state, (): ()| {
            let now_ms = state.outside.now_ms;
            // Below a second's nanoseconds, so that it fits.
            Datetime { seconds: now_ms / 1000, nanoseconds: (now_ms % 1000) as u32 * 1_000_000 }
        }),
        ("clocks/wall-clock", "resolution") => {
            wrap(at, function, |_, (): ()| Datetime { seconds: 0, nanoseconds: 1_000_000 })
        }
        _ => Ok(false),
    }
}

fn define_random(
    at: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match (interface, function) {
        ("random/random", "get-random-u64") | ("random/insecure", "get-insecure-random-u64") => {
            wrap(at, function, |state, (): ()| state.outside.chance.bits())
        }
        ("random/random", "get-random-bytes")
        | ("random/insecure", "get-insecure-random-bytes") => {
            at.func_wrap(function, |store: StoreContextMut<'_, State>, (length,): (u64,)| {
                Ok((random_bytes(store, length)?,))
            })?;
            Ok(true)
        }
        ("random/insecure-seed", "insecure-seed") => wrap(at, function, |state, (): ()| {
            (state.outside.chance.bits(), state.outside.chance.bits())
        }),
        _ => Ok(false),
    }
}

fn random_bytes(mut store: StoreContextMut<'_, State>, length: u64) -> wasmtime::Result<Vec<u8>> {
    charge(&mut store, length.saturating_mul(FUEL_PER_RANDOM_BYTE))?;
    if length > MOST_RANDOM_BYTES {
        let text = format!("asked for {length} random bytes, wanted at most {MOST_RANDOM_BYTES}");
        return Err(wasmtime::Error::msg(text));
    }
    let length = usize::try_from(length).map_err(|_| Trap::OutOfFuel)?;
    let chance = &mut store.data_mut().outside.chance;
    let mut bytes = vec![0; length];
    for chunk in bytes.chunks_mut(8) {
        let drawn = chance.bits().to_le_bytes();
        chunk.copy_from_slice(drawn.get(..chunk.len()).unwrap_or_default());
    }
    Ok(bytes)
}

fn define_cli(
    at: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    match (interface, function) {
        ("cli/environment", "get-environment") => {
            wrap(at, function, |_, (): ()| Vec::<(String, String)>::new())
        }
        ("cli/environment", "get-arguments") => {
            wrap(at, function, |_, (): ()| Vec::<String>::new())
        }
        ("cli/environment", "initial-cwd") => wrap(at, function, |_, (): ()| None::<String>),
        ("cli/stdin", "get-stdin") => wrap(at, function, |_, (): ()| Resource::<Input>::new_own(0)),
        ("cli/stdout", "get-stdout") => {
            wrap(at, function, |_, (): ()| Resource::<Output>::new_own(STDOUT))
        }
        ("cli/stderr", "get-stderr") => {
            wrap(at, function, |_, (): ()| Resource::<Output>::new_own(STDERR))
        }
        ("cli/terminal-stdin", "get-terminal-stdin")
        | ("cli/terminal-stdout", "get-terminal-stdout")
        | ("cli/terminal-stderr", "get-terminal-stderr") => {
            wrap(at, function, |_, (): ()| None::<Resource<Absent>>)
        }
        ("filesystem/preopens", "get-directories") => {
            wrap(at, function, |_, (): ()| Vec::<(Resource<Absent>, String)>::new())
        }
        _ => Ok(false),
    }
}
