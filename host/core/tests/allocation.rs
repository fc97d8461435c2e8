//! A warm decision takes no memory: every buffer that it needs is kept from the ones before.

#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DecisionId, DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
use pointsman_core::partition::Mode;
use pointsman_core::policy::selection::{
    InstanceSpec, OnFailure, Recipe, Rollout, Safeguards, SelectionSpec, ShadowSpec, TypeUse,
};
use pointsman_core::policy::{Catalog, Limits};
use pointsman_core::request::RouteRequest;
use pointsman_core::router::{Policies, Router};

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the count is this thread's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The count is gone while its thread ends; nobody asks for it then.
        let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn partition() -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Aggregated }
}

/// A router of 64 workers, decided by a built-in.
fn router(policy_type: &str) -> Router {
    shadowed(policy_type, Rollout::default())
}

/// The same, with what comes after it.
fn shadowed(policy_type: &str, rollout: Rollout) -> Router {
    let used = TypeUse {
        policy_type: policy_type.into(),
        parameters: Default::default(),
        limits: Limits::default(),
    };
    let instance = InstanceSpec {
        name: "mine".into(),
        recipe: Recipe::Whole(used),
        on_failure: OnFailure::Reject,
        discard_state: false,
        safeguards: Safeguards::default(),
        rollout,
    };
    let mut other = instance.clone();
    (other.name, other.rollout) = ("other".into(), Rollout::default());
    let selection = SelectionSpec {
        roles: [(Role::Aggregated, "mine".into())].into(),
        instances: vec![instance, other],
    };
    let policies = Policies { catalog: Catalog::builtin(), selection, ..Policies::default() };
    let router = Router::new(policies, 1);
    for id in 0..64 {
        let spec = WorkerSpec::new(WorkerId(id), "http://worker", partition());
        router.upsert_worker(spec).expect("it is taken");
    }
    router
}

/// What one decision takes, at a temperature.
fn taken(router: &Router, request: &mut RouteRequest, seed: u64, temperature: f64) -> u64 {
    request.router_temperature = Some(temperature);
    let before = TAKEN.with(Cell::get);
    let decision = router.route(request, Moment { now_ms: 1, seed }, Mode::Book);
    let taken = TAKEN.with(Cell::get) - before;
    assert!(decision.is_ok_and(|decision| decision.receipt.eligible == 64));
    taken
}

fn check_warm(router: &Router, request: &mut RouteRequest) {
    // Twice, since two buffers change places with every scorer.
    taken(router, request, 0, 0.0);
    taken(router, request, 0, 0.0);
    for seed in 1..100 {
        assert_eq!(taken(router, request, seed, 0.0), 0);
        assert_eq!(taken(router, request, seed, 0.7), 0);
    }
}

#[test]
fn a_warm_decision_allocates_nothing() {
    check_warm(&router("default"), &mut RouteRequest::new("r", partition(), 500));
}

#[test]
fn a_decision_without_the_lock_allocates_nothing() {
    for policy_type in ["round-robin", "random", "least-loaded", "power-of-two", "device-aware"] {
        let router = router(policy_type);
        let partition = router.partition(&partition()).expect("it is there");
        let mut some = RouteRequest::new("r", partition.key().clone(), 500);
        let all = some.clone();
        some.constraints.tried.insert(WorkerId(3));
        // The thread's stripe, and what the atomic pointer keeps for each thread, are made once.
        drop(partition.hosted().choose(&all, DecisionId(0), Moment { now_ms: 0, seed: 0 }));
        for seed in 1..100 {
            let moment = Moment { now_ms: seed / 10, seed };
            let before = TAKEN.with(Cell::get);
            let lease = partition.hosted().choose(&all, DecisionId(0), moment);
            let among_some = partition.hosted().choose(&some, DecisionId(0), moment);
            let whole = router.route_hosted(&all, moment);
            assert!(lease.is_some() && whole.is_some(), "{policy_type}");
            assert_eq!(among_some.is_some(), policy_type != "round-robin");
            drop((lease, among_some, whole));
            assert_eq!(TAKEN.with(Cell::get) - before, 0, "{policy_type}");
        }
    }
}

#[test]
fn a_warm_decision_over_full_caches_allocates_nothing() {
    for policy_type in ["default", "two-tier"] {
        let router = router(policy_type);
        let tokens: Vec<u32> = (0..2_048).collect();
        let mut chain = Vec::new();
        sequence_hashes(&tokens, 16, Scope::default(), &mut chain);
        let cache = router.partition(&partition()).expect("it is there");
        // Each holds another part of the prompt, some on slower tiers too, and a prompt of its own.
        for id in 0..64 {
            let own: Vec<u64> = (0..100).map(|at| id * 1_000 + at).collect();
            let (device, lower) = chain.split_at(id as usize);
            for (hashes, parent, tier) in [
                (device, None, Tier::Device),
                (&lower[..id as usize % 3], device.last().copied(), Tier::Host),
                (&own, None, Tier::Device),
            ] {
                let content = Content::Sequences(hashes);
                let stored = Stored { parent, engines: hashes, content, tier };
                let rank = WorkerRank { worker_id: WorkerId(id), dp_rank: DpRank(0) };
                cache.cache().apply(rank, CacheEvent::Stored(stored));
            }
        }
        let mut request = RouteRequest::new("r", partition(), 2_048);
        request.chain = chain.into();
        request.shared_hits = vec![0..50, 60..100].into();
        check_warm(&router, &mut request);
    }
}

#[test]
fn a_decision_that_is_shown_to_a_shadow_takes_the_memory_of_one_that_was_seen() {
    let shadow = ShadowSpec { budget: 1.0, ..ShadowSpec::of("other".into()) };
    let none = ShadowSpec { sample: 0.0, ..ShadowSpec::of("default".into()) };
    let router = shadowed("default", Rollout { shadows: vec![shadow, none], canary: None });
    let mut request = RouteRequest::new("r", partition(), 500);
    check_warm(&router, &mut request);
    let decision = router.route(&request, Moment { now_ms: 1, seed: 1 }, Mode::Book);
    let sample = decision.ok().and_then(|decision| decision.sample).expect("it is to be shown");
    assert_eq!(sample.shadows().count(), 1);
    assert_eq!(sample.recording.rows.len(), 64);
}
