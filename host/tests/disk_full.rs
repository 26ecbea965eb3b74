//! A disk that is full, with the real program and a small file system of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{World, eventually};
use cuddy_protocol::ErrorCode;
use serde_json::json;

#[test]
fn a_full_disk_refuses_new_jobs_and_loses_no_outcome() {
    let Some(world) = World::with_small_home("512k") else {
        eprintln!("SKIPPED: this test needs the right to mount a file system");
        return;
    };
    world.job("before", "mkfifo gate; echo ready > ready; read x < gate; echo over; exit 7");
    world.sh("while ! [ -s ready ]; do :; done");
    world.sh("head -c 10000000 /dev/zero > filler; :");
    let error = world.refused("exec_raw", json!({ "argv": ["true"], "wait": false, "id": "refused" }));
    assert_eq!(error.error_code, ErrorCode::DiskFull, "{error}");
    assert_eq!(world.refused("exec_job_status", json!({ "id": "refused" })).error_code, ErrorCode::NotFound);
    assert_eq!(world.sh("echo works")["stdout"], "works\n", "the foreground needs no disk");
    world.sh("echo go > gate");
    let job = world.finished("before");
    assert_eq!((&job["state"], &job["exitCode"]), (&json!("exited"), &json!(7)), "{job}");
    assert!(job["outputTruncated"] == true || job["outputBytes"] == 5, "{job}");
    world.sh("rm filler");
    world.job("after", "echo fine");
    assert_eq!(world.finished("after")["exitCode"], 0);
    eventually("the log is on the disk", || {
        let page = world.ok("exec_job_output", json!({ "id": "after" }));
        (page["output"] == "fine\n").then_some(())
    });
}
