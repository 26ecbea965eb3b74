//! Talking to a sidecar: TLS with the environment's own name, then HTTP/1.1, over any stream (a socket, a port-forward).
//!
//! No byte of a request, and so no bearer, is sent before the certificate has been checked against the operator's CA and
//! the name `<uid>.env.cuddy.internal`.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// Why a sidecar cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The CA bundle holds no certificate.
    #[error("the CA bundle holds no certificate that can be read")]
    Ca,
    /// The name is none.
    #[error("{0} is no server name")]
    Name(String),
    /// TLS failed: an old certificate, another server, or no TLS at all.
    #[error("the server did not prove to be {name}")]
    Tls {
        /// The name that was expected.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// HTTP failed.
    #[error("the server does not speak HTTP")]
    Http(#[from] hyper::Error),
}

/// A connection over which requests with a whole body are sent, one at a time.
pub type Connection = SendRequest<Full<Bytes>>;

/// Returns the TLS settings that trust one CA bundle (PEM) and nothing else.
pub fn tls_config(ca_pem: &[u8]) -> Result<Arc<rustls::ClientConfig>, ConnectError> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem) {
        roots.add(certificate.map_err(|_| ConnectError::Ca)?).map_err(|_| ConnectError::Ca)?;
    }
    if roots.is_empty() {
        return Err(ConnectError::Ca);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|_| ConnectError::Ca)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Connects over a stream: TLS to `name`, then HTTP/1.1. The connection's task ends when the returned handle is dropped
/// and the last answer's body is done.
pub async fn connect<S>(
    stream: S,
    config: Arc<rustls::ClientConfig>,
    name: &str,
) -> Result<Connection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let server = ServerName::try_from(name.to_owned()).map_err(|_| ConnectError::Name(name.to_owned()))?;
    let tls = TlsConnector::from(config)
        .connect(server, stream)
        .await
        .map_err(|source| ConnectError::Tls { name: name.to_owned(), source })?;
    handshake(tls).await
}

/// Speaks HTTP/1.1 over a stream as it is: for the plain local end, and on top of TLS.
pub async fn handshake<S>(stream: S) -> Result<Connection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended");
        }
    });
    Ok(sender)
}
