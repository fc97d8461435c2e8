//! Sends a session's first request to the worker with the fewest requests, and every further one there,
//! whatever the load, as long as that worker is a candidate.

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;
use pointsman_sdk::recent::Recent;

/// The least loaded worker for a session's first request; that one from then on.
#[derive(Debug, Clone, Copy)]
pub struct StickyMinLoad;

export_policy!(StickyMinLoad);

impl Policy for StickyMinLoad {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, environment: &Environment) -> Result<Stages> {
        let sessions = Recent::new(MOST_SESSIONS).seeded(environment.seed);
        let sticky = Shared::new(Sticky { settings, sessions, evicted_ms: 0 });
        Ok(Stages::new().picker(sticky.clone()).handover(sticky))
    }
}

/// Sessions that are remembered at once; further ones go unbound.
const MOST_SESSIONS: usize = 65_536;
/// Sessions that are forgotten in one decision, so that none costs much more than others.
const MOST_EVICTED: usize = 256;
/// Sessions that a reload takes along, the ones used last.
const MOST_HANDED_OVER: usize = 1_000;
/// Bytes of a session's id; a longer one goes unbound.
const MOST_ID_BYTES: usize = 256;

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Seconds without a request after which a session may be forgotten.
    pub max_idle_secs: u32,
    /// Seconds between two looks for idle sessions.
    pub eviction_interval_secs: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_idle_secs: 14_400, eviction_interval_secs: 60 }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        let year = 31_536_000.0;
        parameters::all([
            parameters::within("max_idle_secs", self.max_idle_secs.into(), 1.0, year),
            parameters::within(
                "eviction_interval_secs",
                self.eviction_interval_secs.into(),
                1.0,
                year,
            ),
        ])
    }
}

/// Where sessions are.
struct Sticky {
    settings: Settings,
    sessions: Recent<Worker>,
    /// When idle sessions were last looked for.
    evicted_ms: u64,
}

impl Sticky {
    fn evict(&mut self, now_ms: u64) {
        let interval_ms = u64::from(self.settings.eviction_interval_secs) * 1_000;
        if now_ms.saturating_sub(self.evicted_ms) < interval_ms {
            return;
        }
        let idle_ms = u64::from(self.settings.max_idle_secs) * 1_000;
        // Where there are more, the next decision goes on.
        if self.sessions.forget_idle(now_ms, idle_ms, MOST_EVICTED) < MOST_EVICTED {
            self.evicted_ms = now_ms;
        }
    }
}

impl WorkerPicker for Sticky {
    fn name(&self) -> String {
        "sticky".to_owned()
    }

    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::ActiveRequests]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let now_ms = cx.request.now_ms;
        self.evict(now_ms);
        let id = cx.request.session.as_ref().map(|session| session.id.as_str());
        let id = id.filter(|id| id.len() <= MOST_ID_BYTES);
        let bound = id.and_then(|id| self.sessions.touch(id, now_ms)).copied();
        let stays = |bound| rows.iter().find(|row| row.worker() == bound);
        if let Some(row) = bound.and_then(stays) {
            return Ok(row.index());
        }
        let row = pick::lowest(rows.column(Input::ActiveRequests), &mut cx.random());
        if let (Some(id), Some(row)) = (id, rows.row(row)) {
            self.sessions.insert(id, row.worker(), now_ms);
        }
        Ok(row)
    }
}

impl Handover for Sticky {
    fn save(&self) -> Result<Vec<u8>> {
        Ok(self.sessions.save(MOST_HANDED_OVER))
    }

    fn restore(&mut self, state: &[u8]) -> Result {
        self.sessions.restore(state)
    }
}

#[cfg(test)]
mod tests;
