//! The alarm for caches that are told of and never found: "events flow, and nothing ever matches".
//!
//! Owns the rule and what it needs to remember of the last minute. Wrong tokens are the usual cause:
//! another tokenizer, chat template or adapter than the engines'. Nothing else would show it: each
//! request is served, only never where its prompt is cached. It is the one thing that is said of the
//! cache as a whole; what is wrong with one feed is said of that.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::cache::CacheActivity;
use pointsman_core::ids::PartitionKey;

/// How far back it is looked.
const WINDOW: Duration = Duration::from_secs(60);

/// Fewer prompts than these say nothing: the first ones of a fleet have nothing to match.
const ENOUGH: u64 = 20;

/// The alarm of every partition.
#[derive(Debug, Default)]
pub struct CacheAlarm {
    partitions: Mutex<BTreeMap<PartitionKey, Minute>>,
}

/// What was seen of a partition within the last minute, the oldest first.
#[derive(Debug, Default)]
struct Minute {
    seen: VecDeque<(Duration, CacheActivity)>,
    rings: bool,
}

impl CacheAlarm {
    /// Whether events flow in a partition and nothing ever matches.
    #[must_use]
    pub fn rings(&self, partition: &PartitionKey) -> bool {
        self.partitions.lock().get(partition).is_some_and(|minute| minute.rings)
    }

    /// Takes note of what has happened in all partitions when so much time has passed.
    pub(super) fn look(
        &self,
        passed: Duration,
        now: impl IntoIterator<Item = (PartitionKey, CacheActivity)>,
    ) {
        let mut partitions = self.partitions.lock();
        let mut before = std::mem::take(&mut *partitions);
        for (key, activity) in now {
            let mut minute = before.remove(&key).unwrap_or_default();
            minute.look(passed, activity, &key);
            partitions.insert(key, minute);
        }
    }
}

impl Minute {
    fn look(&mut self, passed: Duration, now: CacheActivity, partition: &PartitionKey) {
        while self.seen.len() > 1 && self.seen.get(1).is_some_and(|(at, _)| *at + WINDOW <= passed)
        {
            self.seen.pop_front();
        }
        // Before the first look there was nothing.
        let began = self.seen.front().map(|(_, activity)| *activity).unwrap_or_default();
        self.seen.push_back((passed, now));
        let rings = never_matches(began, now);
        if rings && !self.rings {
            tracing::warn!(
                %partition,
                prompts = now.asked - began.asked,
                stored_blocks = now.stored - began.stored,
                "engines tell of stored blocks, and no prompt matches any: compare the model's \
                 tokenizer, chat template and adapters with the engines', with GET /v1/overlap"
            );
        } else if self.rings && !rings {
            tracing::info!(%partition, "prompts match again what engines tell, or none come");
        }
        self.rings = rings;
    }
}

fn never_matches(began: CacheActivity, now: CacheActivity) -> bool {
    let since = |of: fn(&CacheActivity) -> u64| of(&now).saturating_sub(of(&began));
    let enough = since(|of| of.asked) >= ENOUGH && since(|of| of.matched) == 0;
    // Where engines say how much they had cached, prompts that are all new are no cause for alarm.
    let hits = since(|of| of.answers) == 0 || since(|of| of.answers_with_hits) > 0;
    enough && since(|of| of.stored) > 0 && hits
}

#[cfg(test)]
mod tests {
    use pointsman_core::ids::Role;

    use super::*;

    fn partition() -> PartitionKey {
        PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Aggregated }
    }

    fn at(alarm: &CacheAlarm, seconds: u64, activity: CacheActivity) -> bool {
        alarm.look(Duration::from_secs(seconds), [(partition(), activity)]);
        alarm.rings(&partition())
    }

    #[test]
    fn events_that_never_match_ring_within_a_minute_and_a_match_ends_it() {
        let alarm = CacheAlarm::default();
        let mut activity = CacheActivity::default();
        assert!(!at(&alarm, 0, activity));
        let rang = (1..=6).position(|look| {
            activity.asked += 5;
            activity.stored += 100;
            at(&alarm, look * 10, activity)
        });
        assert_eq!(rang, Some(3), "with the twentieth prompt");
        activity.matched += 1;
        assert!(!at(&alarm, 70, activity));
        // A minute later that match is forgotten.
        for look in 8..=13 {
            activity.asked += 20;
            activity.stored += 1;
            at(&alarm, look * 10, activity);
        }
        assert!(alarm.rings(&partition()));
    }

    #[test]
    fn silence_few_prompts_and_prompts_that_engines_find_new_do_not_ring() {
        for quiet in [
            CacheActivity { asked: 1_000, ..CacheActivity::default() },
            CacheActivity { asked: 19, stored: 1_000, ..CacheActivity::default() },
            CacheActivity { asked: 1_000, stored: 1_000, matched: 1, ..CacheActivity::default() },
            CacheActivity { asked: 1_000, stored: 1_000, answers: 900, ..CacheActivity::default() },
        ] {
            assert!(!at(&CacheAlarm::default(), 10, quiet), "{quiet:?}");
        }
        let told = CacheActivity { answers: 900, answers_with_hits: 1, ..CacheActivity::default() };
        let told = CacheActivity { asked: 1_000, stored: 1_000, ..told };
        assert!(at(&CacheAlarm::default(), 10, told));
    }

    #[test]
    fn a_partition_that_is_gone_is_forgotten() {
        let alarm = CacheAlarm::default();
        let bad = CacheActivity { asked: 50, stored: 50, ..CacheActivity::default() };
        assert!(at(&alarm, 10, bad));
        alarm.look(Duration::from_secs(20), []);
        assert!(!alarm.rings(&partition()));
        assert!(alarm.partitions.lock().is_empty());
    }
}
