//! Keeps a session on the worker that its last request went to: at any load, or while that has no more than
//! so many times the mean. Everything else goes by the cost function of `default-cost`.

// One formula, one place: these are that policy's files.
#[path = "../../default-cost/src/cost.rs"]
pub mod cost;
#[path = "../../default-cost/src/settings.rs"]
pub mod weights;

use pointsman_sdk::parameters;
use pointsman_sdk::prelude::*;
use pointsman_sdk::recent::Recent;

pub use weights::Weights;

/// The session's worker; else the lowest default cost.
#[derive(Debug, Clone, Copy)]
pub struct StickySession;

export_policy!(StickySession);

impl Policy for StickySession {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, environment: &Environment) -> Result<Stages> {
        let weights = weights::Settings::default().over(environment)?;
        let role = environment.partition.role;
        let sessions = Recent::new(settings.max_sessions as usize).seeded(environment.seed);
        let own = settings.seed.map(Random::new);
        let sticky = Shared::new(Sticky { settings, sessions, own });
        Ok(Stages::new()
            .scorer(cost::KvCost::new(&weights, role, role == Role::Decode))
            .picker(sticky.clone())
            .handover(sticky))
    }
}

/// Sessions that a reload takes along, the ones used last.
const MOST_HANDED_OVER: usize = 1_000;

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// When a session stays.
    pub mode: Mode,
    /// Times the mean of requests that its worker may have, in mode `bounded`; 1 or more.
    pub load_factor: f64,
    /// Sessions that are remembered; the one used longest ago gives way.
    pub max_sessions: u32,
    /// A stream of chance of the instance's own; unset, each decision has its own.
    pub seed: Option<u64>,
    /// How one of several lowest costs is drawn.
    pub tie_break: TieBreak,
}

/// When a session stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// While its worker is a candidate.
    #[default]
    Hard,
    /// And has at most `load_factor` times the mean of all candidates' requests.
    Bounded,
}

/// How one of several lowest costs is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TieBreak {
    /// As the router does: a draw for each tie.
    #[default]
    Reservoir,
    /// One draw a decision, also where nothing ties.
    OneDraw,
}

impl Default for Settings {
    fn default() -> Self {
        let (mode, tie_break) = (Mode::Hard, TieBreak::Reservoir);
        Self { mode, load_factor: 1.25, max_sessions: 65_536, seed: None, tie_break }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        parameters::all([
            parameters::at_least("load_factor", self.load_factor, 1.0),
            parameters::within("max_sessions", self.max_sessions.into(), 1.0, 65_536.0),
        ])
    }
}

struct Sticky {
    settings: Settings,
    sessions: Recent<Worker>,
    own: Option<Random>,
}

impl Sticky {
    fn may_stay(&self, row: &Row<'_>, rows: &Candidates<'_>) -> bool {
        let requests = rows.column(Input::ActiveRequests);
        let mean = requests.iter().sum::<f64>() / requests.len().max(1) as f64;
        match self.settings.mode {
            Mode::Hard => true,
            Mode::Bounded => row.active_requests() <= self.settings.load_factor * mean,
        }
    }

    fn lowest(&mut self, costs: &[f64], cx: &Context<'_>) -> usize {
        let mut of_decision = cx.random();
        let random = self.own.as_mut().unwrap_or(&mut of_decision);
        match self.settings.tie_break {
            TieBreak::Reservoir => pick::lowest(costs, random),
            TieBreak::OneDraw => {
                let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
                let equals = costs.iter().filter(|cost| **cost == lowest).count();
                let drawn = random.below(equals);
                let mut rows = (0..costs.len()).filter(|row| costs.get(*row) == Some(&lowest));
                rows.nth(drawn).unwrap_or(0)
            }
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

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        let now_ms = cx.request.now_ms;
        let id = cx.request.session.as_ref().map(|session| session.id.as_str());
        let bound = id.and_then(|id| self.sessions.touch(id, now_ms)).copied();
        let place = |bound| rows.iter().find(|row| row.worker() == bound);
        let stays = bound.and_then(place).filter(|row| self.may_stay(row, rows));
        if let Some(row) = stays {
            return Ok(row.index());
        }
        let row = self.lowest(costs, cx);
        if let (Some(id), Some(row)) = (id, rows.row(row)) {
            self.sessions.insert_in_place_of_oldest(id, row.worker(), now_ms);
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
