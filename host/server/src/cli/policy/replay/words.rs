//! What came of a replay, in words.

use std::path::PathBuf;

use pointsman_core::classifier::{Admission, Answer, Release, Verdict};

use crate::replay::classifier::{CallSummary, Difference, Differs, Hold, Holds, Released};
use crate::replay::{Again, Summary};

pub(super) fn files(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

pub(super) fn told(again: &Again) -> String {
    match again {
        Again::Same { same_cost: true } => "the same".to_owned(),
        Again::Same { same_cost: false } => "the same, at another cost".to_owned(),
        Again::Differs { chosen, cost, cached_tokens_gained } => format!(
            "now {chosen}, cost {cost}, {cached_tokens_gained:+} tokens predicted to be cached"
        ),
        Again::Failed { why } => format!("now it fails: {why}"),
        Again::Impossible { why } => format!("can't be made again: {why}"),
    }
}

pub(super) fn summed_up(summary: &Summary) -> String {
    let Summary {
        decisions,
        same,
        same_to_the_last_bit,
        differ,
        failed,
        impossible,
        cached_tokens_gained,
        cached_tokens_lost,
        stateless,
    } = summary;
    let mut text = format!(
        "decisions   {decisions}\nsame        {same}, {same_to_the_last_bit} of them at the same cost to the last bit\n\
         differ      {differ}: {cached_tokens_gained} cached tokens gained, {cached_tokens_lost} lost\n\
         failed      {failed}\nimpossible  {impossible}\n"
    );
    if !stateless {
        text += "The policy keeps state: only a complete record of a partition, in order, can be repeated exactly, and none if it follows the fleet or observes outcomes.\n";
    }
    text
}

/// A difference of a classifier's, on one line.
pub(super) fn differs(difference: &Difference) -> String {
    let Difference { partition, instance, call, now_ms, what } = difference;
    let what = match what {
        Differs::Verdict { request_id, was, now } => {
            format!("request {request_id:?} was {}: now {}", answered(was), answered(now))
        }
        Differs::Released { event, request_id, was, now } => {
            let of = request_id.as_ref().map(|id| format!(" {id:?}")).unwrap_or_default();
            format!("{event}{of} released {}: now {}", released(was), released(now))
        }
        Differs::Held { request_id, was, now } => {
            format!("request {request_id:?} was {}: now {}", held(*was), held(*now))
        }
        Differs::Declaration { was, now } => format!(
            "wanted a tick every {} ms and to hold {} at most: now {} ms and {}; ticks come as they came",
            was.tick_ms, was.most_held, now.tick_ms, now.most_held
        ),
        Differs::Lost { cause } => {
            format!("now the instance is lost ({cause}): the rest of its log can't be repeated")
        }
    };
    format!("{partition} instance {instance} call {call}, at {now_ms} ms  {what}")
}

fn answered(answer: &Answer<Verdict>) -> String {
    match answer {
        Answer::Gave(verdict) => verdict_in_words(verdict),
        Answer::Failed(cause) => format!("failed ({cause})"),
    }
}

fn verdict_in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Hold => "held".to_owned(),
        Verdict::Reject(_) => "refused".to_owned(),
        Verdict::Admit(Admission {
            policy_class,
            due_at_ms,
            scheduling_cost_tokens,
            selection_target,
        }) => {
            let with = [
                policy_class.as_ref().map(|class| format!("in class {class:?}")),
                due_at_ms.map(|due| format!("due at {due} ms")),
                scheduling_cost_tokens.map(|cost| format!("charged {cost} tokens")),
                selection_target.map(|target| format!("for worker {target}")),
            ];
            let with: Vec<String> = with.into_iter().flatten().collect();
            if with.is_empty() {
                "admitted".to_owned()
            } else {
                format!("admitted {}", with.join(", "))
            }
        }
    }
}

fn released(of: &Released) -> String {
    let one = |Release { request_id, verdict }: &Release| match verdict {
        Verdict::Admit(admission) if *admission == Admission::default() => {
            format!("{request_id:?}")
        }
        verdict => format!("{request_id:?} ({})", verdict_in_words(verdict)),
    };
    let mut all: Vec<String> = of.releases.iter().map(one).collect();
    all.extend(of.failed.map(|cause| format!("failed ({cause})")));
    if all.is_empty() { "nobody".to_owned() } else { all.join(", ") }
}

fn held(hold: Option<Hold>) -> String {
    match hold {
        None => "not held".to_owned(),
        Some(Hold { ms, released: true }) => format!("held for {ms} ms"),
        Some(Hold { ms, released: false }) => format!("held for {ms} ms and not released"),
    }
}

/// All calls of classifiers.
pub(super) fn calls_summed_up(summary: &CallSummary) -> String {
    let CallSummary {
        instances,
        calls,
        same,
        differ,
        failed,
        impossible,
        held_was,
        held_now,
        overtaken,
        gaps,
        ..
    } = summary;
    let holds = |Holds { requests, ms }: &Holds| format!("{requests} requests, {ms} ms in all");
    let mut text = format!(
        "calls       {calls}, of {instances} classifier instances\nsame        {same}\n\
         differ      {differ}, {failed} of them by failing\nimpossible  {impossible}\n\
         held        {}: now {}, {overtaken} of them until they were sent\n",
        holds(held_was),
        holds(held_now)
    );
    for gap in gaps {
        text += &format!("left out    {gap}\n");
    }
    text
}
