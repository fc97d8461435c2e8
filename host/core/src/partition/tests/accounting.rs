//! Promises of what decisions book, and of what they are shown of that.

use super::*;
use crate::clock::Moment;
use crate::policy::settings::PrefillLoadModel;

/// A prompt whose blocks are these letters, `rest` tokens longer than they.
fn prompt(letters: &str, rest: u64) -> RouteRequest {
    let mut hash = 7_u64;
    let link = |letter: u8| {
        hash = hash.wrapping_mul(31) + u64::from(letter);
        hash
    };
    let chain: Arc<[u64]> = letters.bytes().map(link).collect();
    let tokens = chain.len() as u64 * 16 + rest;
    RouteRequest { chain, prompt_tokens_exact: true, ..request(tokens) }
}

fn pinned(request: RouteRequest, id: u64) -> RouteRequest {
    let mut request = request;
    request.constraints.pinned = Some(WorkerTarget { worker_id: WorkerId(id), dp_rank: None });
    request
}

type Columns = Arc<Mutex<Vec<f64>>>;

/// A router whose policy keeps the column that it was shown last.
fn watched(
    settings: RouterSettings,
    input: Input,
    ids: std::ops::RangeInclusive<u64>,
) -> (Router, Columns) {
    let seen = Columns::default();
    let saw = seen.clone();
    let policy = move || {
        let saw = saw.clone();
        native().scorer(
            "s",
            scorer(&[input], move |_, rows, costs| {
                let column = rows.column(input).unwrap_or_default();
                *saw.lock().expect("not poisoned") = column.to_vec();
                costs.fill(0.0);
                Ok(())
            }),
        )
    };
    let policies = Policies { settings: Arc::new(settings), ..policies(OnFailure::Reject, policy) };
    (router(policies, ids.map(worker)), seen)
}

fn shown(columns: &Columns) -> Vec<f64> {
    columns.lock().expect("not poisoned").clone()
}

fn check(router: &Router) {
    let audit = partition(router).audit();
    assert_eq!(audit.wrong, 0, "{audit:?}");
}

fn blocks(router: &Router) -> Vec<u64> {
    check(router);
    partition(router).ledger().loads().iter().map(|load| load.active_decode_blocks).collect()
}

#[test]
fn a_policy_is_shown_what_a_prompt_would_add_on_each_row() {
    let (router, seen) = watched(RouterSettings::default(), Input::DecodeCostBlocks, 1..=3);
    let _held = [
        route(&router, &pinned(prompt("ABCD", 1), 1), 1).expect("it is routed"),
        route(&router, &pinned(prompt("ABXY", 1), 1), 2).expect("it is routed"),
        route(&router, &pinned(prompt("AB", 0), 3), 3).expect("it is routed"),
    ];
    // On the first worker AB, CD, XY and two rests.
    assert_eq!(blocks(&router), [8, 0, 2]);
    let asked = prompt("ABCZ", 5);
    let dry = |request: &RouteRequest| {
        router.route(request, moment(1), Mode::DryRun).expect("it is routed").receipt
    };
    let receipt = dry(&asked);
    // ABC is there: Z and the rest come. Nothing is there. AB is there.
    assert_eq!(shown(&seen), [8.0 + 2.0, 5.0, 2.0 + 3.0]);
    let place = receipt.worker.worker_id.0 as usize - 1;
    assert_eq!(receipt.potential_decode_blocks as f64, shown(&seen)[place]);
    let mut narrowed = asked.clone();
    narrowed.constraints.allowed = Some([WorkerId(1), WorkerId(3)].into());
    dry(&narrowed);
    assert_eq!(shown(&seen), [10.0, 5.0]);
    let decision = route(&router, &pinned(asked, 1), 4).expect("it is routed");
    assert_eq!(decision.receipt.potential_decode_blocks, 10);
    assert_eq!(blocks(&router), [10, 0, 2]);
}

#[test]
fn without_reuse_nothing_is_shared_by_setting_or_by_request() {
    for (setting, by_request, expected) in
        [(true, None, 5_u32), (false, None, 10), (true, Some(false), 10), (false, Some(true), 5)]
    {
        let settings = RouterSettings { router_assume_kv_reuse: setting, ..Default::default() };
        let (router, seen) = watched(settings, Input::DecodeCostBlocks, 1..=1);
        let mut request = prompt("ABCDE", 0);
        request.assume_kv_reuse = by_request;
        let _first = route(&router, &request, 1).expect("it is routed");
        let second = route(&router, &request, 2).expect("it is routed");
        assert_eq!(shown(&seen), [f64::from(expected)]);
        assert_eq!(second.receipt.potential_decode_blocks, u64::from(expected));
        assert_eq!(blocks(&router), [u64::from(expected)]);
    }
}

#[test]
fn without_tracking_there_are_no_blocks_but_the_requests_own_in_its_receipt() {
    let settings = RouterSettings { router_track_active_blocks: false, ..Default::default() };
    let (router, seen) = watched(settings, Input::DecodeCostBlocks, 1..=1);
    let _first = route(&router, &prompt("ABC", 0), 1).expect("it is routed");
    let second = route(&router, &prompt("ABC", 1), 1).expect("it is routed");
    assert_eq!((shown(&seen), blocks(&router)), (vec![0.0], vec![0]));
    assert_eq!(second.receipt.potential_decode_blocks, 4);
}

#[test]
fn output_blocks_are_booked_where_that_is_wanted() {
    for (tracks, expected) in [(false, [3, 3, 3]), (true, [3, 4, 4])] {
        let settings = RouterSettings { router_track_output_blocks: tracks, ..Default::default() };
        let (router, _) = watched(settings, Input::DecodeCostBlocks, 1..=1);
        let mut request = prompt("ABC", 0);
        request.expected_output_tokens = Some(1_000);
        let mut decision = route(&router, &request, 1).expect("it is routed");
        let lease = decision.lease.as_mut().expect("it is booked");
        for (tokens, expected) in [0, 1, 16].into_iter().zip(expected) {
            lease.progress(tokens);
            assert_eq!(blocks(&router), [expected]);
        }
        // At the guessed end nothing is left to do.
        decision.lease.as_mut().expect("it is booked").progress(1_000);
        assert_eq!(blocks(&router), [if tracks { 0 } else { 3 }]);
        drop(decision);
        assert_eq!(blocks(&router), [0]);
    }
}

#[test]
fn a_policy_is_shown_what_is_left_of_prefills_at_the_moment_of_its_decision() {
    let model =
        PrefillLoadModel { constant_ms: 20.0, ms_per_token: 0.5, ms_per_token_squared: 0.0 };
    let settings =
        RouterSettings { router_prefill_load_model: Some(model), ..RouterSettings::default() };
    let (router, seen) = watched(settings, Input::ActivePrefillTokens, 1..=2);
    let at = |now_ms, request: &RouteRequest| {
        let moment = Moment { now_ms, seed: 1 };
        router.route(request, moment, Mode::DryRun).expect("it is routed");
        shown(&seen)
    };
    // 160 tokens take 20 + 80 ms.
    let _held = router
        .route(&pinned(request(160), 2), Moment { now_ms: 1_000, seed: 1 }, Mode::Book)
        .expect("it is routed");
    assert_eq!(at(1_000, &request(1)), [0.0, 160.0]);
    assert_eq!(at(1_025, &request(1)), [0.0, 120.0]);
    assert_eq!(at(1_050, &pinned(request(1), 2)), [80.0]);
    assert_eq!(at(2_000, &request(1)), [0.0, 0.0]);
    check(&router);
}

#[test]
fn a_prompt_goes_where_its_blocks_are_active_though_no_cache_tells() {
    let router = router(builtin("default"), (1..=4).map(worker));
    let family = prompt(&"A".repeat(200), 3);
    let mut first = route(&router, &pinned(family.clone(), 3), 1).expect("it is routed");
    first.lease.as_mut().expect("it is booked").prefill_done();
    // Another of the family adds one block there, 201 elsewhere.
    let second = route(&router, &family, 2).expect("it is routed");
    assert_eq!((second.receipt.worker, blocks(&router)), (rank(3, 0), vec![0, 0, 202, 0]));
}

#[test]
fn misses_go_to_the_idle_worker_however_much_it_has_cached_until_loads_cross() {
    let router = router(builtin("default"), [worker(1), worker(2)]);
    // The idle one has a big tree, the busy one a small one.
    let tell = |id: u64, hashes: &[u64]| {
        use crate::index::{CacheEvent, Content, Stored, Tier};
        let content = Content::Sequences(hashes);
        let stored = Stored { parent: None, engines: hashes, content, tier: Tier::Device };
        partition(&router).cache().apply(rank(id, 0), CacheEvent::Stored(stored));
    };
    tell(1, &[1, 2, 3]);
    tell(2, &(1_000_000..1_010_000).collect::<Vec<_>>());
    let unique = |n: u64| RouteRequest {
        chain: (0..500).map(|at| 10_000_000 + n * 1_000 + at).collect(),
        ..request(8_000)
    };
    let _heavy: Vec<_> =
        (0..20).map(|n| route(&router, &pinned(unique(n), 1), n).expect("it is routed")).collect();
    let misses: Vec<_> =
        (20..40).map(|n| route(&router, &unique(n), n).expect("it is routed")).collect();
    assert!(misses.iter().all(|miss| miss.receipt.worker == rank(2, 0)));
    assert_eq!((load(&router), blocks(&router)), (vec![20, 20], vec![10_000, 10_000]));
    let _crossed: Vec<_> =
        (40..42).map(|n| route(&router, &unique(n), n).expect("it is routed")).collect();
    assert_eq!(load(&router), [21, 21]);
}

#[test]
fn long_prompts_of_one_output_token_wait_evenly_also_where_they_melt() {
    let melts = Some(PrefillLoadModel::default());
    for router_prefill_load_model in [None, melts] {
        let settings = RouterSettings { router_prefill_load_model, ..RouterSettings::default() };
        let policies = Policies { settings: Arc::new(settings), ..builtin("default") };
        let router = router(policies, (1..=5).map(worker));
        // Each worker computes one prompt after the other, as long as the model says.
        let duration = PrefillLoadModel::default().duration_ms(32_000).expect("it takes a while");
        let mut lines: [std::collections::VecDeque<Decision>; 5] = Default::default();
        let mut ends = [0.0_f64; 5];
        for n in 0..300_u64 {
            // Faster than five can: they all fall behind, and alike.
            let now_ms = (n as f64 * duration / 6.0) as u64;
            for (line, end) in lines.iter_mut().zip(&mut ends) {
                while !line.is_empty() && *end <= now_ms as f64 {
                    let mut done = line.pop_front().expect("it is not empty");
                    done.lease.as_mut().expect("it is booked").prefill_done_at(*end as u64);
                    *end += if line.is_empty() { 0.0 } else { duration };
                }
            }
            let request = RouteRequest {
                chain: (0..2_000).map(|at| n * 10_000 + at).collect(),
                ..request(32_000)
            };
            let decision = router
                .route(&request, Moment { now_ms, seed: n }, Mode::Book)
                .expect("it is routed");
            let at = decision.receipt.worker.worker_id.0 as usize - 1;
            if lines[at].is_empty() {
                ends[at] = now_ms as f64 + duration;
            }
            lines[at].push_back(decision);
            let waiting = lines.each_ref().map(std::collections::VecDeque::len);
            let spread = waiting.iter().max().zip(waiting.iter().min()).map(|(max, min)| max - min);
            assert!(spread.is_some_and(|spread| spread <= 2), "{waiting:?}");
            assert_eq!(load(&router), waiting.map(|n| n as u64), "booked at choice time");
        }
        check(&router);
        drop(lines);
        assert_eq!(blocks(&router), [0; 5]);
    }
}
