//! Both real programs.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::ask::tool_result;
use crate::support::identity::Signer;
use crate::support::programs::{OPEN, PATIENCE, Sidecar, World, eventually, own_address, shell};

#[tokio::test]
async fn a_command_runs_in_the_host() {
    let (world, sidecar) = World::serving();
    let result = world.call(&sidecar, "exec_raw", shell("echo out; echo err >&2; exit 3")).await;
    assert_eq!(
        (&result["stdout"], &result["stderr"], &result["exit_code"]),
        (&json!("out\n"), &json!("err\n"), &json!(3))
    );
    let input = "0123456789".repeat(20_000);
    let result = world.call(&sidecar, "exec_raw", json!({ "argv": ["wc", "-c"], "stdin": input })).await;
    assert_eq!(result["stdout"].as_str().unwrap().trim(), "200000");
    let usage = world.call(&sidecar, "usage", json!({ "intervalSeconds": 0.1 })).await;
    assert_eq!(usage["environment"], "e");
    // The trail tells what was run, before it ran.
    let trail = fs::read_to_string(world.path().join("state/audit.log")).unwrap();
    assert!(trail.contains(r#""argv":["sh","-c","echo out; echo err >&2; exit 3"]"#), "{trail}");
}

#[tokio::test]
async fn a_job_outlives_a_killed_sidecar_and_a_killed_host() {
    let (world, sidecar) = World::serving();
    let go = world.path().join("home/go");
    let script = format!("echo begun; while [ ! -e {} ]; do sleep 0.05; done; echo done", go.display());
    let start = json!({ "argv": ["sh", "-c", script], "wait": false, "name": "long" });
    assert_eq!(world.call(&sidecar, "exec_raw", start).await["jobId"], "long");
    let idle = world.call(&sidecar, "idle", json!({})).await;
    assert_eq!(idle["blockers"], json!(["job long"]), "from its first moment");
    assert_eq!(idle["activity"]["running_jobs"], 1);
    let port = sidecar.port("tls").unwrap();
    let release = json!({ "id": "job-long" });
    let answer = world.post(port, &world.identity.user, "activity_lease_release", &release).await.unwrap();
    assert_eq!(tool_result(&answer).unwrap_err().0, "FORBIDDEN");
    let leases = world.call(&sidecar, "activity_lease_list", json!({})).await;
    assert_eq!(leases["leases"][0]["id"], "job-long");

    sidecar.kill();
    let mut sidecar = Sidecar::start(world.path(), &OPEN);
    sidecar.says("serving");
    let status = world.call(&sidecar, "exec_job_status", json!({ "id": "long" })).await;
    assert_eq!(status["job"]["state"], "running");

    let host =
        world.processes().into_iter().find(|(_, line)| line.starts_with("cuddy-host host ")).unwrap().0;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(host).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let status = world.call(&sidecar, "exec_job_status", json!({ "id": "long" })).await;
    assert_eq!(status["job"]["state"], "running");
    fs::write(go, "").unwrap();
    let awaited = world.call(&sidecar, "exec_job_await", json!({ "id": "long", "timeoutSeconds": 30 })).await;
    assert_eq!((&awaited["timedOut"], &awaited["job"]["exitCode"]), (&json!(false), &json!(0)));
    let output = world.call(&sidecar, "exec_job_output", json!({ "id": "long" })).await;
    assert_eq!(output["output"], "begun\ndone\n");
}

#[tokio::test]
async fn a_host_that_dies_during_a_change_leaves_its_outcome_unknown() {
    let (world, sidecar) = World::serving();
    let begun = world.path().join("home/begun");
    let port = sidecar.port("tls").unwrap();
    let arguments = shell(&format!("touch {}; sleep 600", begun.display()));
    world.call(&sidecar, "exec_raw", shell("true")).await;
    let killing = async {
        eventually("the command runs", async || begun.exists().then_some(())).await;
        let host =
            world.processes().into_iter().find(|(_, line)| line.starts_with("cuddy-host host ")).unwrap().0;
        let pid = rustix::process::Pid::from_raw(host).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    let calling = world.post(port, &world.identity.user, "exec_raw", &arguments);
    let (answer, ()) = tokio::join!(calling, killing);
    assert_eq!(tool_result(&answer.unwrap()).unwrap_err().0, "OUTCOME_UNKNOWN");
    assert_eq!(world.call(&sidecar, "exec_raw", shell("echo back")).await["stdout"], "back\n");
}

#[tokio::test]
async fn a_host_that_hangs_holds_no_call_beyond_the_time_it_names() {
    let (world, sidecar) = World::serving();
    world.call(&sidecar, "exec_raw", shell("true")).await;
    let host =
        world.processes().into_iter().find(|(_, line)| line.starts_with("cuddy-host host ")).unwrap().0;
    let host = rustix::process::Pid::from_raw(host).unwrap();
    rustix::process::kill_process(host, rustix::process::Signal::STOP).unwrap();
    let port = sidecar.port("tls").unwrap();
    let began = Instant::now();
    let (run, wait) = (
        json!({ "argv": ["touch", "ran"], "timeout_seconds": 1 }),
        json!({ "id": "x", "timeoutSeconds": 1 }),
    );
    let (run, wait) = tokio::join!(
        world.post(port, &world.identity.user, "exec_raw", &run),
        world.post(port, &world.identity.user, "exec_job_await", &wait),
    );
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    rustix::process::kill_process(host, rustix::process::Signal::CONT).unwrap();
    assert_eq!(tool_result(&run.unwrap()).unwrap_err().0, "OUTCOME_UNKNOWN");
    assert_eq!(tool_result(&wait.unwrap()).unwrap_err().0, "DEADLINE");
    assert_eq!(world.call(&sidecar, "exec_raw", shell("echo back")).await["stdout"], "back\n");
}

#[tokio::test]
async fn a_lease_ends_with_its_process() {
    let (world, sidecar) = World::serving();
    let start = json!({ "argv": ["sleep", "600"], "wait": false, "id": "holder" });
    world.call(&sidecar, "exec_raw", start).await;
    let status = world.call(&sidecar, "exec_job_status", json!({ "id": "holder" })).await;
    let pid = status["job"]["childPid"].as_i64().unwrap();
    let taken = world.call(&sidecar, "activity_lease_take", json!({ "name": "mine", "pid": pid })).await;
    assert_eq!(taken["lease"]["pid"], pid);
    world.call(&sidecar, "exec_job_cancel", json!({ "id": "holder", "signal": "KILL" })).await;
    let leases = world.call(&sidecar, "activity_lease_list", json!({})).await;
    let ids: Vec<&str> =
        leases["leases"].as_array().unwrap().iter().filter_map(|l| l["id"].as_str()).collect();
    assert!(!ids.contains(&"mine"), "{leases}");
    let port = sidecar.port("tls").unwrap();
    let params = json!({ "name": "ghost", "pid": pid });
    let answer = world.post(port, &world.identity.user, "activity_lease_take", &params).await.unwrap();
    assert_eq!(tool_result(&answer).unwrap_err().0, "INVALID_PARAMS");
}

#[tokio::test]
async fn the_operator_revokes_a_key_within_five_seconds_and_nobody_on_loopback_does() {
    let (world, sidecar) = World::serving();
    let second = Signer::new();
    let push = json!({ "generation": 2, "keys": [second.trusted()] });
    let control = sidecar.port("control").unwrap();
    let request = world.control_request("/control/v1/anchor", Some(push.clone()));
    let answer = world.send((IpAddr::V4(Ipv4Addr::LOCALHOST), control).into(), request).await.unwrap();
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let Some(own) = own_address() else {
        eprintln!("SKIPPED IN PART: this machine has no address but loopback, so no operator can be played");
        return;
    };
    // A call of the first key runs while the key is taken away.
    let begun = world.path().join("home/begun");
    let arguments = shell(&format!("touch {}; sleep 600", begun.display()));
    let port = sidecar.port("tls").unwrap();
    let started = std::sync::OnceLock::new();
    let revoking = async {
        eventually("the command runs", async || begun.exists().then_some(())).await;
        started.set(Instant::now()).unwrap();
        let answer = world.operator(&sidecar, own, "/control/v1/anchor", Some(push)).await.unwrap();
        assert_eq!(answer.body["keys"], json!([second.trusted().kid]));
    };
    let calling = world.post(port, &world.identity.user, "exec_raw", &arguments);
    let (answer, ()) = tokio::join!(calling, revoking);
    let took = started.get().unwrap().elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(!answer.is_some_and(|a| a.status == StatusCode::OK && tool_result(&a).is_ok()));
    let after = world.post(port, &world.identity.user, "version", &json!({})).await.unwrap();
    assert_eq!(after.status, StatusCode::UNAUTHORIZED);
    assert_eq!(world.post(port, &second, "version", &json!({})).await.unwrap().status, StatusCode::OK);
    eventually("the revoked key's command is gone", async || {
        (!world.processes().iter().any(|(_, line)| line.contains("sleep 600"))).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_closed_gate_is_starting_and_the_probe_listener_ends_with_it() {
    let Some(own) = own_address() else {
        eprintln!("SKIPPED: this machine has no address but loopback, so no operator can be played");
        return;
    };
    let world = World::new();
    let mut sidecar = Sidecar::start(world.path(), &OPEN[..4]);
    sidecar.says("serving");
    let port = sidecar.port("tls").unwrap();
    let probe = sidecar.port("probe").unwrap();
    let answer = world.post(port, &world.identity.user, "version", &json!({})).await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.body.to_string().contains("STARTING"));
    assert!(TcpStream::connect((own, probe)).await.is_ok());
    assert!(!world.path().join("agent/open").exists());
    let open = json!({ "podUid": crate::support::pod::POD_UID });
    let answer = world.operator(&sidecar, own, "/control/v1/open", Some(open)).await.unwrap();
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    let answer = world.post(port, &world.identity.user, "version", &json!({})).await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    eventually("the probe listener is closed", async || {
        TcpStream::connect((own, probe)).await.is_err().then_some(())
    })
    .await;
    assert!(world.path().join("agent/open").exists());
}

#[test]
fn by_default_nothing_listens_without_tls_but_probes_and_metrics() {
    let world = World::new();
    let mut sidecar = Sidecar::start(world.path(), &OPEN[..4]);
    sidecar.says("serving");
    assert_eq!(sidecar.port("plain"), None);
    // What the kernel says: exactly the four listeners that were asked for.
    let inodes: Vec<String> = fs::read_dir(format!("/proc/{}/fd", sidecar.id()))
        .unwrap()
        .filter_map(|fd| {
            fs::read_link(fd.ok()?.path())
                .ok()?
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')
                .map(str::to_owned)
        })
        .collect();
    let mut ports: Vec<u16> = ["tcp", "tcp6"]
        .iter()
        .flat_map(|table| {
            fs::read_to_string(format!("/proc/{}/net/{table}", sidecar.id()))
                .unwrap()
                .lines()
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let listens = fields[3] == "0A" && inodes.iter().any(|inode| inode == fields[9]);
            listens.then(|| u16::from_str_radix(fields[1].rsplit(':').next()?, 16).ok())?
        })
        .collect();
    ports.sort_unstable();
    let mut expected: Vec<u16> =
        ["tls", "control", "probe", "metrics"].iter().map(|name| sidecar.port(name).unwrap()).collect();
    expected.sort_unstable();
    assert_eq!(ports, expected);
}

#[test]
fn it_ends_at_term_in_good_time() {
    let world = World::new();
    let mut sidecar = Sidecar::start(world.path(), &OPEN);
    sidecar.says("serving");
    sidecar.terminate();
    assert_eq!(sidecar.ended(Duration::from_secs(6)).code(), Some(0));
}

#[test]
fn without_an_anchor_it_keeps_running_and_serves_nobody() {
    let world = World::new();
    let document = world.path().join("anchor/anchor.json");
    let good = fs::read(&document).unwrap();
    fs::write(&document, "{\"version\":9}").unwrap();
    let mut sidecar = Sidecar::start(world.path(), &OPEN);
    sidecar.says("no anchor: nobody is served");
    fs::write(&document, good).unwrap();
    sidecar.says("serving");
}

#[test]
fn a_port_that_is_taken_has_an_exit_code_of_its_own() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("[::]:0").unwrap();
    let address = format!("[::]:{}", taken.local_addr().unwrap().port());
    let mut sidecar = Sidecar::start(world.path(), &[&OPEN[1..], &[("CUDDY_LISTEN_TLS", &address)]].concat());
    assert_eq!(sidecar.ended(PATIENCE).code(), Some(98));
    assert!(sidecar.rest().contains("tls"));
}

#[test]
fn bad_settings_are_told_all_at_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_cuddy-sidecar"))
        .arg("serve")
        .env_clear()
        .env("CUDDY_AUTH", "none")
        .env("CUDDY_IDLE_TIMEOUT_SECONDS", "soon")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    for name in ["CUDDY_POD_UID", "CUDDY_AUTH", "CUDDY_IDLE_TIMEOUT_SECONDS"] {
        assert!(said.contains(name), "{said}");
    }
}
