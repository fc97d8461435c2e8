//! The guests: policies built to components by this crate's build script, and bad ones as text.

use std::path::{Path, PathBuf};

/// `policies/avoid-failing`, as a component file.
#[must_use]
pub fn avoid_failing() -> &'static Path {
    Path::new(env!("GUEST_AVOID_FAILING"))
}

/// `policies/default-cost`, as a component file.
#[must_use]
pub fn default_cost() -> &'static Path {
    Path::new(env!("GUEST_DEFAULT_COST"))
}

/// `policies/least-busy`, as a component file.
#[must_use]
pub fn least_busy() -> &'static Path {
    Path::new(env!("GUEST_LEAST_BUSY"))
}

/// `policies/least-prefill`, as a component file.
#[must_use]
pub fn least_prefill() -> &'static Path {
    Path::new(env!("GUEST_LEAST_PREFILL"))
}

/// `tests/guests/one-lane`, as a component file.
#[must_use]
pub fn one_lane() -> &'static Path {
    Path::new(env!("GUEST_ONE_LANE"))
}

/// `policies/session-admission`, as a component file.
#[must_use]
pub fn session_admission() -> &'static Path {
    Path::new(env!("GUEST_SESSION_ADMISSION"))
}

/// `policies/soft-pin-repin`, as a component file.
#[must_use]
pub fn soft_pin_repin() -> &'static Path {
    Path::new(env!("GUEST_SOFT_PIN_REPIN"))
}

/// Any crate of `policies/`, as a component file.
#[must_use]
pub fn policy(name: &str) -> PathBuf {
    least_busy().with_file_name(format!("{name}.wasm"))
}

/// The folder of guests that are written as text.
#[must_use]
pub fn text_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests")
}
