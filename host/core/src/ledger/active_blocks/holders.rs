//! Which rows hold one run of blocks, and by how many bookings each.
//!
//! Owns the counts of one run: a sorted list while the rows are few, a table by row once they are
//! many, since then all rows are looked at anyway. The memory of either is kept for the next run that
//! needs it. It doesn't know blocks.

use smallvec::SmallVec;

use super::BookingId;

/// How many holders stand in the run itself.
const INLINE: usize = 3;

/// From how many holders on, at least, a table by row takes the place of the list.
const MANY: usize = 16;

/// So many lists and so many tables are kept for runs to come.
const MOST_SPARE: usize = 32;

/// A row's bookings of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// How many there are.
    pub(super) bookings: u32,
    /// Their ids, each flipped in: if there is one booking, it is this.
    pub(super) ids: BookingId,
}

/// A row that holds a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) row: u32,
    pub(super) tally: Tally,
}

type Few = SmallVec<[Holder; INLINE]>;

/// All rows that hold a run.
#[derive(Debug)]
pub(super) enum Holders {
    /// Ascending by row.
    Few(Few),
    /// By row; and in how many rows there are bookings.
    Many(Vec<Tally>, usize),
}

impl Default for Holders {
    fn default() -> Self {
        Self::Few(Few::new())
    }
}

/// Memory of runs that are gone.
#[derive(Debug, Default)]
pub(super) struct Spare {
    few: Vec<Vec<Holder>>,
    many: Vec<Vec<Tally>>,
}

/// At how many holders a list becomes a table, of so many rows. Back again at half of that.
fn many(rows: usize) -> usize {
    MANY.max(rows / 8)
}

impl Holders {
    /// Whether nobody holds the run.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(few) => few.is_empty(),
            Self::Many(_, held) => *held == 0,
        }
    }

    /// A row's bookings.
    pub(super) fn of(&self, row: u32) -> Tally {
        match self {
            Self::Few(few) => {
                let found = few.binary_search_by_key(&row, |holder| holder.row);
                found.ok().and_then(|at| few.get(at)).map(|h| h.tally).unwrap_or_default()
            }
            Self::Many(tallies, _) => tallies.get(row as usize).copied().unwrap_or_default(),
        }
    }

    /// Adds a booking of one of so many rows. Returns what the row had before.
    pub(super) fn add(
        &mut self,
        row: u32,
        booking: BookingId,
        rows: usize,
        spare: &mut Spare,
    ) -> Tally {
        let one = Tally { bookings: 1, ids: booking };
        match self {
            Self::Few(few) => match few.binary_search_by_key(&row, |holder| holder.row) {
                Ok(at) => {
                    few.get_mut(at).map(|h| flip_in(&mut h.tally, booking)).unwrap_or_default()
                }
                Err(at) => {
                    spare.make_room(few);
                    few.insert(at, Holder { row, tally: one });
                    if few.len() >= many(rows) {
                        self.spread(rows, spare);
                    }
                    Tally::default()
                }
            },
            Self::Many(tallies, held) => {
                let Some(tally) = tallies.get_mut(row as usize) else { return Tally::default() };
                *held += usize::from(tally.bookings == 0);
                flip_in(tally, booking)
            }
        }
    }

    /// Takes a booking away. Returns what is left of the row's.
    pub(super) fn remove(
        &mut self,
        row: u32,
        booking: BookingId,
        rows: usize,
        spare: &mut Spare,
    ) -> Tally {
        match self {
            Self::Few(few) => {
                let Ok(at) = few.binary_search_by_key(&row, |holder| holder.row) else {
                    return Tally::default();
                };
                let Some(holder) = few.get_mut(at) else { return Tally::default() };
                let left = flip_out(&mut holder.tally, booking);
                if left.bookings == 0 {
                    few.remove(at);
                }
                left
            }
            Self::Many(tallies, held) => {
                let Some(tally) = tallies.get_mut(row as usize).filter(|tally| tally.bookings > 0)
                else {
                    return Tally::default();
                };
                let left = flip_out(tally, booking);
                *held -= usize::from(left.bookings == 0);
                if *held < many(rows) / 2 {
                    self.gather(spare);
                }
                left
            }
        }
    }

    /// The same holders once more.
    pub(super) fn copy(&self, spare: &mut Spare) -> Self {
        match self {
            Self::Few(few) => {
                let mut copy = if few.len() > INLINE { spare.list() } else { Few::new() };
                copy.extend_from_slice(few);
                Self::Few(copy)
            }
            Self::Many(tallies, held) => {
                let mut copy = spare.table();
                copy.extend_from_slice(tallies);
                Self::Many(copy, *held)
            }
        }
    }

    /// Calls `each` with every holder, ascending by row.
    pub(super) fn for_each(&self, mut each: impl FnMut(Holder)) {
        match self {
            Self::Few(few) => few.iter().copied().for_each(each),
            Self::Many(tallies, _) => {
                for (row, &tally) in (0..).zip(tallies) {
                    if tally.bookings > 0 {
                        each(Holder { row, tally });
                    }
                }
            }
        }
    }

    /// Takes `blocks` off what the holders have in `column`, which is of all rows, or of the given
    /// ones, ascending.
    pub(super) fn take_off(&self, blocks: f64, rows: Option<&[u32]>, column: &mut [f64]) {
        match (self, rows) {
            (Self::Few(few), rows) => {
                for holder in few {
                    let at = match rows {
                        None => holder.row as usize,
                        Some(rows) => match rows.binary_search(&holder.row) {
                            Ok(at) => at,
                            Err(_) => continue,
                        },
                    };
                    if let Some(value) = column.get_mut(at) {
                        *value -= blocks;
                    }
                }
            }
            (Self::Many(tallies, _), None) => {
                for (value, tally) in column.iter_mut().zip(tallies) {
                    *value -= if tally.bookings > 0 { blocks } else { 0.0 };
                }
            }
            (Self::Many(tallies, _), Some(rows)) => {
                for (value, &row) in column.iter_mut().zip(rows) {
                    let holds = tallies.get(row as usize).is_some_and(|tally| tally.bookings > 0);
                    *value -= if holds { blocks } else { 0.0 };
                }
            }
        }
    }

    /// Gives every row its new number; those that have none must be gone. Numbers keep their order.
    pub(super) fn renumber(&mut self, new: &[Option<u32>], rows: usize, spare: &mut Spare) {
        if let Self::Many(..) = self {
            self.gather(spare);
        }
        if let Self::Few(few) = self {
            few.retain(|holder| {
                let row = new.get(holder.row as usize).copied().flatten();
                holder.row = row.unwrap_or(holder.row);
                row.is_some()
            });
            if few.len() >= many(rows) {
                self.spread(rows, spare);
            }
        }
    }

    /// Gives the memory back.
    pub(super) fn clear(&mut self, spare: &mut Spare) {
        match std::mem::take(self) {
            Self::Few(few) => spare.keep_list(few),
            Self::Many(tallies, _) => spare.keep_table(tallies),
        }
    }

    /// From a list to a table.
    fn spread(&mut self, rows: usize, spare: &mut Spare) {
        let mut tallies = spare.table();
        tallies.resize(rows, Tally::default());
        let mut held = 0;
        self.for_each(|holder| {
            if let Some(tally) = tallies.get_mut(holder.row as usize) {
                *tally = holder.tally;
                held += 1;
            }
        });
        self.clear(spare);
        *self = Self::Many(tallies, held);
    }

    /// From a table to a list.
    fn gather(&mut self, spare: &mut Spare) {
        let mut few = spare.list();
        self.for_each(|holder| few.push(holder));
        self.clear(spare);
        *self = Self::Few(few);
    }
}

fn flip_in(tally: &mut Tally, booking: BookingId) -> Tally {
    let before = *tally;
    tally.bookings += 1;
    tally.ids ^= booking;
    before
}

fn flip_out(tally: &mut Tally, booking: BookingId) -> Tally {
    tally.bookings = tally.bookings.saturating_sub(1);
    tally.ids ^= booking;
    *tally
}

impl Spare {
    /// A list that is about to outgrow its run moves into memory that is there.
    fn make_room(&mut self, few: &mut Few) {
        if few.len() == INLINE
            && !few.spilled()
            && let Some(mut list) = self.few.pop()
        {
            list.extend_from_slice(few);
            *few = Few::from_vec(list);
        }
    }

    fn list(&mut self) -> Few {
        self.few.pop().map(Few::from_vec).unwrap_or_default()
    }

    fn table(&mut self) -> Vec<Tally> {
        self.many.pop().unwrap_or_default()
    }

    fn keep_list(&mut self, few: Few) {
        if few.spilled() && self.few.len() < MOST_SPARE {
            let mut list = few.into_vec();
            list.clear();
            self.few.push(list);
        }
    }

    fn keep_table(&mut self, mut tallies: Vec<Tally>) {
        if self.many.len() < MOST_SPARE {
            tallies.clear();
            self.many.push(tallies);
        }
    }
}
