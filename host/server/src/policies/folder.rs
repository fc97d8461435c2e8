//! A folder of components, as the wasm crate keeps it, in the shape that the keeper asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::clock::Stopwatch;
use pointsman_core::policy::Digest;
use pointsman_wasm::{
    ComponentPolicy, EngineConfig, FolderOptions, FolderState, PolicyEngine, PolicyFolder,
    TypeStatus,
};

use super::components::{Components, Found, LookError, Makes};
use super::schema::ParametersSchema;
use crate::config::WasmConfig;

/// How long a start waits for files that may still be on their way.
const SETTLE_PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks meanwhile.
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

/// A folder of components.
#[derive(Debug)]
pub struct WasmFolder {
    engine: PolicyEngine,
    folder: PolicyFolder,
    /// What the contents that are there say of their parameters. Each is asked once.
    schemas: Mutex<BTreeMap<Digest, Option<Arc<ParametersSchema>>>>,
}

impl WasmFolder {
    /// Opens a folder, and looks through it until no file seems to be on its way any more and all
    /// are compiled, or were given up. Slow, so call it where blocking is allowed.
    ///
    /// # Errors
    ///
    /// This machine can't run components.
    pub fn open(folder: &Path, config: &WasmConfig) -> Result<Self, LookError> {
        let engine = PolicyEngine::new(EngineConfig {
            pooled_instances: config.pool_instances,
            cache_dir: config.cache_dir.clone(),
            most_component_bytes: config.max_component_size,
            compile_timeout: config.compile_timeout,
            ..EngineConfig::default()
        });
        let engine = engine.map_err(|error| LookError(error.to_string()))?;
        let options = FolderOptions {
            rescan: config.rescan_interval,
            trust: config.trust.clone(),
            ..FolderOptions::default()
        };
        let folder = PolicyFolder::open(&engine, folder, options);
        let watch = Stopwatch::start();
        while folder.rescan().unsettled && watch.elapsed() < SETTLE_PATIENCE {
            std::thread::sleep(SETTLE_PAUSE);
        }
        Ok(Self { engine, folder, schemas: Mutex::default() })
    }

    /// What a component says of its parameters.
    fn schema(&self, policy: &ComponentPolicy) -> Option<Arc<ParametersSchema>> {
        let digest = policy.content_digest();
        if let Some(known) = self.schemas.lock().get(digest) {
            return known.clone();
        }
        let text = policy.describe().map(|about| about.parameters_schema);
        let schema = text.filter(|text| !text.trim().is_empty());
        let schema = schema.map(|text| Arc::new(ParametersSchema::read(&text)));
        self.schemas.lock().insert(digest.clone(), schema.clone());
        schema
    }

    /// Forgets what isn't there any more.
    fn forget_schemas(&self, found: &[Found]) {
        let there: BTreeSet<_> = found.iter().filter_map(|found| found.digest.as_ref()).collect();
        self.schemas.lock().retain(|digest, _| there.contains(digest));
    }
}

impl Components for WasmFolder {
    fn look(&self) -> Result<Vec<Found>, LookError> {
        let FolderState { types, error, .. } = self.folder.look();
        if let Some(error) = error {
            return Err(LookError(error));
        }
        let found = types.into_iter().filter_map(|status| {
            let loaded = self.folder.policy(&status.policy_type);
            let schema = loaded.as_ref().and_then(|policy| self.schema(policy));
            found(status, loaded, schema)
        });
        let found: Vec<_> = found.collect();
        self.forget_schemas(&found);
        Ok(found)
    }

    fn is_busy(&self) -> bool {
        self.folder.is_busy()
    }

    fn watch(&self, wake: Box<dyn Fn() + Send + Sync>) -> Option<Box<dyn Send + Sync>> {
        match self.folder.watch(move |_| wake()) {
            Ok(guard) => Some(Box::new(guard)),
            Err(error) => {
                tracing::warn!(%error, "the policies folder is only looked at from time to time");
                None
            }
        }
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        // The counts' own names, so that a new one needs no word here.
        let counts = serde_json::to_value(self.engine.counters()).unwrap_or_default();
        let named = counts.as_object().into_iter().flatten();
        named.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect()
    }
}

/// None for a new file that may still be on its way.
fn found(
    status: TypeStatus,
    loaded: Option<ComponentPolicy>,
    schema: Option<Arc<ParametersSchema>>,
) -> Option<Found> {
    let TypeStatus { policy_type, wanted, size, imports, error, .. } = status;
    let policy_type: Arc<str> = policy_type.into();
    Some(match (error, loaded) {
        (Some(error), _) => Found {
            policy_type,
            digest: wanted,
            size,
            contract: None,
            imports,
            schema: None,
            provider: Err(error),
        },
        (None, Some(policy)) => Found {
            policy_type,
            digest: Some(policy.content_digest().clone()),
            size: Some(policy.size()),
            contract: Some(policy.built_for().to_string()),
            imports: policy.imports().to_vec(),
            schema,
            provider: Ok(Makes {
                policy: policy.selects_workers().then(|| Arc::new(policy.clone()) as _),
                classifier: policy.classifies_requests().then(|| Arc::new(policy.clone()) as _),
            }),
        },
        (None, None) => return None,
    })
}
