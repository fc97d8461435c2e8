//! Promises of profiles: which class a request belongs to, and which profiles are refused.

use super::*;

fn bucket(min_tokens: u64, name: &str) -> Bucket {
    Bucket { min_tokens, bucket: name.into() }
}

fn member(name: &str, family: &str, bucket: &str) -> ClassSpec {
    ClassSpec {
        policy_family: Some(family.into()),
        cache_bucket: Some(bucket.into()),
        ..class(name, 1)
    }
}

fn matrix() -> ProfileSpec {
    ProfileSpec {
        default_policy_family: Some("chat".into()),
        uncached_isl_buckets: vec![bucket(0, "short"), bucket(1_000, "long")],
        policy_classes: vec![
            member("batch-long", "batch", "long"),
            member("batch-short", "batch", "short"),
            class("vip", 1),
            member("chat-short", "chat", "short"),
            member("chat-long", "chat", "long"),
        ],
    }
}

#[test]
fn a_class_is_chosen_by_family_and_uncached_length_or_by_its_own_name() {
    let profile = Profile::new(matrix()).unwrap();
    let choose =
        |named, tokens| profile.class(profile.choose(named, || tokens)).unwrap().name.to_string();
    assert_eq!(choose(Some("batch"), 999), "batch-short");
    assert_eq!(choose(Some("batch"), 1_000), "batch-long");
    assert_eq!(choose(None, u64::MAX), "chat-long");
    assert_eq!(choose(Some("vip"), 5_000), "vip");
    // Members aren't asked for by name, and what there isn't is as good as nothing.
    assert_eq!(choose(Some("batch-long"), 0), "chat-short");
    assert_eq!(choose(Some(""), 0), "chat-short");
    let _ = profile.choose(Some("vip"), || unreachable!("its length says nothing"));
}

#[test]
fn without_classes_there_is_one_that_queues_by_the_threshold() {
    assert!(!Profile::default().queues());
    let profile = Profile::of_threshold(Some(0.5), QueuePolicy::Lcfs);
    assert!(profile.queues());
    let [class] = profile.classes() else { panic!("one class") };
    assert_eq!((&*class.name, class.quantum), ("default", 1));
    assert_eq!(profile.choose(Some("x"), || unreachable!("there is one bucket")), 0);
    assert!(class.finds_busy(501.0, Some(1_000)));
    assert!(!class.finds_busy(500.0, Some(1_000)));
    assert!(!class.finds_busy(5_000_000.0, None), "ten million, of which half");
    assert!(class.finds_busy(5_000_001.0, None));
}

#[test]
fn a_request_waits_when_all_or_the_given_part_of_its_ranks_are_busy() {
    let all = class("a", 1);
    assert!(all.waits_with(3, 3) && !all.waits_with(2, 3) && !all.waits_with(0, 0));
    let half = ClassSpec { busy_worker_ratio: Some(0.5), ..class("a", 1) };
    assert!(half.waits_with(2, 3) && half.waits_with(1, 2) && half.waits_with(1, 1));
    assert!(!half.waits_with(1, 3) && !half.waits_with(0, 1) && !half.waits_with(0, 0));
    let some = ClassSpec { prefill_busy_threshold_frac: Some(0.5), ..class("a", 1) };
    assert!(some.finds_busy(1.0, None), "either threshold is enough");
}

#[test]
fn a_default_that_is_not_said_is_the_only_one_or_the_one_of_that_name() {
    let of = |classes: &[&str]| ProfileSpec {
        policy_classes: classes.iter().map(|name| class(name, 1)).collect(),
        ..ProfileSpec::default()
    };
    let chosen = |spec| Profile::new(spec).map(|profile| profile.choose(None, || 0));
    assert_eq!(chosen(of(&["a"])), Ok(0));
    assert_eq!(chosen(of(&["a", "default"])), Ok(1));
    let problems = chosen(of(&["a", "b"])).unwrap_err();
    assert_eq!(problems[0].key, "default_policy_family");
    let one_family =
        ProfileSpec { policy_classes: matrix().policy_classes.split_off(3), ..matrix() };
    let one_family = ProfileSpec { default_policy_family: None, ..one_family };
    assert_eq!(chosen(one_family), Ok(0));
}

#[test]
fn every_mistake_of_a_profile_is_found_with_its_place() {
    use ProfilePlace::{Bucket as InBucket, Class, Profile as Whole};
    type Break = fn(&mut ProfileSpec);
    let cases: [(Break, ProfilePlace, &str); 20] = [
        (|spec| spec.policy_classes.clear(), Whole, "policy_classes"),
        (|spec| spec.policy_classes[0].name = "a b".into(), Class(0), "name"),
        (|spec| spec.policy_classes[2].name = "x".repeat(129).into(), Class(2), "name"),
        (|spec| spec.policy_classes[2].name = "chat-long".into(), Class(4), "name"),
        (|spec| spec.policy_classes[2].name = "chat".into(), Class(2), "name"),
        (|spec| spec.policy_classes[0].queue_policy = QueuePolicy::Lcfs, Class(0), "queue_policy"),
        (|spec| spec.policy_classes[0].quantum = 0, Class(0), "quantum"),
        (
            |spec| spec.policy_classes[0].prefill_busy_threshold_frac = Some(-0.5),
            Class(0),
            "prefill_busy_threshold_frac",
        ),
        (
            |spec| spec.policy_classes[0].prefill_busy_threshold_frac = Some(f64::NAN),
            Class(0),
            "prefill_busy_threshold_frac",
        ),
        (
            |spec| spec.policy_classes[0].busy_worker_ratio = Some(0.0),
            Class(0),
            "busy_worker_ratio",
        ),
        (
            |spec| spec.policy_classes[0].busy_worker_ratio = Some(1.1),
            Class(0),
            "busy_worker_ratio",
        ),
        (
            |spec| {
                spec.policy_classes[0].busy_worker_ratio = Some(0.5);
                spec.policy_classes[0].prefill_busy_threshold = None;
            },
            Class(0),
            "busy_worker_ratio",
        ),
        (|spec| spec.policy_classes[0].cache_bucket = None, Class(0), "cache_bucket"),
        (
            |spec| spec.policy_classes[0].cache_bucket = Some("huge".into()),
            Class(0),
            "cache_bucket",
        ),
        (
            |spec| spec.policy_classes[2].cache_bucket = Some("long".into()),
            Class(2),
            "cache_bucket",
        ),
        (
            |spec| spec.policy_classes[0].cache_bucket = Some("short".into()),
            Class(1),
            "policy_family",
        ),
        (|spec| drop(spec.policy_classes.pop()), Whole, "policy_classes"),
        (|spec| spec.uncached_isl_buckets[0].min_tokens = 1, InBucket(0), "min_tokens"),
        (|spec| spec.uncached_isl_buckets[1].min_tokens = 0, InBucket(1), "min_tokens"),
        (
            |spec| spec.default_policy_family = Some("batch-long".into()),
            Whole,
            "default_policy_family",
        ),
    ];
    for (at, (breaks, place, key)) in cases.into_iter().enumerate() {
        let mut spec = matrix();
        breaks(&mut spec);
        let problems = Profile::new(spec).unwrap_err();
        let found = problems.iter().any(|problem| (problem.place, problem.key) == (place, key));
        assert!(found, "case {at}: {problems:?}");
    }
    let many = (0..=MOST_CLASSES).map(|at| class(&at.to_string(), 1)).collect();
    let spec = ProfileSpec { policy_classes: many, ..ProfileSpec::default() };
    assert_eq!(Profile::new(spec).unwrap_err()[0].key, "policy_classes");
}
