//! `limits`: what one call of a component may use.

use std::ops::RangeInclusive;
use std::time::Duration;

use pointsman_core::policy::Limits;

use super::keys::LIMITS;
use super::process::WAIT;
use super::reader::{Reader, Spot};
use super::scalar::{count, duration, show, show_size, size, word};

/// One page to the whole of a 32-bit address space.
const MEMORY: RangeInclusive<u64> = 1 << 16..=1 << 32;

/// Far beyond what a language's runtime has functions.
const MOST_TABLE_ELEMENTS: u64 = 100_000_000;

/// The costs of 128 rows to those of eight million.
const REPLY: RangeInclusive<u64> = 1 << 10..=64 << 20;

const LOG_LINE: RangeInclusive<u64> = 64..=64 << 10;

/// Beyond this, a call is no routing decision any more.
const LONGEST_DEADLINE: Duration = Duration::from_secs(600);

/// As much fuel as the longest deadline has room for.
pub(super) const MOST_FUEL: u64 = 30_000_000_000;

/// What a class sets.
type Preset = fn() -> Limits;

const CLASSES: &[(&str, Preset)] = &[("small", Limits::small), ("large", Limits::large)];

pub(super) fn read(cx: &mut Reader<'_>, spot: &Spot<'_>) -> Limits {
    let Some(fields) = cx.fields(spot, &LIMITS) else { return Limits::default() };
    let class = cx.optional(&fields, "class", word(CLASSES)).map(|limits| limits());
    let mut limits = class.unwrap_or_default();
    if let Some(fuel) = cx.optional(&fields, "fuel", count(1..=MOST_FUEL)) {
        limits.fuel = Some(fuel);
    }
    if let Some(spot) = fields.get("memory")
        && let Some(memory) = cx.read(&spot, size(MEMORY))
    {
        limits.memory = Some(memory);
        if let Some(most) = class.and_then(|class| class.memory).filter(|most| memory > *most) {
            let what = format!("more memory than the class has, which is {}", show_size(most));
            cx.refuse(&spot, what, "lower it, or leave the class out");
        }
    }
    if let Some(spot) = fields.get("recycle_at")
        && let Some(recycle_at) = cx.read(&spot, size(MEMORY))
    {
        limits.recycle_at = Some(recycle_at);
        if let Some(memory) = limits.memory.filter(|memory| recycle_at > *memory) {
            let what = format!("more than the memory, which is {}", show_size(memory));
            cx.refuse(&spot, what, "lower it, or leave it out");
        }
    } else if let Some(memory) = limits.memory.filter(|_| class.is_some()) {
        limits.recycle_at = Some(Limits::recycle_at_of(memory));
    }
    if let Some(elements) = cx.optional(&fields, "table_elements", count(0..=MOST_TABLE_ELEMENTS)) {
        limits.table_elements = Some(elements);
    }
    cx.set(&fields, "reply_bytes", size(REPLY), &mut limits.reply_bytes);
    cx.set(&fields, "log_line_bytes", size(LOG_LINE), &mut limits.log_line_bytes);
    cx.set(&fields, "log_lines", count(0..=10_000), &mut limits.log_lines);
    // Whether the component is small isn't known here; a large one has more fuel, and refuses what
    // is too short for that when it is made.
    let fuel = limits.fuel.unwrap_or(Limits::SMALL_FUEL);
    let least = Limits::least_deadline(fuel);
    limits.deadline = class.map(|_| least);
    if let Some(spot) = fields.get("deadline")
        && let Some(deadline) = cx.read(&spot, duration(WAIT))
    {
        limits.deadline = Some(deadline);
        if deadline < least {
            let (deadline, least) = (show(deadline), show(least));
            let what = format!("a deadline of {deadline} can end a call before {fuel} fuel does");
            let remedy = format!(
                "set at least {least}, or leave it out: fuel is the limit, the deadline a backstop"
            );
            cx.refuse(&spot, what, remedy);
        } else if deadline > LONGEST_DEADLINE {
            let what = format!("{} is too long for a decision", show(deadline));
            cx.refuse(&spot, what, format!("set at most {}", show(LONGEST_DEADLINE)));
        }
    }
    limits
}
