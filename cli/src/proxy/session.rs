//! The client's side from its first line to its last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::call::{self, Call};
use super::handshake;
use super::lines::{Line, Lines, MAX_LINE_BYTES};
use super::message::{self, Message};
use super::progress::Progress;
use super::writer::Writer;
use crate::error::CliError;
use crate::platform;
use crate::reach::Reach;

/// Calls that may run at once; one more is told that it is too much.
const MAX_IN_FLIGHT: usize = 64;
/// How long calls that are taken back at the end may take to tell the environment so.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long calls that run may go on once the client has nothing more to say: enough for what a script sends in one go,
/// and not for ever, since a client that wants the proxy to end closes its input and waits for that (MCP, "Shutdown").
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// How often it is looked whether anybody still waits for the last answers.
const LOOK: Duration = Duration::from_secs(1);

/// Finds the environment; asked again after a failure, so that a client which starts first is served later.
pub(crate) type Finder = Box<dyn Fn() -> BoxFuture<'static, Result<Reach, CliError>> + Send + Sync>;

/// The environment, once it has been found.
pub(super) struct Upstream {
    finder: Finder,
    found: OnceCell<Reach>,
    /// How long a call may wait for an environment that is busy or comes up.
    pub(super) patience: Duration,
}

impl Upstream {
    pub(super) async fn reach(&self) -> Result<&Reach, CliError> {
        self.found.get_or_try_init(&self.finder).await
    }
}

/// A call that runs, by the client's id.
struct Running {
    id: Value,
    taken_back: CancellationToken,
}

type Table = Arc<Mutex<HashMap<String, Running>>>;

struct Session {
    upstream: Arc<Upstream>,
    writer: Writer,
    calls: Table,
    tasks: TaskTracker,
}

/// Serves a client until it has nothing more to say and has its answers, or is gone, or `stop` is done.
pub(crate) async fn serve<R, W>(
    finder: Finder,
    patience: Duration,
    input: R,
    output: W,
    stop: impl Future<Output = ()>,
) where
    R: AsyncBufRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (writer, written) = Writer::start(output);
    let session = Session {
        upstream: Arc::new(Upstream { finder, found: OnceCell::new(), patience }),
        writer,
        calls: Table::default(),
        tasks: TaskTracker::new(),
    };
    if let Err(error) = session.upstream.reach().await {
        call::diagnose(&format!("{}; calls will try again", call::recovery(&error)));
    }
    // One line is read ahead: the client may say more while an answer waits to be taken.
    let (sender, mut lines) = mpsc::channel(1);
    tokio::spawn(read(Lines::new(input, MAX_LINE_BYTES), sender));
    let mut stop = std::pin::pin!(stop);
    let ended = loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = session.writer.gone() => break false,
            () = &mut stop => break false,
        };
        match line {
            Some(line) => session.line(line).await,
            None => break true,
        }
    };
    session.tasks.close();
    if ended {
        tokio::select! {
            () = session.tasks.wait() => {}
            () = tokio::time::sleep(LAST_ANSWERS) => session.give_up().await,
            () = session.writer.gone() => {}
            () = nobody_listens() => {}
            () = &mut stop => {}
        }
    }
    for running in session.calls.lock().values() {
        running.taken_back.cancel();
    }
    let _ = tokio::time::timeout(FAREWELL, session.tasks.wait()).await;
    drop(session);
    let _ = tokio::time::timeout(FAREWELL, written).await;
}

impl Session {
    async fn line(&self, line: Line) {
        let line = match line {
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => return,
            Line::Whole(line) => line,
            Line::TooLong => {
                let words = format!("Invalid Request: a line has at most {MAX_LINE_BYTES} bytes");
                return self.writer.send(message::error(&Value::Null, -32600, &words, None)).await;
            }
            Line::End => return,
        };
        match message::parse(&line) {
            Err(answer) => self.writer.send(answer).await,
            // Nothing is ever asked of the client.
            Ok(Message::Response) => {}
            Ok(Message::Notification { method, params }) => self.notification(&method, &params),
            Ok(Message::Request { id, method, params }) => match handshake::answer(&id, &method, &params) {
                Some(answer) => self.writer.send(answer).await,
                None => self.call(id, params).await,
            },
        }
    }

    fn notification(&self, method: &str, params: &Map<String, Value>) {
        if method != "notifications/cancelled" {
            return;
        }
        let running = params.get("requestId").and_then(|id| self.calls.lock().remove(&id.to_string()));
        if let Some(running) = running {
            running.taken_back.cancel();
        }
    }

    /// Takes back the calls that are left, and tells the client so.
    async fn give_up(&self) {
        let left: Vec<Running> = {
            let mut calls = self.calls.lock();
            // Under the lock: from here on none of them answers by itself.
            calls.drain().map(|(_, running)| running).inspect(|running| running.taken_back.cancel()).collect()
        };
        for Running { id, .. } in left {
            let words = "the input ended and this call did not within 2 s: it is taken back";
            let data = json!({ "errorCode": "OUTCOME_UNKNOWN", "retryable": false });
            self.writer.send(message::error(&id, -32603, words, Some(data))).await;
        }
    }

    async fn call(&self, id: Value, params: Map<String, Value>) {
        let key = id.to_string();
        let taken_back = CancellationToken::new();
        let refusal = {
            let mut calls = self.calls.lock();
            if calls.contains_key(&key) {
                // Its id would make the client take this for the answer to the call that runs.
                Some(message::error(
                    &Value::Null,
                    -32600,
                    &format!("Invalid Request: a call with the id {key} is running"),
                    None,
                ))
            } else if calls.len() >= MAX_IN_FLIGHT || self.tasks.len() >= 2 * MAX_IN_FLIGHT {
                let words = format!("{MAX_IN_FLIGHT} calls are running; wait for one of them to end");
                Some(message::error(
                    &id,
                    -32000,
                    &words,
                    Some(json!({ "errorCode": "BUSY", "retryable": true })),
                ))
            } else {
                calls.insert(key.clone(), Running { id: id.clone(), taken_back: taken_back.clone() });
                None
            }
        };
        if let Some(refusal) = refusal {
            return self.writer.send(refusal).await;
        }
        let token = params
            .get("_meta")
            .and_then(|meta| meta.get("progressToken"))
            .filter(|t| message::is_id(t))
            .cloned();
        let progress = Progress::new(token, self.writer.clone());
        let call = Call::new(Arc::clone(&self.upstream), id, params, progress);
        let (writer, calls) = (self.writer.clone(), Arc::clone(&self.calls));
        self.tasks.spawn(async move {
            let answer = Box::pin(call.run(&taken_back)).await;
            // Out of the table before the answer is out: the client may use the id again at once.
            let is_wanted = {
                let mut calls = calls.lock();
                let is_wanted = !taken_back.is_cancelled();
                if is_wanted {
                    calls.remove(&key);
                }
                is_wanted
            };
            if let Some(answer) = answer.filter(|_| is_wanted) {
                writer.send(answer).await;
            }
        });
    }
}

async fn read<R: AsyncBufRead + Unpin>(mut lines: Lines<R>, sender: mpsc::Sender<Line>) {
    loop {
        match lines.next().await {
            Ok(Line::End) => return,
            Ok(line) => {
                if sender.send(line).await.is_err() {
                    return;
                }
            }
            Err(error) => return call::diagnose(&format!("cannot read from the client: {error}")),
        }
    }
}

/// Returns once nobody can read what is written any more. A client that has closed both ends is not told from one that
/// only has nothing more to ask, until one looks.
async fn nobody_listens() {
    loop {
        tokio::time::sleep(LOOK).await;
        if platform::stdout_is_closed() {
            return;
        }
    }
}
