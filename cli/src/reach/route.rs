//! One way to an environment, and sending a message along it.

use std::sync::Arc;

use cuddy_edge::client::Connection;
use parking_lot::Mutex;
use serde_json::Value;

use super::pod::PodRoute;
use super::{Reach, local};
use crate::bearer::Facts;
use crate::error::{CliError, Kind};
use crate::mcp_client::{self, Answer, Post, PostError};

/// How many connections are kept for the next request.
const MAX_KEPT: usize = 8;

/// A way to an environment.
#[derive(Debug)]
pub(crate) struct Route {
    end: End,
    facts: Facts,
    kept: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
enum End {
    Local { port: u16, authority: String },
    Pod(PodRoute),
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It was answered.
    Answered(Answer),
    /// It never reached the environment: it may be sent again.
    NotSent(CliError),
    /// It may have reached the environment, and its answer did not come.
    Lost(CliError),
}

impl Route {
    /// Returns the way through a local end.
    pub(crate) fn local(port: u16) -> Self {
        let end = End::Local { port, authority: local::authority(port) };
        Self { end, facts: Facts::default(), kept: Mutex::new(Vec::new()) }
    }

    /// Returns the way through a port-forward to the pod.
    pub(crate) fn pod(route: PodRoute) -> Self {
        let facts = route.facts();
        Self { end: End::Pod(route), facts, kept: Mutex::new(Vec::new()) }
    }

    /// Returns what a bearer for this way says.
    pub(crate) const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the URL of MCP where it is one that other programs can use.
    pub(crate) fn url(&self) -> Option<String> {
        match &self.end {
            End::Local { authority, .. } => Some(format!("http://{authority}{}", mcp_client::PATH)),
            End::Pod(_) => None,
        }
    }

    fn authority(&self) -> &str {
        match &self.end {
            End::Local { authority, .. } => authority,
            End::Pod(route) => route.authority(),
        }
    }

    async fn connect(&self) -> Result<Connection, CliError> {
        match &self.end {
            End::Local { port, .. } => local::connect(*port).await,
            End::Pod(route) => Ok(route.connect().await?),
        }
    }

    fn take_kept(&self) -> Option<Connection> {
        let mut kept = self.kept.lock();
        kept.retain(|connection| !connection.is_closed());
        kept.pop()
    }

    fn keep(&self, connection: Connection) {
        let mut kept = self.kept.lock();
        if kept.len() < MAX_KEPT && !connection.is_closed() {
            kept.push(connection);
        }
    }
}

impl Reach {
    /// Sends one message along a way, with a bearer of its own. Notifications that come before the answer go to `notify`.
    ///
    /// Cancel safety: dropping this closes the request's connection, which takes the call back.
    pub(crate) async fn send(
        &self,
        route: &Arc<Route>,
        message: &Value,
        notify: &mut (dyn FnMut(Value) + Send),
    ) -> Sent {
        let bearer = match self.bearer(route) {
            Ok(bearer) => bearer,
            Err(error) => return Sent::NotSent(error),
        };
        // A connection that was kept may have been closed at the other end meanwhile. Then nothing was sent, and a new
        // one is made.
        let mut kept = route.take_kept();
        loop {
            let fresh = kept.is_none();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => match route.connect().await {
                    Ok(connection) => connection,
                    Err(error) => return Sent::NotSent(error),
                },
            };
            let post = Post { authority: route.authority(), bearer: &bearer, message };
            match mcp_client::post(&mut connection, post, notify).await {
                Ok(answer) => {
                    route.keep(connection);
                    return Sent::Answered(answer);
                }
                Err(PostError::NotSent(_)) if !fresh => {}
                Err(error) if error.is_before_effect() => {
                    return Sent::NotSent(CliError::unreachable(error.to_string()).because(error));
                }
                Err(error) => {
                    let kind =
                        if matches!(error, PostError::Lost(_)) { Kind::ChannelLost } else { Kind::Failed };
                    return Sent::Lost(CliError::new(kind, error.to_string()).because(error));
                }
            }
        }
    }
}
