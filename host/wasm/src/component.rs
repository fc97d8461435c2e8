//! A component: its bytes checked, compiled and linked once; a first instance started and thrown
//! away, so that what can't work is refused at load and not at the first decision.
//!
//! The catalogue makes them; the core makes instances of them through [`PolicyProvider`](pointsman_core::policy::PolicyProvider).

mod guest;
mod link;
mod provider;
mod shape;
mod versions;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::policy::{Digest, Limits, RacingLimits, StageError, builtin};
use semver::Version;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::bindings::exports::pointsman::policy::about;
use crate::convert::is_name;
use crate::counters::Counters;
use crate::engine::PolicyEngine;
use crate::error::LoadError;
use crate::file;
use crate::imports::LogSink;
use crate::instance::{Live, LiveError};
use crate::limits::Bounds;
use crate::text::bounded;
pub(crate) use guest::{Exports, Guest};
pub(crate) use link::Linked;
pub use versions::Misfit;
use versions::{Contract, TAKEN};

/// The deadline of calls that no decision waits for: far from what their fuel takes, so that a busy
/// machine refuses nothing that it would take at other times.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// How much room a component needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SizeClass {
    /// Compiled from Rust, C, Zig and the like.
    Small,
    /// Brings an interpreter along.
    Large,
}

impl SizeClass {
    /// The limits of an instance whose owner set none.
    #[must_use]
    pub fn limits(self) -> Limits {
        match self {
            Self::Small => Limits::small(),
            Self::Large => Limits::large(),
        }
    }

    /// What an instance of this size may use, where its owner set `limits`.
    fn bounds(self, limits: &Limits) -> Result<Bounds, RacingLimits> {
        let fuel = limits.fuel.unwrap_or(self.default_of(|class| class.fuel));
        let memory = limits.memory.unwrap_or(self.default_of(|class| class.memory));
        let elements = limits.table_elements;
        Ok(Bounds {
            fuel,
            memory,
            deadline: limits.deadline_beside(fuel)?,
            // More than there is would never be reached: it fails then, as without.
            recycle_at: limits.recycle_at.unwrap_or(Limits::recycle_at_of(memory)),
            table_elements: elements.unwrap_or(self.default_of(|class| class.table_elements)),
            reply_bytes: limits.reply_bytes,
        })
    }

    /// One of the limits that go by size.
    fn default_of(self, limit: impl Fn(&Limits) -> Option<u64>) -> u64 {
        // A class sets all of them.
        limit(&self.limits()).unwrap_or_default()
    }
}

/// What a component says of itself. Texts are bounded, and on one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The policy's name, as its author has it.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// One line for lists.
    pub summary: String,
    /// A JSON Schema of `parameters`; empty when there is none.
    pub parameters_schema: String,
}

/// A loaded component. Cheap to clone.
#[derive(Clone)]
pub struct ComponentPolicy {
    pub(crate) inner: Arc<Inner>,
}

/// What the instances of a component share.
pub(crate) struct Inner {
    pub(crate) policy_type: Arc<str>,
    pub(crate) engine: PolicyEngine,
    path: PathBuf,
    digest: Digest,
    size: u64,
    class: SizeClass,
    imports: Vec<String>,
    exported: Vec<String>,
    contract: &'static Contract,
    built_for: Version,
    exports: Exports,
    pooled: Option<Linked>,
    on_demand: Mutex<OnDemand>,
}

/// The component outside the pool: compiled when it is first needed there.
enum OnDemand {
    Bytes(Arc<[u8]>),
    Linked(Linked),
}

impl ComponentPolicy {
    /// Loads a component from its file: a regular one, no larger than is taken.
    pub fn open(engine: &PolicyEngine, policy_type: &str, path: &Path) -> Result<Self, LoadError> {
        let gone = || LoadError::Unreadable {
            path: path.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        let file = file::open(path)?.ok_or_else(gone)?;
        let bytes = file::bytes(path, &file, engine.config().most_component_bytes)?;
        Self::load(engine, policy_type, path, &bytes)
    }

    /// Loads a component from its bytes. `path` is where they came from, for messages; `policy_type`
    /// is the name that the YAML has for it.
    pub fn load(
        engine: &PolicyEngine,
        policy_type: &str,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Self, LoadError> {
        let loaded = Self::load_checked(&TAKEN, engine, policy_type, path, bytes);
        Counters::add(match loaded {
            Ok(_) => &engine.counts().compiles,
            Err(_) => &engine.counts().compile_failures,
        });
        loaded
    }

    fn load_checked(
        taken: &'static [Contract],
        engine: &PolicyEngine,
        policy_type: &str,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Self, LoadError> {
        let (size, most) = (bytes.len() as u64, engine.config().most_component_bytes);
        if size > most {
            return Err(LoadError::TooLarge { path: path.to_owned(), size, most });
        }
        let shape = shape::read(taken, path, bytes)?;
        let large = size >= engine.config().large_component_bytes;
        let class = if large { SizeClass::Large } else { SizeClass::Small };

        let pool = engine.pooled().filter(|_| !large);
        // A component may be small, and yet have more instances or tables than a slot. The engine
        // says so only after it has compiled it; the on-demand engine then takes it from the cache.
        let pooled = pool.and_then(|pool| Linked::new(pool, shape.contract, path, bytes).ok());
        let on_demand = match pooled {
            Some(_) => OnDemand::Bytes(bytes.into()),
            None => OnDemand::Linked(Linked::new(engine.on_demand(), shape.contract, path, bytes)?),
        };
        let exports = match (&pooled, &on_demand) {
            (Some(linked), _) | (None, OnDemand::Linked(linked)) => linked.exports(),
            (None, OnDemand::Bytes(_)) => Exports::default(),
        };
        let inner = Inner {
            policy_type: policy_type.into(),
            engine: engine.clone(),
            path: path.to_owned(),
            digest: digest(bytes),
            size,
            class,
            imports: shape.imports,
            exported: shape.exports,
            contract: shape.contract,
            built_for: shape.built_for,
            exports,
            pooled,
            on_demand: Mutex::new(on_demand),
        };
        let policy = Self { inner: Arc::new(inner) };
        policy.inner.first_look().map_err(|error| match error {
            LiveError::Signature { interface, reason } => {
                LoadError::Signature { path: path.to_owned(), interface, reason }
            }
            other => {
                let StageError { cause, detail } = other.into();
                LoadError::Start { path: path.to_owned(), cause, detail }
            }
        })?;
        Ok(policy)
    }

    /// Refuses what can't be a type's name: a file's stem that is none, or a built-in's name.
    pub fn check_name(policy_type: &str, path: &Path) -> Result<(), LoadError> {
        let path = path.to_owned();
        if !is_name(policy_type) {
            return Err(LoadError::Name { path });
        }
        if builtin::NAMES.contains(&policy_type) {
            return Err(LoadError::BuiltinName { path, name: policy_type.to_owned() });
        }
        Ok(())
    }

    /// Refuses what can't be a policy by its outside alone: nothing is compiled.
    pub fn check_outside(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
        shape::read(&TAKEN, path, bytes).map(|_| ())
    }

    /// Where it came from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Its identity.
    #[must_use]
    pub fn content_digest(&self) -> &Digest {
        &self.inner.digest
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// How much room it needs.
    #[must_use]
    pub fn class(&self) -> SizeClass {
        self.inner.class
    }

    /// Whether it selects workers.
    #[must_use]
    pub fn selects_workers(&self) -> bool {
        self.inner.exports.selection
    }

    /// Whether it classifies requests.
    #[must_use]
    pub fn classifies_requests(&self) -> bool {
        self.inner.exports.classifier
    }

    /// What it imports, sorted.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.inner.imports
    }

    /// What it exports, sorted: the interfaces of the contract, and what its toolchain adds.
    #[must_use]
    pub fn exports(&self) -> &[String] {
        &self.inner.exported
    }

    /// The version of the contract that it was built for.
    #[must_use]
    pub fn built_for(&self) -> &Version {
        &self.inner.built_for
    }

    /// What it says of itself; none when it says nothing, or fails to.
    #[must_use]
    pub fn describe(&self) -> Option<Description> {
        if !self.inner.exports.about {
            return None;
        }
        match self.inner.first_look().map_err(StageError::from).and_then(|mut live| live.describe())
        {
            Ok(description) => Some(describe(&description)),
            Err(error) => {
                tracing::warn!(policy = &*self.inner.policy_type, %error, "it can't describe itself");
                None
            }
        }
    }
}

impl std::fmt::Debug for ComponentPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentPolicy")
            .field("policy_type", &self.inner.policy_type)
            .field("digest", &self.inner.digest.short())
            .field("class", &self.inner.class)
            .finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn exports(&self) -> Exports {
        self.exports
    }

    /// Starts an instance that nothing depends on, without configuring it.
    fn first_look(&self) -> Result<Live, LiveError> {
        let bounds = self.class.bounds(&Limits::default());
        let bounds = bounds.map_err(|error| LiveError::trap(error.to_string()))?;
        let bounds = Bounds { deadline: FIRST_LOOK, recycle_at: u64::MAX, ..bounds };
        self.start(&bounds, LogSink::silent(), 0)
    }

    /// Starts an instance: from the pool if the limits fit a slot and one is free, else on demand.
    pub(crate) fn start(
        &self,
        bounds: &Bounds,
        log: LogSink,
        seed: u64,
    ) -> Result<Live, LiveError> {
        let counts = self.engine.counts();
        Counters::add(&counts.instances_made);
        if let Some(linked) = self.pooled.as_ref().filter(|_| bounds.fit_a_slot()) {
            match Live::start(linked, bounds, log.clone(), seed) {
                Err(LiveError::PoolFull) => Counters::add(&counts.pool_exhausted),
                started => return started,
            }
        }
        Counters::add(&counts.on_demand_instances);
        Live::start(&self.on_demand()?, bounds, log, seed)
    }

    fn on_demand(&self) -> Result<Linked, LiveError> {
        let mut on_demand = self.on_demand.lock();
        let bytes = match &*on_demand {
            OnDemand::Linked(linked) => return Ok(linked.clone()),
            OnDemand::Bytes(bytes) => bytes.clone(),
        };
        let linked = Linked::new(self.engine.on_demand(), self.contract, &self.path, &bytes)
            .map_err(|error| LiveError::trap(error.to_string()))?;
        *on_demand = OnDemand::Linked(linked.clone());
        Ok(linked)
    }
}

/// The SHA-256 of a component's bytes.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    let hash = Sha256::digest(bytes);
    let mut hex = String::with_capacity(2 * hash.len());
    for byte in hash {
        // Writing to a string doesn't fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Digest(hex.into())
}

fn describe(description: &about::Description) -> Description {
    Description {
        name: bounded(&description.name, 100),
        version: bounded(&description.version, 100),
        summary: bounded(&description.summary, 500),
        parameters_schema: bounded(&description.parameters_schema, 64 << 10),
    }
}
