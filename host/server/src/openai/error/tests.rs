//! Each error, as a client gets it.

use pointsman_core::eligibility::Exclusions;
use pointsman_core::ids::{PartitionKey, Role, WorkerTarget};
use pointsman_core::policy::failure::{Cause, StageFailure, StageKind};

use super::*;

#[test]
fn each_error_has_a_status_and_a_stable_kind() {
    let partition = PartitionKey {
        model: "m".into(),
        routing_group: DEFAULT_GROUP.into(),
        role: Role::Aggregated,
    };
    let elsewhere = PartitionKey { routing_group: "g".into(), ..partition.clone() };
    let failure = StageFailure {
        policy: "p".into(),
        kind: StageKind::Picker,
        stage: "s".to_owned(),
        cause: Cause::Refused,
        detail: "what the policy said".to_owned(),
    };
    let routes = [
        RouteError::NoPartition(partition.clone()),
        RouteError::NoPartition(elsewhere),
        RouteError::NoEndpoints { partition: partition.clone(), excluded: Exclusions::default() },
        RouteError::AllEligibleWorkersOverloaded(partition.clone()),
        RouteError::AllEligibleWorkersFiltered { partition, policy: "p".to_owned(), eligible: 2 },
        RouteError::Policy(Box::new(failure)),
    ];
    let target = WorkerTarget { worker_id: WorkerId(7), dp_rank: None };
    let pins = [
        PinProblem::NotAllowed,
        PinProblem::NotRoutable,
        PinProblem::WorkerUnavailable,
        PinProblem::RankUnavailable,
        PinProblem::TaintsUnsatisfied,
        PinProblem::Overloaded,
    ]
    .map(|problem| RouteError::PinnedWorker { target, problem });
    let undecided = routes
        .into_iter()
        .chain(pins)
        .map(DispatchError::Route)
        .chain([DispatchError::Abandoned("a panic".to_owned())])
        .map(|error| ApiError::undecided(&error, Some("nvext.decode_worker_id")));
    let worker = WorkerId(3);
    let upstream = [
        UpstreamError::Unreachable(worker),
        UpstreamError::Closed(worker),
        UpstreamError::Garbled(worker),
        UpstreamError::TimedOut(worker),
    ]
    .map(ApiError::upstream);
    let own = [
        ApiError::too_large(5),
        ApiError::too_slow(),
        ApiError::unauthorized(),
        ApiError::draining(),
        ApiError::not_found("/x"),
        ApiError::not_allowed(&Method::GET, "/v1/completions"),
        ApiError::crooked_path(),
        ApiError::no_model_named(),
        ApiError::no_workers(),
        ApiError::broken_stream(false, "the worker closed the connection in the middle"),
    ];
    let lines: Vec<_> = undecided
        .chain(upstream)
        .chain(own)
        .map(|error| {
            let headers: Vec<_> = error
                .headers
                .iter()
                .map(|(name, value)| format!(" [{name}: {}]", value.to_str().unwrap_or("?")))
                .collect();
            format!("{}{} {}", error.status.as_u16(), headers.concat(), error.json())
        })
        .collect();
    let all = lines.join("\n");
    assert!(!all.contains("what the policy said") && !all.contains("panic"), "{all}");
    insta::assert_snapshot!(all);
}
