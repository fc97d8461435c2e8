//! What a description says of the worker's cache events. The rules are those of the file.

use pointsman_core::fleet::CacheFeedMode;

use super::*;
use crate::config::{
    EVENTS, FEED_MODES, FeedProblem, REPLAYS, check_feed, feed_endpoint, feed_endpoints, is_topic,
};
use crate::feeds::endpoint::Address;
use crate::json::values::{Read, show};

/// Takes the fields, once it is known which ranks the worker has.
pub(super) fn take(spec: &mut WorkerSpec, fields: &mut Fields<'_>) {
    let before = fields.problems();
    let ranks: Vec<u32> = spec.ranks().map(|rank| rank.0).collect();
    let feed = &mut spec.cache_feed;
    if let Some(read) = fields.optional("kv_event_source_mode", mode) {
        feed.kv_event_source_mode = read.unwrap_or_default();
    }
    if let Some(endpoints) = endpoints(fields, EVENTS, &ranks) {
        feed.kv_events_endpoints = endpoints;
    }
    let with_events = match feed.kv_events_endpoints.is_empty() {
        true => ranks,
        false => feed.kv_events_endpoints.keys().copied().collect(),
    };
    if let Some(endpoints) = endpoints(fields, REPLAYS, &with_events) {
        feed.replay_endpoints = endpoints;
    }
    if let Some(topic) = fields.optional("kv_events_topic", topic) {
        feed.kv_events_topic = topic.unwrap_or_default();
    }
    if fields.problems() > before {
        // What could not be read would be missed here.
        return;
    }
    for FeedProblem { keys, what, remedy } in
        check_feed(feed, spec.data_parallel_start_rank, spec.data_parallel_size)
    {
        let named = keys.iter().find(|key| fields.has(key)).or(keys.last());
        fields.problem(named.copied().unwrap_or_default(), format!("can't be: {what}; {remedy}"));
    }
}

/// The endpoints by rank, from either field; none if neither is there, empty if they are cleared.
fn endpoints(
    fields: &mut Fields<'_>,
    [first, each]: [&'static str; 2],
    ranks: &[u32],
) -> Option<BTreeMap<u32, String>> {
    let of_first = fields.optional(first, |value| {
        let address = endpoint(value)?;
        feed_endpoints(&address, ranks.iter().copied())
            .map_err(|error| format!("can't be: {error}"))
    });
    let of_each = fields.optional(each, by_rank);
    if fields.has(first) && fields.has(each) {
        fields.problem(each, format!("says the same as {first}; give one of them"));
    }
    of_first.or(of_each).map(Option::unwrap_or_default)
}

fn by_rank(value: &Value) -> Read<BTreeMap<u32, String>> {
    let example = "expected an object of ranks and endpoints, as in {\"0\": \"tcp://host:5557\"}";
    let map = value.as_object().ok_or_else(|| format!("is {}; {example}", show(value)))?;
    let endpoints = map.iter().map(|(key, value)| {
        let rank = key.parse().map_err(|_| {
            format!("has {}, which is no rank; {example}", show(&Value::String(key.clone())))
        })?;
        let address = endpoint(value).map_err(|problem| format!("of rank {rank} {problem}"))?;
        Ok((rank, address.to_string()))
    });
    endpoints.collect()
}

fn endpoint(value: &Value) -> Read<Address> {
    let expected = || format!("is {}; expected tcp://host:port or ipc://path", show(value));
    let text = value.as_str().ok_or_else(expected)?;
    feed_endpoint(text).map_err(|remedy| format!("is {}; {remedy}", show(value)))
}

fn mode(value: &Value) -> Read<CacheFeedMode> {
    let found = FEED_MODES.iter().find(|(word, _)| value.as_str() == Some(*word));
    found
        .map(|(_, mode)| *mode)
        .ok_or_else(|| format!("is {}; known: auto, zmq, push, none", show(value)))
}

fn topic(value: &Value) -> Read<String> {
    let text = value.as_str().filter(|text| is_topic(text));
    text.map(str::to_owned)
        .ok_or_else(|| format!("is {}; expected a text of at most 256 bytes", show(value)))
}
