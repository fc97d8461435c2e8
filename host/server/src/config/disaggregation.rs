//! How a worker shares prompts with others, as a worker's description says it: in the file, and over the
//! API, whose reader takes the rules from here.

use std::collections::BTreeMap;
use std::sync::Arc;

use pointsman_core::disaggregation::{Disaggregation, Protocol};
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{Role, WorkerId};

use super::keys::DISAGGREGATION;
use super::reader::{Fields, Reader, Spot};
use super::scalar::{count, word};

/// The words for what workers speak.
pub(crate) const PROTOCOLS: &[(&str, Protocol)] =
    &[("vllm", Protocol::Vllm), ("sglang", Protocol::Sglang)];

/// What contradicts itself: of which field (none is the whole), what, and what to do.
pub(crate) type Contradiction = (Option<&'static str>, &'static str, &'static str);

/// What contradicts itself in a worker's description that has a word on this.
pub(crate) fn check_disaggregation(role: Role, given: Disaggregation) -> Option<Contradiction> {
    let port = Some("bootstrap_port");
    match (role, given.protocol, given.bootstrap_port) {
        (Role::Aggregated | Role::Encode, ..) => Some((
            None,
            "a worker that shares no prompt has no protocol for it",
            "take it out, or set role to prefill or decode",
        )),
        (_, Protocol::Vllm, Some(_)) => {
            Some((port, "vllm workers meet at no port", "take it out, or set protocol to sglang"))
        }
        (Role::Decode, _, Some(_)) => {
            Some((port, "workers meet at the prefill worker's port", "give it to that worker"))
        }
        _ => None,
    }
}

pub(super) fn read(cx: &mut Reader<'_>, worker: &Fields<'_>, role: Role) -> Disaggregation {
    let mut read = Disaggregation::default();
    let Some(spot) = worker.get("disaggregation") else { return read };
    let Some(fields) = cx.fields(&spot, &DISAGGREGATION) else { return read };
    cx.set(&fields, "protocol", word(PROTOCOLS), &mut read.protocol);
    read.bootstrap_port = cx.optional(&fields, "bootstrap_port", count(1..=u64::from(u16::MAX)));
    if let Some((field, what, remedy)) = check_disaggregation(role, read) {
        let at = field.and_then(|field| fields.get(field)).unwrap_or(spot);
        cx.refuse(&at, what, remedy);
    }
    read
}

/// What the first worker of a model and group speaks, where it stands.
pub(super) type Spoken = BTreeMap<(Arc<str>, Arc<str>), (Protocol, WorkerId, u32)>;

/// Workers that share prompts speak one protocol.
pub(super) fn compare(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    item: &Spot<'_>,
    worker: &WorkerSpec,
    spoken: &mut Spoken,
) {
    let partition = &worker.partition;
    if !matches!(partition.role, Role::Prefill | Role::Decode) {
        return;
    }
    let protocol = worker.disaggregation.protocol;
    let line = cx.at(item).place.line;
    let first = spoken.entry((partition.model.clone(), partition.routing_group.clone()));
    let (other, id, line) = *first.or_insert((protocol, worker.worker_id, line));
    if other != protocol {
        let spot = fields.get("disaggregation").unwrap_or_else(|| item.clone());
        let what = format!(
            "protocol {} where worker {id} in line {line} speaks {}",
            protocol.as_str(),
            other.as_str()
        );
        cx.refuse(&spot, what, "set the same, or give the worker another routing_group");
    }
}
