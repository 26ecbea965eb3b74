//! The charts against the program: what one says of the other is so. That they render and install is tried with Helm on
//! the cluster.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use cuddy_operator::cli::Cli;
use cuddy_protocol::places::{PORT_CANARY_ALLOWED, PORT_CANARY_FORBIDDEN};

fn read(path: &str) -> std::io::Result<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path))
}

#[test]
fn the_chart_of_the_types_holds_them_as_they_are() {
    let crds = cuddy_crds::schema::yaml_files().unwrap();
    for (name, text) in &crds {
        assert_eq!(
            *text,
            read(&format!("charts/cuddy-crds/templates/{name}")).unwrap(),
            "{name}: copy it from crds/yaml"
        );
    }
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/cuddy-crds/templates");
    assert_eq!(fs::read_dir(templates).unwrap().count(), crds.len(), "and nothing else");
}

#[test]
fn the_deployment_sets_variables_that_the_program_reads() {
    let deployment = read("charts/cuddy/templates/deployment.yaml").unwrap();
    let set: BTreeSet<_> =
        deployment.lines().filter_map(|line| line.trim().strip_prefix("- name: CUDDY_OPERATOR_")).collect();
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let known: BTreeSet<_> = run
        .get_arguments()
        .filter_map(|argument| argument.get_env()?.to_str()?.strip_prefix("CUDDY_OPERATOR_"))
        .collect();
    let unset: Vec<_> = known.difference(&set).collect();
    // The port of metrics and probes stays what the Deployment's probes say.
    assert_eq!((set.difference(&known).count(), unset), (0, vec![&"LISTEN"]), "{set:?}");
}

#[test]
fn the_ports_are_the_programs() {
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let listen = run.get_arguments().find(|argument| argument.get_id() == "listen").unwrap();
    let admin = listen.get_default_values()[0].to_str().unwrap().rsplit(':').next().unwrap();
    let deployment = read("charts/cuddy/templates/deployment.yaml").unwrap();
    let policy = read("charts/cuddy/templates/networkpolicy.yaml").unwrap();
    for port in [admin, &PORT_CANARY_ALLOWED.to_string(), &PORT_CANARY_FORBIDDEN.to_string()] {
        assert!(deployment.contains(&format!("containerPort: {port}\n")), "{port}");
        assert!(policy.contains(&format!("- port: {port}\n")), "{port}");
    }
}

#[test]
fn no_chart_reads_secrets_in_bulk_or_makes_one() {
    let rules = read("charts/cuddy/templates/_rules.tpl").unwrap();
    let secrets = rules.split("- apiGroups:").find(|rule| rule.contains("[secrets]")).unwrap();
    let verbs = secrets.lines().find(|line| line.trim().starts_with("verbs:")).unwrap();
    assert!(!verbs.contains("list") && !verbs.contains("watch") && !verbs.contains('*'), "{verbs}");
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/cuddy/templates");
    for entry in fs::read_dir(templates).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.lines().any(|line| line.trim() == "kind: Secret"), "{}", path.display());
        assert!(!text.contains("'*'") && !text.contains("\"*\""), "{}", path.display());
    }
}
