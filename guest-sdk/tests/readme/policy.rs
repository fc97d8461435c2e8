//! The README's policy.

use std::collections::BTreeMap;

use pointsman_sdk::prelude::*;

export_policy! {
    /// Warm caches first, but no crowd.
    pub policy WarmAndQuiet(settings: Settings) {
        filters: [HasRoom { most_requests: settings.most_requests }],
        scorers: [Work { blocks_per_request: settings.blocks_per_request }],
        picker: Stay::default(),
    }
}

/// Takes out who has enough to do.
struct HasRoom {
    most_requests: f64,
}

impl WorkerFilter for HasRoom {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests]
    }

    fn keep(&mut self, _: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(row.active_requests() < self.most_requests)
    }
}

/// What is left to compute, and what is under way, in blocks. Lower is better.
struct Work {
    blocks_per_request: f64,
}

impl WorkerScorer for Work {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests, Input::DeviceOverlapBlocks]
    }

    fn score(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        let blocks = cx.request.request_blocks as f64;
        rows.score(costs, |row| {
            blocks - row.device_overlap_blocks() + self.blocks_per_request * row.active_requests()
        });
        Ok(())
    }
}

/// The YAML's `parameters`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// From so many requests on a worker gets no more.
    pub most_requests: f64,
    /// What a request under way weighs, in blocks.
    #[serde(default = "eight")]
    pub blocks_per_request: f64,
}

fn eight() -> f64 {
    8.0
}

impl Parameters for Settings {
    fn check(&self) -> Result {
        pointsman_sdk::parameters::all([
            pointsman_sdk::parameters::within("most_requests", self.most_requests, 1.0, 100_000.0),
            pointsman_sdk::parameters::not_negative("blocks_per_request", self.blocks_per_request),
        ])
    }
}

/// The lowest cost; of several, where the session was before.
#[derive(Default)]
struct Stay {
    worker_of: BTreeMap<String, u64>,
}

/// More sessions than this are not remembered: memory is limited, and names come from clients.
const MOST_SESSIONS: usize = 10_000;

impl WorkerPicker for Stay {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::Identity]
    }

    fn pick(&mut self, cx: &Context<'_>, rows: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        let lowest = pick::lowest(costs, &mut cx.random());
        let Some(session) = &cx.request.session else { return Ok(lowest) };
        let before = self.worker_of.get(&session.id);
        let same = rows.iter().find(|row| Some(&row.worker().id) == before);
        let same = same.map(|row| row.index()).filter(|&row| costs.get(row) <= costs.get(lowest));
        let chosen = same.unwrap_or(lowest);
        if let Some(row) = rows.row(chosen) {
            if self.worker_of.len() >= MOST_SESSIONS {
                self.worker_of.clear();
            }
            self.worker_of.insert(session.id.clone(), row.worker().id);
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use pointsman_sdk::testing::{self, Trial};

    use super::*;

    #[test]
    fn a_warm_worker_wins_until_it_is_crowded() -> Result {
        let mut trial = Trial::of::<WarmAndQuiet>(r#"{"most_requests": 4}"#)?;
        let fleet = |requests| {
            let warm = testing::worker(1).with(Input::DeviceOverlapBlocks, 20.0);
            [warm.with(Input::ActiveRequests, requests), testing::worker(2)]
        };
        let chosen = |choice: testing::Choice| choice.worker.map(|worker| worker.id);
        // 20 blocks are worth two requests of eight, and not three.
        assert_eq!(chosen(trial.decide(&testing::request(), &fleet(2.0))?), Some(1));
        assert_eq!(chosen(trial.decide(&testing::request(), &fleet(3.0))?), Some(2));
        // The filter takes it out.
        assert_eq!(trial.decide(&testing::request(), &fleet(4.0))?.kept, [1]);
        Ok(())
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_all_that_is_wrong() {
        let wrong = r#"{"most_requests": 0, "blocks_per_request": -1, "most": 4}"#;
        let refusal = Trial::of::<WarmAndQuiet>(wrong).expect_err("it is refused");
        assert_eq!(refusal.message().lines().count(), 3, "{}", refusal.message());
    }
}

/// What isn't in the README: that a session stays.
#[test]
fn a_session_stays_among_equals() -> Result {
    use pointsman_sdk::testing::{self, Trial};

    let mut trial = Trial::of::<WarmAndQuiet>(r#"{"most_requests": 4}"#)?;
    let fleet: Vec<_> = (1..=8).map(testing::worker).collect();
    let mut request = testing::request();
    request.session = Some(Session { id: "s".to_owned(), ..Session::default() });
    let mut first = None;
    for seed in 0..50 {
        request.seed = seed;
        let chosen = trial.decide(&request, &fleet)?.worker;
        assert_eq!(*first.get_or_insert(chosen), chosen);
    }
    Ok(())
}
