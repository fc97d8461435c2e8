//! Promises of a decision that looks into caches: what it sees, what it books, what it predicts.

mod refusals;

use super::*;
use crate::cache::RowOverlap;
use crate::hashing::sequence_hash;
use crate::index::{CacheEvent, Content, Stored, Tier};
use crate::policy::settings::ApproximateCachePolicy;

/// Sequence hashes of a prompt of these blocks.
fn chain(blocks: &str) -> Arc<[u64]> {
    let mut parent = None;
    let link = |block| {
        let hash = sequence_hash(parent, block);
        parent = Some(hash);
        hash
    };
    blocks.bytes().map(u64::from).map(link).collect()
}

/// A prompt of whole blocks of 16 tokens, and one token more.
fn prompt(blocks: &str) -> RouteRequest {
    let tokens = blocks.len() as u64 * 16 + 1;
    RouteRequest { chain: chain(blocks), prompt_tokens_exact: true, ..request(tokens) }
}

fn pinned(blocks: &str, id: u64, dp_rank: u32) -> RouteRequest {
    let mut request = prompt(blocks);
    request.constraints.pinned =
        Some(WorkerTarget { worker_id: WorkerId(id), dp_rank: Some(DpRank(dp_rank)) });
    request
}

fn tell(router: &Router, rank: WorkerRank, blocks: &str, tier: Tier) {
    let hashes = chain(blocks);
    let content = Content::Sequences(&hashes);
    let stored = Stored { parent: None, engines: &hashes, content, tier };
    partition(router).cache().apply(rank, CacheEvent::Stored(stored));
}

fn with(settings: RouterSettings, policies: Policies) -> Policies {
    Policies { settings: Arc::new(settings), ..policies }
}

fn approximate() -> RouterSettings {
    RouterSettings { use_kv_events: false, ..RouterSettings::default() }
}

/// Decides at a time, and lets the request end at once.
fn decide(router: &Router, request: &RouteRequest, now_ms: u64) -> Receipt {
    let moment = Moment { now_ms, seed: now_ms };
    router.route(request, moment, Mode::Book).expect("it is routed").receipt
}

/// Device blocks that each row holds of a prompt, as a dry run sees it.
fn device(router: &Router, blocks: &str, now_ms: u64) -> Vec<u64> {
    let moment = Moment { now_ms, seed: 1 };
    let run = router.route(&prompt(blocks), moment, Mode::DryRun).expect("it is routed");
    let rows = run.receipt.rows.expect("a dry run tells of every row");
    rows.iter().map(|row| row.overlap.device_blocks).collect()
}

#[test]
fn the_longest_prefix_gets_the_request_and_a_tie_the_less_loaded() {
    // Both ways to know: what decisions say, and what engines do.
    for tells in [false, true] {
        let router = router(builtin("default"), [ranked(1, 0, 2), ranked(2, 0, 2)]);
        let (a, b) = (rank(1, 1), rank(2, 0));
        for (blocks, to) in [("AB", a), ("ACD", a), ("ACE", b)] {
            if tells {
                tell(&router, to, blocks, Tier::Device);
            } else {
                let forced = pinned(blocks, to.worker_id.0, to.dp_rank.0);
                assert_eq!(decide(&router, &forced, 5).worker, to);
            }
        }
        // Dry runs, which predict nothing.
        let asked = |blocks: &str, seed| {
            let run = router.route(&prompt(blocks), moment(seed), Mode::DryRun);
            let receipt = run.expect("it is routed").receipt;
            (receipt.worker, receipt.overlap.device_blocks, receipt.predicted_cached_tokens)
        };
        // Each of the two carries something in turn.
        for (busy, idle) in [(a, b), (b, a)] {
            let held = pinned("Z", busy.worker_id.0, busy.dp_rank.0);
            let _held = route(&router, &held, 1).expect("it is routed");
            for seed in 0..20 {
                assert_eq!(asked("ACG", seed), (idle, 2, 32));
            }
        }
        assert_eq!(load(&router), [0; 4]);
        assert_eq!(asked("ACDF", 1), (a, 3, 48));
        let longest = route(&router, &prompt("ACDF"), 2).expect("it is routed");
        assert_eq!((longest.receipt.worker, longest.receipt.overlap.device_blocks), (a, 3));
        assert_eq!(load(&router), [0, 1, 0, 0]);
        let tie = route(&router, &prompt("ACG"), 3).expect("it is routed");
        assert_eq!((tie.receipt.worker, tie.receipt.overlap.device_blocks), (b, 2));
        assert_eq!(load(&router), [0, 1, 1, 0]);
        drop((longest, tie));
        assert_eq!(load(&router), [0; 4]);
    }
}

#[test]
fn a_worker_that_begins_anew_is_credited_with_nothing() {
    let router = router(builtin("default"), [worker(1), worker(2)]);
    let restarts: [fn(&Router); 3] = [
        // It comes back at once under its id, or at another address, or only its cache is gone.
        |router| {
            let gone = router.remove_worker(WorkerId(1)).expect("it is there");
            router.upsert_worker(WorkerSpec::clone(&gone.spec)).expect("it is taken");
        },
        |router| {
            let endpoint = "http://elsewhere".to_owned();
            router.upsert_worker(WorkerSpec { endpoint, ..worker(1) }).expect("it is taken");
        },
        |router| {
            partition(router).cache().apply(rank(1, 0), CacheEvent::Cleared);
        },
    ];
    for restart in restarts {
        tell(&router, rank(1, 0), "ABCD", Tier::Device);
        tell(&router, rank(2, 0), "A", Tier::Device);
        assert_eq!(device(&router, "ABCD", 5), [4, 1]);
        assert_eq!(decide(&router, &prompt("ABCD"), 5).worker, rank(1, 0));
        restart(&router);
        assert_eq!(device(&router, "ABCD", 5), [0, 1]);
        assert_eq!(decide(&router, &prompt("ABCD"), 5).worker, rank(2, 0));
    }
    // What is predicted of it goes too, and what its last life's requests hold is nothing to it.
    router.remove_worker(WorkerId(2)).expect("it is there");
    partition(&router).cache().remove_rank(rank(1, 0));
    let running = route(&router, &prompt("XYZ"), 1).expect("it is routed");
    assert_eq!(device(&router, "XYZ", 5), [3]);
    let gone = router.remove_worker(WorkerId(1)).expect("it is there");
    router.upsert_worker(WorkerSpec::clone(&gone.spec)).expect("it is taken");
    assert_eq!(device(&router, "XYZ", 5), [0]);
    drop(running);
    assert_eq!(partition(&router).cache().predicted_stats().held, 0);
}

#[test]
fn overlap_is_the_ranks_that_told_of_it() {
    let router = router(builtin("default"), [ranked(1, 8, 8)]);
    tell(&router, rank(1, 9), "ABCD", Tier::Device);
    // A rank that there isn't tells of nothing.
    tell(&router, rank(1, 0), "ABCD", Tier::Device);
    tell(&router, rank(1, 16), "ABCD", Tier::Device);
    assert_eq!(device(&router, "ABCD", 5), [0, 4, 0, 0, 0, 0, 0, 0]);
    assert_eq!(decide(&router, &prompt("ABCD"), 5).worker, rank(1, 9));
    for (dp_rank, expected) in [(8, 0), (9, 4), (15, 0)] {
        let receipt = decide(&router, &pinned("ABCD", 1, dp_rank), 5);
        assert_eq!((receipt.worker, receipt.overlap.device_blocks), (rank(1, dp_rank), expected));
    }
    for dp_rank in [0, 16] {
        let refused = route(&router, &pinned("ABCD", 1, dp_rank), 1).map(|d| d.receipt);
        assert_eq!(refused.map_err(|error| error.kind()), Err("pinned_worker_unavailable"));
    }
}

#[test]
fn a_receipt_says_what_was_held_whether_or_not_the_policy_asked() {
    let first = || native().picker("first", picker(&[], |_, _, _| Ok(0)));
    for policies in [builtin("default"), builtin("two-tier"), policies(OnFailure::Reject, first)] {
        let router = router(policies, [worker(1)]);
        tell(&router, rank(1, 0), "AB", Tier::Device);
        tell(&router, rank(1, 0), "ABCD", Tier::Host);
        tell(&router, rank(1, 0), "ABCDE", Tier::Disk);
        tell(&router, rank(1, 0), "ABCDEF", Tier::External);
        let receipt = decide(&router, &prompt("ABCDEFG"), 5);
        let expected = RowOverlap {
            device_blocks: 2,
            host_blocks: 2,
            disk_blocks: 1,
            external_blocks: 1,
            // 2 + 0.75 * 2 + 0.25 * 1 + 0.25 * 1
            effective_blocks: 4.0,
        };
        assert_eq!(receipt.overlap, expected, "{}", receipt.policy.policy_type);
        assert_eq!(receipt.predicted_cached_tokens, 6 * 16);
        // Never the last token, and of nobody's tokens nothing.
        let whole = RouteRequest { prompt_tokens: 96, ..prompt("ABCDEF") };
        assert_eq!(decide(&router, &whole, 5).predicted_cached_tokens, 5 * 16);
        assert_eq!(decide(&router, &request(1_000), 5).overlap, RowOverlap::default());
    }
}

#[test]
fn what_is_cached_isnt_booked_as_prefill() {
    let router = router(builtin("default"), [worker(1)]);
    tell(&router, rank(1, 0), "AB", Tier::Device);
    tell(&router, rank(1, 0), "ABCD", Tier::Host);
    let _held = route(&router, &prompt("ABCDE"), 1).expect("it is routed");
    let loads = partition(&router).ledger().loads();
    // 81 tokens, of which 2 + 0.75 * 2 blocks count as cached: 56 tokens.
    assert_eq!((loads[0].active_prefill_tokens, loads[0].active_decode_blocks), (25, 6));
}

/// What a stage saw of a request: its hashes, and whether anything matched.
type Seen = Arc<Mutex<Vec<(Vec<u64>, bool)>>>;

fn spying(seen: &Seen, inputs: &'static [Input], hashes: u32) -> Policies {
    let seen = seen.clone();
    policies(OnFailure::Reject, move || {
        let seen = seen.clone();
        let spy = picker(inputs, move |request, rows, _| {
            let saw = (rows.prefix_hashes().to_vec(), request.has_tier_matches);
            seen.lock().expect("not poisoned").push(saw);
            Ok(0)
        });
        native().prefix_hashes(hashes).picker("spy", spy)
    })
}

#[test]
fn a_stage_gets_as_many_hashes_as_its_policy_declared() {
    for (declared, expected) in [(0, ""), (2, "AB"), (4_000, "ABCDE")] {
        let seen = Seen::default();
        let router = router(spying(&seen, &[], declared), [worker(1)]);
        decide(&router, &prompt("ABCDE"), 5);
        decide(&router, &request(1_000), 5);
        let seen = seen.lock().expect("not poisoned").clone();
        assert_eq!(seen, [(chain(expected).to_vec(), false), (vec![], false)]);
    }
}

#[test]
fn a_policy_that_reads_caches_hears_whether_anything_matched() {
    let seen = Seen::default();
    let router = router(spying(&seen, &[Input::DeviceOverlapBlocks], 0), [worker(1), worker(2)]);
    let heard = |blocks: &str| {
        decide(&router, &prompt(blocks), 5);
        seen.lock().expect("not poisoned").pop().expect("it was asked").1
    };
    assert!(!heard("AB"));
    assert!(heard("AB"), "the decision before predicts it");
    assert!(!heard("BA"));
    // In any tier, of any worker, of the first block at least.
    tell(&router, rank(2, 0), "C", Tier::Disk);
    assert!(heard("CD"));
    assert!(!heard("D"));
    let mut only = prompt("CE");
    only.constraints.allowed = Some([WorkerId(1)].into());
    decide(&router, &only, 5);
    assert_eq!(seen.lock().expect("not poisoned").pop(), Some((vec![], true)));
    assert!(!heard(""));
}

#[test]
fn columns_are_those_of_the_eligible_rows() {
    let columns: Arc<Mutex<Vec<Vec<f64>>>> = Arc::default();
    let inputs = &[
        Input::DeviceOverlapBlocks,
        Input::HostOverlapBlocks,
        Input::DiskOverlapBlocks,
        Input::SharedBeyondDeviceBlocks,
        Input::EffectiveOverlapBlocks,
        Input::CachedTokens,
        Input::ActiveRequests,
    ];
    let policy = {
        let columns = columns.clone();
        move || {
            let columns = columns.clone();
            let spy = picker(inputs, move |_, rows, _| {
                let all = inputs.iter().map(|&i| rows.column(i).unwrap_or_default().to_vec());
                *columns.lock().expect("not poisoned") = all.collect();
                Ok(0)
            });
            native().picker("spy", spy)
        }
    };
    let router = router(policies(OnFailure::Reject, policy), (1..=4).map(worker));
    tell(&router, rank(1, 0), "ABC", Tier::Device);
    tell(&router, rank(3, 0), "A", Tier::Device);
    tell(&router, rank(3, 0), "AB", Tier::Host);
    tell(&router, rank(3, 0), "ABC", Tier::Disk);
    tell(&router, rank(3, 0), "ABCD", Tier::External);
    let held = pinned("", 3, 0);
    let _held = [1, 2].map(|seed| route(&router, &held, seed).expect("it is routed"));
    let ask = |allowed: &[u64]| {
        let mut request = prompt("ABCDE");
        request.shared_hits = vec![0..2, 3..5].into();
        request.constraints.allowed = Some(allowed.iter().copied().map(WorkerId).collect());
        router.route(&request, moment(1), Mode::DryRun).expect("it is routed");
        columns.lock().expect("not poisoned").clone()
    };
    // 3 + 0; 1 + 0.75 + 0.25 * 2.
    let all = [
        [3.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 2.0, 0.0],
        [2.0, 4.0, 3.0, 4.0],
        [3.0, 0.0, 2.25, 0.0],
        [48.0, 0.0, 36.0, 0.0],
        [0.0, 0.0, 2.0, 0.0],
    ];
    assert_eq!(ask(&[1, 2, 3, 4]), all);
    assert_eq!(ask(&[2, 3]), all.map(|column| [column[1], column[2]]));
}

#[test]
fn where_no_engine_tells_a_prompt_counts_where_it_was_sent_for_a_time() {
    let policies =
        with(RouterSettings { router_ttl_secs: 10.0, ..approximate() }, builtin("default"));
    let router = router(policies, [worker(1), worker(2), worker(3)]);
    let first = decide(&router, &prompt("ABCD"), 1_000).worker;
    let at = |now_ms| {
        let held = device(&router, "ABCD", now_ms);
        let row = first.worker_id.0 as usize - 1;
        assert_eq!(held.iter().sum::<u64>(), held[row], "nobody else holds it");
        held[row]
    };
    assert_eq!(at(2_000), 4);
    // What shares its beginning goes there too, and renews that.
    let next = decide(&router, &prompt("ABX"), 9_000);
    assert_eq!((next.worker, next.overlap.device_blocks), (first, 2));
    router.forget_vacant(11_000);
    assert_eq!(at(11_000), 2);
    router.forget_vacant(19_000);
    assert_eq!(at(19_000), 0);
    assert_eq!(partition(&router).cache().predicted_stats().held, 0);
}

#[test]
fn by_capacity_a_prompt_counts_until_its_worker_would_have_evicted_it() {
    let lru = RouterSettings {
        router_approximate_cache_policy: ApproximateCachePolicy::Lru,
        ..approximate()
    };
    let sized = WorkerSpec { total_kv_blocks: Some(8), ..worker(1) };
    let router = router(with(lru, builtin("default")), [sized]);
    let held = |blocks: &str| device(&router, blocks, 5)[0];
    let running = route(&router, &prompt("ABCD"), 1).expect("it is routed");
    decide(&router, &prompt("EFGH"), 1_000_000);
    router.forget_vacant(9_000_000);
    assert_eq!((held("ABCD"), held("EFGH")), (4, 4), "time is no matter");
    // Four more: those go that ended, the deepest first; those that run stay.
    decide(&router, &prompt("IJ"), 9_000_000);
    assert_eq!((held("ABCD"), held("EFGH"), held("IJ")), (4, 2, 2));
    drop(running);
    decide(&router, &prompt("KLMNOP"), 9_000_000);
    assert_eq!((held("EFGH"), held("IJ"), held("ABCD"), held("KLMNOP")), (0, 0, 2, 6));
}

#[test]
fn a_prompt_counts_ahead_of_the_events_if_the_settings_say_so() {
    for (ahead, expected) in [(None, 0), (Some(2.0), 3)] {
        let settings =
            RouterSettings { router_predicted_ttl_secs: ahead, ..RouterSettings::default() };
        let router = router(with(settings, builtin("default")), [worker(1)]);
        partition(&router).cache().expect_events(rank(1, 0));
        decide(&router, &prompt("ABC"), 1_000);
        assert_eq!(device(&router, "ABC", 1_000), [expected]);
        tell(&router, rank(1, 0), "A", Tier::Device);
        router.forget_vacant(3_000);
        assert_eq!(device(&router, "ABC", 3_000), [1], "the others weren't told of");
    }
}

#[test]
fn a_dry_run_predicts_nothing() {
    for settings in [
        RouterSettings::default(),
        approximate(),
        RouterSettings { router_predicted_ttl_secs: Some(9.0), ..RouterSettings::default() },
        RouterSettings {
            router_approximate_cache_policy: ApproximateCachePolicy::Lru,
            ..approximate()
        },
    ] {
        let sized = WorkerSpec { total_kv_blocks: Some(8), ..worker(1) };
        let router = router(with(settings, builtin("default")), [sized, worker(2)]);
        for _ in 0..3 {
            assert_eq!(device(&router, "ABC", 5), [0, 0]);
        }
        assert_eq!(partition(&router).cache().predicted_stats().ranks, 0);
    }
}

#[test]
fn events_that_are_not_believed_are_kept_until_they_are() {
    let router = router(with(approximate(), builtin("default")), [worker(1)]);
    tell(&router, rank(1, 0), "ABC", Tier::Device);
    assert_eq!(device(&router, "ABC", 5), [0]);
    decide(&router, &prompt("ABCDEF"), 5);
    assert_eq!(device(&router, "ABCDEF", 5), [6]);
    install(&router, builtin("default"));
    assert_eq!(device(&router, "ABCDEF", 5), [3], "what was predicted is told now");
}
