//! Batches as engines publish them, in msgpack.

use pointsman::feeds::cursor::{Cursor, Verdict};
use pointsman::feeds::wire::{Batch, Event, Malformed};
use pointsman_core::hashing::Scope;

use super::super::words::sentence;
use super::ledger::{Ledger, RANKS};
use super::pushed;

/// The longest sentence about a batch, in bytes.
const MOST_WORDS: usize = 600;

/// The most messages of one stream: all is looked at after each.
const MOST_MESSAGES: usize = 256;

fn refused(malformed: &Malformed) {
    let text = malformed.to_string();
    sentence(&text, MOST_WORDS);
    assert!(text.contains("expected") && text.contains(" at byte "), "{text}");
}

/// One batch, told by one rank twice and by another once.
pub(super) fn batch(payload: &[u8]) {
    let batch = match Batch::read(payload) {
        Ok(batch) => batch,
        Err(malformed) => return refused(&malformed),
    };
    assert!(batch.ts.is_finite() && batch.len() <= payload.len());
    assert_eq!(batch.events().count(), batch.len());
    let mut ledger = Ledger::new();
    for number in [0, 0, 1] {
        ledger.told(payload.len());
        take(&mut ledger, number, &batch);
        ledger.check();
    }
    ledger.clear();
    let events: Vec<Event<'_>> = batch.events().filter_map(Result::ok).collect();
    pushed::alike(&events);
}

fn take(ledger: &mut Ledger, number: usize, batch: &Batch<'_>) -> bool {
    for event in batch.events() {
        match event {
            Ok(Event::Stored(stored)) => {
                let scope = Scope::new(stored.keys.adapter, stored.keys.namespace);
                ledger.watch(&stored.tokens, stored.block_size, scope);
            }
            Ok(_) => {}
            Err(malformed) => {
                refused(&malformed);
                assert!(malformed.event.is_some(), "which event it is");
            }
        }
    }
    ledger.with(number, |intake, stats, sink| intake.take_batch(batch, stats, sink).0)
}

/// Messages of several ranks, each behind a byte for what happens, its number and its length: numbers
/// come again, are left out or begin anew, connections break.
pub(super) fn stream(mut bytes: &[u8]) {
    let mut ledger = Ledger::new();
    let mut cursors: Vec<Cursor> = (0..RANKS).map(|number| Cursor::new(number % 2 == 0)).collect();
    for _ in 0..MOST_MESSAGES {
        let Some((&[what, number, long, short], rest)) = bytes.split_first_chunk::<4>() else {
            break;
        };
        let length = usize::from(u16::from_be_bytes([long, short])).min(rest.len());
        let payload;
        (payload, bytes) = rest.split_at(length);
        let rank = usize::from(what) % RANKS;
        // The last number that a batch can have, too: the one after it ends a replay.
        let seq = if number == u8::MAX { u64::MAX - 1 } else { u64::from(number) };
        let cursor = &mut cursors[rank];
        if what & 0x80 != 0 {
            cursor.opened();
            if cursor.replay_ended(what & 0x40 != 0).restarted {
                ledger.with(rank, |intake, _, sink| intake.restart(sink));
            }
        }
        ledger.told(payload.len());
        let read = Batch::read(payload);
        let ts = read.as_ref().ok().map(|batch| batch.ts);
        let judged = cursor.live(seq, ts);
        if judged.clear {
            ledger.with(rank, |intake, _, sink| intake.restart(sink));
        }
        if let Verdict::Recover { from } = judged.verdict {
            assert!(from < seq, "asked for {from}, told of {seq}");
            // An answer that brings the batch before, or nothing.
            if what & 0x20 != 0 {
                cursor.replayed(seq - 1, ts);
            }
            cursor.replay_ended(what & 0x40 != 0);
            let again = cursor.live(seq, ts).verdict;
            assert!(!matches!(again, Verdict::Recover { .. }), "a gap is asked for once");
        }
        let sound = match &read {
            Ok(batch) if judged.verdict != Verdict::Duplicate => take(&mut ledger, rank, batch),
            Ok(_) => true,
            Err(malformed) => {
                refused(malformed);
                true
            }
        };
        if !sound {
            ledger.with(rank, |intake, _, sink| intake.clear(sink));
            cursors[rank].refill();
        }
        ledger.check();
    }
    ledger.clear();
}
