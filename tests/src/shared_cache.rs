//! A cache that all workers share, as a server on loopback: the routes and the JSON of the one that
//! users of linked policies know, kept in memory.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The server. Its tasks end with it.
#[derive(Debug)]
pub struct SharedCacheServer {
    address: SocketAddr,
    shelf: Arc<Shelf>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shelf {
    silent: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    blocks: BTreeSet<u64>,
    asked: usize,
}

impl SharedCacheServer {
    /// One that answers.
    pub async fn start() -> Result<Self> {
        Self::serve(Shelf::default()).await
    }

    /// One that takes every question and never answers it.
    pub async fn start_silent() -> Result<Self> {
        Self::serve(Shelf { silent: true, ..Shelf::default() }).await
    }

    async fn serve(shelf: Shelf) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (address, shelf) = (listener.local_addr()?, Arc::new(shelf));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, shelf.clone()));
        Ok(Self { address, shelf, _tasks: tasks })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often somebody has asked which blocks there are.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.shelf.inner().asked
    }
}

impl Shelf {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let hashes = || -> Option<Vec<u64>> {
            let body: Value = serde_json::from_slice(&body).ok()?;
            body["block_hashes"].as_array()?.iter().map(Value::as_u64).collect()
        };
        let route = (head.method, head.uri.path());
        if route == (Method::POST, "/check_blocks") {
            self.inner().asked += 1;
            if self.silent {
                std::future::pending::<()>().await;
            }
        }
        let mut inner = self.inner();
        let (status, answer) = match route {
            (Method::GET, "/health") => return Response::default(),
            (Method::GET, "/stats") => {
                (StatusCode::OK, json!({ "total_blocks": inner.blocks.len() }))
            }
            (Method::POST, path) => match (path, hashes()) {
                ("/check_blocks", Some(hashes)) => {
                    (StatusCode::OK, json!({ "ranges": ranges(&inner.blocks, &hashes) }))
                }
                ("/store", Some(hashes)) => {
                    let stored = hashes.len();
                    inner.blocks.extend(hashes);
                    let total = inner.blocks.len();
                    let answer = json!({ "status": "ok", "stored": stored, "total": total });
                    (StatusCode::CREATED, answer)
                }
                ("/remove", Some(hashes)) => {
                    inner.blocks.retain(|block| !hashes.contains(block));
                    let (removed, total) = (hashes.len(), inner.blocks.len());
                    let answer = json!({ "status": "ok", "removed": removed, "total": total });
                    (StatusCode::OK, answer)
                }
                _ => (StatusCode::UNPROCESSABLE_ENTITY, Value::Null),
            },
            _ => (StatusCode::NOT_FOUND, Value::Null),
        };
        let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
        *response.status_mut() = status;
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        response
    }
}

fn ranges(blocks: &BTreeSet<u64>, hashes: &[u64]) -> Vec<[usize; 2]> {
    let mut ranges: Vec<[usize; 2]> = Vec::new();
    for (at, _) in hashes.iter().enumerate().filter(|(_, hash)| blocks.contains(hash)) {
        match ranges.last_mut() {
            Some([_, end]) if *end == at => *end += 1,
            _ => ranges.push([at, at + 1]),
        }
    }
    ranges
}

async fn accept(listener: TcpListener, shelf: Arc<Shelf>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shelf = shelf.clone();
        connections.spawn(async move {
            let answer = service_fn(move |request| {
                let shelf = shelf.clone();
                async move { Ok::<_, Infallible>(shelf.answer(request).await) }
            });
            let http1 = hyper::server::conn::http1::Builder::new();
            // Whoever hangs up has its reasons.
            let _ = http1.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}
