//! Bodies that hold something until they are done: a permit, a count of what is in flight.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Frame, SizeHint};

/// A body with a value that is dropped with it: when the answer has been handed over, or its reader is gone.
pub(crate) struct Held<B, T> {
    body: B,
    _held: T,
}

impl<B, T> Held<B, T> {
    pub(crate) const fn new(body: B, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<B, T> HttpBody for Held<B, T>
where
    B: HttpBody + Unpin,
    T: Unpin,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns a body of known bytes that holds a value until it is done.
pub(crate) fn held<T: Send + Unpin + 'static>(bytes: impl Into<Bytes>, held: T) -> axum::body::Body {
    axum::body::Body::new(Held::new(Full::new(bytes.into()), held))
}
