//! Which classes of prompts come so often that their holders can't take them alone.

use std::collections::{BTreeMap, VecDeque};

/// Counts over a window of requests.
pub(crate) struct HotSpots {
    window: usize,
    last: VecDeque<u64>,
    classes: BTreeMap<u64, Class>,
}

/// What is known of a class that is in the window.
#[derive(Default)]
struct Class {
    requests: usize,
    /// Requests in a row that were alarming, and went to a holder.
    streak: usize,
    is_alarming: bool,
}

impl HotSpots {
    pub(crate) fn new(window: usize) -> Self {
        Self { window, last: VecDeque::new(), classes: BTreeMap::new() }
    }

    /// A request of a class comes. Whether it is to go to somebody who doesn't hold it: its class's share
    /// is more than the holders' part of the fleet, and was so for twice as many requests as there are
    /// holders, who got them all.
    pub(crate) fn come(&mut self, class: u64, holders: usize, others: usize) -> bool {
        self.count(class);
        let Some(of) = self.classes.get_mut(&class) else { return false };
        // x / (1 - x) > holders / others, without the divisions.
        let (mine, theirs) = (of.requests, self.last.len() - of.requests);
        of.is_alarming = holders > 0 && others > 0 && mine * others > theirs * holders;
        of.is_alarming && of.streak >= 2 * holders
    }

    /// Where it went.
    pub(crate) fn went(&mut self, class: u64, to_holder: bool) {
        if let Some(of) = self.classes.get_mut(&class) {
            of.streak = if of.is_alarming && to_holder { of.streak + 1 } else { 0 };
        }
    }

    fn count(&mut self, class: u64) {
        self.last.push_back(class);
        self.classes.entry(class).or_default().requests += 1;
        if self.last.len() <= self.window {
            return;
        }
        let Some(gone) = self.last.pop_front() else { return };
        if let Some(of) = self.classes.get_mut(&gone) {
            of.requests -= 1;
            if of.requests == 0 {
                self.classes.remove(&gone);
            }
        }
    }
}
