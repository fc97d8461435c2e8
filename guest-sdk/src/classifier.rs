//! What an author of a request classifier writes: who is admitted to the queue, who waits, who is
//! refused.
//!
//! ```
//! use pointsman_sdk::classifier::prelude::*;
//!
//! export_classifier! {
//!     /// Admits short prompts, and holds long ones while another long one is under way.
//!     pub classifier OneLongAtATime(settings: Settings) {
//!         OneLong { settings, under_way: None, waiting: Vec::new() }
//!     }
//! }
//!
//! #[derive(Debug, Deserialize)]
//! #[serde(deny_unknown_fields)]
//! pub struct Settings {
//!     /// From how many tokens on a prompt is long.
//!     long_tokens: u64,
//! }
//!
//! impl Parameters for Settings {}
//!
//! struct OneLong {
//!     settings: Settings,
//!     under_way: Option<String>,
//!     waiting: Vec<String>,
//! }
//!
//! impl RequestClassifier for OneLong {
//!     fn most_held(&self) -> u32 {
//!         1_000
//!     }
//!
//!     fn classify(&mut self, request: &ClassifyRequest) -> Result<Verdict> {
//!         if request.input_tokens < self.settings.long_tokens {
//!             return Ok(Verdict::admit());
//!         }
//!         if self.under_way.is_some() {
//!             self.waiting.push(request.request_id.clone());
//!             return Ok(Verdict::Hold);
//!         }
//!         self.under_way = Some(request.request_id.clone());
//!         Ok(Verdict::admit())
//!     }
//!
//!     fn on_event(&mut self, event: &LifecycleEvent, _: u64, releases: &mut Releases) -> Result {
//!         let Some(ended) = event.ended() else { return Ok(()) };
//!         self.waiting.retain(|id| id != ended);
//!         if self.under_way.as_deref() == Some(ended) {
//!             self.under_way = (!self.waiting.is_empty()).then(|| self.waiting.remove(0));
//!             releases.admit_all(self.under_way.clone());
//!         }
//!         Ok(())
//!     }
//! }
//! # use pointsman_sdk::classifier::testing::Door;
//! # let mut door = Door::of::<OneLongAtATime>(r#"{"long_tokens": 100}"#)?;
//! # assert!(door.arrive("a", |request| request.input_tokens = 500)?.is_admitted());
//! # assert_eq!(door.arrive("b", |request| request.input_tokens = 500)?, Verdict::Hold);
//! # assert_eq!(door.complete("a")?, ["b"]);
//! # Ok::<(), Refusal>(())
//! ```
//!
//! A real one also takes up what was live before it ([`LifecycleEvent::Inherited`]) and what the host
//! admitted in its place ([`LifecycleEvent::Admitted`]): `policies/session-admission` does.

mod event;
mod export;
mod instance;
mod verdict;

#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

use crate::Result;
use crate::parameters::Parameters;
use crate::policy::About;

pub use event::{Capacity, ClassifierEnvironment, ClassifyRequest, LifecycleEvent, LiveRequest};
pub use instance::{Declaration, Instance};
pub use verdict::{Admission, Release, Releases, Verdict};

/// What nearly every classifier uses, `serde::Deserialize` included.
pub mod prelude {
    pub use serde::Deserialize;

    pub use super::{
        Admission, Capacity, Classifier, ClassifierEnvironment, ClassifyRequest, LifecycleEvent,
        LiveRequest, Releases, RequestClassifier, Verdict,
    };
    pub use crate::random::Random;
    pub use crate::{
        About, InputTrigger, NoParameters, Parameters, Partition, Refusal, Result, Role, Session,
        Worker, WorkerTarget, about, export_classifier, log, math,
    };
}

/// Decides who is admitted, who waits and who is refused, in one partition.
///
/// Calls are serial. Each request id is of one live request at a time, and each that the classifier
/// was asked about or told of gets exactly one terminal event.
pub trait RequestClassifier: Send + 'static {
    /// The most requests that it holds at once. Holding one more is a bad answer, so keep count.
    fn most_held(&self) -> u32;

    /// How often [`LifecycleEvent::Tick`] should come, in milliseconds; 0 is never.
    fn tick_ms(&self) -> u32 {
        0
    }

    /// What becomes of a request. Called once for each; a version that takes over is asked again
    /// about those that are still held.
    ///
    /// # Errors
    ///
    /// What becomes of the request then is said by the operator's `on_failure`: it is admitted as it
    /// is, or refused.
    fn classify(&mut self, request: &ClassifyRequest) -> Result<Verdict>;

    /// Takes note of an event, and releases held requests. `now_ms` is on the clock of
    /// [`ClassifyRequest::now_ms`].
    ///
    /// # Errors
    ///
    /// Nothing is released then.
    fn on_event(&mut self, event: &LifecycleEvent, now_ms: u64, releases: &mut Releases) -> Result;
}

/// A classifier type: what it is, what it takes, and how an instance is built.
///
/// [`export_classifier!`](crate::export_classifier) writes this from a short description; implement
/// it by hand when building takes more than that.
pub trait Classifier: 'static {
    /// The YAML's `parameters`.
    type Parameters: Parameters;

    /// What lists say of it; [`about!`](crate::about) takes it from the crate's `Cargo.toml`.
    fn about() -> About;

    /// Builds one instance, which serves one partition.
    ///
    /// # Errors
    ///
    /// Refuses the load: the version that served before goes on serving.
    fn build(
        parameters: Self::Parameters,
        environment: &ClassifierEnvironment,
    ) -> Result<Box<dyn RequestClassifier>>;
}
