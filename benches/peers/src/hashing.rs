//! Tokens to hashes.

use std::hint::black_box;

use anyhow::{Result, ensure};
use dynamo_kv_router::protocols::{
    BlockHashOptions, compute_block_hash_for_seq, compute_seq_hash_for_block,
};
use pointsman_core::hashing::{Scope, sequence_hashes};
use serde::Serialize;

use crate::timing::alternate;

const TIMES: usize = 2_000;

/// Microseconds for one prompt.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub tokens: usize,
    pub block_size: u32,
    pub peer_blocks_us: f64,
    pub peer_chain_us: f64,
    pub ours_us: f64,
}

pub fn measure(rounds: usize) -> Result<Figures> {
    let tokens: Vec<u32> = (0..2_048).collect();
    let options = BlockHashOptions::default;
    let blocks = compute_block_hash_for_seq(&tokens, 16, options());
    let mut chain = Vec::new();
    sequence_hashes(&tokens, 16, Scope::default(), &mut chain);
    ensure!(compute_seq_hash_for_block(&blocks) == chain, "the hashes differ");
    let micros = 1e6 / TIMES as f64;
    let (peer_blocks, ours) = alternate(
        rounds,
        || {
            for _ in 0..TIMES {
                black_box(compute_block_hash_for_seq(black_box(&tokens), 16, options()));
            }
        },
        || {
            for _ in 0..TIMES {
                sequence_hashes(black_box(&tokens), 16, Scope::default(), &mut chain);
                black_box(&chain);
            }
        },
    );
    let (peer_chain, _) = alternate(
        rounds,
        || {
            for _ in 0..TIMES {
                black_box(compute_seq_hash_for_block(black_box(&blocks)));
            }
        },
        || {},
    );
    Ok(Figures {
        tokens: tokens.len(),
        block_size: 16,
        peer_blocks_us: peer_blocks * micros,
        peer_chain_us: peer_chain * micros,
        ours_us: ours * micros,
    })
}
