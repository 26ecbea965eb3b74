//! Background jobs, with the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::fs;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use common::{World, eventually, is_alive, pid_from};
use cuddy_protocol::ErrorCode;
use cuddy_protocol::host::{FrameKind, encode_frames};
use serde_json::{Value, json};

fn record(world: &World, id: &str) -> Value {
    serde_json::from_slice(&fs::read(world.jobs().join(format!("{id}.json"))).unwrap()).unwrap()
}

fn write_record(world: &World, id: &str, record: &Value) {
    fs::write(world.jobs().join(format!("{id}.json")), serde_json::to_vec(record).unwrap()).unwrap();
}

#[test]
fn a_job_is_recorded_before_the_start_returns_and_at_its_end() {
    let world = World::new();
    let started = world.ok(
        "exec_raw",
        json!({ "argv": ["sh", "-c", "mkfifo gate; echo $ERUN_JOB_ID; read x < gate; echo err >&2; exit 42"], "wait": false, "name": "suite" }),
    );
    assert_eq!(started, json!({ "executed": true, "jobId": "suite", "state": "running", "wait": false }));
    assert_eq!(record(&world, "suite")["job"]["state"], "running", "on the disk already");
    let job = world.status("suite");
    assert_eq!(
        (&job["state"], &job["exitCode"], &job["leaseId"]),
        (&json!("running"), &Value::Null, &json!("job-suite"))
    );
    assert!(job["aliveSeq"].as_u64().unwrap() >= 1 && job["aliveAgeMs"].as_u64().is_some(), "{job}");
    assert!(is_alive(job["pid"].as_i64().unwrap()) && is_alive(job["childPid"].as_i64().unwrap()));
    assert_eq!(job["dir"], world.home().display().to_string());

    let activity = world.ok("activity", json!({}));
    assert_eq!((&activity["jobs"][0]["id"], &activity["jobs"][0]["pid"]), (&json!("suite"), &job["pid"]));

    let awaited = world.ok("exec_job_await", json!({ "id": "suite", "timeoutSeconds": 1 }));
    assert_eq!((&awaited["timedOut"], &awaited["timeoutSeconds"]), (&json!(true), &json!(1)));
    assert!(awaited["waitedSeconds"].as_f64().unwrap() >= 1.0);

    eventually("the job is at its gate", || world.home().join("gate").exists().then_some(()));
    fs::write(world.home().join("gate"), "go\n").unwrap();
    let job = world.finished("suite");
    assert_eq!((&job["state"], &job["exitCode"]), (&json!("exited"), &json!(42)), "{job}");
    let output = world.ok("exec_job_output", json!({ "id": "suite" }));
    assert_eq!(output["output"].as_str().unwrap().lines().next(), Some("suite"));
    assert_eq!((&output["complete"], &output["hasMore"]), (&json!(true), &json!(false)));
    assert_eq!(world.ok("activity", json!({}))["jobs"], json!([]));
    assert_eq!(fs::read_dir(world.dir.path().join("beats")).unwrap().count(), 0);
    let left: Vec<String> =
        fs::read_dir(world.jobs()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(left.len(), 2, "record and log alone: {left:?}");
}

#[test]
fn a_job_beats_though_it_prints_nothing() {
    let world = World::new();
    world.job("silent", "sleep 1000");
    let first = world.status("silent")["aliveSeq"].as_u64().unwrap();
    eventually("the beat goes on", || {
        (world.status("silent")["aliveSeq"].as_u64()? >= first + 2).then_some(())
    });
    assert!(world.status("silent")["aliveAgeMs"].as_u64().unwrap() < 5000);
}

#[test]
fn a_job_outlives_a_killed_host_and_its_outcome_is_kept() {
    let mut world = World::new();
    world.job("long", "mkfifo gate; echo ready > ready; read x < gate; echo over; exit 7");
    eventually("the job is at its gate", || {
        fs::read(world.home().join("ready")).ok().filter(|b| !b.is_empty())
    });
    let pid = world.status("long")["pid"].clone();
    world.replace_host();
    let job = world.status("long");
    assert_eq!((&job["state"], &job["pid"]), (&json!("running"), &pid));
    // Ended while no host is there.
    world.host.kill().unwrap();
    world.host.wait().unwrap();
    fs::write(world.home().join("gate"), "go\n").unwrap();
    eventually("the end is recorded", || (record(&world, "long")["job"]["state"] == "exited").then_some(()));
    world.replace_host();
    let job = world.status("long");
    assert_eq!((&job["exitCode"], &job["state"]), (&json!(7), &json!("exited")));
    assert!(
        job["aliveAgeMs"].as_u64().unwrap() < 5000,
        "an old success does not look like a lost job: {job}"
    );
}

#[test]
fn a_supervisor_that_is_gone_is_unknown_for_ever() {
    let world = World::new();
    world.job("lost", "sleep 1000");
    let supervisor = i32::try_from(world.status("lost")["pid"].as_i64().unwrap()).unwrap();
    let child = world.status("lost")["childPid"].as_i64().unwrap();
    kill(i64::from(supervisor), rustix::process::Signal::KILL);
    let job =
        eventually("the loss is seen", || Some(world.status("lost")).filter(|job| job["state"] == "unknown"));
    assert_eq!((&job["unknownReasonKind"], &job["exitCode"]), (&json!("supervisor-gone"), &Value::Null));
    assert!(job["reason"].as_str().unwrap().contains(&supervisor.to_string()));
    assert_eq!(record(&world, "lost")["job"]["state"], "unknown", "written down");
    assert_eq!(world.status("lost")["endedAt"], job["endedAt"], "once and for all");
    let awaited = world.ok("exec_job_await", json!({ "id": "lost", "timeoutSeconds": 60 }));
    assert_eq!((&awaited["timedOut"], &awaited["job"]["state"]), (&json!(false), &json!("unknown")));
    let cancel = world.ok("exec_job_cancel", json!({ "id": "lost" }))["cancel"].clone();
    assert_eq!((&cancel["signalled"], &cancel["signal"]), (&json!(false), &json!("SIGTERM")));
    let mut left: Vec<_> = fs::read_dir(world.jobs()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["lost.json", "lost.log"], "nothing else is left over");
    eventually("its work is ended by the host", || (!is_alive(child)).then_some(()));
}

#[test]
fn a_reused_pid_is_nobodys_job() {
    let world = World::new();
    world.job("old", "true");
    world.finished("old");
    let innocent = Innocent::start();
    let mut record = record(&world, "old");
    for (id, same_place) in [("same-container", true), ("other-container", false)] {
        record["job"]["id"] = json!(id);
        record["job"]["state"] = json!("running");
        record["job"]["exitCode"] = Value::Null;
        record["job"]["pid"] = json!(innocent.0.id());
        record["job"]["childPid"] = json!(innocent.0.id());
        record["supervisor"]["pid"] = json!(innocent.0.id());
        if !same_place {
            record["place"]["container"] = json!("1-1");
        }
        write_record(&world, id, &record);
        let cancel = world.ok("exec_job_cancel", json!({ "id": id, "signal": "KILL" }))["cancel"].clone();
        assert_eq!(cancel["signalled"], false, "{cancel}");
        let job = world.status(id);
        let kind = if same_place { "supervisor-gone" } else { "pod-replaced" };
        assert_eq!((&job["state"], &job["unknownReasonKind"]), (&json!("unknown"), &json!(kind)));
    }
    assert!(is_alive(i64::from(innocent.0.id())), "the look-alike was not touched");
}

/// A process that is nobody's job; ended with the test, whatever becomes of it.
struct Innocent(std::process::Child);

impl Innocent {
    fn start() -> Self {
        let null = std::process::Stdio::null;
        Self(std::process::Command::new("sleep").arg("1000").stdout(null()).stderr(null()).spawn().unwrap())
    }
}

impl Drop for Innocent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_damaged_record_is_kept_and_reported() {
    let world = World::new();
    world.job("good", "true");
    world.finished("good");
    let mut newer = record(&world, "good");
    newer["version"] = json!(99);
    newer["job"]["id"] = json!("newer");
    write_record(&world, "newer", &newer);
    fs::write(world.jobs().join("torn.json"), b"{\"version\":1,\"supervisor\":{\"pi").unwrap();
    fs::write(world.jobs().join("empty.json"), b"").unwrap();
    fs::write(world.jobs().join("alien.json"), fs::read(world.jobs().join("good.json")).unwrap()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", world.jobs().join("link.json")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.jobs().join("pipe.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for id in ["newer", "torn", "empty", "alien", "link", "pipe"] {
        let job = world.status(id);
        assert_eq!(
            (&job["state"], &job["unknownReasonKind"]),
            (&json!("unknown"), &json!("record-damaged")),
            "{id}"
        );
        assert_eq!(job["exitCode"], Value::Null);
        let refused = world.refused("exec_raw", json!({ "argv": ["true"], "wait": false, "id": id }));
        assert_eq!(refused.error_code, ErrorCode::Conflict, "{id}");
        assert_eq!(world.ok("exec_job_cancel", json!({ "id": id }))["cancel"]["signalled"], false);
        assert!(fs::symlink_metadata(world.jobs().join(format!("{id}.json"))).is_ok());
    }
    let jobs = world.ok("exec_job_status", json!({}))["jobs"].as_array().unwrap().len();
    assert_eq!(jobs, 7);
}

#[test]
fn a_cancel_ends_the_work_and_all_that_it_started() {
    let world = World::new();
    let before = world.processes();
    world.job("tree", "setsid sh -c 'echo $$ > deep; sleep 1000' & sleep 1000 & echo $! > child; wait");
    let (deep, child) = (pid_from(&world.home().join("deep")), pid_from(&world.home().join("child")));
    let job = world.status("tree");
    let cancel = world.ok("exec_job_cancel", json!({ "id": "tree" }))["cancel"].clone();
    assert_eq!((&cancel["signalled"], &cancel["signal"]), (&json!(true), &json!("SIGTERM")));
    assert_eq!((&cancel["targetPid"], cancel.get("survivors")), (&job["childPid"], None));
    assert_eq!(
        (&cancel["job"]["state"], &cancel["job"]["signal"]),
        (&json!("exited"), &json!("SIGTERM")),
        "{cancel}"
    );
    assert_eq!(cancel["job"]["exitCode"], -1);
    assert!(!is_alive(deep) && !is_alive(child));
    assert_eq!(world.processes(), before);
    let again = world.ok("exec_job_cancel", json!({ "id": "tree", "signal": "KILL" }))["cancel"].clone();
    assert_eq!((&again["signalled"], &again["signal"]), (&json!(false), &json!("SIGKILL")));
}

#[test]
fn a_job_that_ignores_term_is_killed() {
    let world = World::new();
    world.job("stubborn", "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 1000; done");
    let pid = pid_from(&world.home().join("pid"));
    let begin = Instant::now();
    let cancel =
        world.ok("exec_job_cancel", json!({ "id": "stubborn", "signal": "sigint" }))["cancel"].clone();
    assert_eq!((&cancel["job"]["signal"], cancel.get("survivors")), (&json!("SIGKILL"), None), "{cancel}");
    assert!(begin.elapsed() >= Duration::from_secs(5) && !is_alive(pid));
}

#[test]
fn a_job_may_end_well_when_asked_to() {
    let world = World::new();
    world.job("polite", "trap 'echo bye; exit 0' TERM; echo ready > ready; while :; do sleep 0.05; done");
    eventually("the trap is set", || fs::read(world.home().join("ready")).ok().filter(|b| !b.is_empty()));
    let cancel = world.ok("exec_job_cancel", json!({ "id": "polite" }))["cancel"].clone();
    assert_eq!(
        (&cancel["job"]["state"], &cancel["job"]["exitCode"]),
        (&json!("exited"), &json!(0)),
        "{cancel}"
    );
    let output = world.ok("exec_job_output", json!({ "id": "polite" }))["output"].clone();
    assert!(output.as_str().unwrap().ends_with("bye\n"), "{output}");
}

#[test]
fn signals_that_do_not_end_are_refused() {
    let world = World::new();
    world.job("a", "sleep 1000");
    for signal in ["USR1", "STOP", "9", ""] {
        let error = world.refused("exec_job_cancel", json!({ "id": "a", "signal": signal }));
        assert_eq!(error.error_code, ErrorCode::InvalidParams, "{signal}");
    }
    assert_eq!(world.refused("exec_job_cancel", json!({ "id": "none" })).error_code, ErrorCode::NotFound);
    assert_eq!(world.status("a")["state"], "running");
    world.ok("exec_job_cancel", json!({ "id": "a", "signal": "kill" }));
}

#[test]
fn waits_are_bounded() {
    let world = World::new();
    world.job("a", "sleep 1000");
    for seconds in [json!(601), json!(7200), json!(-1), json!("2h")] {
        let error = world.refused("exec_job_await", json!({ "id": "a", "timeoutSeconds": seconds }));
        assert_eq!(error.error_code, ErrorCode::InvalidParams, "{seconds}");
    }
    world.job("b", "true");
    world.finished("b");
    let awaited = world.ok("exec_job_await", json!({ "id": "b", "timeoutSeconds": 0 }));
    assert_eq!((&awaited["timeoutSeconds"], &awaited["timedOut"]), (&json!(30), &json!(false)));
}

#[test]
fn output_beyond_its_cap_is_counted_and_the_outcome_is_the_works_own() {
    let world = World::new();
    world.job("loud", "head -c 6000000 /dev/zero | tr '\\0' x; exit 5");
    let job = world.finished("loud");
    assert_eq!((&job["exitCode"], &job["outputTruncated"]), (&json!(5), &json!(true)), "{job}");
    assert_eq!((&job["outputBytes"], &job["outputLimitBytes"]), (&json!(6_000_000), &json!(4_194_304)));
    assert_eq!(fs::metadata(world.jobs().join("loud.log")).unwrap().len(), 4_194_304);
    let last = world.ok("exec_job_output", json!({ "id": "loud", "offset": 4_194_300 }));
    assert_eq!((&last["output"], &last["complete"]), (&json!("xxxx"), &json!(true)));
    let error = world.refused("exec_job_output", json!({ "id": "loud", "offset": 4_194_305 }));
    assert_eq!(error.error_code, ErrorCode::InvalidParams);
}

#[test]
fn output_is_read_page_by_page_while_the_job_runs() {
    let world = World::new();
    world.job("pages", "mkfifo gate; printf 'grün'; read x < gate; printf ' und blau'");
    let mut offset = 0;
    let mut text = String::new();
    let mut read = |text: &mut String| {
        let page = world.ok("exec_job_output", json!({ "id": "pages", "offset": offset, "maxBytes": 3 }));
        assert_eq!(page["offset"], offset);
        offset = page["nextOffset"].as_u64().unwrap();
        text.push_str(page["output"].as_str().unwrap());
        page["complete"] == true
    };
    eventually("the first part is there", || {
        assert!(!read(&mut text), "not complete while it runs");
        (text == "grün").then_some(())
    });
    fs::write(world.home().join("gate"), "go\n").unwrap();
    eventually("the rest is there", || read(&mut text).then_some(()));
    assert_eq!(text, "grün und blau");
    for max in [0, 1_048_577] {
        let error = world.refused("exec_job_output", json!({ "id": "pages", "maxBytes": max }));
        assert_eq!(error.error_code, ErrorCode::InvalidParams);
    }
}

#[test]
fn handles_are_unique_and_never_paths() {
    let world = World::new();
    world.job("a", "sleep 1000");
    let again = json!({ "argv": ["true"], "wait": false, "id": "a" });
    assert_eq!(world.refused("exec_raw", again.clone()).error_code, ErrorCode::Conflict);
    world.ok("exec_job_cancel", json!({ "id": "a", "signal": "KILL" }));
    world.ok("exec_raw", again);
    assert_eq!(world.finished("a")["exitCode"], 0, "a finished one is replaced");

    let unnamed = json!({ "argv": ["sleep", "1000"], "wait": false });
    assert_eq!(world.ok("exec_raw", unnamed.clone())["jobId"], "sleep");
    assert_eq!(world.ok("exec_raw", unnamed)["jobId"], "sleep-2");

    let named = json!({ "argv": ["true"], "wait": false, "name": "../../../escape me" });
    assert_eq!(
        world.ok("exec_raw", named)["jobId"],
        "escape-me",
        "a name is only what a handle is made from"
    );
    for id in ["..", "../../../escape me", "a b", "a-b ", ".a", "-a", ""] {
        for (command, params) in [
            ("exec_raw", json!({ "argv": ["touch", "ran"], "wait": false, "id": id })),
            ("exec_job_status", json!({ "id": id })),
            ("exec_job_await", json!({ "id": id })),
            ("exec_job_output", json!({ "id": id })),
            ("exec_job_cancel", json!({ "id": id })),
        ] {
            let error = world.refused(command, params);
            assert_eq!(error.error_code, ErrorCode::InvalidParams, "{command} {id:?}");
            assert_eq!(error.details["path"], "$.id", "{command} {id:?}");
        }
    }
    assert!(!world.home().join("ran").exists());
}

#[test]
fn a_job_reads_its_input_after_its_caller_is_gone() {
    let world = World::new();
    let text = "0123456789".repeat(20_000);
    let script = "mkfifo gate; read x < gate; wc -c; echo $A";
    let start = json!({ "argv": ["sh", "-c", script], "wait": false, "id": "reader", "env": { "A": "b" }, "stdin": text });
    world.ok("exec_raw", start);
    eventually("the job is at its gate", || world.home().join("gate").exists().then_some(()));
    fs::write(world.home().join("gate"), "go\n").unwrap();
    assert_eq!(world.finished("reader")["exitCode"], 0);
    let output = world.ok("exec_job_output", json!({ "id": "reader" }));
    assert_eq!(output["output"].as_str().unwrap().split_whitespace().collect::<Vec<_>>(), ["200000", "b"]);

    // In frames, as the sidecar sends it.
    let params = json!({ "argv": ["cat"], "wait": false, "id": "frames" });
    let mut stream = world.connect("exec_raw", &params).unwrap();
    let mut input = Vec::new();
    encode_frames(FrameKind::Stdin, b"in\n", &mut input);
    encode_frames(FrameKind::Stdin, &[], &mut input);
    stream.write_all(&input).unwrap();
    assert_eq!(common::answer(&mut stream).unwrap().unwrap()["jobId"], "frames");
    world.finished("frames");
    assert_eq!(world.ok("exec_job_output", json!({ "id": "frames" }))["output"], "in\n");
}

#[test]
fn a_job_that_cannot_start_leaves_nothing() {
    let world = World::new();
    let error = world.refused("exec_raw", json!({ "argv": ["no-such-program"], "wait": false, "id": "x" }));
    assert_eq!(error.error_code, ErrorCode::NotFound);
    assert_eq!(world.refused("exec_job_status", json!({ "id": "x" })).error_code, ErrorCode::NotFound);
    assert_eq!(fs::read_dir(world.jobs()).unwrap().count(), 0);
}

#[test]
fn what_a_job_leaves_behind_is_ended_and_named() {
    let world = World::new();
    let before = world.processes();
    world.job("leaver", "setsid sleep 1000 & exit 0");
    let job = world.finished("leaver");
    assert_eq!((&job["state"], &job["exitCode"]), (&json!("exited"), &json!(0)));
    assert!(job["reason"].as_str().unwrap().contains("sleep"), "{job}");
    assert_eq!(world.processes(), before);
}

#[test]
fn finished_jobs_are_kept_for_a_day() {
    let world = World::new();
    world.job("a", "true");
    world.finished("a");
    let mut old = record(&world, "a");
    for (id, hours) in [("yesterday", 25), ("today", 23)] {
        let ended = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(hours);
        old["job"]["id"] = json!(id);
        old["job"]["endedAt"] = json!(ended.to_string());
        write_record(&world, id, &old);
    }
    // The sweep has its own pace, so a new host, which has not swept yet.
    let mut world = world;
    world.replace_host();
    let jobs = world.ok("exec_job_status", json!({}))["jobs"].clone();
    let ids: Vec<&str> = jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"today") && ids.contains(&"a") && !ids.contains(&"yesterday"), "{ids:?}");
}

#[test]
fn a_hundred_jobs_run_and_the_next_is_told_to_wait() {
    let world = World::new();
    let before = world.processes();
    thread::scope(|scope| {
        for worker in 0..4 {
            let world = &world;
            scope.spawn(move || {
                for number in 0..25 {
                    world.job(&format!("j{worker}-{number}"), "exec sleep 1000");
                }
            });
        }
    });
    let activity = world.ok("activity", json!({}));
    assert_eq!(activity["jobs"].as_array().unwrap().len(), 100);
    let error = world.refused("exec_raw", json!({ "argv": ["true"], "wait": false }));
    assert_eq!((error.error_code, error.retryable), (ErrorCode::Busy, true));
    thread::scope(|scope| {
        for worker in 0..4 {
            let world = &world;
            scope.spawn(move || {
                for number in 0..25 {
                    let id = format!("j{worker}-{number}");
                    let cancel =
                        world.ok("exec_job_cancel", json!({ "id": id, "signal": "KILL" }))["cancel"].clone();
                    assert_eq!(cancel["job"]["state"], "exited", "{cancel}");
                }
            });
        }
    });
    assert_eq!(world.processes(), before);
    world.ok("exec_raw", json!({ "argv": ["true"], "wait": false, "id": "next" }));
    assert_eq!(world.finished("next")["exitCode"], 0);
}

fn kill(pid: i64, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}
