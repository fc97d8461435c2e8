//! Promises of what a record has of caches.

use super::*;

#[test]
fn a_record_has_each_column_as_the_policy_saw_it_bit_for_bit() {
    let seen: Arc<Mutex<Vec<Vec<f64>>>> = Arc::default();
    let its = seen.clone();
    let policy = move || {
        let its = its.clone();
        let look = scorer(&Input::ALL, move |_, rows, costs| {
            let columns = Input::ALL.iter().filter_map(|&input| rows.column(input));
            *its.lock().expect("nobody panicked") = columns.map(<[f64]>::to_vec).collect();
            costs.fill(0.0);
            Ok(())
        });
        native().scorer("look", look)
    };
    let workers = [tainted(1, &["x"]), worker(2), tainted(3, &["y"])];
    let router = router(policies(OnFailure::Default, policy), workers);
    let _busy = [route(&router, &pinned("Q", 2, 0), 1), route(&router, &pinned("R", 3, 0), 2)];
    tell(&router, rank(1, 0), "AB", Tier::Device);
    tell(&router, rank(2, 0), "A", Tier::Host);
    let shared = RouteRequest { shared_hits: [0..1, 1..2].into(), ..prompt("ABC") };
    let mut prefers = prompt("nobody has it");
    prefers.constraints.preferred_taints = [("x".to_owned(), 0.5)].into();
    let mut pin_prefers = pinned("ABC", 3, 0);
    pin_prefers.constraints.preferred_taints = prefers.constraints.preferred_taints.clone();
    let unknown = RouteRequest { shared_hits: [0..1, 1..2].into(), ..prompt("ZZZ") };
    for request in [prompt("ABC"), shared, prefers, pin_prefers, unknown, request(100)] {
        let decision = router.route(&request, moment(3), Mode::Record).expect("it is routed");
        let seen = seen.lock().expect("nobody panicked").clone();
        let sample = decision.sample.expect("it is recorded").for_another_thread();
        let inputs = Input::ALL.into_iter().filter(|input| input.is_column());
        for (input, column) in inputs.zip(seen) {
            let mut recorded = vec![f64::NAN; column.len()];
            sample.recording.columns.copy(input, &mut recorded);
            let bits = |column: &[f64]| column.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&recorded), bits(&column), "{input} of {request:?}");
        }
    }
}

#[test]
fn a_receipt_tells_what_was_selected_and_what_could_have_been() {
    for reads in [true, false] {
        let policy = move || {
            let inputs = if reads { &[Input::DeviceOverlapBlocks][..] } else { &[] };
            let not_first = filter(inputs, |_, _, mask| {
                mask.reject(0);
                Ok(())
            });
            native()
                .filter("not-first", not_first)
                .picker("last", picker(&[], |_, rows, _| Ok(rows.rows() - 1)))
        };
        let workers = [worker(1), worker(2), worker(3), worker(4)];
        let router = router(policies(OnFailure::Reject, policy), workers);
        tell(&router, rank(1, 0), "ABCD", Tier::Device);
        tell(&router, rank(2, 0), "AB", Tier::Device);
        tell(&router, rank(2, 0), "ABC", Tier::Host);
        tell(&router, rank(4, 0), "A", Tier::Disk);
        for mode in [Mode::Book, Mode::Record] {
            let receipt =
                router.route(&prompt("ABCD"), moment(1), mode).expect("it is routed").receipt;
            assert_eq!((receipt.worker, receipt.kept), (rank(4, 0), 3));
            assert_eq!(receipt.selected_raw_cached_tokens, 16, "unweighted");
            // Worker 1 was filtered out; worker 2 has two on its device, and one more in the host's memory.
            assert_eq!(
                receipt.max_raw_cached_tokens,
                (reads || mode == Mode::Record).then_some(48)
            );
        }
        let unknown =
            router.route(&prompt("ZZZ"), moment(1), Mode::Book).expect("it is routed").receipt;
        assert_eq!(
            (unknown.selected_raw_cached_tokens, unknown.max_raw_cached_tokens),
            (0, reads.then_some(0))
        );
    }
}
