//! Telemetry: what is counted, remembered and logged.
//!
//! [`Metrics`] counts what happens on a request's way, [`Predictions`] among it what was thought of
//! caches and what was true, [`SharedCacheMetrics`] what the shared one was asked, [`Legs`] what two workers shared, [`Receipts`] remembers the latest decisions, `logging` sets up the log, and `seldom` keeps it short. [`PolicyClasses`] counts the class names that nobody knows, [`SelectionMetrics`] what the selection service does,
//! [`EppMetrics`] what the endpoint picker does. What the router knows at any time (loads, workers, policies) is not
//! counted here but read when somebody asks.

mod classes;
mod epp;
mod legs;
pub mod logging;
mod metrics;
pub mod names;
mod outcome;
mod predictions;
mod receipts;
mod seldom;
mod selections;
mod shared_cache;

pub use classes::PolicyClasses;
pub use epp::{EppMetrics, EppStream};
pub use legs::{Legs, PrefillLeg};
pub use metrics::Metrics;
pub use outcome::Outcome;
pub use predictions::Predictions;
pub use receipts::{Receipts, Record, Usage};
pub(crate) use seldom::Seldom;
pub use selections::SelectionMetrics;
pub use shared_cache::{SharedCacheMetrics, Unasked};
