//! A component compiled for one engine and linked, ready to be instantiated any number of times.

use std::path::Path;

use wasmtime::component::{Component, Instance, InstancePre};
use wasmtime::{Engine, Store};

use crate::bindings::exports::pointsman::policy::worker_selection::{Declaration, Environment};
use crate::bindings::exports::pointsman::policy::{
    about, fleet, fused, handover, observer, worker_selection,
};
use crate::bindings::pointsman::policy::types::{Candidates, Request};
use crate::error::LoadError;
use crate::imports::{self, State};
use crate::text::bounded;

/// What every policy exports.
const SELECTION: &str = "pointsman:policy/worker-selection@0.1.0";

/// Which optional interfaces a component exports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exports {
    pub(crate) about: bool,
    pub(crate) fused: bool,
    pub(crate) fleet: bool,
    pub(crate) observer: bool,
    pub(crate) handover: bool,
}

/// A linked component, its exports found. Lookups are by semantic version: a component built for
/// a later 0.1.x is found as well.
#[derive(Clone)]
pub(crate) struct Linked {
    pre: InstancePre<State>,
    selection: worker_selection::GuestIndices,
    about: Option<about::GuestIndices>,
    fused: Option<fused::GuestIndices>,
    fleet: Option<fleet::GuestIndices>,
    observer: Option<observer::GuestIndices>,
    handover: Option<handover::GuestIndices>,
}

/// The functions of one instance.
pub(crate) struct Guest {
    pub(crate) selection: worker_selection::Guest,
    pub(crate) about: Option<about::Guest>,
    pub(crate) fused: Option<fused::Guest>,
    pub(crate) fleet: Option<fleet::Guest>,
    pub(crate) handover: Option<handover::Guest>,
}

/// A function of an instance isn't as the contract has it.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) interface: String,
    pub(crate) reason: String,
}

impl Mismatch {
    fn new(interface: String, error: &wasmtime::Error) -> Self {
        let interface = format!("\"pointsman:policy/{interface}\"");
        // The outermost words are about Rust's types.
        let reason = bounded(
            &error.chain().skip(1).map(|e| e.to_string()).collect::<Vec<_>>().join(": "),
            300,
        );
        Self { interface, reason }
    }
}

/// Which function of the selection interface isn't as it should be.
fn unlike(store: &mut Store<State>, instance: &Instance, error: &wasmtime::Error) -> Mismatch {
    type Stage = (u32, Request<'static>, Candidates<'static>);
    type Pick = (Request<'static>, Candidates<'static>, &'static [f64]);
    let interface = instance.get_export_index(&mut *store, None, SELECTION);
    let mut function = None;
    macro_rules! check {
        ($name:literal, $parameters:ty, $results:ty) => {
            let index = instance.get_export_index(&mut *store, interface.as_ref(), $name);
            if function.is_none()
                && let Some(index) = index
                && instance.get_typed_func::<$parameters, $results>(&mut *store, &index).is_err()
            {
                function = Some($name);
            }
        };
    }
    check!("configure", (Environment<'static>,), (Result<Declaration, String>,));
    check!("keep", Stage, (Result<Vec<u64>, String>,));
    check!("score", Stage, (Result<Vec<f64>, String>,));
    check!("pick", Pick, (Result<u32, String>,));
    let function = function.map(|name| format!("#{name}")).unwrap_or_default();
    Mismatch::new(format!("worker-selection{function}"), error)
}

impl Linked {
    pub(crate) fn new(engine: &Engine, path: &Path, bytes: &[u8]) -> Result<Self, LoadError> {
        let refused = |error: wasmtime::Error| LoadError::Compile {
            path: path.to_owned(),
            reason: bounded(&format!("{error:#}"), 600),
        };
        let component = Component::from_binary(engine, bytes).map_err(refused)?;
        let linker = imports::link(engine, &component).map_err(refused)?;
        let pre = linker.instantiate_pre(&component).map_err(refused)?;
        let selection = worker_selection::GuestIndices::new(&pre).map_err(|error| {
            let interface = "\"pointsman:policy/worker-selection\"".to_owned();
            let reason = bounded(&format!("{error:#}"), 300);
            LoadError::Signature { path: path.to_owned(), interface, reason }
        })?;
        Ok(Self {
            selection,
            about: about::GuestIndices::new(&pre).ok(),
            fused: fused::GuestIndices::new(&pre).ok(),
            fleet: fleet::GuestIndices::new(&pre).ok(),
            observer: observer::GuestIndices::new(&pre).ok(),
            handover: handover::GuestIndices::new(&pre).ok(),
            pre,
        })
    }

    pub(crate) fn exports(&self) -> Exports {
        Exports {
            about: self.about.is_some(),
            fused: self.fused.is_some(),
            fleet: self.fleet.is_some(),
            observer: self.observer.is_some(),
            handover: self.handover.is_some(),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.pre.engine()
    }

    /// Makes an instance, and runs what it runs before any call. The store's fuel and deadline must
    /// have been armed.
    pub(crate) fn instantiate(
        &self,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Result<Guest, Mismatch>> {
        let instance = self.pre.instantiate(&mut *store)?;
        macro_rules! load {
            ($indices:expr, $interface:literal) => {
                match $indices.load(&mut *store, &instance) {
                    Ok(guest) => guest,
                    Err(error) => {
                        return Ok(Err(Mismatch::new($interface.to_owned(), &error)));
                    }
                }
            };
        }
        macro_rules! load_if_there {
            ($indices:expr, $interface:literal) => {
                match &$indices {
                    Some(indices) => Some(load!(indices, $interface)),
                    None => None,
                }
            };
        }
        // Nothing calls the observer yet; its signatures are checked all the same.
        let _ = load_if_there!(self.observer, "observer");
        Ok(Ok(Guest {
            selection: match self.selection.load(&mut *store, &instance) {
                Ok(guest) => guest,
                Err(error) => return Ok(Err(unlike(store, &instance, &error))),
            },
            about: load_if_there!(self.about, "about"),
            fused: load_if_there!(self.fused, "fused"),
            fleet: load_if_there!(self.fleet, "fleet"),
            handover: load_if_there!(self.handover, "handover"),
        }))
    }
}
