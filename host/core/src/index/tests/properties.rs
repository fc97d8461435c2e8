//! Random streams of events against the slow index.

use proptest::prelude::*;

use super::super::{CacheEvent, Content, Overlap, PrefixIndex, Stored, Tier};
use super::model::{Model, chain, rank, snapshot};

const WORKERS: u64 = 7;

/// What happens, in numbers that are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Store { rank: u64, path: usize, from: usize, count: usize, tier: usize },
    Remove { rank: u64, path: usize, from: usize, count: usize, tier: usize, order: u8 },
    Clear { rank: u64 },
    Leave { rank: u64 },
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

fn run(shape: &[(usize, usize, usize)], steps: &[Step], one_tier: bool) {
    let paths: Vec<(Vec<u64>, Vec<u64>)> =
        paths(shape).into_iter().map(|path| (chain(&path), path)).collect();
    let (index, mut model) = (PrefixIndex::default(), Model::default());
    let tier = |number| if one_tier { Tier::Device } else { tier(number) };
    let part = |path: usize, from: usize, count: usize| {
        let (names, blocks) = &paths[path % paths.len()];
        let from = from % names.len();
        let to = (from + count).min(names.len());
        (from.checked_sub(1).map(|at| names[at]), &names[from..to], &blocks[from..to])
    };
    for step in steps {
        match *step {
            Step::Store { rank: r, path, from, count, tier: t } => {
                // Half of them at the beginning, so that there is something to go on from.
                let from = if from % 2 == 0 { 0 } else { from };
                let (parent, engines, blocks) = part(path, from, count);
                let content = Content::Blocks(blocks);
                let stored = Stored { parent, engines, content, tier: tier(t) };
                index.apply(rank(r), CacheEvent::Stored(stored));
                model.store(rank(r), parent, engines, tier(t));
            }
            Step::Remove { rank: r, path, from, count, tier: t, order } => {
                let (_, engines, _) = part(path, from, count);
                let mut engines = engines.to_vec();
                match order % 3 {
                    0 => {}
                    1 => engines.reverse(),
                    _ => engines.retain(|engine| engine % 3 != 0),
                }
                index.apply(rank(r), CacheEvent::Removed { engines: &engines, tier: tier(t) });
                model.remove(rank(r), &engines, tier(t));
            }
            Step::Clear { rank: r } => {
                index.apply(rank(r), CacheEvent::Cleared);
                model.clear(rank(r));
            }
            Step::Leave { rank: r } => {
                index.remove_rank(rank(r));
                model.clear(rank(r));
            }
        }
        // What nobody holds is known until it is swept; the slow index forgets at once.
        while index.tidy() {}
        index.state.read().check();
    }
    let rows = snapshot(WORKERS);
    let mut overlap = Overlap::default();
    for (names, _) in &paths {
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
}

fn shape() -> impl Strategy<Value = Vec<(usize, usize, usize)>> {
    prop::collection::vec((0..64_usize, 0..140_usize, 1..90_usize), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_of_events_leads_to_what_the_slow_index_says(shape in shape(), steps in steps()) {
        run(&shape, &steps, true);
    }

    #[test]
    fn any_stream_over_all_tiers_leads_to_what_the_slow_index_says(
        shape in shape(),
        steps in steps(),
    ) {
        run(&shape, &steps, false);
    }
}
