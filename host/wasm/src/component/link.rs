//! A component compiled for one engine and linked, ready to be instantiated any number of times.

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::{Component, InstancePre};
use wasmtime::{Engine, Store};

use super::guest::{Entries, Exports, Guest, Mismatch};
use super::versions::Contract;
use crate::error::LoadError;
use crate::imports::{self, State};
use crate::text::bounded;

/// A linked component, its exports found.
#[derive(Clone)]
pub(crate) struct Linked {
    pre: InstancePre<State>,
    entries: Arc<dyn Entries>,
}

impl Linked {
    pub(crate) fn new(
        engine: &Engine,
        contract: &Contract,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Self, LoadError> {
        let refused = |error: wasmtime::Error| LoadError::Compile {
            path: path.to_owned(),
            reason: bounded(&format!("{error:#}"), 600),
        };
        let component = Component::from_binary(engine, bytes).map_err(refused)?;
        let linker = imports::link(engine, &component).map_err(refused)?;
        let pre = linker.instantiate_pre(&component).map_err(refused)?;
        let entries = contract.find(&pre).map_err(|error| {
            let interface = "\"pointsman:policy/worker-selection\"".to_owned();
            let reason = bounded(&format!("{error:#}"), 300);
            LoadError::Signature { path: path.to_owned(), interface, reason }
        })?;
        Ok(Self { pre, entries })
    }

    pub(crate) fn exports(&self) -> Exports {
        self.entries.exports()
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.pre.engine()
    }

    /// Makes an instance, and runs what it runs before any call. The store's fuel and deadline must
    /// have been armed.
    pub(crate) fn instantiate(
        &self,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Result<Box<dyn Guest>, Mismatch>> {
        let instance = self.pre.instantiate(&mut *store)?;
        Ok(self.entries.load(store, &instance))
    }
}
