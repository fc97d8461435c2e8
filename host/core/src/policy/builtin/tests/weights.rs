//! Promises of the weights: what they make the cost function read, and where they come from.

use super::*;

use Input::{
    ActivePrefillTokens as Prefill, ActiveRequests as Requests, CachedTokens as Cached,
    DecodeCostBlocks as Decode, DeviceOverlapBlocks as Device, DiskOverlapBlocks as Disk,
    EffectiveOverlapBlocks as Estimate, HostOverlapBlocks as Host,
    PreferredTaintMultiplier as Taints, SharedBeyondDeviceBlocks as Shared,
};

#[test]
fn only_what_is_weighed_is_declared() {
    let declared = |change: fn(&mut RouterSettings), role, plain| -> Vec<Input> {
        let mut settings = RouterSettings::default();
        change(&mut settings);
        DefaultCost::new(&settings, role, plain).inputs().to_vec()
    };
    let whole = Role::Aggregated;
    let usual = vec![Prefill, Decode, Taints, Device, Host, Disk, Estimate, Cached];
    assert_eq!(declared(|_| {}, whole, false), usual);
    assert_eq!(declared(|_| {}, Role::Decode, false), usual);
    assert_eq!(declared(|_| {}, Role::Decode, true), [Prefill, Decode, Taints]);
    let without: fn(&mut RouterSettings) = |s| s.overlap_score_credit = 0.0;
    assert_eq!(declared(without, whole, false), [Prefill, Decode, Taints]);
    let all = declared(
        |s| {
            s.decode_active_request_weight = 0.1;
            s.shared_cache_multiplier = 0.1;
        },
        whole,
        false,
    );
    let every = [Prefill, Decode, Requests, Taints, Device, Host, Disk, Shared, Estimate, Cached];
    assert_eq!(all, every);
    let one_tier: fn(&mut RouterSettings) = |s| {
        s.host_cache_hit_weight = 0.0;
        s.disk_cache_hit_weight = 0.0;
    };
    let device = [Prefill, Decode, Taints, Device, Estimate, Cached];
    assert_eq!(declared(one_tier, whole, false), device);
    // Without prefill load there is nothing to be credited, but on a decode worker's blocks.
    let no_prefill: fn(&mut RouterSettings) = |s| s.prefill_load_scale = 0.0;
    assert_eq!(declared(no_prefill, whole, false), [Decode, Taints]);
    let decode = [Decode, Taints, Device, Host, Disk, Estimate];
    assert_eq!(declared(no_prefill, Role::Decode, false), decode);
}

#[test]
fn the_lightest_is_the_lightest_of_those_that_are_left() {
    // Rows 0 and 2 are left; row 1, which is idle, isn't, and so nothing fades by it.
    let settings = RouterSettings { overlap_score_credit_decay: 1.0, ..RouterSettings::default() };
    let mut cost = DefaultCost::new(&settings, Role::Aggregated, false);
    let inputs = cost.inputs().to_vec();
    let all: [Row; 3] =
        [&[(Prefill, 160.0), (Device, 4.0)], &[(Device, 4.0)], &[(Prefill, 320.0), (Device, 4.0)]];
    let mut matrix = columns(&all, &inputs);
    matrix.compact(&[0, 2]);
    let (ids, declared) = (ids(2), inputs.iter().copied().collect());
    let rows = Candidates::new(&ids, &matrix, declared, &[]);
    let request = request(160);
    let view = RequestView { has_tier_matches: true, ..view(&request, moment(1), true) };
    let mut costs = [f64::NAN; 2];
    cost.score(&view, &rows, &mut costs).expect("it scores");
    assert_eq!(costs, [20.0 - 4.0, 30.0 - 2.0]);
}

#[test]
fn a_name_that_users_of_linked_policies_know_is_the_same_policy() {
    for (name, known) in
        [("default", "dynamo-default-cost-fn"), ("two-tier", "dynamo-two-tier-cost-fn")]
    {
        let [ours, theirs] = [name, known].map(|name| instance(name, serde_json::json!({})));
        assert_eq!(ours.declaration(), theirs.declaration());
    }
}

#[test]
fn what_a_parameter_leaves_out_comes_from_the_routers_settings() {
    let settings = RouterSettings {
        prefill_load_scale: 2.0,
        decode_active_request_weight: 3.0,
        ..RouterSettings::default()
    };
    // 160 tokens are 10 blocks; 4 requests.
    let cost = |parameters| {
        let environment = PolicyEnvironment {
            settings: Arc::new(settings.clone()),
            ..environment(Role::Aggregated, parameters)
        };
        let provider = Catalog::builtin().get("default").expect("a built-in").clone();
        let mut policy = provider.instantiate(&environment).expect("it is made");
        let inputs = policy.declaration().scorers[0].inputs.clone();
        let matrix = columns(&[&[(Requests, 4.0)]], &inputs);
        let (ids, declared) = (ids(1), inputs.iter().copied().collect());
        let rows = Candidates::new(&ids, &matrix, declared, &[]);
        let (request, mut costs) = (request(160), [f64::NAN]);
        policy.score(0, &view(&request, moment(1), true), &rows, &mut costs).expect("it scores");
        costs[0]
    };
    assert_eq!(cost(serde_json::json!({})), 2.0 * 10.0 + 3.0 * 4.0);
    assert_eq!(cost(serde_json::json!({"prefill_load_scale": 0.5})), 0.5 * 10.0 + 3.0 * 4.0);
    assert_eq!(cost(serde_json::json!({"decode_active_request_weight": 0})), 2.0 * 10.0);
}
