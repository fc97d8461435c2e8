//! Opening and reloading with made-up components: what is taken up, what is refused, what serves.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

mod parameters;
mod starts;
mod versions;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pointsman_core::ids::Role;
use pointsman_core::partition::Mode;
use pointsman_core::policy::selection::{Recipe, TypeUse};
use pointsman_core::policy::{
    Cause, Digest, InstanceSpec, InstantiateError, Limits, OnFailure, PolicyProvider,
    SelectionSpec, StageError,
};
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use pointsman_core::testing::{MadePolicy, native, picker};
use serde_json::json;

use super::*;
use crate::clock::RouterClock;
use crate::discovery::KeeperConfig;
use crate::policies::{Found, LookError, Makes, OpenError, WasmFolder};
use crate::serve::testing::{self, partition};

/// How a made-up component behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    Good,
    RefusesParameters,
    TrapsInConfigure,
    LoopsInPick,
    RefusesToPick,
}

/// A made-up component of this type and digest.
fn fake(policy_type: &str, digest: &Digest, manner: Manner) -> MadePolicy {
    let name = policy_type.to_owned();
    let made = MadePolicy::new(policy_type, move |environment| {
        let policy_type = name.clone();
        match manner {
            Manner::RefusesParameters if !environment.parameters.contains_key("needed") => {
                Err(InstantiateError::Refused { policy_type, reason: "needed is missing".into() })
            }
            Manner::TrapsInConfigure => Err(InstantiateError::Failed {
                policy_type,
                call: "configure",
                cause: Cause::Trap,
                detail: "unreachable".into(),
            }),
            manner => {
                let pick = move || match manner {
                    Manner::LoopsInPick => {
                        Err(StageError::new(Cause::Fuel, "5000000 units were not enough"))
                    }
                    Manner::RefusesToPick => Err(StageError::refused("not \"today\"")),
                    _ => Ok(0),
                };
                Ok(Box::new(native().picker("first", picker(&[], move |_, _, _| pick()))))
            }
        }
    });
    made.with_digest(digest.clone())
}

/// A folder that a test writes.
#[derive(Debug, Default)]
struct Shelf {
    found: Mutex<Vec<Found>>,
    /// What is put there next says this of its parameters.
    schema: Mutex<Option<Arc<crate::policies::ParametersSchema>>>,
    /// Whether something is being compiled; asked so many times.
    busy: AtomicBool,
    asked: AtomicUsize,
}

impl Shelf {
    fn put(&self, policy_type: &'static str, digest: &str, manner: Manner) {
        let digest = Digest(digest.into());
        let provider = Arc::new(fake(policy_type, &digest, manner));
        self.place(policy_type, Some(digest), Ok(provider));
    }

    fn put_rubbish(&self, policy_type: &'static str) {
        self.place(policy_type, Some(Digest("rubbish".into())), Err("it is not wasm".to_owned()));
    }

    fn place(
        &self,
        policy_type: &str,
        digest: Option<Digest>,
        provider: Result<Arc<dyn PolicyProvider>, String>,
    ) {
        self.remove(policy_type);
        let found = Found {
            policy_type: policy_type.into(),
            digest,
            size: Some(1),
            contract: Some("0.1.0".to_owned()),
            imports: vec![],
            schema: self.schema.lock().clone(),
            provider: provider.map(|policy| Makes { policy: Some(policy), classifier: None }),
        };
        self.found.lock().push(found);
    }

    fn remove(&self, policy_type: &str) {
        self.found.lock().retain(|found| &*found.policy_type != policy_type);
    }
}

impl Components for Shelf {
    fn look(&self) -> Result<Vec<Found>, LookError> {
        Ok(self.found.lock().clone())
    }

    fn is_busy(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.busy.load(Ordering::Relaxed)
    }

    fn watch(&self, _wake: Box<dyn Fn() + Send + Sync>) -> Option<Box<dyn Send + Sync>> {
        None
    }

    fn counts(&self) -> std::collections::BTreeMap<String, u64> {
        [("looks".to_owned(), 1)].into()
    }
}

fn config(policy_type: &str, parameters: serde_json::Value) -> Config {
    let instance = InstanceSpec::new(
        "it",
        Recipe::Whole(TypeUse {
            policy_type: policy_type.into(),
            parameters: Arc::new(parameters.as_object().cloned().unwrap_or_default()),
            limits: Limits::default(),
        }),
        OnFailure::Default,
    );
    // Its clock doesn't look: reloads come from the test alone.
    let mut config = testing::config(&["http://127.0.0.1:9"]);
    config.selection = SelectionSpec {
        roles: [(Role::Aggregated, "it".into())].into(),
        instances: vec![instance],
    };
    config
}

struct Fixture {
    shelf: Arc<Shelf>,
    keeper: PolicyKeeper,
}

impl Fixture {
    async fn new(shelf: Shelf, config: Config) -> Self {
        let shelf = Arc::new(shelf);
        let opened = Opened::open(&config, shelf.clone()).unwrap();
        let router = Arc::new(Router::new(opened.policies(), 1));
        let dispatcher = Arc::new(Dispatcher::new(router, Arc::new(RouterClock::with_seed(1))));
        let workers = Arc::new(WorkerKeeper::new(dispatcher.clone(), KeeperConfig::from(&config)));
        workers.register_file(&config.workers).await.unwrap();
        let metrics = Arc::default();
        let shared = SharedCache::new(dispatcher.clone(), metrics, &config.shared_cache).into();
        let config = Arc::new(config);
        let keeper = PolicyKeeper::start(opened, dispatcher, workers, shared, config, None);
        Self { shelf, keeper }
    }

    async fn decide(&self) -> Receipt {
        let request = RouteRequest::new("r", partition(), 10);
        let dispatcher = &self.keeper.inner.dispatcher;
        dispatcher.decide(Arc::new(request), Mode::Book).await.unwrap().receipt
    }

    async fn digest(&self) -> Option<String> {
        self.decide().await.policy.digest.map(|digest| digest.to_string())
    }

    async fn reload(&self) -> ReloadReport {
        self.keeper.reload().await.unwrap()
    }

    fn error(&self, policy_type: &str) -> Option<String> {
        let status = self.keeper.status();
        let found = status.types.into_iter().find(|one| &*one.policy_type == policy_type);
        found.unwrap().error
    }
}

fn shelf(policy_type: &'static str, digest: &str, manner: Manner) -> Shelf {
    let shelf = Shelf::default();
    shelf.put(policy_type, digest, manner);
    shelf
}

#[tokio::test]
async fn counts_say_since_when_they_are() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    let since =
        |fixture: &Fixture| fixture.keeper.status().instances[0].partitions[0].since_unix_ms;
    let first = since(&fixture);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = now.as_millis() as u64;
    assert!(first <= now && now - first < 3_600_000, "{first} at {now}");
    fixture.shelf.put("a", "2", Manner::Good);
    fixture.reload().await;
    assert_eq!(since(&fixture), first, "a reload doesn't set them back");
}

#[tokio::test]
async fn a_new_configuration_and_a_new_component_that_need_each_other_come_together() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    // The component alone is refused under the old configuration.
    fixture.shelf.put("a", "2", Manner::RefusesParameters);
    assert!(fixture.reload().await.is_refusal());
    let changed = config("a", json!({ "needed": 1 }));
    let pending = crate::policies::state::Pending {
        wish: crate::policies::configuration::Wish::from(&changed),
        needs_restart: vec![],
    };
    fixture.keeper.inner.state.lock().pending = Some(pending);
    let report = fixture.reload().await;
    assert!(report.configuration_changed && !report.is_refusal(), "{report:?}");
    assert_eq!(fixture.digest().await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_configuration_that_names_a_missing_type_waits_for_it() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    let pending = crate::policies::state::Pending {
        wish: crate::policies::configuration::Wish::from(&config("b", json!({}))),
        needs_restart: vec![],
    };
    fixture.keeper.inner.state.lock().pending = Some(pending);
    // A good version of another type isn't held back by it.
    fixture.shelf.put("a", "2", Manner::Good);
    let report = fixture.reload().await;
    assert!(report.refused[0].reason.contains("unknown policy type \"b\""), "{report:?}");
    assert_eq!(fixture.digest().await.as_deref(), Some("2"));
    assert!(fixture.keeper.status().configuration_error.is_some());
    fixture.shelf.put("b", "9", Manner::Good);
    let report = fixture.keeper.inner.reload(false).await;
    assert!(report.configuration_changed, "{report:?}");
    assert_eq!(fixture.digest().await.as_deref(), Some("9"));
    assert!(fixture.keeper.status().configuration_error.is_none());
}

#[tokio::test]
async fn every_task_ends_with_the_keeper() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    let inner = Arc::downgrade(&fixture.keeper.inner);
    let tasks = fixture.keeper.inner.tasks.clone();
    drop(fixture);
    tasks.close();
    assert!(tokio::time::timeout(Duration::from_secs(5), tasks.wait()).await.is_ok());
    assert!(inner.upgrade().is_none());
}

#[tokio::test]
async fn a_policy_that_refuses_every_made_up_request_serves_and_is_warned_of() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    let warning = || fixture.keeper.status().instances[0].warning.clone();
    assert_eq!(warning(), None);
    fixture.shelf.put("a", "2", Manner::RefusesToPick);
    let report = fixture.reload().await;
    assert!(!report.is_refusal() && report.replaced.len() == 1, "{report:?}");
    let [told] = report.warnings.as_slice() else { panic!("{report:?}") };
    assert_eq!(&*told.instance, "it");
    assert_eq!(
        told.reason,
        "instance \"it\" for m/default/aggregated: in all 6 made-up decisions picker \"first\" \
         refuses: not \"today\"; look whether it is meant to, for made-up workers have neither \
         load nor taints nor labels"
    );
    assert_eq!(warning().as_ref(), Some(&told.reason));
    fixture.shelf.put("a", "3", Manner::Good);
    assert_eq!(fixture.reload().await.warnings, []);
    assert_eq!(warning(), None);
}

#[tokio::test]
async fn a_reload_waits_for_what_is_being_compiled_and_the_clocks_does_not() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    fixture.shelf.busy.store(true, Ordering::Relaxed);
    let waiting = async {
        let report = fixture.reload().await;
        assert_eq!(report.replaced.len(), 1, "{report:?}");
    };
    let compiling = async {
        while fixture.shelf.asked.load(Ordering::Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
        // Meanwhile another reload isn't held up.
        assert!(fixture.keeper.inner.reload(false).await.is_idle());
        fixture.shelf.put("a", "2", Manner::Good);
        fixture.shelf.busy.store(false, Ordering::Relaxed);
    };
    tokio::join!(waiting, compiling);
    assert_eq!(fixture.digest().await.as_deref(), Some("2"));
}

#[tokio::test]
async fn the_end_waits_for_no_compilation() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    fixture.shelf.busy.store(true, Ordering::Relaxed);
    let end = async {
        while fixture.shelf.asked.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        fixture.keeper.stop().await;
    };
    let (report, ()) = tokio::join!(fixture.keeper.reload(), end);
    assert_eq!(report, None);
}
