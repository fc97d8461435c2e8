//! The public listener over real sockets: a router, mock engines, and clients that misbehave.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod adapters;
mod answers;
mod black_holes;
mod bodies;
mod classified;
mod departures;
mod documents;
mod doors;
mod liars;
mod links;
mod outcomes;
mod prefills;
mod prompts;
mod retries;
mod rig;
mod sessions;
mod unread;
