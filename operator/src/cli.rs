//! Arguments and environment variables. Everything has both; all mistakes are told at once.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

use crate::app::Settings;
use crate::config::{Cidr, ClusterRanges, DnsResolver, OperatorConfig, PullPolicy, Verify};

/// The operator of Cuddy.
#[derive(Debug, Parser)]
#[command(name = "cuddy-operator", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the operator.
    Run(Box<RunArgs>),
    /// Prints the CRDs as YAML.
    Crd,
}

/// The settings as they were given: texts, so that every mistake is found before any of them is told.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// The image of the sidecar, which also holds the host program.
    #[arg(long, env = "CUDDY_OPERATOR_SIDECAR_IMAGE")]
    sidecar_image: Option<String>,
    /// How the kubelet gets that image: Always, IfNotPresent or Never.
    #[arg(long, env = "CUDDY_OPERATOR_SIDECAR_PULL_POLICY", default_value = "Always")]
    sidecar_pull_policy: String,
    /// The namespace that the operator runs in.
    #[arg(long, env = "CUDDY_OPERATOR_NAMESPACE")]
    operator_namespace: Option<String>,
    /// The name of the operator's pod.
    #[arg(long, env = "CUDDY_OPERATOR_POD_NAME")]
    pod_name: Option<String>,
    /// The address of the operator's pod: sidecars dial it to prove that they are isolated.
    #[arg(long, env = "CUDDY_OPERATOR_POD_IP")]
    pod_ip: Option<String>,
    /// The one namespace to look after, for an operator with a Role only. Not given: the whole cluster.
    #[arg(long, env = "CUDDY_OPERATOR_WATCH_NAMESPACE")]
    watch_namespace: Option<String>,
    /// A file of EnvironmentClasses (YAML), for an operator with a Role only.
    #[arg(long, env = "CUDDY_OPERATOR_CLASS_FILE")]
    class_file: Option<PathBuf>,
    /// The cluster's resolver as `NAMESPACE:LABEL=VALUE[,LABEL=VALUE...]`.
    #[arg(long, env = "CUDDY_OPERATOR_DNS_RESOLVER", default_value = "kube-system:k8s-app=kube-dns")]
    dns_resolver: String,
    /// Addresses that answer names and are no pods (NodeLocal DNSCache's), separated by commas.
    #[arg(long, env = "CUDDY_OPERATOR_DNS_ADDRESSES", default_value = "")]
    dns_addresses: String,
    /// The pods' ranges, separated by commas.
    #[arg(long, env = "CUDDY_OPERATOR_POD_CIDRS", default_value = "")]
    pod_cidrs: String,
    /// The Services' ranges, separated by commas.
    #[arg(long, env = "CUDDY_OPERATOR_SERVICE_CIDRS", default_value = "")]
    service_cidrs: String,
    /// The nodes' ranges, separated by commas.
    #[arg(long, env = "CUDDY_OPERATOR_NODE_CIDRS", default_value = "")]
    node_cidrs: String,
    /// What happens where isolation is not proved and nobody says otherwise: Gate or Report.
    #[arg(long, env = "CUDDY_OPERATOR_VERIFY", default_value = "Gate")]
    verify: String,
    /// Where metrics and the kubelet's probes are answered.
    #[arg(long, env = "CUDDY_OPERATOR_LISTEN", default_value = "[::]:8080")]
    listen: String,
}

impl RunArgs {
    /// Returns the settings, or every mistake in them.
    pub fn settings(self) -> Result<Settings, Vec<String>> {
        let mut mistakes = Mistakes::default();
        let settings = Settings {
            listen: mistakes.parsed::<SocketAddr>("listen", &self.listen),
            config: OperatorConfig {
                sidecar_image: mistakes.given("sidecar-image", self.sidecar_image),
                sidecar_pull_policy: mistakes
                    .one_of::<PullPolicy>("sidecar-pull-policy", &self.sidecar_pull_policy),
                operator_namespace: mistakes.given("operator-namespace", self.operator_namespace),
                pod_name: mistakes.given("pod-name", self.pod_name),
                pod_ip: mistakes.given_and_parsed::<IpAddr>("pod-ip", self.pod_ip),
                namespace: self.watch_namespace.filter(|namespace| !namespace.is_empty()),
                class_file: self.class_file.filter(|file| !file.as_os_str().is_empty()),
                dns: DnsResolver {
                    addresses: mistakes.list("dns-addresses", &self.dns_addresses),
                    ..mistakes.resolver(&self.dns_resolver)
                },
                ranges: ClusterRanges {
                    pods: mistakes.list::<Cidr>("pod-cidrs", &self.pod_cidrs),
                    services: mistakes.list::<Cidr>("service-cidrs", &self.service_cidrs),
                    nodes: mistakes.list::<Cidr>("node-cidrs", &self.node_cidrs),
                },
                default_verify: mistakes.one_of::<Verify>("verify", &self.verify),
            },
        };
        let OperatorConfig { namespace, class_file, .. } = &settings.config;
        if class_file.is_some() && namespace.is_none() {
            mistakes.add("class-file", "is for an operator of one namespace; also give --watch-namespace");
        }
        mistakes.finish(settings)
    }
}

/// What is wrong so far. A value that cannot be read is noted here and stands in as a default, which nobody sees, because
/// settings with a mistake are not handed out.
#[derive(Default)]
struct Mistakes(Vec<String>);

impl Mistakes {
    fn add(&mut self, flag: &str, what: impl Display) {
        self.0.push(format!("--{flag} {what}"));
    }

    fn given(&mut self, flag: &str, value: Option<String>) -> String {
        let value = value.unwrap_or_default();
        if value.trim().is_empty() {
            let variable = flag.to_uppercase().replace('-', "_");
            let variable = variable.strip_prefix("OPERATOR_").unwrap_or(&variable);
            self.add(flag, format_args!("(CUDDY_OPERATOR_{variable}) is missing"));
        }
        value
    }

    fn parsed<T: FromStr<Err: Display> + Fallback>(&mut self, flag: &str, text: &str) -> T {
        text.parse().unwrap_or_else(|error| {
            self.add(flag, format_args!("cannot be {text:?}: {error}"));
            T::fallback()
        })
    }

    fn given_and_parsed<T: FromStr<Err: Display> + Fallback>(
        &mut self,
        flag: &str,
        value: Option<String>,
    ) -> T {
        let text = self.given(flag, value);
        if text.is_empty() { T::fallback() } else { self.parsed(flag, &text) }
    }

    fn one_of<T: clap::ValueEnum>(&mut self, flag: &str, text: &str) -> T {
        T::from_str(text, false).unwrap_or_else(|_| {
            let names: Vec<_> = T::value_variants()
                .iter()
                .filter_map(|variant| Some(variant.to_possible_value()?.get_name().to_owned()))
                .collect();
            self.add(flag, format_args!("cannot be {text:?}: it is one of {}", names.join(", ")));
            T::value_variants()[0].clone()
        })
    }

    fn list<T: FromStr<Err: Display>>(&mut self, flag: &str, text: &str) -> Vec<T> {
        let mut values = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.parse() {
                Ok(value) => values.push(value),
                Err(error) => self.add(flag, format_args!("cannot hold {item:?}: {error}")),
            }
        }
        values
    }

    fn resolver(&mut self, text: &str) -> DnsResolver {
        let parsed = text.split_once(':').and_then(|(namespace, labels)| {
            let labels: Option<BTreeMap<_, _>> = labels
                .split(',')
                .map(|label| label.split_once('=').filter(|(key, _)| !key.is_empty()))
                .map(|label| label.map(|(key, value)| (key.to_owned(), value.to_owned())))
                .collect();
            (!namespace.is_empty()).then_some((namespace.to_owned(), labels?))
        });
        let Some((namespace, labels)) = parsed else {
            self.add(
                "dns-resolver",
                format_args!("cannot be {text:?}: it is NAMESPACE:LABEL=VALUE[,LABEL=VALUE]"),
            );
            return DnsResolver::default();
        };
        DnsResolver { namespace, labels, addresses: Vec::new() }
    }

    fn finish<T>(self, value: T) -> Result<T, Vec<String>> {
        if self.0.is_empty() { Ok(value) } else { Err(self.0) }
    }
}

/// What stands in for a value that cannot be read.
trait Fallback {
    fn fallback() -> Self;
}

impl Fallback for IpAddr {
    fn fallback() -> Self {
        Self::from([0, 0, 0, 0])
    }
}

impl Fallback for SocketAddr {
    fn fallback() -> Self {
        Self::new(IpAddr::fallback(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Settings, Vec<String>> {
        let cli = Cli::try_parse_from(["cuddy-operator", "run"].iter().chain(args)).unwrap();
        let Command::Run(args) = cli.command else { panic!() };
        args.settings()
    }

    const LEAST: &[&str] = &[
        "--sidecar-image=r/sidecar:1",
        "--operator-namespace=cuddy-system",
        "--pod-name=cuddy-operator-1",
        "--pod-ip=10.244.0.7",
    ];

    #[test]
    fn the_least_settings_have_the_defaults() {
        let Settings { listen, config } = parse(LEAST).unwrap();
        assert_eq!(listen.to_string(), "[::]:8080");
        assert_eq!(config.dns, DnsResolver::default());
        assert_eq!(config.ranges, ClusterRanges::default());
        assert_eq!(config.sidecar_pull_policy, PullPolicy::Always);
        assert_eq!(config.default_verify, Verify::Gate);
        assert_eq!((config.namespace, config.class_file), (None, None));
    }

    #[test]
    fn everything_can_be_given() {
        let more = [
            "--sidecar-pull-policy=IfNotPresent",
            "--watch-namespace=team",
            "--class-file=/etc/classes.yaml",
            "--dns-resolver=dns:app=coredns,tier=a",
            "--dns-addresses=169.254.20.10, fd00::10",
            "--pod-cidrs=10.244.0.0/16,fd00:10::/56",
            "--service-cidrs=10.96.0.0/16",
            "--node-cidrs=192.168.0.0/24",
            "--verify=Report",
            "--listen=127.0.0.1:0",
        ];
        let args: Vec<_> = LEAST.iter().chain(&more).copied().collect();
        let Settings { listen, config } = parse(&args).unwrap();
        assert_eq!(listen.to_string(), "127.0.0.1:0");
        assert_eq!(config.namespace.as_deref(), Some("team"));
        assert_eq!(config.dns.namespace, "dns");
        assert_eq!(config.dns.labels["tier"], "a");
        assert_eq!(config.dns.addresses.len(), 2);
        assert_eq!(config.ranges.pods[1].to_string(), "fd00:10::/56");
        assert_eq!(config.default_verify, Verify::Report);
        assert_eq!(config.sidecar_pull_policy.as_str(), "IfNotPresent");
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let mistakes = parse(&[
            "--pod-ip=here",
            "--sidecar-pull-policy=Sometimes",
            "--pod-cidrs=10.0.0.1/8,10.0.0.0/8,x",
            "--verify=Maybe",
            "--dns-resolver=kube-dns",
            "--class-file=/x",
            "--listen=8080",
        ])
        .unwrap_err();
        insta::assert_snapshot!(mistakes.join("\n"));
    }
}
