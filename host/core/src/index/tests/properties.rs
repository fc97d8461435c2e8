//! Random streams of events against the slow index.

use proptest::prelude::*;

use super::super::{CacheEvent, Change, Content, Overlap, PrefixIndex, Stored, Tier};
use super::model::{Model, chain, rank, snapshot};

const WORKERS: u64 = 7;

/// What happens, in numbers that are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Store {
        rank: u64,
        path: usize,
        from: usize,
        count: usize,
        tier: usize,
    },
    Remove {
        rank: u64,
        path: usize,
        from: usize,
        count: usize,
        tier: usize,
        order: u8,
    },
    Clear {
        rank: u64,
    },
    Leave {
        rank: u64,
    },
    /// The one before, once more.
    Again,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let part = || (0..WORKERS, 0..64_usize, 0..128_usize, 1..100_usize, 0..16_usize);
    let step = prop_oneof![
        8 => part().prop_map(|(rank, path, from, count, tier)| Step::Store {
            rank, path, from, count, tier
        }),
        6 => (part(), any::<u8>()).prop_map(|((rank, path, from, count, tier), order)| {
            Step::Remove { rank, path, from, count, tier, order }
        }),
        1 => (0..WORKERS).prop_map(|rank| Step::Clear { rank }),
        1 => (0..WORKERS).prop_map(|rank| Step::Leave { rank }),
        1 => Just(Step::Again),
    ];
    prop::collection::vec(step, 1..120)
}

/// Prompts that share beginnings: each goes on from a part of an earlier one.
fn paths(shape: &[(usize, usize, usize)]) -> Vec<Vec<u64>> {
    let mut paths: Vec<Vec<u64>> = vec![];
    let mut next = 1;
    for &(earlier, shared, own) in shape {
        let mut path = match paths.get(earlier % paths.len().max(1)) {
            Some(earlier) => earlier[..shared.min(earlier.len())].to_vec(),
            None => vec![],
        };
        path.extend((0..own).map(|at| next + at as u64));
        next += own as u64;
        paths.push(path);
    }
    paths
}

/// Most events are of the device's memory.
fn tier(number: usize) -> Tier {
    Tier::ALL.get(number.saturating_sub(12)).copied().unwrap_or_default()
}

/// What engines call a block.
#[derive(Clone, Copy, Debug)]
enum Names {
    /// All alike.
    Shared,
    /// Each otherwise than any other.
    Own,
    /// By small numbers, with which each means another block.
    Colliding,
    /// The same, and by what others call it too: nothing more is asked than that all stays in order.
    Any,
}

/// What a rank calls the blocks of `names`, which are known in general by these hashes.
fn called(how: Names, rank: u64, names: &[u64], all: &[u64]) -> Vec<u64> {
    let own = |&name: &u64| match how {
        Names::Shared => name,
        Names::Own => crate::hashing::sequence_hash(Some(rank), name),
        Names::Colliding | Names::Any => {
            let number = all.binary_search(&name).expect("it is one of all") as u64;
            (number + rank * 3) % all.len() as u64
        }
    };
    names.iter().map(own).collect()
}

fn run(
    shape: &[(usize, usize, usize)],
    steps: &[Step],
    how: Names,
    one_tier: bool,
    step_size: usize,
) {
    let paths: Vec<(Vec<u64>, Vec<u64>)> =
        paths(shape).into_iter().map(|path| (chain(&path), path)).collect();
    let mut all: Vec<u64> = paths.iter().flat_map(|(names, _)| names.clone()).collect();
    all.sort_unstable();
    all.dedup();
    let (index, mut model) = (PrefixIndex::default(), Model::default());
    // The same in steps, of which each event takes one or many.
    let in_steps = PrefixIndex::default();
    let apply = |rank, event: CacheEvent<'_>| {
        let mut whole = Change::new(rank, event).in_steps_of(usize::MAX);
        assert!(!index.step(&mut whole), "one step does it all");
        let mut change = Change::new(rank, event).in_steps_of(step_size);
        while in_steps.step(&mut change) {}
        if !matches!(how, Names::Any) {
            assert_eq!(change.applied(), whole.applied());
        }
    };
    let tier = |number| if one_tier { Tier::Device } else { tier(number) };
    let part = |r: u64, path: usize, from: usize, count: usize| {
        let (names, blocks) = &paths[path % paths.len()];
        let names = called(how, r, names, &all);
        let from = from % names.len();
        let to = (from + count).min(names.len());
        let parent = from.checked_sub(1).map(|at| names[at]);
        (parent, names[from..to].to_vec(), &blocks[from..to])
    };
    let mut last = None;
    for step in steps {
        // Whoever asked for messages again gets some that it had.
        let step = if let Step::Again = step { last.unwrap_or(step) } else { step };
        last = Some(step);
        // What the slow index is then; none if the names would mean too much.
        let strict = matches!(how, Names::Colliding);
        let then = |change: &dyn Fn(&mut Model)| {
            let mut then = model.clone();
            change(&mut then);
            (!strict || !then.two_names).then_some(then)
        };
        match *step {
            Step::Store { rank: r, path, from, count, tier: t } => {
                // Half of them at the beginning, so that there is something to go on from.
                let from = if from % 2 == 0 { 0 } else { from };
                let (parent, engines, blocks) = part(r, path, from, count);
                let content = Content::Blocks(blocks);
                let stored = Stored { parent, engines: &engines, content, tier: tier(t) };
                let store =
                    |model: &mut Model| model.store(rank(r), parent, &engines, blocks, tier(t));
                let Some(then) = then(&store) else { continue };
                apply(rank(r), CacheEvent::Stored(stored));
                model = then;
            }
            Step::Remove { rank: r, path, from, count, tier: t, order } => {
                let (_, mut engines, _) = part(r, path, from, count);
                match order % 4 {
                    0 => {}
                    1 => engines.reverse(),
                    2 => engines.retain(|engine| engine % 3 != 0),
                    _ => engines.extend_from_within(..engines.len() / 2),
                }
                let Some(then) = then(&|model| model.remove(rank(r), &engines, tier(t))) else {
                    continue;
                };
                apply(rank(r), CacheEvent::Removed { engines: &engines, tier: tier(t) });
                model = then;
            }
            Step::Clear { rank: r } => {
                apply(rank(r), CacheEvent::Cleared);
                model.clear(rank(r));
            }
            Step::Leave { rank: r } => {
                index.remove_rank(rank(r));
                in_steps.remove_rank(rank(r));
                model.clear(rank(r));
            }
            Step::Again => {}
        }
        // What nobody holds is known until it is swept; the slow index forgets at once.
        for index in [&index, &in_steps] {
            while index.tidy() {}
            index.state.read().check();
        }
    }
    if !model.two_names {
        for index in [index, in_steps] {
            compare(&index, &model, &paths);
        }
    }
}

/// What an index finds is what the slow one finds.
fn compare(index: &PrefixIndex, model: &Model, paths: &[(Vec<u64>, Vec<u64>)]) {
    let rows = snapshot(WORKERS);
    let mut overlap = Overlap::default();
    for (names, _) in paths {
        for end in [names.len(), names.len() / 2, 1] {
            index.look_up(&names[..end], &rows, &mut overlap);
            for row in 0..rows.rows.len() {
                let found = Tier::ALL.map(|tier| overlap.of_row(tier, row));
                assert_eq!(found, model.overlap(rows.rows[row], &names[..end]), "row {row}");
                let one = index.look_up_rank(&names[..end], rows.rows[row]);
                assert_eq!(one.map(|blocks| blocks as f64), found, "row {row} by itself");
            }
        }
    }
    assert_eq!(index.stats().blocks, model.known().len());
    assert_eq!(index.stats().held, model.held_blocks());
    assert_eq!(index.stats().orphans, model.orphans());
}

fn shape() -> impl Strategy<Value = Vec<(usize, usize, usize)>> {
    prop::collection::vec((0..64_usize, 0..140_usize, 1..90_usize), 1..8)
}

fn names() -> impl Strategy<Value = Names> {
    prop_oneof![Just(Names::Shared), Just(Names::Own), Just(Names::Colliding), Just(Names::Any)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_of_events_leads_to_what_the_slow_index_says(
        shape in shape(),
        steps in steps(),
        names in names(),
        step_size in 1..80_usize,
    ) {
        run(&shape, &steps, names, true, step_size);
    }

    #[test]
    fn any_stream_over_all_tiers_leads_to_what_the_slow_index_says(
        shape in shape(),
        steps in steps(),
        names in names(),
        step_size in 1..80_usize,
    ) {
        run(&shape, &steps, names, false, step_size);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What was lost comes later, and some of it twice: an engine's stores, cut anywhere, in any
    /// order, lead to what they would have in theirs, but for copies.
    #[test]
    fn stores_in_any_order_lead_to_the_same(
        length in 1..150_usize,
        cuts in prop::collection::vec((0..150_usize, any::<u64>()), 0..12),
        again in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        // One name for two blocks can't be told apart if a message is lost.
        names in prop_oneof![Just(Names::Shared), Just(Names::Own)],
    ) {
        let blocks: Vec<u64> = (1..=length as u64).collect();
        let all = chain(&blocks);
        let mut sorted = all.clone();
        sorted.sort_unstable();
        let mut order: std::collections::BTreeMap<usize, u64> = [(0, 0)].into();
        order.extend(cuts.into_iter().filter(|(at, _)| *at < length));
        let starts: Vec<usize> = order.keys().copied().chain([length]).collect();
        let mut stretches: Vec<(usize, usize)> = starts.windows(2).map(|w| (w[0], w[1])).collect();
        stretches.sort_by_key(|(from, _)| order[from]);
        let twice: Vec<_> = again.iter().map(|at| *at.get(&stretches)).collect();
        stretches.extend(twice);
        let index = PrefixIndex::default();
        for r in 0..2 {
            let called = called(names, r, &all, &sorted);
            for &(from, to) in &stretches {
                let parent = from.checked_sub(1).map(|at| called[at]);
                let (engines, content) = (&called[from..to], Content::Blocks(&blocks[from..to]));
                let stored = Stored { parent, engines, content, tier: Tier::Device };
                index.apply(rank(r), CacheEvent::Stored(stored));
            }
            index.state.read().check();
            prop_assert_eq!(index.look_up_rank(&all, rank(r))[0], length as u64);
        }
        prop_assert_eq!(index.stats().orphans, 0);
        prop_assert_eq!(index.stats().blocks, length);
    }
}

#[test]
fn what_is_taken_back_by_anothers_name_leaves_all_in_order() {
    let store = |rank, path, from, count| Step::Store { rank, path, from, count, tier: 0 };
    let steps = [
        store(0, 0, 5, 1),
        store(2, 0, 36, 58),
        store(5, 20, 126, 58),
        store(0, 0, 0, 1),
        Step::Remove { rank: 0, path: 0, from: 0, count: 1, tier: 0, order: 0 },
        Step::Clear { rank: 2 },
        Step::Remove { rank: 5, path: 61, from: 19, count: 69, tier: 4, order: 145 },
        Step::Again,
        Step::Remove { rank: 5, path: 56, from: 56, count: 99, tier: 2, order: 178 },
    ];
    let shape = [(0, 0, 61), (0, 61, 27), (0, 51, 67), (53, 96, 66)];
    run(&shape, &steps, Names::Colliding, true, 62);
    run(&shape, &steps, Names::Any, true, 62);
}
