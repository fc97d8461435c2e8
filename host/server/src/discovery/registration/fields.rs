//! What only workers have: endpoints, ranks, labels and leases.

use super::*;
use crate::config::{time_within, worker_endpoint};
use crate::json::values::{MOST_BYTES, MOST_MARKS, Read, name, positive, show};

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
