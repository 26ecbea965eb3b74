//! A program around the doors: it records its trail, and can refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cuddy_commands::Declaration;
use cuddy_edge::admission::{Admission, Permit};
use cuddy_edge::audit::{Audit, AuditEntry};
use cuddy_edge::caller::Caller;
use cuddy_edge::dispatch::{DispatchSettings, Dispatcher};
use cuddy_edge::metrics::Metrics;
use cuddy_protocol::{CommandError, ErrorCode, Scope};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::commands::{Held, TABLE, handlers};
use super::tokens::now;

#[derive(Default)]
pub(crate) struct Trail {
    pub(crate) begun: Mutex<Vec<AuditEntry>>,
    pub(crate) ended: Mutex<Vec<AuditEntry>>,
    pub(crate) full: AtomicBool,
    pub(crate) tells: AtomicBool,
}

impl Audit for Trail {
    fn begin(&self, entry: AuditEntry) -> BoxFuture<'_, Result<(), CommandError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if self.full.load(Ordering::SeqCst) {
                return Err(CommandError::new(ErrorCode::DiskFull, "no space for the trail"));
            }
            self.begun.lock().push(entry);
            Ok(())
        })
    }

    fn end(&self, entry: AuditEntry) {
        self.ended.lock().push(entry);
    }

    fn detail(&self, declaration: &Declaration, arguments: &Value, result: Option<&Value>) -> Option<Value> {
        let tells = self.tells.load(Ordering::SeqCst);
        tells.then(|| json!({ "of": declaration.name, "length": arguments["text"].as_str().map(str::len), "done": result.is_some() }))
    }
}

#[derive(Default)]
pub(crate) struct Doorman {
    pub(crate) stopping: AtomicBool,
    pub(crate) inside: Arc<AtomicUsize>,
}

struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Admission for Doorman {
    fn admit(&self, _: &'static Declaration, _: &Caller) -> Result<Permit, CommandError> {
        if self.stopping.load(Ordering::SeqCst) {
            return Err(CommandError::new(ErrorCode::Stopping, "the environment is about to stop"));
        }
        self.inside.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Inside(Arc::clone(&self.inside))))
    }
}

pub(crate) struct Program {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) trail: Arc<Trail>,
    pub(crate) doorman: Arc<Doorman>,
    pub(crate) held: Arc<Held>,
    pub(crate) registry: Registry,
}

pub(crate) fn settings(held: &Arc<Held>) -> DispatchSettings {
    DispatchSettings {
        scope: Scope { tenant: "t".parse().unwrap(), environment: "e".parse().unwrap() },
        table: TABLE,
        visible: |_| true,
        handlers: handlers(held),
        admission: Arc::new(Doorman::default()),
        audit: Arc::new(Trail::default()),
        metrics: Metrics::default(),
        clock: Arc::new(now),
    }
}

pub(crate) fn program(visible: fn(&Declaration) -> bool) -> Program {
    let (trail, doorman, held) = (Arc::<Trail>::default(), Arc::<Doorman>::default(), Arc::<Held>::default());
    let mut registry = Registry::with_prefix("cuddy_test");
    let dispatcher = Dispatcher::new(DispatchSettings {
        visible,
        audit: Arc::clone(&trail) as _,
        admission: Arc::clone(&doorman) as _,
        metrics: Metrics::register(&mut registry),
        ..settings(&held)
    })
    .unwrap();
    Program { dispatcher, trail, doorman, held, registry }
}
