//! Discovery: which workers there are, and whether they may be given requests.
//!
//! Owns every worker's life in the router: registration from the file and from the API, leases,
//! health probes, overload, ejection, draining and removal. The proxy tells it what it meets on the
//! way ([`WorkerKeeper::unreachable`], [`WorkerKeeper::overloaded`], [`WorkerKeeper::answered_well`],
//! [`WorkerKeeper::failed`]); the core's fleet is told the sum
//! of it all, one [`Availability`](pointsman_core::fleet::Availability) per worker. It never
//! touches load counts, and doesn't know requests or policies. With each life of a worker goes what
//! its engine tells of its cache (`cache`), and says of its load when it is asked (`load`).

mod cache;
mod conduct;
mod ejection;
mod error;
mod file;
mod keeper;
mod load;
mod probe;
mod registration;
mod roster;
mod standing;
mod view;
mod watch;

pub use crate::json::{Problem, Problems};
pub use cache::{FeedView, HeldView, PushRefusal};
pub use error::{KeeperError, PushError};
pub use file::{FileChanges, FileWorkerError};
pub use keeper::{KeeperConfig, Origin, PushedEvents, Registered, Removal, WorkerKeeper};
pub(crate) use load::{ScrapeCounts, Scraped};
pub use registration::Registration;
pub use view::{Description, ProbeView, WorkerView};
