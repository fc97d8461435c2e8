//! What only workers have: endpoints, ranks, labels and leases.

use super::*;
use crate::config::{PROTOCOLS, check_disaggregation, time_within, worker_endpoint};
use crate::json::values::{MOST_BYTES, MOST_MARKS, Read, name, positive, show};
use pointsman_core::disaggregation::{Disaggregation, Protocol};

pub(super) fn ranks(value: &Value) -> Read<NonZeroU32> {
    let size = positive(value)?;
    if size.get() <= MAX_RANKS_PER_WORKER {
        Ok(size)
    } else {
        Err(format!("is {size}; expected at most {MAX_RANKS_PER_WORKER}"))
    }
}

/// `http://host:port`, without a path: paths come from requests.
pub(super) fn endpoint(value: &Value) -> Read<String> {
    let expected = || format!("is {}; expected http://host:port", show(value));
    let text = value.as_str().ok_or_else(expected)?;
    worker_endpoint(text).map_err(|wrong| format!("is {}; {wrong}", show(value)))
}

pub(super) fn lease(value: &Value) -> Read<Duration> {
    let expected = || format!("is {}; expected a time with its unit, as in \"30s\"", show(value));
    let text = value.as_str().ok_or_else(expected)?;
    time_within(text, SHORTEST_LEASE..=LONGEST_LEASE)
        .map_err(|wrong| format!("is {}; {wrong}", show(value)))
}

pub(super) fn labels(value: &Value) -> Read<BTreeMap<String, String>> {
    let map = value.as_object().ok_or_else(|| format!("is {}; expected an object", show(value)))?;
    if map.len() > MOST_MARKS {
        return Err(format!("has {} entries; expected at most {MOST_MARKS}", map.len()));
    }
    let labels = map.iter().map(|(key, value)| {
        name(&Value::String(key.clone())).map_err(|problem| format!("a key {problem}"))?;
        let value = value.as_str().filter(|text| text.len() <= MOST_BYTES).ok_or_else(|| {
            let expected = format!("a text of at most {MOST_BYTES} bytes");
            format!("has {} for {key:?}; expected {expected}", show(value))
        })?;
        Ok((key.clone(), value.to_owned()))
    });
    labels.collect()
}

/// How it shares prompts with others, once its role is known.
pub(super) fn disaggregation(spec: &mut WorkerSpec, fields: &mut Fields<'_>) {
    let before = fields.problems();
    let given = fields.has("disaggregation");
    let read = fields.nested("disaggregation", |fields| {
        let mut read = Disaggregation::default();
        if let Some(word) = fields.optional("protocol", protocol) {
            read.protocol = word.unwrap_or_default();
        }
        read.bootstrap_port = fields.optional("bootstrap_port", port).flatten();
        Some(read)
    });
    if given {
        spec.disaggregation = read.unwrap_or_default();
    }
    let says_nothing = read.is_none() && spec.disaggregation == Disaggregation::default();
    if fields.problems() > before || says_nothing {
        return;
    }
    let role = spec.partition.role;
    if let Some((field, what, remedy)) = check_disaggregation(role, spec.disaggregation) {
        let at =
            field.map_or("disaggregation".to_owned(), |field| format!("disaggregation.{field}"));
        fields.problem(&at, format!("can't be: {what}; {remedy}"));
    }
}

fn protocol(value: &Value) -> Read<Protocol> {
    let found = PROTOCOLS.iter().find(|(word, _)| value.as_str() == Some(*word));
    let wrong = || format!("is {}; known: vllm, sglang", show(value));
    found.map(|(_, protocol)| *protocol).ok_or_else(wrong)
}

fn port(value: &Value) -> Read<u16> {
    let port = value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    port.ok_or_else(|| format!("is {}; expected a port, 1 to 65535", show(value)))
}
