//! The control client against real TLS servers on loopback. The sidecar here is a fake: it shows what the operator makes
//! of sidecars that are slow, too large, somebody else's or babbling. The real one is tried on the cluster.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod fake_sidecar;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use cuddy_operator::canary::{Canary, CanaryListeners};
use cuddy_operator::control::{
    ControlClient, ControlError, GateTimes, Isolation, Ports, Quiesced, SidecarControl, Target,
};
use cuddy_operator::identity::Identity;
use cuddy_operator::metrics::Metrics;
use cuddy_protocol::control::AnchorPush;
use fake_sidecar::{Behaviour, FakeSidecar, Probe, Walls};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const UID: &str = "0d5c6a0e-0000-4000-8000-000000000001";
const KID: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

fn target() -> Target {
    Target {
        namespace: "team".into(),
        name: "dev".into(),
        environment_uid: UID.into(),
        pod_uid: "p-1".into(),
        pod_ip: HERE,
    }
}

/// The operator's side: an identity, canary listeners and a client.
struct Operator {
    identity: Arc<Identity>,
    canary: Canary,
    metrics: Metrics,
    _stop: tokio_util::sync::DropGuard,
}

impl Operator {
    async fn new() -> Self {
        let stop = CancellationToken::new();
        let metrics = Metrics::default();
        let listeners = CanaryListeners::bind(HERE, 0, 0).await.unwrap();
        let (canary, serve) = listeners.serve(metrics.clone(), stop.clone()).unwrap();
        tokio::spawn(serve);
        let identity = Arc::new(Identity::generate(Timestamp::now()).unwrap());
        Self { identity, canary, metrics, _stop: stop.drop_guard() }
    }

    fn client(&self, sidecar: &FakeSidecar) -> ControlClient {
        let times = GateTimes { settle: Duration::from_millis(300), pause: Duration::from_millis(20) };
        let ports = Ports { control: sidecar.control_port, probe: sidecar.probe_port };
        ControlClient::new(self.identity.clone(), self.canary.clone(), self.metrics.clone())
            .unwrap()
            .with_ports_and_times(ports, times)
    }

    async fn sidecar(&self, behaviour: Behaviour) -> FakeSidecar {
        FakeSidecar::start(&self.identity, UID, behaviour).await
    }
}

fn report() -> serde_json::Value {
    json!({
        "bootId": "b-1", "podUid": "p-1", "state": "Idle", "idleSince": "2026-03-01T11:00:00Z", "idleSeconds": 7,
        "jobs": 0, "anchorGeneration": 3, "keys": [KID], "gate": "Open", "newField": {"of": "a newer sidecar"},
    })
}

#[tokio::test]
async fn the_five_questions_are_asked_and_answered() {
    let operator = Operator::new().await;
    let sidecar = operator.sidecar(Behaviour::answering(200, &report())).await;
    let told = operator.client(&sidecar).activity(&target()).await.unwrap();
    assert_eq!((told.boot_id.as_str(), told.idle_seconds), ("b-1", Some(7)));
    let request = sidecar.last_request();
    assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/control/v1/activity"));
    assert_eq!(request.host, format!("{UID}.env.cuddy.internal"));
    assert_eq!(request.audience, format!("cuddy-control:{UID}"));

    let sidecar =
        operator.sidecar(Behaviour::answering(200, &json!({"fence": "f-1", "expiresInSeconds": 30}))).await;
    let quiesced = operator.client(&sidecar).quiesce(&target(), Some("since".into())).await.unwrap();
    assert!(matches!(quiesced, Quiesced::Fenced(fence) if fence.fence == "f-1"));
    assert_eq!(sidecar.last_request().body, json!({"ifIdleSince": "since"}));
    operator.client(&sidecar).quiesce(&target(), None).await.unwrap();
    assert_eq!(sidecar.last_request().body, json!({}));

    let sidecar = operator.sidecar(Behaviour::answering(409, &json!({"blockers": ["job suite"]}))).await;
    let quiesced = operator.client(&sidecar).quiesce(&target(), Some("since".into())).await.unwrap();
    assert!(matches!(quiesced, Quiesced::Blocked(blocked) if blocked.blockers == ["job suite"]));

    let sidecar = operator.sidecar(Behaviour::answering(200, &json!({"generation": 4, "keys": [KID]}))).await;
    let push = AnchorPush { generation: 4, keys: vec![] };
    let loaded = operator.client(&sidecar).push_anchor(&target(), push).await.unwrap();
    assert_eq!((loaded.generation, loaded.keys.as_slice()), (4, [KID.to_owned()].as_slice()));
    assert_eq!(sidecar.last_request().body, json!({"generation": 4, "keys": []}));

    let sidecar = operator.sidecar(Behaviour::raw(204, "")).await;
    operator.client(&sidecar).open(&target()).await.unwrap();
    assert_eq!(sidecar.last_request().body, json!({"podUid": "p-1"}));
}

#[tokio::test]
async fn answers_that_make_no_sense_are_malformed() {
    let mut wrong_state = report();
    wrong_state["state"] = json!("Sleeping");
    let mut negative = report();
    negative["idleSeconds"] = json!(-1);
    let mut wrong_key = report();
    wrong_key["keys"] = json!(["\u{1b}]0;owned\u{7}"]);
    let operator = Operator::new().await;
    for (case, behaviour) in [
        ("an unknown state", Behaviour::answering(200, &wrong_state)),
        ("a negative number", Behaviour::answering(200, &negative)),
        ("a key that is none", Behaviour::answering(200, &wrong_key)),
        ("no JSON", Behaviour::raw(200, "<html>\u{1b}[2J")),
        ("nothing", Behaviour::raw(200, "")),
        ("a list", Behaviour::raw(200, "[]")),
        ("a redirect", Behaviour::raw(302, "")),
        ("a fault", Behaviour::answering(500, &report())),
        ("a closed door", Behaviour::answering(503, &report())),
        ("64 KiB and one byte", Behaviour::raw(200, &" ".repeat(64 * 1024 + 1))),
        ("an endless body", Behaviour::endless()),
    ] {
        let sidecar = operator.sidecar(behaviour).await;
        let started = Instant::now();
        let error = operator.client(&sidecar).activity(&target()).await.expect_err(case);
        assert!(matches!(error, ControlError::Malformed(_)), "{case}: {error:?}");
        assert!(started.elapsed() < Duration::from_secs(2), "{case}: {:?}", started.elapsed());
        assert!(!error.to_string().chars().any(char::is_control), "{case}: {error}");
    }
    let text = operator.metrics.encode();
    assert!(text.contains(r#"control_calls_total{call="activity",outcome="malformed"} 11"#), "{text}");
}

#[tokio::test]
async fn a_report_of_another_pod_is_a_conflict() {
    let operator = Operator::new().await;
    let mut other = report();
    other["podUid"] = json!("p-2");
    let sidecar = operator.sidecar(Behaviour::answering(200, &other)).await;
    let error = operator.client(&sidecar).activity(&target()).await.unwrap_err();
    assert!(matches!(error, ControlError::Conflict(_)), "{error:?}");
    let sidecar = operator.sidecar(Behaviour::raw(409, "another pod\u{1b}[2J")).await;
    let error = operator.client(&sidecar).open(&target()).await.unwrap_err();
    assert!(
        matches!(&error, ControlError::Conflict(why) if why.starts_with("another pod\u{fffd}")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_bearer_that_is_not_taken_is_refused() {
    let operator = Operator::new().await;
    let sidecar = operator.sidecar(Behaviour::raw(401, "unauthorized")).await;
    for result in [
        operator.client(&sidecar).activity(&target()).await.map(|_| ()),
        operator.client(&sidecar).quiesce(&target(), None).await.map(|_| ()),
        operator.client(&sidecar).verify_isolation(&target()).await.map(|_| ()),
        operator.client(&sidecar).open(&target()).await,
    ] {
        assert!(matches!(result, Err(ControlError::Refused)), "{result:?}");
    }
}

#[tokio::test]
async fn no_request_and_no_bearer_reaches_a_server_that_is_not_the_environments() {
    let operator = Operator::new().await;
    let stranger = Identity::generate(Timestamp::now()).unwrap();
    let another_ca = FakeSidecar::start(&stranger, UID, Behaviour::answering(200, &report())).await;
    let another_environment =
        FakeSidecar::start(&operator.identity, "another-uid", Behaviour::answering(200, &report())).await;
    let plain = FakeSidecar::start_plain(Behaviour::answering(200, &report())).await;
    for (case, sidecar) in
        [("another CA", another_ca), ("another environment", another_environment), ("no TLS", plain)]
    {
        let error = operator.client(&sidecar).activity(&target()).await.expect_err(case);
        assert!(matches!(error, ControlError::Unreachable(_)), "{case}: {error:?}");
        assert_eq!(sidecar.requests(), 0, "{case}");
    }
}

#[tokio::test]
async fn silence_ends_after_two_seconds() {
    let operator = Operator::new().await;
    let client = |sidecar: &FakeSidecar| operator.client(sidecar);
    let (mute, slow, tcp) = (
        operator.sidecar(Behaviour::mute()).await,
        operator.sidecar(Behaviour::half_a_body()).await,
        FakeSidecar::start_silent().await,
    );
    for (case, sidecar) in [("no answer", &mute), ("half a body", &slow), ("no handshake", &tcp)] {
        let started = Instant::now();
        let error = client(sidecar).activity(&target()).await.expect_err(case);
        assert!(matches!(error, ControlError::Unreachable(_)), "{case}: {error:?}");
        let took = started.elapsed().as_secs_f64();
        assert!((1.9..3.5).contains(&took), "{case}: {took}");
    }
}

#[tokio::test]
async fn nobody_at_all_is_unreachable() {
    let operator = Operator::new().await;
    let sidecar = operator.sidecar(Behaviour::mute()).await;
    let client = operator.client(&sidecar);
    drop(sidecar);
    let error = client.activity(&target()).await.unwrap_err();
    assert!(matches!(error, ControlError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn a_refusal_says_why() {
    let operator = Operator::new().await;
    let refusal =
        json!({"errorCode": "CONFLICT", "message": "older than 7", "details": {}, "retryable": false});
    let push = AnchorPush { generation: 4, keys: vec![] };
    for (status, expected) in [
        (409, "the sidecar is not in the expected state: older than 7"),
        (422, "the sidecar's answer makes no sense: status 422: older than 7"),
        (504, "the sidecar cannot be reached: older than 7"),
    ] {
        let sidecar = operator.sidecar(Behaviour::answering(status, &refusal)).await;
        let error = operator.client(&sidecar).push_anchor(&target(), push.clone()).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

/// The clusters of the gate: what a policy that is enforced, not enforced, or half enforced shows.
#[tokio::test]
async fn the_gate_opens_in_enforcing_clusters_only() {
    let enforced = Walls { way_out: false, way_in: false, control: true };
    for (case, walls, expected) in [
        ("enforced", enforced, Isolation::Verified),
        ("not enforced", Walls { way_out: true, way_in: true, control: true }, Isolation::NotEnforced),
        ("way out open", Walls { way_out: true, ..enforced }, Isolation::NotEnforced),
        ("way in open", Walls { way_in: true, ..enforced }, Isolation::NotEnforced),
        ("canary down", Walls { control: false, ..enforced }, Isolation::CanaryUnreachable),
        (
            "canary down, way out open",
            Walls { control: false, way_out: true, way_in: false },
            Isolation::NotEnforced,
        ),
    ] {
        let operator = Operator::new().await;
        let sidecar = operator.sidecar(Behaviour::probing(Probe::honest(walls))).await;
        let isolation = operator.client(&sidecar).verify_isolation(&target()).await.unwrap();
        assert_eq!(isolation, expected, "{case}");
    }
}

#[tokio::test]
async fn three_rounds_of_refusals_are_done_at_once_and_with_three_nonces() {
    let operator = Operator::new().await;
    let walls = Walls { way_out: false, way_in: false, control: true };
    let sidecar = operator.sidecar(Behaviour::probing(Probe::honest(walls))).await;
    let started = Instant::now();
    let isolation = operator.client(&sidecar).verify_isolation(&target()).await.unwrap();
    assert_eq!(isolation, Isolation::Verified);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(sidecar.requests(), 3);
    assert_eq!(sidecar.nonces().len(), 3, "each round has its own");
    assert!(operator.metrics.encode().contains(r#"gate_outcomes_total{outcome="verified"} 1"#));
}

/// A policy that lets the way in through for the first two rounds: they must not count, and the row starts anew.
#[tokio::test]
async fn a_policy_that_is_enforced_late_is_waited_for() {
    let operator = Operator::new().await;
    let walls = Walls { way_out: false, way_in: false, control: true };
    let sidecar = operator.sidecar(Behaviour::probing(Probe::late(walls, 2))).await;
    let isolation = operator.client(&sidecar).verify_isolation(&target()).await.unwrap();
    assert_eq!(isolation, Isolation::Verified);
    assert_eq!(sidecar.requests(), 5);
}

/// The dial in has to be made while the sidecar's probe listener answers: this one does so only until its own dials have
/// ended, which takes a millisecond where paths are refused.
#[tokio::test]
async fn an_open_way_in_is_found_however_short_the_round() {
    for _ in 0..5 {
        let operator = Operator::new().await;
        let walls = Walls { way_out: false, way_in: true, control: true };
        let sidecar = operator.sidecar(Behaviour::probing(Probe::honest(walls))).await;
        let isolation = operator.client(&sidecar).verify_isolation(&target()).await.unwrap();
        assert_eq!(isolation, Isolation::NotEnforced);
    }
}

#[tokio::test]
async fn a_sidecar_that_calls_an_open_way_out_closed_is_not_believed() {
    let operator = Operator::new().await;
    let walls = Walls { way_out: true, way_in: false, control: true };
    let sidecar = operator.sidecar(Behaviour::probing(Probe::lying(walls))).await;
    let isolation = operator.client(&sidecar).verify_isolation(&target()).await.unwrap();
    assert_eq!(isolation, Isolation::NotEnforced);
}

/// Paths that are dropped and not refused cost their second each, and are closed all the same.
#[tokio::test]
async fn silence_on_the_forbidden_paths_is_isolation_too() {
    let operator = Operator::new().await;
    let walls = Walls { way_out: false, way_in: false, control: true };
    let sidecar = operator.sidecar(Behaviour::probing(Probe::silent(walls))).await;
    let isolation = operator.client(&sidecar).verify_isolation(&target()).await.unwrap();
    assert_eq!(isolation, Isolation::Verified);
}
