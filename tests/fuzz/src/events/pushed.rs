//! Events as they are pushed, in JSON.

use pointsman::feeds::pushed::{PushOutcome, Pushed};
use pointsman::feeds::wire::{Event, Groups, Removed, Stored};
use serde_json::{Value, json};

use super::super::words::sentence;
use super::ledger::Ledger;

/// The longest sentence about a body, in bytes: it names all keys that there are.
const MOST_WORDS: usize = 1_000;

/// One body, pushed twice by one rank.
pub(super) fn body(bytes: &[u8]) {
    let pushed = match Pushed::read(bytes) {
        Ok(pushed) => pushed,
        Err(error) => return sentence(&error.to_string(), MOST_WORDS),
    };
    let mut ledger = Ledger::new();
    for _ in 0..2 {
        ledger.told(bytes.len());
        let events = pushed.len();
        let outcome = apply(&mut ledger, pushed.clone());
        let skipped: usize = outcome.skipped.iter().map(|(_, count)| count).sum();
        assert_eq!(outcome.applied + skipped, events, "every event is told of: {outcome:?}");
        ledger.check();
    }
    ledger.clear();
}

fn apply(ledger: &mut Ledger, pushed: Pushed) -> PushOutcome {
    ledger.with(0, |intake, stats, sink| pushed.apply(intake, stats, sink))
}

/// Events that an engine published, pushed in its stead: what came of them must be the same.
pub(super) fn alike(events: &[Event<'_>]) {
    let told: Option<Vec<Value>> = events.iter().map(shown).collect();
    let Some(told) = told else { return };
    let body = json!({ "events": told }).to_string();
    let pushed = Pushed::read(body.as_bytes());
    let pushed = pushed.unwrap_or_else(|error| panic!("{body} is refused: {error}"));
    assert_eq!(pushed.len(), events.len());
    let (mut one, mut other) = (Ledger::new(), Ledger::new());
    apply(&mut one, pushed);
    for event in events {
        other.with(0, |intake, stats, sink| intake.take(event, stats, sink));
    }
    assert_eq!(one.index.stats(), other.index.stats(), "{body}");
    let counts = |ledger: &Ledger| {
        let snapshot = ledger.stats.snapshot();
        (snapshot.counts, snapshot.skipped)
    };
    assert_eq!(counts(&one), counts(&other), "{body}");
    other.told(body.len());
    other.check();
}

/// An event as whoever pushes would write it; none if that has no words for it.
fn shown(event: &Event<'_>) -> Option<Value> {
    match event {
        Event::Stored(stored) => stored_shown(stored),
        Event::Removed(Removed { hashes, medium, group: None, remote: false }) => {
            Some(json!({ "type": "removed", "block_hashes": hashes, "medium": medium }))
        }
        Event::Cleared => Some(json!({ "type": "cleared" })),
        Event::Removed(_) | Event::Unknown => None,
    }
}

fn stored_shown(stored: &Stored<'_>) -> Option<Value> {
    let Stored { hashes, parent, tokens, block_size, keys, medium, group, holds, remote } = stored;
    let plain = group.is_none() && *holds == Groups::Unsaid && !remote;
    if !plain || keys.adapter_is_unnamed() {
        return None;
    }
    let mut event = json!({
        "type": "stored",
        // As text, which every reader keeps exact.
        "block_hashes": hashes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "parent_hash": parent,
        "token_ids": tokens,
        "block_size": block_size,
        "medium": medium,
        "lora_name": keys.adapter,
        "cache_salt": keys.namespace,
    });
    if !keys.media.is_empty() {
        event["mm_hashes"] = json!(keys.media);
    }
    Some(event)
}
