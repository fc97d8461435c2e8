//! What a sandboxed instance may use. Native policies are not limited.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// The limits of one instance. Every call gets them afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Units of fuel per call: about one per wasm instruction.
    pub fuel: u64,
    /// Bytes of linear memory.
    pub memory: u64,
    /// Wall clock per call: a backstop, at least [`Limits::MIN_DEADLINE`], so that an endless loop
    /// always ends by fuel.
    #[serde(serialize_with = "as_millis")]
    pub deadline: Duration,
    /// Log lines per call; what is over is counted and dropped.
    pub log_lines: u32,
}

fn as_millis<S: Serializer>(deadline: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{}ms", deadline.as_millis()))
}

impl Limits {
    /// Linear memory of the class `small`: components in Rust, C, Zig.
    pub const SMALL_MEMORY: u64 = 32 << 20;
    /// Linear memory of the class `large`: components that bring an interpreter along.
    pub const LARGE_MEMORY: u64 = 256 << 20;
    /// The shortest deadline that can't race with fuel.
    pub const MIN_DEADLINE: Duration = Duration::from_millis(50);

    /// The shortest deadline beside `fuel`: twenty times as long as the fuel usually takes, and at
    /// least [`Limits::MIN_DEADLINE`].
    #[must_use]
    pub fn least_deadline(fuel: u64) -> Duration {
        // A core burns about 1,000,000 units a millisecond on code as policies have it, so that
        // a twentieth of that is the floor.
        let usual = Duration::from_micros(fuel / 1_000);
        Self::MIN_DEADLINE.max(usual * 20)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A thousand times what a usual policy needs for 64 workers, ten times for 4,096.
            fuel: 5_000_000,
            memory: Self::SMALL_MEMORY,
            deadline: Self::least_deadline(5_000_000),
            log_lines: 20,
        }
    }
}
