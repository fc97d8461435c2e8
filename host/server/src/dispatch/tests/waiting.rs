//! Requests that wait: until load falls, until they are due, or until they leave.

use futures_util::future::join_all;
use futures_util::poll;
use pointsman_core::admission::lane;
use pointsman_core::ledger::Lease;
use pointsman_core::queue::{Profile, QueuePolicy, QueueSettings};
use tokio::time::timeout;

use super::*;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// One worker is busy with more than 500 tokens.
fn queueing() -> Policies {
    let profile = Profile::of_threshold(Some(0.5), QueuePolicy::Fcfs);
    let queue = QueueSettings { default: profile.into(), ..QueueSettings::default() };
    Policies { queue: queue.into(), ..testing::builtin("default") }
}

fn worker(id: u64) -> WorkerSpec {
    let max_num_batched_tokens = Some(1_000);
    WorkerSpec { max_num_batched_tokens, ..WorkerSpec::new(WorkerId(id), "http://w", partition()) }
}

struct Line {
    dispatcher: Arc<Dispatcher>,
    gate: Arc<Gate>,
}

impl Line {
    fn new() -> Self {
        let router = Router::new(queueing(), 1);
        router.upsert_worker(worker(1)).unwrap();
        let clock = Arc::new(RouterClock::with_seed(1));
        let dispatcher = Arc::new(Dispatcher::new(Arc::new(router), clock));
        Self { gate: dispatcher.gate(&partition()), dispatcher }
    }

    fn request(&self, tokens: u64) -> RouteRequest {
        RouteRequest::new("r", partition(), tokens)
    }

    /// Somebody comes; what is left of him is which worker he got.
    fn comes(
        &self,
        request: RouteRequest,
    ) -> Pin<Box<dyn Future<Output = Result<WorkerId, String>> + Send>> {
        let dispatcher = self.dispatcher.clone();
        Box::pin(async move {
            let decided = dispatcher.decide(request.into(), Mode::Book).await;
            let worker = decided.map(|decision| decision.receipt.worker.worker_id);
            worker.map_err(|error| error.to_string())
        })
    }

    /// Keeps a worker busy.
    async fn busy(&self) -> Lease {
        let decision = self.dispatcher.decide(self.request(900).into(), Mode::Book).await;
        decision.unwrap().lease.unwrap()
    }

    fn waiting(&self) -> usize {
        self.gate.line.lock().len()
    }

    fn bookings(&self) -> u64 {
        self.dispatcher.router.partition(&partition()).unwrap().ledger().live_leases()
    }
}

/// Waits for what must come.
async fn comes_true(is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    soon(wait).await;
}

async fn soon<T>(comes: impl Future<Output = T>) -> T {
    timeout(PATIENCE, comes).await.unwrap()
}

#[tokio::test]
async fn a_request_waits_until_load_falls_and_all_are_served() {
    let line = Line::new();
    let busy = line.busy().await;
    // More than are served in one turn, on most machines.
    let mut all: Vec<_> = (0..500).map(|_| line.comes(line.request(1))).collect();
    for one in &mut all {
        assert!(poll!(one).is_pending());
        // Else the runtime finds that this task has done enough.
        tokio::task::yield_now().await;
    }
    assert_eq!(line.waiting(), 500);
    assert_eq!(line.dispatcher.attendants.lock().len(), 1);
    drop(busy);
    let served = soon(join_all(all)).await;
    assert!(served.iter().all(Result::is_ok), "{served:?}");
    assert_eq!((line.waiting(), line.bookings()), (0, 0));
    // Nobody waits, so nobody attends.
    comes_true(|| line.dispatcher.attendants.lock().try_join_next().is_some()).await;
    assert!(!line.gate.attended.load(Ordering::SeqCst));
}

#[tokio::test]
async fn higher_strict_priority_is_decided_first_and_each_sees_the_booking_before() {
    let line = Line::new();
    let mut busy = line.busy().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut all = Vec::new();
    for (name, strict_priority) in [("low", 0), ("high", 2), ("middle", 1)] {
        let (mut request, order) = (line.request(600), order.clone());
        request.strict_priority = strict_priority;
        let dispatcher = line.dispatcher.clone();
        let mut one = Box::pin(async move {
            let then = move |decision: Decision, _| {
                order.lock().push(name);
                decision
            };
            dispatcher.decide_then(request.into(), Mode::Book, then).await.unwrap().lease
        });
        assert!(poll!(&mut one).is_pending());
        all.push(one);
    }
    busy.prefill_done();
    let [low, high, middle] = &mut all[..] else { panic!("three") };
    let first = soon(&mut *high).await;
    // The worker is busy again.
    for one in [&mut *low, &mut *middle] {
        assert!(poll!(one).is_pending());
    }
    assert_eq!(*order.lock(), ["high"]);
    drop(first);
    drop(soon(middle).await);
    drop(soon(low).await);
    assert_eq!(*order.lock(), ["high", "middle", "low"]);
}

#[tokio::test]
async fn who_leaves_is_out_of_the_line_at_once_and_the_others_are_served() {
    let line = Line::new();
    let busy = line.busy().await;
    let mut first = line.comes(line.request(1));
    let mut second = line.comes(line.request(1));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    assert_eq!(line.waiting(), 2);
    drop(first);
    assert_eq!(line.waiting(), 1);
    drop(busy);
    assert_eq!(soon(second).await, Ok(WorkerId(1)));
    assert_eq!(line.bookings(), 0);
}

#[tokio::test]
async fn who_held_up_the_others_and_leaves_has_the_line_looked_at() {
    for due_at_ms in [None, Some(1)] {
        let line = Line::new();
        let _busy = line.busy().await;
        line.dispatcher.router.upsert_worker(worker(2)).unwrap();
        // He may only have the busy one; whoever comes behind him in his lane may have the other.
        let mut first = line.request(1);
        first.constraints.tried = [WorkerId(2)].into();
        let mut second = line.request(1);
        let his = lane(&first.constraints);
        for nobody in 1_000.. {
            second.constraints.allowed = Some([WorkerId(2), WorkerId(nobody)].into());
            if lane(&second.constraints) == his {
                break;
            }
        }
        first.admission.due_at_ms = due_at_ms.map(|ms| line.dispatcher.clock.now_ms() + 500 * ms);
        let mut first = line.comes(first);
        assert!(poll!(&mut first).is_pending());
        let mut second = line.comes(second);
        assert!(poll!(&mut second).is_pending());
        assert_eq!(line.waiting(), 2);
        if due_at_ms.is_none() {
            drop(first);
        } else {
            assert!(soon(first).await.is_err());
        }
        assert_eq!(soon(second).await, Ok(WorkerId(2)));
    }
}

#[tokio::test]
async fn who_does_not_look_after_his_own_request_holds_up_nobody() {
    let line = Line::new();
    let busy = line.busy().await;
    let mut first = line.comes(line.request(1));
    assert!(poll!(&mut first).is_pending());
    let mut second = line.comes(line.request(1));
    assert!(poll!(&mut second).is_pending());
    drop(busy);
    // The first one isn't polled meanwhile, and has been decided all the same.
    assert_eq!(soon(second).await, Ok(WorkerId(1)));
    assert_eq!(line.bookings(), 1);
    drop(first);
    assert_eq!(line.bookings(), 0);
}

#[tokio::test]
async fn no_request_outlives_its_due_time() {
    let line = Line::new();
    let _busy = line.busy().await;
    let mut waits = line.comes(line.request(1));
    assert!(poll!(&mut waits).is_pending());
    let mut due = line.request(1);
    due.admission.due_at_ms = Some(line.dispatcher.clock.now_ms() + 30);
    let error = soon(line.comes(due)).await.unwrap_err();
    assert!(error.contains("ms ago, and still waited"), "{error}");
    assert_eq!(line.waiting(), 1, "the other one waits on");
    let mut past = line.request(1);
    past.admission.due_at_ms = Some(0);
    assert!(soon(line.comes(past)).await.is_err());
}

#[tokio::test]
async fn classes_that_change_keep_who_waits_and_have_the_line_looked_at() {
    let line = Line::new();
    let busy = line.busy().await;
    let mut waits = line.comes(line.request(1));
    assert!(poll!(&mut waits).is_pending());
    // A higher threshold, above which the worker still is.
    let profile = Profile::of_threshold(Some(0.8), QueuePolicy::Wspt);
    let queue = QueueSettings { default: profile.into(), ..QueueSettings::default() };
    let policies = Policies { queue: queue.into(), ..queueing() };
    let installed = line.dispatcher.install(policies).await.unwrap();
    assert_eq!(installed.partitions, 0, "policies stay as they are");
    assert!(poll!(&mut waits).is_pending());
    assert_eq!(line.waiting(), 1);
    // No queueing any more.
    line.dispatcher.install(testing::builtin("default")).await.unwrap();
    assert_eq!(soon(waits).await, Ok(WorkerId(1)));
    drop(busy);
}

#[tokio::test]
async fn a_worker_that_comes_and_one_that_goes_have_the_line_looked_at() {
    let line = Line::new();
    let _busy = line.busy().await;
    let mut waits = line.comes(line.request(900));
    assert!(poll!(&mut waits).is_pending());
    line.dispatcher.upsert_worker(worker(2)).await.unwrap();
    assert_eq!(soon(waits).await, Ok(WorkerId(2)));
    let _busy = line.busy().await;
    let mut waits = line.comes(line.request(1));
    assert!(poll!(&mut waits).is_pending());
    for id in [1, 2] {
        line.dispatcher.router.remove_worker(WorkerId(id)).unwrap();
    }
    assert!(soon(waits).await.unwrap_err().contains("none is registered"));
}

#[tokio::test]
async fn a_dry_run_never_waits_and_who_does_not_want_to_is_told() {
    let line = Line::new();
    let _busy = line.busy().await;
    let dry = line.dispatcher.decide(line.request(1).into(), Mode::DryRun);
    assert!(soon(dry).await.is_ok());
    let mut unwilling = line.request(1);
    unwilling.admission.do_not_queue = true;
    let error = soon(line.comes(unwilling)).await.unwrap_err();
    assert!(error.contains("`do_not_queue` is set"), "{error}");
    assert_eq!(line.waiting(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_before_a_slow_policy_is_served_on_the_pool() {
    let line = Line::new();
    let busy = line.busy().await;
    let mut waits = JoinSet::new();
    for _ in 0..20 {
        line.gate.slowness.store(Gate::MOST, Ordering::Relaxed);
        waits.spawn(line.comes(line.request(1)));
    }
    comes_true(|| line.waiting() == 20).await;
    waits.shutdown().await;
    // One whose thread has not told it yet is taken out by that.
    comes_true(|| line.waiting() == 0).await;
    for _ in 0..20 {
        line.gate.slowness.store(Gate::MOST, Ordering::Relaxed);
        waits.spawn(line.comes(line.request(1)));
    }
    comes_true(|| line.waiting() == 20).await;
    drop(busy);
    assert!(soon(waits.join_all()).await.iter().all(Result::is_ok));
    assert_eq!((line.waiting(), line.bookings()), (0, 0));
}
