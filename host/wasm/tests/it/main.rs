//! Components as the core calls them, written as text so that each shows what it does.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

#[path = "../../../../tests/guests/compose.rs"]
mod guests;
mod rig;

mod calls;
mod classifier;
mod determinism;
mod folder;
mod given;
mod hosted;
mod loading;
mod log;
mod order;
mod state;
mod trust;
mod wasi;
