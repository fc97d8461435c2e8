//! x
#![forbid(unsafe_code)]
mod bindings;
