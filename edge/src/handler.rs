//! Handlers: typed where they are written, by name where they are found (D2).

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use cuddy_commands::Command;
use cuddy_protocol::{CommandError, ErrorCode, Scope};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;

/// One step of progress, as MCP words it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressStep {
    /// How far; rises with each step.
    pub progress: f64,
    /// How far it goes, if known.
    pub total: Option<f64>,
    /// What is going on.
    pub message: Option<String>,
}

/// Where a handler reports progress. Steps that nobody waits for, or that come faster than they are read, are dropped.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<mpsc::Sender<ProgressStep>>);

impl Progress {
    /// Returns a progress that leads nowhere.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Returns a progress that leads into a bounded channel.
    pub const fn to(sender: mpsc::Sender<ProgressStep>) -> Self {
        Self(Some(sender))
    }

    /// Says whether anybody listens.
    pub const fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Reports a step, without waiting.
    pub fn report(&self, step: ProgressStep) {
        if let Some(sender) = &self.0 {
            // A full channel means that the reader is behind: the next step tells more than this one.
            let _ = sender.try_send(step);
        }
    }
}

/// What a handler gets beside its parameters.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Who calls.
    pub caller: Caller,
    /// The environment.
    pub scope: Scope,
    /// An id for logs and audit.
    pub call_id: String,
    /// Where progress goes.
    pub progress: Progress,
    /// Cancelled when the caller took the call back or the deadline passed: stop the work, answer nothing more.
    pub cancel: CancellationToken,
}

type BoxedHandler =
    Arc<dyn Fn(CallContext, Value) -> BoxFuture<'static, Result<Value, CommandError>> + Send + Sync>;

/// The handlers of a program, by command name.
#[derive(Clone, Default)]
pub struct Handlers(HashMap<&'static str, BoxedHandler>);

impl Handlers {
    /// Returns no handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a typed handler.
    pub fn with<C, F, R>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(CallContext, C::Params) -> R + Send + Sync + 'static,
        R: Future<Output = Result<C::Output, CommandError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.0.insert(
            C::DECLARATION.name,
            Arc::new(move |context, params| {
                let handler = Arc::clone(&handler);
                Box::pin(async move {
                    let params = serde_json::from_value(params)
                        .map_err(|e| CommandError::invalid("$", e.to_string()))?;
                    let output = handler(context, params).await?;
                    serde_json::to_value(output).map_err(|e| {
                        CommandError::new(ErrorCode::Internal, format!("result that cannot be written: {e}"))
                    })
                })
            }),
        );
        self
    }

    /// Adds a handler that passes parameters and result on as they are.
    pub fn with_raw<F, R>(mut self, name: &'static str, handler: F) -> Self
    where
        F: Fn(CallContext, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, CommandError>> + Send + 'static,
    {
        self.0.insert(name, Arc::new(move |context, params| Box::pin(handler(context, params))));
        self
    }

    /// Returns the handler of a command.
    pub(crate) fn find(&self, name: &str) -> Option<&BoxedHandler> {
        self.0.get(name)
    }

    /// Returns the names that have a handler.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
