//! What an inference request asks of two engines, checked as strictly as can be.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Fetch, Room, Rooms, refused};
use crate::mock_engine::config::{MockProtocol, MockRole};
use crate::mock_engine::engine::Engine;
use crate::mock_engine::error::ApiError;
use crate::mock_engine::request::Job;

/// `kv_transfer_params`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Params {
    do_remote_decode: bool,
    do_remote_prefill: bool,
    remote_engine_id: Option<String>,
    remote_block_ids: Option<Vec<u64>>,
    remote_host: Option<String>,
    remote_port: Option<u16>,
    #[serde(default)]
    remote_request_id: Option<String>,
    #[serde(default)]
    tp_size: Option<u32>,
}

/// One, or one for each prompt.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Each<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Each<T> {
    fn all(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

#[derive(Deserialize)]
struct Fields {
    kv_transfer_params: Option<Params>,
    bootstrap_host: Option<Each<String>>,
    bootstrap_port: Option<Each<u16>>,
    bootstrap_room: Option<Each<u64>>,
    min_tokens: Option<i64>,
}

/// What is to be done for another engine, or with another's help.
#[derive(Debug)]
pub(in crate::mock_engine) enum Task {
    /// Nothing.
    Whole,
    /// Keep the prompt's blocks.
    Keep,
    /// Wait in these rooms once the prompt is computed.
    Meet(Rooms),
}

impl Task {
    /// What a request asks for, checked as strictly as can be; a decode engine has fetched the prompt then.
    pub(in crate::mock_engine) async fn read(
        engine: &Arc<Engine>,
        job: &mut Job,
        body: &[u8],
        request_id: Option<&str>,
    ) -> Result<Self, ApiError> {
        let config = &engine.config;
        if config.role == MockRole::Aggregated {
            return Ok(Self::Whole);
        }
        let fields: Fields = serde_json::from_slice(body)
            .map_err(|error| refused(&format!("the fields of a handover: {error}")))?;
        let Some(request_id) = request_id else {
            return Err(refused("x-request-id is missing: both engines go by it"));
        };
        match (config.protocol, config.role) {
            (MockProtocol::Vllm, MockRole::Prefill) => {
                check_prefill(&fields, job).map(|()| Self::Keep)
            }
            (MockProtocol::Vllm, _) => match fields.kv_transfer_params {
                None if config.computes_prompts => Ok(Self::Whole),
                params => fetch(engine, job, params, request_id).await.map(|()| Self::Whole),
            },
            (MockProtocol::Sglang, role) => {
                let meeting = Meeting::of(fields, job)?;
                if role == MockRole::Prefill {
                    // Whatever the client asks for, the rest is the other engine's.
                    job.tokens = 1;
                    return meeting.open(engine).map(Self::Meet);
                }
                meeting.fetch(engine).await.map(|()| Self::Whole)
            }
        }
    }
}

fn check_prefill(fields: &Fields, job: &Job) -> Result<(), ApiError> {
    let Some(params) = &fields.kv_transfer_params else {
        return Err(refused("a prefill engine wants kv_transfer_params"));
    };
    let asks = params.do_remote_decode && !params.do_remote_prefill;
    let says_where = params.remote_engine_id.is_some()
        || params.remote_block_ids.is_some()
        || params.remote_host.is_some()
        || params.remote_port.is_some();
    if !asks || says_where {
        return Err(refused(
            "a prefill's kv_transfer_params ask for a remote decode and say no place",
        ));
    }
    if job.stream || job.tokens != 1 || fields.min_tokens != Some(1) {
        return Err(refused(
            "a prefill is of one token, which is no stop token, and doesn't stream",
        ));
    }
    Ok(())
}

async fn fetch(
    engine: &Engine,
    job: &Job,
    params: Option<Params>,
    request_id: &str,
) -> Result<(), ApiError> {
    let params = params.ok_or_else(|| refused("a decode engine wants kv_transfer_params"))?;
    let Params {
        do_remote_decode: false,
        do_remote_prefill: true,
        remote_engine_id: Some(engine_id),
        remote_block_ids: Some(blocks),
        remote_host: Some(host),
        remote_port: Some(port),
        remote_request_id: Some(kept_as),
        ..
    } = params
    else {
        return Err(refused(
            "a decode's kv_transfer_params ask for a remote prefill and say where it is",
        ));
    };
    if blocks.len() as u64 != engine.blocks(job.prompt_tokens()) {
        return Err(refused("the blocks aren't as many as the prompt has"));
    }
    if !kept_as.ends_with(request_id) {
        return Err(refused("the prefill had another request id"));
    }
    let ask = Fetch { engine_id, request_id: kept_as, blocks };
    engine.ask(&host, port, "/mock/handover", &ask).await
}

/// Where two SGLang engines meet.
struct Meeting {
    host: String,
    port: u16,
    rooms: Vec<u64>,
}

impl Meeting {
    fn of(fields: Fields, job: &Job) -> Result<Self, ApiError> {
        let (Some(hosts), Some(ports), Some(rooms)) =
            (fields.bootstrap_host, fields.bootstrap_port, fields.bootstrap_room)
        else {
            return Err(refused("bootstrap_host, bootstrap_port and bootstrap_room must be there"));
        };
        let (hosts, ports, rooms) = (hosts.all(), ports.all(), rooms.all());
        let prompts = job.prompts.len();
        let fit = [hosts.len(), ports.len(), rooms.len()].iter().all(|count| *count == prompts);
        if !fit || rooms.iter().any(|room| *room >= 1 << 63) {
            return Err(refused("there must be one bootstrap room below 2^63 for each prompt"));
        }
        match (hosts.into_iter().next(), ports.into_iter().next()) {
            (Some(host), Some(port)) => Ok(Self { host, port, rooms }),
            _ => Err(refused("there is no prompt")),
        }
    }

    fn open(self, engine: &Arc<Engine>) -> Result<Rooms, ApiError> {
        if self.port != engine.addr.port() {
            return Err(refused("bootstrap_port is another engine's"));
        }
        let mut held = engine.handovers.rooms.lock();
        if self.rooms.iter().any(|room| held.contains_key(room)) {
            return Err(refused("the bootstrap room is taken"));
        }
        held.extend(self.rooms.iter().map(|room| (*room, Room::Open)));
        drop(held);
        engine.handovers.moved.notify_waiters();
        Ok(Rooms { engine: engine.clone(), rooms: self.rooms })
    }

    async fn fetch(self, engine: &Engine) -> Result<(), ApiError> {
        engine.ask(&self.host, self.port, "/mock/rooms", &self.rooms).await
    }
}
