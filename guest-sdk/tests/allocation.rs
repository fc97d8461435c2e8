//! A warm native decision allocates nothing.

#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pointsman_sdk::native::{Decision, Instance, Lists};
use pointsman_sdk::prelude::*;
use pointsman_sdk::testing;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: `System` does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

export_policy! {
    /// One of each kind of stage.
    pub policy Usual {
        filters: [Warm],
        scorers: [Requests, Requests],
        picker: Lowest,
    }
}

struct Warm;

impl WorkerFilter for Warm {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::DeviceOverlapBlocks]
    }

    fn keep(&mut self, _: &Context<'_>, row: Row<'_>) -> Result<bool> {
        Ok(row.device_overlap_blocks() > 0.0)
    }
}

struct Requests;

impl WorkerScorer for Requests {
    fn inputs(&self) -> Vec<Input> {
        vec![Input::ActiveRequests]
    }

    fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
        rows.score(costs, |row| row.active_requests());
        Ok(())
    }
}

struct Lowest;

impl WorkerPicker for Lowest {
    fn pick(&mut self, cx: &Context<'_>, _: &Candidates<'_>, costs: &[f64]) -> Result<usize> {
        Ok(pick::lowest(costs, &mut cx.random()))
    }
}

#[test]
fn a_warm_decision_allocates_nothing() {
    let mut instance = Instance::configure::<Usual>(testing::environment("{}")).unwrap();
    let request = testing::tool_result();
    let rows = 200;
    let numbers: Vec<f64> = (0..2 * rows).map(|cell| f64::from(cell % 7)).collect();
    let fused = Lists { rows, numbers: &numbers, ..Lists::default() };
    let one = Lists { numbers: &numbers[..200], ..fused };
    let none = Lists { numbers: &[], ..fused };
    let (mut decision, mut mask, mut costs) = (Decision::default(), Vec::new(), Vec::new());
    let mut decide = || {
        instance.decide(&request, fused, &mut decision).unwrap();
        instance.keep(0, &request, one, &mut mask).unwrap();
        instance.score(1, &request, one, &mut costs).unwrap();
        instance.pick(&request, none, &costs).unwrap();
    };
    decide();
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        decide();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
