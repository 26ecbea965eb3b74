//! A local environment from `up` to `down`: the real sidecar, the real host, the real proxy.

mod support;

use std::process::Stdio;

use serde_json::{Value, json};
use support::proxy::{Proxy, vanish};
use support::{Home, Local, programs, stderr, until};

#[test]
fn an_environment_comes_up_works_and_goes() {
    let local = Local::up();
    let home = &local.home;
    let status: Value = serde_json::from_str(&home.ok(&["local", "status", "--output", "json"])).unwrap();
    assert_eq!(status["environments"][0]["state"], "running");
    let ran =
        local.call("exec_raw", &json!({ "argv": ["sh", "-c", "pwd; echo hello > greeting; cat greeting"] }));
    let work = local.workspace.canonicalize().unwrap();
    assert_eq!(ran["stdout"], format!("{}\nhello\n", work.display()));
    assert_eq!(std::fs::read_to_string(local.workspace.join("greeting")).unwrap(), "hello\n");

    let again = home.fails(3, &["local", "up", "--workspace", "work", "--port", "0", "--detach"]);
    assert!(again.contains("runs already") && again.contains("cuddy local down"), "{again}");

    // Nobody gets in without a bearer, nor with one of another key.
    let other = Home::with_key();
    std::fs::create_dir_all(other.config().join("portforward/mcp/local")).unwrap();
    let state = "portforward/mcp/local/dev.json";
    std::fs::copy(home.config().join(state), other.config().join(state)).unwrap();
    let refused = other.fails(3, &["mcp", "call", "--tool", "version"]);
    assert!(refused.contains("does not accept the bearer"), "{refused}");

    let pids: Vec<u64> =
        ["sidecarPid", "hostPid"].map(|name| status["environments"][0][name].as_u64().unwrap()).into();
    home.ok(&["local", "down"]);
    assert!(!home.config().join(state).exists());
    assert!(!home.config().join("local/dev/anchor").exists(), "no key of the run is left");
    #[cfg(target_os = "linux")]
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is gone");
    }
    assert!(local.workspace.join("greeting").exists(), "the workspace stays");
    assert!(stderr(&home.run(&["local", "down"])).contains("no local environment is running"));
}

#[test]
fn calls_end_with_the_codes_that_scripts_go_by() {
    let local = Local::up();
    let home = &local.home;
    home.ok(&["mcp", "call", "--tool", "exec_raw", "--arg", "argv=[\"false\"]"]);
    home.fails(2, &["mcp", "call", "--tool", "no_such_tool"]);
    let said = home
        .fails(2, &["mcp", "call", "--tool", "exec_raw", "--arg", "nonsense=1", "--arg", "argv=[\"true\"]"]);
    assert!(said.contains("nonsense"), "{said}");
    let said = home.fails(3, &["mcp", "call", "--tool", "version", "--arg", "environment=other"]);
    assert!(said.contains("SCOPE_MISMATCH"), "{said}");
    local.call("exec_raw", &json!({ "argv": ["sh", "-c", "exit 3"], "wait": false, "name": "fails" }));
    home.fails(1, &["mcp", "call", "--tool", "exec_job_await", "--arg", "id=fails"]);
    local.call("exec_raw", &json!({ "argv": ["sleep", "600"], "wait": false, "name": "sleeps" }));
    home.fails(
        124,
        &["mcp", "call", "--tool", "exec_job_await", "--arg", "id=sleeps", "--arg", "timeoutSeconds=1"],
    );
    local.call("exec_job_cancel", &json!({ "id": "sleeps", "signal": "KILL" }));
    local.call("exec_raw", &json!({ "argv": ["true"], "wait": false, "name": "works" }));
    home.ok(&["mcp", "call", "--tool", "exec_job_await", "--arg", "id=works"]);
}

#[test]
fn the_proxy_says_of_itself_what_the_server_says() {
    let local = Local::up();
    let mut proxy = Proxy::start(&local.home, &["--tenant", "local", "--environment", "dev"]);
    proxy.request(1, "tools/list", &json!({}));
    let own = proxy.next()["result"]["tools"].clone();
    let listed: Value = serde_json::from_str(&local.home.ok(&["mcp", "tools", "--output", "json"])).unwrap();
    assert_eq!(own, listed["tools"]);
    assert!(proxy.finish().0.success());
}

#[test]
fn a_cancel_through_the_proxy_ends_the_process() {
    let local = Local::up();
    let mut proxy = Proxy::start(&local.home, &[]);
    proxy.call_with_progress(
        1,
        "exec_raw",
        &json!({ "argv": ["sh", "-c", "echo $$ > pid; exec sleep 600"] }),
    );
    let pid = until("the process", || {
        let text = std::fs::read_to_string(local.workspace.join("pid")).ok()?;
        text.trim().parse::<u32>().ok()
    });
    proxy.call(2, "version", &json!({}));
    assert_eq!(proxy.answer()["id"], 2, "another call passes while the first one runs");
    proxy.cancel(1);
    let gone = || !std::path::Path::new(&format!("/proc/{pid}")).exists();
    until("the process's end", || gone().then_some(()));
    proxy.call(3, "exec_raw", &json!({ "argv": ["echo", "still here"] }));
    assert_eq!(proxy.answer()["result"]["structuredContent"]["stdout"], "still here\n");

    // The end of the client ends what it was waiting for.
    let argv = json!(["sh", "-c", "echo $$ > pid2; exec sleep 600"]);
    let params = json!({ "name": "exec_raw", "arguments": { "argv": argv } });
    let call = json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params });
    let mut second = None;
    let status = vanish(&local.home, &call, || {
        second = Some(until("the second process", || {
            let text = std::fs::read_to_string(local.workspace.join("pid2")).ok()?;
            text.trim().parse::<u32>().ok()
        }));
    });
    assert!(status.success());
    let second = format!("/proc/{}", second.unwrap());
    until("its end", || (!std::path::Path::new(&second).exists()).then_some(()));
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_supervisor_leaves_is_tidied_away() {
    let local = Local::up_in(Home::with_long_paths());
    let home = &local.home;
    home.ok(&["mcp", "call", "--tool", "version"]);
    let record = home.config().join("local/dev/run.json");
    let run: Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
    let pid = |name: &str| run[name]["pid"].as_u64().unwrap().to_string();
    let sockets = std::path::PathBuf::from(run["sockets"].as_str().unwrap());
    assert!(sockets.exists() && !sockets.starts_with(home.config()), "elsewhere, where paths are short");
    let killed = std::process::Command::new("kill").args(["-KILL", &pid("supervisor")]).status().unwrap();
    assert!(killed.success());
    // Nobody may collect what the supervisor left: a zombie is dead.
    let lives = |name: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid(name))).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
    };
    until("the supervisor's end", || (!lives("supervisor")).then_some(()));
    let said = home.fails(3, &["local", "up", "--workspace", "work", "--port", "0", "--detach"]);
    assert!(said.contains("runs already"), "{said}");
    home.ok(&["local", "down"]);
    assert!(!lives("sidecar") && !lives("host"), "both are gone");
    assert!(!sockets.exists(), "{} is gone", sockets.display());
    home.ok(&["local", "up", "--workspace", "work", "--port", "0", "--detach"]);
}

#[cfg(unix)]
#[test]
fn in_the_foreground_a_signal_ends_it_in_order() {
    let home = Home::with_key();
    std::fs::create_dir(home.path("work")).unwrap();
    programs();
    let mut child = home
        .command(&["local", "up", "--workspace", "work", "--port", "0", "--name", "fore"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let state = home.config().join("portforward/mcp/local/fore.json");
    until("the environment", || state.exists().then_some(()));
    home.ok(&["mcp", "call", "--tool", "version"]);
    let ended = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(ended.success());
    let status = until("its end", || child.try_wait().unwrap());
    assert!(status.success());
    let mut said = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert!(said.contains("there is no wall between the agent and you"), "{said}");
    assert!(!state.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_sidecar_that_will_not_stay_is_given_up_and_that_is_told() {
    let home = Home::with_key();
    std::fs::create_dir(home.path("work")).unwrap();
    let script = home.path("sidecar");
    let (broken, real) = (home.path("broken"), programs().join("cuddy-sidecar"));
    let text = format!(
        "#!/bin/sh\n[ -e '{}' ] && {{ echo 'not any more' >&2; exit 9; }}\nexec '{}' \"$@\"\n",
        broken.display(),
        real.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut up = home.command(&["local", "up", "--workspace", "work", "--port", "0", "--detach"]);
    let up = up.env("CUDDY_SIDECAR_BIN", &script).env("CUDDY_HOST_BIN", programs().join("cuddy-host"));
    assert!(up.output().unwrap().status.success());
    let seen = || -> Value {
        let told: Value = serde_json::from_str(&home.ok(&["local", "status", "--output", "json"])).unwrap();
        told["environments"][0].clone()
    };
    let first = seen();
    let kill = |status: &Value| {
        let pid = status["sidecarPid"].to_string();
        assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    };
    kill(&first);
    let mended = until("the next sidecar", || {
        let now = seen();
        (now["state"] == "running" && now["sidecarPid"] != first["sidecarPid"]).then_some(now)
    });
    assert_eq!((&mended["hostPid"], &mended["endpoint"]), (&first["hostPid"], &first["endpoint"]));
    until("its answer", || home.run(&["mcp", "call", "--tool", "version"]).status.success().then_some(()));

    std::fs::write(&broken, "").unwrap();
    kill(&mended);
    let failed = until("the end of patience", || Some(seen()).filter(|now| now["state"] == "failed"));
    assert!(failed["failure"].as_str().unwrap().contains("the sidecar ended"), "{failed}");
    let told = home.run(&["local", "status"]);
    assert!(stderr(&told).contains("dev: the sidecar ended"), "{}", stderr(&told));
    home.ok(&["local", "down"]);
    assert!(stderr(&home.run(&["local", "status"])).contains("there is no local environment"));
}

#[test]
fn a_damaged_record_hides_nothing() {
    let local = Local::up();
    let home = &local.home;
    let record = home.config().join("local/dev/run.json");
    for content in ["", "{", "{\"pid\":1}"] {
        std::fs::write(&record, content).unwrap();
        let told = home.run(&["local", "status"]);
        assert!(stderr(&told).contains("damaged"), "{}", stderr(&told));
        let said = home.fails(3, &["local", "up", "--workspace", "work", "--port", "0", "--detach"]);
        assert!(said.contains("dev runs already, and its record is damaged"), "{said}");
        assert!(said.contains("cuddy local down --name dev"), "{said}");
    }
    home.ok(&["mcp", "call", "--tool", "version"]);
    home.ok(&["local", "down"]);
    home.fails(4, &["mcp", "call", "--tool", "version", "--tenant", "local", "--environment", "dev"]);
    home.ok(&["local", "up", "--workspace", "work", "--port", "0", "--detach"]);
}

#[test]
fn a_program_that_ends_at_once_is_told_with_its_own_words() {
    let home = Home::with_key();
    std::fs::create_dir(home.path("work")).unwrap();
    let script = home.path("broken");
    std::fs::write(&script, "#!/bin/sh\necho 'no port for me' >&2\nexit 9\n").unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = home.command(&["local", "up", "--workspace", "work"]);
    command.env("CUDDY_SIDECAR_BIN", &script).env("CUDDY_HOST_BIN", programs().join("cuddy-host"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the sidecar ended") && stderr(&output).contains("no port for me"),
        "{}",
        stderr(&output)
    );
    let missing = home
        .command(&["local", "up", "--workspace", "work"])
        .env("CUDDY_SIDECAR_BIN", "/none")
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
}
