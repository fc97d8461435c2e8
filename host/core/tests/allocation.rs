//! A warm decision takes no memory: every buffer that it needs is kept from the ones before.

#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use pointsman_core::admission::{Scout, Site};
use pointsman_core::clock::Moment;
use pointsman_core::eligibility::BusyThresholds;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::hashing::{Scope, sequence_hashes};
use pointsman_core::ids::{DecisionId, DpRank, PartitionKey, Role, WorkerId, WorkerRank};
use pointsman_core::index::{CacheEvent, Content, Stored, Tier};
use pointsman_core::ledger::{Bell, Charge, Growth, Ledger, PromptBlocks};
use pointsman_core::partition::Mode;
use pointsman_core::policy::selection::{
    InstanceSpec, OnFailure, Recipe, Rollout, SelectionSpec, ShadowSpec, TypeUse,
};
use pointsman_core::policy::{Catalog, Limits, RouterSettings};
use pointsman_core::queue::{ClassSpec, Profile};
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
    made(policy_type, rollout, RouterSettings::default())
}

fn made(policy_type: &str, rollout: Rollout, settings: RouterSettings) -> Router {
    let used = TypeUse {
        policy_type: policy_type.into(),
        parameters: Default::default(),
        limits: Limits::default(),
    };
    let instance = InstanceSpec {
        rollout,
        ..InstanceSpec::new("mine", Recipe::Whole(used), OnFailure::Reject)
    };
    let mut other = instance.clone();
    (other.name, other.rollout) = ("other".into(), Rollout::default());
    let selection = SelectionSpec {
        roles: [(Role::Aggregated, "mine".into())].into(),
        instances: vec![instance, other],
    };
    let (catalog, settings) = (Catalog::builtin(), Arc::new(settings));
    let policies = Policies { catalog, selection, settings, ..Policies::default() };
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

/// What is copied of the others, or looked through, would show as memory that is taken for it.
#[test]
fn a_partition_begins_as_easily_beside_thousands_as_beside_a_few() {
    let policies = Policies { catalog: Catalog::builtin(), ..Policies::default() };
    let router = Router::new(policies, 1);
    let mut next = 0;
    let mut begin = |partitions: u64| {
        let before = TAKEN.with(Cell::get);
        for _ in 0..partitions {
            let partition = PartitionKey { model: format!("model-{next}").into(), ..partition() };
            let spec = WorkerSpec::new(WorkerId(next), "http://worker", partition);
            router.upsert_worker(spec).expect("it is taken");
            next += 1;
        }
        TAKEN.with(Cell::get) - before
    };
    begin(100);
    let few = begin(100);
    begin(2_700);
    let many = begin(100);
    // Two more nodes of a map for each, and not hundreds.
    assert!(many < few + 400, "{few} and then {many} for a hundred");
}

/// Nobody hears it.
#[derive(Debug)]
struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

#[test]
fn a_warm_look_at_whether_workers_are_busy_allocates_nothing() {
    let router = router("default");
    let its = router.partition(&partition()).expect("it is there");
    let class = ClassSpec { prefill_busy_threshold: Some(0), ..ClassSpec::new("a") };
    let mut request = RouteRequest::new("r", partition(), 500);
    let mut scout = Scout::default();
    // Looked at as well, and nobody has too much to do.
    let busy =
        BusyThresholds { active_prefill_tokens_threshold: Some(0), ..BusyThresholds::default() };
    assert!(router.set_busy_thresholds(&partition().model, Some(busy)));
    let settings = RouterSettings::default();
    let (profile, bell) = (Arc::<Profile>::default(), Arc::new(Silent) as Arc<dyn Bell>);
    let (profile, partition) = (&profile, &*its);
    let site = Site { partition, settings: &settings, profile, now_ms: 1, bell: &bell };
    for round in 0..100 {
        request.constraints.tried = [WorkerId(round)].into();
        let before = TAKEN.with(Cell::get);
        assert!(!scout.is_busy(&site, &class, &request));
        let taken = TAKEN.with(Cell::get) - before;
        assert!(round == 0 || taken == 0, "{taken} in round {round}");
    }
}

#[test]
fn a_decision_that_is_shown_to_a_shadow_takes_the_memory_of_one_that_was_seen() {
    let shadow = ShadowSpec { budget: 1.0, ..ShadowSpec::of("other".into()) };
    let none = ShadowSpec { sample: 0.0, ..ShadowSpec::of("default".into()) };
    let router = shadowed("default", Rollout { shadows: vec![shadow, none], canary: None });
    let mut request = RouteRequest::new("r", partition(), 500);
    check_warm(&router, &mut request);
    // The same if it is looked at by another thread; some are on their way at a time.
    let leave = |seed| {
        let before = TAKEN.with(Cell::get);
        let decision = router.route(&request, Moment { now_ms: 1, seed }, Mode::Book);
        let sample = decision.ok().and_then(|decision| decision.sample).expect("it is to be shown");
        let sample = sample.for_another_thread();
        let taken = TAKEN.with(Cell::get) - before;
        assert_eq!(sample.shadows().count(), 1);
        assert_eq!(sample.recording.rows.len(), 64);
        taken
    };
    let first = (0..100).map(leave).sum::<u64>();
    assert!(first > 0, "it is memory of its own");
    assert_eq!((100..1_000).map(leave).sum::<u64>(), 0);
}

/// Books a prompt of 128 blocks, has it grow, and ends it. Returns what that takes.
fn taken_by_a_booking(ledger: &Arc<Ledger>, row: usize, chain: &Arc<[u64]>, at: u64) -> u64 {
    let snapshot = ledger.snapshot();
    let before = TAKEN.with(Cell::get);
    let charge = Charge {
        prefill_tokens: 2_048,
        prefill_ms: Some(50.0),
        prompt: PromptBlocks::shared(chain, 129),
        growth: Some(Growth::new(2_050, 16, Some(100))),
    };
    let mut lease = ledger.book(&snapshot, row, charge, at).expect("the row is there");
    lease.prefill_done_at(at + 1);
    lease.progress(70);
    drop(lease);
    TAKEN.with(Cell::get) - before
}

#[test]
fn a_warm_booking_allocates_nothing_whatever_it_shares() {
    let router = router("default");
    let partition = router.partition(&partition()).expect("it is there");
    let ledger = partition.ledger();
    // Each prompt shares another part with the first; the last is a stranger.
    let chains: Vec<Arc<[u64]>> = (0..=128_u64)
        .map(|own| (0..128).map(|at| if at < 128 - own { at } else { own * 1_000 + at }).collect())
        .collect();
    let snapshot = ledger.snapshot();
    let held: Vec<_> = (0..128)
        .map(|n| {
            // Half of them on all rows, so that some runs have many holders.
            let chain = if n % 2 == 0 { &chains[0] } else { &chains[n] };
            let charge = Charge { prompt: PromptBlocks::shared(chain, 129), ..Charge::default() };
            ledger.book(&snapshot, n % 64, charge, 0).expect("the row is there")
        })
        .collect();
    for _ in 0..2 {
        for (row, chain) in chains.iter().enumerate() {
            taken_by_a_booking(ledger, row % 64, chain, 1);
        }
    }
    for seed in 0..5 {
        for (row, chain) in chains.iter().enumerate() {
            assert_eq!(taken_by_a_booking(ledger, (row + seed) % 64, chain, 2), 0);
        }
    }
    drop(held);
    assert_eq!(partition.audit().wrong, 0);
}

#[test]
fn a_warm_decision_about_a_prompt_that_is_active_allocates_nothing() {
    let router = router("default");
    let mut request = RouteRequest::new("r", partition(), 2_050);
    request.chain = (0..128).collect();
    // Without predictions, which are kept, and so take memory.
    let held: Vec<_> = (0..200)
        .map(|seed| router.route(&request, Moment { now_ms: 1, seed }, Mode::Book))
        .collect();
    check_warm(&router, &mut request);
    drop(held);
}

#[test]
fn a_warm_decision_that_predicts_what_is_predicted_allocates_nothing_and_time_may_pass() {
    let settings = RouterSettings { use_kv_events: false, ..RouterSettings::default() };
    let router = made("default", Rollout::default(), settings);
    // Sixteen prompts that share their first half.
    let request = |at: u64| {
        let mut request = RouteRequest::new("r", partition(), 2_050);
        request.chain = (0..64).chain((1..65).map(|block| 1_000 * (at + 1) + block)).collect();
        request
    };
    let requests: Vec<_> = (0..16).map(request).collect();
    for n in 0..4_000 {
        let request = &requests[n as usize % requests.len()];
        let before = TAKEN.with(Cell::get);
        drop(router.route(request, Moment { now_ms: 1 + n / 100, seed: n }, Mode::Book));
        let taken = TAKEN.with(Cell::get) - before;
        assert!(n < 64 || taken == 0, "{taken} in decision {n}");
    }
}
