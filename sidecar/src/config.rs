//! The settings, understood.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cuddy_edge::process::logging::LogFormat;
use cuddy_protocol::places;

use crate::cli::ServeArgs;
use crate::idle::{IdleAction, Policy};

/// The most names of `CUDDY_HOSTS`.
const MAX_HOSTS: usize = 64;

/// Who may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Whoever shows a bearer.
    Bearer,
    /// Whoever reaches loopback, with the environment's own limited identity.
    None,
}

/// Where the listeners are; none where one is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The doors over TLS.
    pub tls: Option<SocketAddr>,
    /// The operator's.
    pub control: Option<SocketAddr>,
    /// The probe's.
    pub probe: Option<SocketAddr>,
    /// Metrics.
    pub metrics: Option<SocketAddr>,
    /// The doors in plain HTTP.
    pub plain: Option<SocketAddr>,
}

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The UID of the pod.
    pub pod_uid: String,
    /// The folder of the trust anchor.
    pub anchor_dir: PathBuf,
    /// The folder of what outlives the pod.
    pub state_dir: PathBuf,
    /// The folder of what lives as long as the pod.
    pub pod_state_dir: PathBuf,
    /// The folder of the host's socket.
    pub host_socket_dir: PathBuf,
    /// The folder of the agent's socket.
    pub agent_socket_dir: PathBuf,
    /// Who may come in.
    pub auth: Auth,
    /// The idle policy.
    pub policy: Policy,
    /// More names by which requests may come.
    pub hosts: Vec<String>,
    /// Whether the gate is open from the start.
    pub gate_open: bool,
    /// The listeners.
    pub listen: Listen,
    /// Whether the audit trail goes to standard output, too.
    pub audit_stdout: bool,
    /// Lines of the log.
    pub log_format: LogFormat,
    /// What is logged.
    pub log: String,
}

/// Collects what is wrong, setting by setting.
struct Mistakes(Vec<String>);

impl Mistakes {
    fn say(&mut self, name: &str, value: &str, expected: &str) {
        let value = crate::text::one_line(value, 100);
        self.0.push(format!("{name}: {expected}, not {value:?}"));
    }

    fn choice<T: Copy>(&mut self, name: &str, value: &str, choices: [(&str, T); 2]) -> T {
        if let Some((_, found)) = choices.iter().find(|(text, _)| *text == value) {
            return *found;
        }
        self.say(name, value, &format!("{} or {}", choices[0].0, choices[1].0));
        choices[0].1
    }

    fn seconds(&mut self, name: &str, value: &str, least: u64, most: u64) -> Duration {
        let parsed = value.parse().ok().filter(|seconds| (least..=most).contains(seconds));
        if parsed.is_none() {
            self.say(name, value, &format!("seconds from {least} to {most}"));
        }
        Duration::from_secs(parsed.unwrap_or(least))
    }

    fn address(&mut self, name: &str, value: &str) -> Option<SocketAddr> {
        if value == "off" {
            return None;
        }
        let parsed = value.parse().ok();
        if parsed.is_none() {
            self.say(name, value, "an address and port ([::]:17443), or off");
        }
        parsed
    }

    fn folder(&mut self, name: &str, value: &str) -> PathBuf {
        let path = PathBuf::from(value);
        if !path.is_absolute() {
            self.say(name, value, "an absolute path");
        }
        path
    }
}

impl Settings {
    /// Understands the arguments, or says everything that is wrong with them.
    pub fn parse(args: ServeArgs) -> Result<Self, Vec<String>> {
        let mut mistakes = Mistakes(Vec::new());
        let m = &mut mistakes;
        if args.pod_uid.is_empty() || args.pod_uid.len() > 128 {
            m.say("CUDDY_POD_UID", &args.pod_uid, "the pod's UID");
        }
        let auth = m.choice("CUDDY_AUTH", &args.auth, [("Bearer", Auth::Bearer), ("None", Auth::None)]);
        let mut plain = m.address("CUDDY_LISTEN_PLAIN", &args.listen_plain);
        if auth == Auth::None && plain.is_none() {
            plain = Some((std::net::Ipv4Addr::LOCALHOST, places::PORT_PLAIN).into());
        }
        if plain.is_some_and(|address| !address.ip().is_loopback()) {
            m.say(
                "CUDDY_LISTEN_PLAIN",
                &args.listen_plain,
                "an address of loopback, since it is not encrypted",
            );
        }
        let hosts: Vec<String> =
            args.hosts.split(',').map(str::trim).filter(|h| !h.is_empty()).map(str::to_owned).collect();
        if hosts.len() > MAX_HOSTS {
            m.say("CUDDY_HOSTS", &args.hosts, &format!("at most {MAX_HOSTS} names"));
        }
        let log_format = args.log_format.parse().unwrap_or_else(|_| {
            m.say("CUDDY_LOG_FORMAT", &args.log_format, "json or text");
            LogFormat::Json
        });
        let settings = Self {
            anchor_dir: m.folder("CUDDY_ANCHOR_DIR", &args.anchor_dir),
            state_dir: m.folder("CUDDY_STATE_DIR", &args.state_dir),
            pod_state_dir: m.folder("CUDDY_POD_STATE_DIR", &args.pod_state_dir),
            host_socket_dir: m.folder("CUDDY_HOST_SOCKET_DIR", &args.host_socket_dir),
            agent_socket_dir: m.folder("CUDDY_AGENT_SOCKET_DIR", &args.agent_socket_dir),
            auth,
            policy: Policy {
                timeout: m.seconds("CUDDY_IDLE_TIMEOUT_SECONDS", &args.idle_timeout_seconds, 10, 604_800),
                grace: m.seconds("CUDDY_IDLE_GRACE_SECONDS", &args.idle_grace_seconds, 0, 3600),
                max_busy: m.seconds(
                    "CUDDY_IDLE_MAX_BUSY_SECONDS",
                    &args.idle_max_busy_seconds,
                    60,
                    2_592_000,
                ),
                action: m.choice(
                    "CUDDY_IDLE_ACTION",
                    &args.idle_action,
                    [("Stop", IdleAction::Stop), ("None", IdleAction::None)],
                ),
            },
            hosts,
            gate_open: m.choice("CUDDY_GATE", &args.gate, [("Closed", false), ("Open", true)]),
            listen: Listen {
                tls: m.address("CUDDY_LISTEN_TLS", &args.listen_tls),
                control: m.address("CUDDY_LISTEN_CONTROL", &args.listen_control),
                probe: m.address("CUDDY_LISTEN_PROBE", &args.listen_probe),
                metrics: m.address("CUDDY_LISTEN_METRICS", &args.listen_metrics),
                plain,
            },
            audit_stdout: m.choice("CUDDY_AUDIT_STDOUT", &args.audit_stdout, [("on", true), ("off", false)]),
            log_format,
            log: args.log,
            pod_uid: args.pod_uid,
        };
        if mistakes.0.is_empty() { Ok(settings) } else { Err(mistakes.0) }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn parse(args: &[&str]) -> Result<Settings, Vec<String>> {
        let all = ["cuddy-sidecar", "serve", "--pod-uid", "u"].iter().chain(args);
        let Verb::Serve(args) = Cli::try_parse_from(all).unwrap().verb;
        Settings::parse(args)
    }

    #[test]
    fn the_defaults_are_the_pods() {
        let settings = parse(&[]).unwrap();
        assert_eq!(settings.auth, Auth::Bearer);
        assert_eq!(settings.policy.timeout, Duration::from_mins(15));
        assert_eq!(settings.policy.max_busy, Duration::from_hours(24));
        assert_eq!(settings.listen.tls, Some("[::]:17443".parse().unwrap()));
        assert_eq!(settings.listen.plain, None);
        assert!(!settings.gate_open);
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let mistakes = parse(&[
            "--auth",
            "none",
            "--idle-timeout-seconds",
            "9",
            "--listen-tls",
            "17443",
            "--listen-plain",
            "0.0.0.0:1",
            "--gate",
            "ajar",
            "--state-dir",
            "here",
            "--log-format",
            "xml",
            "--idle-action",
            "",
        ])
        .unwrap_err();
        let names: Vec<&str> = mistakes.iter().filter_map(|m| m.split(':').next()).collect();
        assert_eq!(
            names,
            [
                "CUDDY_AUTH",
                "CUDDY_LISTEN_PLAIN",
                "CUDDY_LOG_FORMAT",
                "CUDDY_STATE_DIR",
                "CUDDY_IDLE_TIMEOUT_SECONDS",
                "CUDDY_IDLE_ACTION",
                "CUDDY_GATE",
                "CUDDY_LISTEN_TLS",
            ]
        );
    }

    #[test]
    fn without_bearers_there_is_loopback_alone() {
        let settings = parse(&["--auth", "None"]).unwrap();
        assert_eq!(settings.listen.plain, Some("127.0.0.1:17000".parse().unwrap()));
        assert!(parse(&["--auth", "None", "--listen-plain", "[::]:17000"]).is_err());
    }
}
