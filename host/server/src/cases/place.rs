//! Where a case takes place: a partition, and the router's settings.

use std::sync::Arc;

use pointsman_core::ids::{DEFAULT_GROUP, PartitionKey, Role};
use pointsman_core::policy::RouterSettings;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The partition that a case's policy serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CasePlace {
    /// The model; `model` unless set.
    pub model: Arc<str>,
    /// The routing group; `default` unless set.
    pub routing_group: Arc<str>,
    /// The role of its workers; `aggregated` unless set.
    pub role: Role,
    /// Tokens in one block; 16 unless set.
    pub block_size: std::num::NonZeroU32,
}

impl Default for CasePlace {
    fn default() -> Self {
        Self {
            model: "model".into(),
            routing_group: DEFAULT_GROUP.into(),
            role: Role::Aggregated,
            block_size: std::num::NonZeroU32::MIN.saturating_add(15),
        }
    }
}

impl CasePlace {
    pub(super) fn partition(&self) -> PartitionKey {
        PartitionKey {
            model: self.model.clone(),
            routing_group: self.routing_group.clone(),
            role: self.role,
        }
    }
}

/// The router's settings with these in their place; keys are those of the YAML's `router`.
pub(super) fn settings(given: &Map<String, Value>) -> Result<RouterSettings, String> {
    let defaults = serde_json::to_value(RouterSettings::default()).map_err(|e| e.to_string())?;
    let unknown = given.keys().find(|key| defaults.get(key.as_str()).is_none());
    if let Some(key) = unknown {
        return Err(format!("router.{key}: there is no such router setting that policies see"));
    }
    serde_json::from_value(Value::Object(given.clone())).map_err(|error| format!("router: {error}"))
}
