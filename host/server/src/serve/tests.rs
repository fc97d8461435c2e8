//! Start and stop over real sockets.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::testing::config;
use super::*;
use crate::config::Secret;
use crate::load_client::LoadClient;

const NOBODY: [&str; 1] = ["http://127.0.0.1:9"];

#[tokio::test]
async fn several_routers_live_in_one_process_and_end_whole() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start(config(&NOBODY), None).await.unwrap());
    }
    for server in servers {
        let admin = LoadClient::new(server.admin_addr());
        assert_eq!(admin.get("/health").await.unwrap().status, StatusCode::OK);
        assert_eq!(admin.get("/ready").await.unwrap().status, StatusCode::OK);
        let (public, tasks) = (server.public_addr(), server.tasks.clone());
        server.shutdown().await;
        assert!(tasks.is_empty());
        assert!(TcpStream::connect(public).await.is_err(), "nobody listens any more");
    }
}

#[tokio::test]
async fn a_server_that_is_dropped_ends_its_tasks() {
    let server = Server::start(config(&NOBODY), None).await.unwrap();
    let (tasks, app) = (server.tasks.clone(), Arc::downgrade(&server.app.policies));
    drop(server);
    tasks.close();
    assert!(timeout(Duration::from_secs(5), tasks.wait()).await.is_ok());
    assert!(app.upgrade().is_none());
}

#[tokio::test]
async fn a_draining_router_is_not_ready_and_idle_connections_do_not_hold_it_up() {
    let server = Server::start(config(&NOBODY), None).await.unwrap();
    let mut idle = TcpStream::connect(server.public_addr()).await.unwrap();
    let mut used = TcpStream::connect(server.public_addr()).await.unwrap();
    used.write_all(b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(used.read(&mut [0; 1_024]).await.unwrap() > 0);
    let admin = LoadClient::new(server.admin_addr());
    server.app().draining.cancel();
    let answer = admin.get("/ready").await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.text().contains("stopping"), "{}", answer.text());
    for connection in [&mut idle, &mut used] {
        let mut rest = Vec::new();
        let closed = timeout(Duration::from_secs(2), connection.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "closed without waiting for the drain time");
    }
    let done = timeout(Duration::from_secs(2), server.shutdown()).await;
    assert!(done.is_ok());
}

#[tokio::test]
async fn a_connection_that_does_not_end_is_cut_when_the_drain_time_is_over() {
    let mut config = config(&NOBODY);
    config.drain_timeout = Duration::from_millis(50);
    let server = Server::start(config, None).await.unwrap();
    let mut slow = TcpStream::connect(server.public_addr()).await.unwrap();
    // A body that never comes: the request is in flight.
    let head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\n{";
    slow.write_all(head).await.unwrap();
    let done = timeout(Duration::from_secs(5), server.shutdown()).await;
    assert!(done.is_ok());
    let mut rest = Vec::new();
    // Closed or reset, and in any case at once.
    let end = timeout(Duration::from_secs(2), slow.read_to_end(&mut rest)).await;
    assert!(end.is_ok());
}

#[tokio::test]
async fn an_admin_listener_that_strangers_reach_needs_a_token() {
    let mut open = config(&NOBODY);
    open.admin.address = ([0, 0, 0, 0], 0).into();
    let refused = Server::start(open.clone(), None).await.unwrap_err();
    assert!(matches!(refused, ServeError::Exposed(_)), "{refused}");
    open.admin.tokens = vec![Secret("t".to_owned())];
    Server::start(open, None).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn a_taken_address_is_told_and_leaves_nothing_running() {
    let server = Server::start(config(&NOBODY), None).await.unwrap();
    let mut second = config(&NOBODY);
    second.listen.address = server.public_addr();
    let refused = Server::start(second, None).await.unwrap_err();
    assert!(refused.to_string().contains("can't listen on 127.0.0.1"), "{refused}");
    server.shutdown().await;
}

#[tokio::test]
async fn bad_tls_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (certificates, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    let mut config = config(&NOBODY);
    config.listen.tls =
        Some(crate::config::TlsConfig { certificates: certificates.clone(), key: key.clone() });
    let refused = Server::start(config.clone(), None).await.unwrap_err();
    assert!(matches!(&refused, ServeError::TlsFile { path, .. } if *path == certificates));
    std::fs::write(&certificates, "nothing").unwrap();
    std::fs::write(&key, "nothing").unwrap();
    let refused = Server::start(config, None).await.unwrap_err();
    assert!(refused.to_string().contains("holds no certificate"), "{refused}");
}
