//! A component that is looked at, with what it is configured by.
//!
//! Owns where parameters come from if nobody gives them, and the names of what it is tried for. Where the
//! component comes from, a file or a build, is the caller's to know.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use pointsman_core::fleet::DEFAULT_BLOCK_SIZE;
use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role};
use pointsman_core::policy::{Limits, PolicyEnvironment, PolicyProvider, builtin};
use pointsman_wasm::{ComponentPolicy, EngineConfig, PolicyEngine};
use serde_json::{Map, Value};

/// The seed of instances that never serve; any will do.
const SEED: u64 = 0;
/// The folder of compiled code, in the builder's cache folder.
const COMPILED: &str = "compiled";

/// Parameters, and who gave them.
#[derive(Clone, Debug)]
pub struct Given {
    /// What stands under `parameters` in the YAML.
    pub parameters: Arc<Map<String, Value>>,
    /// Where they are from, in words.
    pub from: String,
}

/// A component under the glass.
#[derive(Clone, Debug)]
pub struct Specimen {
    /// The component.
    pub component: Arc<ComponentPolicy>,
    /// Its file.
    pub file: PathBuf,
    /// What it is configured by.
    pub given: Given,
    /// What its owner lets it use; what isn't set goes by its size.
    pub limits: Limits,
    /// What the workers do for which it decides.
    pub role: Role,
}

/// What runs a component that is looked at: one or few instances, so that a pool would be set up for
/// nothing. An author looks at the same component by one command after the other, so compiled code is
/// kept where the builder's tools are; without such a folder, each command compiles it.
///
/// # Errors
///
/// This machine can't run components.
pub fn engine() -> Result<PolicyEngine> {
    let kept = pointsman_build::Setup::from_env().ok();
    let cache_dir = kept.map(|setup| setup.cache_dir.join(COMPILED));
    PolicyEngine::new(EngineConfig { pooled_instances: 0, cache_dir, ..EngineConfig::default() })
        .context("can't run components here")
}

impl Specimen {
    /// Opens a component's file. Slow: it is compiled.
    ///
    /// # Errors
    ///
    /// It can't be read, or is no component that this host takes.
    pub fn open(file: &Path, given: Given) -> Result<Self> {
        std::fs::metadata(file).with_context(|| format!("can't read {}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // A built-in's name is taken among policies; that is told where names are looked at.
        let taken = builtin::NAMES.contains(&&*stem);
        let name = if taken { format!("{stem}-component") } else { stem };
        let component = Arc::new(ComponentPolicy::open(&engine()?, &name, file)?);
        let (limits, role) = (Limits::default(), Role::Aggregated);
        Ok(Self { component, file: file.to_owned(), given, limits, role })
    }

    /// The partition that it is tried for.
    #[must_use]
    pub fn partition(&self) -> PartitionKey {
        PartitionKey {
            model: "default".into(),
            routing_group: DEFAULT_GROUP.into(),
            role: self.role,
        }
    }

    /// What an instance of it is told.
    #[must_use]
    pub fn environment(&self) -> PolicyEnvironment {
        PolicyEnvironment {
            instance: PolicyProvider::policy_type(&*self.component).into(),
            partition: self.partition(),
            block_size: DEFAULT_BLOCK_SIZE.get(),
            parameters: self.given.parameters.clone(),
            settings: Arc::default(),
            limits: self.limits,
            seed: SEED,
            trial: true,
        }
    }

    /// The fuel that one call may use.
    #[must_use]
    pub fn fuel(&self) -> u64 {
        let by_size = self.component.class().limits().fuel;
        self.limits.fuel.or(by_size).unwrap_or(Limits::SMALL_FUEL)
    }
}
