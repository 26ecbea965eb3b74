//! The only way to run a command (DESIGN section 4), in this order: find what the caller may see, check the arguments,
//! compare the environment, ask the program, record that it begins, run with a deadline, record the end.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cuddy_commands::{Declaration, Effect};
use cuddy_protocol::{CommandError, ErrorCode, Scope};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::admission::{Admission, Permit};
use crate::arguments::{Arguments, Checked};
use crate::audit::{Audit, AuditEntry, Outcome};
use crate::caller::Caller;
use crate::clock::Clock;
use crate::handler::{CallContext, Handlers, Progress};
use crate::metrics::Metrics;
use crate::schema::SchemaError;

/// How long a handler may take to stop once it was told to; then it is dropped where it stands.
pub const STOP_GRACE: Duration = Duration::from_secs(5);

/// Calls that run at once in a program, whichever door they came by. Callers that leave and come again while what they
/// started is still stopping meet this bound; those who wait meet the doors' own, lower ones before.
pub const MAX_RUNNING: usize = 256;

/// Chooses the commands that are there at all (an environment's presets); what it leaves out is unknown to everybody.
pub type Visible = fn(&Declaration) -> bool;

/// What a dispatcher is made of.
#[derive(Clone)]
pub struct DispatchSettings {
    /// The environment.
    pub scope: Scope,
    /// The commands.
    pub table: &'static [&'static Declaration],
    /// Which of them are there.
    pub visible: Visible,
    /// Their handlers, one for each command of the table.
    pub handlers: Handlers,
    /// The program's own say.
    pub admission: Arc<dyn Admission>,
    /// The trail.
    pub audit: Arc<dyn Audit>,
    /// The counters.
    pub metrics: Metrics,
    /// The time of the trail's entries.
    pub clock: Clock,
}

impl fmt::Debug for DispatchSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchSettings")
            .field("scope", &self.scope)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

/// Why a dispatcher cannot be made: a fault of the program, found at its start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingHandler {
    /// Commands of the table that nobody handles.
    #[error("commands without a handler: {}", .0.join(", "))]
    Command(Vec<&'static str>),
    /// Handlers of no command.
    #[error("handlers without a command: {}", .0.join(", "))]
    Handler(Vec<&'static str>),
    /// A schema that cannot be checked.
    #[error("the parameters of {command}")]
    Schema {
        /// The command.
        command: &'static str,
        /// Why.
        source: SchemaError,
    },
}

struct Entry {
    declaration: &'static Declaration,
    arguments: Arguments,
}

/// Runs commands.
pub struct Dispatcher {
    shared: Arc<Shared>,
    entries: HashMap<&'static str, Arc<Entry>>,
    listed: Vec<&'static Declaration>,
}

/// What a running call needs, whoever still waits for it.
struct Shared {
    scope: Scope,
    handlers: Handlers,
    admission: Arc<dyn Admission>,
    audit: Arc<dyn Audit>,
    metrics: Metrics,
    clock: Clock,
    places: Arc<Semaphore>,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("commands", &self.listed.len()).finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// Makes a dispatcher; schemas are generated and compiled here and never again.
    pub fn new(settings: DispatchSettings) -> Result<Arc<Self>, MissingHandler> {
        let missing: Vec<_> = settings
            .table
            .iter()
            .map(|d| d.name)
            .filter(|name| settings.handlers.find(name).is_none())
            .collect();
        if !missing.is_empty() {
            return Err(MissingHandler::Command(missing));
        }
        let mut stray: Vec<_> =
            settings.handlers.names().filter(|n| settings.table.iter().all(|d| d.name != *n)).collect();
        if !stray.is_empty() {
            stray.sort_unstable();
            return Err(MissingHandler::Handler(stray));
        }
        let listed: Vec<&'static Declaration> =
            settings.table.iter().copied().filter(|d| (settings.visible)(d)).collect();
        let mut entries = HashMap::new();
        for declaration in listed.iter().copied() {
            let arguments = Arguments::new(&(declaration.params_schema)(), declaration.aliases)
                .map_err(|source| MissingHandler::Schema { command: declaration.name, source })?;
            let entry = Arc::new(Entry { declaration, arguments });
            for name in std::iter::once(&declaration.name).chain(declaration.retired_names) {
                entries.insert(*name, Arc::clone(&entry));
            }
        }
        let DispatchSettings { scope, handlers, admission, audit, metrics, clock, .. } = settings;
        let places = Arc::new(Semaphore::new(MAX_RUNNING));
        let shared = Arc::new(Shared { scope, handlers, admission, audit, metrics, clock, places });
        Ok(Arc::new(Self { shared, entries, listed }))
    }

    /// Returns the commands that a caller may see, in the table's order.
    pub fn listed(&self, caller: &Caller) -> Vec<&'static Declaration> {
        self.listed.iter().copied().filter(|d| caller.capabilities.allows(d.capability)).collect()
    }

    /// Returns a command that a caller may see, by name or retired name.
    pub fn find(&self, name: &str, caller: &Caller) -> Option<&'static Declaration> {
        self.entry(name, caller).map(|e| e.declaration)
    }

    /// Returns the environment.
    pub fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    /// Returns the counters.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    fn entry(&self, name: &str, caller: &Caller) -> Option<&Arc<Entry>> {
        self.entries.get(name).filter(|e| caller.capabilities.allows(e.declaration.capability))
    }

    /// Runs a command. Dropping the returned future cancels the call; its end is recorded all the same.
    pub async fn call(
        &self,
        name: &str,
        arguments: Value,
        caller: Caller,
        progress: Progress,
        cancel: CancellationToken,
    ) -> Result<Value, CommandError> {
        let began = Instant::now();
        let shared = &self.shared;
        let call_id = Uuid::new_v4().to_string();
        let mut trail = AuditEntry::new(call_id, (shared.clock)(), &caller, name, &arguments);
        let Some(entry) = self.entry(name, &caller) else {
            let error = unknown_command(name);
            shared.refuse(trail, "unknown", &error, began);
            return Err(error);
        };
        let declaration = entry.declaration;
        trail.command = declaration.name.to_owned();
        trail.effect = Some(declaration.effect);
        let admitted = entry.arguments.check(arguments).and_then(|checked| {
            checked.assert_scope(&shared.scope)?;
            let place = Arc::clone(&shared.places).try_acquire_owned().map_err(|_| {
                CommandError::new(ErrorCode::Busy, "too many calls run; wait for one of them to end")
            })?;
            let permit = shared.admission.admit(declaration, &caller)?;
            Ok((checked, (place, permit)))
        });
        let (checked, held) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => {
                shared.refuse(trail, declaration.name, &error, began);
                return Err(error);
            }
        };
        let call = Call {
            shared: Arc::clone(shared),
            declaration,
            context: CallContext {
                caller,
                scope: shared.scope.clone(),
                call_id: trail.call_id.clone(),
                progress,
                cancel: cancel.child_token(),
            },
            trail,
            began,
        };
        // The call is a task of its own: whoever waits may go away, and a panic ends the call alone.
        let guard = call.context.cancel.clone().drop_guard();
        let ended = tokio::spawn(call.run(checked, held)).await;
        guard.disarm();
        ended.unwrap_or_else(|error| Err(internal(&error.to_string())))
    }
}

/// Returns the error for a command that is not there for this caller.
pub(crate) fn unknown_command(name: &str) -> CommandError {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    CommandError::new(ErrorCode::UnknownCommand, format!("there is no command {name:?} here"))
}

fn cancelled() -> CommandError {
    CommandError::new(ErrorCode::Cancelled, "the call was taken back")
}

fn internal(why: &str) -> CommandError {
    tracing::error!(why, "a call failed inside");
    CommandError::new(ErrorCode::Internal, "the command failed inside; the server's log says why")
}

impl Shared {
    fn refuse(&self, mut trail: AuditEntry, command: &'static str, error: &CommandError, began: Instant) {
        trail.outcome = Outcome::Refused(error.error_code);
        self.audit.end(trail);
        self.metrics.call(command, error.error_code.as_str(), began.elapsed());
    }
}

struct Call {
    shared: Arc<Shared>,
    declaration: &'static Declaration,
    context: CallContext,
    trail: AuditEntry,
    began: Instant,
}

/// Counts a call as running for as long as it lives, however it ends.
struct Running(Metrics);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.ended();
    }
}

impl Call {
    async fn run(
        mut self,
        checked: Checked,
        held: (OwnedSemaphorePermit, Permit),
    ) -> Result<Value, CommandError> {
        self.shared.metrics.started();
        let _running = Running(self.shared.metrics.clone());
        self.trail.detail = self.shared.audit.detail(self.declaration, &checked.own, None);
        if self.declaration.effect != Effect::Read
            && let Err(error) = self.shared.audit.begin(self.trail.clone()).await
        {
            self.shared.refuse(self.trail, self.declaration.name, &error, self.began);
            return Err(error);
        }
        // Recording may have taken its time: who has left by now wants no effect any more.
        if self.context.cancel.is_cancelled() {
            let error = cancelled();
            self.end(None, &Err(error.clone()));
            return Err(error);
        }
        // What the trail tells of a call may rest on its arguments; programs that tell nothing pay for no copy.
        let told = self.trail.detail.is_some().then(|| checked.own.clone());
        let result = self.handle(checked.own).await;
        drop(held);
        self.end(told.as_ref(), &result);
        result
    }

    /// Runs the handler until it answers, is taken back, or its time is over.
    async fn handle(&self, arguments: Value) -> Result<Value, CommandError> {
        let Some(handler) = self.shared.handlers.find(self.declaration.name) else {
            return Err(internal("a handler that was there at the start is gone"));
        };
        // A task of its own again, so that a panic leaves this one to record the end.
        let mut handler = tokio::spawn(handler(self.context.clone(), arguments));
        let stop = handler.abort_handle();
        let cancel = &self.context.cancel;
        let why = tokio::select! {
            biased;
            ended = &mut handler => return self.finished(ended),
            () = cancel.cancelled() => cancelled(),
            () = tokio::time::sleep(self.declaration.deadline) => CommandError::new(
                ErrorCode::Deadline,
                format!("the command did not end within {} s", self.declaration.deadline.as_secs()),
            ),
        };
        cancel.cancel();
        match timeout(STOP_GRACE, &mut handler).await {
            // What was done in spite of the cancel is told as done.
            Ok(ended @ Ok(Ok(_))) => self.finished(ended),
            Ok(_) => Err(why),
            Err(_) => {
                stop.abort();
                tracing::warn!(command = self.declaration.name, call = %self.context.call_id, "did not stop when told to");
                Err(why)
            }
        }
    }

    fn finished(
        &self,
        ended: Result<Result<Value, CommandError>, tokio::task::JoinError>,
    ) -> Result<Value, CommandError> {
        match ended {
            Ok(Ok(value)) if value.is_object() => Ok(value),
            Ok(Ok(_)) => Err(internal("a handler's answer is no object")),
            Ok(Err(error)) => Err(error),
            Err(error) => {
                tracing::error!(command = self.declaration.name, call = %self.context.call_id, "handler panicked");
                Err(internal(&error.to_string()).with("callId", self.context.call_id.as_str()))
            }
        }
    }

    fn end(mut self, arguments: Option<&Value>, result: &Result<Value, CommandError>) {
        let took = self.began.elapsed();
        let (outcome, label) = match result {
            Ok(_) => (Outcome::Done, "OK"),
            Err(error) => (Outcome::Failed(error.error_code), error.error_code.as_str()),
        };
        if let (Some(arguments), Ok(value)) = (arguments, result) {
            let told = self.shared.audit.detail(self.declaration, arguments, Some(value));
            self.trail.detail = told.or(self.trail.detail);
        }
        self.trail.at = (self.shared.clock)();
        self.trail.outcome = outcome;
        self.trail.duration_ms = Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        self.shared.metrics.call(self.declaration.name, label, took);
        self.shared.audit.end(self.trail);
    }
}
