//! Workers with publishers on real sockets, registered over the API of a real router.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod lives;
mod promises;
mod pushed;
mod rig;
mod sources;
