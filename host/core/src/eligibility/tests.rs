//! Promises of the host's rules.

mod overload;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::fleet::{Availability, Fleet, WorkerSpec};
use crate::ids::{DpRank, Role, WorkerId, WorkerTarget};
use crate::request::Constraints;
use crate::testing::{fleet, key, rank, ranked, request, snapshot, tainted, worker};

fn found(snapshot: &Snapshot, request: &RouteRequest) -> Eligibility {
    let mut found = Eligibility::default();
    found.find(snapshot, request, &[]);
    found
}

fn wrong_pin(snapshot: &Snapshot, request: &RouteRequest) -> Option<PinProblem> {
    Rules::of(&request.constraints, snapshot, &[]).pin_problem(snapshot)
}

fn pin(id: u64, dp_rank: Option<u32>) -> Option<WorkerTarget> {
    Some(WorkerTarget { worker_id: WorkerId(id), dp_rank: dp_rank.map(DpRank) })
}

fn constrained(change: impl FnOnce(&mut Constraints)) -> RouteRequest {
    let mut request = request(100);
    change(&mut request.constraints);
    request
}

#[test]
fn without_constraints_every_row_of_a_ready_fleet_is_eligible() {
    let snapshot = snapshot([worker(1), ranked(2, 8, 3)]);
    let found = found(&snapshot, &request(100));
    assert_eq!(found.rows, [0, 1, 2, 3]);
    assert_eq!((found.excluded, found.pinned), (Exclusions::default(), None));
}

#[test]
fn no_rows_are_no_rows() {
    let empty = Snapshot::default();
    assert!(found(&empty, &request(1)).rows.is_empty());
    let pinned = constrained(|c| c.pinned = pin(1, None));
    assert!(found(&empty, &pinned).rows.is_empty());
    assert_eq!(wrong_pin(&empty, &pinned), Some(PinProblem::NotRoutable));
}

#[test]
fn a_pin_names_the_row_only_when_one_is_left() {
    let snapshot = snapshot([worker(1), ranked(2, 8, 3)]);
    let cases = [
        (pin(1, None), vec![0], Some(rank(1, 0))),
        (pin(1, Some(0)), vec![0], Some(rank(1, 0))),
        (pin(2, None), vec![1, 2, 3], None),
        (pin(2, Some(9)), vec![2], Some(rank(2, 9))),
        // Rank 0 is not "any rank", and 11 is one past the last.
        (pin(2, Some(0)), vec![], None),
        (pin(2, Some(11)), vec![], None),
        (pin(3, None), vec![], None),
    ];
    for (pinned, rows, named) in cases {
        let found = found(&snapshot, &constrained(|c| c.pinned = pinned));
        assert_eq!((found.rows, found.pinned), (rows, named), "{pinned:?}");
    }
    // One row by chance is not a pin.
    let allowed = constrained(|c| c.allowed = Some([WorkerId(1)].into()));
    assert_eq!(found(&snapshot, &allowed).pinned, None);
}

fn with_adapters(id: u64, adapters: &[&str]) -> WorkerSpec {
    let lora_adapters = adapters.iter().map(|name| (*name).to_owned()).collect();
    WorkerSpec { lora_adapters, ..worker(id) }
}

#[test]
fn an_adapter_narrows_to_those_that_have_it_and_to_nobody_else_if_none_has() {
    let specs =
        [with_adapters(1, &["sql"]), with_adapters(2, &[]), with_adapters(3, &["sql", "c"])];
    let snapshot = snapshot(specs);
    let rows = |change: &dyn Fn(&mut Constraints)| {
        let request = constrained(|c| {
            c.adapter = Some("sql".into());
            change(c);
        });
        found(&snapshot, &request).rows
    };
    assert_eq!(rows(&|_| ()), [0, 2]);
    assert_eq!(rows(&|c| c.adapter = Some("c".into())), [2]);
    assert_eq!(rows(&|c| c.adapter = Some("no".into())), [0, 1, 2], "nobody has it");
    // Within the caller's allow-list: none of those has it, so they are as good.
    assert_eq!(rows(&|c| c.allowed = Some([WorkerId(2)].into())), [1]);
    assert_eq!(rows(&|c| c.allowed = Some([WorkerId(1), WorkerId(2)].into())), [0]);
    assert_eq!(rows(&|c| c.pinned = pin(2, None)), [1], "a pin is kept");
    // Those that have it failed the request: nobody else can serve it.
    let tried = constrained(|c| {
        c.adapter = Some("sql".into());
        c.tried = [WorkerId(1), WorkerId(3)].into();
    });
    let found = found(&snapshot, &tried);
    assert_eq!((found.rows.len(), found.excluded.without_adapter, found.excluded.tried), (0, 1, 2));
    assert_eq!(found.excluded.to_string(), "1 without its adapter, 2 already tried");
}

#[test]
fn a_reason_counts_rows_and_is_the_first_that_applies() {
    let mut fleet = fleet([
        ranked(1, 0, 2),
        tainted(2, &["fast"]),
        ranked(3, 0, 4),
        tainted(4, &["fast"]),
        worker(5),
        tainted(6, &["fast"]),
    ]);
    for (id, availability) in
        [(2, Availability::Draining), (4, Availability::Overloaded), (5, Availability::Unhealthy)]
    {
        fleet.set_availability(WorkerId(id), availability).expect("it is there");
    }
    let snapshot = fleet.snapshot(&key(Role::Aggregated));
    let found = found(
        &snapshot,
        &constrained(|c| {
            c.allowed = Some((2..=6).map(WorkerId).collect());
            c.tried = [WorkerId(6)].into();
            c.required_taints = ["fast".to_owned()].into();
        }),
    );
    assert!(found.rows.is_empty());
    let expected = Exclusions {
        not_allowed: 2,
        tried: 1,
        draining: 1,
        unhealthy: 1,
        missing_taint: 4,
        overloaded: 1,
        ..Exclusions::default()
    };
    assert_eq!(found.excluded, expected);
    assert_eq!(
        expected.to_string(),
        "2 not allowed by the request, 1 already tried, 1 draining, 1 unhealthy, \
         4 without a required taint, 1 overloaded"
    );
    assert_eq!(Exclusions::default().to_string(), "none is registered");
}

#[test]
fn what_is_wrong_with_a_pin_is_told_in_one_order() {
    // Everything is wrong at once; each case takes the first wrong thing away.
    let mut allowed: BTreeSet<WorkerId> = BTreeSet::new();
    let mut fleet = Fleet::default();
    let problem = |fleet: &Fleet, allowed: &BTreeSet<WorkerId>, dp_rank| {
        let request = constrained(|c| {
            c.allowed = Some(allowed.clone());
            c.pinned = pin(1, Some(dp_rank));
            c.required_taints = ["fast".to_owned()].into();
        });
        wrong_pin(&fleet.snapshot(&key(Role::Aggregated)), &request)
    };
    assert_eq!(problem(&fleet, &allowed, 9), Some(PinProblem::NotAllowed));
    allowed.insert(WorkerId(1));
    assert_eq!(problem(&fleet, &allowed, 9), Some(PinProblem::NotRoutable));
    fleet.upsert(worker(1)).expect("it is taken");
    for away in [Availability::Unhealthy, Availability::Draining] {
        fleet.set_availability(WorkerId(1), away).expect("it is there");
        assert_eq!(problem(&fleet, &allowed, 9), Some(PinProblem::WorkerUnavailable));
    }
    fleet.upsert(worker(1)).expect("it is taken");
    fleet.set_availability(WorkerId(1), Availability::Overloaded).expect("it is there");
    assert_eq!(problem(&fleet, &allowed, 9), Some(PinProblem::RankUnavailable));
    assert_eq!(problem(&fleet, &allowed, 0), Some(PinProblem::TaintsUnsatisfied));
    fleet.upsert(tainted(1, &["fast", "other"])).expect("it is taken");
    assert_eq!(problem(&fleet, &allowed, 0), Some(PinProblem::Overloaded));
    fleet.set_availability(WorkerId(1), Availability::Ready).expect("it is there");
    assert_eq!(problem(&fleet, &allowed, 0), None);
    let snapshot = fleet.snapshot(&key(Role::Aggregated));
    assert_eq!(wrong_pin(&snapshot, &request(1)), None, "not pinned");
}

/// The rules once more, row by row and as they read.
fn naive(
    snapshot: &Snapshot,
    request: &RouteRequest,
    overloaded: &[bool],
) -> (Vec<u32>, BTreeMap<&'static str, u32>) {
    let constraints = &request.constraints;
    let allows = |id| constraints.allowed.as_ref().is_none_or(|allowed| allowed.contains(&id));
    let has = |spec: &WorkerSpec, adapter: &str| spec.lora_adapters.contains(adapter);
    let some_has = |adapter: &str| {
        let mut specs = snapshot.workers.iter().map(|worker| &worker.spec);
        specs.any(|spec| allows(spec.worker_id) && has(spec, adapter))
    };
    let adapter = constraints.adapter.as_deref();
    let adapter = adapter.filter(|adapter| constraints.pinned.is_none() && some_has(adapter));
    let (mut rows, mut excluded) = (Vec::new(), BTreeMap::new());
    for (row, id) in snapshot.rows.iter().enumerate() {
        let worker = snapshot.worker(row).expect("every row has a worker");
        let reasons = [
            ("allowed", constraints.allowed.as_ref().is_some_and(|a| !a.contains(&id.worker_id))),
            ("pinned worker", constraints.pinned.is_some_and(|p| p.worker_id != id.worker_id)),
            ("adapter", adapter.is_some_and(|adapter| !has(&worker.spec, adapter))),
            ("tried", constraints.tried.contains(&id.worker_id)),
            ("draining", worker.availability == Availability::Draining),
            ("unhealthy", worker.availability == Availability::Unhealthy),
            ("taint", constraints.required_taints.iter().any(|t| !worker.spec.taints.contains(t))),
            ("overloaded", worker.availability == Availability::Overloaded),
            ("overloaded", overloaded.get(snapshot.worker_of_row[row] as usize) == Some(&true)),
            ("pinned rank", constraints.pinned.is_some_and(|p| !p.matches(*id))),
        ];
        match reasons.into_iter().find(|(_, applies)| *applies) {
            None => rows.push(row as u32),
            Some((why, _)) => *excluded.entry(why).or_insert(0) += 1,
        }
    }
    (rows, excluded)
}

fn taints() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set(prop_oneof![Just("a".to_owned()), Just("b".to_owned())], 0..2)
}

fn ids() -> impl Strategy<Value = BTreeSet<WorkerId>> {
    prop::collection::btree_set((0..6_u64).prop_map(WorkerId), 0..5)
}

prop_compose! {
    fn any_worker(id: u64)(
        start in 0..3_u32,
        ranks in 1..4_u32,
        taints in taints(),
        lora_adapters in taints(),
        availability in prop_oneof![
            3 => Just(Availability::Ready),
            1 => Just(Availability::Unhealthy),
            1 => Just(Availability::Overloaded),
            1 => Just(Availability::Draining),
        ],
    ) -> (WorkerSpec, Availability) {
        (WorkerSpec { taints, lora_adapters, ..ranked(id, start, ranks) }, availability)
    }
}

prop_compose! {
    fn any_constraints()(
        allowed in prop::option::of(ids()),
        tried in prop_oneof![2 => Just(BTreeSet::new()), 1 => ids()],
        pinned in prop::option::weighted(0.3, (0..6_u64, prop::option::of(0..6_u32))),
        required_taints in taints(),
        adapter in taints(),
    ) -> Constraints {
        let pinned = pinned.and_then(|(id, rank)| pin(id, rank));
        let adapter = adapter.first().map(|name| name.as_str().into());
        let preferred_taints = BTreeMap::new();
        Constraints { allowed, tried, pinned, adapter, required_taints, preferred_taints }
    }
}

proptest! {
    #[test]
    fn the_rules_are_what_they_read_like(
        workers in (0..6_usize).prop_flat_map(|n| (0..n as u64).map(any_worker).collect::<Vec<_>>()),
        constraints in any_constraints(),
        overloaded in prop_oneof![
            Just(Vec::new()),
            prop::collection::vec(any::<bool>(), 6),
        ],
    ) {
        let mut fleet = Fleet::default();
        for (spec, availability) in workers {
            let id = spec.worker_id;
            fleet.upsert(spec).expect("it is taken");
            fleet.set_availability(id, availability).expect("it is there");
        }
        let snapshot = fleet.snapshot(&key(Role::Aggregated));
        let mut request = request(1);
        request.constraints = constraints;
        let mut found = Eligibility::default();
        found.find(&snapshot, &request, &overloaded);
        let (rows, excluded) = naive(&snapshot, &request, &overloaded);
        prop_assert_eq!(&found.rows, &rows);
        let count = |why| excluded.get(why).copied().unwrap_or(0);
        let expected = Exclusions {
            not_allowed: count("allowed"),
            not_pinned: count("pinned worker") + count("pinned rank"),
            without_adapter: count("adapter"),
            tried: count("tried"),
            draining: count("draining"),
            unhealthy: count("unhealthy"),
            missing_taint: count("taint"),
            overloaded: count("overloaded"),
        };
        prop_assert_eq!(found.excluded, expected);
        let only = request.constraints.pinned.is_some() && rows.len() == 1;
        prop_assert_eq!(found.pinned, only.then(|| snapshot.rows[rows[0] as usize]));
        // Nothing is wrong with a pin exactly when it gets something.
        if request.constraints.pinned.is_some() {
            let rules = Rules::of(&request.constraints, &snapshot, &overloaded);
            prop_assert_eq!(rules.pin_problem(&snapshot).is_none(), !rows.is_empty());
        }
    }
}
