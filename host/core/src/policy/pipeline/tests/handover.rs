//! Whose state is handed over to whom.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::testing::Stateful;

fn one(policy_type: &str, state: u64) -> (Pipeline, Arc<AtomicU64>) {
    let number = Arc::new(AtomicU64::new(state));
    let parts = native().picker("first", picker(&[], |_, _, _| Ok(0)));
    let instance = Stateful::new(parts, number.clone(), true);
    let mut pipeline = Pipeline::new("mine".into(), false, Safeguards::default());
    let source = Source::new(Box::new(instance), policy_type.into(), None);
    pipeline.add_whole(source, OnFailure::Default);
    pipeline.seal();
    (pipeline, number)
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
