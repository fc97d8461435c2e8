//! Promises of the fleet.

use super::*;
use crate::disaggregation::{Disaggregation, Protocol};
use crate::ids::{PartitionKey, Role};
use crate::testing::{fleet, group, key, rank, ranked, size, snapshot, worker};

#[test]
fn rows_stand_in_ascending_order_however_workers_came() {
    let snapshot = snapshot([ranked(9, 2, 2), worker(1), ranked(4, 0, 3)]);
    let expected = [rank(1, 0), rank(4, 0), rank(4, 1), rank(4, 2), rank(9, 2), rank(9, 3)];
    assert_eq!(snapshot.rows, expected);
    for (row, expected) in expected.iter().enumerate() {
        assert_eq!(snapshot.worker(row).map(|w| w.spec.worker_id), Some(expected.worker_id));
        assert_eq!(snapshot.row_of(*expected), Some(row));
    }
    assert!(snapshot.worker(expected.len()).is_none());
    // Rank 0 of worker 9 is no rank of it, though it has two.
    assert_eq!(snapshot.row_of(rank(9, 0)), None);
}

#[test]
fn ranks_are_bounded_and_the_last_32_bit_rank_is_nobodys() {
    let cases = [
        (0, 1, true),
        (0, MAX_RANKS_PER_WORKER, true),
        (0, MAX_RANKS_PER_WORKER + 1, false),
        (0, u32::MAX, false),
        (u32::MAX - 1, 1, true),
        (u32::MAX, 1, false),
        (u32::MAX - 1, 2, false),
        (u32::MAX - MAX_RANKS_PER_WORKER, MAX_RANKS_PER_WORKER, true),
    ];
    for (start, given, taken) in cases {
        let mut fleet = Fleet::default();
        let answer = fleet.upsert(ranked(1, start, given));
        let refusal = FleetError::Ranks { worker_id: WorkerId(1), start, given };
        let expected = if taken { Ok(vec![key(Role::Aggregated)]) } else { Err(refusal) };
        assert_eq!(answer, expected, "{given} ranks from {start}");
        let rows = fleet.snapshot(&key(Role::Aggregated)).rows.len();
        assert_eq!(rows, if taken { given as usize } else { 0 });
    }
}

#[test]
fn a_partition_has_one_block_size() {
    let mut fleet = fleet([worker(1)]);
    let other = WorkerSpec { block_size: size(32), ..worker(2) };
    assert!(matches!(fleet.upsert(other.clone()), Err(FleetError::BlockSize { .. })));
    assert!(fleet.get(WorkerId(2)).is_none(), "a refused worker is not there");
    // Elsewhere it is welcome, and the only worker may change its mind.
    let elsewhere = WorkerSpec { partition: group("large-blocks"), ..other };
    assert!(fleet.upsert(elsewhere).is_ok());
    assert!(fleet.upsert(WorkerSpec { block_size: size(32), ..worker(1) }).is_ok());
}

#[test]
fn those_who_share_prompts_speak_one_protocol() {
    let speaks = |id, role, protocol| {
        let disaggregation = Disaggregation { protocol, bootstrap_port: None };
        WorkerSpec { partition: key(role), disaggregation, ..worker(id) }
    };
    let (vllm, sglang) = (Protocol::Vllm, Protocol::Sglang);
    let mut fleet = fleet([speaks(1, Role::Prefill, sglang), worker(2)]);
    let refused = fleet.upsert(speaks(3, Role::Decode, vllm)).expect_err("they don't understand");
    assert_eq!(
        refused.to_string(),
        "worker 3: protocol vllm for model m, group default, whose worker 1 speaks sglang; register it \
         under another routing group"
    );
    assert!(fleet.upsert(speaks(3, Role::Decode, sglang)).is_ok());
    // Who shares nothing, shares no protocol.
    assert!(fleet.upsert(speaks(2, Role::Aggregated, vllm)).is_ok());
    let elsewhere = WorkerSpec { partition: group("b"), ..speaks(4, Role::Decode, vllm) };
    let role = PartitionKey { role: Role::Decode, ..group("b") };
    assert!(fleet.upsert(WorkerSpec { partition: role, ..elsewhere }).is_ok());
}

#[test]
fn another_engine_under_the_same_id_begins_another_epoch() {
    let base = ranked(1, 0, 2);
    let met = Disaggregation { bootstrap_port: Some(9_000), ..Disaggregation::default() };
    let cases: [(&str, WorkerSpec, bool); 8] = [
        ("endpoint", WorkerSpec { endpoint: "http://other".into(), ..base.clone() }, true),
        ("partition", WorkerSpec { partition: group("other"), ..base.clone() }, true),
        ("first rank", WorkerSpec { data_parallel_start_rank: 1, ..base.clone() }, true),
        ("ranks", WorkerSpec { data_parallel_size: size(3), ..base.clone() }, true),
        ("block size", WorkerSpec { block_size: size(32), ..base.clone() }, true),
        ("port", WorkerSpec { disaggregation: met, ..base.clone() }, true),
        ("taints", WorkerSpec { taints: ["a".to_owned()].into(), ..base.clone() }, false),
        ("capacity", WorkerSpec { total_kv_blocks: Some(1), ..base.clone() }, false),
    ];
    for (what, changed, another) in cases {
        let mut fleet = fleet([base.clone()]);
        fleet.set_availability(WorkerId(1), Availability::Unhealthy).expect("it is there");
        let before = fleet.get(WorkerId(1)).expect("it is there").clone();
        fleet.upsert(changed).expect("it is taken");
        let after = fleet.get(WorkerId(1)).expect("it is there");
        assert_eq!(after.epoch != before.epoch, another, "{what}");
        let expected = if another { Availability::Ready } else { Availability::Unhealthy };
        assert_eq!(after.availability, expected, "{what}");
    }
}

#[test]
fn a_worker_that_moves_leaves_its_old_partition() {
    let mut fleet = fleet([worker(1), worker(2)]);
    let moved = WorkerSpec { partition: group("other"), ..worker(1) };
    let changed = fleet.upsert(moved).expect("it is taken");
    assert_eq!(changed, [group("other"), key(Role::Aggregated)]);
    assert_eq!(fleet.snapshot(&key(Role::Aggregated)).rows, [rank(2, 0)]);
    assert_eq!(fleet.snapshot(&group("other")).rows, [rank(1, 0)]);
}

#[test]
fn a_heartbeat_changes_nothing() {
    let mut fleet = fleet([worker(1)]);
    let before = fleet.snapshot(&key(Role::Aggregated)).generation;
    assert_eq!(fleet.upsert(worker(1)), Ok(vec![]));
    assert_eq!(fleet.snapshot(&key(Role::Aggregated)).generation, before);
}

#[test]
fn a_draining_worker_comes_back_only_by_registering_again() {
    let mut fleet = fleet([worker(1)]);
    let id = WorkerId(1);
    let epoch = fleet.get(id).expect("it is there").epoch;
    assert!(fleet.set_availability(id, Availability::Draining).expect("known").is_some());
    assert_eq!(fleet.set_availability(id, Availability::Ready), Ok(None));
    assert!(!fleet.snapshot(&key(Role::Aggregated)).all_ready);
    assert_eq!(fleet.upsert(worker(1)).expect("it is taken").len(), 1);
    let after = fleet.get(id).expect("it is there");
    assert_eq!((after.availability, after.epoch), (Availability::Ready, epoch));
}

#[test]
fn a_worker_that_returns_has_another_epoch() {
    let mut fleet = fleet([worker(1)]);
    let first = fleet.remove(WorkerId(1)).expect("it is there").epoch;
    fleet.upsert(worker(1)).expect("it is taken");
    assert!(fleet.get(WorkerId(1)).expect("it is there").epoch > first);
    assert_eq!(fleet.remove(WorkerId(2)).map(|_| ()), Err(FleetError::Unknown(WorkerId(2))));
    let unknown = fleet.set_availability(WorkerId(2), Availability::Ready);
    assert_eq!(unknown, Err(FleetError::Unknown(WorkerId(2))));
}

#[test]
fn a_row_goes_on_where_its_rank_does_in_the_same_life() {
    let group = key(Role::Aggregated);
    let mut fleet = fleet([worker(2), ranked(4, 0, 2), worker(6), worker(8)]);
    let before = fleet.snapshot(&group);
    let goes_on = |fleet: &Fleet| -> Vec<Option<u32>> {
        before.continued_in(&fleet.snapshot(&group)).collect()
    };
    assert_eq!(goes_on(&fleet), [Some(0), Some(1), Some(2), Some(3), Some(4)]);
    fleet.remove(WorkerId(2)).expect("it is there");
    for new in [3, 5, 9] {
        fleet.upsert(worker(new)).expect("it is taken");
    }
    let other = WorkerSpec { endpoint: "http://other".into(), ..worker(6) };
    fleet.upsert(other).expect("it is taken");
    fleet.set_availability(WorkerId(8), Availability::Unhealthy).expect("it is there");
    // 3, 4 with two ranks, 5, 6, 8, 9.
    assert_eq!(goes_on(&fleet), [None, Some(1), Some(2), None, Some(5)]);
    for id in [3, 4, 5, 6, 8, 9] {
        fleet.remove(WorkerId(id)).expect("it is there");
    }
    assert_eq!(goes_on(&fleet), [None; 5]);
}
