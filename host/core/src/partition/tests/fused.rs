//! When a policy that decides in one call is asked so, and when stage by stage.

use super::*;
use crate::policy::selection::{OnAllFiltered, Recipe, StageUse, TypeUse};
use crate::policy::{Declaration, Limits, Outcome, PolicyInstance, RowMask};
use crate::testing::MadePolicy;

/// What was called, in order.
type Calls = Arc<Mutex<Vec<&'static str>>>;

/// A scorer that can decide in one call, and writes down how it is asked.
#[derive(Debug)]
struct Notes(Declaration, Calls);

impl Notes {
    fn new(calls: &Calls) -> Self {
        let scores = native().scorer("s", scorer(&[], |_, _, _| Ok(())));
        let mut declaration = scores.declaration().clone();
        declaration.properties.fused = true;
        Self(declaration, calls.clone())
    }

    fn note(&self, call: &'static str) {
        self.1.lock().expect("not poisoned").push(call);
    }
}

impl PolicyInstance for Notes {
    fn declaration(&self) -> &Declaration {
        &self.0
    }

    fn keep(
        &mut self,
        _: usize,
        _: &RequestView<'_>,
        _: &Candidates<'_>,
        _: &mut RowMask,
    ) -> Result<(), StageError> {
        Ok(())
    }

    fn score(
        &mut self,
        _: usize,
        _: &RequestView<'_>,
        _: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        self.note("score");
        costs.fill(1.0);
        Ok(())
    }

    fn pick(
        &mut self,
        _: &RequestView<'_>,
        _: &Candidates<'_>,
        _: &[f64],
    ) -> Result<usize, StageError> {
        Ok(0)
    }

    fn decide(
        &mut self,
        _: &RequestView<'_>,
        rows: &Candidates<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), StageError> {
        self.note("decide");
        outcome.costs = vec![1.0; rows.rows()];
        Ok(())
    }
}

#[test]
fn one_call_is_made_only_where_nothing_needs_the_parts_and_either_at_any_decision() {
    let asked = |change: fn(&mut Policies), modes: &[Mode]| {
        let calls = Calls::default();
        let (whole, part) = (calls.clone(), calls.clone());
        let mut policies = policies(OnFailure::Default, move || Notes::new(&whole));
        let stage = MadePolicy::new("part", move |_| Ok(Box::new(Notes::new(&part))));
        policies.catalog.insert(Arc::new(stage)).expect("no built-in is named so");
        change(&mut policies);
        let router = router(policies, [worker(1), worker(2)]);
        for &mode in modes {
            router.route(&request(1), moment(1), mode).expect("it is routed");
        }
        std::mem::take(&mut *calls.lock().expect("not poisoned"))
    };
    let modes = [Mode::Book, Mode::DryRun, Mode::Book, Mode::Record, Mode::Book];
    assert_eq!(asked(|_| {}, &modes), ["decide", "score", "decide", "score", "decide"]);
    // A stage may have to be left out.
    let skips = |policies: &mut Policies| {
        policies.selection.instances[0].on_failure = OnFailure::Skip;
    };
    assert_eq!(asked(skips, &[Mode::Book]), ["score"]);
    let bypasses = |policies: &mut Policies| {
        policies.selection.instances[0].safeguards.on_all_filtered = OnAllFiltered::Bypass;
    };
    assert_eq!(asked(bypasses, &[Mode::Book]), ["score"]);
    // Stages of several components.
    let composed = |policies: &mut Policies| {
        let stage = |policy_type: &str| StageUse {
            source: TypeUse {
                policy_type: policy_type.into(),
                parameters: Arc::default(),
                limits: Limits::default(),
            },
            stage: None,
            normalisation: crate::policy::normalisation::Normalisation::None,
            weight: 1.0,
            on_failure: OnFailure::Default,
        };
        let scorers = vec![stage("made"), stage("part")];
        let recipe = Recipe::Composed { filters: vec![], scorers, picker: None };
        policies.selection.instances[0].recipe = recipe;
    };
    assert_eq!(asked(composed, &[Mode::Book]), ["score", "score"]);
}
