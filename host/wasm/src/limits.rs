//! What one instance may use, and what ended a call that used too much.
//!
//! Owns the limiter of a store (memory, tables, instances) and the sorting of wasmtime's errors
//! into causes. Fuel and deadline are armed by the instance at every entry.

use std::time::Duration;

use pointsman_core::policy::{Cause, Limits, StageError};
use wasmtime::{ResourceLimiter, Trap, WasmBacktrace};

use crate::text::bounded;

/// Core instances in one component: a Python component has 38.
const MOST_INSTANCES: usize = 256;
/// Tables in one component.
const MOST_TABLES: usize = 256;
/// Linear memories of one component.
const MOST_MEMORIES: usize = 64;
/// Frames of a backtrace that are named in a trap's text.
const MOST_FRAMES: usize = 6;
/// Bytes of a trap's text.
const MOST_TRAP_BYTES: usize = 700;

/// How wasmtime begins to say that an answer is larger than it may be.
const TOO_MUCH: &str = "too much data is being copied";

/// What one instance may use: what its owner set, and its size class's for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Units of fuel per call.
    pub(crate) fuel: u64,
    /// Bytes of linear memory.
    pub(crate) memory: u64,
    /// Time at work per call; see [`crate::deadline`].
    pub(crate) deadline: Duration,
    /// Bytes of linear memory beyond which it is replaced.
    pub(crate) recycle_at: u64,
    /// Elements of all tables.
    pub(crate) table_elements: u64,
    /// Bytes that one answer may bring into the host's memory.
    pub(crate) reply_bytes: u64,
}

impl Bounds {
    /// Whether a slot of the pool has room for as much.
    pub(crate) fn fit_a_slot(&self) -> bool {
        self.memory <= Limits::SMALL_MEMORY && self.table_elements <= Limits::SMALL_TABLE_ELEMENTS
    }
}

/// What a store was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denied {
    Memory,
    TableElements,
}

/// Bounds a store's memories and tables, all of them together.
#[derive(Debug)]
pub(crate) struct Limiter {
    most_bytes: usize,
    most_elements: usize,
    bytes: usize,
    elements: usize,
    /// What the call was denied, if it was.
    denied: Option<Denied>,
}

impl Limiter {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            most_bytes: clamped(bounds.memory),
            most_elements: clamped(bounds.table_elements),
            bytes: 0,
            elements: 0,
            denied: None,
        }
    }

    /// Bytes of all memories.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Bytes of all memories when half of what is left has been taken.
    pub(crate) fn half_way(&self) -> u64 {
        (self.bytes + self.most_bytes.saturating_sub(self.bytes) / 2) as u64
    }

    /// A call begins: what was denied before isn't its doing.
    pub(crate) fn begin(&mut self) {
        self.denied = None;
    }
}

/// A number of things in memory, of which there are never more than memory has addresses.
pub(crate) fn clamped(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let bytes = self.bytes.saturating_add(desired.saturating_sub(current));
        if bytes > self.most_bytes {
            self.denied = Some(Denied::Memory);
            return Ok(false);
        }
        self.bytes = bytes;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.denied = Some(Denied::Memory);
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = self.elements.saturating_add(desired.saturating_sub(current));
        if elements > self.most_elements {
            self.denied = Some(Denied::TableElements);
            return Ok(false);
        }
        self.elements = elements;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.denied = Some(Denied::TableElements);
        Ok(())
    }

    fn instances(&self) -> usize {
        MOST_INSTANCES
    }

    fn tables(&self) -> usize {
        MOST_TABLES
    }

    fn memories(&self) -> usize {
        MOST_MEMORIES
    }
}

/// What an error of a call means. The store is of no further use.
pub(crate) fn failure(error: &wasmtime::Error, limiter: &Limiter) -> StageError {
    let trap = error.downcast_ref::<Trap>().copied();
    let cause = match trap {
        Some(Trap::OutOfFuel) => Cause::Fuel,
        Some(Trap::Interrupt) => Cause::Deadline,
        _ if limiter.denied.is_some() => Cause::Memory,
        _ => Cause::Trap,
    };
    let mut text = match (limiter.denied.filter(|_| cause == Cause::Memory), trap) {
        (Some(Denied::Memory), _) => {
            format!("asked for more than {} bytes of memory", limiter.most_bytes)
        }
        (Some(Denied::TableElements), _) => {
            format!("asked for more than {} elements in its tables", limiter.most_elements)
        }
        (None, Some(trap)) => trap.to_string().replacen("wasm trap: ", "", 1),
        (None, None) => match error.root_cause().to_string() {
            text if text.starts_with(TOO_MUCH) => {
                "answered with more bytes than its `reply_bytes` allow".to_owned()
            }
            text => text,
        },
    };
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        let names = backtrace.frames().iter().filter_map(|frame| frame.func_name());
        let names: Vec<&str> = names.take(MOST_FRAMES).collect();
        if !names.is_empty() {
            text.push_str(", in ");
            text.push_str(&names.join(" < "));
        }
    }
    StageError::new(cause, bounded(&text, MOST_TRAP_BYTES))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

    use wasmtime::{Instance, Module, Store};

    use super::*;
    use crate::deadline::Deadline;
    use crate::engine::{EngineConfig, PolicyEngine};

    fn bounds(memory: u64) -> Bounds {
        Bounds {
            fuel: u64::MAX,
            memory,
            deadline: Duration::MAX,
            recycle_at: u64::MAX,
            table_elements: 0,
            reply_bytes: 0,
        }
    }

    /// Limits that race are refused, so that no instance can show this.
    #[test]
    fn what_fuel_does_not_end_the_deadline_does() {
        let config = EngineConfig { pooled_instances: 0, ..EngineConfig::default() };
        let engine = PolicyEngine::new(config).unwrap();
        let text = r#"(module (func (export "loop") (loop $again (br $again))))"#;
        let bytes = wat::parse_str(text).unwrap();
        let module = Module::new(engine.on_demand(), bytes).unwrap();
        let bounds = bounds(1 << 20);
        let mut store = Store::new(engine.on_demand(), Limiter::new(&bounds));
        store.limiter(|limiter| limiter);
        store.set_fuel(u64::MAX / 2).unwrap();
        let mut deadline = Deadline::of(Limits::MIN_DEADLINE);
        store.set_epoch_deadline(deadline.begin());
        store.epoch_deadline_callback(move |_| deadline.overdue());
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let call = instance.get_typed_func::<(), ()>(&mut store, "loop").unwrap();
        let error = call.call(&mut store, ()).unwrap_err();
        assert_eq!(failure(&error, store.data()).cause, Cause::Deadline, "{error:#}");
    }

    #[test]
    fn all_memories_of_an_instance_share_one_limit() {
        let mut limiter = Limiter::new(&bounds(100));
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(!limiter.memory_growing(60, 61, None).unwrap());
        assert_eq!(limiter.denied, Some(Denied::Memory));
        limiter.begin();
        assert_eq!(limiter.denied, None);
    }
}
