//! Random prompts against a book that says of each block by itself what is to be said of it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// A block, by itself.
#[derive(Default)]
struct Block {
    parent: Option<u64>,
    depth: usize,
    mark: u64,
    open: u32,
    children: u32,
}

/// A prompt that was sent: in which life, its last block that was taken in, and the step it ends with.
type Sent = (RunningPrompt, u32, Option<u64>, u64);

/// One rank's blocks by their hashes.
#[derive(Default)]
struct Slow {
    blocks: BTreeMap<u64, Block>,
    by_capacity: bool,
    most: usize,
    step: usize,
    life: u32,
    releases: u64,
    passed: u64,
}

impl Slow {
    fn is_bare(&self, hash: u64) -> bool {
        let block = &self.blocks[&hash];
        block.children == 0 && block.open == 0
    }

    fn remove(&mut self, hash: u64) -> Option<u64> {
        let Block { parent, mark, .. } = self.blocks.remove(&hash).unwrap();
        let before = self.blocks.get_mut(&parent?).unwrap();
        before.children -= 1;
        before.mark = before.mark.max(mark);
        parent
    }

    /// Its first blocks, then the others.
    fn record(&mut self, chain: &[u64], capacity: usize) -> Option<u64> {
        let mut taken = (None, 0);
        self.take_in(chain, &mut taken, capacity);
        while taken.0.is_some() && self.take_in(chain, &mut taken, capacity) {}
        taken.0
    }

    fn take_in(
        &mut self,
        chain: &[u64],
        (last, done): &mut (Option<u64>, usize),
        capacity: usize,
    ) -> bool {
        let (before, to) = (*last, chain.len().min(*done + self.step));
        for (depth, &hash) in chain.iter().enumerate().take(to).skip(*done) {
            if !self.blocks.contains_key(&hash) {
                if self.blocks.len() >= self.most {
                    break;
                }
                if let Some(last) = *last {
                    self.blocks.get_mut(&last).unwrap().children += 1;
                }
                self.blocks.insert(hash, Block { parent: *last, depth, ..Block::default() });
            }
            (*last, *done) = (Some(hash), depth + 1);
        }
        if *last != before {
            before.into_iter().for_each(|b| self.blocks.get_mut(&b).unwrap().open -= 1);
            last.iter().for_each(|last| self.blocks.get_mut(last).unwrap().open += 1);
        }
        if self.by_capacity {
            self.evict(capacity);
        }
        *done == to && to < chain.len()
    }

    fn evict(&mut self, capacity: usize) {
        for _ in 0..2 * self.step {
            let bare = self.blocks.iter().filter(|(hash, _)| self.is_bare(**hash));
            let first = bare.min_by_key(|(hash, b)| (b.mark, Reverse(b.depth), **hash));
            match first {
                Some((&first, _)) if self.blocks.len() > capacity => self.remove(first),
                _ => return,
            };
        }
    }

    fn close(&mut self, last: u64, mark: Option<u64>) {
        let block = self.blocks.get_mut(&last).unwrap();
        block.open -= 1;
        block.mark = block.mark.max(mark.unwrap_or(0));
        let mut next = Some(last);
        while let Some(hash) = next.filter(|&hash| self.is_bare(hash)) {
            let stays = self.by_capacity || self.blocks[&hash].mark > self.passed;
            if stays && self.blocks[&hash].mark > 0 {
                return;
            }
            next = self.remove(hash);
        }
    }

    fn ended(&self) -> Option<u64> {
        let ended = |(hash, b): &(&u64, &Block)| self.is_bare(**hash) && b.mark <= self.passed;
        self.blocks.iter().find(ended).map(|(&hash, _)| hash)
    }

    fn expire(&mut self) {
        while let Some(hash) = self.ended().filter(|_| !self.by_capacity) {
            self.remove(hash);
        }
    }

    /// From now on it forgets by something else; by time, all that it holds ends with this step.
    fn turn(&mut self, end: Option<u64>) {
        (self.by_capacity, self.life) = (end.is_none(), self.life + 1);
        for block in self.blocks.values_mut() {
            self.releases = self.releases.max(block.mark);
            (block.open, block.mark) = (0, end.unwrap_or(block.mark));
        }
    }
}

/// Prompts that go on from each other's beginnings, some of them longer than any run.
fn prompts() -> impl Strategy<Value = Vec<Arc<[u64]>>> {
    prop::collection::vec((any::<Index>(), any::<Index>(), 0..90_usize), 1..12).prop_map(|parts| {
        let mut prompts: Vec<Vec<u64>> = vec![vec![]];
        for (of, at, more) in parts {
            let before = of.get(&prompts);
            let mut next = before[..at.index(before.len() + 1)].to_vec();
            // The same new blocks sometimes, and others mostly.
            let begin = 1_000 * (more as u64 % 40);
            next.extend((0..more as u64).map(|at| begin + at));
            prompts.push(next);
        }
        let is_one = |blocks: &Vec<u64>| !blocks.is_empty();
        prompts.into_iter().filter(is_one).map(|blocks| prompt(&blocks)).collect()
    })
}

fn small(most: usize, step: usize) -> Arc<Predictions> {
    let book = Mutex::new(Book::new(most, step));
    Arc::new(Predictions { index: PrefixIndex::unnamed(most), book })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stretches_say_what_each_block_would_say_by_itself(
        prompts in prompts(),
        most in prop_oneof![Just(usize::MAX >> 1), 1..300_usize],
        step in prop_oneof![Just(book::STEP), 2..6_usize, 60..70_usize],
        steps in prop::collection::vec((0..12_u8, any::<Index>(), 1..20_u64), 1..60),
    ) {
        prop_assume!(!prompts.is_empty());
        let predictions = small(most, step);
        let mut slow = Slow { most, step, ..Slow::default() };
        let mut running: Vec<Option<Sent>> = Vec::new();
        let mut now = 0;
        for (what, at, number) in steps {
            let chain = at.get(&prompts);
            let ttl_ms = number * 100;
            if slow.blocks.is_empty() {
                // It is a new life.
                (slow.by_capacity, slow.life) = (what % 2 == 0, slow.life + 1);
            }
            match what {
                0..6 => {
                    let capacity = number as usize * 20;
                    let keep = if slow.by_capacity {
                        Keep::Capacity { ttl_ms }
                    } else {
                        Keep::Time { ttl_ms }
                    };
                    let known = Some(capacity as u64);
                    let mut one = predictions.record(keep, rank(0), chain, known, now);
                    one.iter_mut().for_each(RunningPrompt::predict);
                    let chain = &chain[..chain.len().min(capacity)];
                    let last = slow.record(chain, capacity);
                    prop_assert_eq!(one.is_some(), last.is_some());
                    running.extend(one.map(|one| Some((one, slow.life, last, now / 100 + number))));
                }
                6..10 => if let Some(many) = std::num::NonZeroUsize::new(running.len()) {
                    let one = running[at.index(many.get())].take();
                    if let Some((one, life, last, end)) = one {
                        let taken = what < 9;
                        if taken { drop(one) } else { one.refused() }
                        if let Some(last) = last.filter(|_| life == slow.life) {
                            slow.releases += u64::from(slow.by_capacity && taken);
                            let mark = if slow.by_capacity { slow.releases } else { end };
                            slow.close(last, taken.then_some(mark));
                        }
                    }
                },
                10 => {
                    now += ttl_ms;
                    slow.passed = now / 100;
                }
                _ if slow.blocks.is_empty() => {}
                _ if slow.by_capacity => {
                    predictions.keep_by_time(ttl_ms, now);
                    slow.turn(Some(now / 100 + number));
                }
                _ => {
                    slow.turn(None);
                    // There is room: what goes first isn't known before all have turned.
                    let keep = Keep::Capacity { ttl_ms };
                    let mut one = predictions.record(keep, rank(0), chain, Some(1 << 20), now);
                    one.iter_mut().for_each(RunningPrompt::predict);
                    let last = slow.record(chain, 1 << 20);
                    running.extend(one.map(|one| Some((one, slow.life, last, 0))));
                }
            }
            while predictions.tidy(now) {}
            slow.expire();
            for chain in &prompts {
                let expected = chain.iter().take_while(|hash| slow.blocks.contains_key(hash));
                prop_assert_eq!(held(&predictions, chain)[0], expected.count() as f64);
            }
            let book = predictions.book.lock();
            prop_assert_eq!(book.counts().1, slow.blocks.len());
            book.check();
            predictions.index.state.read().check();
        }
        drop(running);
        predictions.keep_by_time(0, now);
        predictions.expire(u64::MAX);
        prop_assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
        let stats = predictions.stats();
        prop_assert_eq!((stats.held, stats.blocks), (0, 0));
    }

    /// Hashes of nobody's prompts: the same again and again, and any behind any.
    #[test]
    fn what_is_held_of_hashes_that_are_no_prompts_is_given_back(
        blocks in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(0..4_u64, 1..9),
                prop::collection::vec(0..3_u64, 60..200),
                (0..3_u64, 1..200_usize).prop_map(|(hash, len)| vec![hash; len]),
            ],
            1..8,
        ),
        step in prop_oneof![Just(book::STEP), 2..6_usize],
        steps in prop::collection::vec((0..8_u8, 0..3_u64, any::<Index>(), 1..20_u64), 1..60),
    ) {
        let prompts: Vec<Arc<[u64]>> = blocks.into_iter().map(Arc::from).collect();
        let predictions = small(1 << 20, step);
        let (mut running, mut now) = (Vec::new(), 0);
        for (what, to, at, number) in steps {
            let ttl_ms = number * 100;
            let keep = match what {
                0 | 1 => Some((Keep::Time { ttl_ms }, None)),
                2 | 3 => Some((Keep::Capacity { ttl_ms }, Some(number * 20))),
                _ => None,
            };
            if let Some((keep, known)) = keep {
                let chain = at.get(&prompts);
                let mut one = predictions.record(keep, rank(to), chain, known, now);
                one.iter_mut().for_each(RunningPrompt::predict);
                running.push(one);
            } else if what == 4 {
                predictions.keep_by_time(ttl_ms, now);
            } else if what == 5 {
                now += ttl_ms;
                predictions.tidy(now);
            } else if let Some(many) = std::num::NonZeroUsize::new(running.len()) {
                let one = running[at.index(many.get())].take();
                one.into_iter().for_each(|one| if what == 6 { one.refused() } else { drop(one) });
            }
            let book = predictions.book.lock();
            book.check();
            // What the book lets go is all that the index holds.
            prop_assert_eq!(predictions.index.stats().held, book.counts().1);
        }
        drop(running);
        predictions.keep_by_time(0, now);
        predictions.expire(u64::MAX);
        prop_assert_eq!(predictions.book.lock().counts(), (0, 0, 0));
        while predictions.tidy(now) {}
        let stats = predictions.stats();
        prop_assert_eq!((stats.held, stats.blocks), (0, 0));
    }
}
