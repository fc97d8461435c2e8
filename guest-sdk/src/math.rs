//! Functions that a processor or a standard library may round in its own way, from one place.
//!
//! `f64::exp` and its kind differ between platforms in the last bit. These don't, so that a
//! policy's native build, its component and a replay on another machine agree bit for bit. `+ - *
//! /` and `sqrt` are exact everywhere.

pub use libm::{exp, log as ln, pow as powf, tanh};
