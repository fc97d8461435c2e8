//! The export that decides at once.
//!
//! Written out instead of generated, since it is the call that decisions wait for. Most requests have no
//! details, and are answered from memory that is kept: the answer stands where the next call's
//! will, which the host has copied by then. One with details goes the generated way, and its
//! answer's memory is given back when the next call comes, and not by a further call of the host's.
#![allow(unsafe_code, reason = "what the canonical ABI hands over is raw memory")]

use std::cell::{Cell, UnsafeCell};

use crate::bindings::fused::exports::pointsman::policy::fused as generated;
use crate::bindings::fused::exports::pointsman::policy::fused::{Guest, Outcome};
use crate::bindings::pointsman::policy::types as wit;
use crate::component::{Component, Configured, bare, with, with_rows};
use crate::instance::Decision;
use crate::lists::Lists;
use crate::policy::Policy;

thread_local! {
    /// The answer of the call before, if it was made the generated way.
    static ANSWERED: Cell<*mut u8> = const { Cell::new(std::ptr::null_mut()) };

    /// Where other answers stand.
    static ANSWER: UnsafeCell<Answer> = const { UnsafeCell::new(Answer::nothing()) };
}

/// `result<outcome, string>` in the canonical ABI's layout.
#[repr(C)]
struct Answer {
    /// 1 for a refusal.
    refused: u8,
    /// Whether there are verdicts; where there is a refusal, its text.
    first: [usize; 2],
    verdicts_length: usize,
    costs: *const f64,
    costs_length: usize,
    row: u32,
    /// The text of a refusal.
    message: String,
}

impl Answer {
    const fn nothing() -> Self {
        Self {
            refused: 0,
            first: [0; 2],
            verdicts_length: 0,
            costs: std::ptr::null(),
            costs_length: 0,
            row: 0,
            message: String::new(),
        }
    }

    #[inline(always)]
    fn decided(&mut self, Decision { verdicts, costs, row }: &Decision) {
        self.refused = 0;
        // All rows are kept.
        self.first = [usize::from(!verdicts.is_empty()), verdicts.as_ptr() as usize];
        self.verdicts_length = verdicts.len();
        (self.costs, self.costs_length) = (costs.as_ptr(), costs.len());
        self.row = *row;
    }

    #[cold]
    fn refused(&mut self, message: String) {
        self.refused = 1;
        self.message = message;
        self.first = [self.message.as_ptr() as usize, self.message.len()];
    }
}

impl<P: Policy> Guest for Component<P> {
    fn decide(request: wit::Request, candidates: wit::Candidates) -> Result<Outcome, String> {
        with_rows(request, candidates, |instance, request, lists| {
            let mut decision = Decision::default();
            instance.decide(request, lists, &mut decision)?;
            let Decision { verdicts, costs, row } = decision;
            let verdicts = (!verdicts.is_empty()).then_some(verdicts);
            Ok(Outcome { verdicts, costs, row })
        })
    }
}

/// Decides, with the request and the candidates as the canonical ABI hands them over.
///
/// # Safety
///
/// To be called by the host alone, as the export that it is for.
#[expect(clippy::too_many_arguments, reason = "the ABI's flattened records")]
pub unsafe fn decide<P: Policy>(
    decision_id: i64,
    prompt_tokens: i64,
    expected_output_tokens: i32,
    trigger: i32,
    traits: i32,
    now_ms: i64,
    seed: i64,
    has_details: i32,
    details: *mut u8,
    details_length: usize,
    rows: i32,
    uniform: i64,
    numbers: *mut u8,
    numbers_length: usize,
) -> *mut u8 {
    let before = ANSWERED.get();
    if !before.is_null() {
        // SAFETY: it is what the call before answered, and is given back once.
        unsafe { generated::__post_return_decide::<Component<P>>(before) };
    }
    if has_details == 0 {
        // SAFETY: as above: the host wrote the numbers for this call, and gave them away.
        let numbers =
            unsafe { Vec::from_raw_parts(numbers.cast(), numbers_length, numbers_length) };
        let request = wit::Request {
            decision_id: decision_id as u64,
            prompt_tokens: prompt_tokens as u64,
            expected_output_tokens: expected_output_tokens as u32,
            trigger: trigger_of(trigger),
            traits: wit::RequestTraits::from_bits_truncate(traits as u8),
            now_ms: now_ms as u64,
            seed: seed as u64,
            details: None,
        };
        ANSWERED.set(std::ptr::null_mut());
        return answer(&request, rows as u32, uniform as u64, &numbers);
    }
    // SAFETY: these are the export's arguments.
    let answer = unsafe {
        generated::_export_decide_cabi::<Component<P>>(
            decision_id,
            prompt_tokens,
            expected_output_tokens,
            trigger,
            traits,
            now_ms,
            seed,
            has_details,
            details,
            details_length,
            rows,
            uniform,
            numbers,
            numbers_length,
        )
    };
    ANSWERED.set(answer);
    answer
}

/// Decides for a request without details.
#[inline(always)]
fn answer(request: &wit::Request, rows: u32, uniform: u64, numbers: &[f64]) -> *mut u8 {
    ANSWER.with(|answer| {
        // SAFETY: nobody else has it: what is called below is the policy, which can't get here.
        let answer = unsafe { &mut *answer.get() };
        let decided = with(|Configured { instance, identity, decision }| {
            let request = bare(request, instance.block_size());
            let lists = Lists { rows, uniform, numbers, identity, prefix_hashes: &[] };
            instance.decide(&request, lists, decision)?;
            answer.decided(decision);
            Ok(())
        });
        if let Err(message) = decided {
            answer.refused(message);
        }
        std::ptr::from_mut(answer).cast()
    })
}

fn trigger_of(number: i32) -> wit::InputTrigger {
    match number {
        1 => wit::InputTrigger::UserMessage,
        2 => wit::InputTrigger::ToolResult,
        3 => wit::InputTrigger::Other,
        _ => wit::InputTrigger::Unknown,
    }
}
