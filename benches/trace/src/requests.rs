//! The trace: when which prompt comes, as hashes of its blocks.
//!
//! Owns the reading of the file (one JSON object a line, one hash id per 512 tokens; the last block
//! may be partly filled), when within a tick of the trace's clock a request comes, and the way from
//! hash ids to chained sequence hashes. It doesn't know who serves a prompt.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use pointsman_core::hashing::sequence_hash;
use serde::Deserialize;

/// Tokens in one block of the trace.
pub const BLOCK_SIZE: u32 = 512;

/// When the requests of one timestamp come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arrivals {
    /// All at once, as it is written down.
    Written,
    /// One after another until the next timestamp: the trace's clock ticks every three seconds, and
    /// nobody's users come ten at a time.
    Spread,
}

/// One request of the trace.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// When it comes, from the trace's beginning.
    pub arrival_us: u64,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Tokens of its answer.
    pub output_tokens: u64,
    /// Hashes of its whole blocks' contents.
    pub blocks: Arc<[u64]>,
    /// Sequence hashes of its whole blocks.
    pub chain: Arc<[u64]>,
}

#[derive(Deserialize)]
struct Row {
    timestamp: u64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

/// Reads a trace.
pub fn read(path: &Path, arrivals: Arrivals) -> Result<Vec<TraceRequest>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: can't be read; name it with --trace", path.display()))?;
    let mut requests = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = || format!("{}, line {}", path.display(), at + 1);
        let row: Row = serde_json::from_str(line).with_context(place)?;
        requests.push(request(row).with_context(place)?);
    }
    ensure!(!requests.is_empty(), "{}: no requests in it", path.display());
    ensure!(
        requests.is_sorted_by_key(|request| request.arrival_us),
        "{}: timestamps go back; sort the lines",
        path.display()
    );
    if arrivals == Arrivals::Spread {
        spread(&mut requests);
    }
    Ok(requests)
}

/// Lets the requests of one timestamp come at equal distances until the next; those of the last
/// take as long as those before.
fn spread(requests: &mut [TraceRequest]) {
    let starts: Vec<u64> = requests.iter().map(|request| request.arrival_us).collect();
    let mut tick_us = 0;
    let mut from = 0;
    for same in requests.chunk_by_mut(|a, b| a.arrival_us == b.arrival_us) {
        let to = from + same.len();
        tick_us = starts.get(to).map_or(tick_us, |next| next - starts[from]);
        for (at, request) in same.iter_mut().enumerate() {
            request.arrival_us += tick_us * at as u64 / (to - from) as u64;
        }
        from = to;
    }
}

fn request(row: Row) -> Result<TraceRequest> {
    let whole = usize::try_from(row.input_length / u64::from(BLOCK_SIZE))?;
    let ids = row.hash_ids.get(..whole).context("fewer hash ids than whole blocks")?;
    let blocks: Arc<[u64]> = ids.iter().copied().map(mix).collect();
    let mut parent = None;
    let chain = blocks.iter().map(|&block| {
        let hash = sequence_hash(parent, block);
        parent = Some(hash);
        hash
    });
    Ok(TraceRequest {
        arrival_us: row.timestamp * 1_000,
        prompt_tokens: row.input_length,
        output_tokens: row.output_length.max(1),
        chain: chain.collect(),
        blocks,
    })
}

/// SplitMix64's finaliser: small numbers to hashes.
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_one_tick_come_one_after_another_until_the_next() {
        let row =
            |timestamp| Row { timestamp, input_length: 1, output_length: 1, hash_ids: vec![1] };
        let mut requests: Vec<TraceRequest> = [0, 0, 0, 3_000, 6_000, 6_000]
            .map(|timestamp| request(row(timestamp)).expect("it is a request"))
            .to_vec();
        spread(&mut requests);
        let arrivals: Vec<u64> = requests.iter().map(|r| r.arrival_us / 1_000).collect();
        assert_eq!(arrivals, [0, 1_000, 2_000, 3_000, 6_000, 7_500]);
    }
}
