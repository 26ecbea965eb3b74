//! Ports and paths inside the pod (D6, D7, D9, D33).

/// MCP in plain HTTP on loopback; bound only where asked for.
pub const PORT_PLAIN: u16 = 17000;
/// The control listener, TLS.
pub const PORT_CONTROL: u16 = 17001;
/// The sidecar's probe listener: open until the gate opens.
pub const PORT_PROBE: u16 = 17002;
/// MCP over TLS.
pub const PORT_TLS: u16 = 17443;
/// Metrics and the kubelet's probes.
pub const PORT_METRICS: u16 = 9100;
/// The operator's canary listener that the policy allows while a gate is closed.
pub const PORT_CANARY_ALLOWED: u16 = 17081;
/// The operator's canary listener that nothing allows.
pub const PORT_CANARY_FORBIDDEN: u16 = 17082;

/// The home folder, mounted in the runtime container, unless the spec says otherwise.
pub const HOME: &str = "/home/erun";
/// The folder of jobs below home, tenant and environment to be filled in.
pub const JOBS_BELOW_HOME: &str = ".cache/erun/activity";
/// The sidecar's own state, on the volume.
pub const SIDECAR_STATE: &str = "/var/lib/cuddy";
/// The sidecar's state that lives as long as the pod: the gate's mark.
pub const SIDECAR_POD_STATE: &str = "/run/cuddy/pod";
/// The folder of the host's socket: written by the runtime container, hostile to the sidecar.
pub const HOST_SOCKET_DIR: &str = "/run/cuddy/host";
/// The host's socket within its folder.
pub const HOST_SOCKET: &str = "host.sock";
/// The folder of the agent's socket: written by the sidecar, mounted read-only in the runtime container.
pub const AGENT_SOCKET_DIR: &str = "/run/cuddy/agent";
/// The agent's socket within its folder.
pub const AGENT_SOCKET: &str = "agent.sock";
/// The folder of the beats of jobs, in memory.
pub const BEATS_DIR: &str = "/run/cuddy/beats";
/// Where the `install` container puts the host program and the runtime container finds it, read-only.
pub const BIN_DIR: &str = "/opt/cuddy/bin";
/// The host program within that folder.
pub const HOST_BIN: &str = "cuddy-host";
/// The volume's folder that becomes home.
pub const VOLUME_HOME: &str = "home";
/// The volume's folder that becomes the sidecar's state.
pub const VOLUME_SIDECAR: &str = "cuddy";

/// The uid of the sidecar and of `install`.
pub const SIDECAR_UID: i64 = 65532;
/// The uid of the runtime container unless the spec says otherwise.
pub const RUNTIME_UID: i64 = 1000;
/// The group that both share.
pub const SHARED_GID: i64 = 2000;

/// Returns the name in an environment's serving certificate.
pub fn server_name(environment_uid: &str) -> String {
    format!("{environment_uid}.env.cuddy.internal")
}
