//! Fleets that change while a decision is made.

use super::*;

#[test]
fn a_choice_whose_worker_leaves_meanwhile_is_made_again() {
    let itself: Arc<OnceLock<Arc<Router>>> = Arc::default();
    let policy = {
        let itself = itself.clone();
        move || {
            let itself = itself.clone();
            native().picker(
                "p",
                picker(&[Input::Identity], move |_, rows, _| {
                    // The lowest worker leaves while it is picked.
                    let id = rows.identity().unwrap_or_default()[0].worker_id;
                    if id < WorkerId(3) {
                        itself.get().expect("it is set").remove_worker(id).expect("it is there");
                    }
                    Ok(0)
                }),
            )
        }
    };
    let router =
        Arc::new(router(policies(OnFailure::Default, policy), [worker(1), worker(2), worker(3)]));
    itself.set(router.clone()).expect("it is set once");
    let decision = route(&router, &request(1), 1).expect("it is routed");
    assert_eq!(decision.receipt.worker, rank(3, 0));
    assert_eq!(load(&router), [1]);
    assert_eq!(partition(&router).counts().decisions, 1);
    drop(decision);
    assert_eq!(load(&router), [0]);
}

/// Picks the first row, notes what it saw, and lets worker 1 leave when it first hears of a fleet.
#[derive(Debug)]
struct Unsettling {
    router: Arc<OnceLock<Arc<Router>>>,
    saw: Arc<Mutex<Vec<Vec<f64>>>>,
}

impl WorkerPicker for Unsettling {
    fn inputs(&self) -> &[Input] {
        &[Input::ActiveRequests]
    }

    fn pick(
        &mut self,
        _: &RequestView<'_>,
        rows: &Candidates<'_>,
        _: &[f64],
    ) -> Result<usize, StageError> {
        let loads = rows.column(Input::ActiveRequests).unwrap_or_default();
        self.saw.lock().expect("not poisoned").push(loads.to_vec());
        Ok(0)
    }

    fn fleet_changed(&mut self, fleet: &Snapshot) {
        if fleet.rows.len() == 2 {
            let router = self.router.get().expect("it is set");
            router.remove_worker(WorkerId(1)).expect("it is there");
        }
    }
}

#[test]
fn a_policy_never_sees_the_load_of_another_fleet() {
    let itself: Arc<OnceLock<Arc<Router>>> = Arc::default();
    let saw: Arc<Mutex<Vec<Vec<f64>>>> = Arc::default();
    let policy = {
        let (itself, saw) = (itself.clone(), saw.clone());
        move || {
            let properties = Properties { follows_fleet: true, ..Properties::default() };
            let picker = Unsettling { router: itself.clone(), saw: saw.clone() };
            NativePolicy::new(properties).picker("p", picker)
        }
    };
    let router = Arc::new(router(policies(OnFailure::Default, policy), [worker(1), worker(2)]));
    itself.set(router.clone()).expect("it is set once");
    let ledger = partition(&router).ledger().clone();
    let _held = ledger.book(&ledger.snapshot(), 1, crate::ledger::Charge::default(), 0);
    let decision = route(&router, &request(1), 1).expect("it is routed");
    // The rows of the old fleet were never shown, and the load is the new fleet's.
    assert_eq!(*saw.lock().expect("not poisoned"), [[1.0]]);
    assert_eq!(decision.receipt.worker, rank(2, 0));
}

#[test]
fn a_fleet_that_never_stands_still_is_no_fleet() {
    let itself: Arc<OnceLock<Arc<Router>>> = Arc::default();
    let policy = {
        let itself = itself.clone();
        move || {
            let itself = itself.clone();
            native().picker(
                "p",
                picker(&[], move |_, _, _| {
                    let router = itself.get().expect("it is set");
                    // A new life under the old id, on which the old choice must not be booked.
                    let gone = router.remove_worker(WorkerId(1)).expect("it is there");
                    router.upsert_worker(WorkerSpec::clone(&gone.spec)).expect("it is taken");
                    Ok(0)
                }),
            )
        }
    };
    let router = Arc::new(router(policies(OnFailure::Default, policy), [worker(1)]));
    itself.set(router.clone()).expect("it is set once");
    let error = route(&router, &request(1), 1).map(|d| d.receipt).expect_err("it gives up");
    assert_eq!(error.kind(), "no_endpoints");
    assert_eq!((load(&router), partition(&router).ledger().live_leases()), (vec![0], 0));
}
