//! Time and chance, as arguments.
//!
//! A [`Moment`] is all that a decision may know of the outside: when it is, and the seed of its
//! random numbers. The caller makes it; the core never asks a clock or an entropy source for
//! anything that a decision depends on. [`Stopwatch`] is for meters only, [`written`] for people.

use std::time::{Duration, Instant};

/// When a decision is made, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds on the router's monotonic clock; zero is the router's start.
    pub now_ms: u64,
    /// Fresh for each decision, and recorded with it.
    pub seed: u64,
}

/// Random numbers from a seed: SplitMix64, whose stream is fixed for good.
///
/// The SDK has the same generator, so that a policy draws the same numbers natively and in a
/// component, and the host breaks ties as the SDK's pickers do.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Starts the stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in [0, 1), with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        // 2^-53: the spacing of doubles just below one.
        (self.bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// An index below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        // The high half of a 64 by 64 bit product: one draw, bias below n / 2^64.
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }
}

/// Measures how long something took. Never an input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads a clock, for meters")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Microseconds since the start.
    #[must_use]
    pub fn micros(&self) -> f64 {
        let elapsed = self.elapsed();
        // Not by all nanoseconds in one number: that has 128 bits, and is slow to turn into a float.
        elapsed.as_secs() as f64 * 1_000_000.0 + f64::from(elapsed.subsec_nanos()) / 1_000.0
    }

    /// From the start of another to this one's; zero if this was started first.
    #[must_use]
    pub fn started_after(&self, other: &Self) -> Duration {
        self.0.saturating_duration_since(other.0)
    }
}

/// A time as the YAML writes it: whole, in the largest unit that has no remainder.
#[must_use]
pub fn written(time: Duration) -> String {
    let millis = time.as_millis();
    match () {
        () if millis == 0 => "0s".to_owned(),
        () if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        () if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        () if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
        () => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_its_largest_whole_unit() {
        for (millis, text) in [
            (0, "0s"),
            (999, "999ms"),
            (1_500, "1500ms"),
            (30_000, "30s"),
            (90_000, "90s"),
            (120_000, "2m"),
            (7_200_000, "2h"),
        ] {
            assert_eq!(written(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn the_stream_of_a_seed_is_fixed() {
        // The generator's published test vector for seed 1234567.
        let mut chance = Chance::new(1_234_567);
        assert_eq!(chance.bits(), 6_457_827_717_110_365_317);
        assert_eq!(chance.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_in_range() {
        let mut chance = Chance::new(7);
        for n in 1..200 {
            assert!(chance.below(n) < n);
            assert!((0.0..1.0).contains(&chance.unit()));
        }
        assert_eq!(chance.below(0), 0);
    }
}
