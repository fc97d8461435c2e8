//! Contract 0.1: the newest, so that nothing has to be translated.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use super::super::guest::{Answer, Entries, Exports, Guest, Mismatch, not_exported};
use crate::bindings::exports::pointsman::policy::worker_selection::{Declaration, Environment};
use crate::bindings::exports::pointsman::policy::{
    about, fleet, fused, handover, observer, request_classifier, worker_selection,
};
use crate::bindings::pointsman::policy::types::{Candidates, Request};
use crate::imports::State;

/// What every policy that selects workers exports.
const SELECTION: &str = "pointsman:policy/worker-selection@0.1.0";

/// Look-ups are by semantic version: a component built for a later 0.1.x is found as well.
struct Found {
    selection: Option<worker_selection::GuestIndices>,
    classifier: Option<request_classifier::GuestIndices>,
    about: Option<about::GuestIndices>,
    fused: Option<fused::GuestIndices>,
    fleet: Option<fleet::GuestIndices>,
    observer: Option<observer::GuestIndices>,
    handover: Option<handover::GuestIndices>,
}

struct Loaded {
    selection: Option<worker_selection::Guest>,
    classifier: Option<request_classifier::Guest>,
    about: Option<about::Guest>,
    fused: Option<fused::Guest>,
    fleet: Option<fleet::Guest>,
    observer: Option<observer::Guest>,
    handover: Option<handover::Guest>,
}

/// Finds the functions in a linked component.
pub(super) fn find(pre: &InstancePre<State>) -> wasmtime::Result<Arc<dyn Entries>> {
    let classifier = request_classifier::GuestIndices::new(pre).ok();
    Ok(Arc::new(Found {
        selection: match worker_selection::GuestIndices::new(pre) {
            Ok(found) => Some(found),
            // One of the two is there, as its shape said.
            Err(error) if classifier.is_none() => return Err(error),
            Err(_) => None,
        },
        classifier,
        about: about::GuestIndices::new(pre).ok(),
        fused: fused::GuestIndices::new(pre).ok(),
        fleet: fleet::GuestIndices::new(pre).ok(),
        observer: observer::GuestIndices::new(pre).ok(),
        handover: handover::GuestIndices::new(pre).ok(),
    }))
}

impl Entries for Found {
    fn exports(&self) -> Exports {
        Exports {
            selection: self.selection.is_some(),
            classifier: self.classifier.is_some(),
            about: self.about.is_some(),
            fused: self.fused.is_some(),
            fleet: self.fleet.is_some(),
            observer: self.observer.is_some(),
            handover: self.handover.is_some(),
        }
    }

    fn load(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> Result<Box<dyn Guest>, Mismatch> {
        macro_rules! load_if_there {
            ($indices:expr, $interface:literal) => {{
                let load = $indices.as_ref().map(|indices| indices.load(&mut *store, instance));
                load.transpose().map_err(|error| Mismatch::new($interface, &error))?
            }};
        }
        Ok(Box::new(Loaded {
            selection: match self.selection.as_ref().map(|it| it.load(&mut *store, instance)) {
                Some(Err(error)) => return Err(unlike(store, instance, &error)),
                found => found.and_then(Result::ok),
            },
            classifier: load_if_there!(self.classifier, "request-classifier"),
            about: load_if_there!(self.about, "about"),
            fused: load_if_there!(self.fused, "fused"),
            fleet: load_if_there!(self.fleet, "fleet"),
            observer: load_if_there!(self.observer, "observer"),
            handover: load_if_there!(self.handover, "handover"),
        }))
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
    Mismatch::new(&format!("worker-selection{function}"), error)
}

impl Loaded {
    /// Nobody asks a component to select that doesn't export how.
    fn selection(&self) -> wasmtime::Result<&worker_selection::Guest> {
        let missing = || wasmtime::Error::msg(not_exported("worker-selection"));
        self.selection.as_ref().ok_or_else(missing)
    }

    fn classifier(&self) -> wasmtime::Result<&request_classifier::Guest> {
        let missing = || wasmtime::Error::msg(not_exported("request-classifier"));
        self.classifier.as_ref().ok_or_else(missing)
    }
}

impl Guest for Loaded {
    fn configure(
        &self,
        store: &mut Store<State>,
        environment: Environment<'_>,
    ) -> Answer<Declaration> {
        self.selection()?.call_configure(store, environment)
    }

    fn keep(
        &self,
        store: &mut Store<State>,
        filter: u32,
        request: Request<'_>,
        candidates: Candidates<'_>,
    ) -> Answer<Vec<u64>> {
        self.selection()?.call_keep(store, filter, request, candidates)
    }

    fn score(
        &self,
        store: &mut Store<State>,
        scorer: u32,
        request: Request<'_>,
        candidates: Candidates<'_>,
    ) -> Answer<Vec<f64>> {
        self.selection()?.call_score(store, scorer, request, candidates)
    }

    fn pick(
        &self,
        store: &mut Store<State>,
        request: Request<'_>,
        candidates: Candidates<'_>,
        costs: &[f64],
    ) -> Answer<u32> {
        self.selection()?.call_pick(store, request, candidates, costs)
    }

    fn decide(
        &self,
        store: &mut Store<State>,
        request: Request<'_>,
        candidates: Candidates<'_>,
    ) -> Answer<fused::Outcome> {
        match &self.fused {
            Some(fused) => fused.call_decide(store, request, candidates),
            None => Ok(Err(not_exported("fused"))),
        }
    }

    fn describe(&self, store: &mut Store<State>) -> wasmtime::Result<about::Description> {
        match &self.about {
            Some(about) => about.call_describe(store),
            None => Err(wasmtime::Error::msg(not_exported("about"))),
        }
    }

    fn changed(
        &self,
        store: &mut Store<State>,
        generation: u64,
        members: &[fleet::Member<'_>],
    ) -> wasmtime::Result<()> {
        match &self.fleet {
            Some(follower) => follower.call_changed(store, generation, members),
            None => Ok(()),
        }
    }

    fn observe(
        &self,
        store: &mut Store<State>,
        outcomes: &[observer::Outcome<'_>],
    ) -> wasmtime::Result<()> {
        match &self.observer {
            Some(observer) => observer.call_observe(store, outcomes),
            None => Ok(()),
        }
    }

    fn save(&self, store: &mut Store<State>) -> Answer<Vec<u8>> {
        match &self.handover {
            Some(handover) => handover.call_save(store),
            None => Ok(Err(not_exported("handover"))),
        }
    }

    fn restore(&self, store: &mut Store<State>, state: &[u8]) -> Answer<()> {
        match &self.handover {
            Some(handover) => handover.call_restore(store, state),
            None => Ok(Err(not_exported("handover"))),
        }
    }

    fn configure_classifier(
        &self,
        store: &mut Store<State>,
        environment: request_classifier::ClassifierEnvironment<'_>,
    ) -> Answer<request_classifier::ClassifierDeclaration> {
        self.classifier()?.call_configure_classifier(store, environment)
    }

    fn classify(
        &self,
        store: &mut Store<State>,
        request: request_classifier::ClassifyRequest<'_>,
    ) -> Answer<request_classifier::Verdict> {
        self.classifier()?.call_classify(store, request)
    }

    fn on_event(
        &self,
        store: &mut Store<State>,
        event: request_classifier::LifecycleEvent<'_>,
        now_ms: u64,
    ) -> Answer<Vec<request_classifier::Release>> {
        self.classifier()?.call_on_event(store, event, now_ms)
    }
}
