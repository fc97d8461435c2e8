//! A policy's parameters: the YAML's `parameters` mapping, as a type of the author's.
//!
//! Parsed once, when an instance is configured. Mistakes refuse the load with a sentence each, which
//! names the key.

mod mistakes;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::{Refusal, Result};

/// Parameters that serde can read, and that say for themselves whether their values make sense.
///
/// Derive `Deserialize` with `#[serde(deny_unknown_fields)]`, so that an operator's slip of the pen
/// is refused rather than ignored.
pub trait Parameters: DeserializeOwned {
    /// A JSON Schema of the mapping, for tools; empty when there is none.
    const SCHEMA: &'static str = "";

    /// What serde can't see: ranges, and how values fit together. [`not_negative`], [`at_least`],
    /// [`above`], [`within`] and [`all`] help.
    ///
    /// # Errors
    ///
    /// Refuses the load; name the key and what it may be.
    fn check(&self) -> Result {
        Ok(())
    }
}

/// For policies that take none: any key is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoParameters {}

impl Parameters for NoParameters {}

/// Accepts finite numbers from zero up.
///
/// # Errors
///
/// For anything else, naming `key`.
pub fn not_negative(key: &str, value: f64) -> Result {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(format!("parameter \"{key}\" is {value}; give a finite number, 0 or more").into())
    }
}

/// Accepts finite numbers between two bounds, both included.
///
/// # Errors
///
/// For anything else, naming `key`.
pub fn within(key: &str, value: f64, least: f64, most: f64) -> Result {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("parameter \"{key}\" is {value}; give a number from {least} to {most}").into())
    }
}

/// Accepts finite numbers from a bound up, the bound included.
///
/// # Errors
///
/// For anything else, naming `key`.
pub fn at_least(key: &str, value: f64, least: f64) -> Result {
    if value.is_finite() && value >= least {
        Ok(())
    } else {
        Err(format!("parameter \"{key}\" is {value}; give a finite number, {least} or more").into())
    }
}

/// Accepts finite numbers above a bound.
///
/// # Errors
///
/// For anything else, naming `key`.
pub fn above(key: &str, value: f64, bound: f64) -> Result {
    if value.is_finite() && value > bound {
        Ok(())
    } else {
        Err(format!("parameter \"{key}\" is {value}; give a finite number above {bound}").into())
    }
}

/// All that is wrong at once, a sentence a line.
///
/// # Errors
///
/// When any of the checks has failed.
pub fn all(checks: impl IntoIterator<Item = Result>) -> Result {
    let wrong = checks.into_iter().filter_map(Result::err);
    let wrong: Vec<String> = wrong.map(|refusal| refusal.message().to_owned()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// The mapping as the author's type, checked.
pub(crate) fn parse<P: Parameters>(json: &str) -> Result<P> {
    let parameters: P = serde_json::from_str(json).map_err(|error| explain::<P>(json, &error))?;
    parameters.check()?;
    Ok(parameters)
}

/// All mistakes in sentences that name their keys; where serde doesn't tell keys apart, the first,
/// with the key that it points at.
fn explain<P: Parameters>(json: &str, error: &serde_json::Error) -> Refusal {
    let all = mistakes::all::<P>(json);
    if !all.is_empty() {
        return Refusal::from(all.join("\n"));
    }
    let text = mistakes::sentence(error);
    match key_at(json, error.line(), error.column()) {
        Some(key) => Refusal::from(format!("parameter \"{key}\": {text}")),
        None => Refusal::from(format!("parameters: {text}")),
    }
}

/// The top-level key whose value holds, or is the last that ends before, a place in the text.
fn key_at(json: &str, line: usize, column: usize) -> Option<String> {
    let before: usize = json.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let place = before + column;
    let values: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    let start =
        |value: &RawValue| (value.get().as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
    values
        .into_iter()
        .filter(|(_, value)| start(value) <= place)
        .max_by_key(|(_, value)| start(value))
        .map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        threshold: f64,
        #[serde(default)]
        window: u32,
        #[serde(default)]
        #[expect(dead_code, reason = "only its type matters")]
        nested: Option<Vec<u32>>,
    }

    impl Parameters for Sample {
        fn check(&self) -> Result {
            not_negative("threshold", self.threshold)
        }
    }

    fn refused(json: &str) -> String {
        match parse::<Sample>(json) {
            Ok(sample) => panic!("{json} was taken as {sample:?}"),
            Err(refusal) => refusal.message().to_owned(),
        }
    }

    #[test]
    fn good_parameters_are_taken() {
        let sample = parse::<Sample>(r#"{"window": 3, "threshold": 8}"#).expect("these are good");
        assert_eq!((sample.threshold, sample.window), (8.0, 3));
        assert!(parse::<NoParameters>("{}").is_ok());
    }

    #[test]
    fn every_mistake_names_its_key() {
        assert_eq!(
            refused(r#"{"threshold": 1, "treshold": 1}"#),
            "unknown parameter \"treshold\", expected one of \"threshold\", \"window\", \"nested\""
        );
        assert_eq!(refused("{}"), "missing parameter \"threshold\"");
        assert_eq!(
            refused(r#"{"window": 1, "threshold": "two"}"#),
            "parameter \"threshold\": invalid type: string \"two\", expected f64"
        );
        assert_eq!(
            refused("{\n  \"threshold\": 1,\n  \"window\": -1\n}"),
            "parameter \"window\": invalid value: integer \"-1\", expected u32"
        );
        assert_eq!(
            refused(r#"{"threshold": 1, "nested": [1, true], "window": 1}"#),
            "parameter \"nested\": invalid type: boolean \"true\", expected u32"
        );
        // YAML's .nan and .inf have no JSON form and arrive as null.
        assert_eq!(
            refused(r#"{"threshold": null}"#),
            "parameter \"threshold\": invalid type: null, expected f64"
        );
        assert_eq!(
            refused(r#"{"threshold": -1}"#),
            "parameter \"threshold\" is -1; give a finite number, 0 or more"
        );
        assert!(refused("[]").starts_with("parameters: invalid "));
    }

    #[test]
    fn what_the_author_checks_is_told_beside_what_can_not_be_read() {
        let told = |json: &str| refused(json).lines().map(str::to_owned).collect::<Vec<_>>();
        let negative = "parameter \"threshold\" is -1; give a finite number, 0 or more";
        let [unknown, checked] = &told(r#"{"threshold": -1, "treshold": 1}"#)[..] else { panic!() };
        assert!(unknown.starts_with("unknown parameter \"treshold\"") && checked == negative);
        let [window, checked] = &told(r#"{"threshold": -1, "window": -1}"#)[..] else { panic!() };
        assert!(window.starts_with("parameter \"window\": ") && checked == negative);
        // What was made up in place of a mistake is nobody's second mistake.
        assert_eq!(told(r#"{"threshold": "x", "a": 1}"#).len(), 2);
    }

    #[test]
    fn a_time_with_a_unit_is_answered_with_the_number_that_is_wanted() {
        #[derive(Debug, Deserialize)]
        struct Times {
            #[expect(dead_code, reason = "only its type matters")]
            idle_secs: u32,
            #[expect(dead_code, reason = "only its type matters")]
            tick_ms: u32,
        }
        impl Parameters for Times {}
        let refusal = parse::<Times>(r#"{"idle_secs": "1h", "tick_ms": "2s"}"#).expect_err("texts");
        let [idle, tick] = &refusal.message().lines().collect::<Vec<_>>()[..] else { panic!() };
        assert!(idle.ends_with("; write 3600: the value is a number of seconds"), "{idle}");
        assert!(tick.ends_with("; write 2000: the value is a number of milliseconds"), "{tick}");
        let refusal = parse::<Times>(r#"{"idle_secs": "long", "tick_ms": 1}"#).expect_err("a text");
        assert!(!refusal.message().contains("write"), "{}", refusal.message());
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        assert_eq!(
            refused(r#"{"b": 1, "window": -1, "nested": "x", "a": 1}"#).lines().collect::<Vec<_>>(),
            [
                "unknown parameter \"a\", expected one of \"threshold\", \"window\", \"nested\"",
                "unknown parameter \"b\", expected one of \"threshold\", \"window\", \"nested\"",
                "parameter \"nested\": invalid type: string \"x\", expected a sequence",
                "parameter \"window\": invalid value: integer \"-1\", expected u32",
                "missing parameter \"threshold\"",
            ]
        );
        let many: Vec<_> = (0..100).map(|nth| format!("\"k{nth}\": 1")).collect();
        assert_eq!(refused(&format!("{{{}}}", many.join(", "))).lines().count(), 20);
    }

    /// Where serde tells no keys apart, the first mistake is told as it tells it.
    #[test]
    fn kinds_that_can_not_be_made_up_end_the_search() {
        #[derive(Debug, Deserialize)]
        struct Odd {
            #[expect(dead_code, reason = "only its type matters")]
            pair: (u32, u32),
            #[expect(dead_code, reason = "only its type matters")]
            kind: Kind,
            #[expect(dead_code, reason = "only its type matters")]
            sure: u32,
        }
        #[derive(Debug, Deserialize)]
        enum Kind {
            Plain,
        }
        impl Parameters for Odd {}
        let refused = |json: &str| match parse::<Odd>(json) {
            Ok(odd) => panic!("{json} was taken as {odd:?}"),
            Err(refusal) => refusal.message().to_owned(),
        };
        assert_eq!(
            refused(r#"{"kind": "Odd", "pair": [1, 2]}"#),
            "parameter \"kind\": unknown variant \"Odd\", expected \"Plain\"\nmissing parameter \"sure\""
        );
        assert_eq!(refused(r#"{"kind": "Plain", "sure": 1}"#), "missing parameter \"pair\"");
    }

    #[test]
    fn numbers_are_read_to_the_last_bit() {
        // Each is the shortest text of its double; a hasty reader gets a neighbour.
        for number in [0.396_880_085_577_125_73, 0.406_456_520_305_760_85, 1e-310, f64::MAX] {
            let sample = parse::<Sample>(&format!(r#"{{"threshold": {number:?}}}"#));
            assert_eq!(sample.map(|s| s.threshold.to_bits()), Ok(number.to_bits()), "{number:?}");
        }
    }

    #[test]
    fn no_parameters_means_none() {
        let refusal = parse::<NoParameters>(r#"{"blocks": 1}"#).expect_err("none are known");
        assert_eq!(refusal.message(), "unknown parameter \"blocks\", there are no fields");
    }

    #[test]
    fn bounds_include_their_ends_and_exclude_nan() {
        assert!(within("share", 0.0, 0.0, 1.0).is_ok() && within("share", 1.0, 0.0, 1.0).is_ok());
        assert!(within("share", f64::NAN, 0.0, 1.0).is_err());
        assert!(at_least("factor", 1.0, 1.0).is_ok() && at_least("factor", 0.9, 1.0).is_err());
        assert!(above("rate", 0.1, 0.0).is_ok() && above("rate", 0.0, 0.0).is_err());
        assert!(
            at_least("factor", f64::NAN, 1.0).is_err()
                && above("rate", f64::INFINITY, 0.0).is_err()
        );
        assert!(
            not_negative("blocks", f64::NAN).is_err()
                && not_negative("blocks", f64::INFINITY).is_err()
        );
    }
}
