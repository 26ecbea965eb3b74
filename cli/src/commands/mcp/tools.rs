//! `cuddy mcp tools`

use clap::Args;
use serde_json::{Value, json};

use super::AccessArgs;
use crate::args::OutputArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::exchange;
use crate::output;
use crate::reach::Wake;

/// The most pages of tools that are read.
const MAX_PAGES: usize = 100;

/// The arguments of `mcp tools`.
#[derive(Debug, Args)]
pub struct ToolsArgs {
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(super) async fn run(context: &Context, args: &ToolsArgs) -> Result<(), CliError> {
    // Looking at the list is no reason to start an environment, only to wait for one that is coming up.
    let reach = args.access.reach(context, 60).await?;
    let mut tools: Vec<Value> = Vec::new();
    let mut cursor: Option<Value> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.take().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let message = exchange::request(&reach, "tools/list", params, Wake::No).await?;
        let page = exchange::result(&message)?;
        tools.extend(page.get("tools").and_then(Value::as_array).into_iter().flatten().cloned());
        match page.get("nextCursor") {
            Some(next) if !next.is_null() => cursor = Some(next.clone()),
            _ => break,
        }
    }
    if args.output.is_json() {
        return output::json(&json!({ "tools": tools }));
    }
    let text =
        |tool: &Value, name: &str| tool.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let rows: Vec<Vec<String>> = tools
        .iter()
        .map(|tool| vec![text(tool, "name"), parameters(tool), text(tool, "description")])
        .collect();
    output::table(&["TOOL", "PARAMETERS", "WHAT IT DOES"], &rows)
}

/// Returns a tool's own parameters, required ones first and without brackets. Those that every tool takes are left out.
fn parameters(tool: &Value) -> String {
    let required: Vec<&str> = tool
        .pointer("/inputSchema/required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let common: Vec<&str> = cuddy_commands::schema::COMMON_PARAMS.iter().map(|(name, _)| *name).collect();
    let all = tool.pointer("/inputSchema/properties").and_then(Value::as_object).into_iter().flatten();
    let optional = all
        .map(|(name, _)| name.as_str())
        .filter(|name| !required.contains(name) && !common.contains(name))
        .map(|name| format!("[{name}]"));
    required.iter().map(|name| (*name).to_owned()).chain(optional).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_read_as_a_usage_line() {
        let tool = json!({ "inputSchema": {
            "properties": { "argv": {}, "cwd": {}, "tenant": {}, "environment": {} }, "required": ["argv"] } });
        assert_eq!(parameters(&tool), "argv [cwd]");
        assert_eq!(parameters(&json!({})), "");
    }
}
