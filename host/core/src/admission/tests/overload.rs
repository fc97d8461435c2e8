//! Three times as much comes as the workers can compute: shares, strict priority and due times, over
//! whole decisions on a virtual clock.

use super::*;
use crate::clock::{Chance, Moment};
use crate::ledger::Lease;
use crate::partition::Mode;

const CLASSES: [&str; 3] = ["gold", "silver", "bronze"];
const QUANTA: [u64; 3] = [5_000, 3_000, 2_000];
const WORKERS: u64 = 4;

/// Somebody of the traffic.
#[derive(Clone, Copy, Debug)]
struct Guest {
    class: usize,
    strict: bool,
    due_at_ms: Option<u64>,
}

/// What became of the traffic.
#[derive(Debug, Default)]
struct Served {
    /// Tokens, by class.
    tokens: [u64; 3],
    strict: u64,
    late: u64,
}

struct Traffic {
    rig: Rig,
    line: Line<Guest>,
    scout: Scout,
    chance: Chance,
    served: Served,
    /// What each worker computes, and until when: a token in a microsecond.
    computes: Vec<(u64, Lease)>,
    strict_waiting: u64,
    sent: usize,
}

impl Traffic {
    /// A request comes, of 100 to 2,000 tokens.
    fn comes(&mut self, strict_every: usize) -> u64 {
        let (chance, now_ms) = (&mut self.chance, self.rig.now_ms);
        self.sent += 1;
        let strict = strict_every > 0 && self.sent.is_multiple_of(strict_every);
        let due = !strict && self.sent.is_multiple_of(2);
        let due_at_ms = due.then(|| now_ms + 1 + chance.below(400) as u64);
        let guest = Guest { class: chance.below(3), strict, due_at_ms };
        let mut request = request(100 + chance.below(1_901) as u64);
        request.strict_priority = u32::from(strict);
        request.admission.policy_class = Some(CLASSES[guest.class].into());
        request.admission.due_at_ms = due_at_ms;
        let (tokens, request) = (request.prompt_tokens, Arc::new(request));
        let partition = self.rig.partition();
        let (settings, bell) = (self.rig.router.settings(), self.bell());
        let (profile, now_ms) = (&self.rig.profile, now_ms);
        let site =
            Site { partition: &partition, settings: &settings, profile, now_ms, bell: &bell };
        let found = self.scout.find(&site, &request, !self.line.is_empty());
        let settled = self.line.is_empty() || partition.ledger().relief().is_awaited();
        let ticket = || guest;
        let arrival = self.line.arrive(&site, &mut self.scout, &request, &found, settled, ticket);
        match arrival.unwrap() {
            Arrival::Waits(_) => self.strict_waiting += u64::from(strict),
            Arrival::Passes => self.decide(&request, guest),
        }
        tokens
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.rig.bell.clone()
    }

    fn decide(&mut self, request: &RouteRequest, guest: Guest) {
        let moment = Moment { now_ms: self.rig.now_ms, seed: self.chance.bits() };
        assert!(guest.due_at_ms.is_none_or(|due| due > moment.now_ms), "it has outlived its time");
        let decision = self.rig.router.route(request, moment, Mode::Book).unwrap();
        let tokens = request.prompt_tokens;
        self.computes.push((1_000 * moment.now_ms + tokens, decision.lease.unwrap()));
        self.served.tokens[guest.class] += tokens;
        self.served.strict += u64::from(guest.strict);
    }

    /// Whatever has been computed is given back, and the line is looked at if it rang.
    fn look(&mut self) {
        let (now_us, rang) = (1_000 * self.rig.now_ms, self.rig.bell.rings());
        self.computes.retain(|(until, _)| *until > now_us);
        let due = self.rig.now_ms.is_multiple_of(10);
        if rang == self.rig.bell.rings() && !due {
            return;
        }
        let partition = self.rig.partition();
        loop {
            let (settings, bell) = (self.rig.router.settings(), self.bell());
            let (profile, now_ms) = (&self.rig.profile, self.rig.now_ms);
            let site =
                Site { partition: &partition, settings: &settings, profile, now_ms, bell: &bell };
            match self.line.next(&site, &mut self.scout) {
                None => return,
                Some(Next::Late(_, guest)) => {
                    let due = guest.due_at_ms.unwrap();
                    assert!(due <= now_ms && due + 10 > now_ms, "told at the next look");
                    self.served.late += 1;
                }
                Some(Next::Decide(request, guest, _)) => {
                    if guest.strict {
                        self.strict_waiting -= 1;
                    }
                    assert!(guest.strict || self.strict_waiting == 0, "it waits behind lower");
                    self.decide(&request, guest);
                }
            }
        }
    }
}

/// Three seconds of it.
fn overload(seed: u64, strict_every: usize) -> Served {
    let classes = CLASSES.iter().zip(QUANTA).map(|(name, quantum)| queueing(name, quantum));
    let mut traffic = Traffic {
        rig: Rig::new(of(classes.collect()), 1..=WORKERS),
        line: Line::default(),
        scout: Scout::default(),
        chance: Chance::new(seed),
        served: Served::default(),
        computes: Vec::new(),
        strict_waiting: 0,
        sent: 0,
    };
    let mut arrived = 0;
    for now_ms in 0..3_000 {
        traffic.rig.now_ms = now_ms;
        traffic.look();
        while arrived < 3 * WORKERS * 1_000 * now_ms {
            arrived += traffic.comes(strict_every);
        }
    }
    assert!(traffic.rig.bell.rings() > 1_000);
    let Traffic { line, computes, rig, served, .. } = traffic;
    drop((line, computes));
    assert_eq!(rig.partition().ledger().live_leases(), 0);
    served
}

#[test]
fn at_three_times_the_capacity_each_class_gets_its_share_and_nobody_outlives_his_time() {
    for seed in 0..2 {
        let Served { tokens, late, .. } = overload(seed, 0);
        let all: u64 = tokens.iter().sum();
        assert!(late > 1_000, "{late} were late");
        for (class, quantum) in QUANTA.into_iter().enumerate() {
            let (share, due) = (tokens[class] as f64 / all as f64, quantum as f64 / 10_000.0);
            assert!((share / due - 1.0).abs() < 0.02, "{}: {share} of {due}", CLASSES[class]);
        }
    }
}

#[test]
fn at_three_times_the_capacity_strict_priority_never_waits_behind_lower() {
    for seed in 0..2 {
        let Served { strict, tokens, .. } = overload(seed, 10);
        assert!(strict > 1_000, "{strict} were served");
        assert!(tokens.iter().all(|tokens| *tokens > 0), "the others go on");
    }
}
