//! Output blocks, and what weighs less as a guessed end comes nearer.

use super::*;

fn growing<'a>(chain: &'a Arc<[u64]>, tokens: u64, expected: Option<u32>) -> Charge<'a> {
    Charge {
        prefill_tokens: tokens,
        prompt: PromptBlocks::shared(chain, tokens.div_ceil(16)),
        growth: Some(Growth::new(tokens, 16, expected)),
        ..Charge::default()
    }
}

fn active(ledger: &Ledger) -> u64 {
    check(ledger);
    ledger.loads()[0].active_decode_blocks
}

#[test]
fn output_blocks_are_booked_as_they_begin() {
    let ledger = ledger(&fleet([worker(1)]));
    let chain: Arc<[u64]> = [1, 2].into();
    let mut lease = book(&ledger, 0, growing(&chain, 40, None));
    assert_eq!(loads(&ledger), [(1, 40, 3)]);
    lease.progress(0);
    assert_eq!(loads(&ledger), [(1, 40, 3)], "nothing has come");
    lease.progress(1);
    assert_eq!(loads(&ledger), [(1, 0, 3)], "the first token ends the prefill");
    lease.progress(8);
    assert_eq!(active(&ledger), 3, "48 tokens are three blocks");
    lease.progress(9);
    lease.progress(9);
    lease.progress(3);
    assert_eq!(active(&ledger), 4);
    lease.progress(100);
    assert_eq!(active(&ledger), 9);
    drop(lease);
    assert_eq!(loads(&ledger), [(0, 0, 0)]);
}

#[test]
fn without_output_tracking_progress_ends_the_prefill_and_nothing_else() {
    let ledger = ledger(&fleet([worker(1)]));
    let mut lease = book(&ledger, 0, charge(40, 3));
    lease.progress(500);
    assert!(!lease.output_block(Some(0.5)));
    assert_eq!(loads(&ledger), [(1, 0, 3)]);
}

#[test]
fn what_a_request_has_to_itself_weighs_what_is_left_of_its_output() {
    let ledger = ledger(&fleet([worker(1)]));
    // Eight blocks of prompt, of which six are shared; 64 output tokens are expected.
    let common: Vec<u64> = (1..=6).collect();
    let one: Arc<[u64]> = common.iter().copied().chain([11, 12]).collect();
    let other: Arc<[u64]> = common.iter().copied().chain([21, 22]).collect();
    let mut lease = book(&ledger, 0, growing(&one, 128, Some(64)));
    let sharer = book(&ledger, 0, growing(&other, 128, None));
    assert_eq!(active(&ledger), 10);
    // A quarter is out: one output block and two of the prompt at 3/4, eight whole ones.
    lease.progress(16);
    assert_eq!(active(&ledger), 10, "8 + 3 * 0.75 = 10.25");
    // Half: two output blocks.
    lease.progress(32);
    assert_eq!(active(&ledger), 10, "8 + 4 * 0.5 = 10");
    // The sharer goes: the six blocks are its own again, and weigh half.
    drop(sharer);
    assert_eq!(active(&ledger), 5, "10 * 0.5");
    // Somebody shares three of them: these have their full weight.
    let three: Arc<[u64]> = [1, 2, 3].into();
    let short = book(&ledger, 0, growing(&three, 48, None));
    assert_eq!(active(&ledger), 7, "3 + 7 * 0.5 = 6.5, rounded");
    lease.progress(64);
    assert_eq!(active(&ledger), 3, "what is its own weighs nothing at the guessed end");
    lease.progress(400);
    assert_eq!(active(&ledger), 3, "nor past it");
    drop(lease);
    assert_eq!(active(&ledger), 3);
    drop(short);
    ledger.read(|books| assert_eq!(books.weights, [0]));
    assert_eq!(active(&ledger), 0);
}

#[test]
fn fractions_of_any_kind_leave_nothing_behind() {
    let ledger = ledger(&fleet([worker(1)]));
    let chain: Arc<[u64]> = [1, 2, 3].into();
    let mut leases: Vec<Lease> =
        [3, 7, 11, 13].map(|end| book(&ledger, 0, growing(&chain, 50, Some(end)))).into();
    for tokens in 1..40 {
        leases.iter_mut().for_each(|lease| lease.progress(tokens));
        check(&ledger);
    }
    for (lease, fraction) in leases.iter_mut().zip([f64::NAN, -1.0, 1.0 / 3.0, f64::INFINITY]) {
        assert!(lease.output_block(Some(fraction)));
        check(&ledger);
    }
    drop(leases);
    ledger.read(|books| assert_eq!(books.weights, [0]));
}
