//! The command line: one verb, and settings from the environment. Values are taken as text here and understood in
//! [`crate::config`], so that all mistakes are told at once.

use clap::{Args, Parser, Subcommand};
use cuddy_protocol::{anchor, places};

/// The trusted sidecar of an environment.
#[derive(Debug, Parser)]
#[command(name = "cuddy-sidecar", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serves an environment until SIGTERM.
    Serve(ServeArgs),
}

/// The settings. `off` in place of an address switches a listener off, for a pod-less environment on a laptop.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// The UID of the pod.
    #[arg(long, env = "CUDDY_POD_UID", default_value = "")]
    pub pod_uid: String,
    /// The folder of the trust anchor.
    #[arg(long, env = "CUDDY_ANCHOR_DIR", default_value = anchor::ANCHOR_DIR)]
    pub anchor_dir: String,
    /// The folder of what outlives the pod.
    #[arg(long, env = "CUDDY_STATE_DIR", default_value = places::SIDECAR_STATE)]
    pub state_dir: String,
    /// The folder of what lives as long as the pod.
    #[arg(long, env = "CUDDY_POD_STATE_DIR", default_value = places::SIDECAR_POD_STATE)]
    pub pod_state_dir: String,
    /// The folder of the host's socket.
    #[arg(long, env = "CUDDY_HOST_SOCKET_DIR", default_value = places::HOST_SOCKET_DIR)]
    pub host_socket_dir: String,
    /// The folder of the agent's socket.
    #[arg(long, env = "CUDDY_AGENT_SOCKET_DIR", default_value = places::AGENT_SOCKET_DIR)]
    pub agent_socket_dir: String,
    /// Bearer or None.
    #[arg(long, env = "CUDDY_AUTH", default_value = "Bearer")]
    pub auth: String,
    /// How long without activity until the environment may be stopped, in seconds, 10 to 604800.
    #[arg(long, env = "CUDDY_IDLE_TIMEOUT_SECONDS", default_value = "900")]
    pub idle_timeout_seconds: String,
    /// The warning before, in seconds, 0 to 3600.
    #[arg(long, env = "CUDDY_IDLE_GRACE_SECONDS", default_value = "60")]
    pub idle_grace_seconds: String,
    /// How long what runs inside keeps it up without a bearer's call, in seconds, 60 to 2592000.
    #[arg(long, env = "CUDDY_IDLE_MAX_BUSY_SECONDS", default_value = "86400")]
    pub idle_max_busy_seconds: String,
    /// Stop or None.
    #[arg(long, env = "CUDDY_IDLE_ACTION", default_value = "Stop")]
    pub idle_action: String,
    /// More names by which requests may come, separated by commas.
    #[arg(long, env = "CUDDY_HOSTS", default_value = "")]
    pub hosts: String,
    /// What a pod starts with: Closed or Open.
    #[arg(long, env = "CUDDY_GATE", default_value = "Closed")]
    pub gate: String,
    /// Where the doors are, over TLS.
    #[arg(long, env = "CUDDY_LISTEN_TLS", default_value_t = format!("[::]:{}", places::PORT_TLS))]
    pub listen_tls: String,
    /// Where the operator is heard.
    #[arg(long, env = "CUDDY_LISTEN_CONTROL", default_value_t = format!("[::]:{}", places::PORT_CONTROL))]
    pub listen_control: String,
    /// Where the probe listens until the gate opens.
    #[arg(long, env = "CUDDY_LISTEN_PROBE", default_value_t = format!("[::]:{}", places::PORT_PROBE))]
    pub listen_probe: String,
    /// Where metrics and the kubelet's probes are.
    #[arg(long, env = "CUDDY_LISTEN_METRICS", default_value_t = format!("[::]:{}", places::PORT_METRICS))]
    pub listen_metrics: String,
    /// Where the doors are in plain HTTP, on loopback; nowhere unless asked for.
    #[arg(long, env = "CUDDY_LISTEN_PLAIN", default_value = "off")]
    pub listen_plain: String,
    /// Whether the audit trail goes to standard output, too: on or off.
    #[arg(long, env = "CUDDY_AUDIT_STDOUT", default_value = "on")]
    pub audit_stdout: String,
    /// Lines of the log: json or text.
    #[arg(long, env = "CUDDY_LOG_FORMAT", default_value = "json")]
    pub log_format: String,
    /// What is logged, as in RUST_LOG.
    #[arg(long, env = "CUDDY_LOG", default_value = "info")]
    pub log: String,
}
