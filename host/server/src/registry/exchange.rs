//! One question to a registry over HTTP, and its answer.
//!
//! Owns the connections, where redirects may lead, and how much of an answer is read. Credentials go
//! to the host that they are for and no further: where an answer sends elsewhere, it is asked without.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, HeaderMap, LOCATION, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use url::Url;

use super::error::PullError;
use super::reference::Reference;

/// For a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Redirects that are followed: registries send to a store, stores at times to a mirror.
const MOST_REDIRECTS: usize = 5;

/// Bytes of an error's body that are read.
const MOST_COMPLAINT: u64 = 8 << 10;

/// Who asks.
const AGENT: &str = concat!("pointsman/", env!("CARGO_PKG_VERSION"));

/// Asks.
#[derive(Debug)]
pub(super) struct Exchange {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    plain: bool,
}

/// An answer whose body has not been read.
#[derive(Debug)]
pub(super) struct Answer {
    /// Where it came from in the end.
    pub(super) url: Url,
    response: Response<Incoming>,
    /// Whether it came from where it was asked for.
    pub(super) is_direct: bool,
}

impl Exchange {
    pub(super) fn new(reference: &Reference, plain: bool) -> Result<Self, PullError> {
        let tls = tls(plain).map_err(|reason| PullError::NoAuthorities {
            url: reference.registry().to_owned(),
            reason,
        })?;
        Ok(Self::over(tls, plain))
    }

    fn over(tls: ClientConfig, plain: bool) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), plain }
    }

    /// Asks, and follows where that leads.
    pub(super) async fn get(
        &self,
        url: &Url,
        accept: &'static str,
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, PullError> {
        let origin = url.origin();
        let mut url = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let mut request = Request::get(url.as_str())
                .header(ACCEPT, accept)
                .header(USER_AGENT, AGENT)
                .body(Empty::new())
                .map_err(|error| unreachable(&url, error.to_string()))?;
            let is_direct = url.origin() == origin;
            if let Some(value) = authorization.filter(|_| is_direct) {
                request.headers_mut().insert(AUTHORIZATION, value.clone());
            }
            let response = self.client.request(request).await;
            let response = response.map_err(|error| match is_not_tls(&error) {
                true => PullError::NoTls { url: url.to_string() },
                false => unreachable(&url, reason(&error)),
            })?;
            if !is_redirect(response.status()) {
                return Ok(Answer { url, response, is_direct });
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.unwrap_or_default();
            let next = url.join(to).ok().filter(|_| !to.is_empty());
            let next = next.ok_or_else(|| redirect(&url, to, "which is no address"))?;
            self.check(&next).map_err(|what| redirect(&url, next.as_str(), what))?;
            url = next;
        }
        Err(redirect(&url, url.as_str(), "and before that to others, without an end"))
    }

    /// Refuses what would go in the clear without having been asked for so.
    pub(super) fn check(&self, url: &Url) -> Result<(), &'static str> {
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.plain => Ok(()),
            "http" => Err("which is not encrypted"),
            _ => Err("which is not asked over HTTP"),
        }
    }
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The whole body, of at most so many bytes.
    pub(super) async fn read(self, most: u64) -> Result<Vec<u8>, PullError> {
        let url = self.url.clone();
        let bytes = self.bytes(most).await?;
        if bytes.len() as u64 > most {
            return Err(PullError::TooLong { url: url.to_string(), most });
        }
        Ok(bytes)
    }

    /// The whole body, of exactly so many bytes.
    pub(super) async fn read_exactly(self, wanted: u64) -> Result<Vec<u8>, PullError> {
        let url = self.url.to_string();
        let size = |found| PullError::Size { url: url.clone(), found, wanted };
        if let Some(length) = length(self.headers()).filter(|length| *length != wanted) {
            return Err(size(format!("{length} bytes")));
        }
        match self.bytes(wanted).await {
            Ok(bytes) if bytes.len() as u64 == wanted => Ok(bytes),
            Ok(bytes) if bytes.len() as u64 > wanted => Err(size("more".to_owned())),
            Ok(bytes) => Err(size(format!("{} bytes", bytes.len()))),
            Err(error) => Err(error),
        }
    }

    /// The body, or a little more than `most` bytes of it.
    async fn bytes(self, most: u64) -> Result<Vec<u8>, PullError> {
        let Self { url, response, .. } = self;
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let reason = format!("broke off after {} bytes: {}", bytes.len(), reason(&error));
                unreachable(&url, reason)
            })?;
            let Ok(data) = frame.into_data() else { continue };
            bytes.extend_from_slice(&data);
            if bytes.len() as u64 > most {
                break;
            }
        }
        Ok(bytes)
    }

    /// What a registry says with an error.
    pub(super) async fn complaint(self) -> PullError {
        #[derive(Deserialize)]
        struct Complaints {
            errors: Vec<Complaint>,
        }
        #[derive(Deserialize)]
        struct Complaint {
            #[serde(default)]
            code: String,
            #[serde(default)]
            message: String,
        }
        let (url, status) = (self.url.to_string(), self.status());
        let body = self.read(MOST_COMPLAINT).await.unwrap_or_default();
        let first = serde_json::from_slice::<Complaints>(&body).ok();
        let first = first.and_then(|all| all.errors.into_iter().next());
        let detail = first.map(|Complaint { code, message }| {
            let text = if message.is_empty() { code } else { message };
            text.chars().filter(|c| !c.is_control()).take(200).collect()
        });
        PullError::Status { url, status, detail: detail.unwrap_or_default() }
    }
}

/// Trusts whom the system trusts; over plain HTTP that may be nobody.
fn tls(plain: bool) -> Result<ClientConfig, String> {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())
    };
    match builder()?.with_native_roots() {
        Ok(trusting) => Ok(trusting.with_no_client_auth()),
        Err(_) if plain => {
            Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn redirect(url: &Url, to: &str, what: &'static str) -> PullError {
    PullError::Redirect { url: url.to_string(), to: to.chars().take(200).collect(), what }
}

fn unreachable(url: &Url, reason: String) -> PullError {
    PullError::Unreachable { url: url.to_string(), reason }
}

/// Whether the other side speaks something else than TLS, where TLS was wanted.
fn is_not_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return matches!(error, rustls::Error::InvalidMessage(_));
    }
    // An I/O error passes over what it is made of, and tells what led to that.
    let within = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    within.is_some_and(|error| is_not_tls(error)) || error.source().is_some_and(is_not_tls)
}

/// An error with all that led to it.
fn reason(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test's panic is its message")]

    use std::fs::read;
    use std::path::Path;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::CertificateDer;

    use super::*;

    /// Trusts these, and nobody else.
    fn trusting(authorities: &[CertificateDer<'static>]) -> Exchange {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let tls = tls.with_safe_default_protocol_versions().unwrap();
        Exchange::over(tls.with_root_certificates(roots).with_no_client_auth(), false)
    }

    #[tokio::test]
    async fn a_registry_is_asked_over_tls_if_its_certificate_is_trusted() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tls");
        let pem = |name| read(folder.join(name)).unwrap();
        let chain: Result<Vec<_>, _> =
            rustls_pemfile::certs(&mut &*pem("certificate.pem")).collect();
        let chain = chain.unwrap();
        let key = rustls_pemfile::private_key(&mut &*pem("key.pem")).unwrap().unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.clone(), key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = [0; 4_096];
                let _ = stream.read(&mut head).await.unwrap();
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
                stream.write_all(answer).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        let url = Url::parse(&format!("https://localhost:{port}/v2/")).unwrap();
        let answer = trusting(&chain).get(&url, "*/*", None).await.unwrap();
        assert_eq!(answer.read(100).await.unwrap(), b"hello");
        let told = trusting(&[]).get(&url, "*/*", None).await.unwrap_err().to_string();
        assert!(told.contains("invalid peer certificate"), "{told}");
        // One that knows no TLS, as many at home are.
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = plain.local_addr().unwrap().port();
        tasks.spawn(async move {
            let (mut stream, _) = plain.accept().await.unwrap();
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            let _ = stream.read(&mut [0; 4_096]).await.unwrap();
        });
        let url = Url::parse(&format!("https://localhost:{port}/v2/")).unwrap();
        let told = trusting(&chain).get(&url, "*/*", None).await.unwrap_err();
        assert_eq!(told, PullError::NoTls { url: url.to_string() });
        assert!(told.to_string().contains("say --plain-http"), "{told}");
        // Once there is TLS, nothing leads out of it.
        let clear = Url::parse("http://localhost/").unwrap();
        assert_eq!(trusting(&chain).check(&clear), Err("which is not encrypted"));
    }
}
