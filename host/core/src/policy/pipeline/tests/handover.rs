//! Whose state is handed over to whom.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::testing::Stateful;

/// One whose state can't be had.
#[derive(Debug)]
struct Keeps(Stateful);

impl PolicyInstance for Keeps {
    fn declaration(&self) -> &crate::policy::Declaration {
        self.0.declaration()
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &crate::policy::Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        self.0.keep(filter, request, rows, verdicts)
    }

    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &crate::policy::Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        self.0.score(scorer, request, rows, costs)
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &crate::policy::Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        self.0.pick(request, rows, costs)
    }

    fn save(&mut self) -> Option<Result<Vec<u8>, StageError>> {
        Some(Err(StageError::refused("it is mine")))
    }
}

fn pipeline(policy_type: &str, instance: impl PolicyInstance + 'static) -> Pipeline {
    let mut pipeline = Pipeline::new("mine".into(), false, Safeguards::default());
    let source = Source::new(Box::new(instance), policy_type.into(), None);
    pipeline.add_whole(source, OnFailure::Default);
    pipeline.seal();
    pipeline
}

fn one(policy_type: &str, state: u64) -> (Pipeline, Arc<AtomicU64>) {
    let number = Arc::new(AtomicU64::new(state));
    let parts = native().picker("first", picker(&[], |_, _, _| Ok(0)));
    let instance = Stateful::new(parts, number.clone(), true);
    (pipeline(policy_type, instance), number)
}

#[test]
fn state_goes_to_the_same_type_and_to_no_other() {
    for (next, handed) in [("a", true), ("b", false)] {
        let (mut before, _) = one("a", 7);
        let (mut after, state) = one(next, 0);
        assert_eq!(after.take_over(&mut before), Ok(handed));
        let expected = if handed { 7 } else { 0 };
        assert_eq!(state.load(std::sync::atomic::Ordering::Relaxed), expected);
    }
}

#[test]
fn one_that_does_not_give_its_state_is_not_replaced() {
    let parts = native().picker("first", picker(&[], |_, _, _| Ok(0)));
    let keeps = Keeps(Stateful::new(parts, Arc::default(), true));
    let (mut after, _) = one("a", 0);
    let failed = after.take_over(&mut pipeline("a", keeps)).map_err(|failure| failure.detail);
    assert_eq!(failed, Err("it is mine".to_owned()));
}
