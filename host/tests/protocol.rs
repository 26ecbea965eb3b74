//! The host protocol itself, and the commands that are no jobs, with the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use common::{World, answer, eventually};
use cuddy_protocol::ErrorCode;
use cuddy_protocol::host::{Header, VERSION, encode_header};
use serde_json::{Value, json};

fn header(build: &str, v: u32, command: &str) -> Vec<u8> {
    let header = Header {
        v,
        build: build.to_owned(),
        call: "c".to_owned(),
        command: command.to_owned(),
        params: Value::Null,
        deadline_ms: 5000,
    };
    encode_header(&header).unwrap()
}

#[test]
fn another_build_is_refused_except_by_hello() {
    let mut world = World::new();
    let say = |world: &World, bytes: Vec<u8>| {
        let mut stream = UnixStream::connect(world.socket()).unwrap();
        stream.write_all(&bytes).unwrap();
        answer(&mut stream).unwrap()
    };
    let hello = say(&world, header("other", VERSION, "hello")).unwrap();
    assert_eq!(hello["build"], cuddy_host::build_info::build());
    let error = say(&world, header("other", VERSION, "activity")).unwrap_err();
    assert_eq!(error.error_code, ErrorCode::Unavailable);
    assert!(error.message.contains("other"), "{error}");
    assert!(say(&world, header(&cuddy_host::build_info::build(), VERSION + 1, "hello")).is_err());
    let error = say(&world, header(&cuddy_host::build_info::build(), VERSION, "nonsense")).unwrap_err();
    assert_eq!(error.error_code, ErrorCode::UnknownCommand);

    let boot = hello["bootId"].clone();
    assert_eq!(world.ok("hello", json!({}))["bootId"], boot);
    world.replace_host();
    assert_ne!(world.ok("hello", json!({}))["bootId"], boot, "a new host is a new boot");
}

#[test]
fn the_socket_is_the_groups() {
    let world = World::new();
    let mode = std::fs::metadata(world.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o770);
    assert_eq!(std::fs::read_dir(world.dir.path().join("host")).unwrap().count(), 1, "no name is left over");
}

#[test]
fn garbage_is_not_answered_and_harms_nobody() {
    let world = World::new();
    for bytes in [&[0xff; 64][..], b"GET / HTTP/1.1\r\n\r\n", &[0, 0, 0, 2, b'{', b'}'], &[0, 0, 0, 9]] {
        let mut stream = UnixStream::connect(world.socket()).unwrap();
        let _ = stream.write_all(bytes);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(answer(&mut stream).is_err());
    }
    world.ready();
}

#[test]
fn connections_beyond_the_bound_are_refused_and_room_comes_back() {
    let world = World::new();
    // A few more than the bound: calls that have just been answered may still count.
    let held: Vec<UnixStream> = (0..140).map(|_| UnixStream::connect(world.socket()).unwrap()).collect();
    let refused = answer(&mut world.connect("hello", &json!({})).unwrap()).unwrap().unwrap_err();
    assert_eq!((refused.error_code, refused.retryable), (ErrorCode::Busy, true));
    drop(held);
    world.ready();
    eventually("there is room again", || world.try_call("hello", &json!({})).ok()?.ok());
}

#[test]
fn a_process_is_told_by_more_than_its_number() {
    let world = World::new();
    let own = world.ok("process", json!({ "pid": world.host.id() }))["identity"].clone();
    let parts: Vec<String> = own.as_str().unwrap().split(':').map(str::to_owned).collect();
    assert_eq!((parts.len(), parts[0].as_str()), (3, world.host.id().to_string().as_str()));
    assert_eq!(world.ok("process", json!({ "pid": i32::MAX })), json!({}));
    assert_eq!(world.ok("process", json!({ "pid": -1 })), json!({}));
}

#[test]
fn usage_measures_this_machine_or_says_why_not() {
    let world = World::new();
    let usage = world.ok("usage", json!({ "intervalSeconds": 0.0 }));
    assert_eq!((&usage["tenant"], &usage["environment"]), (&json!("t"), &json!("e")));
    assert_eq!(usage["disk"][0]["mount"], world.home().display().to_string());
    for part in ["cpu", "memory"] {
        let (numbers, reason) = (usage[part].as_object().unwrap().len(), usage[part].get("unavailable"));
        assert!(if reason.is_some() { numbers == 1 } else { numbers > 1 }, "{usage}");
    }
    assert!(
        usage["cpu"].get("unavailable").is_some() || usage["cpu"]["intervalSeconds"].as_f64().unwrap() >= 0.1
    );
}
