//! The metrics of caches: what each feed does, and what each partition's index holds.

use pointsman_core::fleet::Worker;
use pointsman_core::partition::Partition;
use prometheus::{GaugeVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

use super::families::{PARTITION, ROW, labels, whole};
use crate::discovery::FeedView;
use crate::feeds::FeedState;
use crate::telemetry::names::{cache as names, shared_cache};

/// One scrape's worth.
#[derive(Debug)]
pub(super) struct CacheFamilies {
    registry: Registry,
    state: IntGaugeVec,
    connections: IntCounterVec,
    batches: IntCounterVec,
    events: IntCounterVec,
    skipped: IntCounterVec,
    event_blocks: IntCounterVec,
    gaps: IntCounterVec,
    replays: IntCounterVec,
    replayed: IntCounterVec,
    lost: IntCounterVec,
    duplicates: IntCounterVec,
    restarts: IntCounterVec,
    malformed: IntCounterVec,
    lag: GaugeVec,
    wrong_block_size: IntGaugeVec,
    rank_blocks: IntGaugeVec,
    rank_orphans: IntGaugeVec,
    blocks: IntGaugeVec,
    held: IntGaugeVec,
    orphans: IntGaugeVec,
    bytes: IntGaugeVec,
    predicted: IntGaugeVec,
    predicted_bytes: IntGaugeVec,
    looked_up: IntCounterVec,
    never_matches: IntGaugeVec,
    shared_cache_resting: IntGauge,
}

impl CacheFamilies {
    pub(super) fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            prometheus::Result::Ok(gauge)
        };
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        let and = |label| [&ROW[..], &[label]].concat();
        let lag = GaugeVec::new(
            Opts::new(names::LAG, "From publishing the last batch to its being applied"),
            &ROW,
        )?;
        registry.register(Box::new(lag.clone()))?;
        let shared_cache_resting = IntGauge::new(
            shared_cache::RESTING,
            "1 while the shared cache is left alone because it failed",
        )?;
        registry.register(Box::new(shared_cache_resting.clone()))?;
        let by_match = [&PARTITION[..], &["matched"]].concat();
        Ok(Self {
            state: gauge(names::FEED_STATE, "1 for what a feed is doing", &and("state"))?,
            connections: counter(names::CONNECTIONS, "Connections to engines", &ROW)?,
            batches: counter(names::BATCHES, "Batches of events that were applied", &ROW)?,
            events: counter(names::EVENTS, "Events that were applied", &and("kind"))?,
            skipped: counter(names::SKIPPED, "Events not for the index", &and("reason"))?,
            event_blocks: counter(
                names::EVENT_BLOCKS,
                "Blocks that events were about, by what became of them",
                &and("outcome"),
            )?,
            gaps: counter(names::GAPS, "Gaps in the sequence of batches", &ROW)?,
            replays: counter(
                names::REPLAYS,
                "Times that an engine was asked for batches again",
                &and("outcome"),
            )?,
            replayed: counter(names::REPLAYED, "Batches that came by being asked for", &ROW)?,
            lost: counter(names::LOST, "Batches that are lost for good", &ROW)?,
            duplicates: counter(names::DUPLICATES, "Batches that came twice", &ROW)?,
            restarts: counter(names::RESTARTS, "Restarts seen in engines' events", &ROW)?,
            malformed: counter(names::MALFORMED, "What couldn't be understood", &ROW)?,
            lag,
            wrong_block_size: gauge(
                names::WRONG_BLOCK_SIZE,
                "The engine's block size where it isn't the worker's; else 0",
                &ROW,
            )?,
            rank_blocks: gauge(names::RANK_BLOCKS, "Blocks that a rank holds", &and("tier"))?,
            rank_orphans: gauge(
                names::RANK_ORPHANS,
                "Blocks of a rank that wait for their parent to be known",
                &ROW,
            )?,
            blocks: gauge(names::BLOCKS, "Distinct blocks that engines told of", &PARTITION)?,
            held: gauge(
                names::HELD,
                "Blocks held, counted for each rank and tier that holds them",
                &PARTITION,
            )?,
            orphans: gauge(
                names::ORPHANS,
                "Blocks that wait for their parent to be known",
                &PARTITION,
            )?,
            bytes: gauge(names::BYTES, "Bytes of what engines told", &PARTITION)?,
            predicted: gauge(names::PREDICTED, "Distinct blocks predicted", &PARTITION)?,
            predicted_bytes: gauge(names::PREDICTED_BYTES, "Bytes of predictions", &PARTITION)?,
            looked_up: counter(
                names::LOOKED_UP,
                "Prompts looked up in what engines told, by whether some rank held something",
                &by_match,
            )?,
            never_matches: gauge(
                names::NEVER_MATCHES,
                "1 while events flow and no prompt matches any",
                &PARTITION,
            )?,
            shared_cache_resting,
            registry,
        })
    }

    /// One rank's feed.
    pub(super) fn feed(&self, worker: &Worker, view: &FeedView) {
        let [model, group, role] = labels(&worker.spec.partition);
        let (id, rank) = (worker.spec.worker_id.to_string(), view.rank.to_string());
        let here = [model, group, role, &*id, &*rank];
        let and = |word| [model, group, role, &*id, &*rank, word];
        let (feed, counts) = (&view.feed, &view.feed.counts);
        // Every word is there, at zero at least, so that an alert on it can be written.
        for state in FeedState::ALL {
            let gauge = self.state.with_label_values(&and(state.as_str()));
            gauge.set(i64::from(state == feed.state));
        }
        for (family, count) in [
            (&self.connections, counts.connections),
            (&self.batches, counts.batches),
            (&self.gaps, counts.gaps),
            (&self.replayed, counts.replayed),
            (&self.lost, counts.lost),
            (&self.duplicates, counts.duplicates),
            (&self.restarts, counts.restarts),
            (&self.malformed, counts.malformed),
        ] {
            family.with_label_values(&here).inc_by(count);
        }
        let answered = counts.replays.saturating_sub(counts.replays_failed);
        for (family, word, count) in [
            (&self.events, "stored", counts.events_stored),
            (&self.events, "removed", counts.events_removed),
            (&self.events, "cleared", counts.events_cleared),
            (&self.event_blocks, "stored", counts.blocks_stored),
            (&self.event_blocks, "stored_again", counts.blocks_stored_again),
            (&self.event_blocks, "removed", counts.blocks_removed),
            (&self.event_blocks, "copy_removed", counts.copies_removed),
            (&self.event_blocks, "unknown", counts.blocks_unknown),
            (&self.event_blocks, "orphaned", counts.orphans),
            (&self.event_blocks, "linked", counts.orphans_linked),
            (&self.event_blocks, "dropped", counts.orphans_dropped),
            (&self.event_blocks, "refused", counts.blocks_refused),
            (&self.event_blocks, "strange", counts.blocks_strange),
            (&self.replays, "answered", answered),
            (&self.replays, "failed", counts.replays_failed),
        ] {
            family.with_label_values(&and(word)).inc_by(count);
        }
        // There are many reasons and most never occur, so only those that did are there.
        for (skip, count) in &feed.skipped {
            self.skipped.with_label_values(&and(skip.as_str())).inc_by(*count);
        }
        self.lag.with_label_values(&here).set(feed.lag_ms as f64 / 1_000.0);
        let wrong = feed.wrong_block_size.map_or(0, i64::from);
        self.wrong_block_size.with_label_values(&here).set(wrong);
        if let Some(held) = view.held {
            for (tier, blocks) in [
                ("device", held.device),
                ("host", held.host),
                ("disk", held.disk),
                ("external", held.external),
            ] {
                self.rank_blocks.with_label_values(&and(tier)).set(whole(blocks as u64));
            }
        }
        self.rank_orphans.with_label_values(&here).set(whole(view.orphans as u64));
    }

    /// One partition's index. Takes a while where that is large.
    pub(super) fn partition(&self, partition: &Partition, never_matches: bool) {
        let here = labels(partition.key());
        let [model, group, role] = here;
        let cache = partition.cache();
        let (told, predicted) = (cache.stats(), cache.predicted_stats());
        for (family, count) in [
            (&self.blocks, told.blocks),
            (&self.held, told.held),
            (&self.orphans, told.orphans),
            (&self.bytes, told.bytes),
            (&self.predicted, predicted.blocks),
            (&self.predicted_bytes, predicted.bytes),
        ] {
            family.with_label_values(&here).set(whole(count as u64));
        }
        let activity = cache.activity();
        let missed = activity.asked.saturating_sub(activity.matched);
        for (word, count) in [("yes", activity.matched), ("no", missed)] {
            self.looked_up.with_label_values(&[model, group, role, word]).inc_by(count);
        }
        self.never_matches.with_label_values(&here).set(i64::from(never_matches));
    }

    /// Whether the cache that all workers share is left alone.
    pub(super) fn shared_cache(&self, rests: bool) {
        self.shared_cache_resting.set(i64::from(rests));
    }

    pub(super) fn encode(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}
