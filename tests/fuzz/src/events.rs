//! What engines tell, by each way in: batches that they publish, streams of those with gaps and
//! restarts, events that are pushed as JSON, the bytes of a ZeroMQ connection, and the answers to where
//! all that is published. The first byte says which. What must hold, whatever comes:
//!
//! * What can't be read is told in a bounded sentence with its place.
//! * The index holds what it says that it holds, by rank as in sum, within its bounds, and finds the
//!   same for one rank as for all.
//! * When all is cleared, nothing is left.
//! * The same event leads to the same, published or pushed.
//! * However a connection's bytes are cut, the same comes out of them, and no more is answered than
//!   was asked.
//! * Where events are said to be are different places, each of which reads as it is written.

#[path = "events/connection.rs"]
mod connection;
#[path = "events/ledger.rs"]
mod ledger;
#[path = "events/published.rs"]
mod published;
#[path = "events/pushed.rs"]
mod pushed;
#[path = "events/sources.rs"]
mod sources;

/// Takes what an engine told.
pub(crate) fn run(bytes: &[u8]) {
    let Some((way, bytes)) = bytes.split_first() else { return };
    match way & 7 {
        0 => published::batch(bytes),
        1 => published::stream(bytes),
        2 => pushed::body(bytes),
        3 => connection::bytes(bytes),
        4 => sources::vllm(bytes),
        _ => sources::sglang(bytes),
    }
}
