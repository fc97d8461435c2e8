//! Starts the router; the library is the product.
//!
//! Owns the choice of the allocator, which is the program's alone: whoever embeds the library has one of
//! his own.

use std::process::ExitCode;

/// Connections come and go by thousands. This one gives what they took back to the system; the C
/// library's keeps it, and takes more for the next ones.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Its settings, which `_RJEM_MALLOC_CONF` in the environment overrides: a thread of its own gives back what
/// wasn't used for a second.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "the allocator finds its settings by this name, as it starts before us"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 43] = b"background_thread:true,dirty_decay_ms:1000\0";

fn main() -> ExitCode {
    pointsman::cli::main()
}
