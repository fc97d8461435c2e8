//! What this machine lacks: errors that speak of the router's own resources, and say nothing about
//! whoever is at the other end.
//!
//! Asked by all that open sockets: the listeners, the probes and the way to the workers.

use std::io;

/// `ENFILE` and `EMFILE`, the same number on every system we know.
const FILES: [i32; 2] = [23, 24];

/// `ENOBUFS`.
const BUFFERS: i32 = if cfg!(target_os = "linux") { 105 } else { 55 };

/// Too many open files, of this process or of the machine, no memory, or no free local port.
pub(crate) fn is_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory)
        || error.raw_os_error().is_some_and(|code| FILES.contains(&code) || code == BUFFERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_router_lacks_is_told_from_what_others_do() {
        for ours in [12, 23, 24, BUFFERS] {
            assert!(is_ours(&io::Error::from_raw_os_error(ours)), "{ours}");
        }
        for theirs in [io::ErrorKind::ConnectionRefused, io::ErrorKind::TimedOut] {
            assert!(!is_ours(&theirs.into()), "{theirs}");
        }
    }
}
