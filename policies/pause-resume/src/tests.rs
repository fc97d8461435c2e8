//! That the counts hold, whatever comes, and that the table stays bounded.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::collections::BTreeMap;

use pointsman_sdk::classifier::prelude::*;
use pointsman_sdk::classifier::testing::{self, Door};

use crate::program::Waiting;
use crate::programs::Programs;
use crate::{PauseResume, Settings};

fn capacities(ranks: u64, blocks: u64) -> Vec<Capacity> {
    let worker = |id| Worker { id, dp_rank: 0 };
    (0..ranks).map(|id| Capacity { worker: worker(id), total_kv_blocks: Some(blocks) }).collect()
}

/// What each worker has in use, counted anew.
fn counted(programs: &Programs) -> BTreeMap<Worker, u64> {
    let mut used = BTreeMap::new();
    for (_, program) in programs.all() {
        if let Some(worker) = program.worker {
            *used.entry(worker).or_default() += program.charge(programs.settings());
        }
    }
    used
}

#[test]
fn counts_hold_whatever_comes() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let settings = Settings {
            acting_token_weight: 0.5,
            resume_timeout_seconds: 20,
            ..Settings::default()
        };
        let mut programs = Programs::new(settings, 16, 1);
        programs.set_capacities(&capacities(3, 100));
        let (mut live, mut now_ms): (Vec<String>, u64) = (Vec::new(), 0);
        for step in 0..400 {
            now_ms += random.below(3_000) as u64;
            match random.below(8) {
                0..3 => {
                    let request = Waiting {
                        request: format!("r{step}"),
                        tokens: 100 + random.below(900) as u64,
                        pin: None,
                        is_final: random.chance(0.1),
                    };
                    let id = format!("p{}", random.below(9));
                    live.push(request.request.clone());
                    let number = programs.wait(&id, request, now_ms);
                    programs.admit_head(number, now_ms);
                }
                3..6 if !live.is_empty() => {
                    let request = live.swap_remove(random.below(live.len()));
                    programs.ended(&request, Some(random.below(1_200) as u64), now_ms);
                }
                6 => programs.set_capacities(&capacities(1 + random.below(3) as u64, 100)),
                _ => drop(programs.reconcile(now_ms)),
            }
            for (worker, used) in counted(&programs) {
                assert_eq!(programs.used(worker), used, "{seed} {step} {worker:?}");
            }
            let paused = programs.all().filter(|(_, program)| program.paused_ms.is_some()).count();
            assert_eq!(programs.paused().len(), paused, "{seed} {step}");
        }
    }
}

#[test]
fn every_request_is_admitted_in_the_end() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let settings = Settings { resume_timeout_seconds: 30, ..Settings::default() };
        let mut programs = Programs::new(settings, 16, 1).with_capacities(&capacities(2, 60));
        let (mut running, mut now_ms, mut came, mut admitted) = (Vec::new(), 0, 0, 0);
        for step in 0..2_000 {
            now_ms += 1_000;
            let mut on = Vec::new();
            if step < 300 {
                let id = format!("p{}", random.below(12));
                let request = Waiting {
                    request: format!("r{step}"),
                    tokens: 300,
                    pin: None,
                    is_final: false,
                };
                let number = programs.wait(&id, request, now_ms);
                on.extend(programs.admit_head(number, now_ms));
                came += 1;
            }
            if !running.is_empty() && random.chance(0.7) {
                let request: String = running.swap_remove(random.below(running.len()));
                on.extend(programs.ended(&request, Some(400), now_ms));
            }
            if step % 5 == 0 {
                on.extend(programs.reconcile(now_ms));
            }
            admitted += on.len();
            running.extend(on.into_iter().map(|it| it.request));
        }
        assert_eq!((came, admitted), (300, 300), "seed {seed}");
    }
}

#[test]
fn more_programs_than_may_be_known_push_the_oldest_idle_one_out_or_are_refused() {
    let mut door = Door::of::<PauseResume>(r#"{"max_tracked_requests": 2}"#).unwrap();
    assert!(door.arrive_of("a1", "a").unwrap().is_admitted());
    door.complete("a1").unwrap();
    assert!(door.arrive_of("b1", "b").unwrap().is_admitted());
    assert!(door.arrive_of("c1", "c").unwrap().is_admitted(), "a is idle, and forgotten");
    let refused = door.arrive_of("d1", "d").unwrap();
    assert_eq!(refused, Verdict::Reject("2 requests of programs are known already".to_owned()));
    let again = door.arrive("b1", |request| request.session = testing::session("b"));
    assert!(again.unwrap_err().to_string().contains("there already"));
}
