//! What a policy author imports.
//!
//! A policy is made of *stages*: filters take workers out of the running, scorers say what each of
//! the rest would cost, a picker chooses. Each stage declares the inputs that it reads, and gets
//! those, and no others. This is a whole one:
//!
//! ```
//! use pointsman_sdk::prelude::*;
//!
//! export_policy! {
//!     /// Sends each request to the worker with the fewest requests.
//!     pub policy FewestRequests {
//!         scorers: [ActiveRequests],
//!         properties: [stateless],
//!     }
//! }
//!
//! struct ActiveRequests;
//!
//! impl WorkerScorer for ActiveRequests {
//!     fn inputs(&self) -> Vec<Input> {
//!         vec![Input::ActiveRequests]
//!     }
//!
//!     fn score(&mut self, _: &Context<'_>, rows: &Candidates<'_>, costs: &mut [f64]) -> Result {
//!         rows.score(costs, |row| row.active_requests());
//!         Ok(())
//!     }
//! }
//! # use pointsman_sdk::testing::{self, Trial};
//! # let busy = |requests| testing::worker(1).with(Input::ActiveRequests, requests);
//! # let fleet = [3.0, 1.0, 2.0].map(busy);
//! # let choice = Trial::of::<FewestRequests>("{}")?.decide(&testing::request(), &fleet)?;
//! # assert_eq!(choice.row, Some(1));
//! # Ok::<(), Refusal>(())
//! ```
//!
//! The crate's `Cargo.toml` needs two entries besides its name:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"]
//!
//! [dependencies]
//! pointsman-sdk = { path = "…/guest-sdk" }
//! serde = { version = "1", features = ["derive"] } # for parameters
//! ```
//!
//! Built for `wasm32-unknown-unknown`, this becomes a component whose only import is the log. Built
//! natively it is ordinary Rust: [`testing`] decides over small fleets in unit tests, and
//! [`native`] runs the policy in process.
//!
//! Where to look:
//!
//! - [`export_policy!`] has the shape of a policy, [`Stages`] its parts, [`Policy`] the long way.
//! - [`WorkerFilter`], [`WorkerScorer`] and [`WorkerPicker`] are the stages; [`Candidates`] and
//!   [`Context`] are what they see; [`Input`] lists what they may declare.
//! - [`Parameters`] reads the YAML's `parameters`.
//! - [`pick`], [`random`] and [`math`] give the same answer on every machine.
//! - [`classifier`] is for request classifiers: who is admitted, held or refused before a worker is
//!   selected.
//! - [`Observer`], [`FleetFollower`] and [`Handover`] are for policies that learn; [`Shared`] joins
//!   them to a stage, and [`recent`] is a table of sessions that stays bounded.
//!
//! What this crate deliberately doesn't know is the host: it depends on nothing of it but `wit/`.

// In the order in which a call goes through them.
mod candidates;
mod context;
mod error;
mod input;
mod lanes;
mod layout;
mod lists;
mod request;
mod stage;

mod declaration;
mod export;
mod instance;
pub mod parameters;
mod policy;

mod fleet;
pub mod handover;
mod observer;
mod shared;

pub mod classifier;

pub mod log;
pub mod math;
pub mod pick;
pub mod random;
pub mod recent;

#[cfg(any(all(target_arch = "wasm32", feature = "heap"), test))]
mod heap;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
pub mod native;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use candidates::{Candidates, Row};
pub use context::Context;
pub use error::{Refusal, Result};
pub use fleet::{FleetFollower, Member};
pub use handover::Handover;
pub use input::Input;
pub use lanes::Lanes;
pub use observer::{Observer, Outcome, OutcomeEvent};
pub use parameters::{NoParameters, Parameters};
pub use policy::{About, Policy, Stages};
pub use request::{
    Environment, InputTrigger, Partition, Request, Role, Session, Worker, WorkerTarget,
};
pub use shared::Shared;
pub use stage::{WorkerFilter, WorkerPicker, WorkerScorer};

/// What nearly every policy uses, `serde::Deserialize` included.
///
/// To derive `Deserialize`, a crate needs `serde` among its own dependencies.
pub mod prelude {
    pub use serde::Deserialize;

    pub use crate::random::Random;
    pub use crate::{
        About, Candidates, Context, Environment, FleetFollower, Handover, Input, InputTrigger,
        Lanes, Member, NoParameters, Observer, Outcome, OutcomeEvent, Parameters, Partition,
        Policy, Refusal, Request, Result, Role, Row, Session, Shared, Stages, Worker, WorkerFilter,
        WorkerPicker, WorkerScorer, WorkerTarget, about, export_policy, log, math, pick,
    };
}
