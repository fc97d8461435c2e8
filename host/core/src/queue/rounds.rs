//! Whose turn it is among classes: deficit round robin.
//!
//! Each visit of the round gives a class its quantum of credit, and each request served costs the
//! class as much as it has to compute. A class keeps its turn for as long as its credit lasts. One
//! whose head can't pass now gets no credit meanwhile; one that has nobody waiting loses what it had.
//! Rounds in which nobody could afford anything are reckoned, not walked.

/// Somebody at the head of a class, who could pass now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    /// The class.
    pub(super) class: usize,
    /// What serving it costs; at least 1.
    pub(super) cost: u64,
    /// What a visit gives the class; at least 1.
    pub(super) quantum: u64,
}

/// The state of the round.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// By class.
    credit: Vec<u64>,
    /// The class whose turn it is.
    cursor: usize,
    /// Whether it has been given its quantum for this turn.
    begun: bool,
}

impl Rounds {
    pub(super) fn new(classes: usize) -> Self {
        Self { credit: vec![0; classes], cursor: 0, begun: false }
    }

    /// The class that is served now, of `contenders` in ascending order of their classes.
    pub(super) fn serve(&mut self, contenders: &[Contender]) -> Option<usize> {
        let winner = match self.goes_on(contenders) {
            Some(winner) => winner,
            None => self.next_turn(contenders)?,
        };
        if let Some(credit) = self.credit.get_mut(winner.class) {
            *credit = credit.saturating_sub(winner.cost);
        }
        Some(winner.class)
    }

    /// Nobody of a class waits any more.
    pub(super) fn emptied(&mut self, class: usize) {
        if let Some(credit) = self.credit.get_mut(class) {
            *credit = 0;
        }
        if self.cursor == class && self.begun {
            (self.cursor, self.begun) = (class + 1, false);
        }
    }

    fn credit(&self, class: usize) -> u64 {
        self.credit.get(class).copied().unwrap_or(0)
    }

    /// Whoever has the turn, if its credit lasts.
    fn goes_on(&self, contenders: &[Contender]) -> Option<Contender> {
        let at = contenders.iter().find(|contender| contender.class == self.cursor)?;
        (self.begun && self.credit(at.class) >= at.cost).then_some(*at)
    }

    /// Gives the turn to whoever is the first to afford it, and all the credit that rounds until
    /// then give.
    fn next_turn(&mut self, contenders: &[Contender]) -> Option<Contender> {
        // The class that has had its quantum in this turn comes last.
        let first = self.cursor + usize::from(self.begun);
        let split = contenders.partition_point(|contender| contender.class < first);
        let (wrapped, ahead) = contenders.split_at(split);
        let ring = || ahead.iter().chain(wrapped);
        let visits = |contender: &Contender| {
            let missing = contender.cost.saturating_sub(self.credit(contender.class));
            missing.div_ceil(contender.quantum.max(1)).max(1)
        };
        let (rounds, at) = ring().enumerate().map(|(at, one)| (visits(one), at)).min()?;
        let winner = *ring().nth(at)?;
        for (position, contender) in ring().enumerate() {
            let visits = if position <= at { rounds } else { rounds - 1 };
            if let Some(credit) = self.credit.get_mut(contender.class) {
                *credit = credit.saturating_add(contender.quantum.saturating_mul(visits));
            }
        }
        (self.cursor, self.begun) = (winner.class, true);
        Some(winner)
    }
}
