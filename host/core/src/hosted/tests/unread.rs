//! Where a request's prompt makes no difference, and where it does.

use super::*;
use crate::classifier::{Admission, ClassifyRequest, Verdict};
use crate::eligibility::BusyThresholds;
use crate::policy::selection::{CanarySpec, InstanceSpec, Rollout, ShadowSpec};
use crate::queue::{Profile, QueuePolicy, QueueSettings};
use crate::testing::{MadeClassifier, classifier_spec, classifying};

/// Nobody reads prompts under these policies.
fn is_unread(policies: Policies) -> bool {
    let router = router(policies, [worker(1), worker(2)]);
    let unread = partition(&router).reads_no_prompts();
    // It is no promise where a decision may be made by somebody else.
    assert!(!unread || partition(&router).is_hosted());
    unread
}

/// Turns decide, with this beside them.
fn beside(rollout: Rollout) -> Policies {
    let mut policies = builtin("round-robin");
    let mine = policies.selection.instances[0].clone();
    let other =
        InstanceSpec { name: "other".into(), ..builtin("default").selection.instances[0].clone() };
    policies.selection.instances = vec![InstanceSpec { rollout, ..mine }, other];
    policies
}

#[test]
fn prompts_are_read_where_a_policy_may_go_by_them() {
    for name in crate::policy::builtin::NAMES {
        let kv = ["default", "two-tier", "dynamo-default-cost-fn", "dynamo-two-tier-cost-fn"];
        assert_eq!(is_unread(builtin(name)), !kv.contains(&name), "{name}");
    }
    // It sees a prompt's length, whatever else it reads.
    let replicable = Properties { replicable: true, ..Properties::default() };
    let make = move || {
        NativePolicy::new(replicable).picker("p", picker(&[Input::Identity], |_, _, _| Ok(0)))
    };
    let replicas = router(policies(OnFailure::Reject, make), [worker(1)]);
    assert!(partition(&replicas).is_hosted() && !partition(&replicas).reads_no_prompts());
    let turned_off = router(builtin("round-robin"), [worker(1)]);
    turned_off.disable("mine").expect("it is there");
    assert!(!partition(&turned_off).reads_no_prompts(), "the default decides in its place");
    turned_off.enable("mine").expect("it is there");
    assert!(partition(&turned_off).reads_no_prompts());
}

#[test]
fn prompts_are_read_where_somebody_else_goes_by_them() {
    assert!(is_unread(beside(Rollout::default())));
    let shadows = vec![ShadowSpec::of("other".into())];
    assert!(!is_unread(beside(Rollout { shadows, canary: None })), "a shadow");
    let canary = Some(CanarySpec::of("other".into(), 0.01));
    assert!(!is_unread(beside(Rollout { shadows: vec![], canary })), "a canary");
    let queue = QueueSettings {
        default: Arc::new(Profile::of_threshold(Some(1.0), QueuePolicy::default())),
        ..QueueSettings::default()
    };
    assert!(!is_unread(Policies { queue: Arc::new(queue), ..builtin("round-robin") }), "a queue");
    let admits = |_: &ClassifyRequest<'_>| Ok(Verdict::Admit(Admission::default()));
    let made = MadeClassifier::new("c", move || classifying(1, admits, |_, _| Ok(vec![])));
    let mut classified = builtin("round-robin");
    classified.catalog.insert_classifier(Arc::new(made)).expect("no built-in is named so");
    classified.classifier = Some(classifier_spec("c", OnFailure::Reject));
    assert!(!is_unread(classified), "a classifier");
}

#[test]
fn prompts_are_read_where_a_worker_may_have_too_much_to_do() {
    let router = router(builtin("round-robin"), [worker(1)]);
    let partition = partition(&router);
    assert!(partition.reads_no_prompts());
    let busy =
        BusyThresholds { active_prefill_tokens_threshold: Some(1), ..BusyThresholds::default() };
    partition.set_busy(Some(busy));
    assert!(!partition.reads_no_prompts());
    partition.set_busy(None);
    assert!(partition.reads_no_prompts());
}
