//! Where a worker's cache events come from, as a worker's description says it: in the file, and over
//! the API, whose reader takes the rules from here.
//!
//! Owns how one endpoint stands for all ranks, and what contradicts what. It opens nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU32;

use pointsman_core::fleet::{CacheFeed, CacheFeedMode};

use super::document::Value;
use super::reader::{Fields, Reader, Spot};
use super::scalar::{self, Expected, Read};
use crate::feeds::endpoint::{Address, EndpointError};

/// The longest endpoint, and the longest topic.
const MOST_BYTES: usize = 256;

/// The words for how events come.
pub(crate) const FEED_MODES: &[(&str, CacheFeedMode)] = &[
    ("auto", CacheFeedMode::Auto),
    ("zmq", CacheFeedMode::Zmq),
    ("push", CacheFeedMode::Push),
    ("none", CacheFeedMode::None),
];

/// The keys that are of one kind: for the first rank, and for each.
pub(crate) const EVENTS: [&str; 2] = ["kv_events_endpoint", "kv_events_endpoints"];

/// As [`EVENTS`].
pub(crate) const REPLAYS: [&str; 2] = ["replay_endpoint", "replay_endpoints"];

/// What is wrong with a description of cache events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedProblem {
    /// The keys that it is about, of which one is there.
    pub(crate) keys: &'static [&'static str],
    /// What is wrong.
    pub(crate) what: String,
    /// What to do.
    pub(crate) remedy: String,
}

/// An endpoint as it is kept.
pub(crate) fn feed_endpoint(text: &str) -> Result<Address, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("write one of at most {MOST_BYTES} bytes"));
    }
    text.parse().map_err(|error: EndpointError| {
        let error = error.to_string();
        error.split_once("; ").map_or(error.clone(), |(_, remedy)| remedy.to_owned())
    })
}

/// What a topic may be.
pub(crate) fn is_topic(text: &str) -> bool {
    text.len() <= MOST_BYTES && !text.contains(char::is_control)
}

/// The endpoints of all ranks, where one is given: as engines count, rank n has the nth port above.
///
/// # Errors
///
/// A rank has none.
pub(crate) fn feed_endpoints(
    first: &Address,
    ranks: impl IntoIterator<Item = u32>,
) -> Result<BTreeMap<u32, String>, EndpointError> {
    ranks.into_iter().map(|rank| Ok((rank, first.of_rank(rank)?.to_string()))).collect()
}

/// What contradicts itself in a description of cache events of a worker with ranks from `start` on.
pub(crate) fn check_feed(feed: &CacheFeed, start: u32, size: NonZeroU32) -> Vec<FeedProblem> {
    let mut problems = Vec::new();
    let mut problem = |keys, what: String, remedy: &str| {
        problems.push(FeedProblem { keys, what, remedy: remedy.to_owned() });
    };
    let (events, replays) = (&feed.kv_events_endpoints, &feed.replay_endpoints);
    let given = !events.is_empty() || !replays.is_empty() || !feed.kv_events_topic.is_empty();
    const MODE: &[&str] = &["kv_event_source_mode"];
    match feed.kv_event_source_mode {
        CacheFeedMode::Push if given => problem(
            MODE,
            "events are pushed, and endpoints or a topic are given".to_owned(),
            "take these out, or set zmq",
        ),
        CacheFeedMode::None if given => problem(
            MODE,
            "no events are taken, and endpoints or a topic are given".to_owned(),
            "take these out, or set zmq",
        ),
        CacheFeedMode::Zmq if events.is_empty() => problem(
            MODE,
            "zmq without an endpoint".to_owned(),
            "give kv_events_endpoint, or set auto to ask the engine",
        ),
        CacheFeedMode::Auto if given && events.is_empty() => problem(
            if replays.is_empty() { &["kv_events_topic"] } else { &REPLAYS },
            "the engine is asked where its events come from, and what else is given has no use"
                .to_owned(),
            "give kv_events_endpoint too, or leave it out",
        ),
        _ => {}
    }
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let of_events = events.iter().map(|one| (&EVENTS, "events", one));
    let of_replays = replays.iter().map(|one| (&REPLAYS, "replays", one));
    for (keys, word, (&rank, endpoint)) in of_events.chain(of_replays) {
        if rank.checked_sub(start).is_none_or(|at| at >= size.get()) {
            let last = start.saturating_add(size.get() - 1);
            problem(
                keys,
                format!("rank {rank}, and the worker has ranks {start} to {last}"),
                "name these, or mend data_parallel_start_rank and data_parallel_size",
            );
        } else if word == "replays" && !events.is_empty() && !events.contains_key(&rank) {
            problem(
                keys,
                format!("replays of rank {rank}, whose events have no endpoint"),
                "give that too, or leave this out",
            );
        }
        match known.entry(endpoint) {
            Entry::Vacant(entry) => {
                entry.insert(format!("rank {rank}'s {word}"));
            }
            Entry::Occupied(first) => problem(
                keys,
                format!("{} and rank {rank}'s {word} would share {endpoint}", first.get()),
                "choose ports further apart, such as 5557 and 5657",
            ),
        }
    }
    problems
}

/// What a worker of the file says of its cache events.
pub(super) fn read(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    start: u32,
    size: NonZeroU32,
) -> CacheFeed {
    let ranks: Vec<u32> = (0..size.get()).filter_map(|nth| start.checked_add(nth)).collect();
    let mode = or_default(cx, fields, "kv_event_source_mode", scalar::word(FEED_MODES));
    let topic = or_default(cx, fields, "kv_events_topic", topic);
    let events = endpoints(cx, fields, EVENTS, &ranks);
    let with_events: Vec<u32> = match &events {
        Some(events) if !events.is_empty() => events.keys().copied().collect(),
        _ => ranks,
    };
    let replays = endpoints(cx, fields, REPLAYS, &with_events);
    // What could not be read would be missed below.
    let (Some(mode), Some(topic), Some(events), Some(replays)) = (mode, topic, events, replays)
    else {
        return CacheFeed::default();
    };
    let feed = CacheFeed {
        kv_event_source_mode: mode,
        kv_events_endpoints: events,
        replay_endpoints: replays,
        kv_events_topic: topic,
    };
    for FeedProblem { keys, what, remedy } in check_feed(&feed, start, size) {
        let spot = keys.iter().find_map(|key| fields.get(key));
        let spot = spot.unwrap_or_else(|| fields.spot().clone());
        cx.refuse(&spot, what, remedy);
    }
    feed
}

/// A key's value, its default where it isn't there, none where it is wrong.
fn or_default<T: Default>(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    key: &'static str,
    read: impl Fn(&str) -> Read<T>,
) -> Option<T> {
    match fields.get(key) {
        None => Some(T::default()),
        Some(spot) => cx.read(&spot, read),
    }
}

/// The endpoints by rank, from either key; none where they are wrong.
fn endpoints(
    cx: &mut Reader<'_>,
    fields: &Fields<'_>,
    [first, each]: [&'static str; 2],
    ranks: &[u32],
) -> Option<BTreeMap<u32, String>> {
    let Some(one) = fields.get(first) else {
        return match fields.get(each) {
            None => Some(BTreeMap::new()),
            Some(spot) => by_rank(cx, &spot),
        };
    };
    if fields.get(each).is_some() {
        cx.refuse(&one, format!("`{each}` has the endpoints already"), "keep one of the two");
        return None;
    }
    let address = cx.read_url(&one, endpoint)?;
    match feed_endpoints(&address, ranks.iter().copied()) {
        Ok(endpoints) => Some(endpoints),
        Err(error) => {
            let error = error.to_string();
            let (what, remedy) = error.split_once("; ").unwrap_or((&error, "choose another"));
            cx.refuse(&one, what, remedy);
            None
        }
    }
}

fn by_rank(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Option<BTreeMap<u32, String>> {
    let Value::Mapping(_) = &spot.node().value else {
        let remedy = "write `{ 0: \"tcp://host:port\" }`";
        cx.expected(spot, Expected::or("a mapping of ranks to endpoints", remedy));
        return None;
    };
    let mut endpoints = Some(BTreeMap::new());
    for (key, spot) in cx.entries(spot) {
        let rank = key.parse().ok();
        if rank.is_none() {
            cx.refuse(&spot, "the key is no rank", "write `{ 0: \"tcp://host:port\" }`");
        }
        let address = cx.read_url(&spot, endpoint);
        match (rank, address, &mut endpoints) {
            (Some(rank), Some(address), Some(endpoints)) => {
                endpoints.insert(rank, address.to_string());
            }
            _ => endpoints = None,
        }
    }
    endpoints
}

fn endpoint(text: &str) -> Read<Address> {
    feed_endpoint(text)
        .map_err(|remedy| Expected::or("a ZeroMQ endpoint, tcp://host:port or ipc://path", remedy))
}

fn topic(text: &str) -> Read<String> {
    is_topic(text).then(|| text.to_owned()).ok_or_else(|| {
        let expected = format!("a text of at most {MOST_BYTES} bytes without control characters");
        Expected::new(expected)
    })
}
