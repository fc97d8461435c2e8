//! The failure switches of a mock engine, changeable while it runs.
//!
//! Tests turn them through [`ControlHandle`], people through `GET/POST/DELETE /mock/control`. Each request asks once, when it
//! has been read, which [`Orders`] hold for it; only `frozen` also acts on streams that are already flowing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All failure switches. The default is an engine that works.
///
/// Unless said otherwise a switch acts on inference requests (`POST` below `/v1/`) and never on `/mock/*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Control {
    /// Connections are accepted and requests read, but nothing is answered and running streams stand still, as in a process
    /// stopped by SIGSTOP. `/health` and the other probes are frozen too. Turned off, everything goes on.
    pub frozen: bool,
    /// Answers with an error status instead of working.
    pub refuse: Option<Refuse>,
    /// Cuts the connection (with a reset) before any byte of the answer.
    pub cut_before_headers: Option<Cut>,
    /// Reads the request and never answers it, not even after this is turned off.
    pub hang_before_headers: bool,
    /// Milliseconds between the end of the request and the headers of the answer.
    pub delay_headers_ms: u64,
    /// Breaks an answer after it has begun.
    pub stream: Option<StreamFault>,
    /// What `/health` says.
    pub health: Health,
    /// Closes each connection at once after its answer, without having announced it with `Connection: close`.
    pub close_idle: bool,
    /// Puts two `Set-Cookie` headers on every answer.
    pub two_cookies: bool,
    /// Puts hop-by-hop headers on every answer: `Connection: x-hop`, `X-Hop`, `Keep-Alive`, `Proxy-Authenticate`.
    pub hop_headers: bool,
}

/// Which error an engine answers with instead of working.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {
    /// The HTTP status, 300 to 999.
    pub status: u16,
    /// Seconds in a `Retry-After` header; no header when absent.
    #[serde(default)]
    pub retry_after: Option<u64>,
    /// How many requests it holds for; absent is every request until it is turned off.
    #[serde(default)]
    pub times: Option<u32>,
}

impl Refuse {
    /// Refuses everything with this status until it is turned off.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status, retry_after: None, times: None }
    }
}

/// How often a connection is cut before its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cut {
    /// How many requests it holds for; absent is every request until it is turned off.
    pub times: Option<u32>,
}

/// How and when an answer breaks.
///
/// An answer that is not streamed counts as one chunk: with a fault set it breaks in the middle of its body, whatever
/// `after_chunks` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamFault {
    /// What happens.
    pub kind: FaultKind,
    /// How many SSE events are sent before it. The role event at the start of a chat stream is the first; 0 is none but the
    /// headers.
    pub after_chunks: u32,
    /// How many requests it holds for; absent is every request until it is turned off.
    #[serde(default)]
    pub times: Option<u32>,
}

impl StreamFault {
    /// Breaks every answer in this way after so many events, until it is turned off.
    #[must_use]
    pub fn new(kind: FaultKind, after_chunks: u32) -> Self {
        Self { kind, after_chunks, times: None }
    }
}

/// The ways in which an answer can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Silence: no further event, no `[DONE]`, no close. What a vLLM does that was told to stop (SIGTERM).
    Hang,
    /// The connection is reset (RST).
    Reset,
    /// The connection is closed (FIN) in the middle of the chunked body. What a killed vLLM (SIGKILL) does.
    Close,
    /// The body ends as HTTP wants it, but without `[DONE]` and without a finish reason.
    End,
    /// One event whose JSON is broken; then the stream goes on.
    MalformedEvent,
    /// A chunk whose size isn't a number, which breaks HTTP itself; then the connection is closed.
    MalformedChunk,
    /// An event with an error body and then `[DONE]`. What a vLLM does when generation fails half-way.
    ErrorEvent,
}

/// What `/health` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// 200 with an empty body.
    #[default]
    Ok,
    /// 503 with an empty body, as a vLLM whose engine core has died.
    Unhealthy,
    /// No answer at all.
    Hang,
}

/// Why switches were not taken over. The old ones stay.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The document is not JSON, has an unknown key or a value of a wrong type.
    #[error("{0}; GET /mock/control shows every key")]
    Document(#[from] serde_json::Error),
    /// The document is JSON, but not an object.
    #[error("the switches must be a JSON object; GET /mock/control shows every key")]
    NotAnObject,
    /// A status that isn't a refusal.
    #[error("refuse.status is {status}; give one from 300 to 999")]
    Status {
        /// What was given.
        status: u16,
    },
}

impl Control {
    fn check(&self) -> Result<(), ControlError> {
        match &self.refuse {
            Some(Refuse { status, .. }) if !(300..=999).contains(status) => {
                Err(ControlError::Status { status: *status })
            }
            _ => Ok(()),
        }
    }
}

/// A handle on the switches of one engine; clones turn the same ones.
#[derive(Clone, Default)]
pub struct ControlHandle {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    control: Mutex<Control>,
    /// A copy of `control.frozen`, which every event of every stream looks at.
    frozen: AtomicBool,
}

impl fmt::Debug for ControlHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ControlHandle").field(&self.get()).finish()
    }
}

impl ControlHandle {
    /// The switches as they are now. Those with `times` show how many are left.
    #[must_use]
    pub fn get(&self) -> Control {
        self.inner.control.lock().clone()
    }

    /// Changes switches; they hold for every request that is read from now on.
    ///
    /// # Errors
    ///
    /// A value is out of range; then nothing changes.
    pub fn update(&self, change: impl FnOnce(&mut Control)) -> Result<(), ControlError> {
        let mut control = self.inner.control.lock();
        let mut next = control.clone();
        change(&mut next);
        self.install(&mut control, next)
    }

    /// Turns all switches off.
    pub fn reset(&self) {
        let mut control = self.inner.control.lock();
        *control = Control::default();
        self.inner.frozen.store(false, Ordering::Release);
    }

    /// Takes over the switches a JSON object names; those it doesn't name stay, and `null` turns one off.
    ///
    /// # Errors
    ///
    /// The document isn't an object of known switches; then nothing changes.
    pub fn merge(&self, document: &[u8]) -> Result<Control, ControlError> {
        let Value::Object(changes) = serde_json::from_slice(document)? else {
            return Err(ControlError::NotAnObject);
        };
        let mut control = self.inner.control.lock();
        let (current, default) =
            (serde_json::to_value(&*control)?, serde_json::to_value(Control::default())?);
        let Value::Object(mut merged) = current else { return Err(ControlError::NotAnObject) };
        for (key, value) in changes {
            let value = if value.is_null() {
                default.get(&key).cloned().unwrap_or(Value::Null)
            } else {
                value
            };
            merged.insert(key, value);
        }
        let next: Control = serde_json::from_value(Value::Object(merged))?;
        self.install(&mut control, next.clone())?;
        Ok(next)
    }

    fn install(&self, control: &mut Control, next: Control) -> Result<(), ControlError> {
        next.check()?;
        self.inner.frozen.store(next.frozen, Ordering::Release);
        *control = next;
        Ok(())
    }

    /// Whether everything stands still.
    pub(super) fn frozen(&self) -> bool {
        self.inner.frozen.load(Ordering::Acquire)
    }

    /// The orders for one inference request; what has a number of times is used up by one. Only the first switch that ends
    /// the request is used up, in the order of the fields of [`Orders`].
    pub(super) fn orders(&self) -> Orders {
        let mut control = self.inner.control.lock();
        let mut orders = Orders {
            hang: control.hang_before_headers,
            delay_ms: control.delay_headers_ms,
            ..Orders::default()
        };
        if take(&mut control.cut_before_headers, |cut| &mut cut.times).is_some() {
            orders.cut = true;
        } else if !orders.hang {
            orders.refuse = take(&mut control.refuse, |refuse| &mut refuse.times);
            if orders.refuse.is_none() {
                orders.stream = take(&mut control.stream, |fault| &mut fault.times);
            }
        }
        orders
    }
}

/// What the switches order for one request.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Cut the connection.
    pub(super) cut: bool,
    /// Never answer.
    pub(super) hang: bool,
    /// Wait so long before the headers.
    pub(super) delay_ms: u64,
    /// Answer with an error.
    pub(super) refuse: Option<Refuse>,
    /// Break the answer.
    pub(super) stream: Option<StreamFault>,
}

/// Uses a switch once: gives a copy of it, counts its `times` down and turns it off after the last.
fn take<T: Clone>(switch: &mut Option<T>, times: impl Fn(&mut T) -> &mut Option<u32>) -> Option<T> {
    let used = switch.clone()?;
    match switch.as_mut().and_then(|switch| times(switch).as_mut()) {
        Some(0) => {
            *switch = None;
            return None;
        }
        Some(left) => {
            *left -= 1;
            if *left == 0 {
                *switch = None;
            }
        }
        None => {}
    }
    Some(used)
}
