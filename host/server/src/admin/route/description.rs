//! A request described by its facts alone, for callers that have no prompt to send.
//!
//! The names are those of the selection API of other routers; `model` is the word everywhere else
//! here, and `model_name` means the same.

use pointsman_core::hashing::Scope;
use pointsman_core::request::{RouteRequest, Session};
use serde_json::{Value, json};

use crate::described;
use crate::json::values;
use crate::json::{Fields, Problems};
use crate::rest::RestError;

/// A request of which only facts are known.
#[derive(Debug)]
pub(super) struct Described {
    /// The request; its prompt only if it has no tokens.
    pub(super) request: RouteRequest,
    /// The prompt's tokens, if they are given.
    pub(super) token_ids: Option<Vec<u32>>,
    /// What its blocks are cached under.
    pub(super) scope: Scope,
}

/// Reads the facts of a request.
pub(super) fn read(body: &Value) -> Result<Described, RestError> {
    facts(body).map_err(|problems| {
        let error = format!("the request's facts have {problems}; see the details");
        RestError::bad_request(error).with_details(json!(problems))
    })
}

fn facts(body: &Value) -> Result<Described, Problems> {
    let mut fields = Fields::of(body)?;
    let model = fields.optional_of(["model", "model_name"], values::name).flatten();
    if model.is_none() && !fields.has("model") && !fields.has("model_name") {
        fields.problem("model", "is missing; expected a model that a worker serves");
    }
    let token_ids = fields.optional("token_ids", values::token_ids).flatten();
    let prompt_tokens = if fields.has("token_ids") {
        fields.forbidden("prompt_tokens", "is how many token_ids there are; leave it out");
        None
    } else {
        fields.required("prompt_tokens", values::whole)
    };
    let adapter = fields.optional("lora_name", values::name).flatten();
    let namespace = fields.optional("cache_salt", described::text).flatten();
    let partition = described::partition(&mut fields, model);
    let mut request = RouteRequest::new("dry-run", partition, prompt_tokens.unwrap_or_default());
    request.prompt_tokens_exact = true;
    let session = fields.optional("session_id", described::session_id).flatten();
    request.session =
        session.map(|id| Session { id: id.into(), parent_id: None, is_final: None, evict: None });
    request.constraints.adapter = adapter.as_deref().map(Into::into);
    described::take(&mut fields, &mut request);
    fields.finish()?;
    let scope = Scope::new(adapter.as_deref(), namespace.as_deref());
    Ok(Described { request, token_ids, scope })
}
