//! The lifecycles of a partition's requests, from the door to their end.
//!
//! Owns which requests there are, which of them are held, what each was admitted with, and the rules:
//! an id is of one live request at a time, a request is classified once, each that the classifier
//! knows of gets exactly one terminal event, and an answer is checked before it counts. What is held
//! when the instance is lost or taken away is admitted; another one in its place is told what is live
//! and asked about what is held.

mod answers;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bench::Bench;
use super::counts::ClassifierCounts;
use super::error::ClassificationError;
use super::facts::{Admitted, Arrival, Capacity, ClassifyRequest, LifecycleEvent, LiveRequest};
use super::held::{Held, Place};
use super::lifecycle::{Happening, Life, Mailbox, Note, Ticket};
use super::log::{ClassifierLog, Scribe};
use super::seat::Seat;
use crate::ids::WorkerRank;

pub(super) use answers::check;

/// What became of a request at the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// It goes on.
    Admitted(Admitted),
    /// It waits: [`Released`] says when no longer.
    Held,
}

/// A request that was held and isn't any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// Whose; see [`Ticket::generation`].
    pub generation: u64,
    /// What it goes on with, or why it doesn't.
    pub result: Result<Admitted, ClassificationError>,
}

/// How far a request has come.
#[derive(Clone, Debug)]
enum Stage {
    Held,
    Admitted(Admitted),
    Refused(ClassificationError),
}

#[derive(Debug)]
struct Entry {
    life: Arc<Life>,
    arrival: Arrival,
    arrived_at_ms: u64,
    order: u64,
    stage: Stage,
    worker: Option<WorkerRank>,
    responding: bool,
    /// The classifier in place has been asked about it or told of it.
    known: bool,
}

impl Entry {
    fn place(&self) -> Place {
        (self.order, self.life.generation)
    }

    fn view(&self, now_ms: u64) -> ClassifyRequest<'_> {
        ClassifyRequest {
            arrival: &self.arrival,
            progress_tokens: self.life.progress(),
            arrived_at_ms: self.arrived_at_ms,
            now_ms,
        }
    }
}

/// The lifecycles of a partition's requests.
#[derive(Debug, Default)]
pub(super) struct Lifecycles {
    mailbox: Arc<Mailbox>,
    seat: Option<Seat>,
    bench: Bench,
    entries: BTreeMap<u64, Entry>,
    ids: BTreeMap<Arc<str>, u64>,
    held: Held,
    fleet: Option<Arc<[Capacity]>>,
    next_order: u64,
    released: Vec<Released>,
    counts: ClassifierCounts,
    scribe: Scribe,
}

impl Lifecycles {
    pub(super) fn new(mailbox: Arc<Mailbox>) -> Self {
        Self { mailbox, ..Self::default() }
    }

    pub(super) fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    pub(super) fn live(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn counts(&self) -> ClassifierCounts {
        ClassifierCounts {
            held_now: self.held.len() as u64,
            live_now: self.live(),
            ..self.counts.clone()
        }
    }

    /// Puts another classifier in place, or none. What is held is offered to it at the next call, or
    /// admitted now.
    pub(super) fn replace(&mut self, seat: Option<Seat>) {
        let old = std::mem::replace(&mut self.seat, seat);
        match &mut self.seat {
            Some(new) => self.bench.replaced(old, new),
            None => {
                self.bench = Bench::Empty;
                self.let_go();
            }
        }
    }

    /// The one that failed, and for which the version before stands in.
    pub(super) fn failed(&self) -> Option<&Seat> {
        self.bench.failed()
    }

    /// From the next instance on, all that one is told and answers is left to `log`.
    pub(super) fn write_to(&mut self, log: Arc<dyn ClassifierLog>) {
        self.scribe.write_to(log);
    }

    /// What was held and isn't any more, since this was asked last.
    pub(super) fn take_released(&mut self) -> Vec<Released> {
        std::mem::take(&mut self.released)
    }

    /// When [`Lifecycles::catch_up`] has something to do, though nothing happens; none is never.
    pub(super) fn due_at_ms(&self, now_ms: u64) -> Option<u64> {
        let seat = self.seat.as_ref().and_then(|seat| seat.due_at_ms(now_ms));
        let seats = seat.into_iter().chain(self.bench.due_at_ms(now_ms));
        seats.chain(self.held.due_at_ms()).min()
    }

    /// A request is at the door. The same again gets the same answer.
    pub(super) fn arrive(
        &mut self,
        arrival: Arrival,
        Ticket(life): Ticket,
        now_ms: u64,
    ) -> Result<Arrived, ClassificationError> {
        // First of all, the ends of earlier requests: one of them may have had this id.
        self.catch_up(now_ms);
        let generation = life.generation;
        if life.has_ended() {
            return Err(ClassificationError::LifecycleEnded);
        }
        if !self.entries.contains_key(&generation) {
            let id = arrival.request_id.clone();
            if self.ids.contains_key(&id) {
                self.counts.duplicates += 1;
                return Err(ClassificationError::Duplicate(id.to_string()));
            }
            self.next_order += 1;
            let stage = Stage::Admitted(arrival.unchanged());
            let entry = Entry {
                life,
                arrived_at_ms: now_ms,
                order: self.next_order,
                stage,
                worker: None,
                responding: false,
                known: false,
                arrival,
            };
            self.ids.insert(id, generation);
            self.entries.insert(generation, entry);
            self.offer(generation, now_ms);
        }
        match self.entries.get(&generation).map(|entry| &entry.stage) {
            Some(Stage::Admitted(admitted)) => Ok(Arrived::Admitted(admitted.clone())),
            Some(Stage::Held) => Ok(Arrived::Held),
            Some(Stage::Refused(error)) => Err(error.clone()),
            None => Err(ClassificationError::LifecycleEnded),
        }
    }

    /// Delivers what has happened, in order, and does what its time has come for.
    pub(super) fn catch_up(&mut self, now_ms: u64) {
        self.bench.gives_back(&mut self.seat, now_ms);
        if !self.revive(now_ms) {
            self.let_go();
        }
        if let Some(seat) = self.seat.as_mut().filter(|seat| seat.is_there())
            && seat.begins(now_ms)
        {
            seat.introduce(now_ms, &mut self.scribe);
            self.introduce(now_ms);
        }
        if let Some(fleet) = self.mailbox.take_fleet() {
            self.fleet = Some(fleet);
            self.tell_fleet(now_ms);
        }
        while let Some(note) = self.mailbox.take() {
            self.apply(note, now_ms);
        }
        while let Some(generation) = self.held.next_due(now_ms) {
            self.counts.due += 1;
            self.admit_unchanged(generation);
            self.tell_admitted(generation, now_ms);
        }
        if self.seat.as_mut().is_some_and(|seat| seat.ticks(now_ms)) {
            self.tell(&LifecycleEvent::Tick, now_ms);
        }
    }

    /// Sees to it that there is an instance: of the version before, where the one in place has none.
    /// False if there is none to be had. Without a classifier there needn't be.
    fn revive(&mut self, now_ms: u64) -> bool {
        loop {
            let Some(seat) = &mut self.seat else { return true };
            if seat.revive(now_ms, &mut self.counts) {
                return true;
            }
            if !self.stand_in() {
                return false;
            }
        }
    }

    /// Has the version before take the place of one that failed, if it is kept.
    fn stand_in(&mut self) -> bool {
        let stands_in = self.bench.stands_in(&mut self.seat);
        self.counts.stood_in += u64::from(stands_in);
        stands_in
    }

    /// Tells a new instance what there is, and asks it about what is held.
    fn introduce(&mut self, now_ms: u64) {
        self.entries.values_mut().for_each(|entry| entry.known = false);
        let admitted = |entry: &&Entry| matches!(entry.stage, Stage::Admitted(_));
        let mut live: Vec<Place> =
            self.entries.values().filter(admitted).map(Entry::place).collect();
        live.sort_unstable();
        for (_, generation) in live {
            if !self.is_asked() {
                return;
            }
            self.tell_inherited(generation, now_ms);
        }
        self.tell_fleet(now_ms);
        for generation in self.held.in_order() {
            // What it was told of may have set some of them free.
            if self.is_asked() && self.take_out(generation) {
                self.offer(generation, now_ms);
            }
        }
    }

    fn is_asked(&self) -> bool {
        self.seat.as_ref().is_some_and(Seat::is_there)
    }

    fn tell_fleet(&mut self, now_ms: u64) {
        let (Some(fleet), Some(seat)) = (self.fleet.clone(), &mut self.seat) else { return };
        if seat.take_fleet(&fleet) {
            self.tell(&LifecycleEvent::FleetChanged(&fleet), now_ms);
        }
    }

    fn tell_inherited(&mut self, generation: u64, now_ms: u64) {
        let Self { seat: Some(seat), entries, scribe, .. } = self else { return };
        let Some(entry) = entries.get_mut(&generation) else { return };
        entry.known = true;
        let Stage::Admitted(admitted) = &entry.stage else { return };
        let request = entry.view(now_ms);
        let Entry { worker, responding, .. } = *entry;
        let event =
            LifecycleEvent::Inherited(LiveRequest { request, admitted, worker, responding });
        let answer = seat.on_event(&event, now_ms, scribe);
        self.take_answer(answer, now_ms);
    }

    /// Says that the host admitted a request in the classifier's place.
    fn tell_admitted(&mut self, generation: u64, now_ms: u64) {
        let id = self.entries.get(&generation).map(|entry| entry.arrival.request_id.clone());
        if let Some(id) = id {
            self.tell(&LifecycleEvent::Admitted(&id), now_ms);
        }
    }

    fn apply(&mut self, Note { generation, what }: Note, now_ms: u64) {
        let Some(entry) = self.entries.get_mut(&generation) else { return };
        let id = entry.arrival.request_id.clone();
        let went_on = matches!(entry.stage, Stage::Admitted(_));
        let event = match what {
            Happening::Sent(worker) if went_on => {
                entry.worker = Some(worker);
                LifecycleEvent::Sent(&id, worker)
            }
            Happening::Responding if went_on && !entry.responding => {
                entry.responding = true;
                LifecycleEvent::Responding(&id)
            }
            Happening::Sent(_) | Happening::Responding => return,
            Happening::Completed(tokens) => LifecycleEvent::Completed(&id, tokens),
            Happening::Aborted => LifecycleEvent::Aborted(&id, entry.worker),
        };
        let known = entry.known;
        if matches!(what, Happening::Completed(_) | Happening::Aborted) {
            self.take_out(generation);
            self.entries.remove(&generation);
            self.ids.remove(&id);
        }
        // Of what an instance before this one refused, this one knows nothing.
        if known {
            self.tell(&event, now_ms);
        }
    }

    /// Takes a request out of those that are held. False if it isn't.
    fn take_out(&mut self, generation: u64) -> bool {
        let Some(entry) = self.entries.get(&generation) else { return false };
        self.held.remove(entry.place(), entry.arrival.due_at_ms)
    }

    /// Admits a held request as it came.
    fn admit_unchanged(&mut self, generation: u64) {
        let Some(entry) = self.entries.get(&generation) else { return };
        let admitted = entry.arrival.unchanged();
        self.settle(generation, Stage::Admitted(admitted));
    }

    /// Admits all that are held, in the order in which they came.
    fn let_go(&mut self) {
        for generation in self.held.in_order() {
            self.counts.let_go += 1;
            self.admit_unchanged(generation);
        }
    }

    /// A held request is held no longer.
    fn settle(&mut self, generation: u64, stage: Stage) {
        if !self.take_out(generation) {
            return;
        }
        let Some(entry) = self.entries.get_mut(&generation) else { return };
        let result = match &stage {
            Stage::Held => return,
            Stage::Admitted(admitted) => Ok(admitted.clone()),
            Stage::Refused(error) => Err(error.clone()),
        };
        entry.stage = stage;
        self.released.push(Released { generation, result });
    }
}
