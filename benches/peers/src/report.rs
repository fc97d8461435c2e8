//! All figures: one document, or tables.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{decision, hashing, hosted, index, select};

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub select: Vec<select::Figures>,
    pub lookup: Vec<index::LookupFigures>,
    pub apply: Vec<index::ApplyFigures>,
    pub decision: Vec<decision::Figures>,
    pub hosted: Vec<hosted::Figures>,
    pub hashing: Option<hashing::Figures>,
    pub memory: Vec<index::MemoryFigures>,
}

impl Report {
    pub fn print(&self) {
        self.print_selections();
        self.print_decisions();
        if !self.hosted.is_empty() {
            println!("hosted round-robin: workers, one thread, throughput of two, allocations");
        }
        for f in &self.hosted {
            let (ns, two) = (f.ours_ns, f.throughput_of_two);
            println!("{:>24} {ns:>8.0} ns {two:>8.2} {:>6}", f.workers, f.allocations);
        }
        if let Some(hashing::Figures { peer_blocks_us, peer_chain_us, ours_us, .. }) = self.hashing
        {
            println!(
                "hashing 2,048 tokens, block size 16 (us): peer, blocks {peer_blocks_us:.2} + chain {peer_chain_us:.2}; ours, both {ours_us:.2}"
            );
        }
        self.print_index();
    }

    fn print_selections(&self) {
        for f in &self.select {
            let factors = (f.native_us / f.peer_us, f.component_us / f.peer_us);
            println!(
                "select, {} rows (us): peer {:.2} (linked {:.2}, plugin {:.2}), native {:.2} ({:.3} of it, 1/{:.1}), component {:.2} ({:.3} of it, 1/{:.1}); allocations {:.1}, {:.1}, {:.1}",
                f.rows,
                f.peer_us,
                f.peer_linked_us,
                f.peer_plugin_us,
                f.native_us,
                factors.0,
                1.0 / factors.0,
                f.component_us,
                factors.1,
                1.0 / factors.1,
                f.peer_allocations,
                f.native_allocations,
                f.component_allocations,
            );
        }
    }

    fn print_decisions(&self) {
        for f in &self.decision {
            println!(
                "decision, {} workers, index {} (us): peer {:.2} (linked {:.2}, plugin {:.2}), ours {:.2} (1/{:.1}); allocations {:.1}, {:.1}",
                f.workers,
                f.index,
                f.peer_us,
                f.peer_linked_us,
                f.peer_plugin_us,
                f.ours_us,
                f.peer_us / f.ours_us,
                f.peer_allocations,
                f.ours_allocations,
            );
        }
    }

    fn print_index(&self) {
        if self.lookup.is_empty() && self.apply.is_empty() && self.memory.is_empty() {
            return;
        }
        println!(
            "{:<16} {:>8} {:<10} {:>10} {:>10} {:>8}",
            "", "workers", "shape", "peer", "ours", "factor"
        );
        for f in &self.lookup {
            line("lookup (us)", f.workers, f.shape, f.peer_us, f.ours_us, f.peer_us / f.ours_us);
        }
        for f in &self.apply {
            let factor = f.ours_mblocks_s / f.peer_mblocks_s;
            line("apply (M/s)", f.workers, f.shape, f.peer_mblocks_s, f.ours_mblocks_s, factor);
        }
        for f in &self.memory {
            let factor = f.peer_bytes / f.ours_bytes;
            line("memory (bytes)", f.workers, f.shape, f.peer_bytes, f.ours_bytes, factor);
        }
        means("lookup", self.lookup.iter().map(|f| (f.workers, f.peer_us / f.ours_us)));
        means("apply", self.apply.iter().map(|f| (f.workers, f.ours_mblocks_s / f.peer_mblocks_s)));
    }
}

/// One line: what both take, and how many times better ours is.
fn line(what: &str, workers: u64, shape: &str, peer: f64, ours: f64, factor: f64) {
    println!("{what:<16} {workers:>8} {shape:<10} {peer:>10.2} {ours:>10.2} {factor:>8.2}");
}

/// The geometric mean of the factors over the shapes, by size of the fleet.
fn means(what: &str, factors: impl Iterator<Item = (u64, f64)>) {
    let mut by_workers = BTreeMap::<u64, Vec<f64>>::new();
    factors.for_each(|(workers, factor)| by_workers.entry(workers).or_default().push(factor));
    for (workers, factors) in by_workers {
        let mean = factors.iter().product::<f64>().powf(1.0 / factors.len() as f64);
        println!(
            "{what}, {workers} workers, geometric mean of {} shapes: {mean:.1}",
            factors.len()
        );
    }
}
