//! `/v1/models`: the names the engine serves, with the keys in vLLM's order.

use serde::Serialize;

use super::engine::Engine;

/// The list.
#[derive(Debug, Serialize)]
pub(super) struct Models<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

#[derive(Debug, Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    root: &'a str,
    parent: Option<&'a str>,
    max_model_len: u32,
    permission: [Permission; 1],
}

#[derive(Debug, Serialize)]
struct Permission {
    id: String,
    object: &'static str,
    created: u64,
    allow_create_engine: bool,
    allow_sampling: bool,
    allow_logprobs: bool,
    allow_search_indices: bool,
    allow_view: bool,
    allow_fine_tuning: bool,
    organization: &'static str,
    group: Option<&'static str>,
    is_blocking: bool,
}

/// What the engine serves.
pub(super) fn list(engine: &Engine) -> Models<'_> {
    let root = engine.config.models.first().map_or("", String::as_str);
    let model = |id| Model {
        id,
        object: "model",
        created: engine.created,
        owned_by: "vllm",
        root,
        parent: None,
        max_model_len: engine.config.max_model_len,
        permission: [Permission {
            id: format!("modelperm-{id}"),
            object: "model_permission",
            created: engine.created,
            allow_create_engine: false,
            allow_sampling: true,
            allow_logprobs: true,
            allow_search_indices: false,
            allow_view: true,
            allow_fine_tuning: false,
            organization: "*",
            group: None,
            is_blocking: false,
        }],
    };
    Models {
        object: "list",
        data: engine.config.models.iter().map(|id| model(id.as_str())).collect(),
    }
}
