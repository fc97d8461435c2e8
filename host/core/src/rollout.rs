//! Policies on their way in: those that are watched beside the one that decides, and the one that
//! makes a share of the decisions.
//!
//! Owns the pipelines of both, how they compare, and when a canary is given up. It doesn't know what
//! a decision is booked on, or when a shadow is shown one: its partition takes the sample, and
//! whoever asked for the decision shows it around afterwards.

mod canary;
mod shadow;

pub use canary::{CanaryReport, CanaryState};
pub use shadow::{Seen, Shadow, ShadowReport};

pub(crate) use canary::Canary;
