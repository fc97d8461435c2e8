//! The configuration: what the YAML file says, resolved to what the router needs.
//!
//! The types here are the domain: they can't hold a bad value, and don't derive `Deserialize`.
//! [`Config::from_path`] and [`Config::from_yaml`] make them from text, and report every mistake
//! of a file in one run, each with its place: [`ConfigErrors`] reads like a compiler's output.
//!
//! Below this page, in the order in which a text becomes a configuration: `file` reads it,
//! `document` parses it once into nodes with places, `mistakes` gathers what is wrong, `reader` reads
//! typed values out of the nodes, `scalar` knows what texts can mean, `keys` which keys there are;
//! then one module a section.

mod discovery;
mod document;
mod environment;
mod epp;
mod error;
mod file;
mod keys;
mod mistakes;
mod reader;
mod scalar;
mod words;

mod cache_feed;
mod classifier;
mod disaggregation;
mod limits;
mod listener;
mod overrides;
mod parameters;
mod places;
mod process;
mod queue;
mod recording;
mod reference;
mod resolve;
mod roles;
mod rollout;
mod safeguards;
mod select;
mod selection;
mod tokenizers;
mod trust;
mod warnings;
mod workers;

pub(crate) use cache_feed::{
    EVENTS, FEED_MODES, FeedProblem, REPLAYS, check_feed, feed_endpoint, feed_endpoints, is_topic,
};
pub(crate) use disaggregation::{PROTOCOLS, check_disaggregation};
pub(crate) use document::shorten;
pub(crate) use file::{open as open_file, read as read_file};
pub(crate) use parameters::child_pointer;
pub(crate) use resolve::Draft;
pub(crate) use scalar::{time_within, worker_endpoint};
pub(crate) use words::{as_plain_time, listed, nearest};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::classifier::ClassifierSpec;
use pointsman_core::fleet::WorkerSpec;
use pointsman_core::policy::{RouterSettings, SelectionSpec};
use pointsman_core::queue::QueueSettings;
use pointsman_wasm::Trust;

use crate::recorder::RecordingConfig;
use crate::tokens::TokenSettings;

pub use discovery::{DiscoveryConfig, DnsConfig, KubernetesConfig, Records};
pub use environment::{Environment, Strings};
pub use epp::EppConfig;
pub use error::{At, ConfigError, ConfigErrors, Place, Problem};
pub use places::{Places, TypePlace};
pub use reference::reference;
pub use select::SelectConfig;
pub use warnings::Remark;

/// All of it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The listener for clients.
    pub listen: Listener,
    /// The listener for operators.
    pub admin: Listener,
    /// The selection service; none isn't served.
    pub select: Option<SelectConfig>,
    /// The endpoint picker; none isn't served.
    pub epp: Option<EppConfig>,
    /// Where components are; none routes with built-ins alone.
    pub policies_dir: Option<PathBuf>,
    /// Which instance serves which role.
    pub selection: SelectionSpec,
    /// Who admits requests; none admits all.
    pub classifier: Option<ClassifierSpec>,
    /// The router's settings.
    pub settings: Arc<RouterSettings>,
    /// In which classes requests wait.
    pub queue: Arc<QueueSettings>,
    /// Where the cache that all workers share is asked.
    pub shared_cache: SharedCacheConfig,
    /// The workers that the file names.
    pub workers: Vec<WorkerSpec>,
    /// Who else lists workers.
    pub discovery: DiscoveryConfig,
    /// What makes prompts into tokens, by model.
    pub tokenizers: BTreeMap<Arc<str>, TokenSettings>,
    /// Threads that make long prompts into tokens, and prompts that may wait for one; for all models.
    pub tokenizer_pool: TokenizerPool,
    /// How requests go to workers.
    pub proxy: ProxyConfig,
    /// How workers are probed.
    pub health: HealthConfig,
    /// How engines are asked for their own load; none: they aren't.
    pub load_reports: Option<LoadReportsConfig>,
    /// How components are run.
    pub wasm: WasmConfig,
    /// What is kept of decisions.
    pub recording: RecordingConfig,
    /// How long requests in flight may take to end once the router is told to stop.
    pub drain_timeout: Duration,
    /// Where things stand in the file, for mistakes that show later.
    pub places: Places,
}

/// One listener.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Where.
    pub address: SocketAddr,
    /// Bearer tokens, any of which opens it; empty asks for none. The admin listener refuses to
    /// start without one on anything but loopback.
    pub tokens: Vec<Secret>,
    /// Serves TLS when set.
    pub tls: Option<TlsConfig>,
}

/// A certificate chain and its key, in PEM files.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The chain.
    pub certificates: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// A text that never shows in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Where and how the cache that all workers share is asked. Whether there is one is a router's
/// setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCacheConfig {
    /// `http://host:port`; none asks nobody.
    pub url: Option<String>,
    /// How long a request waits for its answer.
    pub timeout: Duration,
}

/// Whether prefill and decode workers serve requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisaggregationMode {
    /// Two share each request where both are there; else whoever can does all of it.
    #[default]
    Auto,
    /// The same, but a decode worker never computes a prompt for want of a prefill worker.
    Enforce,
    /// They don't.
    Off,
}

/// How requests go to workers.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Whether prefill and decode workers serve requests.
    pub disaggregation: DisaggregationMode,
    /// For a TCP connection to a worker.
    pub connect_timeout: Duration,
    /// From the request's end to the answer's first byte.
    pub first_byte_timeout: Duration,
    /// Between two chunks of an answer. A worker that was told to stop may leave its streams open
    /// and silent.
    pub idle_timeout: Duration,
    /// How long a client may leave unread what is sent to it, or send less of its request's body
    /// than a least. Then its connection is cut: it would hold a worker's load, or memory, for ever.
    pub client_timeout: Duration,
    /// For the whole of a request.
    pub total_timeout: Duration,
    /// How often a request is tried elsewhere, before its first byte.
    pub retries: u32,
    /// How long a worker that said 429, 503 or 529 is left alone, unless its `Retry-After` says otherwise; at
    /// most two seconds either way.
    pub overload_backoff: Duration,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// The most that request bodies may take together, in bytes; at least `max_body`.
    pub body_budget: usize,
    /// Sent to workers as bearer token, in place of the client's own `Authorization`.
    pub worker_token: Option<Secret>,
}

/// How workers are probed. Probes never touch load counts.
#[derive(Clone, Debug)]
pub struct HealthConfig {
    /// Whether they are; without, a worker is healthy until its requests say otherwise.
    pub probes: bool,
    /// Between two probes of a worker.
    pub interval: Duration,
    /// For one probe.
    pub timeout: Duration,
    /// What is asked for.
    pub path: String,
    /// Failed probes in a row that make a worker unhealthy.
    pub unhealthy_after: u32,
    /// Good probes in a row that make it healthy again.
    pub healthy_after: u32,
    /// Failed requests in a row that leave a worker out for a while; 0 never does.
    pub eject_after: u32,
}

/// How engines are asked for their own load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReportsConfig {
    /// Between two questions to a worker.
    pub interval: Duration,
    /// For one of them.
    pub timeout: Duration,
    /// What is asked for.
    pub path: String,
}

/// Who makes long prompts into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenizerPool {
    /// Threads.
    pub threads: usize,
    /// Prompts that may wait for one.
    pub queue: usize,
    /// How long each may wait, and be in work.
    pub timeout: Duration,
}

/// How components are run.
#[derive(Clone, Debug)]
pub struct WasmConfig {
    /// Where compiled components are kept; none keeps them in memory only.
    pub cache_dir: Option<PathBuf>,
    /// How often the policies directory is read, besides being watched.
    pub rescan_interval: Duration,
    /// The largest component file, in bytes.
    pub max_component_size: u64,
    /// Instances that the pool has room for.
    pub pool_instances: u32,
    /// How long one component may be compiled.
    pub compile_timeout: Duration,
    /// Which content may serve.
    pub trust: Trust,
}

impl Default for Config {
    /// What an empty file would say: loopback listeners, built-ins, no workers.
    fn default() -> Self {
        Self {
            listen: Listener::on(SocketAddr::from(([127, 0, 0, 1], 8080))),
            admin: Listener::on(SocketAddr::from(([127, 0, 0, 1], 9090))),
            select: None,
            epp: None,
            policies_dir: None,
            selection: SelectionSpec::default(),
            classifier: None,
            settings: Arc::default(),
            queue: Arc::default(),
            shared_cache: SharedCacheConfig::default(),
            workers: Vec::new(),
            discovery: DiscoveryConfig::default(),
            tokenizers: BTreeMap::new(),
            tokenizer_pool: TokenizerPool::default(),
            proxy: ProxyConfig::default(),
            health: HealthConfig::default(),
            load_reports: None,
            wasm: WasmConfig::default(),
            recording: RecordingConfig::default(),
            drain_timeout: Duration::from_secs(30),
            places: Places::default(),
        }
    }
}

impl Listener {
    /// A listener that asks for nothing.
    #[must_use]
    pub fn on(address: SocketAddr) -> Self {
        Self { address, tokens: Vec::new(), tls: None }
    }
}

impl Default for SharedCacheConfig {
    fn default() -> Self {
        // A look-up next door takes less than one; more than a few would show in time to first token.
        Self { url: None, timeout: Duration::from_millis(5) }
    }
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            disaggregation: DisaggregationMode::Auto,
            connect_timeout: Duration::from_secs(2),
            first_byte_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(60),
            client_timeout: Duration::from_secs(60),
            total_timeout: Duration::from_secs(3_600),
            retries: 1,
            overload_backoff: Duration::from_secs(1),
            max_body: 32 << 20,
            body_budget: 1 << 30,
            worker_token: None,
        }
    }
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            probes: true,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            path: "/health".to_owned(),
            unhealthy_after: 3,
            healthy_after: 1,
            eject_after: 5,
        }
    }
}

impl Default for LoadReportsConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            timeout: Duration::from_millis(500),
            path: "/metrics".to_owned(),
        }
    }
}

impl Default for TokenizerPool {
    fn default() -> Self {
        let limits = crate::tokens::Limits::default();
        Self { threads: limits.threads, queue: limits.waiting, timeout: limits.patience }
    }
}

impl Default for WasmConfig {
    fn default() -> Self {
        Self {
            cache_dir: None,
            rescan_interval: Duration::from_secs(2),
            max_component_size: 64 << 20,
            pool_instances: 256,
            compile_timeout: Duration::from_secs(120),
            trust: Trust::default(),
        }
    }
}

#[cfg(test)]
mod tests;
