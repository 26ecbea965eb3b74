//! What a pod's status says, in the few words that the life cycle is decided by. Pure.

use std::net::IpAddr;

use cuddy_crds::conditions::reasons;
use cuddy_crds::labels;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};

/// The exit code of a sidecar that found one of its ports taken (D7).
const EXIT_PORT_TAKEN: i32 = 98;
/// How long after its deadline a pod that ends is still waited for in silence, in seconds.
const TERMINATION_PATIENCE_SECONDS: i64 = 60;
/// How often a container may end before that is told as a problem rather than as a start.
const RESTARTS_TOLERATED: i32 = 2;

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodState {
    /// There is none.
    Absent,
    /// It ends.
    Terminating {
        /// Its UID.
        uid: String,
        /// Whether it should have been gone for so long that the node must be lost.
        overdue: bool,
    },
    /// The sidecar does not run yet.
    Pending {
        /// Its UID.
        uid: String,
        /// What hinders it.
        problem: Option<Problem>,
    },
    /// The sidecar runs and can be asked.
    Started(Started),
    /// It will not run again and has to be made anew.
    Ended {
        /// Its UID.
        uid: String,
        /// Why.
        problem: Problem,
    },
}

/// A pod whose sidecar runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Its UID.
    pub uid: String,
    /// Its address.
    pub ip: IpAddr,
    /// Whether its readiness probe passes: the gate is open and the host answers.
    pub ready: bool,
    /// What is wrong with it.
    pub problem: Option<Problem>,
}

/// Something that is wrong with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// One of the reasons of RuntimeAvailable.
    pub reason: &'static str,
    /// The words of the scheduler, the kubelet or the container runtime.
    pub message: String,
}

impl PodState {
    /// Reads a pod. `deleted` is the UID of a pod whose deletion was asked for, which the cache may not know yet.
    pub fn read(pod: Option<&Pod>, deleted: Option<&str>, now: Timestamp) -> Self {
        let Some(pod) = pod else { return Self::Absent };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let deadline = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        if deadline.is_some() || deleted == Some(uid.as_str()) {
            let overdue =
                deadline.is_some_and(|at| now.as_second() - at.as_second() > TERMINATION_PATIENCE_SECONDS);
            return Self::Terminating { uid, overdue };
        }
        let empty = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&empty);
        if let Some(problem) = ended(status) {
            return Self::Ended { uid, problem };
        }
        let ip = status.pod_ip.as_deref().and_then(|ip| ip.parse().ok());
        match ip {
            Some(ip) if sidecar(status).is_some_and(is_up) => Self::Started(Started {
                uid,
                ip,
                ready: condition(status, "Ready").is_some_and(|ready| ready.status == "True"),
                problem: problem(status),
            }),
            _ => Self::Pending { uid, problem: problem(status) },
        }
    }

    /// Returns the UID, if there is a pod.
    pub fn uid(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::Terminating { uid, .. } | Self::Pending { uid, .. } | Self::Ended { uid, .. } => Some(uid),
            Self::Started(started) => Some(&started.uid),
        }
    }

    /// Returns what is wrong.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Pending { problem, .. } => problem.as_ref(),
            Self::Started(started) => started.problem.as_ref(),
            Self::Ended { problem, .. } => Some(problem),
            Self::Absent | Self::Terminating { .. } => None,
        }
    }

    /// Says whether the pod is there and meant to stay.
    pub const fn is_alive(&self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Started(_) | Self::Ended { .. })
    }

    /// Says whether its clients are answered.
    pub const fn is_ready(&self) -> bool {
        matches!(self, Self::Started(Started { ready: true, .. }))
    }
}

fn is_up(sidecar: &ContainerStatus) -> bool {
    sidecar.started == Some(true) && sidecar.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn sidecar(status: &PodStatus) -> Option<&ContainerStatus> {
    status.init_container_statuses.iter().flatten().find(|one| one.name == labels::CONTAINER_SIDECAR)
}

fn condition<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

/// A pod that ended as a whole: evicted, its node shut down; or whose sidecar cannot have its ports, which only a new pod
/// mends.
fn ended(status: &PodStatus) -> Option<Problem> {
    let phase = status.phase.as_deref().unwrap_or_default();
    if phase == "Failed" || phase == "Succeeded" {
        let words = [status.reason.as_deref(), status.message.as_deref()];
        let told: Vec<_> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
        let message = if told.is_empty() { format!("the pod ended, phase {phase}") } else { told.join(": ") };
        return Some(Problem { reason: reasons::CRASH_LOOP, message });
    }
    let sidecar = sidecar(status)?;
    let states = [sidecar.state.as_ref(), sidecar.last_state.as_ref()];
    let taken = states
        .into_iter()
        .flatten()
        .filter_map(|state| state.terminated.as_ref())
        .any(|end| end.exit_code == EXIT_PORT_TAKEN);
    (taken && !is_up(sidecar)).then(|| Problem {
        reason: reasons::PORT_TAKEN,
        message: "a process of the pod has taken a port of the sidecar; the pod is made anew".to_owned(),
    })
}

fn problem(status: &PodStatus) -> Option<Problem> {
    let init = status.init_container_statuses.iter().flatten();
    let containers = status.container_statuses.iter().flatten();
    init.chain(containers).find_map(container_problem).or_else(|| unschedulable(status))
}

fn unschedulable(status: &PodStatus) -> Option<Problem> {
    let scheduled = condition(status, "PodScheduled")?;
    // Where volumes are made before anybody uses them, every pod is unschedulable for its first moments.
    let waits_for_volume = scheduled
        .message
        .as_deref()
        .is_some_and(|words| words.contains("unbound immediate PersistentVolumeClaims"));
    (scheduled.status == "False" && !waits_for_volume).then(|| Problem {
        reason: reasons::UNSCHEDULABLE,
        message: scheduled.message.clone().unwrap_or_else(|| "no node takes the pod".to_owned()),
    })
}

fn container_problem(container: &ContainerStatus) -> Option<Problem> {
    let state = container.state.as_ref()?;
    let name = &container.name;
    if let Some(waiting) = &state.waiting {
        let word = waiting.reason.as_deref().unwrap_or_default();
        let told = waiting.message.as_deref().filter(|message| !message.is_empty()).unwrap_or(word);
        let reason = match word {
            "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed" => reasons::IMAGE_ERROR,
            "CrashLoopBackOff"
            | "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError" => reasons::CRASH_LOOP,
            _ => return None,
        };
        let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let ended =
            last.map(|end| format!(" (it ended with exit code {})", end.exit_code)).unwrap_or_default();
        return Some(Problem { reason, message: format!("container {name}: {told}{ended}") });
    }
    let end = state.terminated.as_ref()?;
    let again = container.restart_count >= RESTARTS_TOLERATED;
    (again && end.exit_code != 0).then(|| Problem {
        reason: reasons::CRASH_LOOP,
        message: format!(
            "container {name} ended with exit code {} and was started {} times",
            end.exit_code, container.restart_count
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    fn read(value: Value) -> PodState {
        let pod: Pod = serde_json::from_value(value).unwrap();
        PodState::read(Some(&pod), None, now())
    }

    #[expect(clippy::needless_pass_by_value, reason = "literals are made where they are passed")]
    fn with_status(status: Value) -> PodState {
        read(json!({"metadata": {"uid": "p"}, "status": status}))
    }

    fn up() -> Value {
        json!({"name": "sidecar", "started": true, "ready": true, "restartCount": 0, "image": "", "imageID": "",
               "state": {"running": {}}})
    }

    fn waiting(name: &str, reason: &str, message: &str) -> Value {
        json!({"name": name, "started": false, "ready": false, "restartCount": 3, "image": "", "imageID": "",
               "state": {"waiting": {"reason": reason, "message": message}}})
    }

    #[test]
    fn a_pod_starts_step_by_step() {
        assert_eq!(PodState::read(None, None, now()), PodState::Absent);
        assert_eq!(with_status(json!({})), PodState::Pending { uid: "p".into(), problem: None });
        let no_ip = with_status(json!({"phase": "Pending", "initContainerStatuses": [up()]}));
        assert!(matches!(no_ip, PodState::Pending { .. }));
        let started =
            with_status(json!({"phase": "Pending", "podIP": "10.0.0.1", "initContainerStatuses": [up()]}));
        assert!(
            matches!(started, PodState::Started(Started { ready: false, problem: None, .. })),
            "{started:?}"
        );
        let ready =
            with_status(json!({"phase": "Running", "podIP": "10.0.0.1", "initContainerStatuses": [up()],
            "conditions": [{"type": "Ready", "status": "True"}]}));
        assert!(ready.is_ready());
    }

    #[test]
    fn a_pod_that_was_deleted_ends_even_when_the_cache_is_late() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"uid": "p"}, "status": {}})).unwrap();
        let state = PodState::read(Some(&pod), Some("p"), now());
        assert_eq!(state, PodState::Terminating { uid: "p".into(), overdue: false });
        assert!(matches!(PodState::read(Some(&pod), Some("older"), now()), PodState::Pending { .. }));
    }

    #[test]
    fn an_overdue_pod_is_told_from_a_late_one() {
        let at = |time: &str| read(json!({"metadata": {"uid": "p", "deletionTimestamp": time}}));
        assert_eq!(at("2026-01-01T00:09:30Z"), PodState::Terminating { uid: "p".into(), overdue: false });
        assert_eq!(at("2026-01-01T00:08:30Z"), PodState::Terminating { uid: "p".into(), overdue: true });
    }

    #[test]
    fn problems_carry_the_words_of_who_knows() {
        for (status, reason, words) in [
            (
                json!({"containerStatuses": [waiting("runtime", "ImagePullBackOff", "Back-off pulling image \"x\"")]}),
                reasons::IMAGE_ERROR,
                "Back-off pulling",
            ),
            (
                json!({"containerStatuses": [waiting("runtime", "InvalidImageName", "")]}),
                reasons::IMAGE_ERROR,
                "InvalidImageName",
            ),
            (
                json!({"initContainerStatuses": [waiting("install", "CrashLoopBackOff", "back-off 10s")]}),
                reasons::CRASH_LOOP,
                "container install: back-off",
            ),
            (
                json!({"containerStatuses": [waiting("runtime", "CreateContainerConfigError", "secret \"s\" not found")]}),
                reasons::CRASH_LOOP,
                "not found",
            ),
            (
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient memory."}]}),
                reasons::UNSCHEDULABLE,
                "Insufficient memory",
            ),
        ] {
            let state = with_status(status);
            let problem = state.problem().unwrap_or_else(|| panic!("{reason}: {state:?}"));
            assert_eq!(problem.reason, reason);
            assert!(problem.message.contains(words), "{problem:?}");
        }
        let volume = json!({"conditions": [{"type": "PodScheduled", "status": "False",
            "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."}]});
        assert_eq!(with_status(volume).problem(), None);
        let creating = json!({"containerStatuses": [waiting("runtime", "ContainerCreating", "")]});
        assert_eq!(with_status(creating).problem(), None);
    }

    #[test]
    fn pods_that_ended_are_made_anew() {
        let evicted = with_status(
            json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}),
        );
        assert!(
            matches!(&evicted, PodState::Ended { problem, .. } if problem.message == "Evicted: The node was low on memory.")
        );
        let ended = json!({"terminated": {"exitCode": 98}});
        let mut sidecar = waiting("sidecar", "CrashLoopBackOff", "back-off");
        sidecar["lastState"] = ended.clone();
        let taken = with_status(json!({"phase": "Running", "initContainerStatuses": [sidecar]}));
        assert!(matches!(&taken, PodState::Ended { problem, .. } if problem.reason == reasons::PORT_TAKEN));
        let mut again = up();
        again["lastState"] = ended;
        let back =
            with_status(json!({"phase": "Running", "podIP": "10.0.0.1", "initContainerStatuses": [again]}));
        assert!(matches!(back, PodState::Started(_)), "it has its ports again: {back:?}");
    }
}
