//! Criterion benches; see README.md for what each measures and the last figures.
