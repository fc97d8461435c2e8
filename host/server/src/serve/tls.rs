//! TLS for a listener.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::ServeError;
use crate::config::TlsConfig;

/// What accepts TLS connections with a configured certificate.
pub(super) fn acceptor(config: &TlsConfig) -> Result<TlsAcceptor, ServeError> {
    let chain = certificates(&config.certificates)?;
    let key = private_key(&config.key)?;
    let bad = |error: tokio_rustls::rustls::Error| ServeError::TlsContent {
        path: config.key.clone(),
        reason: error.to_string(),
        expected: "the key that belongs to the first certificate",
    };
    let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(bad)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(bad)?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

/// Reads a file as the configuration's is read: nothing that never ends, or waits for a writer.
fn open(path: &Path) -> Result<Cursor<Vec<u8>>, ServeError> {
    let bytes = crate::config::read_file(path)
        .map_err(|source| ServeError::TlsFile { path: path.to_owned(), source })?;
    Ok(Cursor::new(bytes))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let chain: Result<Vec<_>, _> = rustls_pemfile::certs(&mut open(path)?).collect();
    let chain = chain.map_err(|source| ServeError::TlsFile { path: path.to_owned(), source })?;
    if chain.is_empty() {
        return Err(ServeError::TlsContent {
            path: path.to_owned(),
            reason: "it holds no certificate".to_owned(),
            expected: "the certificate chain, the server's own first",
        });
    }
    Ok(chain)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ServeError> {
    let key = rustls_pemfile::private_key(&mut open(path)?)
        .map_err(|source| ServeError::TlsFile { path: path.to_owned(), source })?;
    key.ok_or_else(|| ServeError::TlsContent {
        path: path.to_owned(),
        reason: "it holds no private key".to_owned(),
        expected: "one private key without a passphrase",
    })
}
