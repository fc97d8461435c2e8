//! The metrics of caches: what each feed does, and what each partition's index holds.

use pointsman_core::fleet::Worker;
use pointsman_core::partition::Partition;

use super::families::labels;
use super::page::{Metric, Page};
use crate::discovery::FeedView;
use crate::feeds::FeedState;
use crate::telemetry::names::{cache as names, shared_cache};

const STATE: Metric = Metric::gauge(names::FEED_STATE, "1 for what a feed is doing");
const CONNECTIONS: Metric = Metric::counter(names::CONNECTIONS, "Connections to engines");
const BATCHES: Metric = Metric::counter(names::BATCHES, "Batches of events that were applied");
const EVENTS: Metric = Metric::counter(names::EVENTS, "Events that were applied");
const SKIPPED: Metric = Metric::counter(names::SKIPPED, "Events not for the index");
const EVENT_BLOCKS: Metric =
    Metric::counter(names::EVENT_BLOCKS, "Blocks that events were about, by what became of them");
const GAPS: Metric = Metric::counter(names::GAPS, "Gaps in the sequence of batches");
const REPLAYS: Metric =
    Metric::counter(names::REPLAYS, "Times that an engine was asked for batches again");
const REPLAYED: Metric = Metric::counter(names::REPLAYED, "Batches that came by being asked for");
const LOST: Metric = Metric::counter(names::LOST, "Batches that are lost for good");
const DUPLICATES: Metric = Metric::counter(names::DUPLICATES, "Batches that came twice");
const RESTARTS: Metric = Metric::counter(names::RESTARTS, "Restarts seen in engines' events");
const LAG: Metric =
    Metric::gauge(names::LAG, "From publishing the last batch to its being applied");
const MALFORMED: Metric = Metric::counter(names::MALFORMED, "What couldn't be understood");
const WRONG_BLOCK_SIZE: Metric = Metric::gauge(
    names::WRONG_BLOCK_SIZE,
    "The engine's block size where it isn't the worker's; else 0",
);
const RANK_BLOCKS: Metric = Metric::gauge(names::RANK_BLOCKS, "Blocks that a rank holds");
const RANK_ORPHANS: Metric =
    Metric::gauge(names::RANK_ORPHANS, "Blocks of a rank that wait for their parent to be known");
const BLOCKS: Metric = Metric::gauge(names::BLOCKS, "Distinct blocks that engines told of");
const HELD: Metric =
    Metric::gauge(names::HELD, "Blocks held, counted for each rank and tier that holds them");
const ORPHANS: Metric =
    Metric::gauge(names::ORPHANS, "Blocks that wait for their parent to be known");
const BYTES: Metric = Metric::gauge(names::BYTES, "Bytes of what engines told");
const PREDICTED: Metric = Metric::gauge(names::PREDICTED, "Distinct blocks predicted");
const PREDICTED_BYTES: Metric = Metric::gauge(names::PREDICTED_BYTES, "Bytes of predictions");
const LOOKED_UP: Metric = Metric::counter(
    names::LOOKED_UP,
    "Prompts looked up in what engines told, by whether some rank held something",
);
const NEVER_MATCHES: Metric =
    Metric::gauge(names::NEVER_MATCHES, "1 while events flow and no prompt matches any");
const SHARED_CACHE_RESTING: Metric = Metric::gauge(
    shared_cache::RESTING,
    "1 while the shared cache is left alone because it failed",
);

/// One rank's feed.
pub(super) fn feed(page: &mut Page, worker: &Worker, view: &FeedView) {
    let [model, role, group] = labels(&worker.spec.partition);
    let (id, rank) = (worker.spec.worker_id.to_string(), view.rank.to_string());
    let here = [("dp_rank", &*rank), model, role, group, ("worker_id", &*id)];
    let (feed, counts) = (&view.feed, &view.feed.counts);
    // Every word is there, at zero at least, so that an alert on it can be written.
    for state in FeedState::ALL {
        let is = u8::from(state == feed.state);
        page.put(&STATE, &here, &[("state", state.as_str())], is);
    }
    for (metric, count) in [
        (&CONNECTIONS, counts.connections),
        (&BATCHES, counts.batches),
        (&GAPS, counts.gaps),
        (&REPLAYED, counts.replayed),
        (&LOST, counts.lost),
        (&DUPLICATES, counts.duplicates),
        (&RESTARTS, counts.restarts),
        (&MALFORMED, counts.malformed),
    ] {
        page.put(metric, &here, &[], count);
    }
    let answered = counts.replays.saturating_sub(counts.replays_failed);
    for (metric, label, word, count) in [
        (&EVENTS, "kind", "stored", counts.events_stored),
        (&EVENTS, "kind", "removed", counts.events_removed),
        (&EVENTS, "kind", "cleared", counts.events_cleared),
        (&EVENT_BLOCKS, "outcome", "stored", counts.blocks_stored),
        (&EVENT_BLOCKS, "outcome", "stored_again", counts.blocks_stored_again),
        (&EVENT_BLOCKS, "outcome", "removed", counts.blocks_removed),
        (&EVENT_BLOCKS, "outcome", "copy_removed", counts.copies_removed),
        (&EVENT_BLOCKS, "outcome", "unknown", counts.blocks_unknown),
        (&EVENT_BLOCKS, "outcome", "orphaned", counts.orphans),
        (&EVENT_BLOCKS, "outcome", "linked", counts.orphans_linked),
        (&EVENT_BLOCKS, "outcome", "dropped", counts.orphans_dropped),
        (&EVENT_BLOCKS, "outcome", "refused", counts.blocks_refused),
        (&EVENT_BLOCKS, "outcome", "strange", counts.blocks_strange),
        (&REPLAYS, "outcome", "answered", answered),
        (&REPLAYS, "outcome", "failed", counts.replays_failed),
    ] {
        page.put(metric, &here, &[(label, word)], count);
    }
    // There are many reasons and most never occur, so only those that did are there.
    for (skip, count) in &feed.skipped {
        page.put(&SKIPPED, &here, &[("reason", skip.as_str())], count);
    }
    page.put(&LAG, &here, &[], feed.lag_ms as f64 / 1_000.0);
    page.put(&WRONG_BLOCK_SIZE, &here, &[], feed.wrong_block_size.unwrap_or_default());
    if let Some(held) = view.held {
        for (tier, blocks) in [
            ("device", held.device),
            ("host", held.host),
            ("disk", held.disk),
            ("external", held.external),
        ] {
            page.put(&RANK_BLOCKS, &here, &[("tier", tier)], blocks);
        }
    }
    page.put(&RANK_ORPHANS, &here, &[], view.orphans);
}

/// One partition's index. Takes a while where that is large.
pub(super) fn partition(page: &mut Page, partition: &Partition, never_matches: bool) {
    let here = labels(partition.key());
    let cache = partition.cache();
    let (told, predicted) = (cache.stats(), cache.predicted_stats());
    for (metric, count) in [
        (&BLOCKS, told.blocks),
        (&HELD, told.held),
        (&ORPHANS, told.orphans),
        (&BYTES, told.bytes),
        (&PREDICTED, predicted.blocks),
        (&PREDICTED_BYTES, predicted.bytes),
    ] {
        page.put(metric, &here, &[], count);
    }
    let activity = cache.activity();
    let missed = activity.asked.saturating_sub(activity.matched);
    for (word, count) in [("yes", activity.matched), ("no", missed)] {
        page.put(&LOOKED_UP, &[("matched", word)], &here, count);
    }
    page.put(&NEVER_MATCHES, &here, &[], u8::from(never_matches));
}

/// Whether the cache that all workers share is left alone.
pub(super) fn shared_cache(page: &mut Page, rests: bool) {
    page.put(&SHARED_CACHE_RESTING, &[], &[], u8::from(rests));
}
