//! Promises of classifiers in a router: where they serve, and when they change.

use super::*;

/// Policies with a classifier that holds everything, made of this digest.
fn holding(digest: &str) -> Policies {
    let make = || classifying(10, |_| Ok(Verdict::Hold), |_, _| Ok(Vec::new()));
    let made =
        MadeClassifier::new("holding", make).with_digest(crate::policy::Digest(digest.into()));
    let mut policies = crate::testing::builtin("round-robin");
    policies.catalog.insert_classifier(Arc::new(made)).expect("no built-in is named so");
    let spec = classifier_spec("holding", OnFailure::Default);
    Policies { classifier: Some(spec), ..policies }
}

#[test]
fn a_router_gives_each_partition_that_answers_a_classifier_of_its_own() {
    let prefill = PartitionKey { role: Role::Prefill, ..key(Role::Aggregated) };
    let of_prefill = crate::fleet::WorkerSpec { partition: prefill.clone(), ..worker(2) };
    let router = router(holding("1"), [worker(1), of_prefill]);
    let desk = |key: &PartitionKey| router.partition(key).expect("there is one").desk().clone();
    assert!(desk(&key(Role::Aggregated)).is_wanted());
    assert!(!desk(&prefill).is_wanted(), "its requests are classified where they are answered");
}

#[test]
fn an_installation_changes_classifiers_where_they_change() {
    let router = router(holding("1"), [worker(1)]);
    let desk = router.partition(&key(Role::Aggregated)).expect("there is one").desk().clone();
    let life = desk.begin();
    assert_eq!(desk.arrive(arrival("a"), &life, 1), Ok(Arrived::Held));
    let install = |policies| {
        let prepared = router.prepare(policies).expect("they are made");
        router.install(prepared).expect("they are installed")
    };
    let classified = || desk.counts().classified;
    install(holding("1"));
    desk.catch_up(2);
    assert_eq!(classified(), 1, "the same goes on");
    install(holding("2"));
    desk.catch_up(3);
    assert_eq!((classified(), desk.counts().held_now), (2, 1), "another one is asked again");
    install(crate::testing::builtin("round-robin"));
    desk.catch_up(4);
    assert_eq!(released(&desk), [(life.generation(), "default".to_owned())]);
    let unknown = classifier_spec("nobody", OnFailure::Default);
    let refused = router.prepare(Policies { classifier: Some(unknown), ..holding("1") });
    let words = "request_classifier: unknown type \"nobody\"; known: holding";
    assert_eq!(refused.expect_err("there is none").to_string(), words);
}

#[test]
fn a_component_is_tried_and_what_fails_on_made_up_requests_is_refused() {
    let tried = |digest: &str, answer: fn() -> Result<Verdict, StageError>| {
        let make = move || classifying(10, move |_| answer(), |_, _| Ok(Vec::new()));
        let made = MadeClassifier::new("tried", make);
        let made = if digest.is_empty() {
            made
        } else {
            made.with_digest(crate::policy::Digest(digest.into()))
        };
        let mut policies = crate::testing::builtin("round-robin");
        policies.catalog.insert_classifier(Arc::new(made)).expect("no built-in is named so");
        let spec = classifier_spec("tried", OnFailure::Default);
        let policies = Policies { classifier: Some(spec), ..policies };
        policies.try_classifier(&key(Role::Aggregated), 16).map_err(|error| error.to_string())
    };
    assert_eq!(tried("1", || Ok(admit())), Ok(()));
    assert_eq!(tried("1", || Err(StageError::refused("no"))), Ok(()), "that is an answer");
    let unknown = || {
        let policy_class = Some("nobody".into());
        Ok(Verdict::Admit(Admission { policy_class, ..Admission::default() }))
    };
    let words = "request_classifier: type \"tried\" fails on made-up requests, in classify: \
                 bad-output: gave the unknown class \"nobody\"; known: default";
    assert_eq!(tried("1", unknown), Err(words.to_owned()));
    assert_eq!(tried("", unknown), Ok(()), "what is linked in is trusted");
}

#[test]
fn a_partition_is_not_forgotten_while_requests_wait_at_its_desk() {
    let router = router(holding("1"), [worker(1)]);
    let partition = router.partition(&key(Role::Aggregated)).expect("there is one");
    let life = partition.desk().begin();
    assert_eq!(partition.desk().arrive(arrival("a"), &life, 1), Ok(Arrived::Held));
    router.remove_worker(WorkerId(1)).expect("it was there");
    assert!(router.forget_vacant(0).is_empty());
    assert!(router.forget_vacant(10_000_000).is_empty());
    drop(life);
    partition.desk().catch_up(2);
    assert_eq!(router.forget_vacant(20_000_000), [key(Role::Aggregated)]);
}
