//! What prompts share is counted once.

use super::*;

/// The blocks `1, 2, … n` of a family of prompts, and then its own.
fn chain(family: u64, common: u64, own: std::ops::Range<u64>) -> Arc<[u64]> {
    let common = (1..=common).map(|at| family * 1_000 + at);
    common.chain(own.map(|at| 1_000_000 + at)).collect()
}

fn prompt(chain: &Arc<[u64]>, count: u64) -> Charge<'_> {
    Charge { prompt: PromptBlocks::shared(chain, count), ..Charge::default() }
}

fn active(ledger: &Ledger) -> Vec<u64> {
    check(ledger);
    ledger.loads().iter().map(|load| load.active_decode_blocks).collect()
}

/// What a policy is shown as the cost of a prompt on these rows.
fn costs(ledger: &Ledger, prompt: &PromptBlocks<'_>, rows: &[u32]) -> Vec<f64> {
    ledger.read(|books| {
        let active = &books.columns.active_decode_blocks;
        let mut column: Vec<f64> =
            rows.iter().map(|&row| active[row as usize] + prompt.count() as f64).collect();
        books.take_off_active(prompt, rows, &mut column);
        column
    })
}

#[test]
fn blocks_that_several_requests_share_count_once_on_each_row() {
    let ledger = ledger(&fleet([worker(1), worker(2), worker(3)]));
    let (a, b) = (chain(7, 10, 0..2), chain(7, 10, 5..9));
    // 12 whole blocks and a rest that is its own.
    let first = book(&ledger, 0, prompt(&a, 13));
    assert_eq!((active(&ledger), first.potential_decode_blocks()), (vec![13, 0, 0], 13));
    let second = book(&ledger, 0, prompt(&b, 15));
    assert_eq!(active(&ledger), [13 + 4 + 1, 0, 0], "ten of the fourteen are there");
    assert_eq!(second.potential_decode_blocks(), 18);
    let third = book(&ledger, 1, prompt(&b, 15));
    assert_eq!(active(&ledger), [18, 15, 0]);
    drop(first);
    assert_eq!(active(&ledger), [15, 15, 0]);
    drop(second);
    assert_eq!(active(&ledger), [0, 15, 0]);
    drop(third);
    assert_eq!(active(&ledger), [0, 0, 0]);
}

#[test]
fn a_request_costs_each_row_what_isnt_active_there() {
    let ledger = ledger(&fleet((1..=4).map(worker)));
    let (a, b) = (chain(7, 10, 0..2), chain(7, 10, 5..9));
    let _leases = [
        book(&ledger, 0, prompt(&a, 12)),
        book(&ledger, 1, prompt(&b, 14)),
        book(&ledger, 3, prompt(&chain(8, 3, 0..0), 3)),
    ];
    let asked = PromptBlocks::shared(&b, 15);
    // 12 active + (15 - 10); 14 + (15 - 14); 15; 3 + 15.
    let expected = [17.0, 15.0, 15.0, 18.0];
    assert_eq!(costs(&ledger, &asked, &[0, 1, 2, 3]), expected);
    assert_eq!(costs(&ledger, &asked, &[1, 3]), [15.0, 18.0]);
    let snapshot = ledger.snapshot();
    ledger.read(|books| {
        for (row, expected) in expected.into_iter().enumerate() {
            let potential = books.potential_decode_blocks(&snapshot, row, &asked);
            assert_eq!(potential as f64, expected, "of row {row}");
        }
    });
    assert_eq!(costs(&ledger, &PromptBlocks::own(15), &[0, 1, 2, 3]), [27.0, 29.0, 15.0, 18.0]);
}

#[test]
fn without_reuse_every_request_has_its_own_blocks() {
    let ledger = ledger(&fleet([worker(1)]));
    let own = || Charge { prompt: PromptBlocks::own(12), ..Charge::default() };
    let leases = [book(&ledger, 0, own()), book(&ledger, 0, own())];
    assert_eq!(active(&ledger), [24]);
    drop(leases);
    assert_eq!(active(&ledger), [0]);
}

#[test]
fn more_hashes_than_blocks_count_as_blocks() {
    let ledger = ledger(&fleet([worker(1)]));
    let chain = chain(7, 10, 0..0);
    let lease = book(&ledger, 0, prompt(&chain, 4));
    assert_eq!(active(&ledger), [4]);
    drop(lease);
    let none = book(&ledger, 0, prompt(&chain, 0));
    assert_eq!(active(&ledger), [0]);
    drop(none);
    let empty: Arc<[u64]> = Arc::default();
    let lease = book(&ledger, 0, prompt(&empty, 3));
    assert_eq!(active(&ledger), [3]);
    drop(lease);
    assert_eq!(active(&ledger), [0]);
}
