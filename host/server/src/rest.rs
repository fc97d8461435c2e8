//! What the listeners have in common that speak JSON with programs and operators: the admin's and the
//! selection service's.
//!
//! Owns how bodies are read, answers written and errors worded there, and who counts as being on this machine.
//! It doesn't know their routes, or what they say.

mod answer;
mod aside;
mod body;
mod error;
mod local;
mod misses;

pub(crate) use answer::Json;
pub(crate) use aside::aside;
pub(crate) use body::{JsonBody, JsonBytes};
pub(crate) use error::{RestError, clipped};
pub(crate) use local::is_local;
pub(crate) use misses::{not_so, nowhere};
