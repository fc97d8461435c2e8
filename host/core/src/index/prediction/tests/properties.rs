//! Random prompts against predictions that are made slowly.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A prompt, and when it ends.
type Sent = (Arc<[u64]>, u64);

/// Predictions, done slowly: for every rank, each block's reasons.
#[derive(Default)]
struct Model {
    /// By time: prompts that were answered, and when they end; and those that weren't yet.
    ends: Vec<Vec<Sent>>,
    open: Vec<Vec<Option<Sent>>>,
    /// By capacity: running prompts, and blocks with their last release.
    running: Vec<Vec<Option<Arc<[u64]>>>>,
    idle: Vec<Vec<(u64, usize, u64)>>,
    /// The last release of each block that is there.
    released: Vec<BTreeMap<u64, u64>>,
    releases: u64,
}

impl Model {
    fn by_time(&self, rank: usize, chain: &[u64], now: u64) -> usize {
        let live = self.ends[rank].iter().filter(|(_, end)| *end > now);
        let live = live.chain(self.open[rank].iter().flatten());
        let shared = |other: &[u64]| chain.iter().zip(other).take_while(|(a, b)| a == b).count();
        live.map(|(prompt, _)| shared(prompt)).max().unwrap_or(0)
    }

    fn runs(&self, rank: usize, block: u64) -> bool {
        self.running[rank].iter().flatten().any(|prompt| prompt.contains(&block))
    }

    fn by_capacity(&self, rank: usize, chain: &[u64]) -> usize {
        let held = |block: &&u64| {
            self.runs(rank, **block) || self.idle[rank].iter().any(|(.., idle)| idle == *block)
        };
        chain.iter().take_while(held).count()
    }

    fn evict(&mut self, rank: usize, capacity: usize) {
        loop {
            let blocks: std::collections::BTreeSet<u64> = self.running[rank]
                .iter()
                .flatten()
                .flat_map(|prompt| prompt.iter().copied())
                .chain(self.idle[rank].iter().map(|(.., block)| *block))
                .collect();
            let first = self.idle[rank]
                .iter()
                .min_by_key(|(at, depth, hash)| (*at, std::cmp::Reverse(*depth), *hash));
            let Some(&first) = first.filter(|_| blocks.len() > capacity) else { return };
            self.idle[rank].retain(|entry| *entry != first);
            self.released[rank].remove(&first.2);
        }
    }
}

fn prompts() -> impl Strategy<Value = Vec<Vec<u64>>> {
    prop::collection::vec(prop::collection::vec(0..3_u64, 1..7), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn predictions_by_time_are_what_the_slow_ones_are(
        prompts in prompts(),
        steps in prop::collection::vec(
            (0..2_usize, 0..8_usize, 0..9_u64, 1..20_u64, 0..5_u8, any::<prop::sample::Index>()),
            1..60,
        ),
    ) {
        let prompts: Vec<Arc<[u64]>> = prompts.iter().map(|blocks| prompt(blocks)).collect();
        let predictions = Arc::new(Predictions::default());
        let mut model =
            Model { ends: vec![vec![]; 2], open: vec![vec![]; 2], ..Model::default() };
        let mut running = [Vec::new(), Vec::new()];
        let mut now = 0;
        for (to, which, passed, ttl, what, at) in steps {
            now += passed * 100;
            let chain = &prompts[which % prompts.len()];
            let keep = Keep::Time { ttl_ms: ttl * 100 };
            if what < 2 || running[to].is_empty() {
                running[to].push(predictions.record(keep, rank(to as u64), chain, None, now));
                model.open[to].push(Some((chain.clone(), now + ttl * 100)));
                // Most are answered at once.
                if what == 0 {
                    running[to].pop();
                    model.ends[to].extend(model.open[to].pop().unwrap());
                }
            } else {
                let at = at.index(running[to].len());
                match (what, running[to][at].take()) {
                    (_, None) => {}
                    (2, Some(running)) => running.refused(),
                    (3, Some(mut answered)) => {
                        answered.answered();
                        running[to][at] = Some(answered);
                    }
                    (_, Some(over)) => drop(over),
                }
                let closed = model.open[to][at].take();
                model.ends[to].extend(closed.filter(|_| what != 2));
            }
            predictions.expire(now);
            for chain in &prompts {
                let expected = [0, 1].map(|rank| model.by_time(rank, chain, now) as f64);
                // The other rank's have ended too: time is one for all.
                prop_assert_eq!(held(&predictions, chain), expected);
            }
            predictions.book.lock().check();
        }
        drop(running);
        predictions.expire(u64::MAX);
        prop_assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
        prop_assert_eq!(predictions.stats().blocks, 0);
    }

    #[test]
    fn predictions_by_capacity_are_what_the_slow_ones_are(
        prompts in prompts(),
        capacity in 1..12_usize,
        steps in prop::collection::vec((0..4_u8, 0..2_usize, 0..64_usize), 1..60),
    ) {
        let prompts: Vec<Arc<[u64]>> = prompts.iter().map(|blocks| prompt(blocks)).collect();
        let predictions = Arc::new(Predictions::default());
        let mut model = Model {
            running: vec![vec![]; 2],
            idle: vec![vec![]; 2],
            released: vec![BTreeMap::new(); 2],
            ..Model::default()
        };
        let mut leases = [Vec::new(), Vec::new()];
        for (what, to, which) in steps {
            if what < 2 {
                let chain = &prompts[which % prompts.len()];
                let keep = Keep::Capacity { ttl_ms: 1 };
                let known = Some(capacity as u64);
                leases[to].push(predictions.record(keep, rank(to as u64), chain, known, 0));
                // No more than the memory holds.
                let chain: Arc<[u64]> = chain[..chain.len().min(capacity)].into();
                model.running[to].push(Some(chain.clone()));
                model.idle[to].retain(|(.., block)| !chain.contains(block));
                model.evict(to, capacity);
            } else if let Some(lease) = {
                let at = which % leases[to].len().max(1);
                leases[to].get_mut(at).and_then(Option::take).map(|lease| (at, lease))
            } {
                let (at, lease) = lease;
                let refused = what == 2;
                if refused {
                    lease.refused();
                } else {
                    drop(lease);
                }
                model.releases += 1;
                let chain = model.running[to][at].take().unwrap();
                for (depth, &block) in chain.iter().enumerate() {
                    if !refused {
                        model.released[to].insert(block, model.releases);
                    }
                    let released = model.released[to].get(&block).copied();
                    if let Some(released) = released.filter(|_| !model.runs(to, block)) {
                        model.idle[to].push((released, depth, block));
                    }
                }
            }
            for chain in &prompts {
                let expected = [0, 1].map(|rank| model.by_capacity(rank, chain) as f64);
                prop_assert_eq!(held(&predictions, chain), expected);
            }
            predictions.book.lock().check();
        }
    }

    /// In steps of a few blocks, so that a rank may turn again before it has turned.
    #[test]
    fn predictions_that_turn_again_and_again_end(
        prompts in prompts(),
        step in 2..6_usize,
        steps in prop::collection::vec(
            (0..8_u8, 0..2_usize, any::<prop::sample::Index>(), 1..9_u64), 1..80,
        ),
    ) {
        let prompts: Vec<Arc<[u64]>> = prompts.iter().map(|blocks| prompt(blocks)).collect();
        let predictions = Arc::new(Predictions::in_steps_of(step));
        let mut running = Vec::new();
        let mut now = 0;
        for (what, to, at, number) in steps {
            let chain = at.get(&prompts);
            let ttl_ms = number * 100;
            let keep = match what {
                0 | 1 => Some((Keep::Time { ttl_ms }, None)),
                2 | 3 => Some((Keep::Capacity { ttl_ms }, Some(number))),
                _ => None,
            };
            if let Some((keep, known)) = keep {
                running.push(predictions.record(keep, rank(to as u64), chain, known, now));
                // What it says is of the last prompt's whole way, if there is room for it.
                let is_held = held(&predictions, chain)[to] > 0.0;
                prop_assert_eq!(is_held, running.last().is_some_and(Option::is_some));
            } else if what == 4 {
                predictions.keep_by_time(ttl_ms, now);
            } else if what == 5 {
                now += ttl_ms;
                predictions.tidy(now);
            } else if let Some(many) = std::num::NonZeroUsize::new(running.len()) {
                let one = running[at.index(many.get())].take();
                one.into_iter().for_each(|one| if what == 6 { one.refused() } else { drop(one) });
            }
            predictions.book.lock().check();
        }
        drop(running);
        predictions.keep_by_time(100, now);
        predictions.expire(u64::MAX);
        prop_assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
        prop_assert_eq!(predictions.stats().held, 0);
        prop_assert_eq!(predictions.stats().blocks, 0);
    }
}
