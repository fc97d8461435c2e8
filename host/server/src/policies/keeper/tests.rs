//! Opening and reloading with made-up components: what is taken up, what is refused, what serves.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pointsman_core::ids::Role;
use pointsman_core::partition::Mode;
use pointsman_core::policy::Safeguards;
use pointsman_core::policy::selection::Rollout;
use pointsman_core::policy::selection::{Recipe, TypeUse};
use pointsman_core::policy::{
    Cause, Digest, InstanceSpec, InstantiateError, Limits, OnFailure, PolicyProvider,
    SelectionSpec, StageError,
};
use pointsman_core::receipt::Receipt;
use pointsman_core::request::RouteRequest;
use pointsman_core::router::Router;
use pointsman_core::testing::{Made, native, picker};
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
fn fake(policy_type: &str, digest: &Digest, manner: Manner) -> Made {
    let name = policy_type.to_owned();
    let made = Made::new(policy_type, move |environment| {
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
    let instance = InstanceSpec {
        name: "it".into(),
        recipe: Recipe::Whole(TypeUse {
            policy_type: policy_type.into(),
            parameters: Arc::new(parameters.as_object().cloned().unwrap_or_default()),
            limits: Limits::default(),
        }),
        on_failure: OnFailure::Default,
        discard_state: false,
        safeguards: Safeguards::default(),
        rollout: Rollout::default(),
    };
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
async fn a_new_version_takes_over_and_is_reported() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    assert_eq!(fixture.digest().await.as_deref(), Some("1"));
    assert!(fixture.reload().await.is_idle());
    fixture.shelf.put("a", "2", Manner::Good);
    let report = fixture.reload().await;
    assert!(!report.is_refusal());
    assert_eq!((report.replaced.len(), report.partitions), (1, 1));
    assert_eq!(fixture.digest().await.as_deref(), Some("2"));
    assert_eq!(fixture.error("a"), None);
}

#[tokio::test]
async fn whatever_is_wrong_with_a_new_version_the_last_good_serves_on() {
    for (manner, reason) in [
        (Manner::RefusesParameters, "needed is missing"),
        (Manner::TrapsInConfigure, "failed in configure: trap"),
        (Manner::LoopsInPick, "fails on synthetic rows"),
    ] {
        let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
        fixture.shelf.put("a", "2", manner);
        let report = fixture.reload().await;
        assert!(report.is_refusal() && report.replaced.is_empty(), "{manner:?}: {report:?}");
        assert!(report.refused[0].reason.contains(reason), "{}", report.refused[0].reason);
        assert!(fixture.error("a").unwrap().contains(reason));
        let receipt = fixture.decide().await;
        assert_eq!(receipt.policy.digest, Some(Digest("1".into())));
        assert!(receipt.fallback.is_none());
        // The clock's look doesn't try it again, an operator's does.
        assert!(fixture.keeper.inner.reload(false).await.is_idle());
        assert!(fixture.reload().await.is_refusal());
        fixture.shelf.put("a", "3", Manner::Good);
        fixture.reload().await;
        assert_eq!(fixture.digest().await.as_deref(), Some("3"));
        assert_eq!(fixture.error("a"), None);
    }
}

#[tokio::test]
async fn a_bad_version_does_not_keep_a_good_one_of_another_type_back() {
    let mut config = config("a", json!({}));
    let mut second = config.selection.instances[0].clone();
    second.name = "other".into();
    second.recipe = Recipe::Whole(TypeUse {
        policy_type: "b".into(),
        parameters: Arc::default(),
        limits: Limits::default(),
    });
    config.selection.instances.push(second);
    let shelf = shelf("a", "a1", Manner::Good);
    shelf.put("b", "b1", Manner::Good);
    let fixture = Fixture::new(shelf, config).await;
    fixture.shelf.put("a", "a2", Manner::Good);
    fixture.shelf.put("b", "b2", Manner::TrapsInConfigure);
    let report = fixture.reload().await;
    assert_eq!((report.replaced.len(), report.refused.len()), (1, 1), "{report:?}");
    assert_eq!(fixture.digest().await.as_deref(), Some("a2"));
}

#[tokio::test]
async fn a_removed_file_changes_nothing_while_it_is_used() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    fixture.shelf.remove("a");
    fixture.reload().await;
    assert_eq!(fixture.digest().await.as_deref(), Some("1"));
    assert!(fixture.error("a").unwrap().contains("removed"));
    fixture.shelf.put("a", "1", Manner::Good);
    fixture.reload().await;
    assert_eq!(fixture.error("a"), None);
}

#[tokio::test]
async fn a_type_that_nothing_uses_comes_and_goes_without_a_switch() {
    let fixture = Fixture::new(shelf("a", "1", Manner::Good), config("a", json!({}))).await;
    fixture.shelf.put("b", "1", Manner::TrapsInConfigure);
    let report = fixture.reload().await;
    assert_eq!((report.replaced.len(), report.partitions), (1, 0));
    fixture.shelf.remove("b");
    let report = fixture.reload().await;
    assert_eq!((report.replaced.len(), report.partitions), (1, 0));
    assert!(fixture.keeper.status().types.iter().all(|one| &*one.policy_type != "b"));
}

#[tokio::test]
async fn a_component_that_is_broken_at_the_start_has_its_decisions_made_by_the_default() {
    for (manner, cause) in
        [(Manner::TrapsInConfigure, Cause::Trap), (Manner::LoopsInPick, Cause::Fuel)]
    {
        let fixture = Fixture::new(shelf("a", "1", manner), config("a", json!({}))).await;
        let receipt = fixture.decide().await;
        assert_eq!(receipt.fallback.unwrap().cause, cause);
        assert_eq!(&*receipt.policy.name, "default");
        assert!(fixture.error("a").is_some());
        fixture.shelf.put("a", "2", Manner::Good);
        fixture.reload().await;
        let receipt = fixture.decide().await;
        assert!(receipt.fallback.is_none());
        assert_eq!(receipt.policy.digest, Some(Digest("2".into())));
    }
}

#[tokio::test]
async fn rubbish_at_the_start_is_stood_in_for_until_it_is_a_component() {
    let shelf = Shelf::default();
    shelf.put_rubbish("a");
    let fixture = Fixture::new(shelf, config("a", json!({}))).await;
    assert_eq!(fixture.decide().await.fallback.unwrap().cause, Cause::Unavailable);
    fixture.shelf.put("a", "1", Manner::Good);
    fixture.reload().await;
    assert_eq!(fixture.digest().await.as_deref(), Some("1"));
}

#[test]
fn a_mistake_of_the_configuration_keeps_the_router_from_starting() {
    let open = |shelf: Shelf, config: Config| Opened::open(&config, Arc::new(shelf)).unwrap_err();
    let missing = open(Shelf::default(), config("a", json!({})));
    assert!(missing.to_string().contains("unknown policy type \"a\""), "{missing}");
    let refused = open(shelf("a", "1", Manner::RefusesParameters), config("a", json!({})));
    assert!(refused.to_string().contains("needed is missing"), "{refused}");
    let mut nobody = config("a", json!({}));
    nobody.selection.roles.insert(Role::Decode, "nobody".into());
    let both = open(shelf("a", "1", Manner::RefusesParameters), nobody);
    let OpenError::Refused(errors) = both else { panic!("{both}") };
    assert_eq!(errors.len(), 2, "all at once: {errors:?}");
}

#[test]
fn a_missing_folder_is_an_error_at_the_start() {
    let wasm = crate::config::WasmConfig::default();
    let opened = WasmFolder::open("/nowhere/at/all".as_ref(), &wasm);
    assert!(opened.is_err() || opened.is_ok_and(|folder| folder.look().is_err()));
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

mod parameters;
