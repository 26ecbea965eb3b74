//! Standard output: one message per line, whole lines only, nothing else ever.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that may wait to be read by the client. A client that reads nothing holds up its own calls, and nothing else
/// grows: an answer can have tens of megabytes, so few may wait.
const QUEUE: usize = 16;

/// Where messages for the client go.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    queue: mpsc::Sender<Value>,
    gone: Arc<CancellationToken>,
}

impl Writer {
    /// Starts writing to `output`; returns the writer, and the task that ends once every writer is dropped.
    pub(super) fn start<W>(output: W) -> (Self, tokio::task::JoinHandle<()>)
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (queue, messages) = mpsc::channel(QUEUE);
        let gone = Arc::new(CancellationToken::new());
        let task = tokio::spawn(write_all(output, messages, Arc::clone(&gone)));
        (Self { queue, gone }, task)
    }

    /// Hands a message over. One for a client that is gone is dropped.
    pub(super) async fn send(&self, message: Value) {
        let _ = self.queue.send(message).await;
    }

    /// Hands over a message that may be lost: progress that nobody reads in time.
    pub(super) fn send_if_room(&self, message: Value) {
        // The last places are kept for answers.
        if self.queue.capacity() > QUEUE / 2 {
            let _ = self.queue.try_send(message);
        }
    }

    /// Returns once the client reads no more.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

async fn write_all<W: AsyncWrite + Unpin>(
    mut output: W,
    mut messages: mpsc::Receiver<Value>,
    gone: Arc<CancellationToken>,
) {
    while let Some(message) = messages.recv().await {
        let mut line = message.to_string();
        line.push('\n');
        let written = async {
            output.write_all(line.as_bytes()).await?;
            output.flush().await
        };
        if written.await.is_err() {
            gone.cancel();
            return;
        }
    }
}
