//! The native build of a policy and its component choose the same rows, at the same costs.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{PartitionKey, Role, WorkerId};
use pointsman_core::partition::Mode;
use pointsman_core::policy::selection::{InstanceSpec, Recipe, TypeUse};
use pointsman_core::policy::{Catalog, Limits, OnFailure, PolicyProvider, SelectionSpec};
use pointsman_core::request::{InputTrigger, RouteRequest};
use pointsman_core::router::{Policies, Router};
use pointsman_tests::components;
use pointsman_tests::linked::linked;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn partition() -> PartitionKey {
    PartitionKey { model: "m".into(), routing_group: "default".into(), role: Role::Aggregated }
}

/// A router whose one instance is of `provider`'s type.
fn router(provider: Arc<dyn PolicyProvider>, parameters: &serde_json::Value) -> Result<Router> {
    let mut catalog = Catalog::builtin();
    let policy_type = provider.policy_type().into();
    catalog.insert(provider)?;
    let instance = InstanceSpec::new(
        "it",
        Recipe::Whole(TypeUse {
            policy_type,
            parameters: Arc::new(parameters.as_object().cloned().unwrap_or_default()),
            // A busy machine may stop a thread for long; this is about what is chosen.
            limits: Limits { deadline: Some(Duration::from_secs(30)), ..Limits::default() },
        }),
        OnFailure::Reject,
    );
    let selection = SelectionSpec {
        roles: [(Role::Aggregated, "it".into())].into(),
        instances: vec![instance],
    };
    Ok(Router::new(Policies { catalog, selection, ..Policies::default() }, 7))
}

/// One decision to be made by both, and whether its lease is dropped at once.
#[derive(Clone, Debug)]
struct Step {
    prompt_tokens: u64,
    trigger: Option<InputTrigger>,
    seed: u64,
    ends_at_once: bool,
}

fn steps() -> impl Strategy<Value = (u32, u32, Vec<Step>)> {
    let trigger = prop_oneof![
        Just(None),
        Just(Some(InputTrigger::UserMessage)),
        Just(Some(InputTrigger::ToolResult))
    ];
    let step = (0..50_000_u64, trigger, any::<u64>(), any::<bool>()).prop_map(
        |(prompt_tokens, trigger, seed, ends_at_once)| Step {
            prompt_tokens,
            trigger,
            seed,
            ends_at_once,
        },
    );
    (1..130_u32, 1..4_u32, prop::collection::vec(step, 1..40))
}

fn request(step: &Step) -> RouteRequest {
    let mut request = RouteRequest::new("r", partition(), step.prompt_tokens);
    request.trigger = step.trigger;
    request
}

fn agree(
    native: Arc<dyn PolicyProvider>,
    component: Arc<dyn PolicyProvider>,
    parameters: serde_json::Value,
) -> Result<()> {
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    runner.run(&steps(), |(workers, ranks, steps)| {
        let routers =
            [&native, &component].map(|provider| router(provider.clone(), &parameters).unwrap());
        for router in &routers {
            for id in 0..workers {
                let mut spec =
                    WorkerSpec::new(WorkerId(u64::from(id) * 3), "http://127.0.0.1:1", partition());
                spec.data_parallel_size = NonZeroU32::new(ranks).unwrap();
                router.upsert_worker(spec).unwrap();
            }
        }
        let mut leases = Vec::new();
        for (n, step) in steps.iter().enumerate() {
            let moment = Moment { now_ms: n as u64, seed: step.seed };
            // Every third is a dry run too: stage by stage instead of fused.
            if n % 3 == 0 {
                let [a, b] = [0, 1].map(|i: usize| {
                    routers[i].route(&request(step), moment, Mode::DryRun).unwrap().receipt
                });
                prop_assert_eq!(&a.rows, &b.rows);
                prop_assert_eq!((a.worker, a.cost.to_bits()), (b.worker, b.cost.to_bits()));
            }
            let [a, b] = [0, 1]
                .map(|i: usize| routers[i].route(&request(step), moment, Mode::Book).unwrap());
            prop_assert_eq!(a.receipt.worker, b.receipt.worker);
            prop_assert_eq!(a.receipt.cost.to_bits(), b.receipt.cost.to_bits());
            prop_assert!(b.receipt.fuel() > Some(0), "the component is metered");
            if !step.ends_at_once {
                leases.push((a.lease, b.lease));
            }
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn least_busy_chooses_the_same_rows_natively_and_in_a_component() -> Result<()> {
    agree(
        linked::<least_busy::LeastBusy>("least-busy-native"),
        components::load(pointsman_tests::guests::least_busy())?,
        serde_json::json!({ "min_device_overlap_blocks": 0 }),
    )
}

#[test]
fn least_prefill_chooses_the_same_rows_natively_and_in_a_component() -> Result<()> {
    agree(
        linked::<least_prefill::LeastPrefill>("least-prefill-native"),
        components::load(pointsman_tests::guests::least_prefill())?,
        serde_json::json!({}),
    )
}
