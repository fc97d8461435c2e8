//! What the environment says in place of the file: which policy decides for a role, and when a request
//! skips the prefill worker.
//!
//! A role's own variable comes before the one for all roles, and either before the file. Blanks around
//! a value don't count, and an empty one says nothing.

use std::fmt::Display;

use pointsman_core::disaggregation::ConditionalDisagg;
use pointsman_core::ids::Role;
use pointsman_core::policy::SelectionSpec;
use pointsman_core::policy::selection::DEFAULT;

use super::places::Places;
use super::process::BYPASS;
use super::reader::{Reader, Spot};
use super::scalar::{self, Read};
use super::words::listed;

/// The policy of all roles.
const ALL_ROLES: &str = "POINTSMAN_ROUTER_WORKER_SELECTION_POLICY";

/// The policy of one role.
fn of_role(role: Role) -> Option<&'static str> {
    match role {
        Role::Prefill => Some("POINTSMAN_ROUTER_PREFILL_POLICY"),
        Role::Decode => Some("POINTSMAN_ROUTER_DECODE_POLICY"),
        Role::Aggregated | Role::Encode => None,
    }
}

/// Names the instance of each role that a variable is about. `spot` stands for them in messages.
pub(super) fn roles(
    cx: &mut Reader<'_>,
    spot: &Spot<'_>,
    selection: &mut SelectionSpec,
    places: &mut Places,
) {
    // Which instances there are isn't known then.
    let doubtful = cx.is_reported("worker_selection");
    for role in Role::ALL {
        let own = of_role(role).and_then(|variable| Some((variable, text(cx, variable)?)));
        let found = own.or_else(|| Some((ALL_ROLES, text(cx, ALL_ROLES)?)));
        let Some((variable, name)) = found else { continue };
        if selection.named(&name).is_none() {
            if !doubtful {
                let names = selection.instances.iter().map(|instance| &*instance.name);
                let known = listed(names.chain([DEFAULT]));
                let what = format!("{variable} names {name:?}, and no instance is called so");
                cx.refuse(spot, what, format!("name one of {known}, or unset it"));
            }
            return;
        }
        places.roles.insert(role, cx.at(spot));
        selection.roles.insert(role, name.into());
    }
}

/// Sets what variables say of conditional disaggregation.
pub(super) fn conditional(cx: &mut Reader<'_>, spot: &Spot<'_>, rule: &mut ConditionalDisagg) {
    let ratio = |text: &str| scalar::number(text);
    let name = |rest: &str| format!("POINTSMAN_ROUTER_CONDITIONAL_DISAGG{rest}");
    set(cx, spot, &name(""), scalar::switch, &mut rule.enabled);
    set(cx, spot, &name("_POLICY"), scalar::word(BYPASS), &mut rule.policy);
    let tokens = scalar::count(0..=u64::MAX);
    set(cx, spot, &name("_EFF_ISL_THRESHOLD"), tokens, &mut rule.isl_threshold);
    let to = &mut rule.isl_ratio_threshold;
    set(cx, spot, &name("_EFF_ISL_RATIO_THRESHOLD"), ratio, to);
    let some = |text: &str| scalar::number(text).map(Some);
    set(cx, spot, &name("_PREFILL_BUSY_THRESHOLD"), some, &mut rule.prefill_busy_threshold);
    set(cx, spot, &name("_DECODE_BUSY_THRESHOLD"), some, &mut rule.decode_busy_threshold);
}

fn set<T>(
    cx: &mut Reader<'_>,
    spot: &Spot<'_>,
    variable: &str,
    read: impl Fn(&str) -> Read<T>,
    to: &mut T,
) {
    let Some(text) = text(cx, variable) else { return };
    match read(&text) {
        Ok(value) => *to = value,
        Err(expected) => refuse(cx, spot, variable, &text, expected.expected),
    }
}

fn refuse(cx: &mut Reader<'_>, spot: &Spot<'_>, variable: &str, text: &str, wanted: impl Display) {
    cx.refuse(spot, format!("{variable} is {text:?}"), format!("set {wanted}, or unset it"));
}

fn text(cx: &Reader<'_>, variable: &str) -> Option<String> {
    let text = cx.strings.get(variable)?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
