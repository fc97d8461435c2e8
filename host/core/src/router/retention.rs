//! What becomes of a partition whose last worker has left.
//!
//! Owns the rule: it is kept for a while, so that a worker that restarts finds its policy as it
//! left it, and no longer, so that names that came with workers go with them. It is told which
//! partitions are vacant and, now and then, what time it is; it doesn't know who registers workers,
//! and asks no clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Partitions, Router};
use crate::ids::PartitionKey;
use crate::partition::Vacancy;

/// How long, and how many, partitions without workers are kept. One that still has a booking stays
/// until that is given back, whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// From when it was first seen without workers.
    pub keep: Duration,
    /// The most of those without bookings; of more, those go first that have been without workers
    /// longest.
    pub most: usize,
}

impl Retention {
    /// What every router goes by.
    pub const STANDARD: Self = Self {
        // An engine that restarts is usually back by then, its weights loaded.
        keep: Duration::from_secs(300),
        // Each holds its policy's instances: a quarter of the places in the usual pool.
        most: 64,
    };
}

/// The vacant partitions, and since when they are known to be so.
#[derive(Debug, Default)]
pub(super) struct Vacancies {
    seen: BTreeMap<PartitionKey, Seen>,
}

/// When a vacancy was first seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Which vacancy: a partition may have had workers since, and be vacant again.
    since: u64,
    at_ms: u64,
}

impl Vacancies {
    /// Which of the partitions that are vacant now go: those that have been so for too long, if the
    /// time is told, and those that are too many. Nothing is remembered of them.
    pub(super) fn due(
        &mut self,
        vacant: Vec<(PartitionKey, Vacancy)>,
        now_ms: Option<u64>,
        retention: Retention,
    ) -> Vec<PartitionKey> {
        let keep_ms = u64::try_from(retention.keep.as_millis()).unwrap_or(u64::MAX);
        let mut seen = BTreeMap::new();
        let mut free: Vec<(u64, PartitionKey)> = Vec::new();
        let mut gone = Vec::new();
        for (key, Vacancy { since, bookings }) in vacant {
            let known = self.seen.get(&key).copied().filter(|seen| seen.since == since);
            let first = known.or(now_ms.map(|at_ms| Seen { since, at_ms }));
            if let Some(first) = first {
                seen.insert(key.clone(), first);
            }
            let over = now_ms
                .zip(first)
                .is_some_and(|(now, first)| now.saturating_sub(first.at_ms) >= keep_ms);
            match (bookings, over) {
                (0, true) => gone.push(key),
                (0, false) => free.push((since, key)),
                _ => {}
            }
        }
        free.sort_unstable();
        let surplus = free.len().saturating_sub(retention.most);
        gone.extend(free.into_iter().take(surplus).map(|(_, key)| key));
        gone.iter().for_each(|key| {
            seen.remove(key);
        });
        self.seen = seen;
        gone
    }
}

impl Router {
    /// Forgets vacant partitions: those that have been so for too long if the time is told, and
    /// those that are too many. The caller holds the policies.
    pub(super) fn forget(&self, now_ms: Option<u64>) -> Vec<PartitionKey> {
        let partitions = self.partitions.load_full();
        let vacant = partitions.values().filter_map(|partition| {
            partition.vacancy().map(|vacancy| (partition.key().clone(), vacancy))
        });
        let gone = self.vacancies.lock().due(vacant.collect(), now_ms, Retention::STANDARD);
        if gone.is_empty() {
            return gone;
        }
        let mut left = Partitions::clone(&partitions);
        for key in &gone {
            left.remove(key);
            tracing::info!(
                partition = %key,
                "a partition without workers is forgotten, with its counts and its policy's state"
            );
        }
        self.partitions.store(Arc::new(left));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::group;

    const RETENTION: Retention = Retention { keep: Duration::from_secs(1), most: 3 };

    fn vacant(all: &[(&str, u64, u64)]) -> Vec<(PartitionKey, Vacancy)> {
        let vacancy = |&(name, since, bookings)| (group(name), Vacancy { since, bookings });
        all.iter().map(vacancy).collect()
    }

    fn names(gone: Vec<PartitionKey>) -> Vec<String> {
        gone.into_iter().map(|key| key.routing_group.to_string()).collect()
    }

    #[test]
    fn a_vacant_partition_goes_when_its_time_is_over_and_not_before() {
        let mut vacancies = Vacancies::default();
        let mut at = |now, all: &[_]| names(vacancies.due(vacant(all), now, RETENTION));
        assert!(at(Some(500), &[("a", 1, 0)]).is_empty());
        assert!(at(Some(1_499), &[("a", 1, 0), ("b", 2, 0)]).is_empty());
        // Without the time, nobody's is over.
        assert!(at(None, &[("a", 1, 0), ("b", 2, 0)]).is_empty());
        assert_eq!(at(Some(1_500), &[("a", 1, 0), ("b", 2, 0)]), ["a"]);
        assert_eq!(at(Some(u64::MAX), &[("b", 2, 0)]), ["b"]);
        assert!(vacancies.seen.is_empty());
    }

    #[test]
    fn one_that_had_a_worker_in_between_has_all_its_time_again() {
        let mut vacancies = Vacancies::default();
        let mut at = |now, all: &[_]| names(vacancies.due(vacant(all), Some(now), RETENTION));
        assert!(at(0, &[("a", 1, 0)]).is_empty());
        // Its worker came back and left again, both between two looks.
        assert!(at(1_200, &[("a", 5, 0)]).is_empty());
        assert!(at(2_199, &[("a", 5, 0)]).is_empty());
        // Or it was there at one.
        assert!(at(2_200, &[]).is_empty());
        assert!(at(2_300, &[("a", 7, 0)]).is_empty());
        assert_eq!(at(3_300, &[("a", 7, 0)]), ["a"]);
    }

    #[test]
    fn a_booking_keeps_a_partition_and_the_time_goes_on() {
        let mut vacancies = Vacancies::default();
        let mut at = |now, all: &[_]| names(vacancies.due(vacant(all), Some(now), RETENTION));
        assert!(at(0, &[("a", 1, 2)]).is_empty());
        assert!(at(5_000, &[("a", 1, 1)]).is_empty());
        assert_eq!(at(5_001, &[("a", 1, 0)]), ["a"]);
    }

    #[test]
    fn of_too_many_the_longest_vacant_go_first() {
        let mut vacancies = Vacancies::default();
        let five = [("a", 9, 0), ("b", 2, 0), ("c", 7, 0), ("d", 3, 0), ("e", 1, 4)];
        // e is the oldest, but carries something, and so neither goes nor counts.
        assert_eq!(names(vacancies.due(vacant(&five), None, RETENTION)), ["b"]);
        assert!(names(vacancies.due(vacant(&five[..3]), None, RETENTION)).is_empty());
        // Those whose time is over make room for others.
        let _ = vacancies.due(vacant(&[("a", 9, 0)]), Some(0), RETENTION);
        assert_eq!(names(vacancies.due(vacant(&five), Some(1_000), RETENTION)), ["a"]);
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nobody() {
        let mut vacancies = Vacancies::default();
        let mut at = |now| names(vacancies.due(vacant(&[("a", 1, 0)]), Some(now), RETENTION));
        assert!(at(u64::MAX).is_empty());
        assert!(at(0).is_empty());
    }
}
