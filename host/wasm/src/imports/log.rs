//! The log: a guest's lines, bounded in number and length, with the policy's name beside them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pointsman_core::policy::Limits;
use wasmtime::StoreContextMut;
use wasmtime::component::{LinkerInstance, WasmStr};

use super::{State, charge};
use crate::bindings::pointsman::policy::log::Level;
use crate::counters::Counters;
use crate::text::bounded;

/// Fuel for a line: about what formatting one costs in instructions.
const FUEL_PER_LINE: u64 = 1_000;

/// Bytes of what a guest has said of its end that are kept.
const MOST_SAID: usize = 200;

/// Where the lines of one instance go.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogSink {
    from: Option<Arc<From>>,
    lines_left: u32,
    /// What standard output and error have written of a line, one each.
    halves: [Vec<u8>; 2],
    /// What the present call has said of what went wrong: its last error, or what it wrote to standard
    /// error, cut.
    said: String,
}

#[derive(Debug)]
struct From {
    policy: Arc<str>,
    policy_type: Arc<str>,
    partition: String,
    lines_per_call: u32,
    line_bytes: usize,
    counters: Arc<Counters>,
}

/// A guest's standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

impl LogSink {
    /// Drops every line, uncounted.
    pub(crate) fn silent() -> Self {
        Self::default()
    }

    pub(crate) fn new(
        policy: Arc<str>,
        policy_type: Arc<str>,
        partition: String,
        limits: &Limits,
        counters: Arc<Counters>,
    ) -> Self {
        let (lines_per_call, line_bytes) = (limits.log_lines, limits.log_line_bytes as usize);
        let from = From { policy, policy_type, partition, lines_per_call, line_bytes, counters };
        Self { from: Some(Arc::new(from)), ..Self::default() }
    }

    pub(super) fn begin(&mut self) {
        self.lines_left = self.from.as_ref().map_or(0, |from| from.lines_per_call);
        self.said.clear();
    }

    /// What the last call has said of what went wrong, on one line; empty if nothing.
    pub(crate) fn said(&self) -> &str {
        self.said.trim()
    }

    pub(super) fn end(&mut self) {
        for stream in [Stream::Out, Stream::Err] {
            if !self.half(stream).is_empty() {
                let line = std::mem::take(self.half(stream));
                self.stream_line(stream, &line);
            }
        }
    }

    /// A line of a standard stream.
    fn stream_line(&mut self, stream: Stream, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        self.line(stream.level(), &text);
        let has_room = self.from.is_some() && self.said.len() < MOST_SAID;
        if stream == Stream::Err && has_room {
            let before = std::mem::take(&mut self.said);
            self.said = bounded(&format!("{before} {text}"), MOST_SAID);
        }
    }

    fn half(&mut self, stream: Stream) -> &mut Vec<u8> {
        let [out, err] = &mut self.halves;
        match stream {
            Stream::Out => out,
            Stream::Err => err,
        }
    }

    /// Whether one more line may be written; if not, it is counted as dropped.
    fn admits(&mut self) -> bool {
        let Some(from) = &self.from else { return false };
        match self.lines_left.checked_sub(1) {
            Some(left) => {
                self.lines_left = left;
                true
            }
            None => {
                from.counters.log_lines_dropped.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    fn line(&mut self, level: Level, text: &str) {
        if self.admits() {
            self.emit(level, text);
        }
    }

    fn emit(&self, level: Level, text: &str) {
        let Some(from) = &self.from else { return };
        let line = bounded(text, from.line_bytes);
        let (policy, policy_type, partition) =
            (&*from.policy, &*from.policy_type, &*from.partition);
        macro_rules! emit {
            ($level:ident) => {
                tracing::$level!(target: "pointsman::policy", policy, policy_type, partition, "{line}")
            };
        }
        match level {
            Level::Error => emit!(error),
            Level::Warn => emit!(warn),
            Level::Info => emit!(info),
            Level::Debug => emit!(debug),
            Level::Trace => emit!(trace),
        }
    }

    /// Takes bytes of a standard stream; writes every line that is complete.
    pub(super) fn stream(&mut self, stream: Stream, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            let most = self.from.as_ref().map_or(0, |from| from.line_bytes);
            let half = self.half(stream);
            // A byte over the limit shows that the line was cut.
            let room = (most + 1).saturating_sub(half.len());
            half.extend(text.iter().take(room));
            if ends {
                let line = std::mem::take(half);
                self.stream_line(stream, &line);
            }
        }
    }
}

impl Stream {
    fn level(self) -> Level {
        match self {
            Self::Out => Level::Info,
            Self::Err => Level::Warn,
        }
    }
}

/// Defines `write` of the log interface. False if this isn't it.
pub(super) fn define(
    at: &mut LinkerInstance<'_, State>,
    interface: &str,
    function: &str,
) -> wasmtime::Result<bool> {
    if !interface.starts_with("pointsman:policy/log@") || function != "write" {
        return Ok(false);
    }
    at.func_wrap(
        function,
        |mut store: StoreContextMut<'_, State>, (level, message): (Level, WasmStr)| {
            charge(&mut store, FUEL_PER_LINE)?;
            // The text stays in the guest's memory until it is known to be wanted.
            if store.data_mut().log.admits() {
                let text = message.to_str(&store)?;
                let said = (level == Level::Error).then(|| bounded(&text, MOST_SAID));
                store.data().log.emit(level, &text);
                drop(text);
                if let Some(said) = said {
                    store.data_mut().log.said = said;
                }
            }
            Ok(())
        },
    )?;
    Ok(true)
}
