//! Keeps a session on the worker that it is softly bound to until that is too busy; then moves it to
//! another, where it stays, since the binding follows.

use pointsman_sdk::prelude::*;

export_policy! {
    /// The bound worker while it has few enough requests; else the least loaded of the others.
    pub policy SoftPinRepin(settings: Settings) {
        picker: KeepOrMove { most_requests: f64::from(settings.max_active_requests) },
        properties: [stateless, replicable],
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Requests that the bound worker may have, before this one, to keep its session; 0 keeps it
    /// only while it is idle.
    pub max_active_requests: u32,
}

impl Parameters for Settings {
    const SCHEMA: &'static str = include_str!("parameters.schema.json");
}

struct KeepOrMove {
    most_requests: f64,
}

impl WorkerPicker for KeepOrMove {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity, Input::ActiveRequests]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, _: &[f64]) -> Result<usize> {
        let target = cx.request.affinity_target;
        let is_bound = |row: &Row<'_>| target.is_some_and(|target| target.matches(row.worker()));
        let bound = least_loaded(rows, is_bound);
        let keeps = |row: &Row<'_>| row.active_requests() <= self.most_requests;
        let row = match bound {
            Some(row) if keeps(&row) => Some(row),
            _ => least_loaded(rows, |row| !is_bound(row)).or(bound),
        };
        // No candidates is the host's to tell of; 0 is no row then.
        Ok(row.map_or(0, |row| row.index()))
    }
}

/// The row with the fewest active requests among some; of equals the one that comes first by worker
/// id and rank, whatever order the rows are in.
fn least_loaded<'r>(rows: &'r Candidates<'r>, among: impl Fn(&Row<'r>) -> bool) -> Option<Row<'r>> {
    rows.iter().filter(among).min_by(|one, other| {
        let load = one.active_requests().total_cmp(&other.active_requests());
        let place = |row: &Row<'_>| (row.worker().id, row.worker().dp_rank);
        load.then_with(|| place(one).cmp(&place(other)))
    })
}

#[cfg(test)]
mod tests;
