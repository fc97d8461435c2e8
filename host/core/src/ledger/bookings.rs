//! The live bookings of a ledger, each at a place of its own.
//!
//! Owns what each still carries. A place is used again when its booking is over; whoever holds a
//! booking's id is the only one who can end it. It doesn't know what that does to a row.

use super::active_blocks::RunId;

/// A booking's place.
pub(super) type BookingId = u32;

/// No booking.
pub(super) const NOBODY: BookingId = BookingId::MAX;

/// Room for so many bookings isn't given back: they come again soon.
const MANY: usize = 4_096;

/// What is booked for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Booking {
    /// The row that carries it; none when its worker has left.
    pub(super) row: Option<u32>,
    /// Where its prompt ends among the active blocks.
    pub(super) leaf: RunId,
    /// Blocks that it shares with nobody: the rest of its prompt, and its output.
    pub(super) own_blocks: u64,
    /// What is off the weight of its own blocks, and of those that it is alone with, in parts of
    /// [`super::growth::WHOLE`].
    pub(super) discount: u32,
    /// Prompt tokens until the first token; 0 after.
    pub(super) prefill_tokens: u64,
    /// How long they are expected to take, in milliseconds; none if that isn't known.
    pub(super) prefill_ms: Option<f64>,
    /// Its neighbours in the row's line of prefills.
    pub(super) before: BookingId,
    pub(super) after: BookingId,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Bookings {
    places: Vec<Option<Booking>>,
    free: Vec<BookingId>,
}

impl Bookings {
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, booking: Booking) -> BookingId {
        if let Some(id) = self.free.pop()
            && let Some(place) = self.places.get_mut(id as usize)
        {
            *place = Some(booking);
            return id;
        }
        self.places.push(Some(booking));
        (self.places.len() - 1) as BookingId
    }

    pub(super) fn get(&self, id: BookingId) -> Option<&Booking> {
        self.places.get(id as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: BookingId) -> Option<&mut Booking> {
        self.places.get_mut(id as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, id: BookingId) -> Option<Booking> {
        let booking = self.places.get_mut(id as usize)?.take()?;
        self.free.push(id);
        if self.len() == 0 && self.places.len() >= MANY {
            *self = Self::default();
        }
        Some(booking)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (BookingId, &Booking)> {
        (0..).zip(&self.places).filter_map(|(id, place)| Some((id, place.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (BookingId, &mut Booking)> {
        (0..).zip(&mut self.places).filter_map(|(id, place)| Some((id, place.as_mut()?)))
    }
}
