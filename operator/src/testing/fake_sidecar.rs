//! A sidecar that says what it is told to, and remembers what it was asked.

use std::sync::Arc;

use cuddy_protocol::control::{
    ActivityReport, ActivityState, AnchorLoaded, AnchorPush, Blocked, Fence, Gate,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::control::{ControlError, Isolation, Quiesced, SidecarControl, Target};

/// The sidecar of whichever pod is asked.
#[derive(Clone)]
pub(crate) struct FakeSidecar(Arc<Mutex<State>>);

struct State {
    reachable: bool,
    doing: ActivityState,
    stop_in: Option<u64>,
    gate: Option<(String, Gate)>,
    generation: Option<u64>,
    isolation: Isolation,
    fences: bool,
    calls: Vec<String>,
}

impl Default for FakeSidecar {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            reachable: true,
            doing: ActivityState::Busy,
            stop_in: None,
            gate: None,
            generation: None,
            isolation: Isolation::Verified,
            fences: true,
            calls: Vec::new(),
        })))
    }
}

impl FakeSidecar {
    /// Answers, or not.
    pub(crate) fn set_reachable(&self, reachable: bool) {
        self.0.lock().reachable = reachable;
    }

    /// What it is doing from now on.
    pub(crate) fn set_state(&self, state: ActivityState, stop_in: Option<u64>) {
        let mut all = self.0.lock();
        all.doing = state;
        all.stop_in = stop_in;
    }

    /// What dialling shows from now on.
    pub(crate) fn set_isolation(&self, isolation: Isolation) {
        self.0.lock().isolation = isolation;
    }

    /// Whether it lets itself be stopped.
    pub(crate) fn set_fences(&self, fences: bool) {
        self.0.lock().fences = fences;
    }

    /// Returns and forgets what it was asked.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().calls)
    }

    fn asked(&self, call: &str) -> Result<parking_lot::MutexGuard<'_, State>, ControlError> {
        let mut state = self.0.lock();
        state.calls.push(call.to_owned());
        if state.reachable { Ok(state) } else { Err(ControlError::Unreachable("refused".to_owned())) }
    }
}

impl SidecarControl for FakeSidecar {
    fn activity<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<ActivityReport, ControlError>> {
        let answer = self.asked("activity").map(|state| {
            let idle = matches!(state.doing, ActivityState::Idle);
            let open = state.gate.as_ref().filter(|(uid, _)| *uid == target.pod_uid).map(|(_, gate)| *gate);
            ActivityReport {
                boot_id: "boot".to_owned(),
                pod_uid: target.pod_uid.clone(),
                state: state.doing,
                idle_since: idle.then(|| "2026-01-01T00:00:00Z".to_owned()),
                idle_seconds: idle.then_some(960),
                last_activity: vec![],
                jobs: 0,
                leases: vec![],
                stop_at: None,
                stop_in_seconds: state.stop_in,
                max_busy_reached: false,
                anchor_generation: state.generation.unwrap_or_default(),
                keys: vec!["kid".to_owned()],
                gate: open.unwrap_or(Gate::Closed),
            }
        });
        async move { answer }.boxed()
    }

    fn quiesce<'a>(
        &'a self,
        _: &'a Target,
        if_idle_since: Option<String>,
    ) -> BoxFuture<'a, Result<Quiesced, ControlError>> {
        let call = if if_idle_since.is_some() { "quiesce if idle" } else { "quiesce" };
        let answer = self.asked(call).map(|state| {
            if state.fences {
                Quiesced::Fenced(Fence { fence: "f".to_owned(), expires_in_seconds: 30 })
            } else {
                Quiesced::Blocked(Blocked { blockers: vec!["call".to_owned()] })
            }
        });
        async move { answer }.boxed()
    }

    fn push_anchor<'a>(
        &'a self,
        _: &'a Target,
        anchor: AnchorPush,
    ) -> BoxFuture<'a, Result<AnchorLoaded, ControlError>> {
        let answer = self.asked("anchor").map(|mut state| {
            state.generation = Some(anchor.generation);
            let keys = anchor.keys.iter().map(|key| key.kid.clone()).collect();
            AnchorLoaded { generation: anchor.generation, keys }
        });
        async move { answer }.boxed()
    }

    fn verify_isolation<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<Isolation, ControlError>> {
        let answer = self.asked("verify").map(|state| state.isolation);
        async move { answer }.boxed()
    }

    fn open<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<(), ControlError>> {
        let answer = self.asked("open").map(|mut state| {
            state.gate = Some((target.pod_uid.clone(), Gate::Open));
        });
        async move { answer }.boxed()
    }
}
