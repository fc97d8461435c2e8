//! The start: with what the router starts, and what stands in for what is broken.

use super::*;

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

/// The reasons of partitions that refuse every request.
fn undecided(fixture: &Fixture) -> Vec<String> {
    fixture.keeper.undecided().into_iter().map(|one| one.reason).collect()
}

#[tokio::test]
async fn a_partition_is_known_to_refuse_everything_while_nobody_may_stand_in() {
    let strict = |on_failure| {
        let mut config = config("a", json!({}));
        config.selection.instances[0].on_failure = on_failure;
        config
    };
    let rubbish = || {
        let shelf = Shelf::default();
        shelf.put_rubbish("a");
        shelf
    };
    let fixture = Fixture::new(rubbish(), strict(OnFailure::Default)).await;
    assert_eq!(undecided(&fixture), [""; 0], "the built-in stands in");
    let fixture = Fixture::new(rubbish(), strict(OnFailure::Reject)).await;
    let [reason] = &undecided(&fixture)[..] else { panic!("{:?}", undecided(&fixture)) };
    assert!(reason.contains("no good version of its policy type \"a\""), "{reason}");
    let router = fixture.keeper.inner.dispatcher.router().clone();
    router.disable("it").unwrap();
    assert_eq!(undecided(&fixture), [""; 0], "who is turned off isn't asked");
    router.enable("it").unwrap();
    // One that says no to everything, until its breaker opens.
    fixture.shelf.put("a", "1", Manner::RefusesToPick);
    fixture.reload().await;
    assert_eq!(undecided(&fixture), [""; 0]);
    let dispatcher = fixture.keeper.inner.dispatcher.clone();
    for _ in 0..5 {
        let request = RouteRequest::new("r", partition(), 10);
        assert!(dispatcher.decide(Arc::new(request), Mode::Book).await.is_err());
    }
    let standing = &fixture.keeper.status().instances[0].partitions[0].instances[0];
    assert_eq!(standing.last_error.as_deref(), Some("refused: not \"today\""));
    let reasons = undecided(&fixture);
    // Unless its wait is over already: then it is to be tried.
    if let Some(reason) = reasons.first() {
        assert!(reason.contains("it failed 5 times in a row"), "{reason}");
        assert!(!reason.contains("today"), "its own words are for the operator: {reason}");
    }
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
    let OpenError::Refused { mistakes, .. } = both else { panic!("{both}") };
    assert_eq!(mistakes.len(), 2, "all at once: {mistakes:?}");
}

#[test]
fn a_missing_folder_is_an_error_at_the_start() {
    let wasm = crate::config::WasmConfig::default();
    let opened = WasmFolder::open("/nowhere/at/all".as_ref(), &wasm);
    assert!(opened.is_err() || opened.is_ok_and(|folder| folder.look().is_err()));
}
