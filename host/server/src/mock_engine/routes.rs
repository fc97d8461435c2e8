//! Which path does what, and in which order failure switches act on a request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::json;

use super::answer::{Answer, Content};
use super::chunks::{Chunks, DONE, answer_id, whole};
use super::connection::{Ending, Link};
use super::control::{Health, StreamFault};
use super::embedding::EmbeddingJob;
use super::engine::{Engine, VERSION, unix_seconds};
use super::error::{ApiError, Broken, detail};
use super::generation::Generation;
use super::handover::{Fetch, Task};
use super::metrics;
use super::models;
use super::request::{Job, Kind};
use super::stats::{LastRequest, PATHS};
use super::tokenize;
use super::visit::{Finish, Visit};

/// The largest request body that is read.
const MOST_BODY: usize = 64 << 20;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";

/// An answer before the headers that all answers have.
struct Reply {
    status: StatusCode,
    content_type: Option<&'static str>,
    header: Option<(HeaderName, HeaderValue)>,
    content: Content,
}

impl Reply {
    fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, content_type: Some(JSON), header: None, content: Content::plain(body) }
    }

    fn value(value: &impl serde::Serialize) -> Self {
        Self::json(StatusCode::OK, serde_json::to_vec(value).unwrap_or_default())
    }

    fn empty(status: StatusCode) -> Self {
        Self { status, content_type: None, header: None, content: Content::plain(Bytes::new()) }
    }

    fn not_found() -> Self {
        Self::json(StatusCode::NOT_FOUND, detail("Not Found"))
    }

    fn wrong_method(allowed: &'static str) -> Self {
        Self {
            header: Some((header::ALLOW, HeaderValue::from_static(allowed))),
            ..Self::json(StatusCode::METHOD_NOT_ALLOWED, detail("Method Not Allowed"))
        }
    }
}

impl From<ApiError> for Reply {
    fn from(error: ApiError) -> Self {
        Self::json(error.status, error.body())
    }
}

/// Answers one request; an error cuts the connection.
pub(super) async fn answer(
    engine: Arc<Engine>,
    link: Arc<Link>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Broken> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let admin = path.starts_with("/mock/");
    if !admin {
        engine.stats.count_path(path);
    }
    let inference = parts.method == Method::POST && path.starts_with("/v1/");
    let mut visit = inference.then(|| Visit::open(engine.stats.clone()));

    let body = match Limited::new(body, MOST_BODY).collect().await {
        Ok(body) => body,
        Err(error) => {
            // Else the client went away, and the answer reaches nobody.
            if error.is::<LengthLimitError>()
                && let Some(visit) = &mut visit
            {
                visit.fail();
            }
            let reply =
                Reply::json(StatusCode::PAYLOAD_TOO_LARGE, detail("Request Entity Too Large"));
            return Ok(finished(&engine, &link, reply, true));
        }
    };
    let body = body.to_bytes();
    if admin {
        let reply = match parts.uri.path() {
            "/mock/handover" | "/mock/rooms" => hand_over(&engine, &parts, &body).await,
            _ => mock(&engine, &parts, &body),
        };
        return Ok(finished(&engine, &link, reply, true));
    }
    if !is_probe(&parts) {
        engine.stats.remember(last_request(&parts, &body));
    }
    engine.thawed().await;
    let reply = match visit {
        Some(visit) => infer(&engine, &link, &parts, &body, visit).await?,
        None => probe(&engine, &parts, &body).await,
    };
    Ok(finished(&engine, &link, reply, false))
}

/// Adds what every answer carries.
fn finished(engine: &Engine, link: &Arc<Link>, reply: Reply, admin: bool) -> Response<Answer> {
    let control = if admin { Default::default() } else { engine.control.get() };
    let mut response = Response::new(Answer::new(reply.content, link.clone(), control.close_idle));
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("uvicorn"));
    if let Some(content_type) = reply.content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    headers.insert("x-mock-engine", engine.signature.clone());
    if let Some((name, value)) = reply.header {
        headers.insert(name, value);
    }
    if control.two_cookies {
        headers.append(header::SET_COOKIE, HeaderValue::from_static("first=1; Path=/"));
        headers.append(header::SET_COOKIE, HeaderValue::from_static("second=2; Path=/"));
    }
    if control.hop_headers {
        headers.insert(header::CONNECTION, HeaderValue::from_static("x-hop"));
        headers.insert("x-hop", HeaderValue::from_static("for this connection only"));
        headers.insert("keep-alive", HeaderValue::from_static("timeout=5"));
        headers.insert(header::PROXY_AUTHENTICATE, HeaderValue::from_static("Basic"));
    }
    response
}

/// Inference, or the failure ordered instead.
async fn infer(
    engine: &Arc<Engine>,
    link: &Arc<Link>,
    parts: &Parts,
    body: &[u8],
    mut visit: Visit,
) -> Result<Reply, Broken> {
    let orders = engine.control.orders();
    if orders.cut {
        visit.fail();
        link.end_with(Ending::Reset);
        return Err(Broken);
    }
    if orders.hang {
        // Dropped, with the visit, when the client gives up.
        std::future::pending::<()>().await;
    }
    if orders.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(orders.delay_ms)).await;
        engine.thawed().await;
    }
    if let Some(refuse) = orders.refuse {
        visit.fail();
        let status =
            StatusCode::from_u16(refuse.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after =
            refuse.retry_after.map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds)));
        return Ok(Reply { header: retry_after, ..ApiError::refusal(status).into() });
    }
    Ok(match parts.uri.path() {
        "/v1/chat/completions" => {
            generate(engine, link, parts, Kind::Chat, body, visit, orders.stream).await
        }
        "/v1/completions" => {
            generate(engine, link, parts, Kind::Completion, body, visit, orders.stream).await
        }
        "/v1/embeddings" => embed(engine, parts, body, visit, orders.stream).await,
        path => {
            visit.fail();
            if PATHS.contains(&path) { Reply::wrong_method("GET") } else { Reply::not_found() }
        }
    })
}

async fn generate(
    engine: &Arc<Engine>,
    link: &Arc<Link>,
    parts: &Parts,
    kind: Kind,
    body: &[u8],
    mut visit: Visit,
    fault: Option<StreamFault>,
) -> Reply {
    let read = async {
        let mut job = Job::parse(kind, body, &engine.config)?;
        let task = Task::read(engine, &mut job, body, request_id(parts)).await?;
        Ok::<_, ApiError>((job, task))
    };
    let (job, task) = match read.await {
        Ok(read) => read,
        Err(error) => {
            visit.fail();
            return error.into();
        }
    };
    let prefix = if kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
    let id = answer_id(prefix, request_id(parts));
    if job.stream && !matches!(task, Task::Meet(_)) {
        let generation = Generation::new(engine.clone(), link.clone(), visit, job, &id, fault);
        let content = Content::Stream(Box::new(generation));
        return Reply { status: StatusCode::OK, content_type: Some(EVENTS), header: None, content };
    }
    visit.wait();
    let seats = engine.turn(job.choices).await;
    let answer_blocks = engine.blocks(job.tokens as usize) * job.choices as u64;
    let prompt_blocks: u64 =
        job.prompts.iter().map(|prompt| engine.blocks(prompt.tokens.len())).sum();
    visit.run(seats, job.prompt_tokens(), prompt_blocks + answer_blocks);
    let cached = engine.compute(&job);
    // The first token comes with the prefill.
    let decode = engine.config.decode_interval().saturating_mul(job.tokens - 1);
    work(engine, engine.config.prefill_time(job.prompt_tokens()).saturating_add(decode)).await;
    visit.generated(job.choices as u64 * u64::from(job.tokens));
    let kept = matches!(task, Task::Keep).then(|| engine.keep(&job, &id));
    if let Task::Meet(rooms) = &task
        && let Err(error) = rooms.taken().await
    {
        visit.fail();
        return error.into();
    }
    let (content_type, bytes) = match job.stream {
        true => (EVENTS, one_token(engine, &job, &id)),
        false => (JSON, whole(engine, &job, cached, &id, kept.as_deref())),
    };
    let fault = fault.map(|fault| fault.kind);
    let content = Content::of_visit(bytes, visit, job.finish, fault);
    Reply { status: StatusCode::OK, content_type: Some(content_type), header: None, content }
}

/// The stream of a prefill: all of it at once.
fn one_token(engine: &Engine, job: &Job, id: &str) -> Bytes {
    let chunks = Chunks::new(engine, job, id);
    [chunks.last_token(0, 0), DONE].concat().into()
}

/// Another engine asks for a prompt.
async fn hand_over(engine: &Engine, parts: &Parts, body: &[u8]) -> Reply {
    let given = match parts.uri.path() {
        "/mock/handover" => {
            serde_json::from_slice::<Fetch>(body).map(|fetch| engine.handovers.give(&fetch))
        }
        _ => match serde_json::from_slice::<Vec<u64>>(body) {
            Ok(rooms) => Ok(engine.handovers.give_in(&rooms).await),
            Err(error) => Err(error),
        },
    };
    match given {
        Ok(true) => Reply::empty(StatusCode::OK),
        Ok(false) => Reply::not_found(),
        Err(error) => ApiError::bad_request(error.to_string(), None).into(),
    }
}

async fn embed(
    engine: &Arc<Engine>,
    parts: &Parts,
    body: &[u8],
    mut visit: Visit,
    fault: Option<StreamFault>,
) -> Reply {
    let job = match EmbeddingJob::parse(body, &engine.config) {
        Ok(job) => job,
        Err(error) => {
            visit.fail();
            return error.into();
        }
    };
    visit.wait();
    let seats = engine.turn(job.prompts.len().max(1)).await;
    let blocks = job.prompts.iter().map(|prompt| engine.blocks(prompt.tokens.len())).sum();
    visit.run(seats, job.tokens(), blocks);
    work(engine, engine.config.prefill_time(job.tokens())).await;
    let id = answer_id("embd", request_id(parts));
    let content = Content::of_visit(
        job.body(&id, unix_seconds()),
        visit,
        Finish::Stop,
        fault.map(|fault| fault.kind),
    );
    Reply { status: StatusCode::OK, content_type: Some(JSON), header: None, content }
}

/// Takes as long as the work would.
async fn work(engine: &Engine, time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
    engine.thawed().await;
}

fn request_id(parts: &Parts) -> Option<&str> {
    parts
        .headers
        .get("x-request-id")
        .and_then(|value| value.to_str().ok())
        .filter(|id| !id.is_empty())
}

/// Everything that isn't inference.
async fn probe(engine: &Engine, parts: &Parts, body: &[u8]) -> Reply {
    let path = parts.uri.path();
    match (parts.method.as_str(), path) {
        ("GET", "/health") => match engine.control.get().health {
            Health::Ok => Reply::empty(StatusCode::OK),
            Health::Unhealthy => Reply::empty(StatusCode::SERVICE_UNAVAILABLE),
            Health::Hang => std::future::pending().await,
        },
        ("GET", "/version") => Reply::value(&json!({ "version": VERSION })),
        ("GET", "/load") => {
            let stats = engine.stats.snapshot();
            Reply::value(&json!({ "server_load": stats.running + stats.waiting }))
        }
        ("GET", "/metrics") => Reply {
            content_type: Some(metrics::CONTENT_TYPE),
            ..Reply::json(StatusCode::OK, metrics::page(engine))
        },
        ("GET", "/v1/models") => Reply::value(&models::list(engine)),
        ("POST", "/tokenize") => tokenize::tokenize(engine, body)
            .map_or_else(Reply::from, |answer| Reply::value(&answer)),
        ("POST", "/detokenize") => tokenize::detokenize(engine, body)
            .map_or_else(Reply::from, |answer| Reply::value(&answer)),
        (_, "/health" | "/version" | "/load" | "/metrics" | "/v1/models") => {
            Reply::wrong_method("GET")
        }
        _ if PATHS.contains(&path) => Reply::wrong_method("POST"),
        _ => Reply::not_found(),
    }
}

/// The engine's own paths: switches, counters and what was received last.
fn mock(engine: &Engine, parts: &Parts, body: &[u8]) -> Reply {
    match (parts.method.as_str(), parts.uri.path()) {
        ("GET", "/mock/control") => Reply::value(&engine.control.get()),
        ("POST", "/mock/control") => match engine.control.merge(body) {
            Ok(control) => Reply::value(&control),
            Err(error) => ApiError::bad_request(error.to_string(), None).into(),
        },
        ("DELETE", "/mock/control") => {
            engine.control.reset();
            Reply::value(&engine.control.get())
        }
        ("GET", "/mock/stats") => Reply::value(&engine.snapshot()),
        ("GET", "/mock/last-request") => match engine.stats.last_request() {
            Some(last) => Reply::value(&last),
            None => Reply::not_found(),
        },
        (_, "/mock/control") => Reply::wrong_method("GET, POST, DELETE"),
        (_, "/mock/stats" | "/mock/last-request") => Reply::wrong_method("GET"),
        _ => Reply::not_found(),
    }
}

fn is_probe(parts: &Parts) -> bool {
    parts.method == Method::GET
        && matches!(parts.uri.path(), "/health" | "/version" | "/load" | "/metrics" | "/v1/models")
}

fn last_request(parts: &Parts, body: &Bytes) -> LastRequest {
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    LastRequest {
        method: parts.method.to_string(),
        path: parts
            .uri
            .path_and_query()
            .map_or_else(|| parts.uri.path().to_owned(), ToString::to_string),
        headers,
        body_len: body.len(),
        body: body.clone(),
    }
}
