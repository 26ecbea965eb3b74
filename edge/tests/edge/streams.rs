//! Answers as streams.

use std::time::Duration;

use axum::body::Body;
use cuddy_edge::doors::Limits;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::support::ask::{Answer, call, doors, doors_with};
use crate::support::commands::{one, soon};
use crate::support::tokens::{key, set, trusted};

const BOTH: [(&str, &str); 1] = [("accept", "application/json, text/event-stream")];

fn with_token(id: impl Into<Value>, name: &str, token: impl Into<Value>) -> Value {
    let mut message = call(id, name, json!({}));
    message["params"]["_meta"] = json!({ "progressToken": token.into() });
    message
}

fn events(answer: &Answer) -> Vec<Value> {
    let events = answer.text().split("\n\n").filter(|e| !e.is_empty() && !e.starts_with(':'));
    events
        .map(|event| {
            let data = event.strip_prefix("event: message\ndata: ").unwrap_or_else(|| panic!("{event:?}"));
            serde_json::from_str(data).unwrap()
        })
        .collect()
}

async fn frame(body: &mut Body) -> String {
    let frame = tokio::time::timeout(Duration::from_mins(5), body.frame()).await.unwrap();
    String::from_utf8(frame.unwrap().unwrap().into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn progress_rises_and_ends_with_the_answer() {
    let client = doors().client("me");
    for token in [json!("t"), json!(7)] {
        let answer = client.post_with(&with_token("call", "steps", token.clone()), &BOTH).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let mut events = events(&answer);
        let last = events.pop().unwrap();
        assert_eq!(
            (&last["id"], &last["result"]["structuredContent"]["text"]),
            (&json!("call"), &json!("with steps"))
        );
        let steps: Vec<_> = events.iter().map(|e| e["params"]["progress"].as_f64().unwrap()).collect();
        assert_eq!(steps, [1.0, 2.0, 3.0]);
        for event in events {
            assert_eq!(event["method"], "notifications/progress");
            assert_eq!(event["params"]["progressToken"], token);
            assert_eq!(event["params"]["total"], 3.0);
        }
    }
}

#[tokio::test]
async fn a_stream_is_for_who_asks_and_can_read_it() {
    let client = doors().client("me");
    let message = with_token(1, "steps", "t");
    for accept in ["application/json", "*/*", "", "text/event-streams"] {
        let answer = client.post_with(&message, &[("accept", accept)]).await;
        assert_eq!(answer.header("content-type"), Some("application/json"), "{accept}");
        assert_eq!(answer.json()["result"]["structuredContent"]["text"], "without steps");
    }
    for accept in ["text/event-stream", "application/json;q=0.9 , TEXT/EVENT-STREAM;q=1"] {
        let answer = client.post_with(&message, &[("accept", accept)]).await;
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{accept}");
    }
    let answer = client.post_with(&call(1, "steps", json!({})), &BOTH).await;
    assert_eq!(answer.header("content-type"), Some("application/json"), "no token, no stream");
    let answer = client.post_with(&with_token(1, "nothing", "t"), &BOTH).await;
    assert_eq!((answer.header("content-type"), answer.code()), (Some("application/json"), -32602));
}

#[tokio::test]
async fn errors_stream_too() {
    let answer = doors().client("me").post_with(&with_token(1, "fail", "t"), &BOTH).await;
    assert_eq!(events(&answer)[0]["result"]["isError"], true);
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_says_that_it_lives() {
    let doors = doors();
    let client = doors.client("me");
    let response = client.send(client.request("POST", &BOTH, with_token(1, "hold", "t").to_string())).await;
    let mut body = response.into_body();
    assert_eq!(frame(&mut body).await, ": the call runs\n\n");
    assert_eq!(frame(&mut body).await, ": the call runs\n\n");
    doors.program.held.release.add_permits(1);
    assert!(frame(&mut body).await.contains("released"));
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_stream_holds_its_place_and_leaving_takes_the_call_back() {
    let doors = doors_with(Limits { in_flight_per_session: 1, ..Limits::default() }, |_| true);
    let client = doors.client("me").in_session().await;
    let list = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list" });
    let response = client.send(client.request("POST", &BOTH, with_token(1, "hold", "t").to_string())).await;
    let mut body = response.into_body();
    let reading = tokio::spawn(async move { body.frame().await.is_none() });
    one(&doors.program.held.began).await;
    assert_eq!(client.post(&list).await.status, StatusCode::TOO_MANY_REQUESTS);
    reading.abort();
    one(&doors.program.held.cancelled).await;
    assert!(soon(reading).await.unwrap_err().is_cancelled());
    assert_eq!(client.post(&list).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_call_that_was_taken_back_ends_its_stream_without_an_answer() {
    let doors = doors();
    let client = doors.client("me").in_session().await;
    let reading = {
        let client = client.clone();
        tokio::spawn(async move { client.post_with(&with_token(5, "hold", "t"), &BOTH).await })
    };
    one(&doors.program.held.began).await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } });
    client.post(&cancel).await;
    let answer = soon(reading).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
}

#[tokio::test]
async fn a_key_that_is_taken_away_ends_streams() {
    let doors = doors();
    let client = doors.client("me");
    let reading = tokio::spawn(async move { client.post_with(&with_token(5, "hold", "t"), &BOTH).await });
    one(&doors.program.held.began).await;
    doors.trust.replace(set(2, &[trusted(&key(2))]));
    let answer = soon(reading).await.unwrap();
    assert!(events(&answer)[0].to_string().contains("no longer trusted"));
}
