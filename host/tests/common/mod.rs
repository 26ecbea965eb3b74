//! The real program under a temporary folder, and a small client of its protocol.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "helpers of tests"
)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cuddy_protocol::CommandError;
use cuddy_protocol::host::{
    FRAME_PREFIX, FrameKind, Header, VERSION, decode_frame_prefix, encode_frames, encode_header,
};
use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cuddy-host");
/// How long a condition may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a condition.
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A home, its folders, and a host that serves there.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) host: Child,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "host", "agent", "beats"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let host = start(dir.path(), "host", &[]);
        let world = Self { dir, host };
        world.ready();
        world
    }

    /// A world whose host is started and kept by `init`.
    pub(crate) fn with_init(command: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "host", "agent", "beats"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut args = vec!["--"];
        args.extend(command);
        let host = start(dir.path(), "init", if command.is_empty() { &[] } else { &args });
        let world = Self { dir, host };
        world.ready();
        world
    }

    /// A world whose home is a file system of this size, seen by the host alone; none where that is not to be had.
    pub(crate) fn with_small_home(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "host", "agent", "beats"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mount = format!("mount -t tmpfs -o size={size} none \"$CUDDY_HOME\"");
        let mut probe = Command::new("unshare");
        probe.args(["--mount", "sh", "-c", &mount]).env("CUDDY_HOME", dir.path().join("home"));
        if !probe.status().is_ok_and(|status| status.success()) {
            return None;
        }
        let script = format!("{mount} && exec \"$0\" host");
        let host =
            environment(Command::new("unshare").args(["--mount", "sh", "-c", &script, PROGRAM]), dir.path());
        let world = Self { dir, host };
        world.ready();
        Some(world)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home").canonicalize().unwrap()
    }

    pub(crate) fn jobs(&self) -> PathBuf {
        self.home().join(".cache/erun/activity/t/e/jobs")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("host/host.sock")
    }

    pub(crate) fn ready(&self) {
        eventually("the host answers hello", || self.try_call("hello", &json!({})).ok()?.ok());
    }

    /// Kills the host as the kernel would, and starts a new one.
    pub(crate) fn replace_host(&mut self) {
        self.host.kill().unwrap();
        self.host.wait().unwrap();
        self.host = start(self.dir.path(), "host", &[]);
        self.ready();
    }

    pub(crate) fn connect(&self, command: &str, params: &Value) -> std::io::Result<UnixStream> {
        self.connect_until(command, params, 3_700_000)
    }

    pub(crate) fn connect_until(
        &self,
        command: &str,
        params: &Value,
        deadline_ms: u64,
    ) -> std::io::Result<UnixStream> {
        let mut stream = UnixStream::connect(self.socket())?;
        let header = Header {
            v: VERSION,
            build: cuddy_host::build_info::build(),
            call: "test".to_owned(),
            command: command.to_owned(),
            params: params.clone(),
            deadline_ms,
        };
        stream.write_all(&encode_header(&header).unwrap())?;
        Ok(stream)
    }

    pub(crate) fn try_call(
        &self,
        command: &str,
        params: &Value,
    ) -> std::io::Result<Result<Value, CommandError>> {
        let mut stream = self.connect(command, params)?;
        let mut end = Vec::new();
        encode_frames(FrameKind::Stdin, &[], &mut end);
        stream.write_all(&end)?;
        answer(&mut stream)
    }

    pub(crate) fn call(&self, command: &str, params: Value) -> Result<Value, CommandError> {
        self.try_call(command, &params).expect("a connection that lasts")
    }

    pub(crate) fn ok(&self, command: &str, params: Value) -> Value {
        self.call(command, params.clone()).unwrap_or_else(|error| panic!("{command} {params}: {error:?}"))
    }

    pub(crate) fn refused(&self, command: &str, params: Value) -> CommandError {
        match self.call(command, params.clone()) {
            Err(error) => error,
            Ok(value) => panic!("{command} {params} was not refused: {value}"),
        }
    }

    /// Runs a shell script in the foreground.
    pub(crate) fn sh(&self, script: &str) -> Value {
        self.ok("exec_raw", json!({ "argv": ["sh", "-c", script] }))
    }

    /// Starts a shell script as a job.
    pub(crate) fn job(&self, id: &str, script: &str) {
        self.ok("exec_raw", json!({ "argv": ["sh", "-c", script], "wait": false, "id": id }));
    }

    pub(crate) fn status(&self, id: &str) -> Value {
        self.ok("exec_job_status", json!({ "id": id }))["job"].clone()
    }

    pub(crate) fn finished(&self, id: &str) -> Value {
        let awaited = self.ok("exec_job_await", json!({ "id": id, "timeoutSeconds": 60 }));
        assert_eq!(awaited["timedOut"], false, "{awaited}");
        awaited["job"].clone()
    }

    /// Returns the processes whose environment says that they belong to this world, the host's own aside.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mark = format!("CUDDY_TEST_WORLD={}", self.dir.path().display());
        let mut found: Vec<i32> = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != self.host.id() as i32)
            .filter(|pid| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|b| *b == 0).any(|line| line == mark.as_bytes())
            })
            .collect();
        found.sort_unstable();
        found
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Whatever a test leaves behind is ended by its id, jobs that outlive their host among it.
        let _ = self.host.kill();
        let _ = self.host.wait();
        for pid in self.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

fn start(dir: &Path, verb: &str, args: &[&str]) -> Child {
    environment(Command::new(PROGRAM).arg(verb).args(args), dir)
}

fn environment(command: &mut Command, dir: &Path) -> Child {
    command
        .env("CUDDY_HOME", dir.join("home").canonicalize().unwrap())
        .env("CUDDY_TENANT", "t")
        .env("CUDDY_ENVIRONMENT", "e")
        .env("CUDDY_HOST_SOCKET_DIR", dir.join("host"))
        .env("CUDDY_AGENT_SOCKET_DIR", dir.join("agent"))
        .env("CUDDY_BEATS_DIR", dir.join("beats"))
        .env("CUDDY_TEST_WORLD", dir)
        .stdin(Stdio::null())
        .stderr(fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap())
        .spawn()
        .unwrap()
}

/// Reads an answer to its end.
pub(crate) fn answer(stream: &mut UnixStream) -> std::io::Result<Result<Value, CommandError>> {
    let mut json = Vec::new();
    loop {
        let mut prefix = [0; FRAME_PREFIX];
        stream.read_exact(&mut prefix)?;
        let (kind, len) = decode_frame_prefix(prefix).unwrap();
        let mut bytes = vec![0; len];
        stream.read_exact(&mut bytes)?;
        json.extend_from_slice(&bytes);
        if len == 0 {
            return Ok(match kind {
                FrameKind::Result => Ok(serde_json::from_slice(&json).unwrap()),
                FrameKind::Error => Err(serde_json::from_slice(&json).unwrap()),
                other => panic!("a frame of kind {other:?}"),
            });
        }
    }
}

/// Says whether a process lives; one that only waits to be reaped does not.
pub(crate) fn is_alive(pid: i64) -> bool {
    cuddy_host::process::Identity::of(i32::try_from(pid).unwrap()).is_some()
}

/// Reads a process id from a file once somebody has written it there.
pub(crate) fn pid_from(path: &Path) -> i64 {
    eventually("a process id is written", || fs::read_to_string(path).ok()?.trim().parse().ok())
}
