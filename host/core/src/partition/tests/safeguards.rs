//! Promises of what keeps a policy from doing harm: breakers, bypasses, shared budgets, switches.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::policy::breaker::BreakerState;
use crate::policy::{Declaration, OnAllFiltered, PolicyInstance, RowMask, Safeguards};
use crate::router::SwitchError;

fn guarded(policies: Policies, guard: impl FnOnce(&mut Safeguards)) -> Policies {
    let mut policies = policies;
    for instance in &mut policies.selection.instances {
        instance.safeguards = Safeguards::default();
    }
    if let Some(instance) = policies.selection.instances.first_mut() {
        guard(&mut instance.safeguards);
    }
    policies
}

fn at(router: &Router, now_ms: u64) -> Result<Receipt, RouteError> {
    let moment = Moment { now_ms, seed: now_ms };
    router.route(&request(10), moment, Mode::Book).map(|decision| decision.receipt)
}

/// A scorer that says no while `broken` says so, and counts how often it was asked.
fn sulking(broken: &Arc<AtomicBool>, asked: &Arc<AtomicU64>) -> NativePolicy {
    let (broken, asked) = (broken.clone(), asked.clone());
    native().scorer(
        "s",
        scorer(&[], move |_, _, costs| {
            asked.fetch_add(1, Ordering::Relaxed);
            costs.fill(7.0);
            match broken.load(Ordering::Relaxed) {
                true => Err(StageError::refused("not today")),
                false => Ok(()),
            }
        }),
    )
}

#[test]
fn a_policy_that_fails_every_time_is_asked_ever_less_and_decides_again_once_it_can() {
    let (broken, asked) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let made = {
        let (broken, asked) = (broken.clone(), Arc::clone(&asked));
        policies(OnFailure::Default, move || sulking(&broken, &asked))
    };
    let router = router(guarded(made, |_| {}), [worker(1)]);
    // A decision a millisecond for ten seconds: five failures open it for 100 ms, and so on.
    let causes: Vec<Cause> = (0..10_000)
        .map(|now| {
            at(&router, now).expect("the built-in decides").fallback.expect("it fails").cause
        })
        .collect();
    assert_eq!(
        causes.get(..6),
        Some(&[[Cause::Refused; 5].as_slice(), &[Cause::Unavailable]].concat()[..])
    );
    // 5 to open, and tries at 104, 304, 704, 1504, 3104, 6304.
    assert_eq!(asked.load(Ordering::Relaxed), 11);
    let standing = partition(&router).standing(9_999);
    assert_eq!(standing[0].breaker, BreakerState::Open);
    assert_eq!(standing[0].failures_in_a_row, 11);
    assert_eq!(partition(&router).counts().fallbacks, 10_000);

    broken.store(false, Ordering::Relaxed);
    let early = at(&router, 12_000).expect("it is routed");
    assert!(early.fallback.is_some(), "it isn't time yet");
    assert_eq!(partition(&router).standing(13_000)[0].breaker, BreakerState::HalfOpen);
    let receipt = at(&router, 13_000).expect("it is routed");
    assert_eq!((receipt.cost, receipt.fallback), (7.0, None));
    assert_eq!(partition(&router).standing(13_000)[0].breaker, BreakerState::Closed);
}

#[test]
fn a_policy_that_fails_now_and_then_is_always_asked() {
    let (broken, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let made = {
        let (broken, asked) = (broken.clone(), Arc::clone(&asked));
        policies(OnFailure::Default, move || sulking(&broken, &asked))
    };
    let router = router(guarded(made, |_| {}), [worker(1)]);
    for now in 0..1_000 {
        broken.store(now % 10 == 0, Ordering::Relaxed);
        let receipt = at(&router, now).expect("it is routed");
        assert_eq!(receipt.fallback.is_some(), now % 10 == 0);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1_000);
}

#[test]
fn while_a_breaker_is_open_its_owners_wish_holds() {
    for (on_failure, expected) in
        [(OnFailure::Reject, Err("worker_selection_policy")), (OnFailure::Skip, Ok(0.0))]
    {
        let asked = Arc::default();
        let made = {
            let asked = Arc::clone(&asked);
            policies(on_failure, move || sulking(&Arc::new(AtomicBool::new(true)), &asked))
        };
        let router = router(guarded(made, |_| {}), [worker(1)]);
        for now in 0..50 {
            let got = at(&router, now).map(|receipt| receipt.cost);
            assert_eq!(got.map_err(|error| error.kind()), expected, "{on_failure:?}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 5, "{on_failure:?}");
    }
}

/// Rejects every row of worker 2; then every row that is left.
fn strict() -> NativePolicy {
    let second = filter(&[Input::Identity], |_, rows, verdicts| {
        let ids = rows.identity().unwrap_or_default();
        (0..rows.rows())
            .filter(|&row| ids[row].worker_id.0 == 2)
            .for_each(|row| verdicts.reject(row));
        Ok(())
    });
    let everyone = filter(&[], |_, rows, verdicts| {
        (0..rows.rows()).for_each(|row| verdicts.reject(row));
        Ok(())
    });
    native().filter("second", second).filter("everyone", everyone)
}

#[test]
fn a_filter_that_rejects_every_row_is_left_out_if_its_owner_wants() {
    let workers = || [worker(1), worker(2), worker(3)];
    let strictly = router(guarded(policies(OnFailure::Default, strict), |_| {}), workers());
    let error = at(&strictly, 1).expect_err("all are filtered");
    assert_eq!(error.kind(), "all_eligible_workers_filtered");
    assert_eq!(partition(&strictly).counts().all_filtered, 1);

    let bypass = guarded(policies(OnFailure::Default, strict), |guards| {
        guards.on_all_filtered = OnAllFiltered::Bypass;
    });
    let kindly = router(bypass, workers());
    for now in 0..20 {
        let receipt = at(&kindly, now).expect("it is routed");
        assert_ne!(receipt.worker, rank(2, 0), "the other filter holds");
        assert_eq!((receipt.kept, &receipt.fallback), (2, &None));
        let bypassed: Vec<bool> = receipt.stages.iter().map(|stage| stage.bypassed).collect();
        assert_eq!(bypassed, [false, true]);
    }
    let counts = partition(&kindly).counts();
    assert_eq!((counts.all_filtered, counts.bypassed), (0, 20));
}

/// Stages that each burn what they are asked to, as far as they may.
#[derive(Debug)]
struct Burning {
    parts: NativePolicy,
    wants: u64,
    may: Option<u64>,
    burnt: u64,
}

impl Burning {
    fn burn(&mut self) -> Result<(), StageError> {
        let may = self.may.unwrap_or(u64::MAX);
        self.burnt = self.wants.min(may);
        match self.wants > may {
            true => Err(StageError::new(Cause::Fuel, "all of it")),
            false => Ok(()),
        }
    }
}

impl PolicyInstance for Burning {
    fn declaration(&self) -> &Declaration {
        self.parts.declaration()
    }

    fn keep(
        &mut self,
        filter: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        verdicts: &mut RowMask,
    ) -> Result<(), StageError> {
        self.burn()?;
        self.parts.keep(filter, request, rows, verdicts)
    }

    fn score(
        &mut self,
        scorer: usize,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), StageError> {
        self.burn()?;
        self.parts.score(scorer, request, rows, costs)
    }

    fn pick(
        &mut self,
        request: &RequestView<'_>,
        rows: &Candidates<'_>,
        costs: &[f64],
    ) -> Result<usize, StageError> {
        self.burn()?;
        self.parts.pick(request, rows, costs)
    }

    fn allow(&mut self, fuel: Option<u64>) {
        self.may = fuel;
    }

    fn last_fuel(&self) -> Option<u64> {
        Some(self.burnt)
    }
}

#[test]
fn the_stages_of_a_decision_share_its_fuel_afresh_each_time() {
    let burning = || Burning {
        parts: native()
            .filter("f", filter(&[], |_, _, _| Ok(())))
            .scorer(
                "s",
                scorer(&[], |_, _, costs| {
                    costs.fill(1.0);
                    Ok(())
                }),
            )
            .picker("p", picker(&[], |_, _, _| Ok(0))),
        wants: 100,
        may: None,
        burnt: 0,
    };
    for (decision_fuel, fails) in [
        (None, None),
        (Some(300), None),
        (Some(299), Some(("p", "fuel: all of it"))),
        (Some(200), Some(("p", "fuel: the stages before it used up the fuel of the decision"))),
        (Some(50), Some(("f", "fuel: all of it"))),
    ] {
        let made = guarded(policies(OnFailure::Default, burning), |guards| {
            guards.decision_fuel = decision_fuel;
            guards.breaker.failures = 0;
        });
        let router = router(made, [worker(1)]);
        for now in 0..3 {
            let receipt = at(&router, now).expect("it is routed");
            let failure = receipt.fallback.as_ref();
            let told = failure.map(|f| (f.stage.clone(), format!("{}: {}", f.cause, f.detail)));
            let expected = fails.map(|(stage, text)| (stage.to_owned(), text.to_owned()));
            assert_eq!(told, expected, "{decision_fuel:?}");
        }
    }
}

#[test]
fn an_instance_that_is_turned_off_is_not_asked_anywhere_until_it_is_turned_on() {
    let (broken, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let made = {
        let (broken, asked) = (broken.clone(), Arc::clone(&asked));
        // Its owner wants failures to be errors; being turned off is none.
        policies(OnFailure::Reject, move || sulking(&broken, &asked))
    };
    let router = router(made.clone(), [worker(1)]);
    assert_eq!(router.disable("mine"), Ok(1));
    // Others come later, or all begin anew: it stays off.
    router
        .upsert_worker(WorkerSpec { partition: crate::testing::group("b"), ..worker(2) })
        .expect("it is taken");
    let settings = Arc::new(RouterSettings { router_temperature: 0.5, ..Default::default() });
    router
        .install(router.prepare(Policies { settings, ..made.clone() }).expect("it is made"))
        .expect("it is installed");
    for group in ["b", "default"] {
        let request = RouteRequest::new("r", crate::testing::group(group), 10);
        let receipt = router.route(&request, moment(1), Mode::Book).expect("it is routed").receipt;
        assert_eq!(receipt.fallback.map(|failure| failure.cause), Some(Cause::Disabled), "{group}");
    }
    assert_eq!((asked.load(Ordering::Relaxed), router.disabled().len()), (0, 1));
    assert_eq!(router.enable("mine"), Ok(2));
    assert_eq!(at(&router, 1).map(|receipt| receipt.cost), Ok(7.0));

    assert_eq!(router.disable("default"), Err(SwitchError::BuiltIn));
    let unknown = router.disable("yours").map_err(|error| error.to_string());
    assert_eq!(unknown, Err("no instance is named \"yours\"; known: mine".to_owned()));
    // One that is gone from the policies takes its switch along.
    router.disable("mine").expect("it is there");
    for policies in [builtin("default"), made] {
        let mut policies = policies;
        if policies.catalog.get("made").is_none() {
            policies.selection.instances.clear();
            policies.selection.roles.clear();
        }
        router.install(router.prepare(policies).expect("it is made")).expect("it is installed");
    }
    assert_eq!(at(&router, 1).map(|receipt| receipt.cost), Ok(7.0));
}
