//! Sessions under requests, losses and endings in any order, beside a slow account of them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What happens next, to one of a few sessions or requests.
#[derive(Clone, Copy, Debug)]
enum Step {
    Enter {
        session: usize,
        last: bool,
    },
    /// The request's worker begins to answer.
    Starts {
        request: usize,
        worker: u64,
    },
    Loses {
        request: usize,
    },
    Leaves {
        request: usize,
    },
    Gone {
        worker: u64,
    },
    Ends {
        session: usize,
    },
    Passes {
        millis: u64,
    },
}

const SESSIONS: [&str; 3] = ["a", "b", "c"];

fn step() -> impl Strategy<Value = Step> {
    let (session, request, worker) = (0..SESSIONS.len(), 0..6_usize, 0..3_u64);
    prop_oneof![
        4 => (session.clone(), prop::bool::weighted(0.1))
            .prop_map(|(session, last)| Step::Enter { session, last }),
        4 => (request.clone(), worker.clone())
            .prop_map(|(request, worker)| Step::Starts { request, worker }),
        1 => request.clone().prop_map(|request| Step::Loses { request }),
        4 => request.prop_map(|request| Step::Leaves { request }),
        1 => worker.prop_map(|worker| Step::Gone { worker }),
        1 => session.prop_map(|session| Step::Ends { session }),
        2 => (0..TTL).prop_map(|millis| Step::Passes { millis }),
    ]
}

/// A request that has been let in.
struct Running {
    session: usize,
    lease: SessionLease,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn one_request_leads_at_a_time_nobody_waits_for_nobody_and_nothing_stays(
        steps in prop::collection::vec(step(), 0..120),
        soft: bool,
    ) {
        let mode = if soft { AffinityMode::Soft } else { AffinityMode::Hard };
        let door = Door { affinity: Arc::new(Affinity::of(2)), ..Door::new(mode) };
        let mut running: Vec<Running> = Vec::new();
        let mut waiting: Vec<(usize, Waiting, Arc<Bell>)> = Vec::new();
        let mut epochs: BTreeMap<u64, u64> = BTreeMap::new();
        let mut now_ms = 0;
        for step in steps {
            let life = |epochs: &BTreeMap<u64, u64>, worker| Bound {
                epoch: Epoch(epochs.get(&worker).copied().unwrap_or_default()),
                ..bound(worker)
            };
            match step {
                Step::Enter { session: which, last } => {
                    let last = Some(last);
                    let asked = Session { is_final: last, ..session(SESSIONS[which]) };
                    let stands = |to: &Bound| life(&epochs, to.worker.worker_id.0) == *to;
                    let entry = door.affinity.enter(&door.ask(&asked, None, now_ms), stands);
                    match entry.expect("there is no pin") {
                        Entry::Held(lease) => {
                            if let Some(target) = lease.target() {
                                prop_assert!(stands(&target), "{target:?} is gone");
                            }
                            running.push(Running { session: which, lease });
                        }
                        Entry::Wait(mut entry) => {
                            let bell = Arc::<Bell>::default();
                            prop_assert!(poll(&mut entry, &bell).is_pending());
                            waiting.push((which, entry, bell));
                        }
                        Entry::Unbound => prop_assert!(door.affinity.len() == 2),
                    }
                }
                Step::Starts { request, worker } => {
                    if let Some(one) = running.get_mut(request) {
                        one.lease.started(life(&epochs, worker));
                    }
                }
                Step::Loses { request } => {
                    if let Some(one) = running.get_mut(request) {
                        let _ = one.lease.lost();
                    }
                }
                Step::Leaves { request } => {
                    if request < running.len() {
                        drop(running.swap_remove(request));
                    }
                }
                Step::Gone { worker } => *epochs.entry(worker).or_default() += 1,
                Step::Ends { session } => drop(door.affinity.end(SESSIONS[session])),
                Step::Passes { millis } => {
                    now_ms += millis;
                    door.expire(now_ms);
                }
            }
            prop_assert!(door.affinity.len() <= 2);
            // Whoever was woken goes on; whoever was not waits for somebody who runs.
            waiting.retain_mut(|(_, one, bell)| bell.rung() == 0 || poll(one, bell).is_pending());
            for (which, one, bell) in &mut waiting {
                prop_assert!(poll(one, bell).is_pending(), "a waiter was forgotten");
                prop_assert!(running.iter().any(|other| other.session == *which));
            }
            let (all, _) = door.affinity.list(0, 9, now_ms);
            for shown in &all {
                let of = running.iter().filter(|one| *SESSIONS[one.session] == **shown.key.id());
                prop_assert!(shown.active_requests as usize <= of.count());
            }
        }
        drop(running);
        for (_, mut one, bell) in waiting {
            prop_assert!(poll(&mut one, &bell).is_ready());
        }
        door.expire(now_ms);
        door.expire(now_ms + TTL);
        prop_assert!(door.affinity.is_empty());
        prop_assert_eq!(door.affinity.table.lock().places(), 0);
    }
}
