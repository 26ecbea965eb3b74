//! Sessions, limits, and taking calls back.

use std::time::Duration;

use cuddy_edge::doors::Limits;
use http::StatusCode;
use serde_json::{Value, json};

use crate::support::ask::{Client, Doors, call, doors, doors_with};
use crate::support::commands::{one, soon};
use crate::support::tokens::{key, set, token_of, trusted};

fn hold(id: impl Into<Value>) -> Value {
    call(id, "hold", json!({}))
}

fn cancelled(id: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id.into() } })
}

fn ping() -> Value {
    json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" })
}

fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list" })
}

async fn held(
    doors: &Doors,
    client: &Client,
    id: impl Into<Value>,
) -> tokio::task::JoinHandle<crate::support::ask::Answer> {
    let call = client.spawn(&hold(id));
    one(&doors.program.held.began).await;
    call
}

#[tokio::test]
async fn an_unknown_session_is_not_found_in_the_words_clients_look_for() {
    let doors = doors();
    let (mut me, you) = (doors.client("me"), doors.client("you").in_session().await);
    for session in ["7d4b", "", "\u{7f}", you.session.as_deref().unwrap()] {
        if http::HeaderValue::from_str(session).is_err() {
            continue;
        }
        me.session = Some(session.to_owned());
        for message in [ping(), hold(1), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })] {
            let answer = me.post(&message).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{session} {message}");
            assert_eq!(
                answer.json(),
                json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32001, "message": "Session not found" } })
            );
        }
        assert_eq!(me.ask(me.request("DELETE", &[], "")).await.status, StatusCode::NOT_FOUND);
        // But a client that begins anew is welcome, whatever it still carries.
        let answer = me.initialize().await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_ne!(answer.header("mcp-session-id"), Some(session));
    }
    assert_eq!(you.post(&ping()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn delete_ends_a_session_and_what_runs_in_it() {
    let doors = doors();
    let client = doors.client("me").in_session().await;
    let running = held(&doors, &client, 1).await;
    assert_eq!(client.ask(client.request("DELETE", &[], "")).await.status, StatusCode::NO_CONTENT);
    let error = soon(running).await.unwrap().tool_error();
    assert_eq!(error["errorCode"], "CANCELLED");
    assert_eq!(error["message"], "the session has ended, and this call with it");
    assert_eq!(client.post(&ping()).await.status, StatusCode::NOT_FOUND);
    let bare = doors.client("me");
    assert_eq!(bare.ask(bare.request("DELETE", &[], "")).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn two_session_headers_are_none() {
    let client = doors().client("me").in_session().await;
    let answer = client.post_with(&ping(), &[("mcp-session-id", "other")]).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_third_request_at_once_waits_outside() {
    let doors = doors();
    let client = doors.client("me").in_session().await;
    let first = held(&doors, &client, 1).await;
    let second = held(&doors, &client, 2).await;
    let answer = client.post(&hold(3)).await;
    assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("1")));
    assert_eq!(answer.json()["id"], 3);
    assert_eq!(answer.json()["error"]["data"]["errorCode"], "BUSY");
    assert_eq!(client.post(&list()).await.status, StatusCode::TOO_MANY_REQUESTS);
    // Signs of life and notifications never count: a cancel gets through, and makes room.
    assert_eq!(client.post(&ping()).await.status, StatusCode::OK);
    let answer = client.post(&cancelled(1)).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    let silent = soon(first).await.unwrap();
    assert_eq!(
        (silent.status, silent.body.len()),
        (StatusCode::ACCEPTED, 0),
        "who took it back gets no answer"
    );
    assert_eq!(client.post(&list()).await.status, StatusCode::OK);
    doors.program.held.release.add_permits(1);
    assert_eq!(soon(second).await.unwrap().json()["result"]["structuredContent"]["text"], "released");
    // Another session has its own two.
    let other = doors.client("me").in_session().await;
    assert_eq!(other.post(&list()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_place_is_held_until_the_answer_has_been_read() {
    let doors = doors_with(Limits { in_flight_per_session: 1, ..Limits::default() }, |_| true);
    let client = doors.client("me").in_session().await;
    let unread = client.send(client.request("POST", &[], list().to_string())).await;
    assert_eq!(unread.status(), StatusCode::OK);
    assert_eq!(client.post(&list()).await.status, StatusCode::TOO_MANY_REQUESTS);
    drop(unread);
    assert_eq!(client.post(&list()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn calls_without_a_session_are_bounded_too() {
    let doors = doors_with(Limits { in_flight: 20, ..Limits::default() }, |_| true);
    let (me, you) = (doors.client("me"), doors.client("you"));
    let mut running = Vec::new();
    for _ in 0..16 {
        // Counters for ids are no names: sixteen calls of one id are sixteen calls.
        running.push(held(&doors, &me, 1).await);
    }
    let answer = me.post(&hold(1)).await;
    assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("1")));
    for _ in 0..4 {
        running.push(held(&doors, &you, 1).await);
    }
    assert_eq!(you.post(&list()).await.status, StatusCode::TOO_MANY_REQUESTS, "full for everybody");
    assert_eq!(me.post(&ping()).await.status, StatusCode::OK, "a sign of life takes no place");
    // A session has places of its own, however many calls of its owner run without one.
    let session = me.clone().in_session().await;
    for id in [1, 2] {
        running.push(held(&doors, &session, id).await);
    }
    assert_eq!(session.post(&hold(3)).await.status, StatusCode::TOO_MANY_REQUESTS);
    doors.program.held.release.add_permits(22);
    for call in running {
        assert_eq!(soon(call).await.unwrap().json()["result"]["isError"], false);
    }
    assert_eq!(me.post(&list()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn two_calls_of_one_id_never_cross() {
    let doors = doors();
    let client = doors.client("me").in_session().await;
    let first = held(&doors, &client, 1).await;
    let second = client.post(&call(1, "echo", json!({ "text": "second" }))).await;
    assert_eq!((second.status, second.code()), (StatusCode::BAD_REQUEST, -32600));
    // "1" is another id than 1.
    let third = client.post(&call("1", "echo", json!({ "text": "third" }))).await;
    assert_eq!(third.json()["result"]["structuredContent"]["text"], "third");
    doors.program.held.release.add_permits(1);
    assert_eq!(soon(first).await.unwrap().json()["result"]["structuredContent"]["text"], "released");
    let again = client.post(&call(1, "echo", json!({ "text": "again" }))).await;
    assert_eq!(again.json()["result"]["structuredContent"]["text"], "again");
}

#[tokio::test]
async fn a_cancel_reaches_its_call_and_no_other() {
    let doors = doors();
    let long = "3f0e2d1c-0b1a-4e5f-8a9b-000000000001";
    let me = doors.client("me");
    let in_session = me.clone().in_session().await;
    let mine = held(&doors, &me, long).await;
    let short = held(&doors, &me, "15-characters-x").await;
    let sessions = held(&doors, &in_session, long).await;
    // Nobody else's word counts, nor a name that is too short to be one, nor one of another place.
    doors.client("you").post(&cancelled(long)).await;
    me.post(&cancelled("15-characters-x")).await;
    me.post(&cancelled("never-heard-of-this-one")).await;
    me.post(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" })).await;
    me.post(&cancelled(json!({ "a": 1 }))).await;
    assert_eq!(doors.program.held.cancelled.available_permits(), 0);
    assert_eq!(me.post(&cancelled(long)).await.status, StatusCode::ACCEPTED);
    assert_eq!(soon(mine).await.unwrap().body.len(), 0);
    assert_eq!(doors.program.held.cancelled.available_permits(), 1);
    in_session.post(&cancelled(long)).await;
    assert_eq!(soon(sessions).await.unwrap().body.len(), 0);
    doors.program.held.release.add_permits(1);
    assert_eq!(soon(short).await.unwrap().json()["result"]["structuredContent"]["text"], "released");
}

#[tokio::test]
async fn a_random_id_without_a_session_names_one_call() {
    let doors = doors();
    let me = doors.client("me");
    let long = "3f0e2d1c-0b1a-4e5f-8a9b-000000000001";
    let first = held(&doors, &me, long).await;
    assert_eq!(me.post(&hold(long)).await.code(), -32600);
    let others = held(&doors, &doors.client("you"), long).await;
    doors.program.held.release.add_permits(2);
    soon(first).await.unwrap();
    soon(others).await.unwrap();
}

#[tokio::test]
async fn the_ninth_session_ends_the_oldest_cleanly() {
    let doors = doors();
    let mut clients = Vec::new();
    let mut running = Vec::new();
    for _ in 0..8 {
        let client = doors.client("me").in_session().await;
        running.push(held(&doors, &client, 1).await);
        clients.push(client);
    }
    let ninth = doors.client("me").in_session().await;
    let error = soon(running.remove(0)).await.unwrap().tool_error();
    assert_eq!(error["errorCode"], "CANCELLED");
    assert_eq!(clients[0].post(&ping()).await.status, StatusCode::NOT_FOUND);
    assert_eq!(ninth.post(&ping()).await.status, StatusCode::OK);
    assert_eq!(clients[1].post(&ping()).await.status, StatusCode::OK);
    doors.program.held.release.add_permits(7);
    for call in running {
        assert_eq!(soon(call).await.unwrap().json()["result"]["isError"], false);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_call_keeps_its_session() {
    let doors = doors();
    let client = doors.client("me").in_session().await;
    let running = held(&doors, &client, 1).await;
    tokio::time::advance(Duration::from_mins(31)).await;
    assert_eq!(client.post(&ping()).await.status, StatusCode::OK);
    tokio::time::advance(Duration::from_mins(29)).await;
    doors.program.held.release.add_permits(1);
    assert_eq!(soon(running).await.unwrap().json()["result"]["isError"], false);
    tokio::time::advance(Duration::from_mins(29)).await;
    assert_eq!(client.post(&ping()).await.status, StatusCode::OK);
    tokio::time::advance(Duration::from_mins(30)).await;
    assert_eq!(client.post(&ping()).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_key_that_goes_while_the_body_comes_opens_nothing() {
    let doors = doors();
    let client = doors.client("me");
    let trust = std::sync::Arc::clone(&doors.trust);
    let message = call(1, "change", json!({ "text": "x" })).to_string();
    // The bearer has been checked when the body is asked for.
    let body = futures::stream::once(async move {
        trust.replace(set(2, &[trusted(&key(2))]));
        Ok::<_, std::io::Error>(message)
    });
    let answer = client.ask(client.request("POST", &[], axum::body::Body::from_stream(body))).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(doors.program.held.changes.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_key_that_is_taken_away_takes_its_sessions_and_calls_along() {
    let doors = doors();
    let kept = doors.client("kept").in_session().await;
    let gone = doors.client_with(token_of("gone", &key(2))).in_session().await;
    let with_session = held(&doors, &gone, 1).await;
    let without = held(&doors, &doors.client_with(token_of("gone", &key(2))), 1).await;
    let keeps_running = held(&doors, &kept, 1).await;
    doors.trust.replace(set(2, &[trusted(&key(1))]));
    for call in [with_session, without] {
        let error = soon(call).await.unwrap().tool_error();
        assert_eq!(error["errorCode"], "CANCELLED");
        assert_eq!(error["message"], "the key that let this call in is no longer trusted");
    }
    assert_eq!(gone.post(&ping()).await.status, StatusCode::UNAUTHORIZED);
    // Should the key come back, its session does not.
    doors.trust.replace(set(3, &[trusted(&key(1)), trusted(&key(2))]));
    assert_eq!(gone.post(&ping()).await.status, StatusCode::NOT_FOUND);
    doors.program.held.release.add_permits(1);
    assert_eq!(soon(keeps_running).await.unwrap().json()["result"]["isError"], false);
    assert_eq!(kept.post(&ping()).await.status, StatusCode::OK);
}
