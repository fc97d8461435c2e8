//! The latest records, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use pointsman_core::ids::DecisionId;
use serde_json::value::RawValue;

/// Records in the order in which they came; the oldest go when there is no room.
#[derive(Debug)]
pub(super) struct Latest {
    records: VecDeque<(DecisionId, Arc<RawValue>)>,
    bytes: usize,
    most_bytes: usize,
}

impl Latest {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { records: VecDeque::new(), bytes: 0, most_bytes }
    }

    pub(super) fn push(&mut self, id: DecisionId, text: Box<RawValue>) {
        let size = text.get().len();
        if size > self.most_bytes {
            return;
        }
        self.bytes += size;
        while self.bytes > self.most_bytes {
            let Some((_, oldest)) = self.records.pop_front() else { break };
            self.bytes -= oldest.get().len();
        }
        self.records.push_back((id, text.into()));
    }

    pub(super) fn newest(&self, most: usize) -> Vec<Arc<RawValue>> {
        self.records.iter().rev().take(most).map(|(_, text)| text.clone()).collect()
    }

    pub(super) fn find(&self, id: DecisionId) -> Option<Arc<RawValue>> {
        self.records.iter().rev().find(|(of, _)| *of == id).map(|(_, text)| text.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}
