//! Promises of what a pipeline records of its columns, whether they are copied or handed over.

use super::fused::{Recipe, inputs, made, recipe};
use super::*;
use crate::policy::input::InputSet;
use crate::recording::Recording;
use crate::testing::Fused;

/// A decision's rows, and what its columns come from.
type Decided = (u32, u64);

/// Which columns are neutral in every row of a decision, as far as that is known. Few kinds, so that it is
/// often what it was before.
fn neutral((_, salt): Decided) -> InputSet {
    let mut chance = Chance::new(salt % 4);
    Input::ALL.into_iter().filter(|_| chance.unit() < 0.4).collect()
}

fn fill(decided: Decided, input: Input, column: &mut [f64]) {
    let mut chance = Chance::new(decided.1 ^ input as u64);
    let neutral = neutral(decided).contains(input).then(|| input.neutral());
    let value = |chance: &mut Chance| neutral.unwrap_or_else(|| chance.below(50) as f64 / 4.0);
    column.iter_mut().for_each(|to| *to = value(&mut chance));
}

fn pipeline(recipe: &Recipe, fused: bool) -> Pipeline {
    match fused {
        true => whole(Fused::new(made(recipe)), OnFailure::Default),
        false => whole(made(recipe), OnFailure::Default),
    }
}

/// Decides, and keeps what is watched in a record, as those who decide do.
fn decide(
    pipeline: &mut Pipeline,
    decided: Decided,
    parts: bool,
    record: Option<(&mut Recording, InputSet)>,
) -> Result<Selected, RunError> {
    let snapshot = Arc::new(snapshot([ranked(1, 0, decided.0)]));
    let rows: Vec<u32> = (0..decided.0).collect();
    let request = request(100);
    let view = view(&request, moment(decided.1));
    let neutral = neutral(decided);
    pipeline.load(&snapshot, &rows, neutral, |input, column| fill(decided, input, column));
    let Some((record, watched)) = record else { return pipeline.run(&view, parts) };
    record.begin(&view, 0, true);
    record.rows.take(&snapshot, &rows);
    let columns = &mut record.columns;
    pipeline.keep_columns(columns, watched, neutral, |input, column| fill(decided, input, column));
    let answer = pipeline.run(&view, parts);
    pipeline.hand_over(&mut record.columns);
    answer
}

/// A record whose columns are always copied: what it might give for a policy's is like no policy's.
fn copying() -> Recording {
    let mut record = Recording::default();
    assert!(record.columns.has_place_for(&Matrix::new(&[Input::CachedTokens; 2])));
    record
}

proptest! {
    #[test]
    fn columns_that_are_handed_over_are_those_that_would_be_copied(
        recipe in recipe(),
        watched in inputs(),
        (fused, parts) in any::<(bool, bool)>(),
        decisions in prop::collection::vec((prop_oneof![3..5_u32, 60..70_u32], 0..6_u64), 1..12),
    ) {
        let watched: InputSet = watched.into_iter().filter(|input| input.is_column()).collect();
        let [mut plain, mut copies, mut hands] = [(); 3].map(|()| pipeline(&recipe, fused));
        let mut copied = copying();
        // Two are in use at a time, and one of them more often.
        let mut handed = [(); 2].map(|()| Recording::default());
        let mut packed = Recording::default();
        for (nth, decided) in decisions.into_iter().enumerate() {
            let handed = &mut handed[usize::from(nth % 3 == 2)];
            let answer = decide(&mut plain, decided, parts, None);
            let with_copy = decide(&mut copies, decided, parts, Some((&mut copied, watched)));
            let with_hand = decide(&mut hands, decided, parts, Some((&mut *handed, watched)));
            prop_assert_eq!(&with_copy, &answer);
            prop_assert_eq!(&with_hand, &answer);
            prop_assert!(hands.rows().eq(plain.rows()));
            prop_assert_eq!(&*handed, &copied);
            let json = serde_json::to_string(&handed.columns).expect("it is JSON");
            prop_assert_eq!(json, serde_json::to_string(&copied.columns).expect("it is JSON"));
            packed.copy_from(handed);
            for record in [&*handed, &copied, &packed] {
                prop_assert_eq!(record.check(), Ok(()));
                for input in Input::ALL {
                    prop_assert_eq!(record.columns.has(input), watched.contains(input));
                    let mut column = vec![f64::NAN; decided.0 as usize];
                    fill(decided, input, &mut column);
                    for (row, value) in column.iter().enumerate() {
                        let expected = watched.contains(input).then_some(value.to_bits());
                        let got = record.columns.value(input, row).map(f64::to_bits);
                        prop_assert_eq!(got, expected, "{} of row {}", input, row);
                    }
                }
            }
            // What was handed over was written by the decision, and isn't written again.
            let reads: InputSet = hands.inputs().iter().copied().collect();
            prop_assert_eq!(handed.columns.taken(), watched.intersection(reads));
            prop_assert!(copied.columns.taken().is_empty() && packed.columns.taken().is_empty());
            // Whoever decides from the record itself sees them, too.
            if reads.without(watched).is_empty() {
                let mut again = pipeline(&recipe, fused);
                let replayed = again.replay(handed, None, parts);
                prop_assert_eq!(replayed.ok(), answer.ok());
            }
        }
    }
}
