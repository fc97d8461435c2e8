//! A started guest in the newest contract's terms, whichever version it was built for.
//!
//! The rest of the crate calls guests through these traits and knows one contract. What an older
//! one has otherwise is its adapter's to translate; see `versions`.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::exports::pointsman::policy::worker_selection::{Declaration, Environment};
use crate::bindings::exports::pointsman::policy::{
    about, fleet, fused, observer, request_classifier,
};
use crate::bindings::pointsman::policy::types::{Candidates, Request};
use crate::imports::State;
use crate::text::bounded;

/// Which interfaces a component exports: it selects workers, or classifies requests, or does both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exports {
    pub(crate) selection: bool,
    pub(crate) classifier: bool,
    pub(crate) about: bool,
    pub(crate) fused: bool,
    pub(crate) fleet: bool,
    pub(crate) observer: bool,
    pub(crate) handover: bool,
}

/// What a guest answers: a value, or its refusal in words. An error is the end of the guest.
pub(crate) type Answer<T> = wasmtime::Result<Result<T, String>>;

/// Where a linked component has the functions of one version of the contract.
pub(crate) trait Entries: Send + Sync {
    fn exports(&self) -> Exports;

    /// Takes the functions of an instance, and checks that they are as that version has them.
    fn load(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> Result<Box<dyn Guest>, Mismatch>;
}

/// Finds the functions of one version in a linked component.
pub(crate) type Find = fn(&InstancePre<State>) -> wasmtime::Result<Arc<dyn Entries>>;

/// The functions of one instance. Those of optional interfaces are called only where `Exports`
/// has them; until then they say that they aren't there.
pub(crate) trait Guest: Send {
    fn configure(
        &self,
        store: &mut Store<State>,
        environment: Environment<'_>,
    ) -> Answer<Declaration>;

    fn keep(
        &self,
        store: &mut Store<State>,
        filter: u32,
        request: Request<'_>,
        candidates: Candidates<'_>,
    ) -> Answer<Vec<u64>>;

    fn score(
        &self,
        store: &mut Store<State>,
        scorer: u32,
        request: Request<'_>,
        candidates: Candidates<'_>,
    ) -> Answer<Vec<f64>>;

    fn pick(
        &self,
        store: &mut Store<State>,
        request: Request<'_>,
        candidates: Candidates<'_>,
        costs: &[f64],
    ) -> Answer<u32>;

    fn decide(
        &self,
        _: &mut Store<State>,
        _: Request<'_>,
        _: Candidates<'_>,
    ) -> Answer<fused::Outcome> {
        Ok(Err(not_exported("fused")))
    }

    fn describe(&self, _: &mut Store<State>) -> wasmtime::Result<about::Description> {
        Err(wasmtime::Error::msg(not_exported("about")))
    }

    fn changed(
        &self,
        _: &mut Store<State>,
        _generation: u64,
        _members: &[fleet::Member<'_>],
    ) -> wasmtime::Result<()> {
        Ok(())
    }

    fn observe(
        &self,
        _: &mut Store<State>,
        _outcomes: &[observer::Outcome<'_>],
    ) -> wasmtime::Result<()> {
        Ok(())
    }

    fn save(&self, _: &mut Store<State>) -> Answer<Vec<u8>> {
        Ok(Err(not_exported("handover")))
    }

    fn restore(&self, _: &mut Store<State>, _state: &[u8]) -> Answer<()> {
        Ok(Err(not_exported("handover")))
    }

    fn configure_classifier(
        &self,
        _: &mut Store<State>,
        _: request_classifier::ClassifierEnvironment<'_>,
    ) -> Answer<request_classifier::ClassifierDeclaration> {
        Ok(Err(not_exported("request-classifier")))
    }

    fn classify(
        &self,
        _: &mut Store<State>,
        _: request_classifier::ClassifyRequest<'_>,
    ) -> Answer<request_classifier::Verdict> {
        Ok(Err(not_exported("request-classifier")))
    }

    fn on_event(
        &self,
        _: &mut Store<State>,
        _event: request_classifier::LifecycleEvent<'_>,
        _now_ms: u64,
    ) -> Answer<Vec<request_classifier::Release>> {
        Ok(Err(not_exported("request-classifier")))
    }
}

pub(super) fn not_exported(interface: &str) -> String {
    format!("the interface `{interface}` is not exported")
}

/// A function of an instance isn't as its contract has it.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) interface: String,
    pub(crate) reason: String,
}

impl Mismatch {
    pub(super) fn new(interface: &str, error: &wasmtime::Error) -> Self {
        let interface = format!("\"pointsman:policy/{interface}\"");
        // The outermost words are about Rust's types.
        let reason = bounded(
            &error.chain().skip(1).map(|e| e.to_string()).collect::<Vec<_>>().join(": "),
            300,
        );
        Self { interface, reason }
    }
}
