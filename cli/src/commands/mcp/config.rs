//! `cuddy mcp config`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::commands::key::KeyArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::ordered_json::Ordered;
use crate::target::{self, Target, TargetArgs};
use crate::{files, output};

/// The largest configuration that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The clients that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Client {
    /// .mcp.json in this folder
    ClaudeCode,
    /// ~/.codex/config.toml
    Codex,
    /// .cursor/mcp.json in this folder
    Cursor,
    /// .vscode/mcp.json in this folder
    Vscode,
    /// The entry alone
    Json,
}

/// The arguments of `mcp config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The client
    #[arg(long, value_enum, value_name = "CLIENT")]
    pub client: Client,
    /// Put the entry into the client's own file; other entries stay as they are
    #[arg(long)]
    pub write: bool,
    /// The file to write instead of the client's own
    #[arg(long, value_name = "FILE", requires = "write")]
    pub file: Option<PathBuf>,
    /// What the client calls the server [default: cuddy-<environment>]
    #[arg(long, value_name = "NAME", value_parser = server_name)]
    pub name: Option<String>,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub key: KeyArgs,
}

/// A name that needs no quotes in any of the files.
fn server_name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if fits {
        Ok(text.to_owned())
    } else {
        Err("letters, digits, '-' and '_', at most 64 of them".to_owned())
    }
}

/// An entry: a command, and never a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    command: String,
    args: Vec<String>,
}

pub(super) async fn run(context: &Context, args: &ConfigArgs) -> Result<(), CliError> {
    let target = target::resolve(&args.target, &context.dir).await?;
    let entry = entry(args, &target);
    let text = match args.client {
        Client::Codex => toml(&entry),
        client => pretty(&whole(client, &entry))?,
    };
    if !args.write {
        return output::line(text.trim_end());
    }
    let path = match args.file.clone() {
        Some(path) => path,
        None => {
            own_file(args.client)?.ok_or_else(|| CliError::usage("`--client json --write` needs --file"))?
        }
    };
    let before = files::read(&path, MAX_BYTES)?;
    let after = match args.client {
        Client::Codex => with_toml(before.as_deref().unwrap_or_default(), &entry),
        client => with_json(before.as_deref(), client, &entry),
    };
    let after = after.map_err(|error| in_file(error, &path, &text))?;
    write(&path, &after)?;
    output::note(&format!(
        "{} starts the server {} now; it holds a command, and no credential",
        path.display(),
        entry.name
    ));
    Ok(())
}

fn entry(args: &ConfigArgs, target: &Target) -> Entry {
    let name = args.name.clone().unwrap_or_else(|| format!("cuddy-{}", target.scope.environment));
    let mut arguments: Vec<String> =
        ["mcp", "proxy", "--tenant", target.scope.tenant.as_str(), "--environment"].map(str::to_owned).into();
    arguments.push(target.scope.environment.to_string());
    // The editor may be started with another context than the one meant here.
    if let Some(place) = &target.place {
        for (flag, value) in [("--context", &place.context), ("--namespace", &place.namespace)] {
            arguments.extend([flag.to_owned(), value.clone()]);
        }
    }
    for (flag, path) in [("--kubeconfig", &args.target.cluster.kubeconfig), ("--key", &args.key.key)] {
        if let Some(path) = path {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            arguments.extend([flag.to_owned(), path.display().to_string()]);
        }
    }
    Entry { name, command: program(), args: arguments }
}

/// Returns this program as a client finds it: by name if the path leads to this very file, else by its place.
fn program() -> String {
    let own = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
    let Some(own) = own else { return "cuddy".to_owned() };
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let found = on_path.map(|folder| folder.join("cuddy")).find(|path| path.is_file());
    if found.and_then(|path| path.canonicalize().ok()).as_ref() == Some(&own) {
        "cuddy".to_owned()
    } else {
        own.display().to_string()
    }
}

/// Returns the member of a client's file that holds its servers.
const fn group(client: Client) -> &'static str {
    match client {
        Client::Vscode => "servers",
        _ => "mcpServers",
    }
}

fn body(entry: &Entry) -> Ordered {
    let text = |text: &str| Ordered::Leaf(Value::from(text));
    let args = entry.args.iter().map(|a| text(a)).collect();
    Ordered::Object(vec![
        ("type".to_owned(), text("stdio")),
        ("command".to_owned(), text(&entry.command)),
        ("args".to_owned(), Ordered::List(args)),
    ])
}

fn whole(client: Client, entry: &Entry) -> Ordered {
    if client == Client::Json {
        return body(entry);
    }
    let mut whole = Ordered::object();
    whole.set(group(client), &entry.name, body(entry));
    whole
}

fn with_json(before: Option<&str>, client: Client, entry: &Entry) -> Result<String, CliError> {
    let mut all = match before.map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => {
            serde_json::from_str(text).map_err(|e| CliError::failed("it is no plain JSON").because(e))?
        }
        None => Ordered::object(),
    };
    if !all.set(group(client), &entry.name, body(entry)) {
        return Err(CliError::failed(format!("its member {} is no object", group(client))));
    }
    pretty(&all)
}

fn pretty(value: &Ordered) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|e| CliError::failed("the entry cannot be written").because(e))
}

fn toml(entry: &Entry) -> String {
    // A JSON text is a basic string of TOML too, as long as no control character is escaped in JSON's own way.
    let quoted = |text: &str| json!(text).to_string();
    let args: Vec<String> = entry.args.iter().map(|a| quoted(a)).collect();
    format!(
        "[mcp_servers.{}]\ncommand = {}\nargs = [{}]\n",
        entry.name,
        quoted(&entry.command),
        args.join(", ")
    )
}

/// Puts the entry into a TOML file: over the table of its name, or at the end. The rest is not touched, comments included.
fn with_toml(before: &str, entry: &Entry) -> Result<String, CliError> {
    let head = format!("[mcp_servers.{}]", entry.name);
    let is_own = |line: &str| line.trim() == head;
    let lines: Vec<&str> = before.lines().collect();
    let Some(start) = lines.iter().position(|line| is_own(line)) else {
        if before.contains(&format!("mcp_servers.{}", entry.name)) || before.contains("mcp_servers =") {
            return Err(CliError::failed("it holds this server in a form that is not understood here"));
        }
        let gap = if before.trim().is_empty() { "" } else { "\n" };
        let before = before.trim_end();
        let end = if before.is_empty() { "" } else { "\n" };
        return Ok(format!("{before}{end}{gap}{}", toml(entry)));
    };
    // The table goes on to the next head that is not of a table below it.
    let below = format!("[mcp_servers.{}.", entry.name);
    let end = lines[start + 1..]
        .iter()
        .position(|line| line.trim_start().starts_with('[') && !line.trim_start().starts_with(&below))
        .map_or(lines.len(), |offset| start + 1 + offset);
    let mut all: Vec<String> = lines[..start].iter().map(|l| (*l).to_owned()).collect();
    all.push(toml(entry).trim_end().to_owned());
    // What the user set for this server beside the command stays.
    all.extend(lines[start + 1..end].iter().filter(|l| !is_command(l)).map(|l| (*l).to_owned()));
    all.extend(lines[end..].iter().map(|l| (*l).to_owned()));
    Ok(all.join("\n") + "\n")
}

fn is_command(line: &str) -> bool {
    let name = line.split('=').next().unwrap_or_default().trim();
    line.contains('=') && matches!(name, "command" | "args")
}

fn own_file(client: Client) -> Result<Option<PathBuf>, CliError> {
    let here = std::env::current_dir()?;
    Ok(match client {
        Client::ClaudeCode => Some(here.join(".mcp.json")),
        Client::Cursor => Some(here.join(".cursor/mcp.json")),
        Client::Vscode => Some(here.join(".vscode/mcp.json")),
        Client::Codex => Some(codex_home()?.join("config.toml")),
        Client::Json => None,
    })
}

fn codex_home() -> Result<PathBuf, CliError> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    variable("CODEX_HOME").or_else(|| variable("HOME").map(|home| home.join(".codex"))).ok_or_else(|| {
        CliError::usage("neither $CODEX_HOME nor $HOME is set").hint("name the file with --file")
    })
}

fn in_file(mut error: CliError, path: &Path, text: &str) -> CliError {
    error.message = format!("{} was left as it is: {}", path.display(), error.message);
    error.hint(format!("put this in by hand:\n{text}"))
}

/// Writes a file of the user's project: its mode stays, and a link is followed to what it names.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mode = std::fs::metadata(&real).ok().map(|m| m.permissions());
    if let Some(folder) = real.parent() {
        std::fs::create_dir_all(folder)?;
    }
    files::replace(&real, text.as_bytes())?;
    if let Some(mode) = mode {
        std::fs::set_permissions(&real, mode)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            name: "cuddy-dev".into(),
            command: "cuddy".into(),
            args: ["mcp", "proxy", "--tenant", "acme", "--environment", "dev"].map(str::to_owned).into(),
        }
    }

    #[test]
    fn each_client_has_its_form() {
        insta::assert_snapshot!(pretty(&whole(Client::ClaudeCode, &entry())).unwrap(), @r#"
        {
          "mcpServers": {
            "cuddy-dev": {
              "type": "stdio",
              "command": "cuddy",
              "args": [
                "mcp",
                "proxy",
                "--tenant",
                "acme",
                "--environment",
                "dev"
              ]
            }
          }
        }
        "#);
        assert!(pretty(&whole(Client::Vscode, &entry())).unwrap().starts_with("{\n  \"servers\""));
        insta::assert_snapshot!(toml(&entry()), @r#"
        [mcp_servers.cuddy-dev]
        command = "cuddy"
        args = ["mcp", "proxy", "--tenant", "acme", "--environment", "dev"]
        "#);
    }

    #[test]
    fn other_entries_of_a_json_file_stay_as_they_are() {
        let before = r#"{"z": 1, "mcpServers": {"other": {"url": "u"}, "cuddy-dev": {"command": "old"}}}"#;
        let after = with_json(Some(before), Client::Cursor, &entry()).unwrap();
        assert!(after.find("\"z\"").unwrap() < after.find("\"mcpServers\"").unwrap());
        let value: Value = serde_json::from_str(&after).unwrap();
        assert_eq!(value["mcpServers"]["other"]["url"], "u");
        assert_eq!(value["mcpServers"]["cuddy-dev"]["command"], "cuddy");
        assert!(with_json(Some("{ // mine\n}"), Client::Vscode, &entry()).is_err(), "comments would be lost");
        assert!(with_json(Some(r#"{"mcpServers": []}"#), Client::Cursor, &entry()).is_err());
        let of_nothing = with_json(None, Client::Cursor, &entry()).unwrap();
        assert_eq!(with_json(Some(" "), Client::Cursor, &entry()).unwrap(), of_nothing);
    }

    #[test]
    fn other_parts_of_a_toml_file_stay_as_they_are() {
        assert_eq!(with_toml("", &entry()).unwrap(), toml(&entry()));
        let before = "# mine\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = \"o\"\n";
        let once = with_toml(before, &entry()).unwrap();
        assert!(once.starts_with(before) && once.ends_with(&toml(&entry())), "{once}");
        assert_eq!(with_toml(&once, &entry()).unwrap(), once, "a second time changes nothing");
        let own = "[mcp_servers.cuddy-dev]\ncommand = \"old\"\nargs = []\ntool_timeout_sec = 600\n[mcp_servers.cuddy-dev.env]\nA = \"1\"\n[other]\nx = 1\n";
        insta::assert_snapshot!(with_toml(own, &entry()).unwrap(), @r#"
        [mcp_servers.cuddy-dev]
        command = "cuddy"
        args = ["mcp", "proxy", "--tenant", "acme", "--environment", "dev"]
        tool_timeout_sec = 600
        [mcp_servers.cuddy-dev.env]
        A = "1"
        [other]
        x = 1
        "#);
        assert!(with_toml("mcp_servers = { a = {} }", &entry()).is_err());
    }
}
