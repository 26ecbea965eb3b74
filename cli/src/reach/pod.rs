//! The way through the API server: a port-forward to the pod, and TLS through it to the environment's own name.

use std::sync::Arc;
use std::time::Duration;

use cuddy_edge::client::{self, Connection};
use cuddy_protocol::places;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use super::ReachError;
use super::availability::Up;
use crate::bearer::Facts;

/// How long a port-forward and the handshake through it may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A pod, and what its certificate must say.
#[derive(Clone)]
pub(crate) struct PodRoute {
    pods: Api<Pod>,
    up: Up,
    name: String,
    tls: Arc<rustls::ClientConfig>,
}

impl std::fmt::Debug for PodRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodRoute")
            .field("pod", &self.up.pod)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl PodRoute {
    /// Returns the way to a pod that is up.
    pub(crate) fn new(client: Client, namespace: &str, up: Up) -> Result<Self, ReachError> {
        let tls = client::tls_config(up.ca.as_bytes())
            .map_err(|source| ReachError::Connect { name: up.name.clone(), source })?;
        let name = places::server_name(&up.uid);
        Ok(Self { pods: Api::namespaced(client, namespace), up, name, tls })
    }

    /// Returns the `Host` of the environment.
    pub(crate) fn authority(&self) -> &str {
        &self.name
    }

    /// Returns what a bearer for this pod says.
    pub(crate) fn facts(&self) -> Facts {
        Facts { issuer: self.up.issuer.clone(), uid: Some(self.up.uid.clone()) }
    }

    /// Connects. No byte of a request is sent before the certificate was checked.
    pub(crate) async fn connect(&self) -> Result<Connection, ReachError> {
        let connecting = async {
            let mut forward = self.pods.portforward(&self.up.pod, &[self.up.port]).await.map_err(|e| {
                ReachError::Forward { name: self.up.name.clone(), message: crate::cluster::words(&e) }
            })?;
            let Some(stream) = forward.take_stream(self.up.port) else {
                return Err(self.no_forward("the stream is missing"));
            };
            let refused = forward.take_error(self.up.port);
            match client::connect(stream, Arc::clone(&self.tls), &self.name).await {
                Ok(connection) => Ok(connection),
                Err(source) => {
                    // The kubelet says in its own channel why the port was not reached; TLS only saw the end.
                    let told = match refused {
                        Some(words) => {
                            tokio::time::timeout(Duration::from_millis(200), words).await.ok().flatten()
                        }
                        None => None,
                    };
                    Err(match told {
                        Some(message) => self.no_forward(&message),
                        None => ReachError::Connect { name: self.up.name.clone(), source },
                    })
                }
            }
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or_else(|_| Err(self.no_forward("no answer in time")))
    }

    fn no_forward(&self, message: &str) -> ReachError {
        ReachError::Forward { name: self.up.name.clone(), message: crate::output::clean(message) }
    }
}
