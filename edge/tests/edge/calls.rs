//! Listing and calling.

use std::sync::atomic::Ordering;

use cuddy_edge::doors::Limits;
use cuddy_protocol::ErrorCode;
use http::StatusCode;
use serde_json::{Value, json};

use crate::support::ask::{call, doors, doors_with};
use crate::support::commands::one;
use crate::support::tokens::{claims_with, key, token};

fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": "list", "method": "tools/list" })
}

fn names(list: &Value) -> Vec<&str> {
    list["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_seeds_own_curl_works() {
    let doors = doors();
    let client = doors.client("me");
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2024-11-05", "capabilities": {} }
    });
    let answer = client.post(&initialize).await;
    assert_eq!(answer.json()["result"]["protocolVersion"], "2024-11-05");
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let carried = [("mcp-session-id", session.as_str())];
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let answer = client.post_with(&initialized, &carried).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0));
    let answer = client.post_with(&call(2, "echo", json!({ "text": "hi" })), &carried).await;
    assert_eq!(
        answer.json(),
        json!({ "jsonrpc": "2.0", "id": 2, "result": {
            "content": [{ "type": "text", "text": "{\"text\":\"hi\"}" }],
            "structuredContent": { "text": "hi" },
            "isError": false,
        }})
    );
    assert_eq!(doors.program.trail.ended.lock()[0].session, Some(session));
}

#[tokio::test]
async fn tools_are_listed_as_they_are_declared() {
    let client = doors().client("me");
    let answer = client.post(&list()).await.json();
    assert_eq!(names(&answer), ["echo", "hold", "stubborn", "boom", "fail", "steps", "change", "secret"]);
    insta::assert_json_snapshot!("tool", answer["result"]["tools"][6]);
    assert_eq!(client.post(&list()).await.json(), answer, "the same list each time");
}

#[tokio::test]
async fn what_a_caller_may_not_see_is_unknown() {
    let doors = doors_with(Limits::default(), |d| d.name != "boom");
    let reader = doors.client_with(token(&claims_with("scope", json!("erun:read")), &key(1)));
    let listed = reader.post(&list()).await.json();
    assert_eq!(names(&listed), ["echo", "hold", "stubborn", "fail", "steps"]);
    let nobody = doors.client_with(token(&claims_with("scope", json!("openid")), &key(1)));
    assert!(names(&nobody.post(&list()).await.json()).is_empty());
    // Hidden by capability, hidden by preset, and not there at all: the same answer.
    let mut answers = Vec::new();
    for name in ["secret", "boom", "nothing"] {
        let answer = reader.post(&call(1, name, json!({}))).await;
        assert_eq!((answer.status, answer.code()), (StatusCode::OK, -32602));
        assert_eq!(answer.json()["error"]["data"]["errorCode"], "UNKNOWN_COMMAND");
        answers.push(answer.text().replace(name, "NAME"));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
    assert_eq!(doors.program.trail.ended.lock().len(), 3, "denials are recorded too");
    let admin = doors.client("me");
    assert_eq!(admin.post(&call(1, "secret", json!({}))).await.json()["result"]["isError"], false);
}

#[tokio::test]
async fn arguments_may_be_left_out() {
    let client = doors().client("me");
    for params in [json!({ "name": "fail" }), json!({ "name": "fail", "arguments": null })] {
        let answer = client
            .post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))
            .await;
        assert_eq!(answer.tool_error()["errorCode"], "NOT_FOUND");
    }
}

#[tokio::test]
async fn errors_are_results_that_say_so() {
    let client = doors().client("me");
    let answer = client.post(&call(1, "fail", json!({}))).await;
    assert_eq!(
        answer.tool_error(),
        json!({
            "errorCode": "NOT_FOUND", "message": "there is no such thing", "details": { "id": "x" },
            "retryable": false, "error": "there is no such thing",
        })
    );
}

#[tokio::test]
async fn bad_arguments_are_named_before_anything_runs() {
    let doors = doors();
    let client = doors.client("me");
    for (arguments, path) in [
        (json!({}), "$.text"),
        (json!({ "text": 5 }), "$.text"),
        (json!({ "text": "" }), "$.text"),
        (json!({ "text": "x".repeat(101) }), "$.text"),
        (json!({ "text": "x", "times": 10 }), "$.times"),
        (json!({ "text": "x", "more": 1 }), "$.more"),
        (json!({ "text": "x", "words": "y" }), "$.words"),
        (json!({ "text": "x", "tenant": 5 }), "$.tenant"),
    ] {
        for name in ["echo", "change"] {
            let error = client.post(&call(1, name, arguments.clone())).await.tool_error();
            assert_eq!(error["errorCode"], "INVALID_PARAMS", "{arguments}");
            if path != "$.words" || name == "echo" {
                assert_eq!(error["details"]["path"], path, "{arguments}");
            }
        }
    }
    assert_eq!(doors.program.held.changes.load(Ordering::SeqCst), 0);
    assert!(doors.program.trail.begun.lock().is_empty());
    let answer = client.post(&call(1, "say", json!({ "words": "x", "times": 2, "tenant": "t" }))).await;
    assert_eq!(
        answer.json()["result"]["structuredContent"],
        json!({ "text": "xx" }),
        "retired name and alias"
    );
}

#[tokio::test]
async fn another_environments_call_is_refused() {
    let client = doors().client("me");
    let error = client.post(&call(1, "echo", json!({ "text": "x", "tenant": "other" }))).await.tool_error();
    assert_eq!(error["errorCode"], "SCOPE_MISMATCH");
    assert_eq!(
        error["message"],
        "this MCP server is scoped to tenant t; refusing to operate on tenant other"
    );
}

#[tokio::test]
async fn a_panic_ends_one_call() {
    let doors = doors();
    let client = doors.client("me");
    let error = client.post(&call(1, "boom", json!({}))).await.tool_error();
    assert_eq!(error["errorCode"], "INTERNAL");
    assert!(!error.to_string().contains("boom"), "{error}");
    assert_eq!(
        client.post(&call(1, "echo", json!({ "text": "x" }))).await.json()["result"]["isError"],
        false
    );
    assert_eq!(doors.program.doorman.inside.load(Ordering::SeqCst), 0);
    let trail = doors.program.trail.ended.lock();
    assert_eq!(trail[0].outcome, cuddy_edge::audit::Outcome::Failed(ErrorCode::Internal));
}

#[tokio::test(start_paused = true)]
async fn time_runs_out() {
    let doors = doors();
    let client = doors.client("me");
    let started = tokio::time::Instant::now();
    let answer = client.post(&call(1, "stubborn", json!({}))).await;
    assert_eq!(answer.tool_error()["errorCode"], "DEADLINE");
    // The deadline, and the grace in which the handler did not stop.
    assert_eq!(started.elapsed().as_secs(), 65);
    doors.program.held.dropped.notified().await;
    assert_eq!(doors.program.doorman.inside.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn who_goes_away_takes_the_call_back() {
    let doors = doors();
    let waiting = doors.client("me").spawn(&call(1, "hold", json!({})));
    one(&doors.program.held.began).await;
    waiting.abort();
    one(&doors.program.held.cancelled).await;
    let ended = async {
        while doors.program.trail.ended.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), ended).await.unwrap();
    assert_eq!(
        doors.program.trail.ended.lock()[0].outcome,
        cuddy_edge::audit::Outcome::Failed(ErrorCode::Cancelled)
    );
    assert_eq!(doors.program.doorman.inside.load(Ordering::SeqCst), 0);
}
