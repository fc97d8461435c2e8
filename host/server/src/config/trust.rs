//! `wasm.trust`: which content components may have.

use std::collections::BTreeSet;

use pointsman_wasm::Trust;

use super::keys::TRUST;
use super::reader::{Reader, Spot};
use super::scalar::{name, plain_name};

/// Keys and pins are made by hand: more are a mistake.
const MOST: usize = 1_000;

pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Trust {
    let mut trust = Trust::default();
    let Some(fields) = cx.fields(spot, &TRUST) else { return trust };
    if let Some(spot) = fields.get("keys") {
        let keys = cx.list(&spot);
        if keys.is_empty() && !cx.is_reported(fields.path()) {
            let what = "a list of keys without any would trust nobody";
            cx.refuse(&spot, what, "give at least one, or leave `keys` out");
        }
        let mut seen = BTreeSet::new();
        for key in keys.iter().take(MOST) {
            let Some(text) = cx.read(key, name) else { continue };
            if let Err(error) = trust.key(&text) {
                cx.refuse(key, format!("{text:?} is {error}"), "leave out what is none");
            } else if !seen.insert(text) {
                cx.refuse(key, "the same key is there twice", "keep one of them");
            }
        }
    }
    if let Some(spot) = fields.get("pins") {
        for (policy_type, pin) in cx.entries(&spot).into_iter().take(MOST) {
            let Some(text) = cx.read(&pin, name) else { continue };
            if plain_name(policy_type).is_err() {
                let what = format!("{policy_type:?} can't be a policy type");
                cx.refuse(&pin, what, "name the stem of a component's file");
            } else if let Err(error) = trust.pin(policy_type, &text) {
                cx.refuse(&pin, format!("{text:?} is {error}"), "or leave the pin out");
            }
        }
    }
    trust
}
