//! Each error, as a client gets it.

use pointsman_core::affinity::Bound;
use pointsman_core::eligibility::Exclusions;
use pointsman_core::fleet::Epoch;
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerRank, WorkerTarget};
use pointsman_core::policy::failure::{Cause, StageFailure, StageKind};
use pointsman_core::queue::{LimitKind, QueueRejected};

use super::*;

const CLIENTS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/CLIENTS.md"));

/// One of each.
fn all() -> Vec<ApiError> {
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
        RouteError::AllEligibleWorkersFiltered {
            partition: partition.clone(),
            policy: "p".to_owned(),
            eligible: 2,
        },
        RouteError::NoTarget { partition: partition.clone(), policy: "p".into() },
        RouteError::Policy(Box::new(failure)),
        RouteError::QueueRejected {
            partition: partition.clone(),
            rejected: QueueRejected {
                policy_class: "batch".into(),
                limit_kind: LimitKind::Requests,
                current: 8,
                limit: 8,
            },
        },
        RouteError::DeadlineExceeded { partition: partition.clone(), late_ms: 3 },
        RouteError::DoNotQueue { partition, policy_class: "batch".into() },
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
        UpstreamError::Unusable(worker),
        UpstreamError::TimedOut(worker),
    ]
    .map(ApiError::upstream);
    let to = WorkerRank { worker_id: WorkerId(3), dp_rank: DpRank(0) };
    let conflict = Conflict { bound: Bound { worker: to, epoch: Epoch(1) }, asked: target };
    let own = [
        ApiError::too_large(5),
        ApiError::too_slow(),
        ApiError::no_room(),
        ApiError::decided_too_late(),
        ApiError::bound_elsewhere(&conflict, Some("x-worker-instance-id")),
        ApiError::goes_in_circles(),
        ApiError::internal(),
        ApiError::bad_body("the body is empty; send a JSON object".to_owned()),
        ApiError::bad_value("x-dp-rank", "x-dp-rank is -1; send a rank".to_owned()),
        ApiError::unauthorized(),
        ApiError::draining(),
        ApiError::not_found("/x"),
        ApiError::not_allowed(&Method::GET, "/v1/completions"),
        ApiError::not_for_routers(&Method::CONNECT),
        ApiError::crooked_path(),
        ApiError::no_model_named(),
        ApiError::no_workers(),
        ApiError::broken_stream(false, "the worker closed the connection in the middle"),
        ApiError::broken_stream(true, "the worker fell silent"),
        ApiError::gave_way(),
        ApiError::no_text_in_path(),
        ApiError::too_many(),
        ApiError::shared_by_two("m"),
    ];
    undecided.chain(upstream).chain(own).collect()
}

#[test]
fn each_error_has_a_status_and_a_stable_kind() {
    let lines: Vec<_> = all()
        .into_iter()
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

/// The row of a kind in the table of `CLIENTS.md`.
fn row(kind: &str) -> Option<&'static str> {
    let begin = format!("| `{kind}` | ");
    CLIENTS.lines().find_map(|line| line.strip_prefix(&*begin))
}

#[test]
fn each_kind_stands_with_its_status_in_the_clients_document() {
    for error in all() {
        let (kind, status) = (error.kind(), error.status.as_u16().to_string());
        let row = row(kind).unwrap_or_else(|| panic!("CLIENTS.md says nothing of {kind}"));
        let statuses = row.split(" | ").next().unwrap_or_default();
        assert!(statuses.split(", ").any(|one| one == status), "{kind} has {status}: {row}");
        let again = error.headers.iter().any(|(name, _)| name == header::RETRY_AFTER);
        assert!(!again || !row.ends_with("| no |"), "{kind} may pass: {row}");
    }
}

#[test]
fn each_kind_that_is_made_here_is_among_those_that_are_tested() {
    let code = include_str!("../error.rs");
    let made = code.split("Self::new(").skip(1).filter_map(|call| {
        let arguments = call.split(')').next()?;
        arguments.split('"').nth(1)
    });
    let known = code.split(" => \"").skip(1).filter_map(|rest| rest.split('"').next());
    // Headers stand there, too: where a request says what is refused.
    let known = known.filter(|kind| !kind.starts_with("x-"));
    let tested: Vec<_> = all().iter().map(ApiError::kind).collect();
    let mut count = 0;
    for kind in made.chain(known) {
        assert!(tested.contains(&kind), "{kind}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}
