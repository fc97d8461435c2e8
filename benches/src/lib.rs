//! Criterion benches; see README.md for what each measures and the last figures. What several of
//! them measure with stands here.

pub mod decision;
pub mod fleet;
pub mod hosted;
pub mod inputs;
pub mod selection;
