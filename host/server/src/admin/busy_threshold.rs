//! When workers have too much to do: the thresholds of a model as it runs, and what engines report.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use pointsman_core::eligibility::{BusyThresholds, LoadReport};
use pointsman_core::ids::{DpRank, PartitionKey, WorkerId, WorkerRank};
use pointsman_core::partition::Partition;
use serde::Serialize;
use serde_json::{Value, json};

use super::workers::Named;
use crate::app::App;
use crate::discovery::KeeperError;
use crate::json::{Fields, Problems, values};
use crate::rest::{Json, JsonBody, RestError, aside, clipped};

#[derive(Serialize)]
struct Shown {
    partitions: Vec<PartitionShown>,
}

#[derive(Serialize)]
struct PartitionShown {
    #[serde(flatten)]
    partition: PartitionKey,
    #[serde(flatten)]
    thresholds: BusyThresholds,
    /// Workers all of whose ranks are busy.
    overloaded: Vec<WorkerId>,
    reports: Vec<Report>,
}

/// What an engine last said of its load. What it didn't say is null.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    worker: WorkerRank,
    used_kv_blocks: Option<u64>,
    total_kv_blocks: Option<u64>,
    /// The share of its blocks that is in use, as it counts both.
    kv_cache_usage: Option<f64>,
    running_requests: Option<u64>,
    waiting_requests: Option<u64>,
    age_ms: u64,
    /// Whether it is too old to be believed.
    stale: bool,
}

pub(super) async fn show(State(app): State<App>) -> Result<Response, RestError> {
    aside(move || {
        let now_ms = app.dispatcher.clock().now_ms();
        let partitions = app.dispatcher.router().partitions();
        let partitions = partitions.iter().map(|partition| shown(partition, now_ms)).collect();
        Ok(Json(Shown { partitions }))
    })
    .await
}

fn shown(partition: &Partition, now_ms: u64) -> PartitionShown {
    let reports = partition.load_reports().into_iter().map(|(worker, report)| Report {
        worker,
        used_kv_blocks: report.used_kv_blocks,
        total_kv_blocks: report.total_kv_blocks,
        kv_cache_usage: report.kv_cache_usage,
        running_requests: report.running_requests,
        waiting_requests: report.waiting_requests,
        age_ms: report.age_ms(now_ms),
        stale: !report.is_fresh(now_ms),
    });
    PartitionShown {
        partition: partition.key().clone(),
        thresholds: partition.busy_thresholds(),
        overloaded: partition.overloaded_workers(now_ms),
        reports: reports.collect(),
    }
}

/// What is to be set. A field that is left out stays as it is; one that is null is off.
#[derive(Debug)]
struct Change {
    model: String,
    decode: Option<Option<f64>>,
    prefill: Option<Option<u64>>,
    prefill_frac: Option<Option<f64>>,
}

impl Change {
    fn read(body: &Value) -> Result<Self, Problems> {
        let mut fields = Fields::of(body)?;
        let model = fields.required("model", values::name);
        let decode = fields.optional("active_decode_blocks_threshold", values::at_least_zero);
        let prefill = fields.optional("active_prefill_tokens_threshold", values::whole);
        let prefill_frac =
            fields.optional("active_prefill_tokens_threshold_frac", values::at_least_zero);
        let given = BusyThresholds {
            active_decode_blocks_threshold: decode.flatten(),
            ..BusyThresholds::default()
        };
        for (key, problem) in given.problems() {
            fields.problem(key, problem);
        }
        fields.finish()?;
        Ok(Self { model: model.unwrap_or_default(), decode, prefill, prefill_frac })
    }

    fn apply(&self, to: &mut BusyThresholds) {
        if let Some(share) = self.decode {
            to.active_decode_blocks_threshold = share;
        }
        if let Some(tokens) = self.prefill {
            to.active_prefill_tokens_threshold = tokens;
        }
        if let Some(multiple) = self.prefill_frac {
            to.active_prefill_tokens_threshold_frac = multiple;
        }
    }
}

fn unknown(model: &str) -> RestError {
    let model = clipped(model);
    let error = format!("no worker serves {model:?}; see GET /v1/busy_threshold for those served");
    RestError::new(StatusCode::NOT_FOUND, error)
}

pub(super) async fn set(State(app): State<App>, body: JsonBody) -> Result<Response, RestError> {
    let change = Change::read(&body.once()?).map_err(|problems| {
        let error = format!("the thresholds have {problems}; see the details");
        RestError::bad_request(error).with_details(json!(problems))
    })?;
    aside(move || {
        let partitions = app.dispatcher.router().partitions();
        let mut its = partitions.iter().filter(|its| *its.key().model == *change.model);
        let mut thresholds = its.next().ok_or_else(|| unknown(&change.model))?.busy_thresholds();
        change.apply(&mut thresholds);
        if !app.dispatcher.set_busy_thresholds(&change.model, Some(thresholds)) {
            return Err(unknown(&change.model));
        }
        let model = &*change.model;
        tracing::warn!(model, ?thresholds, "an operator has set when workers have too much to do");
        #[derive(Serialize)]
        struct Set {
            model: String,
            #[serde(flatten)]
            thresholds: BusyThresholds,
        }
        Ok(Json(Set { model: change.model, thresholds }))
    })
    .await
}

/// Takes what an engine, or somebody on its behalf, says of a rank's load.
pub(super) async fn report(
    State(app): State<App>,
    Named(id): Named,
    body: JsonBody,
) -> Result<Response, RestError> {
    let (rank, used, total) = read_report(&body.once()?).map_err(|problems| {
        let error = format!("the report has {problems}; see the details");
        RestError::bad_request(error).with_details(json!(problems))
    })?;
    aside(move || {
        let router = app.dispatcher.router();
        let worker = router.worker(id).ok_or(KeeperError::Unknown(id))?;
        let first = DpRank(worker.spec.data_parallel_start_rank);
        let at_ms = app.dispatcher.clock().now_ms();
        let report = LoadReport {
            used_kv_blocks: Some(used),
            total_kv_blocks: total,
            at_ms,
            ..LoadReport::default()
        };
        let worker_rank = WorkerRank { worker_id: id, dp_rank: rank.unwrap_or(first) };
        let partition = router.partition(&worker.spec.partition);
        if !partition.is_some_and(|partition| partition.report_load(worker_rank, None, report)) {
            let error = format!("worker {id} has no rank {}; name one", worker_rank.dp_rank);
            return Err(RestError::bad_request(error));
        }
        Ok(Json(json!({ "worker_id": id, "dp_rank": worker_rank.dp_rank })))
    })
    .await
}

fn read_report(body: &Value) -> Result<(Option<DpRank>, u64, Option<u64>), Problems> {
    let mut fields = Fields::of(body)?;
    let rank = fields.optional("dp_rank", values::count).flatten().map(DpRank);
    let used = fields.required("used_kv_blocks", values::whole);
    let total = fields.optional("total_kv_blocks", values::whole).flatten();
    fields.finish()?;
    Ok((rank, used.unwrap_or_default(), total))
}
