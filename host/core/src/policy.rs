//! What a policy is to the host: stages with declared inputs, run in order and checked.
//!
//! Owns the stage traits, the columns that stages see, the pipeline that runs them, the host's
//! checks, the catalogue of policy types and the built-ins. A component is one more
//! [`PolicyInstance`] here; what runs inside it is the wasm crate's business.

mod answer;
pub mod breaker;
pub mod candidates;
pub mod declaration;
pub mod failure;
pub mod input;
pub mod instance;
pub mod limits;
pub mod native;
pub mod normalisation;
pub mod row_mask;
pub mod view;

pub mod pipeline;

pub mod catalog;
pub mod selection;
pub mod settings;

pub mod builtin;

pub use breaker::{BreakerSpec, BreakerState};
pub use candidates::Candidates;
pub use catalog::{Catalog, Digest, InstantiateError, PolicyEnvironment, PolicyProvider};
pub use declaration::{Declaration, Properties, Stage};
pub use failure::{Cause, StageError, StageFailure, StageKind};
pub use input::{Input, InputSet};
pub use instance::{Outcome, PolicyInstance, Usage};
pub use limits::{Limits, RacingLimits};
pub use pipeline::Pipeline;
pub use row_mask::RowMask;
pub use selection::{InstanceSpec, OnAllFiltered, OnFailure, Safeguards, SelectionSpec};
pub use settings::{RouterSettings, SharedCacheType};
pub use view::RequestView;
