//! Any bookings, against books that are written down anew at each step.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::fleet::WorkerSpec;
use crate::ledger::growth::WHOLE;

const SIZE: u64 = 4;

/// What may happen to a ledger. Numbers choose among what there is then.
#[derive(Clone, Debug)]
enum Step {
    Book { row: usize, from_old_fleet: bool, request: Request },
    PrefillDone(usize),
    Progress(usize, u64),
    Drop(usize),
    Register(u64, u32),
    Remove(u64),
}

#[derive(Clone, Debug)]
struct Request {
    /// The letters of its blocks.
    prompt: Vec<u64>,
    /// Tokens that fill no block.
    rest: u64,
    cached: u64,
    reuse: bool,
    grows: bool,
    expected: Option<u32>,
}

fn request() -> impl Strategy<Value = Request> {
    let prompt = prop::collection::vec(0..2_u64, 0..6);
    let expected = prop::option::of(0..30_u32);
    (prompt, 0..SIZE, 0..20_u64, prop::bool::weighted(0.8), any::<bool>(), expected).prop_map(
        |(prompt, rest, cached, reuse, grows, expected)| Request {
            prompt,
            rest,
            cached,
            reuse,
            grows,
            expected,
        },
    )
}

impl Request {
    fn tokens(&self) -> u64 {
        self.prompt.len() as u64 * SIZE + self.rest
    }

    /// Each hash tells all that comes before it.
    fn chain(&self) -> Arc<[u64]> {
        let mut hash = 1;
        self.prompt
            .iter()
            .map(|letter| {
                hash = hash * 2 + letter;
                hash
            })
            .collect()
    }
}

fn step() -> impl Strategy<Value = Step> {
    let book = (any::<usize>(), prop::bool::weighted(0.2), request());
    prop_oneof![
        6 => book.prop_map(|(row, from_old_fleet, request)| Step::Book { row, from_old_fleet, request }),
        2 => any::<usize>().prop_map(Step::PrefillDone),
        4 => (any::<usize>(), 0..40_u64).prop_map(|(at, tokens)| Step::Progress(at, tokens)),
        4 => any::<usize>().prop_map(Step::Drop),
        1 => (0..4_u64, 1..4_u32).prop_map(|(id, ranks)| Step::Register(id, ranks)),
        1 => (0..4_u64).prop_map(Step::Remove),
    ]
}

/// A lease beside all that happened to it.
struct Live {
    lease: Lease,
    request: Request,
    prefill_tokens: u64,
    generated: u64,
    /// The output's length when the weights were last looked at.
    weighed: u64,
}

impl Live {
    fn new(lease: Lease, request: Request) -> Self {
        let prefill_tokens = request.tokens().saturating_sub(request.cached);
        Self { lease, request, prefill_tokens, generated: 0, weighed: 0 }
    }

    fn blocks(&self, tokens: u64) -> u64 {
        (self.request.tokens() + tokens).div_ceil(SIZE)
    }

    fn progress(&mut self, tokens: u64) {
        self.lease.progress(tokens);
        self.prefill_tokens = if tokens > 0 { 0 } else { self.prefill_tokens };
        if self.request.grows && tokens > self.generated {
            let end = u64::from(self.request.expected.unwrap_or(u32::MAX).max(1));
            let begins = self.blocks(tokens) > self.blocks(self.generated);
            if begins || (self.generated < end && tokens >= end) {
                self.weighed = tokens;
            }
            self.generated = tokens;
        }
    }

    /// What is off the weight of a block that is its own.
    fn off(&self) -> u128 {
        let Some(expected) = self.request.expected.filter(|_| self.weighed > 0) else { return 0 };
        let expected = u128::from(expected.max(1));
        let left = expected.saturating_sub(u128::from(self.weighed));
        u128::from(WHOLE) - left * u128::from(WHOLE) / expected
    }

    /// The beginnings that it shares with others who have them.
    fn shared(&self) -> BTreeSet<Vec<u64>> {
        let prompt = &self.request.prompt;
        let most = if self.request.reuse { prompt.len() } else { 0 };
        (1..=most).map(|end| prompt[..end].to_vec()).collect()
    }

    fn own_blocks(&self) -> u64 {
        self.blocks(self.generated) - self.shared().len() as u64
    }
}

/// A row's weight, written down from its bookings.
fn weight(live: &[&Live]) -> u128 {
    let all: BTreeSet<_> = live.iter().flat_map(|one| one.shared()).collect();
    let whole = u128::from(WHOLE);
    let shared: u128 = all
        .iter()
        .map(|block| {
            let holders: Vec<_> = live.iter().filter(|one| one.shared().contains(block)).collect();
            match holders[..] {
                [alone] => whole - alone.off(),
                _ => whole,
            }
        })
        .sum();
    let own = live.iter().map(|one| u128::from(one.own_blocks()) * (whole - one.off()));
    shared + own.sum::<u128>()
}

fn wanted(prompt: &[u64], live: &[&Live]) -> u64 {
    let all: BTreeSet<_> = live.iter().flat_map(|one| one.shared()).collect();
    let known = (1..=prompt.len()).take_while(|&end| all.contains(&prompt[..end])).count();
    (prompt.len() - known) as u64
}

fn compare(ledger: &Ledger, live: &[Live]) {
    check(ledger);
    let snapshot = ledger.snapshot();
    let asked = Request {
        prompt: vec![0, 1, 1, 0],
        rest: 1,
        cached: 0,
        reuse: true,
        grows: false,
        expected: None,
    };
    let chain = asked.chain();
    let prompt = PromptBlocks::shared(&chain, 5);
    let rows: Vec<u32> = (0..snapshot.rows.len() as u32).collect();
    ledger.read(|books| {
        let mut costs = books.columns.active_decode_blocks.clone();
        books.take_off_active(&prompt, &rows, &mut costs);
        for (row, &rank) in snapshot.rows.iter().enumerate() {
            let epoch = snapshot.worker(row).map(|worker| worker.epoch);
            let mine = |one: &&Live| one.lease.worker() == rank && Some(one.lease.epoch()) == epoch;
            let mine: Vec<&Live> = live.iter().filter(mine).collect();
            let prefill: u64 = mine.iter().map(|one| one.prefill_tokens).sum();
            assert_eq!(books.columns.active_requests[row], mine.len() as f64);
            assert_eq!(books.columns.active_prefill_tokens[row], prefill as f64);
            assert_eq!(books.weights[row], weight(&mine));
            let active = (weight(&mine) + u128::from(WHOLE) / 2) / u128::from(WHOLE);
            assert_eq!(books.columns.active_decode_blocks[row], active as f64);
            let cost = active as u64 + wanted(&asked.prompt, &mine) + 1;
            assert_eq!(costs[row] + 5.0, cost as f64);
            assert_eq!(books.potential_decode_blocks(&snapshot, row, &prompt), cost);
        }
    });
}

proptest! {
    #[test]
    fn the_columns_are_always_the_sum_of_the_live_leases(steps in prop::collection::vec(step(), 1..60)) {
        let mut fleet = fleet([worker(0), ranked(1, 3, 2)]);
        let ledger = ledger(&fleet);
        let mut old_fleet = ledger.snapshot();
        let mut live: Vec<Live> = Vec::new();
        for step in steps {
            match step {
                Step::Book { row, from_old_fleet, request } => {
                    let from = if from_old_fleet { old_fleet.clone() } else { ledger.snapshot() };
                    let row = row % from.rows.len().max(1);
                    let chain = request.chain();
                    let count = request.tokens().div_ceil(SIZE);
                    let grows = request.grows;
                    let charge = Charge {
                        prefill_tokens: request.tokens().saturating_sub(request.cached),
                        prefill_ms: None,
                        prompt: match request.reuse {
                            true => PromptBlocks::shared(&chain, count),
                            false => PromptBlocks::own(count),
                        },
                        growth: grows
                            .then(|| Growth::new(request.tokens(), SIZE as u32, request.expected)),
                    };
                    if let Some(lease) = ledger.book(&from, row, charge, 0) {
                        prop_assert_eq!(lease.worker(), from.rows[row]);
                        live.push(Live::new(lease, request));
                    }
                }
                Step::PrefillDone(at) if !live.is_empty() => {
                    let at = at % live.len();
                    live[at].lease.prefill_done();
                    live[at].prefill_tokens = 0;
                }
                Step::Progress(at, tokens) if !live.is_empty() => {
                    let at = at % live.len();
                    live[at].progress(tokens);
                }
                Step::Drop(at) if !live.is_empty() => {
                    live.swap_remove(at % live.len());
                }
                Step::PrefillDone(_) | Step::Progress(..) | Step::Drop(_) => {}
                Step::Register(id, ranks) => {
                    old_fleet = ledger.snapshot();
                    let spec = WorkerSpec { taints: [ranks.to_string()].into(), ..ranked(id, id as u32, ranks) };
                    fleet.upsert(spec).expect("it is taken");
                    realign(&ledger, &fleet);
                }
                Step::Remove(id) => {
                    old_fleet = ledger.snapshot();
                    let _ = fleet.remove(WorkerId(id));
                    realign(&ledger, &fleet);
                }
            }
            compare(&ledger, &live);
            prop_assert_eq!(ledger.live_leases(), live.len() as u64);
        }
        live.clear();
        compare(&ledger, &live);
        prop_assert!(loads(&ledger).iter().all(|load| *load == (0, 0, 0)));
        ledger.read(|books| assert_eq!(books.blocks.len(), 0));
    }

    #[test]
    fn what_is_left_of_prefills_is_never_negative_nor_more_than_was_booked(
        steps in prop::collection::vec((0..4_u8, any::<usize>(), 0..2_000_u64, 0..50_u64), 1..80),
    ) {
        let ledger = ledger(&fleet([worker(1), worker(2)]));
        let mut leases: Vec<Lease> = Vec::new();
        let mut now_ms = 0;
        for (what, at, tokens, later) in steps {
            now_ms += later;
            match what {
                0 | 1 => {
                    // One in five isn't known.
                    let prefill_ms = (tokens % 5 > 0).then_some(tokens as f64 / 7.0);
                    let charge = Charge { prefill_tokens: tokens, prefill_ms, ..Charge::default() };
                    leases.extend(ledger.book(&ledger.snapshot(), at % 2, charge, now_ms));
                }
                2 if !leases.is_empty() => {
                    let at = at % leases.len();
                    leases[at].prefill_done_at(now_ms);
                }
                3 if !leases.is_empty() => drop(leases.swap_remove(at % leases.len())),
                _ => {}
            }
            check(&ledger);
            let booked = ledger.loads();
            for later in [0, 10, 1_000_000] {
                for (left, booked) in ledger.loads_at(now_ms + later).iter().zip(&booked) {
                    prop_assert!(left.active_prefill_tokens <= booked.active_prefill_tokens);
                }
                let rows = [0, 1];
                let mut column = [-1.0; 2];
                ledger.read(|books| books.fill_prefill(now_ms + later, &rows, &mut column));
                prop_assert!(column.iter().all(|left| *left >= 0.0));
            }
        }
        leases.clear();
        prop_assert!(loads(&ledger).iter().all(|load| *load == (0, 0, 0)));
    }
}
