//! Which instance each role names, and what to write where that isn't an instance.
//!
//! Newcomers name a policy's type where an instance is wanted, in one form or another: each is told
//! the instance to write.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::ids::Role;
use pointsman_core::policy::builtin::NAMES;
use pointsman_core::policy::selection::DEFAULT;

use super::document::{Node, Value};
use super::error::Problem;
use super::places::Places;
use super::reader::{Fields, Reader};
use super::scalar::{self, Expected};
use super::words::{listed, nearest};

/// The names of instances, in order, with the line in which each was met first. Those of instances
/// that are there, but wrong, are no strangers to a role.
pub(super) type Lines = BTreeMap<Arc<str>, u32>;

/// Reads all roles.
pub(super) fn read(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    lines: &Lines,
    places: &mut Places,
) -> BTreeMap<Role, Arc<str>> {
    let mut roles = BTreeMap::new();
    for role in Role::ALL {
        let Some(spot) = fields.get(role.as_str()) else { continue };
        if let Value::Mapping(_) | Value::List(_) = spot.node().value {
            let remedy = "put the policy into worker_selection.instances, and its `name` here";
            cx.expected(&spot, Expected::or("an instance's name", remedy));
            continue;
        }
        let Some(name) = cx.read(&spot, |text| scalar::plain_name(text.trim())) else { continue };
        if name != DEFAULT && !lines.contains_key(&*name) {
            cx.report(&spot, stranger(name, lines));
            continue;
        }
        places.roles.insert(role, cx.at(&spot));
        roles.insert(role, name.into());
    }
    roles
}

/// A name that no instance has.
pub(super) fn stranger(name: String, lines: &Lines) -> Problem {
    let known = || lines.keys().map(|name| &**name).chain([DEFAULT]);
    if NAMES.contains(&&*name) {
        return Problem::Refused {
            what: format!("an instance is wanted, and {name:?} is a built-in's type"),
            remedy: format!("add `{}` to worker_selection.instances", entry(&name)),
        };
    }
    let meant = nearest(&name, known());
    let add = match nearest(&name, NAMES.into_iter()) {
        Some(builtin) => format!("for the built-in, add `{}`", entry(builtin)),
        None => format!("if it is a policy's type, add `{}`", entry(&name)),
    };
    let remedy = format!("{add} to worker_selection.instances");
    Problem::UnknownInstance {
        nearest: meant.map(str::to_owned),
        known: listed(known()),
        remedy: meant.is_none().then_some(remedy),
        name,
    }
}

/// An instance of a type, as it stands in the list.
fn entry(policy_type: &str) -> String {
    format!("- {{ name: {policy_type}, type: {policy_type} }}")
}

/// What to write where something else than the whole of `worker_selection` stands.
pub(super) fn instead_of_selection(node: &Node) -> Option<String> {
    Some(match &*type_in(node)? {
        DEFAULT => "leave the key out: the built-in default decides then".to_owned(),
        name => format!(
            "write `worker_selection: {{ aggregated: {name}, instances: [{{ name: {name}, type: {name} }}] }}`"
        ),
    })
}

/// What to write where something else than the list of instances stands.
pub(super) fn instead_of_list(node: &Node) -> Option<String> {
    let name = type_in(node).unwrap_or_else(|| "least-loaded".to_owned());
    Some(format!("write each as `{}`", entry(&name)))
}

/// What to write where something else than an instance stands in the list.
pub(super) fn instead_of_instance(node: &Node) -> Option<String> {
    Some(format!("write `{}`", entry(&type_in(node)?)))
}

/// What can be a policy's type.
fn type_in(node: &Node) -> Option<String> {
    let Value::Scalar { text, .. } = &node.value else { return None };
    scalar::plain_name(text.trim()).ok()
}
