//! MCP over HTTP, the client's side: one request per connection at a time, its answer as JSON or as server-sent events.
//!
//! Tells apart what cannot have run ([`PostError::NotSent`], [`Answer::Refused`]) from what may have ([`PostError::Lost`]).

use std::time::Duration;

use bytes::Bytes;
use cuddy_edge::client::Connection;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

mod answer;
mod sse;

pub(crate) use answer::{Refusal, ToolAnswer, protocol_error, tool_answer};

/// The path of MCP.
pub(crate) const PATH: &str = "/mcp";
/// The protocol version that the header names; every message we send means the same in all of them.
const PROTOCOL_VERSION: &str = "2025-06-18";
/// The largest answer, and the largest event of one: two streams of 1 MiB, as text and structured, escaped.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// The largest body of a refusal.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
/// The longest wait that a server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// One message for a server.
#[derive(Debug)]
pub(crate) struct Post<'a> {
    /// The `Host` header.
    pub(crate) authority: &'a str,
    /// The bearer.
    pub(crate) bearer: &'a SecretString,
    /// The message.
    pub(crate) message: &'a Value,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A notification was accepted.
    Accepted,
    /// The answer to a request.
    Message(Value),
    /// An HTTP error: the message was not acted upon.
    Refused(Refusal),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    /// Nothing was sent: the connection had ended before.
    #[error("the connection was closed before the request was sent")]
    NotSent(#[source] hyper::Error),
    /// The request was sent, or part of it, and no answer came.
    #[error("the connection was lost before the answer came")]
    Lost(#[source] Option<hyper::Error>),
    /// The answer is larger than any can be.
    #[error("the answer is larger than {MAX_ANSWER_BYTES} bytes")]
    TooLarge,
    /// The answer is no MCP.
    #[error("the answer is no MCP message: {0}")]
    Form(String),
    /// The request cannot be written.
    #[error("the request cannot be written")]
    Request(#[source] http::Error),
}

impl PostError {
    /// Says whether the request cannot have had any effect.
    pub(crate) const fn is_before_effect(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::Request(_))
    }
}

/// Sends one message and returns the answer. Notifications that come before it go to `notify`.
///
/// Cancel safety: dropping this closes the connection, by which the server knows that nobody waits.
pub(crate) async fn post(
    connection: &mut Connection,
    post: Post<'_>,
    notify: &mut (dyn FnMut(Value) + Send),
) -> Result<Answer, PostError> {
    connection.ready().await.map_err(PostError::NotSent)?;
    let request = request(&post)?;
    let response =
        connection.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(_) => PostError::NotSent(error.into_error()),
            None => PostError::Lost(Some(error.into_error())),
        })?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return Ok(Answer::Refused(refusal(head.status, &head.headers, body).await));
    }
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    match content_type.split(';').next().unwrap_or_default().trim() {
        "text/event-stream" => events(body, notify).await,
        _ if matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => Ok(Answer::Accepted),
        "application/json" => {
            let bytes = collect(body, MAX_ANSWER_BYTES).await?;
            let message = serde_json::from_slice(&bytes).map_err(|e| PostError::Form(e.to_string()))?;
            Ok(Answer::Message(message))
        }
        other => Err(PostError::Form(format!("content type {other:?}"))),
    }
}

fn request(post: &Post<'_>) -> Result<Request<Full<Bytes>>, PostError> {
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", post.bearer.expose_secret()))
        .map_err(|e| PostError::Request(e.into()))?;
    bearer.set_sensitive(true);
    Request::post(PATH)
        .header(HOST, post.authority)
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .header("mcp-protocol-version", PROTOCOL_VERSION)
        .header(USER_AGENT, concat!("cuddy/", env!("CARGO_PKG_VERSION")))
        .header(AUTHORIZATION, bearer)
        .body(Full::new(Bytes::from(post.message.to_string())))
        .map_err(PostError::Request)
}

async fn events(mut body: Incoming, notify: &mut (dyn FnMut(Value) + Send)) -> Result<Answer, PostError> {
    let mut parser = sse::Parser::new(MAX_ANSWER_BYTES);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| PostError::Lost(Some(e)))?;
        let Ok(data) = frame.into_data() else { continue };
        for event in parser.push(&data).map_err(|sse::TooLarge| PostError::TooLarge)? {
            let message: Value = serde_json::from_str(&event).map_err(|e| PostError::Form(e.to_string()))?;
            if message.get("method").is_some() {
                notify(message);
            } else {
                return Ok(Answer::Message(message));
            }
        }
    }
    Err(PostError::Lost(None))
}

async fn collect(mut body: Incoming, limit: usize) -> Result<Vec<u8>, PostError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| PostError::Lost(Some(e)))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > limit {
                return Err(PostError::TooLarge);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

async fn refusal(status: StatusCode, headers: &HeaderMap, body: Incoming) -> Refusal {
    let retry_after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    // A body that does not come in full is no reason to forget the status.
    let bytes = collect(body, MAX_REFUSAL_BYTES).await.unwrap_or_default();
    Refusal::new(status.as_u16(), retry_after, &bytes)
}
