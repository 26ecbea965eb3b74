//! `cuddy mcp proxy` before a server that misbehaves, and before none at all.

mod support;

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};
use support::fault_server::{FaultServer, Seen, answer, result};
use support::proxy::{Proxy, vanish};
use support::{Home, until};

fn before(server: &FaultServer) -> (Home, Proxy) {
    let home = Home::with_key();
    home.open_at("acme", "dev", server.port);
    let proxy = Proxy::start(&home, &["--wake-timeout", "20"]);
    (home, proxy)
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn the_handshake_needs_no_environment_and_failures_leave_it_serving() {
    let home = Home::with_key();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    home.open_at("acme", "dev", gone.local_addr().unwrap().port());
    drop(gone);
    let mut proxy = Proxy::start(&home, &[]);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        proxy.request(1, "initialize", &json!({ "protocolVersion": version, "capabilities": {} }));
        assert_eq!(proxy.next()["result"]["protocolVersion"], version);
    }
    proxy.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    proxy.request(2, "tools/list", &json!({}));
    assert!(proxy.next()["result"]["tools"].as_array().unwrap().len() > 5);
    for id in 3..5 {
        proxy.call(id, "version", &json!({}));
        let failed = proxy.next();
        assert_eq!((&failed["id"], &failed["error"]["code"]), (&json!(id), &json!(-32603)));
        assert!(failed["error"]["message"].as_str().unwrap().contains("cuddy open"), "{failed}");
        assert_eq!(failed["error"]["data"]["errorCode"], "UNAVAILABLE");
    }
    proxy.request(6, "ping", &json!({}));
    assert_eq!(proxy.next(), json!({ "jsonrpc": "2.0", "id": 6, "result": {} }));
    let (status, rest, said) = proxy.finish();
    assert!(status.success() && rest.is_empty(), "{rest:?}");
    assert!(said.lines().all(|line| line.starts_with("mcp proxy: ")), "{said}");
}

#[test]
fn without_a_key_calls_fail_until_there_is_one() {
    let server = FaultServer::start(|_, seen, stream| result(stream, seen, "served"));
    let home = Home::new();
    home.open_at("acme", "dev", server.port);
    let mut proxy = Proxy::start(&home, &[]);
    proxy.call(1, "version", &json!({}));
    let failed = proxy.next();
    assert!(failed["error"]["message"].as_str().unwrap().contains("cuddy key create"), "{failed}");
    home.ok(&["key", "create"]);
    proxy.call(2, "version", &json!({}));
    assert_eq!(text(&proxy.next()), "served");
    assert!(proxy.finish().0.success());
}

#[test]
fn each_request_carries_a_bearer_and_an_id_of_its_own() {
    let server = FaultServer::start(|_, seen, stream| result(stream, seen, "ok"));
    let (_home, mut proxy) = before(&server);
    for _ in 0..3 {
        proxy.call_with_progress(1, "version", &json!({ "tenant": "acme" }));
        assert_eq!(proxy.next()["id"], 1);
    }
    assert!(proxy.finish().0.success());
    let seen = server.seen();
    let mut ids: Vec<&str> = seen.iter().map(|s| s.id().as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3, "the client's id is used again and ours is not");
    for one in &seen {
        assert_eq!(one.id().as_str().unwrap().len(), 36);
        assert_eq!(one.message["params"]["arguments"]["tenant"], "acme");
        assert_eq!(one.message["params"]["_meta"]["progressToken"], *one.id());
        let bearer = one.header("authorization").unwrap();
        assert!(bearer.starts_with("Bearer ey") && bearer.split('.').count() == 3);
        assert_eq!(one.header("mcp-session-id"), None);
        assert_eq!(one.header("host").unwrap(), format!("127.0.0.1:{}", server.port));
    }
}

#[test]
fn a_busy_or_starting_environment_is_waited_for() {
    let busy = |code: &str| {
        json!({ "jsonrpc": "2.0", "id": null, "error": {
        "code": -32000, "message": format!("{code} for now"), "data": { "errorCode": code } } })
    };
    let server = FaultServer::start(move |n, seen, stream| match n {
        0 => answer(stream, "429 Too Many Requests", "retry-after: 1\r\n", &busy("BUSY")),
        1 => answer(stream, "503 Service Unavailable", "retry-after: 1\r\n", &busy("STARTING")),
        2 => {
            let told = json!({ "errorCode": "STARTING", "message": "not yet", "retryable": true });
            let failed =
                json!({ "content": [{ "type": "text", "text": told.to_string() }], "isError": true });
            answer(stream, "200 OK", "", &json!({ "jsonrpc": "2.0", "id": seen.id(), "result": failed }));
        }
        _ => result(stream, seen, "up"),
    });
    let (_home, mut proxy) = before(&server);
    proxy.call_with_progress(1, "exec_raw", &json!({ "argv": ["true"] }));
    let mut steps = Vec::new();
    let last = loop {
        let line = proxy.next();
        if line.get("method").is_none() {
            break line;
        }
        assert_eq!(line["params"]["progressToken"], "p1");
        steps.push((line["params"]["progress"].as_f64().unwrap(), line["params"]["message"].to_string()));
    };
    assert_eq!(text(&last), "up");
    assert_eq!(steps.len(), 3, "{steps:?}");
    assert!(steps.is_sorted_by(|a, b| a.0 < b.0) && steps[0].1.contains("BUSY for now"), "{steps:?}");
    assert_eq!(server.seen().len(), 4);
}

#[test]
fn a_refusal_is_passed_on_at_once() {
    let server = FaultServer::start(|_, _, stream| {
        let head = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 32\r\ncontent-type: text/plain\r\n\r\n";
        let _ = stream.write_all(format!("{head}unauthorized: the key is unknown").as_bytes());
    });
    let (_home, mut proxy) = before(&server);
    proxy.call(1, "version", &json!({}));
    let failed = proxy.next();
    assert_eq!(failed["error"]["code"], -32603);
    let words = failed["error"]["message"].as_str().unwrap();
    assert!(words.contains("the key is unknown") && words.contains("cuddy key show"), "{words}");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn what_may_have_run_is_not_run_again() {
    // The request is read in full, and then the connection is cut.
    let server = FaultServer::start(|_, _, stream| drop(stream.shutdown(std::net::Shutdown::Both)));
    let (_home, mut proxy) = before(&server);
    proxy.call(1, "exec_raw", &json!({ "argv": ["true"] }));
    let failed = proxy.next();
    assert_eq!(failed["error"]["data"]["errorCode"], "OUTCOME_UNKNOWN", "{failed}");
    assert_eq!(server.seen().len(), 1, "exactly one request for a command that may change something");
    assert!(proxy.finish().0.success());
}

#[test]
fn what_merely_reads_is_asked_again() {
    let server = FaultServer::start(|n, seen, stream| match n {
        0 => drop(stream.shutdown(std::net::Shutdown::Both)),
        1 => {
            // A stream that ends before its answer.
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: alive\n\n";
            let _ = stream.write_all(head.as_bytes());
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
        _ => result(stream, seen, "read"),
    });
    let (_home, mut proxy) = before(&server);
    proxy.call(1, "exec_job_status", &json!({}));
    assert_eq!(text(&proxy.next()), "read");
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn an_answer_to_somebody_else_is_not_passed_on() {
    let server = FaultServer::start(|_, _, stream| {
        let other = json!({ "jsonrpc": "2.0", "id": "another", "result": { "content": [{ "text": "secret of another" }] } });
        answer(stream, "200 OK", "", &other);
    });
    let (_home, mut proxy) = before(&server);
    proxy.call(1, "version", &json!({}));
    let failed = proxy.next();
    assert_eq!(failed["id"], 1);
    assert!(failed.get("result").is_none() && !failed.to_string().contains("secret"), "{failed}");
}

#[test]
fn progress_is_relayed_under_the_clients_token() {
    let server = FaultServer::start(|_, seen: &Seen, stream| {
        let step = |n: u32| {
            json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": seen.id(), "progress": n, "total": 2, "message": format!("step {n}") } })
        };
        let done = json!({ "jsonrpc": "2.0", "id": seen.id(), "result": { "content": [{ "type": "text", "text": "done" }] } });
        use std::fmt::Write as _;
        let mut body = String::from("id: 0\ndata:\n\n: alive\n\n");
        for event in [step(1), step(2), done] {
            write!(body, "event: message\ndata: {event}\n\n").unwrap();
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all((head.to_owned() + &body).as_bytes());
        drop(stream.shutdown(std::net::Shutdown::Write));
    });
    let (_home, mut proxy) = before(&server);
    proxy.call_with_progress(7, "exec_raw", &json!({ "argv": ["true"] }));
    for n in 1..3 {
        let step = proxy.next();
        assert_eq!(
            step["params"],
            json!({ "progressToken": "p7", "progress": n, "total": 2, "message": format!("step {n}") })
        );
    }
    assert_eq!(text(&proxy.next()), "done");
    proxy.call(8, "exec_raw", &json!({ "argv": ["true"] }));
    assert_eq!(proxy.next()["id"], 8, "who asks for no progress gets none");
}

#[test]
fn a_cancel_reaches_its_call_and_no_other() {
    let server = FaultServer::start(|_, seen, stream| {
        if seen.message["method"] == "notifications/cancelled" {
            let _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
        } else if seen.message["params"]["name"] == "version" {
            result(stream, seen, "quick");
        } else {
            // Never answered: read until the proxy closes the connection.
            let _ = std::io::Read::read(stream, &mut [0; 16]);
        }
    });
    let (_home, mut proxy) = before(&server);
    proxy.call(1, "exec_raw", &json!({ "argv": ["one"] }));
    proxy.call(2, "exec_raw", &json!({ "argv": ["two"] }));
    let calls = until("both calls", || Some(server.seen()).filter(|seen| seen.len() == 2));
    let named = |word: &str| {
        calls.iter().find(|c| c.message["params"]["arguments"]["argv"][0] == word).unwrap().id().clone()
    };
    proxy.request(3, "ping", &json!({}));
    assert_eq!(proxy.next()["id"], 3, "a ping passes while calls run");
    proxy.cancel(99);
    proxy.cancel(1);
    let cancelled = until("the cancel", || {
        server.seen().into_iter().find(|s| s.message["method"] == "notifications/cancelled")
    });
    assert_eq!(cancelled.message["params"]["requestId"], named("one"));
    proxy.call(4, "version", &json!({}));
    assert_eq!(proxy.next()["id"], 4, "no answer to what was taken back");
    let cancels =
        || server.seen().into_iter().filter(|s| s.message["method"] == "notifications/cancelled").count();
    assert_eq!(cancels(), 1);
}

#[test]
fn a_client_that_goes_takes_its_calls_back() {
    let server = FaultServer::start(|_, seen, stream| {
        if seen.message["method"] == "notifications/cancelled" {
            let _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
        } else {
            let _ = std::io::Read::read(stream, &mut [0; 16]);
        }
    });
    let home = Home::with_key();
    home.open_at("acme", "dev", server.port);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "exec_raw" } });
    let status = vanish(&home, &call, || until("the call", || (server.seen().len() == 1).then_some(())));
    assert!(status.success());
    let seen = server.seen();
    assert_eq!(seen[1].message["method"], "notifications/cancelled");
    assert_eq!(seen[1].message["params"]["requestId"], *seen[0].id());
}

#[test]
fn bad_lines_are_answered_and_the_next_one_is_read() {
    let server = FaultServer::start(|_, seen, stream| result(stream, seen, "ok"));
    let (_home, mut proxy) = before(&server);
    proxy.write("{");
    assert_eq!(proxy.next()["error"]["code"], -32700);
    proxy.write("[]");
    assert_eq!(proxy.next()["error"]["code"], -32600);
    proxy.write("");
    proxy.write(&format!("\"{}\"", "x".repeat(9 * 1024 * 1024)));
    let long = proxy.next();
    assert!(long["error"]["message"].as_str().unwrap().contains("8388608"), "{long}");
    proxy.send(&json!({ "jsonrpc": "2.0", "id": 5, "result": {} }));
    proxy.request(6, "resources/list", &json!({}));
    assert_eq!(proxy.next()["error"]["code"], -32601);
    proxy.call(7, "version", &json!({}));
    assert_eq!(text(&proxy.next()), "ok");
    assert!(proxy.finish().0.success());
}

#[test]
fn too_many_calls_at_once_are_refused_and_the_rest_is_served() {
    let gate = std::sync::Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let open = std::sync::Arc::clone(&gate);
    let server = FaultServer::start(move |_, seen, stream| {
        let (lock, signal) = &*gate;
        let held =
            signal.wait_timeout_while(lock.lock().unwrap(), Duration::from_mins(1), |open| !*open).unwrap();
        drop(held);
        result(stream, seen, "late");
    });
    let (_home, mut proxy) = before(&server);
    for id in 0..65 {
        proxy.call(id, "version", &json!({}));
    }
    let refused = proxy.next();
    assert_eq!((&refused["id"], &refused["error"]["data"]["errorCode"]), (&json!(64), &json!("BUSY")));
    until("64 calls", || (server.seen().len() == 64).then_some(()));
    *open.0.lock().unwrap() = true;
    open.1.notify_all();
    let mut ids: Vec<i64> = (0..64).map(|_| proxy.answer()["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..64).collect::<Vec<_>>());
}

#[test]
fn the_end_of_input_waits_for_the_answers() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let server = FaultServer::start(move |_, seen, stream| {
        let _ = released.lock().unwrap().recv_timeout(Duration::from_mins(1));
        result(stream, seen, "last");
    });
    let (_home, mut proxy) = before(&server);
    proxy.call(1, "exec_job_await", &json!({ "id": "x" }));
    until("the call", || (server.seen().len() == 1).then_some(()));
    proxy.close_input();
    release.send(()).unwrap();
    let (status, rest, _) = proxy.finish();
    assert!(status.success());
    assert_eq!(rest.len(), 1);
    assert_eq!(text(&rest[0]), "last");
}

#[test]
fn the_end_of_input_bounds_what_is_waited_for() {
    // Silent until the proxy hangs up.
    let server = FaultServer::start(|_, _, stream| {
        let _ = std::io::Read::read(stream, &mut [0; 1]);
    });
    let (_home, mut proxy) = before(&server);
    proxy.call(7, "exec_job_await", &json!({ "id": "x" }));
    until("the call", || (server.seen().len() == 1).then_some(()));
    let since = std::time::Instant::now();
    let (status, rest, _) = proxy.finish();
    assert!(status.success());
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    assert_eq!(rest.len(), 1, "every call has one answer: {rest:?}");
    assert_eq!(rest[0]["id"], 7);
    assert_eq!(rest[0]["error"]["data"]["errorCode"], "OUTCOME_UNKNOWN");
}

#[test]
fn a_port_that_another_process_took_over_gets_no_bearer() {
    let server = FaultServer::start(|_, seen, stream| result(stream, seen, "stolen"));
    let home = Home::with_key();
    home.open_at("acme", "dev", server.port);
    let path = home.config().join("portforward/mcp/acme/dev.json");
    let mut state: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    state["processId"] = json!(1);
    std::fs::write(&path, state.to_string()).unwrap();
    let said = home.fails(4, &["mcp", "call", "--tool", "version"]);
    assert!(said.contains("not by the process that opened it"), "{said}");
    assert!(server.seen().is_empty());
}
