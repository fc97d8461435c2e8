//! Selections that may yet be booked, by the ids that their owners gave them.
//!
//! Owns for how long one is kept, and who gives way when there is no room: the oldest. Each can be booked
//! once. It doesn't know what a booking is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::classifier::Lifecycle;
use pointsman_core::fleet::Epoch;
use pointsman_core::ids::WorkerRank;
use pointsman_core::outcome::OutcomeReporter;
use pointsman_core::request::RouteRequest;

/// What a kept selection takes beside its hashes, roughly, in bytes.
const OVERHEAD: usize = 512;

/// A selection.
#[derive(Debug)]
pub(super) struct Kept {
    /// The request, with its prompt.
    pub(super) request: Arc<RouteRequest>,
    /// Who was selected, in which of his lives.
    pub(super) worker: WorkerRank,
    pub(super) epoch: Epoch,
    /// Prompt tokens that are to be booked.
    pub(super) prefill_tokens: u64,
    /// By this, its request classifier hears of it; none where there is no classifier.
    pub(super) lifecycle: Option<Lifecycle>,
    /// By this, policies that learn hear of it; none if none does.
    pub(super) reporter: Option<OutcomeReporter>,
}

impl Kept {
    fn size(&self) -> usize {
        let request = &self.request;
        let hashes = request.chain.len() + request.booked_chain.as_ref().map_or(0, |it| it.len());
        hashes * size_of::<u64>() + OVERHEAD
    }
}

/// Why selections are kept no longer.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// Their time is over.
    pub(super) expired: Vec<Kept>,
    /// Others have their place, or their id.
    pub(super) displaced: Vec<Kept>,
}

#[derive(Debug)]
struct Entry {
    kept: Kept,
    number: u64,
    ends_ms: u64,
    size: usize,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Cache {
    by_id: HashMap<Arc<str>, Entry>,
    /// From the oldest on; those that have gone since are passed over.
    order: VecDeque<(u64, Arc<str>)>,
    bytes: usize,
    next: u64,
    ttl_ms: u64,
    most: usize,
    most_bytes: usize,
}

impl Cache {
    /// At most so many, of at most so many bytes, each for so long.
    pub(super) fn new(ttl: Duration, most: usize, most_bytes: usize) -> Self {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let (by_id, order) = (HashMap::new(), VecDeque::new());
        Self { by_id, order, bytes: 0, next: 0, ttl_ms, most, most_bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Keeps one; one of the same id gives way to it. Returns those that are kept no longer: it is among
    /// them if it is too large.
    pub(super) fn put(&mut self, id: Arc<str>, kept: Kept, now_ms: u64) -> Dropped {
        let mut dropped = Dropped { expired: self.expire(now_ms), displaced: Vec::new() };
        dropped.displaced.extend(self.remove(&id));
        let (size, number) = (kept.size(), self.next);
        if size > self.most_bytes {
            dropped.displaced.push(kept);
            return dropped;
        }
        while self.by_id.len() >= self.most || self.bytes + size > self.most_bytes {
            let Some(oldest) = self.take_oldest(|_| true) else { break };
            dropped.displaced.push(oldest);
        }
        self.next += 1;
        self.bytes += size;
        self.order.push_back((number, id.clone()));
        let ends_ms = now_ms.saturating_add(self.ttl_ms);
        self.by_id.insert(id, Entry { kept, number, ends_ms, size });
        // Those that were booked are taken out of the order now and then.
        if self.order.len() > 2 * self.by_id.len() + 64 {
            let by_id = &self.by_id;
            self.order.retain(|(number, id)| by_id.get(id).is_some_and(|it| it.number == *number));
        }
        dropped
    }

    /// Takes one that is to be booked; none if it isn't here any more, or never was.
    pub(super) fn take(&mut self, id: &str, now_ms: u64) -> Option<Kept> {
        if self.by_id.get(id)?.ends_ms <= now_ms {
            return None;
        }
        self.remove(id)
    }

    /// Lets those go whose time is over.
    pub(super) fn expire(&mut self, now_ms: u64) -> Vec<Kept> {
        std::iter::from_fn(|| self.take_oldest(|entry| entry.ends_ms <= now_ms)).collect()
    }

    /// Takes the oldest, if it is one of these.
    fn take_oldest(&mut self, is: impl Fn(&Entry) -> bool) -> Option<Kept> {
        loop {
            let (number, id) = self.order.front()?;
            match self.by_id.get(id).filter(|entry| entry.number == *number) {
                None => drop(self.order.pop_front()),
                Some(entry) if !is(entry) => return None,
                Some(_) => {
                    let (_, id) = self.order.pop_front()?;
                    return self.remove(&id);
                }
            }
        }
    }

    fn remove(&mut self, id: &str) -> Option<Kept> {
        let entry = self.by_id.remove(id)?;
        self.bytes -= entry.size;
        Some(entry.kept)
    }
}

#[cfg(test)]
mod tests {
    use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId};

    use super::*;

    fn kept(blocks: usize) -> Kept {
        let partition =
            PartitionKey { model: "m".into(), routing_group: "g".into(), role: Role::Aggregated };
        let mut request = RouteRequest::new("r", partition, 1);
        request.chain = vec![0; blocks].into();
        let worker = WorkerRank { worker_id: WorkerId(1), dp_rank: DpRank(0) };
        let (lifecycle, reporter) = (None, None);
        let request = Arc::new(request);
        Kept { request, worker, epoch: Epoch(1), prefill_tokens: 0, lifecycle, reporter }
    }

    fn cache(most: usize, most_bytes: usize) -> Cache {
        Cache::new(Duration::from_secs(120), most, most_bytes)
    }

    #[test]
    fn one_is_taken_once_and_in_its_time() {
        let mut cache = cache(10, 1 << 20);
        cache.put("a".into(), kept(1), 0);
        cache.put("b".into(), kept(1), 1);
        assert!(cache.take("a", 119_999).is_some() && cache.take("a", 119_999).is_none());
        assert!(cache.take("b", 120_001).is_none(), "its time is over");
        assert_eq!((cache.expire(120_000).len(), cache.expire(120_001).len()), (0, 1));
        assert_eq!((cache.len(), cache.bytes, cache.order.len()), (0, 0, 0));
    }

    #[test]
    fn the_oldest_gives_way_to_more_in_number_or_in_size_and_an_id_to_itself() {
        let mut cache = cache(3, 3 * (OVERHEAD + 80));
        for id in ["a", "b", "c"] {
            assert!(cache.put(id.into(), kept(10), 0).displaced.is_empty());
        }
        assert_eq!(cache.put("a".into(), kept(10), 1).displaced.len(), 1, "itself");
        assert_eq!(cache.put("d".into(), kept(1), 1).displaced.len(), 1, "b");
        assert!(cache.take("b", 1).is_none());
        assert_eq!(cache.put("e".into(), kept(150), 1).displaced.len(), 3, "all the others");
        assert_eq!(cache.put("f".into(), kept(1_000), 1).displaced.len(), 1, "it is too large");
        assert!(cache.take("e", 1).is_some() && cache.take("f", 1).is_none());
        assert_eq!((cache.len(), cache.bytes), (0, 0));
    }

    #[test]
    fn what_was_booked_leaves_nothing_behind() {
        let mut cache = cache(10, 1 << 20);
        for at in 0..10_000 {
            let id: Arc<str> = format!("{at}").into();
            cache.put(id.clone(), kept(1), 0);
            assert!(cache.take(&id, 0).is_some());
        }
        assert!(cache.order.len() < 100 && cache.by_id.is_empty(), "{}", cache.order.len());
    }
}
