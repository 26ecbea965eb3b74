//! The operator's side: one step after the other, as `next` says.

use std::time::Duration;

use cuddy_crds::v1alpha1::{IdleAction, StopRecord};
use cuddy_operator::environment::lifecycle::{
    Children, Facts, Fenced, PodState, Proof, Report, Started, Step, Wait, next, pause,
};
use cuddy_protocol::control::{
    ACTIVITY_PATH, ActivityReport, Gate, OPEN_PATH, OpenRequest, QUIESCE_PATH, QuiesceRequest,
};
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::{Instant, advance};

use crate::pod::{GENERATION, POD_UID, Pod};
use crate::settings::defaults;

/// The sidecar tells its time to stop in whole seconds, and the operator asks again then.
pub(crate) const GRAIN: Duration = Duration::from_secs(1);
/// For how long no test waits in vain, on the paused clock.
const PATIENCE: Duration = Duration::from_hours(24);

/// When something happened, as well as that can be known: a call takes real time.
pub(crate) struct Span {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

impl Span {
    /// Checks that a stop came so long after this.
    pub(crate) fn assert_stopped(&self, at: Instant, after: Duration) {
        assert!(at >= self.began + after, "{:?} too early", self.began + after - at);
        assert!(at <= self.ended + after + GRAIN, "{:?} too late", at - (self.ended + after));
    }
}

/// The pod, and an operator that looks after it.
pub(crate) struct World {
    pub(crate) pod: Pod,
    pub(crate) facts: Facts,
    /// The last report, and when the next one is due.
    last: Option<(ActivityReport, Instant)>,
    /// What was done beyond looking and waiting.
    pub(crate) steps: Vec<Step>,
    /// How often the sidecar was asked for a report.
    pub(crate) questions: usize,
}

impl World {
    /// An environment that has just been opened.
    pub(crate) async fn open() -> Self {
        let settings = defaults();
        let started =
            Started { uid: POD_UID.to_owned(), ip: [10, 244, 0, 7].into(), ready: true, problem: None };
        let facts = Facts {
            mode: settings.mode,
            stop: None,
            stop_is_fresh: false,
            wake_asked: false,
            stop_asked: false,
            invalid: None,
            keys_block: false,
            foreign_policy: None,
            verify: settings.verify,
            stops_when_idle: settings.idle.action == IdleAction::Stop,
            max_busy_seconds: u64::from(settings.idle.max_busy_seconds),
            pod: PodState::Started(started),
            children: Children::Unknown,
            pod_refused: false,
            replace_in: None,
            report: Report::Due,
            next_report_in: Duration::ZERO,
            generation: Some(GENERATION),
            push_failed: false,
            proof: None,
            reprove: false,
            gate_is_open: false,
            open_failed: false,
            quiesce: None,
        };
        let mut world = Self { pod: Pod::new().await, facts, last: None, steps: Vec::new(), questions: 0 };
        while !world.facts.gate_is_open {
            world.go_on().await;
        }
        world.questions = 0;
        world
    }

    pub(crate) fn next(&self) -> Step {
        next(&self.facts)
    }

    /// Returns the steps without what differs from run to run.
    pub(crate) fn outline(&self) -> Vec<&Step> {
        const QUIESCE: Step = Step::Quiesce { if_idle_since: None };
        let outline = |step| if matches!(step, &Step::Quiesce { .. }) { &QUIESCE } else { step };
        self.steps.iter().map(outline).collect()
    }

    /// The operator starts anew, with what the API holds.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        self.visit();
    }

    /// A new visit begins.
    fn visit(&mut self) {
        let now = Instant::now();
        let known = self.last.clone().filter(|(report, due)| *due > now && report.gate == Gate::Open);
        self.facts.next_report_in = known.as_ref().map_or(Duration::ZERO, |(_, due)| *due - now);
        self.facts.report = known.map_or(Report::Due, |(report, _)| Report::NotDue(report));
        self.facts.children = Children::Unknown;
        self.facts.stop_is_fresh = false;
        self.facts.quiesce = None;
    }

    /// Does what is next, waiting included.
    pub(crate) async fn go_on(&mut self) {
        if let Step::Stay(wait) = self.step().await {
            advance(waited(wait)).await;
            self.visit();
        }
    }

    /// Does what is next, and returns it. A wait is not waited for.
    async fn step(&mut self) -> Step {
        let step = self.next();
        match &step {
            Step::Stay(_) | Step::Ensure(_) | Step::FetchReport | Step::VerifyGate | Step::Open => {}
            step => self.steps.push(step.clone()),
        }
        match step.clone() {
            Step::Stay(_) => {}
            Step::Ensure(policy) => self.facts.children = Children::Ensured(policy),
            Step::FetchReport => self.fetch_report().await,
            Step::VerifyGate => self.facts.proof = Some(Proof::Verified),
            Step::Open => self.open_gate().await,
            Step::Quiesce { if_idle_since } => {
                let body = serde_json::to_value(QuiesceRequest { if_idle_since }).unwrap();
                let (status, body) = self.pod.asked(QUIESCE_PATH, Some(body)).await;
                assert!([StatusCode::OK, StatusCode::CONFLICT].contains(&status), "{status}: {body}");
                self.facts.quiesce = Some(if status == StatusCode::OK { Fenced::Yes } else { Fenced::No });
            }
            Step::RecordStop { reason, by } => {
                self.facts.stop = Some(StopRecord { at: Time(Timestamp::now()), reason, by: by.to_owned() });
                self.facts.stop_is_fresh = true;
            }
            Step::ForgetStop => {
                self.facts.stop = None;
                self.facts.stop_is_fresh = false;
            }
            Step::DeletePod { uid, .. } => self.facts.pod = PodState::Terminating { uid, overdue: false },
            Step::CreatePod | Step::PushKeys => panic!("{step:?}"),
        }
        step
    }

    async fn fetch_report(&mut self) {
        self.questions += 1;
        let (status, body) = self.pod.asked(ACTIVITY_PATH, None).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let report: ActivityReport = serde_json::from_value(body).unwrap();
        self.facts.next_report_in = pause(&report);
        self.facts.gate_is_open = report.gate == Gate::Open;
        self.last = Some((report.clone(), Instant::now() + pause(&report)));
        self.facts.report = Report::Fresh(report);
    }

    async fn open_gate(&mut self) {
        let body = serde_json::to_value(OpenRequest { pod_uid: POD_UID.to_owned() }).unwrap();
        let (status, body) = self.pod.asked(OPEN_PATH, Some(body)).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{body}");
        self.last = None;
        self.visit();
        self.facts.gate_is_open = true;
    }

    /// Goes on for so long.
    pub(crate) async fn run_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if let Step::Stay(wait) = self.step().await {
                advance(waited(wait).min(until - Instant::now())).await;
                self.visit();
            }
        }
    }

    /// Goes on until the next step is the one that is wanted.
    pub(crate) async fn run_until(&mut self, wanted: impl Fn(&Step) -> bool) {
        let patience = Instant::now() + PATIENCE;
        while !wanted(&self.next()) {
            assert!(Instant::now() < patience, "in vain: {:?}", self.facts);
            self.go_on().await;
        }
    }

    /// Goes on until the pod is deleted, and returns when that was.
    pub(crate) async fn run_until_deleted(&mut self) -> Instant {
        self.run_until(|step| matches!(step, Step::DeletePod { .. })).await;
        self.go_on().await;
        Instant::now()
    }
}

fn waited(wait: Wait) -> Duration {
    match wait {
        Wait::For(wait) => wait,
        Wait::ForChange | Wait::BackOff => panic!("nothing would ever go on: {wait:?}"),
    }
}
