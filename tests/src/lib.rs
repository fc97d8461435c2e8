//! What tests and benches share: the guests, built; the library of policies as a table; a linked policy as the host sees it; a rig of
//! real mock engines and a real router on loopback.

pub mod components;
pub mod envoy;
pub mod guests;
pub mod languages;
pub mod library;
pub mod linked;
pub mod looks;
pub mod publisher;
pub mod python;
pub mod recordings;
pub mod rig;
pub mod shared_cache;

/// The README's policy compiles: this is where it is tried.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct Readme;
