//! A request that two workers share: one computes its prompt, the other its answer.
//!
//! Owns who serves a model's requests (`pools`), what each of the two is told (`handover`; for how many prompts, `batch`), and how that
//! gets into a client's body without a look at the rest of it (`splice`). Sending it, and what becomes of
//! it, is [`super::proxy`]'s.

mod batch;
mod handover;
mod pools;
mod splice;

pub(super) use handover::{Meeting, Original, handed_over};
pub(super) use pools::{Pair, Plan};
