//! One way to an environment, and sending along it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use cuddy_edge::client::Connection;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
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
    Pod(Box<PodRoute>),
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It was answered.
    Answered(Answer),
    /// It never reached the environment: it may be sent again.
    Unsent(CliError),
    /// It may have reached the environment, and its answer did not come.
    Lost(CliError),
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum RouteError {
    /// It never reached the environment.
    NotSent(CliError),
    /// It may have reached it.
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
        Self { end: End::Pod(Box::new(route)), facts, kept: Mutex::new(Vec::new()) }
    }

    /// Returns what a bearer for this way says.
    pub(crate) const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Sends a request as it is, with this way's own `Host`. Its connection serves the next one once the body is read.
    pub(crate) async fn request(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Relayed>, RouteError> {
        if let Ok(host) = HeaderValue::from_str(self.authority()) {
            request.headers_mut().insert(HOST, host);
        }
        let mut kept = self.take_kept();
        loop {
            let fresh = kept.is_none();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => self.connect().await.map_err(RouteError::NotSent)?,
            };
            let sent = match connection.ready().await {
                Ok(()) => connection.try_send_request(request.clone()).await.map_err(|mut error| {
                    let not_sent = error.take_message().is_some();
                    (not_sent, error.into_error())
                }),
                Err(error) => Err((true, error)),
            };
            match sent {
                Ok(response) => {
                    let route = Arc::clone(self);
                    return Ok(response.map(|body| Relayed { body, end: Some((route, connection)) }));
                }
                Err((true, _)) if !fresh => {}
                Err((true, error)) => {
                    return Err(RouteError::NotSent(
                        CliError::unreachable("the request was not sent").because(error),
                    ));
                }
                Err((false, error)) => {
                    let words = "the connection was lost before the answer came";
                    return Err(RouteError::Lost(CliError::new(Kind::ChannelLost, words).because(error)));
                }
            }
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
        let ready = kept.iter().position(Connection::is_ready)?;
        Some(kept.swap_remove(ready))
    }

    fn keep(&self, connection: Connection) {
        let mut kept = self.kept.lock();
        if kept.len() < MAX_KEPT && !connection.is_closed() {
            kept.push(connection);
        }
    }
}

/// A body on its way through. When it has been read to its end, its connection is kept; dropped before, it is closed.
#[derive(Debug)]
pub(crate) struct Relayed {
    body: Incoming,
    end: Option<(Arc<Route>, Connection)>,
}

impl Body for Relayed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None))
            && let Some((route, connection)) = self.end.take()
        {
            route.keep(connection);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
            Err(error) => return Sent::Unsent(error),
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
                    Err(error) => return Sent::Unsent(error),
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
                    return Sent::Unsent(CliError::unreachable(error.to_string()).because(error));
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
