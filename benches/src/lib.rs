//! Criterion benches; see README.md for what each measures and the last figures. What several of
//! them measure with stands here.

pub mod inputs;
