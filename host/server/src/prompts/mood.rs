//! What was noted of models lately: whether their engines tell of their caches, whether one that was
//! asked for tokens failed, and what the log has been told already.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::telemetry::Seldom;

/// For so long a look at what engines tell is good. A fleet of a thousand ranks takes some
/// microseconds to look at.
const LOOK_MS: u64 = 1_000;
/// After its first failure an engine is left alone for so long; after each further one twice as
/// long.
const FIRST_REST_MS: u64 = 1_000;
/// It is left alone for at most so long.
const LONGEST_REST_MS: u64 = 30_000;

/// What holds for a model now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mood {
    /// Some engine of it tells of its cache.
    pub(super) tells: bool,
    /// Its engines aren't to be asked for tokens.
    pub(super) rests: bool,
}

#[derive(Debug, Default)]
struct Notes {
    tells: bool,
    looked_ms: Option<u64>,
    failures: u32,
    /// What the engine's last failure was.
    fault: String,
    rests_until_ms: u64,
    /// What the log was told, by reason.
    told: HashMap<&'static str, Seldom>,
}

/// The notes on all models.
#[derive(Debug, Default)]
pub(super) struct Moods(Mutex<HashMap<Arc<str>, Notes>>);

impl Moods {
    /// What holds for a model; `tells` is asked now and then, if that is of `interest`.
    pub(super) fn of(
        &self,
        model: &Arc<str>,
        now_ms: u64,
        interest: bool,
        tells: impl FnOnce() -> bool,
    ) -> Mood {
        let mut all = self.0.lock();
        let notes = all.entry(model.clone()).or_default();
        let fresh = notes.looked_ms.is_some_and(|at| now_ms.saturating_sub(at) < LOOK_MS);
        if fresh || !interest {
            return notes.mood(now_ms);
        }
        notes.looked_ms = Some(now_ms);
        // Without the lock: others go by what was seen last.
        let tells = MutexGuard::unlocked(&mut all, tells);
        let notes = all.entry(model.clone()).or_default();
        notes.tells = tells;
        notes.mood(now_ms)
    }

    /// An engine gave tokens.
    pub(super) fn engine_answered(&self, model: &str) {
        if let Some(notes) = self.0.lock().get_mut(model) {
            notes.failures = 0;
        }
    }

    /// An engine should have given tokens, and didn't.
    pub(super) fn engine_failed(&self, model: &Arc<str>, now_ms: u64, fault: String) {
        let mut all = self.0.lock();
        let notes = all.entry(model.clone()).or_default();
        notes.fault = fault;
        // Those that were under way when it failed fail together.
        if now_ms >= notes.rests_until_ms {
            let rest = FIRST_REST_MS << notes.failures.min(5);
            notes.failures = notes.failures.saturating_add(1);
            notes.rests_until_ms = now_ms.saturating_add(rest.min(LONGEST_REST_MS));
        }
    }

    /// Why its engines aren't asked, in words.
    pub(super) fn why_rests(&self, model: &str) -> String {
        let all = self.0.lock();
        let fault = all.get(model).map_or("no tokens came", |notes| &notes.fault);
        format!("the model's engines are left alone for a while after a failure: {fault}")
    }

    /// Whether the log may be told; if so, it counts as told. Inside: how often it wasn't, since it
    /// was told last.
    pub(super) fn complain(
        &self,
        model: &Arc<str>,
        reason: &'static str,
        now_ms: u64,
    ) -> Option<u64> {
        let mut all = self.0.lock();
        let told = &mut all.entry(model.clone()).or_default().told;
        told.entry(reason).or_default().tell(now_ms)
    }

    /// Forgets the others.
    pub(super) fn keep(&self, served: impl Fn(&str) -> bool) {
        self.0.lock().retain(|model, _| served(model));
    }
}

impl Notes {
    fn mood(&self, now_ms: u64) -> Mood {
        Mood { tells: self.tells, rests: now_ms < self.rests_until_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_fails_is_left_alone_for_longer_and_longer() {
        let (moods, model) = (Moods::default(), Arc::from("m"));
        let rests = |now_ms| moods.of(&model, now_ms, false, || false).rests;
        let mut now_ms = 0;
        for rest in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            assert!(!rests(now_ms));
            moods.engine_failed(&model, now_ms, "it is down".to_owned());
            // As those do that were under way.
            moods.engine_failed(&model, now_ms + 1, "it is down".to_owned());
            assert!(rests(now_ms + rest - 1), "{rest}");
            now_ms += rest;
        }
        assert!(moods.why_rests(&model).ends_with(": it is down"));
        moods.engine_answered(&model);
        moods.engine_failed(&model, now_ms, "it is down".to_owned());
        assert!(!rests(now_ms + 1_000));
    }

    #[test]
    fn the_log_is_told_once_a_minute_for_each_model_and_reason() {
        let moods = Moods::default();
        let [one, other] = ["m", "n"].map(Arc::from);
        assert_eq!(moods.complain(&one, "busy", 5), Some(0));
        assert_eq!(moods.complain(&one, "busy", 60_004), None);
        assert_eq!(moods.complain(&one, "engine", 6), Some(0));
        assert_eq!(moods.complain(&other, "busy", 6), Some(0));
        assert_eq!(moods.complain(&one, "busy", 60_005), Some(1));
        moods.keep(|model| model == "n");
        assert_eq!(moods.complain(&one, "busy", 60_006), Some(0));
    }

    #[test]
    fn what_engines_tell_is_looked_at_once_a_second_and_only_if_it_matters() {
        let (moods, model) = (Moods::default(), Arc::from("m"));
        assert!(!moods.of(&model, 0, false, || true).tells);
        assert!(moods.of(&model, 0, true, || true).tells);
        assert!(moods.of(&model, 999, true, || false).tells);
        assert!(!moods.of(&model, 1_000, true, || false).tells);
    }
}
