//! On which terms a request waits for its decision, where it has to.

use std::sync::Arc;

use pointsman_core::queue::is_class_name;
use pointsman_core::request::SchedulingTerms;

use super::body::NvExt;
use super::headers::Headers;
use super::value::bad;
use crate::openai::error::ApiError;

/// The terms, as the client says them.
#[derive(Debug)]
pub(super) struct Waiting {
    policy_class: Option<Arc<str>>,
    /// Milliseconds from its arrival.
    due_ms: Option<u32>,
    do_not_queue: bool,
}

impl Waiting {
    /// The terms of a request that came at this time of the router's clock.
    pub(super) fn of_arrival(self, arrived_at_ms: u64) -> SchedulingTerms {
        SchedulingTerms {
            policy_class: self.policy_class,
            arrived_at_ms: Some(arrived_at_ms),
            due_at_ms: self.due_ms.map(|due| arrived_at_ms.saturating_add(u64::from(due))),
            do_not_queue: self.do_not_queue,
            ..SchedulingTerms::default()
        }
    }
}

pub(super) fn read(headers: &Headers<'_>, nvext: &NvExt<'_>) -> Result<Waiting, ApiError> {
    let named = headers.first_text(&["x-pointsman-policy-class", "x-dynamo-meta-policy-class"])?;
    if let Some((header, name)) = named
        && !is_class_name(name)
    {
        let wanted = "the name of a policy class: letters, digits, `_`, `.` and `-`";
        return Err(bad(header, name, wanted));
    }
    let due_ms = match headers.number("x-pointsman-due-ms")? {
        Some(due) => Some(due),
        None => nvext.due_ms()?,
    };
    Ok(Waiting {
        policy_class: named.map(|(_, name)| name.into()),
        due_ms,
        do_not_queue: nvext.do_not_queue()?.unwrap_or_default(),
    })
}
