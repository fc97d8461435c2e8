//! Start and stop over real sockets.

#![expect(clippy::unwrap_used, reason = "a test that fails here has found its bug")]

use std::time::Duration;

use http::StatusCode;
use pointsman_core::ids::WorkerId;
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
    let late = LoadClient::new(server.public_addr()).get("/v1/models").await.unwrap();
    assert_eq!(late.status, StatusCode::SERVICE_UNAVAILABLE, "{}", late.text());
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
    assert!(matches!(refused, ServeError::Exposed { door: "admin", .. }), "{refused}");
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

/// The certificate for `localhost` that tests serve with, and the key that belongs to it.
fn test_tls() -> crate::config::TlsConfig {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls");
    crate::config::TlsConfig {
        certificates: folder.join("certificate.pem"),
        key: folder.join("key.pem"),
    }
}

#[tokio::test]
async fn a_listener_with_a_certificate_speaks_tls_and_only_tls() {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

    let mut config = config(&NOBODY);
    config.admin.tls = Some(test_tls());
    let server = Server::start(config, None).await.unwrap();

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(test_tls().certificates).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let stream = TcpStream::connect(server.admin_addr()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let head = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let plain = LoadClient::new(server.admin_addr()).get("/health").await;
    assert!(plain.is_err(), "{plain:?}");
    server.shutdown().await;
}

#[tokio::test]
async fn http_2_is_served_and_its_streams_end_with_the_server() {
    use http_body_util::{BodyExt, Empty};
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    let server = Server::start(config(&NOBODY), None).await.unwrap();
    let client: Client<_, Empty<bytes::Bytes>> =
        Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let url = format!("http://{}/health", server.admin_addr());
    let answers = (0..20).map(|_| client.get(url.parse().unwrap()));
    for answer in futures_util::future::join_all(answers).await {
        let answer = answer.unwrap();
        assert_eq!((answer.version(), answer.status()), (http::Version::HTTP_2, StatusCode::OK));
        answer.into_body().collect().await.unwrap();
    }
    let tasks = server.tasks.clone();
    let done = timeout(Duration::from_secs(5), server.shutdown()).await;
    assert!(done.is_ok() && tasks.is_empty());
}

#[tokio::test]
async fn a_changed_file_changes_workers_and_policies_and_tells_what_needs_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pointsman.yaml");
    let write = |policy: &str, worker: u32, drain: &str| {
        let text = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain_timeout: {drain}\n\
             worker_selection: {{ aggregated: it, instances: [ {{ name: it, type: {policy} }} ] }}\n\
             workers: [ {{ worker_id: {worker}, endpoint: \"http://127.0.0.1:9\", model: m }} ]\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write("round-robin", 1, "1s");
    let config = Config::from_path(&file).unwrap();
    let server = Server::start(config, Some(file.clone())).await.unwrap();
    let policies = &server.app().policies;
    assert!(policies.reload().await.unwrap().is_idle());

    write("random", 2, "2s");
    let report = policies.reload().await.unwrap();
    assert!(report.configuration_changed && !report.is_refusal(), "{report:?}");
    assert_eq!(report.needs_restart, ["drain_timeout"]);
    assert_eq!(report.workers.registered, [WorkerId(2)]);
    assert_eq!(report.workers.leaving, [WorkerId(1)]);
    let ids =
        server.app().workers.workers().iter().map(|w| w.description.worker_id).collect::<Vec<_>>();
    assert_eq!(ids, [WorkerId(2)]);

    write("nobodys", 3, "1s");
    let report = policies.reload().await.unwrap();
    let reason = &report.refused[0].reason;
    assert!(reason.contains("pointsman.yaml:4") && reason.contains("nobodys"), "{reason}");
    assert_eq!(policies.status().configuration_error.as_ref(), Some(reason));
    assert_eq!(server.app().workers.workers().len(), 1);

    write("random", 2, "1s");
    let report = policies.reload().await.unwrap();
    assert!(report.is_idle(), "back to what is in force: {report:?}");
    assert_eq!(policies.status().configuration_error, None);
    server.shutdown().await;
}

/// Sends this process a signal that it listens for.
fn send(signal: &str) {
    let pid = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

#[tokio::test]
async fn a_hang_up_reloads_and_a_termination_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pointsman.yaml");
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let admin = free();
    let write = |worker: u32| {
        let text = format!(
            "listen: 127.0.0.1:0\nadmin: {admin}\nwasm: {{ rescan_interval: 1h }}\n\
             workers: [ {{ worker_id: {worker}, endpoint: \"http://127.0.0.1:9\", model: m }} ]\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    write(1);
    let running = run(Config::from_path(&file).unwrap(), Some(file.clone()), Doors::default());
    let asks = async {
        let has = async |worker: &str| {
            let path = format!("/v1/workers/{worker}");
            let found = async || match LoadClient::new(admin).get(&path).await {
                Ok(answer) => answer.status == StatusCode::OK,
                Err(_) => false,
            };
            while !found().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        has("1").await;
        write(2);
        send("-HUP");
        has("2").await;
        send("-TERM");
    };
    let both = async { tokio::join!(running, asks) };
    timeout(Duration::from_secs(20), both).await.unwrap().0.unwrap();
}

#[tokio::test]
async fn a_file_that_names_no_workers_any_more_lets_them_go_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pointsman.yaml");
    let write = |workers: &str| {
        std::fs::write(&file, format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n{workers}\n"))
    };
    let one = "workers: [ { worker_id: 1, endpoint: \"http://127.0.0.1:9\", model: m } ]";
    for (none, doubts) in [("workers: []", 2), ("", 1)] {
        write(one).unwrap();
        let config = Config::from_path(&file).unwrap();
        let server = Server::start(config, Some(file.clone())).await.unwrap();
        assert!(server.app().policies.reload().await.unwrap().doubts.is_empty());
        write(none).unwrap();
        let report = server.app().policies.reload().await.unwrap();
        assert_eq!(report.workers.leaving, [WorkerId(1)]);
        assert_eq!(report.doubts.len(), doubts, "{:?}", report.doubts);
        let last = report.doubts.last().unwrap();
        assert!(last.starts_with("the file names no workers any more: the 1 that"), "{last}");
        if doubts == 2 {
            let place = "pointsman.yaml:3:10: workers: the list is empty";
            assert!(report.doubts[0].contains(place), "{}", report.doubts[0]);
        }
        // Neither is told again while nothing changes.
        let report = server.app().policies.reload().await.unwrap();
        assert!(report.is_idle(), "{report:?}");
        server.shutdown().await;
    }
}
