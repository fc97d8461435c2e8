//! Promises of the cost function. Every expected cost here was worked out by hand.

use super::*;
use crate::{KvCost, Settings};

use Input::{
    ActivePrefillTokens as Prefill, ActiveRequests as Requests, CachedTokens as Cached,
    DecodeCostBlocks as Decode, DeviceOverlapBlocks as Device, DiskOverlapBlocks as Disk,
    EffectiveOverlapBlocks as Estimate, HostOverlapBlocks as Host,
    PreferredTaintMultiplier as Taints, SharedBeyondDeviceBlocks as Shared,
};

/// The cost function of workers that may prefill, whatever their role.
struct MayPrefill;

impl Policy for MayPrefill {
    type Parameters = Settings;

    fn about() -> About {
        about!()
    }

    fn build(settings: Settings, environment: &Environment) -> Result<Stages> {
        let weights = settings.over(environment)?;
        Ok(Stages::new().scorer(KvCost::new(&weights, environment.partition.role, false)))
    }
}

/// A case: 160 tokens, tracked, tiers matched, on aggregated workers unless it says otherwise.
struct Case<'a> {
    parameters: &'a str,
    role: Role,
    request: Request,
    rows: &'a [Row<'a>],
    costs: &'a [f64],
}

impl Case<'_> {
    fn of<'a>(parameters: &'a str, rows: &'a [Row<'a>], costs: &'a [f64]) -> Case<'a> {
        Case { parameters, role: Role::Aggregated, request: request(160), rows, costs }
    }

    fn check<P: Policy>(&self) {
        let mut trial = Trial::within::<P>(environment(self.role, self.parameters)).unwrap();
        let choice = trial.decide(&self.request, &fleet(self.rows)).unwrap();
        assert_eq!(choice.costs, self.costs, "{} {:?}", self.parameters, self.rows);
    }
}

fn check(parameters: &str, rows: &[Row<'_>], costs: &[f64]) {
    Case::of(parameters, rows, costs).check::<DefaultCost>();
}

#[test]
fn load_counts_in_blocks() {
    // An idle worker costs the prompt: 160 / 16.
    check("{}", &[&[]], &[10.0]);
    // (160 + 320) / 16 + 7
    check("{}", &[&[(Prefill, 320.0), (Decode, 7.0)]], &[37.0]);
    // 2 * 10 + 3 + 0.5 * 4
    let weighed = r#"{"prefill_load_scale": 2, "decode_active_request_weight": 0.5}"#;
    check(weighed, &[&[(Decode, 3.0), (Requests, 4.0)]], &[25.0]);
    // 0 * prefill + 7 + 2 * 3: what is cached has nothing to be taken from.
    let decode = r#"{"prefill_load_scale": 0, "decode_active_request_weight": 2}"#;
    let row = [(Prefill, 320.0), (Decode, 7.0), (Requests, 3.0), (Device, 4.0)];
    check(decode, &[&row], &[13.0]);
    // A prompt that is no whole number of blocks costs a part of one: 100 / 16 - 2.
    let rows: [Row<'_>; 1] = [&[(Device, 2.0)]];
    Case { request: request(100), ..Case::of("{}", &rows, &[4.25]) }.check::<DefaultCost>();
}

#[test]
fn each_tier_is_credited_by_its_weight() {
    // 10 - (4 + 0.75 * 2 + 0.25 * 2 + 0.5 * 3): the estimate is nothing to it where a tier matched.
    let row = [(Device, 4.0), (Host, 2.0), (Disk, 2.0), (Shared, 3.0), (Estimate, 99.0)];
    check(r#"{"shared_cache_multiplier": 0.5}"#, &[&row], &[2.5]);
    // Without a weight, a shared cache counts for nothing: 10 - 6.
    check("{}", &[&row], &[4.0]);
    // 10 - (1 + 0.5 * 6)
    check(r#"{"disk_cache_hit_weight": 0.5}"#, &[&[(Device, 1.0), (Disk, 6.0)]], &[6.0]);
    // The credit's weight is the device's alone, and may exceed 1: 10 - (2 * 1 + 0.75 * 4).
    check(r#"{"overlap_score_credit": 2}"#, &[&[(Device, 1.0), (Host, 4.0)]], &[5.0]);
    // Credit 0 leaves every cache term out.
    let row = [(Device, 4.0), (Host, 4.0), (Cached, 999.0)];
    check(r#"{"overlap_score_credit": 0}"#, &[&row], &[10.0]);
    // Prefill is never below nothing: max(0, 10 - 50) + 3.
    check("{}", &[&[(Device, 50.0), (Decode, 3.0)]], &[3.0]);
    // Credit is scaled with the prefill that it is taken from: 2 * ((160 + 32) / 16 - 4) + 7.
    let row = [(Prefill, 32.0), (Decode, 7.0), (Device, 4.0)];
    check(r#"{"prefill_load_scale": 2}"#, &[&row], &[23.0]);
}

#[test]
fn the_estimate_stands_for_the_device_where_no_tier_matched() {
    let rows: [Row<'_>; 1] = [&[(Device, 4.0), (Estimate, 6.5)]];
    let unmatched = Request { has_tier_matches: false, ..request(160) };
    Case { request: unmatched, ..Case::of("{}", &rows, &[3.5]) }.check::<DefaultCost>();
}

#[test]
fn cached_tokens_cancel_out_unless_there_are_more_than_asked_for() {
    // (160 - 64 + 64) / 16 - 4; max(160, 320) / 16 - 4.
    let rows: [Row<'_>; 2] = [&[(Cached, 64.0), (Device, 4.0)], &[(Cached, 320.0), (Device, 4.0)]];
    check("{}", &rows, &[6.0, 16.0]);
}

#[test]
fn device_credit_fades_with_prefill_load_above_the_lightest() {
    // The second is 20 blocks above the first, over a prompt of 10: 1 / (1 + 0.5 * 20 / 10) = 1/2.
    let rows: [Row<'_>; 2] = [
        &[(Prefill, 160.0), (Device, 4.0), (Host, 4.0)],
        &[(Prefill, 480.0), (Device, 4.0), (Host, 4.0)],
    ];
    let half = r#"{"overlap_score_credit_decay": 0.5}"#;
    check(half, &rows, &[20.0 - 4.0 - 3.0, 40.0 - 2.0 - 3.0]);
    // An empty prompt counts as one block: 1 / (1 + 0.5 * 2 / 1) = 1/2.
    let rows: [Row<'_>; 2] = [&[(Prefill, 32.0), (Device, 1.0)], &[(Device, 1.0)]];
    Case { request: request(0), ..Case::of(half, &rows, &[1.5, 0.0]) }.check::<DefaultCost>();
    // Over the request's blocks, rounded up: 161 tokens are 11, and so are the 176 above:
    // (161 + 176) / 16 - 4 / 2.
    let rows: [Row<'_>; 2] = [&[(Prefill, 176.0), (Device, 4.0)], &[]];
    let whole = r#"{"overlap_score_credit_decay": 1}"#;
    let costs = [19.0625, 10.0625];
    Case { request: request(161), ..Case::of(whole, &rows, &costs) }.check::<DefaultCost>();
}

#[test]
fn a_prompt_whose_prefill_is_not_tracked_costs_decode_alone() {
    let rows: [Row<'_>; 2] =
        [&[(Prefill, 320.0), (Decode, 7.0), (Device, 2.0)], &[(Decode, 3.0), (Cached, 99.0)]];
    let untracked = Request { tracks_prefill_tokens: false, ..request(160) };
    let decay = r#"{"overlap_score_credit_decay": 0.5}"#;
    Case { request: untracked, ..Case::of(decay, &rows, &[7.0, 3.0]) }.check::<DefaultCost>();
}

#[test]
fn preferred_taints_multiply_the_whole() {
    // (10 + 2) * 0.5; (10 + 2) * 2.
    let rows: [Row<'_>; 2] = [&[(Decode, 2.0), (Taints, 0.5)], &[(Decode, 2.0), (Taints, 2.0)]];
    check("{}", &rows, &[6.0, 24.0]);
}

#[test]
fn prefill_and_encode_workers_cost_as_aggregated_ones() {
    let rows: [Row<'_>; 1] = [&[(Prefill, 320.0), (Decode, 7.0), (Device, 4.0)]];
    for role in [Role::Prefill, Role::Encode] {
        Case { role, ..Case::of("{}", &rows, &[33.0]) }.check::<DefaultCost>();
    }
}

#[test]
fn plain_decode_has_no_cache_terms() {
    // (160 + 32) / 16 + 7 + 2 * 3; without prefill: 7 + 2 * 3.
    let rows: [Row<'_>; 1] =
        [&[(Prefill, 32.0), (Decode, 7.0), (Requests, 3.0), (Device, 4.0), (Taints, 0.5)]];
    for (tracks_prefill_tokens, cost) in [(true, 12.5), (false, 6.5)] {
        let request = Request { tracks_prefill_tokens, ..request(160) };
        let weighed = r#"{"decode_active_request_weight": 2}"#;
        Case { role: Role::Decode, request, ..Case::of(weighed, &rows, &[cost]) }
            .check::<DefaultCost>();
    }
}

#[test]
fn a_decode_worker_that_may_prefill_is_credited_on_its_decode_blocks() {
    let untracked = Request { tracks_prefill_tokens: false, ..request(160) };
    let decode = |parameters, rows, costs| Case {
        role: Role::Decode,
        request: untracked.clone(),
        ..Case::of(parameters, rows, costs)
    };
    // max(0, 7 - 4) + 0.5 * 3; max(0, 2 - 4) + 0.5 * 1.
    let rows: [Row<'_>; 2] = [
        &[(Decode, 7.0), (Requests, 3.0), (Device, 4.0)],
        &[(Decode, 2.0), (Requests, 1.0), (Device, 4.0)],
    ];
    let weighed = r#"{"decode_active_request_weight": 0.5}"#;
    decode(weighed, &rows, &[4.5, 0.5]).check::<MayPrefill>();
    // max(0, 9 - (2 * 2 + 0.75 * 2 + 0.25 * 4 + 0.5 * 1)) * 2; prefill's weight is no matter.
    let rows: [Row<'_>; 2] = [
        &[(Decode, 9.0), (Device, 2.0), (Host, 2.0), (Disk, 4.0), (Shared, 1.0), (Taints, 2.0)],
        &[(Decode, 9.0), (Prefill, 999.0)],
    ];
    let all = r#"{"overlap_score_credit": 2, "overlap_score_credit_decay": 3,
        "shared_cache_multiplier": 0.5, "prefill_load_scale": 0}"#;
    decode(all, &rows, &[4.0, 9.0]).check::<MayPrefill>();
    // Without a weight there is no credit: 7 + 0.5 * 3.
    let rows: [Row<'_>; 1] = [&[(Decode, 7.0), (Requests, 3.0), (Device, 4.0), (Host, 4.0)]];
    let none = r#"{"overlap_score_credit": 0, "decode_active_request_weight": 0.5}"#;
    decode(none, &rows, &[8.5]).check::<MayPrefill>();
    // With prefill tracked, it costs as any other: (160 + 32) / 16 - 4 + 7.
    let rows: [Row<'_>; 1] = [&[(Prefill, 32.0), (Decode, 7.0), (Device, 4.0)]];
    Case { request: request(160), ..decode("{}", &rows, &[15.0]) }.check::<MayPrefill>();
}

#[test]
fn a_row_costs_the_same_wherever_it_stands() {
    // Rows are handled eight to a turn, and the rest one by one.
    let row = [(Prefill, 48.0), (Decode, 2.0), (Device, 4.0), (Host, 1.0), (Taints, 0.5)];
    for rows in [1, 7, 8, 9, 64, 67] {
        check("{}", &vec![&row[..]; rows], &vec![(13.0 - 4.75 + 2.0) * 0.5; rows]);
    }
}
