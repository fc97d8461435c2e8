//! `shadow` and `canary` of an instance: policies on their way in.
//!
//! Owns how they are written. Whether there are instances of those names is known only once all of
//! them are read.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::policy::selection::{CanaryBy, CanarySpec, DEFAULT, Rollout, ShadowSpec};

use super::document::{Node, Value};
use super::keys::{CANARY, SHADOW};
use super::reader::{Fields, Reader, Spot};
use super::roles::{self, Lines};
use super::scalar::{self, Expected, Read};

const BY: &[(&str, CanaryBy)] = &[("request", CanaryBy::Request), ("session", CanaryBy::Session)];

/// An instance that another names, and where.
pub(super) struct Follower<'n> {
    of: Option<Arc<str>>,
    is_shadow: bool,
    name: Arc<str>,
    spot: Spot<'n>,
}

/// Reads what comes after an instance, and adds whom that names to `followers`.
pub(super) fn read<'n>(
    cx: &mut Reader<'_>,
    instance: &Fields<'n>,
    of: Option<&Arc<str>>,
    followers: &mut Vec<Follower<'n>>,
) -> Rollout {
    let mut rollout = Rollout::default();
    let mut name = |cx: &mut Reader<'_>, spot: Spot<'n>, is_shadow| -> Option<Arc<str>> {
        let name: Arc<str> = cx.read(&spot, |text| scalar::plain_name(text.trim()))?.into();
        followers.push(Follower { of: of.cloned(), is_shadow, name: name.clone(), spot });
        Some(name)
    };
    for item in instance.get("shadow").map(|spot| cx.list_or(&spot, in_a_list)).unwrap_or_default()
    {
        if let Value::Scalar { .. } = item.node().value {
            rollout.shadows.extend(name(cx, item, true).map(ShadowSpec::of));
            continue;
        }
        let Some(fields) = cx.fields(&item, &SHADOW) else { continue };
        let Some(instance) = cx.required(&fields, "instance").and_then(|spot| name(cx, spot, true))
        else {
            continue;
        };
        let mut shadow = ShadowSpec::of(instance);
        cx.set(&fields, "percent", percent(0.0..=100.0), &mut shadow.sample);
        cx.set(&fields, "budget_percent", percent(0.0..=100.0), &mut shadow.budget);
        rollout.shadows.push(shadow);
    }
    if let Some(fields) = instance.get("canary").and_then(|spot| cx.fields(&spot, &CANARY)) {
        let instance = cx.required(&fields, "instance").and_then(|spot| name(cx, spot, false));
        let share = cx.required(&fields, "percent");
        let share = share.and_then(|spot| cx.read(&spot, percent(0.0..=100.0)));
        let mut canary = CanarySpec::of(instance.clone().unwrap_or_default(), share.unwrap_or(0.0));
        cx.set(&fields, "by", scalar::word(BY), &mut canary.by);
        cx.set(&fields, "max_failures_percent", percent(0.0..=100.0), &mut canary.max_failures);
        canary.max_p99 = cx
            .optional(&fields, "max_p99_us", scalar::count(1..=60_000_000))
            .map(Duration::from_micros);
        cx.set(&fields, "judged_by", scalar::count(1..=1_000_000), &mut canary.judged_by);
        rollout.canary = instance.and(share).map(|_| canary);
    }
    rollout
}

/// That there are those who are named, each once, and that nobody names himself.
pub(super) fn check(cx: &mut Reader<'_>, followers: &[Follower<'_>], lines: &Lines) {
    for (at, follower) in followers.iter().enumerate() {
        let Follower { of, is_shadow, name, spot } = follower;
        let twice = |other: &Follower<'_>| {
            *is_shadow && other.is_shadow && of.is_some() && other.of == *of && other.name == *name
        };
        if of.as_ref() == Some(name) {
            let (what, remedy) = match is_shadow {
                true => ("shadow", "name the instance that is to be compared with it"),
                false => ("canary", "name the instance that is to make a share of its decisions"),
            };
            cx.refuse(spot, format!("{name:?} is named as its own {what}"), remedy);
        } else if &**name != DEFAULT && !lines.contains_key(name) {
            cx.report(spot, roles::stranger(name.to_string(), lines));
        } else if followers.get(..at).unwrap_or(&[]).iter().any(twice) {
            cx.refuse(spot, format!("{name:?} is a shadow of it already"), "take one out");
        }
    }
}

/// What to write where the name stands by itself.
fn in_a_list(node: &Node) -> Option<String> {
    let Value::Scalar { text, .. } = &node.value else { return None };
    let name = scalar::plain_name(text.trim()).ok()?;
    Some(format!("write `[{name}]`"))
}

/// A share, written as a percentage.
pub(super) fn percent(range: RangeInclusive<f64>) -> impl Fn(&str) -> Read<f64> {
    move |text| {
        let expected = || {
            let (least, most) = (range.start(), range.end());
            Expected::or(format!("a percentage, {least} to {most}"), "write 5 for one of twenty")
        };
        let number = scalar::float(text.trim_end_matches('%').trim_end()).ok_or_else(expected)?;
        if range.contains(&number) { Ok(number / 100.0) } else { Err(expected()) }
    }
}
