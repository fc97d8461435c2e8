//! How long a prefill is expected to take.
//!
//! Owns the formula and its usual numbers. What melts by it is the ledger's.

use serde::{Deserialize, Serialize};

/// A prefill's duration as a polynomial of the tokens that are to be computed. The default is that of
/// the engine that users of linked policies simulate with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillLoadModel {
    /// Milliseconds that any prefill takes.
    pub constant_ms: f64,
    /// Milliseconds for each token.
    pub ms_per_token: f64,
    /// Milliseconds for each token, times the tokens: attention's part.
    pub ms_per_token_squared: f64,
}

impl Default for PrefillLoadModel {
    fn default() -> Self {
        Self { constant_ms: 16.50142, ms_per_token: 1.518344e-2, ms_per_token_squared: 4.209989e-7 }
    }
}

impl PrefillLoadModel {
    /// Milliseconds for so many tokens; none for none.
    #[must_use]
    pub fn duration_ms(&self, tokens: u64) -> Option<f64> {
        let n = tokens as f64;
        let ms = (self.ms_per_token_squared * n + self.ms_per_token) * n + self.constant_ms;
        (tokens > 0 && ms.is_finite() && ms > 0.0).then_some(ms)
    }

    /// What is out of range, each a message. Empty when all is well.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let coefficients = [
            ("constant_ms", self.constant_ms),
            ("ms_per_token", self.ms_per_token),
            ("ms_per_token_squared", self.ms_per_token_squared),
        ];
        let bad = coefficients.iter().filter(|(_, ms)| !(ms.is_finite() && *ms >= 0.0));
        let bad = bad.map(|(name, ms)| {
            format!("its {name}, {ms}, is out of range; expected milliseconds, at least 0")
        });
        let mut problems: Vec<_> = bad.collect();
        if coefficients.iter().all(|(_, ms)| *ms == 0.0) {
            problems.push("takes no time at all; set one of its numbers above 0".to_owned());
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_the_polynomials() {
        let model = PrefillLoadModel::default();
        assert_eq!(model.duration_ms(0), None);
        // 0.4209989 + 15.18344 + 16.50142
        let ms = model.duration_ms(1_000).expect("it takes a while");
        assert!((ms - 32.105_858_9).abs() < 1e-9, "{ms}");
        let linear =
            PrefillLoadModel { constant_ms: 0.0, ms_per_token: 2.0, ms_per_token_squared: 0.0 };
        assert_eq!(linear.duration_ms(50), Some(100.0));
    }

    #[test]
    fn every_bad_number_is_named() {
        assert!(PrefillLoadModel::default().problems().is_empty());
        let bad = PrefillLoadModel {
            constant_ms: -1.0,
            ms_per_token: f64::NAN,
            ms_per_token_squared: f64::INFINITY,
        };
        let problems = bad.problems().join("|");
        for name in ["constant_ms, -1,", "ms_per_token, NaN,", "ms_per_token_squared, inf,"] {
            assert!(problems.contains(name), "{problems}");
        }
        let none =
            PrefillLoadModel { constant_ms: 0.0, ms_per_token: 0.0, ms_per_token_squared: 0.0 };
        assert_eq!(none.problems().len(), 1);
    }
}
