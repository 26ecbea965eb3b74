//! `init` and `install`, with the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{PROGRAM, World, eventually, is_alive, pid_from};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn signal(pid: i64, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

fn host_of(world: &World) -> i64 {
    eventually("init has a host", || {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", world.host.id())).ok()?;
        let is_host = |pid: &&str| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.split(|b| *b == 0).nth(1) == Some(b"host"))
        };
        children.split_whitespace().find(is_host)?.parse().ok()
    })
}

fn log(world: &World) -> String {
    fs::read_to_string(world.dir.path().join("log")).unwrap_or_default()
}

#[test]
fn a_killed_host_is_started_again_and_its_jobs_go_on() {
    let world = World::with_init(&[]);
    world.job("long", "sleep 1000");
    let supervisor = world.status("long")["pid"].clone();
    for _ in 0..3 {
        let host = host_of(&world);
        signal(host, Signal::KILL);
        eventually("a new host answers", || {
            (host_of(&world) != host && world.try_call("hello", &json!({})).is_ok()).then_some(())
        });
        world.ready();
    }
    let job = world.status("long");
    assert_eq!((&job["state"], &job["pid"]), (&json!("running"), &supervisor));
}

#[test]
fn the_users_command_waits_for_the_gate_and_its_end_is_no_end() {
    let command = "umask > mask; echo $$ > pid; exit 3";
    let world = World::with_init(&["sh", "-c", &format!("cd \"$CUDDY_HOME\"; {command}")]);
    // The host has answered, so init has been round its loop: nothing of the user's was started.
    assert!(!world.home().join("pid").exists());
    fs::write(world.dir.path().join("agent/open"), "").unwrap();
    let pid = pid_from(&world.home().join("pid"));
    eventually("its end is told", || {
        log(&world).contains("the user's command ended with exit code 3").then_some(())
    });
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "it is reaped");
    assert_eq!(fs::read_to_string(world.home().join("mask")).unwrap().trim(), "0007");
    world.ready();
}

#[test]
fn orphans_are_reaped() {
    let world = World::with_init(&[
        "sh",
        "-c",
        "cd \"$CUDDY_HOME\"; (sh -c 'echo $$ > orphan; exec sleep 0.2' &); exit 0",
    ]);
    fs::write(world.dir.path().join("agent/open"), "").unwrap();
    let orphan = pid_from(&world.home().join("orphan"));
    eventually("the orphan is gone, not a zombie", || {
        (!std::path::Path::new(&format!("/proc/{orphan}")).exists()).then_some(())
    });
}

#[test]
fn a_command_that_is_missing_leaves_the_environment_up() {
    let world = World::with_init(&["/no/such/program"]);
    fs::write(world.dir.path().join("agent/open"), "").unwrap();
    eventually("it is told", || log(&world).contains("/no/such/program cannot be started").then_some(()));
    world.ready();
}

#[test]
fn term_ends_everything_in_time_and_jobs_record_why() {
    let stubborn = "trap '' TERM; cd \"$CUDDY_HOME\"; echo $$ > user; while :; do sleep 1000; done";
    let mut world = World::with_init(&["sh", "-c", stubborn]);
    fs::write(world.dir.path().join("agent/open"), "").unwrap();
    world.job("plain", "sleep 1000");
    world.job("asked", "trap 'echo bye; exit 9' TERM; echo ready > ready; while :; do sleep 0.05; done");
    eventually("the trap is set", || fs::read(world.home().join("ready")).ok().filter(|b| !b.is_empty()));
    let user = pid_from(&world.home().join("user"));
    let _call = world
        .connect("exec_raw", &json!({ "argv": ["sh", "-c", "echo $$ > call; exec sleep 1000"] }))
        .unwrap();
    let call = pid_from(&world.home().join("call"));

    let begin = Instant::now();
    signal(i64::from(world.host.id()), Signal::TERM);
    assert!(world.host.wait().unwrap().success());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert!(!is_alive(user) && !is_alive(call));
    assert_eq!(world.processes(), Vec::<i32>::new());
    for (id, code, signal) in [("plain", -1, Some("SIGTERM")), ("asked", 9, None)] {
        let record: Value =
            serde_json::from_slice(&fs::read(world.jobs().join(format!("{id}.json"))).unwrap()).unwrap();
        let job = &record["job"];
        assert_eq!((&job["state"], &job["exitCode"]), (&json!("exited"), &json!(code)), "{job}");
        assert_eq!(
            (job["signal"].as_str(), &job["reason"]),
            (signal, &json!("environment stopped")),
            "{job}"
        );
    }
}

#[test]
fn as_first_process_of_a_container_it_does_the_same() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["home", "host", "agent", "beats"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("agent/open"), "").unwrap();
    let mut child = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child", "--", PROGRAM, "init", "--"])
        .args(["sh", "-c", "cd \"$CUDDY_HOME\"; echo $PPID > parent; setsid sleep 1000 & sleep 1000"])
        .env("CUDDY_HOME", dir.path().join("home"))
        .env("CUDDY_TENANT", "t")
        .env("CUDDY_ENVIRONMENT", "e")
        .env("CUDDY_HOST_SOCKET_DIR", dir.path().join("host"))
        .env("CUDDY_AGENT_SOCKET_DIR", dir.path().join("agent"))
        .env("CUDDY_BEATS_DIR", dir.path().join("beats"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let parent = dir.path().join("home/parent");
    let started = eventually("the command runs, or namespaces are not to be had", || {
        if parent.exists() { Some(true) } else { child.try_wait().unwrap().map(|_| false) }
    });
    if !started {
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("unshare"), "{error}");
        eprintln!("SKIPPED: this test needs the right to make a PID namespace: {error}");
        return;
    }
    assert_eq!(pid_from(&parent), 1);
    let init = eventually("init is found", || {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).ok()?;
        children.split_whitespace().next()?.parse::<i64>().ok()
    });
    let begin = Instant::now();
    signal(init, Signal::TERM);
    child.wait().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn install_copies_the_program_and_makes_the_folders_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let (bin, volume) = (dir.path().join("bin"), dir.path().join("volume"));
    fs::create_dir(&bin).unwrap();
    fs::create_dir(&volume).unwrap();
    let mut inodes = Vec::new();
    for _ in 0..2 {
        let mut install = Command::new(PROGRAM);
        install.arg("install").arg("--bin-dir").arg(&bin).arg("--volume").arg(&volume);
        let status = Command::new("sh")
            .args(["-c", "umask 077; exec \"$@\"", "sh"])
            .arg(install.get_program())
            .args(install.get_args())
            .status()
            .unwrap();
        assert!(status.success());
        let program = fs::metadata(bin.join("cuddy-host")).unwrap();
        assert_eq!(program.permissions().mode() & 0o7777, 0o755);
        assert_eq!(program.len(), fs::metadata(PROGRAM).unwrap().len());
        inodes.push(program.ino());
        for (name, mode) in [("home", 0o2770), ("cuddy", 0o700)] {
            assert_eq!(fs::metadata(volume.join(name)).unwrap().mode() & 0o7777, mode, "{name}");
        }
        assert_eq!(fs::read_dir(&bin).unwrap().count(), 1, "nothing is left over");
        fs::write(volume.join("home/file"), "kept").unwrap();
    }
    assert_ne!(inodes[0], inodes[1], "replaced, not written over");
    assert_eq!(fs::read(volume.join("home/file")).unwrap(), b"kept");
    let version = Command::new(bin.join("cuddy-host")).arg("--version").output().unwrap();
    assert!(version.status.success());
    // A folder that is missing is said, with its name.
    let output = Command::new(PROGRAM).args(["install", "--bin-dir", "/no/such"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such"));
}
