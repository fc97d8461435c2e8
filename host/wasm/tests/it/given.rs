//! What calls hand over, value by value: what an instance is configured with, what few requests have,
//! and what one that declares `compact` isn't told again.

use std::sync::Arc;

use pointsman_core::clock::Moment;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::ids::{
    DecisionId, DpRank, PartitionKey, Role, WorkerId, WorkerRank, WorkerTarget,
};
use pointsman_core::partition::Mode;
use pointsman_core::policy::candidates::Matrix;
use pointsman_core::policy::{
    Candidates, Catalog, Input, OnFailure, PolicyEnvironment, PolicyProvider, RequestView,
};
use pointsman_core::request::{InputTrigger, RouteRequest, Session};
use pointsman_core::router::{Policies, Router};
use pointsman_core::testing;
use pointsman_wasm::ComponentPolicy;
use serde_json::{Map, Value, json};

use crate::rig::{Case, component, environment, partition};

/// Costs what it was configured with: hashes of the texts, and the numbers.
const CONFIGURED: &str = r#"
;;; configure
(func $hash (param $at i32) (param $length i32) (result f64)
  (local $hash i32)
  (local.set $hash (i32.const 0x811c9dc5))
  (block $done (loop $next
    (br_if $done (i32.eqz (local.get $length)))
    (local.set $hash (i32.mul
      (i32.xor (local.get $hash) (i32.load8_u (local.get $at))) (i32.const 0x01000193)))
    (local.set $at (i32.add (local.get $at) (i32.const 1)))
    (local.set $length (i32.sub (local.get $length) (i32.const 1)))
    (br $next)))
  (f64.convert_i32_u (local.get $hash)))
(func $configure
    (param $model i32) (param $of-model i32) (param $group i32) (param $of-group i32)
    (param $role i32) (param $block-size i32) (param $parameters i32) (param $of-parameters i32)
    (param $settings i32) (param $of-settings i32) (param $seed i64) (result i32)
  (global.set $top (i32.const 65536))
  (f64.store (i32.const 4096) (call $hash (local.get $model) (local.get $of-model)))
  (f64.store (i32.const 4104) (call $hash (local.get $group) (local.get $of-group)))
  (f64.store (i32.const 4112) (f64.convert_i32_u (local.get $role)))
  (f64.store (i32.const 4120) (f64.convert_i32_u (local.get $block-size)))
  (f64.store (i32.const 4128) (call $hash (local.get $parameters) (local.get $of-parameters)))
  (f64.store (i32.const 4136) (call $hash (local.get $settings) (local.get $of-settings)))
  (f64.store (i32.const 4144) (f64.convert_i64_u (local.get $seed)))
  (i32.const 1152))
;;; end
;;; score
(func $score (result i32) (call $ok-list (i32.const 4096) (global.get $rows)))
;;; end
"#;

fn hash(text: &str) -> f64 {
    let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step).into()
}

#[test]
fn an_instance_is_configured_with_its_partition_parameters_settings_and_seed() {
    let parameters = json!({ "least": 0.1, "names": ["ä", "b"], "more": { "x": null } });
    let Value::Object(parameters) = parameters else { unreachable!("it is an object") };
    let partition = PartitionKey {
        model: "some/model".into(),
        routing_group: "batch".into(),
        role: Role::Decode,
    };
    let (block_size, seed) = (48, 1 << 40);
    let environment = PolicyEnvironment {
        partition,
        block_size,
        parameters: Arc::new(parameters.clone()),
        seed,
        ..environment()
    };
    let mut instance = component(CONFIGURED).instantiate(&environment).unwrap();
    let told = Case::new(&[0.0; 7]).score(&mut *instance).unwrap();
    let settings = serde_json::to_string(&*environment.settings).unwrap();
    assert!(serde_json::from_str::<Map<String, Value>>(&settings).unwrap().len() > 10);
    let parameters = serde_json::to_string(&parameters).unwrap();
    let (model, group) = (hash("some/model"), hash("batch"));
    let (parameters, settings) = (hash(&parameters), hash(&settings));
    // `decode` is the third of the roles.
    assert_eq!(told, [model, group, 2.0, 48.0, parameters, settings, seed as f64]);
    // Without parameters it is an object, too.
    let mut instance = component(CONFIGURED).instantiate(&crate::rig::environment()).unwrap();
    let told = Case::new(&[0.0; 7]).score(&mut *instance).unwrap();
    assert_eq!(told[4], hash("{}"));
}

/// A scorer that reads `identity` and wants two hashes. Costs, from the first row on: of each detail
/// its case and its number, which is the length of a text or list; and in the last eight rows what
/// every request has.
const DETAILS: &str = r#"
;;; data
(data (i32.const 1296) "identity")
(data (i32.const 1320) "\10\05\00\00\08\00\00\00\30\04\00\00\0f\00\00\00")
(data (i32.const 1144) "\28\05\00\00\02\00\00\00") ;; the scorer's inputs
(data (i32.const 1192) "\02\00\00\00") ;; hashes
;;; end
;;; score
(func $number (param $at i32) (param $case i32) (result f64)
  (local.set $at (i32.add (local.get $at) (i32.const 8)))
  (if (i32.or (i32.eq (local.get $case) (i32.const 3)) (i32.eq (local.get $case) (i32.const 5)))
    (then (return (f64.load (local.get $at)))))
  (if (i32.eq (local.get $case) (i32.const 4))
    (then (return (f64.convert_i32_u (i32.load (local.get $at))))))
  (if (i32.or (i32.eq (local.get $case) (i32.const 1)) (i32.eq (local.get $case) (i32.const 2)))
    (then (return (f64.convert_i64_u (i64.load (local.get $at))))))
  (f64.convert_i32_u (i32.load offset=4 (local.get $at))))
(func $score (result i32)
  (local $to i32) (local $at i32) (local $left i32) (local $case i32)
  (local.set $to (global.get $numbers))
  (memory.fill (local.get $to) (i32.const 0) (i32.shl (global.get $rows) (i32.const 3)))
  (local.set $at (global.get $details))
  (local.set $left (global.get $of-details))
  (block $done (loop $next
    (br_if $done (i32.eqz (local.get $left)))
    (local.set $case (i32.load8_u (local.get $at)))
    (f64.store (local.get $to) (f64.convert_i32_u (local.get $case)))
    (f64.store offset=8 (local.get $to) (call $number (local.get $at) (local.get $case)))
    (local.set $to (i32.add (local.get $to) (i32.const 16)))
    (local.set $at (i32.add (local.get $at) (i32.const 32)))
    (local.set $left (i32.sub (local.get $left) (i32.const 1)))
    (br $next)))
  (local.set $to (i32.add (global.get $numbers)
    (i32.shl (i32.sub (global.get $rows) (i32.const 8)) (i32.const 3))))
  (f64.store offset=0 (local.get $to) (f64.convert_i64_u (global.get $decision)))
  (f64.store offset=8 (local.get $to) (f64.convert_i64_u (global.get $prompt)))
  (f64.store offset=16 (local.get $to) (f64.convert_i32_u (global.get $expected)))
  (f64.store offset=24 (local.get $to) (f64.convert_i32_u (global.get $trigger)))
  (f64.store offset=32 (local.get $to) (f64.convert_i32_u (global.get $traits)))
  (f64.store offset=40 (local.get $to) (f64.convert_i64_u (global.get $now)))
  (f64.store offset=48 (local.get $to) (f64.convert_i64_u (global.get $seed)))
  (f64.store offset=56 (local.get $to) (f64.convert_i32_u (global.get $has-details)))
  (call $ok-list (global.get $numbers) (global.get $rows)))
;;; end
"#;

#[test]
fn what_few_requests_have_comes_once_each_and_where_there_is_nothing_there_is_no_list() {
    let policy = component(DETAILS);
    let ids: Vec<_> =
        (0..24).map(|id| WorkerRank { worker_id: WorkerId(id), dp_rank: DpRank(0) }).collect();
    let mut matrix = Matrix::new(&[Input::ActiveRequests]);
    matrix.fill(24, |_, column| column.fill(0.0));
    let moment = Moment { now_ms: 1234, seed: 99 };
    let costs = |request: &RouteRequest, declared: &[Input], pinned, hashes: &[u64]| {
        let mut instance = policy.instantiate(&environment()).unwrap();
        let view = RequestView::new(request, DecisionId(77), moment, 16, true, pinned);
        let declared = declared.iter().copied().collect();
        let rows = Candidates::new(&ids, &matrix, declared, hashes);
        let mut costs = vec![f64::NAN; 24];
        instance.score(0, &view, &rows, &mut costs).unwrap();
        costs
    };
    let mut request = RouteRequest::new("r", partition(), 41);
    let plain = costs(&request, &[Input::ActiveRequests], None, &[]);
    assert_eq!(plain[..16], [0.0; 16]);
    // No guess, no trigger; it tracks prefill tokens and has no match; no list of details.
    assert_eq!(plain[16..], [77.0, 41.0, 0.0, 0.0, 1.0, 1234.0, 99.0, 0.0]);

    let id = "conversation".into();
    request.session = Some(Session { id, parent_id: None, is_final: None, evict: None });
    let target = WorkerTarget { worker_id: WorkerId(5), dp_rank: None };
    request.affinity_target = Some(target);
    request.priority_jump = 2.5;
    request.strict_priority = 3;
    request.router_temperature = Some(0.75);
    request.expected_output_tokens = Some(400);
    request.trigger = Some(InputTrigger::ToolResult);
    let declared = [Input::Identity, Input::ActiveRequests];
    let all = costs(&request, &declared, Some(ids[6]), &[11, 12]);
    let details: Vec<_> = all[..16].chunks(2).map(|one| (one[0], one[1])).collect();
    let expected = [
        (0.0, 12.0),
        (1.0, 5.0),
        (2.0, 6.0),
        (3.0, 2.5),
        (4.0, 3.0),
        (5.0, 0.75),
        (6.0, 48.0),
        (7.0, 2.0),
    ];
    assert_eq!(details, expected);
    assert_eq!(all[16..], [77.0, 41.0, 400.0, 2.0, 1.0, 1234.0, 99.0, 1.0]);
}

/// A scorer that declares `compact` and reads `identity`, taints and loads. Each cost: how many words
/// of identity came, and a thousand times which columns are one number, and a hundred thousand times
/// the last of the numbers. It refuses prompts of a multiple of ten tokens.
const COMPACT: &str = r#"
;;; data
(data (i32.const 1296) "identity")
(data (i32.const 1304) "compact")
(data (i32.const 1312) "preferred-taint-multiplier")
(data (i32.const 1344)
  "\10\05\00\00\08\00\00\00\20\05\00\00\1a\00\00\00\30\04\00\00\0f\00\00\00")
(data (i32.const 1144) "\40\05\00\00\03\00\00\00") ;; the scorer's inputs
(data (i32.const 1376) "\18\05\00\00\07\00\00\00")
(data (i32.const 1196) "\60\05\00\00\01\00\00\00") ;; the properties
;;; end
;;; score
(func $score (result i32)
  (local $at i32) (local $cost f64) (local $left i32)
  (if (i64.eqz (i64.rem_u (global.get $prompt) (i64.const 10)))
    (then (return (call $refuse))))
  (local.set $cost (f64.add
    (f64.mul (f64.const 1000) (f64.convert_i64_u (global.get $uniform)))
    (f64.mul (f64.const 100000) (f64.load (i32.add (global.get $numbers)
      (i32.shl (i32.sub (global.get $length) (i32.const 1)) (i32.const 3)))))))
  ;; The only detail is the identity, if there is one.
  (if (global.get $has-details) (then
    (if (i32.ne (i32.load8_u (global.get $details)) (i32.const 6)) (then unreachable))
    (local.set $cost (f64.add (local.get $cost)
      (f64.convert_i32_u (i32.load offset=12 (global.get $details)))))))
  (local.set $left (global.get $rows))
  (loop $next
    (local.set $left (i32.sub (local.get $left) (i32.const 1)))
    (f64.store (i32.add (i32.const 4096) (i32.shl (local.get $left) (i32.const 3)))
      (local.get $cost))
    (br_if $next (local.get $left)))
  (call $ok-list (i32.const 4096) (global.get $rows)))
;;; end
"#;

fn worker(id: u64) -> WorkerSpec {
    WorkerSpec::new(WorkerId(id), "http://127.0.0.1:1", partition())
}

fn router(policy: ComponentPolicy) -> Router {
    let mut catalog = Catalog::builtin();
    catalog.insert(Arc::new(policy)).unwrap();
    let selection = testing::selection("x", OnFailure::Reject);
    let router = Router::new(Policies { catalog, selection, ..Policies::default() }, 7);
    (1..4).for_each(|id| router.upsert_worker(worker(id)).unwrap());
    router
}

/// How many words of identity a decision brought; none if it was refused. The neutral multiplier is
/// one number, and so it comes after the column of loads.
fn words(router: &Router, request: &RouteRequest) -> Option<f64> {
    let moment = Moment { now_ms: 1, seed: 1 };
    let cost = router.route(request, moment, Mode::Book).ok()?.receipt.cost;
    assert_eq!(cost - cost % 1000.0, 101_000.0, "{cost}");
    Some(cost % 1000.0)
}

#[test]
fn one_that_is_compact_gets_one_number_for_many_and_identity_when_it_is_another() {
    let router = router(component(COMPACT));
    let asks = |tokens| RouteRequest::new("r", partition(), tokens);
    assert_eq!(words(&router, &asks(41)), Some(6.0));
    assert_eq!(words(&router, &asks(41)), Some(0.0), "the same rows");
    let mut some = asks(41);
    some.constraints.allowed = Some([WorkerId(1), WorkerId(3)].into());
    assert_eq!(words(&router, &some), Some(4.0), "other rows");
    assert_eq!(words(&router, &asks(41)), Some(6.0));
    router.upsert_worker(worker(4)).unwrap();
    assert_eq!(words(&router, &asks(40)), None, "it refuses, and has been told");
    assert_eq!(words(&router, &asks(41)), Some(0.0));
}
