//! The picker over a real socket, asked as Envoy asks it; nothing is sent to the workers.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod endings;
mod gateway;
mod healths;
mod orders;
mod refusals;
mod routing;
