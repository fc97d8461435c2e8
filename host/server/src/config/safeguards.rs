//! What keeps an instance from doing harm, beside its limits: its breaker, what becomes of decisions
//! whose every row it filters out, and what its stages may burn together.

use std::ops::RangeInclusive;
use std::time::Duration;

use pointsman_core::policy::{BreakerSpec, OnAllFiltered, Safeguards};

use super::keys::BREAKER;
use super::limits::MOST_FUEL;
use super::reader::{Fields, Reader, Spot};
use super::scalar::{count, duration, show, word};

const ON_ALL_FILTERED: &[(&str, OnAllFiltered)] =
    &[("reject", OnAllFiltered::Reject), ("bypass", OnAllFiltered::Bypass)];

/// A breaker's waits: with a shorter one it would be none, with a longer one nobody would notice
/// that the policy is well again.
const BREAK: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3_600);

pub(super) fn read(cx: &mut Reader<'_>, instance: &Fields<'_>) -> Safeguards {
    let mut safeguards = Safeguards::default();
    if let Some(spot) = instance.get("breaker") {
        safeguards.breaker = breaker(cx, &spot);
    }
    cx.set(instance, "on_all_filtered", word(ON_ALL_FILTERED), &mut safeguards.on_all_filtered);
    safeguards.decision_fuel = cx.optional(instance, "decision_fuel", count(1..=MOST_FUEL));
    safeguards
}

fn breaker(cx: &mut Reader<'_>, spot: &Spot<'_>) -> BreakerSpec {
    let mut breaker = BreakerSpec::default();
    let Some(fields) = cx.fields(spot, &BREAKER) else { return breaker };
    cx.set(&fields, "failures", count(0..=1_000_000), &mut breaker.failures);
    cx.set(&fields, "wait", duration(BREAK), &mut breaker.wait);
    cx.set(&fields, "longest_wait", duration(BREAK), &mut breaker.longest_wait);
    if breaker.longest_wait < breaker.wait {
        let (wait, longest) = (show(breaker.wait), show(breaker.longest_wait));
        let what = format!("the longest wait, {longest}, is shorter than the first, {wait}");
        let spot = fields.get("longest_wait").or_else(|| fields.get("wait"));
        if let Some(spot) = spot {
            cx.refuse(&spot, what, "raise longest_wait, or lower wait");
        }
    }
    breaker
}
