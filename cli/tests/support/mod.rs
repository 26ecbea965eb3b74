//! What the tests of the real program share.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) mod fake_api;
pub(crate) mod fault_server;
pub(crate) mod proxy;

/// How long anything may take before a test gives up.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// A user's folder that nobody else uses, without a cluster.
pub(crate) struct Home {
    dir: tempfile::TempDir,
    config: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), config: "config".to_owned() }
    }

    /// A home whose paths are too long for sockets.
    pub(crate) fn with_long_paths() -> Self {
        Self { config: "x".repeat(120), ..Self::new() }
    }

    /// A home with a key in it.
    pub(crate) fn with_key() -> Self {
        let home = Self::new();
        home.ok(&["key", "create"]);
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder of keys and state.
    pub(crate) fn config(&self) -> PathBuf {
        self.path(&self.config).join("erun")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_cuddy"), args)
    }

    pub(crate) fn command_of(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CUDDY_") {
                command.env_remove(name);
            }
        }
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("XDG_CONFIG_HOME", self.path(&self.config))
            .env("HOME", self.dir.path())
            .env("KUBECONFIG", self.path("no-kubeconfig"))
            .env_remove("CODEX_HOME")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs what must succeed, and returns what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Runs what must fail with an exit code, and returns what it said.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        stderr(&output)
    }

    /// Writes a state file as `cuddy open` would, for a server of the test itself.
    pub(crate) fn open_at(&self, tenant: &str, environment: &str, port: u16) {
        let folder = self.config().join("portforward/mcp").join(tenant);
        std::fs::create_dir_all(&folder).unwrap();
        let state = serde_json::json!({
            "tenant": tenant, "environment": environment, "kubernetesContext": "", "namespace": "",
            "localPort": port, "processId": std::process::id(),
        });
        std::fs::write(folder.join(format!("{environment}.json")), state.to_string()).unwrap();
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Waits until a condition holds, and says what was waited for if it never does.
pub(crate) fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the folder of this workspace's programs, with the sidecar's and the host's built.
pub(crate) fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "-p", "cuddy-sidecar", "-p", "cuddy-host"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .status()
            .unwrap();
        assert!(built.success(), "the sidecar and the host do not build");
        Path::new(env!("CARGO_BIN_EXE_cuddy")).parent().unwrap().to_owned()
    })
}

/// A local environment that ends with the test.
pub(crate) struct Local {
    pub(crate) home: Home,
    pub(crate) workspace: PathBuf,
}

impl Local {
    pub(crate) fn up() -> Self {
        Self::up_in(Home::with_key())
    }

    pub(crate) fn up_in(home: Home) -> Self {
        let workspace = home.path("work");
        std::fs::create_dir(&workspace).unwrap();
        programs();
        let local = Self { home, workspace };
        local.home.ok(&["local", "up", "--workspace", "work", "--port", "0", "--detach"]);
        local
    }

    /// Calls a tool and returns its structured result.
    pub(crate) fn call(&self, tool: &str, args: &serde_json::Value) -> serde_json::Value {
        let text =
            self.home.ok(&["mcp", "call", "--tool", tool, "--args", &args.to_string(), "--output", "json"]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["structured"].clone()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.home.run(&["local", "down"]);
    }
}
