//! Chance, seeded by the decision: the same request and rows always give the same answer.
//!
//! The generator is SplitMix64. Its stream is part of the contract between host and SDK (ties are
//! broken with it on both sides), so it never changes.

/// A small, fast generator with a stable stream. Not for secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

/// 2^64 divided by the golden ratio, made odd: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// A generator whose stream `seed` decides.
    #[inline]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Another stream of the same seed, for a purpose that must not share draws with the rest.
    #[inline]
    pub const fn stream(seed: u64, purpose: u64) -> Self {
        Self::new(mix(seed ^ mix(purpose.wrapping_add(STEP))))
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number in [0, 1), of 53 bits.
    #[inline]
    pub const fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number below `n`, by one draw; 0 when `n` is 0.
    #[inline]
    pub const fn below(&mut self, n: usize) -> usize {
        ((self.next_u64() as u128 * n as u128) >> 64) as usize
    }

    /// True with this probability, by one draw.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

/// The finaliser of SplitMix64: a fixed mixing of 64 bits, also good for hashing ids.
#[inline]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A hash of a text that is the same on every machine: eight bytes at a time, mixed into what came before.
/// With a seed that nobody outside knows, nobody can foresee it.
pub fn hash(text: &str, seed: u64) -> u64 {
    let words = text.as_bytes().chunks_exact(8);
    let (start, rest) = (seed ^ text.len() as u64, words.remainder());
    let hash = words.fold(start, |hash, word| {
        let word = word.try_into().map(u64::from_le_bytes).unwrap_or_default();
        mix(hash ^ mix(word))
    });
    rest.iter().fold(hash, |hash, byte| mix(hash ^ u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_splitmix64_for_good() {
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        let mut random = Random::new(7);
        assert_eq!(random.below(0), 0);
        for _ in 0..1_000 {
            assert!((0.0..1.0).contains(&random.unit()));
            assert!(random.below(3) < 3);
        }
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::stream(5, 0).next_u64(), Random::stream(5, 1).next_u64());
        assert_ne!(Random::stream(5, 0).next_u64(), Random::new(5).next_u64());
    }
}
