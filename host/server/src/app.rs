//! What the listeners share: one value, made once at start, read by every request.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::afterwards::Afterwards;
use crate::config::Config;
use crate::desks::Desks;
use crate::discovery::WorkerKeeper;
use crate::dispatch::Dispatcher;
use crate::housekeeping::CacheAlarm;
use crate::policies::PolicyKeeper;
use crate::prompts::Prompter;
use crate::recorder::Recorder;
use crate::select::Selections;
use crate::shared_cache::SharedCache;
use crate::telemetry::Metrics;

/// The running router.
#[derive(Clone, Debug)]
pub struct App {
    /// As it was at start; a changed file changes policies and file workers, not listeners.
    pub config: Arc<Config>,
    /// Decides.
    pub dispatcher: Arc<Dispatcher>,
    /// Lets requests in, where there is a request classifier.
    pub desks: Arc<Desks>,
    /// Knows the workers: registers, probes and drains them.
    pub workers: Arc<WorkerKeeper>,
    /// Knows the policies: the folder, the YAML, reloads.
    pub policies: Arc<PolicyKeeper>,
    /// Knows prompts' tokens.
    pub prompter: Arc<Prompter>,
    /// Asks the cache that all workers share.
    pub shared_cache: Arc<SharedCache>,
    /// Knows in which partitions events flow and nothing ever matches.
    pub cache_alarm: Arc<CacheAlarm>,
    /// Shows decisions to those who only watch.
    pub afterwards: Arc<Afterwards>,
    /// Keeps what decisions were made from.
    pub recorder: Arc<Recorder>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// What was reserved for those who send requests themselves, and selected to be reserved.
    pub selections: Arc<Selections>,
    /// Cancelled when the router is told to stop: from then on it isn't ready, and takes nothing new.
    pub draining: CancellationToken,
}
