//! Policies: the folder and the YAML, and how the two become what decides.
//!
//! Owns the present set of policy types (the newest good version of each), the selection, and the
//! reload: whatever changed is tried off the decision path and put in place for every partition at
//! once; what is refused leaves the last good serving, with the reason kept for whoever asks. One
//! reload runs at a time, and the newest state wins. It doesn't know HTTP, and of components only
//! that they are providers with a digest.

mod blame;
mod classifier;
mod components;
mod configuration;
mod folder;
mod keeper;
mod open;
mod reload;
mod report;
mod schema;
mod stand_in;
mod state;
mod status;
mod trial;

pub use classifier::{ClassifierPartition, ClassifierStatus};
pub use components::{Components, Found, LookError, Makes, NoComponents};
pub use folder::WasmFolder;
pub use keeper::PolicyKeeper;
pub use open::{Mistake, OpenError, Opened, Problem, components};
pub use report::{Refusal, ReloadReport, Replaced};
pub use schema::{ParametersSchema, Violation};
pub use status::{InstanceStatus, PoliciesStatus, ReloadCounts, TypeStatus};
pub use trial::{TrialError, Warning};
