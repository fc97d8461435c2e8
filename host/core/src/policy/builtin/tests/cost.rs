//! Promises of the cost function. Every expected cost here was worked out by hand.

use super::*;

use Input::{
    ActivePrefillTokens as Prefill, ActiveRequests as Requests, CachedTokens as Cached,
    DecodeCostBlocks as Decode, DeviceOverlapBlocks as Device, DiskOverlapBlocks as Disk,
    EffectiveOverlapBlocks as Estimate, HostOverlapBlocks as Host,
    PreferredTaintMultiplier as Taints, SharedBeyondDeviceBlocks as Shared,
};

#[test]
fn every_term_of_the_cost_is_as_specified() {
    let settings = RouterSettings::default;
    struct Case {
        name: &'static str,
        role: Role,
        plain_decode: bool,
        settings: RouterSettings,
        prompt: u64,
        tracks: bool,
        tiers: bool,
        rows: Vec<Row>,
        expected: Vec<f64>,
    }
    let base = || Case {
        name: "",
        role: Role::Aggregated,
        plain_decode: false,
        settings: settings(),
        prompt: 160,
        tracks: true,
        tiers: true,
        rows: vec![],
        expected: vec![],
    };
    let cases = [
        Case {
            name: "an idle worker costs the prompt's blocks: 160 / 16",
            rows: vec![&[]],
            expected: vec![10.0],
            ..base()
        },
        Case {
            name: "prefill load counts in blocks, decode load as it is: (160 + 320) / 16 + 7",
            rows: vec![&[(Prefill, 320.0), (Decode, 7.0)]],
            expected: vec![37.0],
            ..base()
        },
        Case {
            name: "prefill is scaled, requests are weighed: 2 * 10 + 3 + 0.5 * 4",
            settings: RouterSettings {
                prefill_load_scale: 2.0,
                decode_active_request_weight: 0.5,
                ..settings()
            },
            rows: vec![&[(Decode, 3.0), (Requests, 4.0)]],
            expected: vec![25.0],
            ..base()
        },
        Case {
            name: "each tier is credited: 10 - (4 + 0.75 * 2 + 0.25 * 2 + 0.5 * 3)",
            settings: RouterSettings { shared_cache_multiplier: 0.5, ..settings() },
            rows: vec![&[(Device, 4.0), (Host, 2.0), (Disk, 2.0), (Shared, 3.0), (Estimate, 99.0)]],
            expected: vec![2.5],
            ..base()
        },
        Case {
            name: "without tier matches the estimate stands for the device: 10 - 6",
            tiers: false,
            rows: vec![&[(Device, 4.0), (Estimate, 6.0)]],
            expected: vec![4.0],
            ..base()
        },
        Case {
            name: "credit never makes prefill negative: max(0, 10 - 50) + 3",
            rows: vec![&[(Device, 50.0), (Decode, 3.0)]],
            expected: vec![3.0],
            ..base()
        },
        Case {
            name: "more cached than asked for counts as cached: max(160, 320) / 16 - 4",
            rows: vec![&[(Cached, 320.0), (Device, 4.0)]],
            expected: vec![16.0],
            ..base()
        },
        Case {
            name: "less cached than asked for cancels out: (160 - 64 + 64) / 16 - 4",
            rows: vec![&[(Cached, 64.0), (Device, 4.0)]],
            expected: vec![6.0],
            ..base()
        },
        Case {
            // The lightest row has 160 tokens, so the second is 20 blocks above it, over a prompt
            // of 10: 1 / (1 + 0.5 * 20 / 10) = 1 / 2. Only the device term fades.
            name: "device credit fades with prefill load above the lightest",
            settings: RouterSettings { overlap_score_credit_decay: 0.5, ..settings() },
            rows: vec![
                &[(Prefill, 160.0), (Device, 4.0), (Host, 4.0)],
                &[(Prefill, 480.0), (Device, 4.0), (Host, 4.0)],
            ],
            expected: vec![20.0 - 4.0 - 3.0, 40.0 - 2.0 - 3.0],
            ..base()
        },
        Case {
            // An empty prompt counts as one block: 1 / (1 + 0.5 * 2 / 1) = 1 / 2.
            name: "decay divides by one block at least",
            prompt: 0,
            settings: RouterSettings { overlap_score_credit_decay: 0.5, ..settings() },
            rows: vec![&[(Prefill, 32.0), (Device, 1.0)], &[(Device, 1.0)]],
            expected: vec![2.0 - 0.5, 0.0],
            ..base()
        },
        Case {
            name: "a prompt whose prefill isn't tracked costs decode alone, and nothing fades",
            tracks: false,
            settings: RouterSettings { overlap_score_credit_decay: 0.5, ..settings() },
            rows: vec![&[(Prefill, 320.0), (Decode, 7.0), (Device, 2.0)]],
            expected: vec![7.0],
            ..base()
        },
        Case {
            name: "credit 0 leaves every cache term out",
            settings: RouterSettings { overlap_score_credit: 0.0, ..settings() },
            rows: vec![&[(Device, 4.0), (Host, 4.0), (Cached, 999.0)]],
            expected: vec![10.0],
            ..base()
        },
        Case {
            name: "credit may exceed one: 10 - 2 * 4",
            settings: RouterSettings { overlap_score_credit: 2.0, ..settings() },
            rows: vec![&[(Device, 4.0)]],
            expected: vec![2.0],
            ..base()
        },
        Case {
            name: "preferred taints multiply the whole: (10 + 2) * 0.5",
            rows: vec![&[(Decode, 2.0), (Taints, 0.5)]],
            expected: vec![6.0],
            ..base()
        },
        Case {
            name: "a prefill worker costs as an aggregated one",
            role: Role::Prefill,
            rows: vec![&[(Prefill, 320.0), (Decode, 7.0), (Device, 4.0)]],
            expected: vec![33.0],
            ..base()
        },
        Case {
            name: "plain decode has no cache terms: (160 + 32) / 16 + 7",
            role: Role::Decode,
            plain_decode: true,
            rows: vec![&[(Prefill, 32.0), (Decode, 7.0), (Device, 4.0)]],
            expected: vec![19.0],
            ..base()
        },
        Case {
            name: "plain decode without prefill: decode blocks and requests",
            role: Role::Decode,
            plain_decode: true,
            tracks: false,
            settings: RouterSettings { decode_active_request_weight: 2.0, ..settings() },
            rows: vec![&[(Prefill, 32.0), (Decode, 7.0), (Requests, 3.0), (Device, 4.0)]],
            expected: vec![13.0],
            ..base()
        },
        Case {
            // max(0, 7 - 4) + 0.5 * 3; max(0, 2 - 4) + 0.5 * 1
            name: "a decode worker that may prefill is credited on its decode blocks",
            role: Role::Decode,
            tracks: false,
            settings: RouterSettings { decode_active_request_weight: 0.5, ..settings() },
            rows: vec![
                &[(Decode, 7.0), (Requests, 3.0), (Device, 4.0)],
                &[(Decode, 2.0), (Requests, 1.0), (Device, 4.0)],
            ],
            expected: vec![4.5, 0.5],
            ..base()
        },
        Case {
            // Only what the device holds is credited less, or more: 10 - (2 * 1 + 0.75 * 4).
            name: "the credit's weight is the device's alone",
            settings: RouterSettings { overlap_score_credit: 2.0, ..settings() },
            rows: vec![&[(Device, 1.0), (Host, 4.0)]],
            expected: vec![5.0],
            ..base()
        },
        Case {
            name: "a disk has its own weight: 10 - (1 + 0.5 * 6)",
            settings: RouterSettings { disk_cache_hit_weight: 0.5, ..settings() },
            rows: vec![&[(Device, 1.0), (Disk, 6.0)]],
            expected: vec![6.0],
            ..base()
        },
        Case {
            name: "tiers without a weight count for nothing: 10 - 1",
            settings: RouterSettings {
                host_cache_hit_weight: 0.0,
                disk_cache_hit_weight: 0.0,
                ..settings()
            },
            rows: vec![&[(Device, 1.0), (Host, 4.0), (Disk, 4.0), (Shared, 4.0)]],
            expected: vec![9.0],
            ..base()
        },
        Case {
            // 3 blocks beyond the device at 0.25; the shared cache's weight doesn't fade.
            name: "what is shared beyond the device is credited in full",
            settings: RouterSettings {
                shared_cache_multiplier: 0.25,
                overlap_score_credit_decay: 1.0,
                ..settings()
            },
            rows: vec![
                &[(Prefill, 160.0), (Device, 2.0), (Shared, 3.0)],
                &[(Device, 2.0), (Shared, 3.0)],
            ],
            // 10 blocks above the lightest, over a prompt of 10: 1 / (1 + 1) = 1 / 2.
            expected: vec![20.0 - 1.0 - 0.75, 10.0 - 2.0 - 0.75],
            ..base()
        },
        Case {
            // Without tier matches the estimate fades as the device does: 20 - 6 / 2, 10 - 6.
            name: "the estimate fades too",
            tiers: false,
            settings: RouterSettings { overlap_score_credit_decay: 1.0, ..settings() },
            rows: vec![&[(Prefill, 160.0), (Estimate, 6.0)], &[(Estimate, 6.0)]],
            expected: vec![17.0, 4.0],
            ..base()
        },
        Case {
            // Decay counts blocks of the request, rounded up: 161 tokens are 11 blocks, and
            // 176 tokens above are 11: 1 / (1 + 1). (161 + 176) / 16 - 4 / 2 = 19.0625.
            name: "decay is over the request's blocks",
            prompt: 161,
            settings: RouterSettings { overlap_score_credit_decay: 1.0, ..settings() },
            rows: vec![&[(Prefill, 176.0), (Device, 4.0)], &[]],
            expected: vec![19.0625, 10.0625],
            ..base()
        },
        Case {
            name: "a prompt that is no whole number of blocks costs a part of one: 100 / 16 - 2",
            prompt: 100,
            rows: vec![&[(Device, 2.0)]],
            expected: vec![4.25],
            ..base()
        },
        Case {
            // 0 * prefill + 7 + 2 * 3; what is cached has nothing to be taken from.
            name: "prefill that weighs nothing costs nothing",
            settings: RouterSettings {
                prefill_load_scale: 0.0,
                decode_active_request_weight: 2.0,
                ..settings()
            },
            rows: vec![&[(Prefill, 320.0), (Decode, 7.0), (Requests, 3.0), (Device, 4.0)]],
            expected: vec![13.0],
            ..base()
        },
        Case {
            // 2 * max(0, (160 + 32) / 16 - 4) + 7
            name: "credit is scaled with the prefill that it is taken from",
            settings: RouterSettings { prefill_load_scale: 2.0, ..settings() },
            rows: vec![&[(Prefill, 32.0), (Decode, 7.0), (Device, 4.0)]],
            expected: vec![23.0],
            ..base()
        },
        Case {
            // 5 * 0.5, and 5 * 2: also what is only requests and decode blocks.
            name: "taints multiply decode workers' costs too",
            role: Role::Decode,
            plain_decode: true,
            tracks: false,
            rows: vec![&[(Decode, 5.0), (Taints, 0.5)], &[(Decode, 5.0), (Taints, 2.0)]],
            expected: vec![2.5, 10.0],
            ..base()
        },
        Case {
            // (160 + 32) / 16 - 4 + 7: with prefill tracked, it costs as any other.
            name: "a decode worker that may prefill and does costs as an aggregated one",
            role: Role::Decode,
            rows: vec![&[(Prefill, 32.0), (Decode, 7.0), (Device, 4.0)]],
            expected: vec![15.0],
            ..base()
        },
        Case {
            // max(0, 9 - (2 * 2 + 0.75 * 2 + 0.25 * 4 + 0.5 * 1)); prefill's weight is no matter.
            name: "all tiers are credited on a decode worker's blocks",
            role: Role::Decode,
            tracks: false,
            settings: RouterSettings {
                overlap_score_credit: 2.0,
                overlap_score_credit_decay: 3.0,
                shared_cache_multiplier: 0.5,
                prefill_load_scale: 0.0,
                ..settings()
            },
            rows: vec![
                &[(Decode, 9.0), (Device, 2.0), (Host, 2.0), (Disk, 4.0), (Shared, 1.0)],
                &[(Decode, 9.0), (Prefill, 999.0)],
            ],
            expected: vec![2.0, 9.0],
            ..base()
        },
        Case {
            // No credit, no variant: 7 + 0.5 * 3.
            name: "a decode worker that may prefill isn't credited without a weight",
            role: Role::Decode,
            tracks: false,
            settings: RouterSettings {
                overlap_score_credit: 0.0,
                decode_active_request_weight: 0.5,
                ..settings()
            },
            rows: vec![&[(Decode, 7.0), (Requests, 3.0), (Device, 4.0), (Host, 4.0)]],
            expected: vec![8.5],
            ..base()
        },
        Case {
            name: "an encode worker costs as an aggregated one",
            role: Role::Encode,
            rows: vec![&[(Decode, 7.0)]],
            expected: vec![17.0],
            ..base()
        },
    ];
    for case in cases {
        let mut cost = DefaultCost::new(&case.settings, case.role, case.plain_decode);
        let inputs = cost.inputs().to_vec();
        let matrix = columns(&case.rows, &inputs);
        let (ids, declared) = (ids(case.rows.len()), inputs.iter().copied().collect());
        let rows = Candidates::new(&ids, &matrix, declared, &[]);
        let request = request(case.prompt);
        let view =
            RequestView { has_tier_matches: case.tiers, ..view(&request, moment(1), case.tracks) };
        let mut costs = vec![f64::NAN; ids.len()];
        cost.score(&view, &rows, &mut costs).expect("it scores");
        assert_eq!(costs, case.expected, "{}", case.name);
    }
}

#[test]
fn each_row_gets_its_cost_whatever_stood_in_its_place() {
    let rows: [Row; 2] = [&[(Prefill, 480.0), (Device, 4.0), (Host, 2.0)], &[(Decode, 7.0)]];
    let weights = [0.0, 0.5];
    let (roles, ids) = ([Role::Aggregated, Role::Prefill, Role::Decode], ids(rows.len()));
    for choice in 0..1_u32 << 10 {
        let is = |bit: u32| choice >> bit & 1 == 1;
        let weight = |bit: u32| weights[usize::from(is(bit))];
        let settings = RouterSettings {
            prefill_load_scale: weight(0),
            overlap_score_credit: weight(1),
            overlap_score_credit_decay: weight(2),
            host_cache_hit_weight: weight(3),
            shared_cache_multiplier: weight(4),
            decode_active_request_weight: weight(5),
            ..RouterSettings::default()
        };
        for role in roles {
            let mut scorer = DefaultCost::new(&settings, role, is(6));
            assert!(scorer.leaves_none_out());
            let matrix = columns(&rows, scorer.inputs());
            let declared = scorer.inputs().iter().copied().collect();
            let seen = Candidates::new(&ids, &matrix, declared, &[]);
            let request = request(if is(7) { 160 } else { 0 });
            let asked = RequestView { has_tier_matches: is(8), ..view(&request, moment(1), is(9)) };
            let [fresh, stale] = [f64::NAN, 1e9].map(|before| {
                let mut costs = [before; 2];
                scorer.score(&asked, &seen, &mut costs).expect("it has what it declared");
                costs.map(f64::to_bits)
            });
            assert_eq!(fresh, stale, "{settings:?} {role:?} {asked:?}");
            assert!(fresh.iter().all(|&bits| f64::from_bits(bits).is_finite()));
        }
    }
}
