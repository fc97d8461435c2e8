//! Decisions without the partition's lock; see `pointsman_benches::hosted` for how they are measured. Not by
//! criterion.

#![expect(unsafe_code, reason = "counting allocations takes an allocator, whose trait is unsafe")]
#![expect(clippy::print_stdout, reason = "its table is what it is for")]

#[expect(dead_code, reason = "others that read the guests want more of them")]
#[path = "../../tests/guests/compose.rs"]
mod guests;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use guests::guest;
use pointsman_benches::hosted::measure;
use pointsman_core::policy::Catalog;
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};

static TAKEN: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
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

const WORKERS: [u64; 4] = [1, 64, 1_024, 4_096];

/// Built-ins, and a component that does what `least-loaded` does.
const POLICIES: [&str; 6] =
    ["round-robin", "random", "power-of-two", "least-loaded", "device-aware", "picks-alone"];

fn main() -> anyhow::Result<()> {
    // `cargo test` asks for one look at everything.
    let rounds = if std::env::args().any(|argument| argument == "--test") { 1 } else { 300 };
    let engine = PolicyEngine::new(EngineConfig::default())?;
    let (name, bytes) = ("picks-alone", guest("picks-alone"));
    let component = ComponentPolicy::load(&engine, name, Path::new("picks-alone.wasm"), &bytes)?;
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(component))?;
    println!("| policy | workers | one thread | each of two | throughput of two | allocations |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for policy in POLICIES {
        // What takes so long is interrupted now and then, and a component that is often slow is left to
        // the lock.
        let most = if policy == "picks-alone" { 1_024 } else { u64::MAX };
        for workers in WORKERS.into_iter().filter(|workers| *workers <= most) {
            let figures =
                measure(&catalog, policy, workers, rounds, || TAKEN.load(Ordering::Relaxed))?;
            let times = figures.throughput_of_two();
            println!(
                "| {policy} | {workers} | {:.0} ns | {:.0} ns | {times:.2} | {} |",
                figures.one_ns, figures.two_ns, figures.allocations
            );
        }
    }
    Ok(())
}
