//! Keeps the subagents that one session started on one worker, beside the router's soft bindings of single
//! sessions, as long as that worker isn't busy.

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;
use pointsman_sdk::recent::Recent;

/// The session's worker, else its group's, unless busy; else the least loaded.
#[derive(Debug, Clone, Copy)]
pub struct SubagentGroupAffinity;

export_policy!(SubagentGroupAffinity);

impl Policy for SubagentGroupAffinity {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, environment: &Environment) -> Result<Stages> {
        let ttl: Option<u32> = environment.router_setting("router_session_affinity_ttl_secs")?;
        let mode: Option<String> = environment.router_setting("router_session_affinity_mode")?;
        if ttl.is_some() && mode.as_deref() == Some("hard") {
            return Err("it moves sessions that are bound softly, and the router pins them; \
                set router_session_affinity_mode: soft"
                .into());
        }
        let groups =
            Shared::new(Groups { settings, of: Recent::new(MOST_GROUPS).seeded(environment.seed) });
        Ok(Stages::new().picker(groups.clone()).handover(groups))
    }
}

/// Groups that are remembered at once; further ones go unbound.
const MOST_GROUPS: usize = 65_536;
/// Groups that are forgotten in one decision, so that none costs much more than others.
const MOST_FORGOTTEN: usize = 256;
/// Groups that a reload takes along, the ones used last.
const MOST_HANDED_OVER: usize = 1_000;
/// Bytes of a parent's id; a longer one is no group.
const MOST_ID_BYTES: usize = 256;

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Requests that a worker may have, before this one, to keep a session or a group.
    pub max_active_requests: u32,
    /// Seconds without a request after which a group is forgotten.
    pub group_idle_ttl_secs: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_active_requests: 32, group_idle_ttl_secs: 300 }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        let ttl = self.group_idle_ttl_secs.into();
        parameters::within("group_idle_ttl_secs", ttl, 1.0, 31_536_000.0)
    }
}

/// Where groups are, by the session that started them.
struct Groups {
    settings: Settings,
    of: Recent<Worker>,
}

impl WorkerPicker for Groups {
    fn name(&self) -> String {
        "group-affinity".to_owned()
    }

    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::ActiveRequests]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let now_ms = cx.request.now_ms;
        let ttl_ms = u64::from(self.settings.group_idle_ttl_secs) * 1_000;
        self.of.forget_idle(now_ms, ttl_ms, MOST_FORGOTTEN);
        let session = cx.request.session.as_ref();
        let group = session.and_then(|session| session.parent_id.as_deref());
        let group = group.filter(|id| id.len() <= MOST_ID_BYTES);
        let bound = group.and_then(|id| self.of.touch(id, now_ms)).copied();

        let target = cx.request.affinity_target;
        let own = least_loaded(rows, |row| target.is_some_and(|it| it.matches(row.worker())));
        let home = own.or_else(|| rows.iter().find(|row| bound == Some(row.worker())));
        let row =
            home.map_or_else(|| least_loaded(rows, |_| true), |home| Some(self.leave(home, rows)));
        // No candidates is the host's to tell of; 0 is no row then.
        let Some(row) = row else { return Ok(0) };
        // Where nobody else could be chosen, the choice says nothing.
        if let (Some(id), true) = (group, rows.len() > 1 || bound.is_none()) {
            self.of.insert(id, row.worker(), now_ms);
        }
        Ok(row.index())
    }
}

impl Groups {
    /// Home, unless it is busy and another row has strictly less to do.
    fn leave<'r>(&self, home: Row<'r>, rows: &'r Candidates<'r>) -> Row<'r> {
        if home.active_requests() <= f64::from(self.settings.max_active_requests) {
            return home;
        }
        let other = least_loaded(rows, |row| row.index() != home.index());
        other.filter(|other| other.active_requests() < home.active_requests()).unwrap_or(home)
    }
}

/// The row with the fewest active requests among some; the first of equals, which is the lowest worker.
fn least_loaded<'r>(rows: &'r Candidates<'r>, among: impl Fn(&Row<'r>) -> bool) -> Option<Row<'r>> {
    let load = |row: &Row<'_>| row.active_requests();
    rows.iter().filter(among).min_by(|one, other| load(one).total_cmp(&load(other)))
}

impl Handover for Groups {
    fn save(&self) -> Result<Vec<u8>> {
        Ok(self.of.save(MOST_HANDED_OVER))
    }

    fn restore(&mut self, state: &[u8]) -> Result {
        self.of.restore(state)
    }
}
