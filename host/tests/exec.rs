//! `exec_raw` in the foreground, with the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use common::{World, answer, eventually, is_alive, pid_from};
use cuddy_protocol::ErrorCode;
use cuddy_protocol::host::{FrameKind, encode_frames};
use serde_json::json;

#[test]
fn streams_and_exit_codes_are_the_programs_own() {
    let world = World::new();
    let out = world.sh("echo out; echo err >&2; exit 3");
    assert_eq!(
        (&out["stdout"], &out["stderr"], &out["exit_code"]),
        (&json!("out\n"), &json!("err\n"), &json!(3))
    );
    assert_eq!((&out["truncated"], &out["timedOut"]), (&json!(false), &json!(false)));
    let out = world.sh("kill -9 $$");
    assert_eq!((&out["exit_code"], &out["signal"]), (&json!(-1), &json!("SIGKILL")));
    let out = world.ok("exec_raw", json!({ "argv": ["cat"], "stdin": "given" }));
    assert_eq!(out["stdout"], "given");
    let out = world
        .ok("exec_raw", json!({ "argv": ["sh", "-c", "echo $CI $ERUN_TENANT $0"], "env": { "CI": "1" } }));
    assert_eq!(out["stdout"], "1 t sh\n");
    let out = world.ok("exec_raw", json!({ "argv": ["printf", "%s", "$HOME `id`"] }));
    assert_eq!(out["stdout"], "$HOME `id`", "no shell is involved");
}

#[test]
fn what_cannot_run_is_said_clearly() {
    let world = World::new();
    let error = world.refused("exec_raw", json!({ "argv": ["no-such-program"] }));
    assert_eq!(error.error_code, ErrorCode::NotFound);
    assert!(error.message.contains("no-such-program"), "{error}");
    fs::write(world.home().join("plain"), "text").unwrap();
    assert_eq!(world.refused("exec_raw", json!({ "argv": ["./plain"] })).error_code, ErrorCode::Forbidden);
    assert_eq!(world.refused("exec_raw", json!({ "argv": [] })).error_code, ErrorCode::InvalidParams);
    assert_eq!(world.refused("exec_raw", json!({ "argv": ["a\0b"] })).error_code, ErrorCode::InvalidParams);
    assert_eq!(
        world.refused("exec_raw", json!({ "argv": ["true"], "x": 1 })).error_code,
        ErrorCode::InvalidParams
    );
    let error = world.refused("exec_raw", json!({ "argv": ["true"], "timeout_seconds": 3601 }));
    assert_eq!(error.error_code, ErrorCode::InvalidParams);
    let error = world.refused("exec_raw", json!({ "argv": ["true"], "env": { "LD_PRELOAD": "x" } }));
    assert_eq!(error.error_code, ErrorCode::InvalidParams);
}

#[test]
fn the_working_directory_is_beneath_home() {
    let world = World::new();
    let home = world.home();
    fs::create_dir_all(home.join("git/team/.git")).unwrap();
    symlink("/etc", home.join("out")).unwrap();
    symlink("/proc/self/root", home.join("root")).unwrap();
    let pwd = |cwd: &str| world.ok("exec_raw", json!({ "argv": ["pwd"], "cwd": cwd }))["stdout"].clone();
    let team = format!("{}/git/team\n", home.display());
    assert_eq!(pwd("git/team"), team.as_str());
    assert_eq!(pwd(&home.join("git/team").display().to_string()), team.as_str());
    assert_eq!(
        world.ok("exec_raw", json!({ "argv": ["pwd"] }))["stdout"],
        team.as_str(),
        "the only repository"
    );
    for cwd in ["/", "..", "out", "root", "root/etc", "/proc/self/root", "git/../..", "a\0b"] {
        let error = world.refused("exec_raw", json!({ "argv": ["pwd"], "cwd": cwd }));
        assert_eq!(error.error_code, ErrorCode::InvalidParams, "{cwd}");
    }
    let error = world.refused("exec_raw", json!({ "argv": ["pwd"], "cwd": "git/none" }));
    assert_eq!(error.error_code, ErrorCode::NotFound);
    assert!(error.message.contains("git/none"), "{error}");
}

#[test]
fn fifty_mebibytes_are_cut_at_one_in_bounded_memory() {
    let world = World::new();
    let peak = || {
        let status = fs::read_to_string(format!("/proc/{}/status", world.host.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = peak();
    let out = world.sh("head -c 52428800 /dev/zero | tr '\\0' x; echo end >&2");
    assert_eq!(out["stdout"].as_str().unwrap().len(), 1024 * 1024);
    assert_eq!((&out["exit_code"], &out["truncated"]), (&json!(0), &json!(true)));
    let stderr = out["stderr"].as_str().unwrap();
    assert!(stderr.starts_with("end\n[cuddy: stdout was cut") && stderr.contains("52428800"), "{stderr}");
    assert!(peak() - before < 16 * 1024, "{} KiB more than before", peak() - before);
}

#[test]
fn bytes_that_are_no_text_come_as_base64_too() {
    let world = World::new();
    let out = world.ok("exec_raw", json!({ "argv": ["printf", "a\\377b"] }));
    assert_eq!((&out["stdout"], &out["stdoutBase64"]), (&json!("a\u{fffd}b"), &json!("Yf9i")));
    assert_eq!(out.get("stderrBase64"), None);
}

#[test]
fn the_time_limit_ends_the_whole_tree() {
    let world = World::new();
    let begin = Instant::now();
    let script = "trap '' TERM; sleep 1000 & echo $! > child; echo before; wait; sleep 1000";
    let out = world.ok("exec_raw", json!({ "argv": ["sh", "-c", script], "timeout_seconds": 1 }));
    assert_eq!(
        (&out["timedOut"], &out["exit_code"], &out["stdout"]),
        (&json!(true), &json!(-1), &json!("before\n"))
    );
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(!is_alive(pid_from(&world.home().join("child"))));
    assert_eq!(out.get("survivors"), None);
}

#[test]
fn what_detaches_itself_is_ended_with_the_call() {
    let world = World::new();
    let before = world.processes();
    // Forked twice, a session of its own, all streams given up, another name: as a daemon does it.
    let daemon = r#"
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open("/proc/self/comm", "w").write("innocent")
open("daemon", "w").write(str(os.getpid()))
null = os.open("/dev/null", os.O_RDWR)
for fd in (0, 1, 2): os.dup2(null, fd)
import time; time.sleep(1000)
"#;
    fs::write(world.home().join("daemon.py"), daemon).unwrap();
    let out = world.sh("python3 daemon.py; while ! [ -s daemon ]; do :; done; echo done");
    assert_eq!((&out["stdout"], &out["exit_code"]), (&json!("done\n"), &json!(0)));
    assert!(!is_alive(pid_from(&world.home().join("daemon"))));
    assert_eq!(world.processes(), before);
}

#[test]
fn a_child_that_holds_the_streams_does_not_hold_the_call() {
    let world = World::new();
    let begin = Instant::now();
    let out = world.sh("sleep 1000 & echo $! > child; echo answered");
    assert_eq!((&out["stdout"], &out["exit_code"]), (&json!("answered\n"), &json!(0)));
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(!is_alive(pid_from(&world.home().join("child"))));
}

#[test]
fn a_rest_that_ends_by_itself_may_finish() {
    let world = World::new();
    let out = world.sh("(read x < gate; echo late) & mkfifo gate; echo early");
    assert!(out["stdout"].as_str().unwrap().contains("early"));
    let out = world.sh("(i=0; while [ $i -lt 200 ]; do i=$((i+1)); done; echo rest) & echo first");
    assert_eq!(out["stdout"].as_str().unwrap().split_whitespace().count(), 2, "{out}");
}

#[test]
fn a_program_that_forks_without_end_is_ended() {
    let world = World::new();
    let before = world.processes();
    // Bounded by its depth, not by anything of ours: every process starts two more.
    let bomb = "f() { [ $1 -gt 7 ] && exec sleep 1000; f $(($1+1)) & f $(($1+1)) & wait; }; f 0";
    let out = world.ok("exec_raw", json!({ "argv": ["sh", "-c", bomb], "timeout_seconds": 2 }));
    assert_eq!((&out["timedOut"], out.get("survivors")), (&json!(true), None));
    assert_eq!(world.processes(), before);
}

#[test]
fn closing_the_connection_ends_the_command() {
    let world = World::new();
    let before = world.processes();
    let stream = world
        .connect(
            "exec_raw",
            &json!({ "argv": ["sh", "-c", "echo $$ > pid; trap '' TERM INT HUP; sleep 1000"] }),
        )
        .unwrap();
    let pid = pid_from(&world.home().join("pid"));
    assert!(is_alive(pid));
    drop(stream);
    eventually("the command is dead", || (!is_alive(pid)).then_some(()));
    eventually("and so is all of it", || (world.processes() == before).then_some(()));
}

#[test]
fn a_command_that_reads_nothing_does_not_hide_a_closed_connection() {
    let world = World::new();
    let mut stream = world
        .connect("exec_raw", &json!({ "argv": ["sh", "-c", "echo $$ > pid; exec sleep 1000"] }))
        .unwrap();
    let mut input = Vec::new();
    encode_frames(FrameKind::Stdin, &vec![b'x'; 1024 * 1024], &mut input);
    stream.write_all(&input).unwrap();
    let pid = pid_from(&world.home().join("pid"));
    drop(stream);
    eventually("the command is dead", || (!is_alive(pid)).then_some(()));
}

#[test]
fn the_deadline_of_the_sidecar_ends_the_command() {
    let world = World::new();
    let params = json!({ "argv": ["sh", "-c", "echo $$ > pid; exec sleep 1000"] });
    let mut stream = world.connect_until("exec_raw", &params, 500).unwrap();
    let error = answer(&mut stream).unwrap().unwrap_err();
    assert_eq!(error.error_code, ErrorCode::Deadline);
    // The deadline may pass before the program has written anything.
    if let Ok(pid) = fs::read_to_string(world.home().join("pid")) {
        assert!(pid.trim().is_empty() || !is_alive(pid.trim().parse().unwrap()));
    }
}

#[test]
fn a_killed_host_takes_its_calls_along_and_nothing_more() {
    let mut world = World::new();
    world.job("stays", "sleep 1000");
    let _stream = world
        .connect("exec_raw", &json!({ "argv": ["sh", "-c", "echo $$ > pid; exec sleep 1000"] }))
        .unwrap();
    let pid = pid_from(&world.home().join("pid"));
    world.replace_host();
    eventually("the call is dead", || (!is_alive(pid)).then_some(()));
    assert_eq!(world.status("stays")["state"], "running");
}

#[test]
fn input_comes_in_frames_and_is_bounded() {
    let world = World::new();
    let mut stream = world.connect("exec_raw", &json!({ "argv": ["cat"], "stdin": "first " })).unwrap();
    let mut input = Vec::new();
    encode_frames(FrameKind::Stdin, b"second", &mut input);
    encode_frames(FrameKind::Stdin, &[], &mut input);
    stream.write_all(&input).unwrap();
    assert_eq!(answer(&mut stream).unwrap().unwrap()["stdout"], "first second");

    let mut stream = world.connect("exec_raw", &json!({ "argv": ["sleep", "1000"] })).unwrap();
    let mut input = Vec::new();
    encode_frames(FrameKind::Stdin, &vec![b'x'; 5 * 1024 * 1024], &mut input);
    let _ = stream.write_all(&input);
    assert_eq!(answer(&mut stream).unwrap().unwrap_err().error_code, ErrorCode::TooLarge);
}

#[test]
fn eight_calls_at_a_time_do_not_mix() {
    let world = World::new();
    let before = world.processes();
    thread::scope(|scope| {
        for number in 0..8 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..5 {
                    let text = format!("{number}-{round}");
                    let script = format!("cat; echo {text}; echo {text} >&2; exit {number}");
                    let out = world.ok("exec_raw", json!({ "argv": ["sh", "-c", script], "stdin": text }));
                    assert_eq!(out["stdout"], format!("{text}{text}\n"));
                    assert_eq!(
                        (&out["stderr"], &out["exit_code"]),
                        (&json!(format!("{text}\n")), &json!(number))
                    );
                }
            });
        }
    });
    assert_eq!(world.processes(), before);
}

#[test]
fn killing_the_supervisor_is_no_way_out() {
    let world = World::new();
    let before = world.processes();
    let script = "setsid sleep 1000 & echo $! > child; kill -9 $PPID; sleep 1000";
    let error = world.refused("exec_raw", json!({ "argv": ["sh", "-c", script] }));
    assert_eq!(error.error_code, ErrorCode::OutcomeUnknown);
    assert!(!is_alive(pid_from(&world.home().join("child"))));
    assert_eq!(world.processes(), before);
    // Nor is stopping it.
    let script = "echo $$ > pid; kill -STOP $PPID; sleep 1000";
    let error = world.refused("exec_raw", json!({ "argv": ["sh", "-c", script], "timeout_seconds": 1 }));
    assert_eq!(error.error_code, ErrorCode::OutcomeUnknown);
    assert!(!is_alive(pid_from(&world.home().join("pid"))));
    assert_eq!(world.processes(), before);
}
