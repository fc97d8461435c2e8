//! A warm decision takes no memory: every buffer that it needs is kept from the ones before.

#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::partition::Mode;
use pointsman_core::policy::Catalog;
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

#[test]
fn a_warm_decision_allocates_nothing() {
    let partition =
        PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Aggregated };
    let policies = Policies { catalog: Catalog::builtin(), ..Policies::default() };
    let router = Router::new(policies, 1);
    for id in 0..64 {
        let spec = WorkerSpec::new(WorkerId(id), "http://worker", partition.clone());
        router.upsert_worker(spec).expect("it is taken");
    }
    let mut request = RouteRequest::new("r", partition, 500);
    let mut ask = |seed: u64, temperature: f64| {
        request.router_temperature = Some(temperature);
        let before = TAKEN.with(Cell::get);
        let decision = router.route(&request, Moment { now_ms: 1, seed }, Mode::Book);
        let taken = TAKEN.with(Cell::get) - before;
        assert!(decision.is_ok_and(|decision| decision.receipt.eligible == 64));
        taken
    };
    // Twice, since two buffers change places with every scorer.
    ask(0, 0.0);
    ask(0, 0.0);
    for seed in 1..100 {
        assert_eq!(ask(seed, 0.0), 0);
        assert_eq!(ask(seed, 0.7), 0);
    }
}
