//! The real program, without an environment: files, exit codes, words.

mod support;

use std::process::Stdio;

use serde_json::Value;
use support::{Home, stderr, stdout};

#[test]
fn a_key_is_made_once_shown_and_kept() {
    let home = Home::new();
    let made: Value = serde_json::from_str(&home.ok(&["key", "create", "--output", "json"])).unwrap();
    assert!(made["publicKey"].as_str().unwrap().starts_with("-----BEGIN PUBLIC KEY-----"));
    let shown: Value = serde_json::from_str(&home.ok(&["key", "show", "--output", "json"])).unwrap();
    assert_eq!(shown, made);
    let again = home.run(&["key", "create", "--output", "json"]);
    assert!(again.status.success(), "scripts make sure of it more than once");
    assert_eq!(serde_json::from_str::<Value>(&stdout(&again)).unwrap(), made);
    assert!(stderr(&again).contains("already there") && stderr(&again).contains("--force"), "{again:?}");
    assert_eq!(serde_json::from_str::<Value>(&home.ok(&["key", "show", "--output", "json"])).unwrap(), made);
    home.ok(&["key", "create", "--force"]);
    let other: Value = serde_json::from_str(&home.ok(&["key", "show", "--output", "json"])).unwrap();
    assert_ne!(other["thumbprint"], made["thumbprint"]);
    let pem = home.ok(&["key", "show"]);
    assert_eq!(
        pem.trim(),
        other["publicKey"].as_str().unwrap().trim(),
        "stdout holds the key and nothing else"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode =
            std::fs::metadata(home.config().join("identity/desktopid.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_token_needs_a_key_and_never_makes_one() {
    let home = Home::new();
    home.open_at("acme", "dev", 1);
    for verb in [&["mcp", "token"][..], &["mcp", "tools"], &["mcp", "call", "--tool", "version"]] {
        let said = home.fails(1, verb);
        let path = home.config().join("identity/desktopid.key");
        assert!(said.contains(path.to_str().unwrap()) && said.contains("cuddy key create"), "{said}");
    }
    assert!(!home.config().join("identity").exists());
}

#[test]
fn a_token_is_what_the_seed_says() {
    let home = Home::with_key();
    home.open_at("acme", "dev", 17_042);
    let told: Value = serde_json::from_str(&home.ok(&["mcp", "token", "--output", "json"])).unwrap();
    let names: Vec<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["audience", "endpoint", "environment", "expiresAt", "issuer", "tenant", "token"]);
    assert_eq!(told["audience"], "erun-mcp:acme/dev");
    assert_eq!(told["endpoint"], "http://127.0.0.1:17042/mcp");
    assert_eq!(told["issuer"], "file:///etc/erun/mcp-auth/desktopid.pub");
    let bare = home.ok(&["mcp", "token", "--tenant", "acme", "--environment", "dev"]);
    assert_eq!(bare.trim().split('.').count(), 3, "a token and nothing else");
    let said = home.fails(2, &["mcp", "token", "--scope", "openid"]);
    assert!(said.contains("erun:read"), "{said}");
}

#[test]
fn mistakes_are_told_with_what_was_meant() {
    let home = Home::new();
    let said = home.fails(2, &["mcp", "call", "--tol", "x"]);
    assert!(said.contains("--tool"), "{said}");
    let said = home.fails(2, &["enb"]);
    assert!(said.contains("env"), "{said}");
    let said = home.fails(2, &["mcp", "call", "--tool", "x", "--args", "{"]);
    assert!(said.contains("--args is no JSON"), "{said}");
    assert!(!said.contains('\u{1b}'), "no colour without a terminal");
}

#[test]
fn without_an_environment_it_says_how_to_get_one() {
    let home = Home::with_key();
    let said = home.fails(2, &["mcp", "call", "--tool", "version"]);
    assert!(said.contains("cuddy local up") && said.contains("KUBECONFIG"), "{said}");
    let said = home.fails(4, &["env", "list"]);
    assert!(said.contains("there is no kubeconfig"), "{said}");
    let said =
        home.fails(4, &["mcp", "call", "--tenant", "acme", "--environment", "dev", "--tool", "version"]);
    assert!(said.contains("acme/dev is not open on this machine"), "{said}");
    let told = home.run(&["env", "list", "--output", "json"]);
    let error: Value = serde_json::from_str(&stderr(&told)).unwrap();
    assert_eq!(error["error"]["kind"], "unreachable");
    assert!(told.stdout.is_empty());
}

#[test]
fn a_dead_local_end_is_named() {
    let home = Home::with_key();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = gone.local_addr().unwrap().port();
    home.open_at("acme", "dev", port);
    drop(gone);
    let said = home.fails(4, &["mcp", "call", "--tool", "version"]);
    assert!(said.contains(&format!("port {port}")) && said.contains("cuddy open"), "{said}");
}

#[test]
fn a_pipe_that_closes_is_no_failure() {
    let home = Home::new();
    let mut child = home.command(&["completion", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn completions_and_versions_are_printed() {
    let home = Home::new();
    for (shell, word) in [("bash", "_cuddy"), ("zsh", "#compdef cuddy"), ("fish", "complete -c cuddy")] {
        assert!(home.ok(&["completion", shell]).contains(word), "{shell}");
    }
    let version: Value = serde_json::from_str(&home.ok(&["version", "--output", "json"])).unwrap();
    assert_eq!(version["build"], env!("CARGO_PKG_VERSION"));
    let erun = home.command_of(env!("CARGO_BIN_EXE_erun"), &["version"]).output().unwrap();
    assert_eq!(stdout(&erun), home.ok(&["version"]), "the same program under the name erun");
}

#[test]
fn a_clients_file_gets_a_command_and_no_credential() {
    let home = Home::with_key();
    home.open_at("acme", "dev", 17_042);
    std::fs::write(home.path(".mcp.json"), r#"{"mcpServers": {"other": {"url": "u"}}}"#).unwrap();
    let printed = home.ok(&["mcp", "config", "--client", "claude-code"]);
    home.ok(&["mcp", "config", "--client", "claude-code", "--write"]);
    let written = std::fs::read_to_string(home.path(".mcp.json")).unwrap();
    let value: Value = serde_json::from_str(&written).unwrap();
    let entry = &value["mcpServers"]["cuddy-dev"];
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap()["mcpServers"]["cuddy-dev"], *entry);
    assert_eq!(value["mcpServers"]["other"]["url"], "u");
    assert_eq!(
        entry["args"],
        serde_json::json!(["mcp", "proxy", "--tenant", "acme", "--environment", "dev"])
    );
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_cuddy"));
    assert!(!written.contains("eyJ") && !written.contains("PRIVATE"));
    home.ok(&["mcp", "config", "--client", "codex", "--write"]);
    assert!(
        std::fs::read_to_string(home.path(".codex/config.toml")).unwrap().contains("[mcp_servers.cuddy-dev]")
    );
    std::fs::create_dir(home.path(".vscode")).unwrap();
    std::fs::write(home.path(".vscode/mcp.json"), "{ // mine\n}").unwrap();
    let said = home.fails(1, &["mcp", "config", "--client", "vscode", "--write"]);
    assert!(said.contains("left as it is") && said.contains("\"servers\""), "{said}");
    assert_eq!(std::fs::read_to_string(home.path(".vscode/mcp.json")).unwrap(), "{ // mine\n}");
}
