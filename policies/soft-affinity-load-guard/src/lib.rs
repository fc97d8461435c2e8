//! Keeps a session on the worker that it is softly bound to, unless that is busy and another one has clearly
//! less to do.

use pointsman_sdk::prelude::*;

export_policy! {
    /// The bound worker, unless it is busy and another has clearly fewer requests.
    pub policy SoftAffinityLoadGuard(settings: Settings) {
        picker: Guard { settings },
        properties: [stateless, replicable],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Requests that the bound worker may have, before this one, to keep its session unasked.
    pub max_active_requests: u32,
    /// Requests that another worker must have fewer, to be moved to; 1 or more.
    pub move_margin: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_active_requests: 32, move_margin: 2 }
    }
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");

    fn check(&self) -> Result {
        if self.move_margin == 0 {
            return Err("parameter \"move_margin\" is 0; give 1 or more".into());
        }
        Ok(())
    }
}

struct Guard {
    settings: Settings,
}

impl WorkerPicker for Guard {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::ActiveRequests]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let target = cx.request.affinity_target;
        let is_bound = |row: &Row<'_>| target.is_some_and(|target| target.matches(row.worker()));
        let (bound, other) =
            (least_loaded(rows, is_bound), least_loaded(rows, |row| !is_bound(row)));
        let row = match (bound, other) {
            (Some(bound), Some(other)) if self.gives_up(bound, other) => other,
            (Some(row), _) | (None, Some(row)) => row,
            // No candidates is the host's to tell of; 0 is no row then.
            (None, None) => return Ok(0),
        };
        Ok(row.index())
    }
}

impl Guard {
    /// Whether a session is moved from the one row to the other.
    fn gives_up(&self, bound: Row<'_>, other: Row<'_>) -> bool {
        let (most, margin) = (self.settings.max_active_requests, self.settings.move_margin);
        bound.active_requests() > f64::from(most)
            && bound.active_requests() - other.active_requests() >= f64::from(margin)
    }
}

/// The row with the fewest active requests among some; the first of equals, which is the lowest worker.
fn least_loaded<'r>(rows: &'r Candidates<'r>, among: impl Fn(&Row<'r>) -> bool) -> Option<Row<'r>> {
    let load = |row: &Row<'_>| row.active_requests();
    rows.iter().filter(among).min_by(|one, other| load(one).total_cmp(&load(other)))
}
