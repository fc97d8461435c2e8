//! What must hold of every index, whatever happened to it; for tests.

use super::State;

impl State {
    /// Panics if something that is said twice isn't said alike.
    pub(in crate::index) fn check(&self) {
        self.tree.check();
        self.ranks.check();
        let lives = self.ranks.iter().filter_map(|(_, slot)| self.ranks.life(slot));
        let held: usize = lives.map(|life| life.held()).sum();
        let dead = self.ranks.dead() > 0;
        assert!(dead || held == self.tree.held(), "{held} held, {} in runs", self.tree.held());
    }
}
