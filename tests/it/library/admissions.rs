//! Two builds of a classifier over the same sequences of requests, lives and fleets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use pointsman_core::classifier::{
    Arrival, Capacity, ClassifierEnvironment, ClassifierProvider, ClassifyRequest, LifecycleEvent,
    LiveRequest, RequestClassifier, Verdict,
};
use pointsman_core::clock::Chance;
use pointsman_core::ids::{DpRank, PartitionKey, Role, WorkerId, WorkerRank, WorkerTarget};
use pointsman_core::policy::Limits;
use pointsman_core::request::Session;
use pointsman_tests::library::Entry;

use super::TRIPLES;

/// Calls of the same instances.
const IN_A_ROW: u64 = 200;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stands {
    Held,
    Admitted,
    Sent,
}

struct Pair {
    both: [Box<dyn RequestClassifier>; 2],
    at: String,
    requests: BTreeMap<String, Stands>,
    releases: u64,
}

impl Pair {
    fn classify(&mut self, request: &ClassifyRequest<'_>) {
        let [native, component] = self.both.each_mut().map(|one| one.classify(request));
        assert_eq!(native, component, "{}: {request:?}", self.at);
        let stands = match native {
            Ok(Verdict::Hold) => Stands::Held,
            Ok(Verdict::Admit(_)) => Stands::Admitted,
            // One that is refused is aborted, too.
            _ => {
                let id = &request.arrival.request_id;
                return self.tell(&LifecycleEvent::Aborted(id, None), request.now_ms);
            }
        };
        self.requests.insert(request.arrival.request_id.to_string(), stands);
    }

    fn tell(&mut self, event: &LifecycleEvent<'_>, now_ms: u64) {
        let [native, component] = self.both.each_mut().map(|one| one.on_event(event, now_ms));
        assert_eq!(native, component, "{}: {event:?}", self.at);
        for release in native.unwrap_or_default() {
            let stands = self.requests.get_mut(&*release.request_id);
            let stands = stands.unwrap_or_else(|| panic!("{}: {release:?}", self.at));
            assert_eq!(*stands, Stands::Held, "{}: {release:?}", self.at);
            match release.verdict {
                Verdict::Hold => {}
                Verdict::Admit(_) => *stands = Stands::Admitted,
                Verdict::Reject(_) => drop(self.requests.remove(&*release.request_id)),
            }
            self.releases += 1;
        }
    }

    /// One of the requests that are there.
    fn some(&self, chance: &mut Chance) -> Option<(String, Stands)> {
        let all: Vec<_> = self.requests.iter().collect();
        let (id, stands) = all.get(chance.below(all.len().max(1)))?;
        Some(((*id).clone(), **stands))
    }
}

fn workers(chance: &mut Chance) -> Arc<[Capacity]> {
    let worker =
        |n: u64| WorkerRank { worker_id: WorkerId(n / 2), dp_rank: DpRank((n % 2) as u32) };
    let ranks = chance.below(6) as u64;
    let of = |n| Capacity {
        worker: worker(n),
        total_kv_blocks: [None, Some(40), Some(100), Some(1_000)][chance.below(4)],
    };
    (0..ranks).map(of).collect()
}

fn arrival(chance: &mut Chance, n: u64) -> Arrival {
    let tokens = [10, 300, 900, 2_000][chance.below(4)];
    let mut arrival = Arrival::new(format!("r{n}").into(), "default".into(), tokens);
    if chance.below(5) > 0 {
        arrival.session = Some(Session {
            id: format!("s{}", chance.below(9)).into(),
            parent_id: None,
            is_final: [None, Some(true)][usize::from(chance.below(8) == 0)],
            evict: None,
        });
    }
    if chance.below(10) == 0 {
        let dp_rank = [None, Some(DpRank(0))][chance.below(2)];
        arrival.pinned_worker =
            Some(WorkerTarget { worker_id: WorkerId(chance.below(4) as u64), dp_rank });
    }
    arrival
}

/// Asks both builds, and compares every answer.
pub(super) fn agree(
    entry: &Entry,
    native: Arc<dyn ClassifierProvider>,
    component: Arc<dyn ClassifierProvider>,
) -> Result<()> {
    let (mut calls, mut releases) = (0, 0);
    for case in 0..TRIPLES / IN_A_ROW {
        let mut chance = Chance::new(case);
        let parameters = entry.parameters[case as usize % entry.parameters.len()];
        let environment = ClassifierEnvironment {
            partition: PartitionKey {
                model: "m".into(),
                routing_group: "default".into(),
                role: Role::Aggregated,
            },
            block_size: 16,
            parameters: Arc::new(serde_json::from_str(parameters)?),
            settings: Arc::default(),
            policy_classes: ["default".into()].into(),
            workers: workers(&mut chance),
            // A busy machine may stop a thread for long; this is about what is answered.
            limits: Limits { deadline: Some(Duration::from_secs(30)), ..Limits::default() },
            seed: case,
            trial: false,
        };
        let both = [native.instantiate(&environment)?, component.instantiate(&environment)?];
        assert_eq!(both[0].declaration(), both[1].declaration(), "{}", entry.name);
        let at = format!("{} with {parameters}, case {case}", entry.name);
        let mut pair = Pair { both, at, requests: BTreeMap::new(), releases: 0 };
        let mut now_ms = 0;
        for n in 0..IN_A_ROW {
            now_ms += [0, 7, 400, 6_000][chance.below(4)];
            step(&mut pair, &mut chance, n, now_ms);
            calls += 1;
        }
        releases += pair.releases;
    }
    assert_eq!(calls, TRIPLES, "{}", entry.name);
    assert!(releases > 300, "{}: only {releases} were held and released", entry.name);
    Ok(())
}

fn step(pair: &mut Pair, chance: &mut Chance, n: u64, now_ms: u64) {
    let worker = WorkerRank { worker_id: WorkerId(chance.below(3) as u64), dp_rank: DpRank(0) };
    match chance.below(12) {
        0..5 => {
            let arrival = arrival(chance, n);
            let request = ClassifyRequest {
                arrival: &arrival,
                progress_tokens: 0,
                arrived_at_ms: now_ms,
                now_ms,
            };
            if n < 5 {
                let admitted = arrival.unchanged();
                let live = LiveRequest {
                    request,
                    admitted: &admitted,
                    worker: (chance.below(2) == 0).then_some(worker),
                    responding: false,
                };
                pair.requests.insert(arrival.request_id.to_string(), Stands::Sent);
                return pair.tell(&LifecycleEvent::Inherited(live), now_ms);
            }
            pair.classify(&request);
        }
        10 => pair.tell(&LifecycleEvent::Tick, now_ms),
        11 if chance.below(8) == 0 => {
            let workers = workers(chance);
            pair.tell(&LifecycleEvent::FleetChanged(&workers), now_ms);
        }
        _ => {
            let Some((id, stands)) = pair.some(chance) else { return };
            match stands {
                Stands::Held if chance.below(10) == 0 => {
                    pair.requests.insert(id.clone(), Stands::Admitted);
                    pair.tell(&LifecycleEvent::Admitted(&id), now_ms);
                }
                Stands::Held if chance.below(6) == 0 => {
                    pair.requests.remove(&id);
                    pair.tell(&LifecycleEvent::Aborted(&id, None), now_ms);
                }
                Stands::Held => {}
                Stands::Admitted => {
                    pair.requests.insert(id.clone(), Stands::Sent);
                    pair.tell(&LifecycleEvent::Sent(&id, worker), now_ms);
                }
                Stands::Sent if chance.below(4) == 0 => {
                    pair.tell(&LifecycleEvent::Responding(&id), now_ms);
                }
                Stands::Sent => {
                    pair.requests.remove(&id);
                    let tokens = [None, Some(600)][chance.below(2)];
                    let ended = match chance.below(5) {
                        0 => LifecycleEvent::Aborted(&id, Some(worker)),
                        _ => LifecycleEvent::Completed(&id, tokens),
                    };
                    pair.tell(&ended, now_ms);
                }
            }
        }
    }
}
