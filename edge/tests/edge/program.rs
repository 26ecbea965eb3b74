//! The program's part: its say before a call, its trail, its counters, its start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuddy_commands::Command;
use cuddy_edge::audit::Outcome;
use cuddy_edge::dispatch::{DispatchSettings, Dispatcher, MAX_RUNNING, MissingHandler, STOP_GRACE};
use cuddy_edge::handler::{Handlers, Progress};
use cuddy_protocol::ErrorCode;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::ask::{call, doors};
use crate::support::commands::{Echo, Held, TABLE, one, soon};
use crate::support::program::settings;
use crate::support::tokens::kid;

#[tokio::test]
async fn the_program_may_refuse() {
    let doors = doors();
    let client = doors.client("me");
    doors.program.doorman.stopping.store(true, Ordering::SeqCst);
    let error = client.post(&call(1, "change", json!({ "text": "x" }))).await.tool_error();
    assert_eq!((&error["errorCode"], &error["retryable"]), (&json!("STOPPING"), &json!(true)));
    assert_eq!(doors.program.held.changes.load(Ordering::SeqCst), 0);
    assert_eq!(doors.program.trail.ended.lock()[0].outcome, Outcome::Refused(ErrorCode::Stopping));
}

#[tokio::test]
async fn what_changes_something_is_recorded_before_it_runs() {
    let doors = doors();
    let client = doors.client("me").in_session().await;
    let change = call(1, "change", json!({ "text": "x" }));
    doors.program.trail.full.store(true, Ordering::SeqCst);
    assert_eq!(client.post(&change).await.tool_error()["errorCode"], "DISK_FULL");
    assert_eq!(doors.program.held.changes.load(Ordering::SeqCst), 0, "no trail, no effect");
    assert_eq!(doors.program.doorman.inside.load(Ordering::SeqCst), 0);
    doors.program.trail.full.store(false, Ordering::SeqCst);
    doors.program.trail.tells.store(true, Ordering::SeqCst);
    client.post(&change).await;
    let (begun, ended) = (doors.program.trail.begun.lock().clone(), doors.program.trail.ended.lock().clone());
    assert_eq!((begun.len(), ended.len()), (1, 2));
    assert_eq!(ended[0].outcome, Outcome::Refused(ErrorCode::DiskFull));
    let (begin, end) = (&begun[0], &ended[1]);
    assert_eq!((begin.outcome, end.outcome), (Outcome::Begun, Outcome::Done));
    assert_eq!(begin.call_id, end.call_id);
    assert_eq!((begin.subject.as_str(), begin.command.as_str(), begin.door), ("me", "change", "mcp"));
    assert_eq!(begin.kid, Some(kid(&crate::support::tokens::key(1))));
    assert_eq!(begin.session, client.session);
    assert_eq!(begin.detail, Some(json!({ "of": "change", "length": 1, "done": false })));
    assert_eq!(end.detail, Some(json!({ "of": "change", "length": 1, "done": true })));
    // Not the arguments: their hash.
    let line = serde_json::to_value(end).unwrap();
    assert_eq!(line["argumentsHash"].as_str().unwrap().len(), 64);
    assert!(line["at"].as_str().unwrap().starts_with("2027-"), "{line}");
    assert_eq!(line["outcome"], json!({ "result": "done" }));
}

#[tokio::test]
async fn reads_are_recorded_at_their_end_alone() {
    let doors = doors();
    doors.client("me").post(&call(1, "echo", json!({ "text": "x" }))).await;
    assert!(doors.program.trail.begun.lock().is_empty());
    let ended = doors.program.trail.ended.lock();
    assert_eq!((ended.len(), ended[0].outcome), (1, Outcome::Done));
    assert!(ended[0].duration_ms.is_some());
}

#[tokio::test]
async fn counters_have_labels_of_fixed_sets() {
    let doors = doors();
    let client = doors.client("me");
    client.post(&call(1, "echo", json!({ "text": "x" }))).await;
    client.post(&call(1, "fail", json!({}))).await;
    client.post(&call(1, "made-up-by-the-caller", json!({}))).await;
    doors.client_with("x".to_owned()).post(&call(1, "echo", json!({}))).await;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &doors.program.registry).unwrap();
    for line in [
        r#"cuddy_test_calls_total{command="echo",result="OK"} 1"#,
        r#"cuddy_test_calls_total{command="fail",result="NOT_FOUND"} 1"#,
        r#"cuddy_test_calls_total{command="unknown",result="UNKNOWN_COMMAND"} 1"#,
        r#"cuddy_test_refused_requests_total{reason="token is malformed"} 1"#,
        "cuddy_test_running_calls 0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("made-up"));
}

#[tokio::test]
async fn whoever_leaves_while_the_trail_is_written_has_no_effect() {
    let doors = doors();
    let caller = cuddy_edge::caller::Caller {
        issuer: "i".to_owned(),
        subject: "s".to_owned(),
        kid: None,
        capabilities: cuddy_protocol::Capabilities::up_to(cuddy_protocol::Capability::Admin),
        issued_at: 0,
        door: cuddy_edge::caller::Door::Agent,
        session: None,
    };
    let cancel = CancellationToken::new();
    cancel.cancel();
    let arguments = json!({ "text": "x" });
    let result = doors.program.dispatcher.call("change", arguments, caller, Progress::none(), cancel).await;
    assert_eq!(result.unwrap_err().error_code, ErrorCode::Cancelled);
    assert_eq!(doors.program.held.changes.load(Ordering::SeqCst), 0);
    assert_eq!(doors.program.trail.ended.lock()[0].outcome, Outcome::Failed(ErrorCode::Cancelled));
    assert_eq!(doors.program.doorman.inside.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_and_comes_again_cannot_pile_up_calls() {
    let doors = doors();
    let client = doors.client("me");
    for _ in 0..MAX_RUNNING {
        let waiting = client.spawn(&call(1, "stubborn", json!({})));
        one(&doors.program.held.began).await;
        waiting.abort();
        assert!(soon(waiting).await.unwrap_err().is_cancelled());
    }
    let error = client.post(&call(1, "echo", json!({ "text": "x" }))).await.tool_error();
    assert_eq!((&error["errorCode"], &error["retryable"]), (&json!("BUSY"), &json!(true)));
    // The grace is over: what did not stop has been dropped.
    tokio::time::sleep(STOP_GRACE * 2).await;
    assert_eq!(
        client.post(&call(1, "echo", json!({ "text": "x" }))).await.json()["result"]["isError"],
        false
    );
}

#[test]
fn every_command_has_a_handler_and_every_handler_a_command() {
    let held = Arc::<Held>::default();
    let without = DispatchSettings { handlers: Handlers::new(), ..settings(&held) };
    let names = TABLE.iter().map(|d| d.name).collect();
    assert_eq!(Dispatcher::new(without).err(), Some(MissingHandler::Command(names)));
    let stray = DispatchSettings {
        handlers: settings(&held).handlers.with_raw("stray", |_, value| async { Ok(value) }),
        ..settings(&held)
    };
    assert_eq!(Dispatcher::new(stray).err(), Some(MissingHandler::Handler(vec!["stray"])));
    assert_eq!(Echo::DECLARATION.name, "echo");
}
