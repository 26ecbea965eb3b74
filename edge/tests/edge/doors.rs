//! What is looked at first, and in which order.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use cuddy_edge::bearer::reasons;
use cuddy_edge::caller::{Caller, Door};
use cuddy_edge::doors::{Access, DoorSettings, Limits, ServerInfo, router};
use cuddy_protocol::{Capabilities, Capability};
use http::{Method, Request, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::ask::{Answer, Doors, call, doors};
use crate::support::tokens::{UID, claims_with, key, now, token, token_of};

/// A body that must not be read.
struct Untouchable;

impl axum::body::HttpBody for Untouchable {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, std::io::Error>>> {
        panic!("the body was read")
    }
}

fn untouchable() -> Body {
    Body::new(Untouchable)
}

async fn ask(doors: &Doors, request: Request<Body>) -> Answer {
    Answer::read(doors.router.clone().oneshot(request).await.unwrap()).await
}

fn plain(path: &str) -> http::request::Builder {
    Request::builder().method(Method::POST).uri(path).header("host", "localhost")
}

#[tokio::test]
async fn names_and_pages_come_before_everything() {
    let doors = doors();
    doors.open.store(false, Ordering::SeqCst);
    for (host, origin, reason) in [
        ("evil.com", None, "host"),
        ("localhost.evil.com", None, "host"),
        ("127.0.0.1@evil.com", None, "host"),
        ("127.0.0.1", Some("http://evil.com"), "origin"),
        ("127.0.0.1", Some("null"), "origin"),
    ] {
        for path in ["/mcp", "/.well-known/oauth-authorization-server", "/x"] {
            let mut request = Request::builder().method(Method::POST).uri(path).header("host", host);
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            let answer = ask(&doors, request.body(untouchable()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{host} {origin:?} {path}");
            assert_eq!(answer.text(), format!("forbidden: {reason} not allowed"));
        }
    }
    doors.open.store(true, Ordering::SeqCst);
    let own = format!("{UID}.env.cuddy.internal:17443");
    let client = doors.client("me");
    let mut request = client.request("POST", &[], call(1, "echo", json!({ "text": "hi" })).to_string());
    request.headers_mut().insert("host", own.parse().unwrap());
    assert_eq!(client.ask(request).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_closed_gate_says_that_the_environment_starts() {
    let doors = doors();
    doors.open.store(false, Ordering::SeqCst);
    let answer = ask(&doors, plain("/mcp").body(untouchable()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.json()["error"]["data"]["errorCode"], "STARTING");
    assert_eq!(answer.json()["error"]["data"]["retryable"], true);
}

#[tokio::test]
async fn no_bearer_no_entry_and_the_body_is_not_read() {
    let doors = doors();
    let refused = [
        (None, reasons::MISSING),
        (
            Some(format!("Bearer {}", token(&claims_with("aud", json!("erun-mcp:t/x")), &key(1)))),
            reasons::AUDIENCE,
        ),
        (Some(format!("Bearer {}", token_of("me", &key(3)))), reasons::KEY),
    ];
    for (authorization, reason) in refused {
        for method in [Method::POST, Method::GET, Method::DELETE, Method::OPTIONS] {
            let mut request = plain("/mcp").method(&method);
            if let Some(value) = &authorization {
                request = request.header("authorization", value);
            }
            let answer = ask(&doors, request.body(untouchable()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {reason}");
            assert_eq!(answer.text(), format!("unauthorized: {reason}"));
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.starts_with("Bearer"), "{challenge}");
            assert_eq!(challenge.contains("invalid_token"), authorization.is_some());
        }
    }
}

#[tokio::test]
async fn a_token_in_the_address_is_refused_even_beside_a_good_one() {
    let doors = doors();
    let client = doors.client("me");
    let mut request = client.request("POST", &[], untouchable());
    *request.uri_mut() = "/mcp?access_token=x".parse().unwrap();
    let answer = client.ask(request).await;
    assert_eq!(
        (answer.status, answer.text()),
        (StatusCode::UNAUTHORIZED, "unauthorized: a token in the query is refused")
    );
}

#[tokio::test]
async fn other_addresses_answer_in_json() {
    let doors = doors();
    for path in [
        "/",
        "/mcpx",
        "/mcp/",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ] {
        let answer = ask(&doors, plain(path).method(Method::GET).body(untouchable()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.json()["error"], "not_found");
    }
}

#[tokio::test]
async fn other_methods_are_named() {
    let client = doors().client("me");
    for method in ["GET", "PUT", "PATCH", "OPTIONS", "HEAD"] {
        let answer = client.ask(client.request(method, &[], untouchable())).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(answer.header("allow"), Some("POST, DELETE"));
    }
}

#[tokio::test]
async fn what_is_not_declared_as_json_is_not_read() {
    let doors = doors();
    let bearer = format!("Bearer {}", token_of("me", &key(1)));
    let post = |kinds: &[&str], bearer: Option<&str>| {
        let mut request = plain("/mcp").method("POST");
        for kind in kinds {
            request = request.header("content-type", *kind);
        }
        if let Some(bearer) = bearer {
            request = request.header("authorization", bearer);
        }
        request.body(untouchable()).unwrap()
    };
    let refused: [&[&str]; 6] = [
        &[],
        &["text/plain"],
        &["application/jsonp"],
        &["application/x-www-form-urlencoded"],
        &["text/plain; application/json"],
        &["application/json", "application/json"],
    ];
    for kinds in refused {
        let answer = ask(&doors, post(kinds, Some(&bearer))).await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kinds:?}");
        assert_eq!(answer.code(), -32600);
        assert_eq!(ask(&doors, post(kinds, None)).await.status, StatusCode::UNAUTHORIZED, "who comes first");
    }
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for kind in
        ["application/json", "APPLICATION/JSON", "application/json;charset=UTF-8", "application/json ; a=b"]
    {
        let request =
            plain("/mcp").method("POST").header("content-type", kind).header("authorization", &bearer);
        assert_eq!(ask(&doors, request.body(ping.into()).unwrap()).await.status, StatusCode::OK, "{kind}");
    }
}

#[tokio::test]
async fn bodies_are_bounded() {
    let client = doors().client("me");
    let four = 4 * 1024 * 1024;
    // Known beforehand: not a byte is read.
    let mut declared = client.request("POST", &[], Body::from(vec![b' '; four + 1]));
    declared.headers_mut().insert("content-length", (four + 1).into());
    let answer = client.ask(declared).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer.json()["error"]["data"]["errorCode"], "TOO_LARGE");
    // Found out on the way.
    let pieces = (0..5).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1024 * 1024])));
    let chunked = client.request("POST", &[], Body::from_stream(futures::stream::iter(pieces)));
    assert_eq!(client.ask(chunked).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    // As large as may be.
    let mut text = call(1, "echo", json!({ "text": "hi" })).to_string();
    text.push_str(&" ".repeat(four - text.len()));
    assert_eq!(client.ask(client.request("POST", &[], text)).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let client = doors().client("me");
    let never = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    assert_eq!(client.ask(client.request("POST", &[], never)).await.status, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let client = doors().client("me");
    let table = [
        ("", 400, -32700),
        ("{", 400, -32700),
        ("\u{feff}{}", 400, -32700),
        ("{} {}", 400, -32700),
        (&"[".repeat(100_000), 400, -32700),
        ("[]", 400, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
        (r#""ping""#, 400, -32600),
        ("7", 400, -32600),
        ("null", 400, -32600),
        ("{}", 400, -32600),
        (r#"{"id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}"#, 200, -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}}"#,
            200,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":"{}"}}"#,
            200,
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":5}}"#, 200, -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":{}}}}"#,
            200,
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":7}}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, 200, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"TOOLS/CALL"}"#, 200, -32601),
    ];
    for (body, status, code) in table {
        let answer = client.ask(client.request("POST", &[], body.to_owned())).await;
        let shown: String = body.chars().take(80).collect();
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code), "{shown}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{shown}");
        if status == 200 {
            assert_eq!(answer.json()["id"], 1, "{shown}");
        }
    }
}

/// Any JSON, not too deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["2.0", "tools/call", "initialize", "notifications/cancelled", "echo", "é"])
            .prop_map(Value::from),
    ];
    let names = vec![
        "jsonrpc",
        "id",
        "method",
        "params",
        "name",
        "arguments",
        "_meta",
        "text",
        "requestId",
        "result",
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        let names = prop::sample::select(names.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.prop_map(str::to_owned), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_message_is_answered(mut body in any_json(), good in any::<bool>()) {
        if good && let Value::Object(members) = &mut body {
            members.insert("jsonrpc".to_owned(), json!("2.0"));
            members.insert("id".to_owned(), json!(1));
            members.insert("method".to_owned(), json!("tools/call"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let answer = runtime.block_on(async { doors().client("me").post(&body).await });
        match answer.status.as_u16() {
            202 => prop_assert!(answer.body.is_empty()),
            200 | 400 => prop_assert_eq!(&answer.json()["jsonrpc"], "2.0"),
            other => prop_assert!(false, "{} to {}", other, body),
        }
    }
}

#[tokio::test]
async fn ids_come_back_as_they_were() {
    let client = doors().client("me");
    for id in [json!(0), json!(-5), json!(u64::MAX), json!(""), json!("1"), json!("a \"quoted\" \u{1F6A2}")] {
        let answer = client.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
        assert_eq!(answer.json(), json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
}

#[tokio::test]
async fn versions_are_negotiated() {
    let client = doors().client("me");
    let versions = [
        (json!("2024-11-05"), "2024-11-05"),
        (json!("2025-03-26"), "2025-03-26"),
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-11-25"), "2025-11-25"),
        (json!("1900-01-01"), "2025-11-25"),
        (json!("2026-07-28"), "2025-11-25"),
        (json!(7), "2025-11-25"),
        (Value::Null, "2025-11-25"),
    ];
    for (asked, answered) in versions {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": asked } });
        // The header of a version that is not known is nothing to refuse at this point.
        let answer = client.post_with(&message, &[("mcp-protocol-version", "2099-01-01")]).await;
        assert_eq!(answer.status, StatusCode::OK, "{asked}");
        assert_eq!(answer.json()["result"]["protocolVersion"], answered);
        assert_eq!(answer.json()["result"]["capabilities"], json!({ "tools": {} }));
        assert_eq!(
            answer.json()["result"]["serverInfo"],
            json!({ "name": "cuddy-test", "version": "0.0.1" })
        );
        assert_eq!(answer.header("mcp-session-id").unwrap().len(), 36);
    }
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (version, status) in [("2025-06-18", 200), ("2026-07-28", 400), ("", 400)] {
        let answer = client.post_with(&ping, &[("mcp-protocol-version", version)]).await;
        assert_eq!(answer.status.as_u16(), status, "{version}");
    }
    let answer = client.post_with(&ping, &[("mcp-protocol-version", "x")]).await;
    assert_eq!((answer.code(), &answer.json()["id"]), (-32000, &json!(1)));
    assert_eq!(answer.json()["error"]["data"]["supported"][3], "2025-11-25");
}

#[tokio::test]
async fn without_bearers_the_caller_is_the_limited_one() {
    let doors = doors();
    let caller = Caller {
        issuer: "cuddy:agent".to_owned(),
        subject: "environment".to_owned(),
        kid: None,
        capabilities: Capabilities::up_to(Capability::Operate),
        issued_at: 0,
        door: Door::Mcp,
        session: None,
    };
    let open = router(DoorSettings {
        dispatcher: doors.program.dispatcher.clone(),
        access: Access::None(caller),
        hosts: Vec::new(),
        server_info: ServerInfo { name: "x".to_owned(), version: "y".to_owned() },
        clock: std::sync::Arc::new(now),
        limits: Limits::default(),
        gate: std::sync::Arc::new(|| true),
    });
    let ask = async |message: Value| {
        let request = plain("/mcp").header("content-type", "application/json");
        let request = request.body(Body::from(message.to_string())).unwrap();
        Answer::read(open.clone().oneshot(request).await.unwrap()).await
    };
    let answer = ask(call(1, "echo", json!({ "text": "hi" }))).await;
    assert_eq!(answer.json()["result"]["structuredContent"], json!({ "text": "hi" }));
    assert_eq!(ask(call(1, "secret", json!({}))).await.code(), -32602);
}
