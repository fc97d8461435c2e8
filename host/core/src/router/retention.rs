//! What becomes of a partition whose last worker has left.
//!
//! Owns the rule: it is kept for a while, so that a worker that restarts finds its policy as it
//! left it, and no longer, so that names that came with workers go with them. It is told which
//! partitions are vacant and, now and then, what time it is; it doesn't know who registers workers,
//! and asks no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Router;
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
    /// Those without workers, so that nobody looks through those that have some.
    vacant: BTreeMap<PartitionKey, Option<Seen>>,
}

/// When a vacancy was first seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Which vacancy: a partition may have had workers since, and be vacant again.
    since: u64,
    at_ms: u64,
}

impl Vacancies {
    /// A partition has no workers now, or has some.
    pub(super) fn note(&mut self, key: &PartitionKey, is_vacant: bool) {
        if !is_vacant {
            self.vacant.remove(key);
        } else if !self.vacant.contains_key(key) {
            self.vacant.insert(key.clone(), None);
        }
    }

    /// Which of the partitions that are vacant now go: those that have been so for too long, if the
    /// time is told, and those that are too many. Nothing is remembered of them. `vacancy` says how a
    /// partition is vacant; one that isn't, or isn't there, is forgotten here.
    pub(super) fn due(
        &mut self,
        vacancy: impl Fn(&PartitionKey) -> Option<Vacancy>,
        now_ms: Option<u64>,
        retention: Retention,
    ) -> Vec<PartitionKey> {
        if now_ms.is_none() && self.vacant.len() <= retention.most {
            // None is too many, and whose time is over isn't asked.
            return Vec::new();
        }
        let keep_ms = u64::try_from(retention.keep.as_millis()).unwrap_or(u64::MAX);
        let mut free: Vec<(u64, PartitionKey)> = Vec::new();
        let mut gone = Vec::new();
        self.vacant.retain(|key, seen| {
            let Some(Vacancy { since, bookings }) = vacancy(key) else { return false };
            let known = seen.filter(|seen| seen.since == since);
            *seen = known.or(now_ms.map(|at_ms| Seen { since, at_ms }));
            let over = now_ms
                .zip(*seen)
                .is_some_and(|(now, first)| now.saturating_sub(first.at_ms) >= keep_ms);
            match (bookings, over) {
                (0, true) => gone.push(key.clone()),
                (0, false) => free.push((since, key.clone())),
                _ => {}
            }
            true
        });
        free.sort_unstable();
        let surplus = free.len().saturating_sub(retention.most);
        gone.extend(free.into_iter().take(surplus).map(|(_, key)| key));
        gone.iter().for_each(|key| {
            self.vacant.remove(key);
        });
        gone
    }
}

impl Router {
    /// Forgets vacant partitions: those that have been so for too long if the time is told, and
    /// those that are too many. The caller holds the policies.
    pub(super) fn forget(&self, now_ms: Option<u64>) -> Vec<PartitionKey> {
        let mut vacancies = self.vacancies.lock();
        let vacancy = |key: &PartitionKey| self.partition(key)?.vacancy();
        let gone = vacancies.due(vacancy, now_ms, Retention::STANDARD);
        drop(vacancies);
        for key in &gone {
            self.partitions.remove(key);
            tracing::info!(
                partition = %key,
                "a partition without workers is forgotten, with its counts and its policy's state"
            );
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::group;

    const RETENTION: Retention = Retention { keep: Duration::from_secs(1), most: 3 };

    /// Who goes of these, by name, since which generation they are vacant, and their bookings.
    fn due(
        vacancies: &mut Vacancies,
        all: &[(&str, u64, u64)],
        now_ms: Option<u64>,
    ) -> Vec<String> {
        all.iter().for_each(|(name, ..)| vacancies.note(&group(name), true));
        let vacancy = |key: &PartitionKey| {
            let found = all.iter().find(|(name, ..)| **name == *key.routing_group);
            found.map(|&(_, since, bookings)| Vacancy { since, bookings })
        };
        let gone = vacancies.due(vacancy, now_ms, RETENTION);
        gone.into_iter().map(|key| key.routing_group.to_string()).collect()
    }

    #[test]
    fn a_vacant_partition_goes_when_its_time_is_over_and_not_before() {
        let mut vacancies = Vacancies::default();
        let mut at = |now, all: &[_]| due(&mut vacancies, all, now);
        assert!(at(Some(500), &[("a", 1, 0)]).is_empty());
        assert!(at(Some(1_499), &[("a", 1, 0), ("b", 2, 0)]).is_empty());
        // Without the time, nobody's is over.
        assert!(at(None, &[("a", 1, 0), ("b", 2, 0)]).is_empty());
        assert_eq!(at(Some(1_500), &[("a", 1, 0), ("b", 2, 0)]), ["a"]);
        assert_eq!(at(Some(u64::MAX), &[("b", 2, 0)]), ["b"]);
        assert!(vacancies.vacant.is_empty());
    }

    #[test]
    fn one_that_had_a_worker_in_between_has_all_its_time_again() {
        let mut vacancies = Vacancies::default();
        let mut at = |now, all: &[_]| due(&mut vacancies, all, Some(now));
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
        let mut at = |now, all: &[_]| due(&mut vacancies, all, Some(now));
        assert!(at(0, &[("a", 1, 2)]).is_empty());
        assert!(at(5_000, &[("a", 1, 1)]).is_empty());
        assert_eq!(at(5_001, &[("a", 1, 0)]), ["a"]);
    }

    #[test]
    fn of_too_many_the_longest_vacant_go_first() {
        let mut vacancies = Vacancies::default();
        let five = [("a", 9, 0), ("b", 2, 0), ("c", 7, 0), ("d", 3, 0), ("e", 1, 4)];
        // e is the oldest, but carries something, and so neither goes nor counts.
        assert_eq!(due(&mut vacancies, &five, None), ["b"]);
        let left = [("a", 9, 0), ("c", 7, 0), ("d", 3, 0), ("e", 1, 4)];
        assert!(due(&mut vacancies, &left, None).is_empty());
        // Those whose time is over make room for others.
        let _ = due(&mut vacancies, &[("a", 9, 0)], Some(0));
        assert_eq!(due(&mut vacancies, &five, Some(1_000)), ["a"]);
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nobody() {
        let mut vacancies = Vacancies::default();
        let mut at = |now| due(&mut vacancies, &[("a", 1, 0)], Some(now));
        assert!(at(u64::MAX).is_empty());
        assert!(at(0).is_empty());
    }
    #[test]
    fn nobody_is_looked_at_who_has_workers_or_while_there_are_few_without() {
        let mut vacancies = Vacancies::default();
        let looks = std::cell::Cell::new(0);
        let vacancy = |_: &PartitionKey| {
            looks.set(looks.get() + 1);
            Some(Vacancy { since: 1, bookings: 0 })
        };
        for number in 0..1_000 {
            let key = group(&format!("g{number}"));
            vacancies.note(&key, true);
            vacancies.note(&key, number < 3);
            assert!(vacancies.due(vacancy, None, RETENTION).is_empty());
        }
        assert_eq!(looks.get(), 0);
        vacancies.note(&group("one too many"), true);
        assert_eq!(vacancies.due(vacancy, None, RETENTION).len(), 1);
        assert_eq!(looks.get(), 4);
    }
}
