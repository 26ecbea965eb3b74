//! `cuddy mcp call`

use std::io::Read;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use super::AccessArgs;
use crate::args::OutputArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::mcp_client::{self, ToolAnswer};
use crate::reach::Wake;
use crate::{exchange, output};

/// The most bytes of arguments that are read from stdin.
const MAX_STDIN_BYTES: u64 = 4 * 1024 * 1024;

/// The arguments of `mcp call`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cuddy mcp call --tool version
  cuddy mcp call --tool exec_raw --args '{\"argv\": [\"make\", \"test\"], \"wait\": false, \"name\": \"suite\"}'
  cuddy mcp call --tool exec_job_await --arg id=suite --arg timeoutSeconds=600   # exit 124: it still runs")]
pub struct CallArgs {
    /// The tool's name, as `cuddy mcp tools` lists it
    #[arg(long, short, value_name = "NAME")]
    pub tool: String,
    /// The arguments as a JSON object; `-` reads it from stdin
    #[arg(long, value_name = "JSON")]
    pub args: Option<String>,
    /// One argument: JSON if it reads as JSON, otherwise text; `key:=JSON` is JSON in any case
    #[arg(long = "arg", short = 'a', value_name = "KEY=VALUE")]
    pub arg: Vec<String>,
    /// How long an environment that must first be woken may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub wake_timeout: u64,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) async fn run(context: &Context, args: &CallArgs) -> Result<ExitCode, CliError> {
    let arguments = arguments(args)?;
    let reach = args.access.reach(context, args.wake_timeout).await?;
    let token = uuid::Uuid::new_v4().to_string();
    let params = json!({ "name": args.tool, "arguments": arguments, "_meta": { "progressToken": token } });
    let message = exchange::request(&reach, "tools/call", params, Wake::Yes).await?;
    let answer = mcp_client::tool_answer(&message)?;
    print(args, &answer)?;
    Ok(answer.kind(&args.tool).map_or(ExitCode::SUCCESS, |kind| ExitCode::from(kind.exit_code())))
}

fn print(args: &CallArgs, answer: &ToolAnswer) -> Result<(), CliError> {
    if args.output.is_json() {
        let mut value = json!({ "tool": args.tool });
        if let Some(text) = &answer.text {
            value["text"] = json!(text);
        }
        if let Some(structured) = &answer.structured {
            value["structured"] = structured.clone();
        }
        if answer.is_error {
            value["isError"] = json!(true);
        }
        return output::json(&value);
    }
    if answer.is_error {
        output::note(&format!("error: {}", answer.failure()));
        return Ok(());
    }
    match (&answer.structured, &answer.text) {
        (Some(structured), _) => {
            let text = serde_json::to_string_pretty(structured).unwrap_or_default();
            output::foreign(&text)
        }
        (None, Some(text)) => output::foreign(text),
        (None, None) => Ok(()),
    }
}

fn arguments(args: &CallArgs) -> Result<Map<String, Value>, CliError> {
    let text = match args.args.as_deref() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().lock().take(MAX_STDIN_BYTES).read_to_string(&mut text)?;
            text
        }
        Some(text) => text.to_owned(),
        None => "{}".to_owned(),
    };
    let mut all = match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => object,
        Ok(_) => {
            return Err(CliError::usage("--args must be a JSON object")
                .hint("for example: --args '{\"id\": \"suite\"}'"));
        }
        Err(error) => {
            return Err(CliError::usage("--args is no JSON")
                .because(error)
                .hint("mind the shell's quotes: --args '{...}'"));
        }
    };
    for one in &args.arg {
        let (name, value) = argument(one)?;
        if all.insert(name.clone(), value).is_some() {
            return Err(CliError::usage(format!("the argument {name} is given twice")));
        }
    }
    Ok(all)
}

fn argument(text: &str) -> Result<(String, Value), CliError> {
    let bad = || CliError::usage(format!("--arg {text:?} is not KEY=VALUE"));
    let (name, value) = text.split_once('=').ok_or_else(bad)?;
    let (name, value) = match name.strip_suffix(':') {
        Some(name) => {
            let value = serde_json::from_str(value)
                .map_err(|e| CliError::usage(format!("the value of {name} is no JSON")).because(e))?;
            (name, value)
        }
        None => (name, serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))),
    };
    if name.is_empty() { Err(bad()) } else { Ok((name.to_owned(), value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_json_where_they_read_as_json() {
        let read = |text: &str| argument(text).unwrap();
        assert_eq!(read("id=suite"), ("id".into(), json!("suite")));
        assert_eq!(read("n=5"), ("n".into(), json!(5)));
        assert_eq!(read("argv=[\"a\",\"b=c\"]"), ("argv".into(), json!(["a", "b=c"])));
        assert_eq!(read("stdin=a=b"), ("stdin".into(), json!("a=b")));
        assert_eq!(read("wait:=false"), ("wait".into(), json!(false)));
        assert_eq!(read("empty="), ("empty".into(), json!("")));
        for bad in ["x", "=1", ":=1", "x:=no json"] {
            assert_eq!(argument(bad).unwrap_err().kind.exit_code(), 2, "{bad}");
        }
    }
}
