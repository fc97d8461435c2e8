//! The classes in which requests wait, as the file says them.

use pointsman_core::queue::QueuePolicy;

use super::*;

#[test]
fn a_threshold_alone_makes_one_class_that_queues() {
    assert!(!good("{}").queue.default.queues());
    let config =
        good("router: { router_queue_threshold: 0.5, router_queue_policy: lcfs }\nworkers: []\n");
    let [class] = config.queue.default.classes() else { panic!("one class") };
    assert_eq!((&*class.name, class.queue_policy), ("default", QueuePolicy::Lcfs));
    assert_eq!(class.prefill_busy_threshold_frac, Some(0.5));
}

#[test]
fn classes_are_what_the_file_says_and_a_model_may_have_its_own() {
    let config = good(include_str!("../../../samples/full.yaml"));
    let profile = &config.queue.default;
    assert_eq!(profile.classes().len(), 3);
    let name = |named, tokens| &*profile.class(profile.choose(named, || tokens)).unwrap().name;
    assert_eq!(name(None, 8_192), "chat-long");
    assert_eq!(name(Some("batch"), 8_192), "batch");
    let short = &profile.classes()[0];
    assert_eq!((short.quantum, short.prefill_busy_threshold), (4_000, Some(100_000)));
    assert_eq!(
        (short.busy_worker_ratio, short.prefill_busy_threshold_frac),
        (Some(1.0), Some(1.0))
    );
    assert_eq!(short.request_queue_limit_per_worker, Some(256));
    assert_eq!(short.raw_isl_token_queue_limit_per_worker, Some(4_000_000));
    assert_eq!(short.cached_token_queue_limit_per_worker, Some(4_000_000));
    assert_eq!(config.queue.profile("default").classes().len(), 1);
    assert_eq!(config.queue.profile("other").classes().len(), 3);
}

#[test]
fn the_documents_classes_are_taken() {
    let document = include_str!("../../../CONFIG.md");
    let (_, section) = document.split_once("## Queueing").unwrap();
    let (_, block) = section.split_once("```yaml\n").unwrap();
    let config = good(block.split_once("```").unwrap().0);
    assert_eq!(config.queue.default.classes().len(), 3);
    assert_eq!(config.queue.models.len(), 1);
}

#[test]
fn every_mistake_of_classes_is_told_with_its_place() {
    let told = mistakes(
        r"
router: { router_queue_threshold: -1, router_queue_policy: lifo }
default_policy_family: nobody
uncached_isl_buckets:
  - { min_tokens: 10, bucket: short }
  - { min_tokens: 10, bucket: 'a b' }
policy_classes:
  - { policy_family: chat }
  - { name: a, quantum: 0, busy_worker_ratio: 2, prefill_busy_threshold: many, weight: 1 }
models:
  one: {}
  two:
    policy_classes:
      - { name: x, queue_policy: lcfs }
      - { name: x, policy_family: f, busy_worker_ratio: 0.5 }
    default_policy_family: y
  three: { worker_selection: {} }
",
    );
    insta::assert_snapshot!(told);
}

#[test]
fn classes_and_the_router_wide_threshold_are_not_both_taken() {
    let told = mistakes(
        "router: { router_queue_threshold: 0.5 }\npolicy_classes: [{ name: a, prefill_busy_threshold: 0 }]\n",
    );
    assert!(told.contains("policy_classes: `router_queue_threshold`"), "{told}");
}
