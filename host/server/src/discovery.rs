//! Discovery: which workers there are, and whether they may be given requests.
//!
//! Owns every worker's life in the router: registration from the file and from the API, leases,
//! health probes, overload, ejection, draining and removal. The proxy tells it what it meets on the
//! way ([`WorkerKeeper::unreachable`], [`WorkerKeeper::overloaded`], [`WorkerKeeper::answered_well`],
//! [`WorkerKeeper::failed`]); the core's fleet is told the sum
//! of it all, one [`Availability`](pointsman_core::fleet::Availability) per worker. It never
//! touches load counts, and doesn't know requests or policies. With each life of a worker goes what
//! its engine tells of its cache (`cache`), and says of its load when it is asked (`load`). Workers that
//! something else lists (`listed`) come from a name's records (`dns`), or a cluster's pods (`kubernetes`).

mod cache;
mod conduct;
mod dns;
mod ejection;
mod error;
mod file;
mod keeper;
mod kubernetes;
mod listed;
mod load;
mod probe;
mod registration;
mod roster;
mod standing;
#[cfg(test)]
mod testing;
mod view;
mod watch;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{DiscoveryConfig, DnsConfig};

pub use crate::json::{Problem, Problems};
pub use cache::{FeedView, HeldView, PushRefusal};
pub use error::{KeeperError, PushError};
pub use file::{FileChanges, FileWorkerError};
pub use keeper::{KeeperConfig, Origin, PushedEvents, Registered, Removal, WorkerKeeper};
pub(crate) use load::{ScrapeCounts, Scraped};
pub use registration::Registration;
pub use view::{Description, ProbeView, WorkerView};

/// Those names of a configuration that can't be looked up on this machine, whoever serves them, with why.
pub(crate) fn without_a_way(config: &DiscoveryConfig) -> Vec<(&DnsConfig, String)> {
    let fails = |dns| Some((dns, dns::has_a_way(dns).err()?.to_string()));
    config.dns.iter().filter_map(fails).collect()
}

/// Follows those who list workers, until told to stop.
pub(crate) fn follow(
    config: &DiscoveryConfig,
    keeper: &Arc<WorkerKeeper>,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) {
    for dns in &config.dns {
        tasks.spawn(dns::follow(keeper.clone(), dns.clone(), stop.clone()));
    }
    if let Some(kubernetes) = &config.kubernetes {
        tasks.spawn(kubernetes::follow(keeper.clone(), kubernetes.clone(), stop.clone()));
    }
}
