//! What a component can reach: the log, and a WASI in which nothing is.
//!
//! Owns the linker of each component, made from its own imports: the log is real, the parts of WASI
//! that a language's runtime needs to start are there and deterministic, and any other function of
//! WASI traps with its name. None of them waits, asks a clock, or touches an async runtime. Which
//! imports are allowed at all is decided before, by the component's shape.

mod log;
mod wasi;

use std::collections::BTreeSet;

use pointsman_core::clock::Moment;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, LinkerInstance};
use wasmtime::{Engine, StoreContextMut};

use crate::deadline::Deadline;
use crate::limits::Limiter;
pub(crate) use log::LogSink;
use wasi::Outside;

/// What a store holds besides the guest.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) limiter: Limiter,
    pub(crate) log: LogSink,
    pub(crate) deadline: Deadline,
    outside: Outside,
}

impl State {
    pub(crate) fn new(limiter: Limiter, log: LogSink, deadline: Deadline) -> Self {
        Self { limiter, log, deadline, outside: Outside::new() }
    }

    /// A call begins at that time, with that seed. Returns the ticks until its deadline is asked.
    pub(crate) fn begin(&mut self, moment: Moment) -> u64 {
        self.limiter.begin();
        self.log.begin();
        self.outside.begin(moment);
        self.deadline.begin()
    }

    /// The call has ended: half a line is written as it is.
    pub(crate) fn end(&mut self) {
        self.log.end();
    }
}

/// Links everything that a component imports.
pub(crate) fn link(engine: &Engine, component: &Component) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let mut whole = BTreeSet::new();
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        if let Some(interface) = wasi::interface(name) {
            // A component may import an interface in two versions; one serves both.
            if whole.contains(interface) || wasi::link_whole(&mut linker, interface)? {
                whole.insert(interface.to_owned());
                continue;
            }
        }
        let mut at = linker.instance(name)?;
        for (item, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => define(&mut at, name, item)?,
                ComponentItem::Resource(_) => {
                    at.resource(item, wasi::resource(item), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(linker)
}

fn define(
    at: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<()> {
    if log::define(at, interface, function)? || wasi::define(at, interface, function)? {
        return Ok(());
    }
    let called = format!("{interface}#{function}");
    at.func_new(function, move |_, _, _, _| Err(nothing_there(&called)))
}

fn nothing_there(called: &str) -> wasmtime::Error {
    wasmtime::Error::msg(format!("called {called}, which a policy can't have"))
}

/// Takes fuel for work that the host does at a guest's bidding, so that a loop of host calls ends
/// as one of instructions does.
fn charge(store: &mut StoreContextMut<'_, State>, fuel: u64) -> wasmtime::Result<()> {
    let left = store.get_fuel()?.checked_sub(fuel).ok_or(wasmtime::Trap::OutOfFuel)?;
    store.set_fuel(left)
}
