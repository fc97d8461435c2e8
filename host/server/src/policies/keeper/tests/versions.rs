//! Versions of components: which one serves when another one comes, is wrong, or goes.

use super::*;

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
