//! The export that decides at once.
//!
//! Written out instead of generated, since it is the call that decisions wait for: an answer's memory is
//! given back when the next call comes, and not by a further call of the host's. The host has copied
//! it by then.
#![allow(unsafe_code, reason = "what the canonical ABI hands over is raw memory")]

use std::cell::Cell;

use crate::bindings::fused::exports::pointsman::policy::fused as generated;
use crate::bindings::fused::exports::pointsman::policy::fused::{Guest, Outcome};
use crate::bindings::pointsman::policy::types as wit;
use crate::component::{Component, with_rows};
use crate::instance::Decision;
use crate::policy::Policy;

thread_local! {
    /// The answer of the call before.
    static ANSWERED: Cell<*mut u8> = const { Cell::new(std::ptr::null_mut()) };
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
