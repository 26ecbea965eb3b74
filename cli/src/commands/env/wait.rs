//! `cuddy env wait`

use clap::Args;
use cuddy_crds::conditions::types;

use super::OneArgs;
use super::waiting::{self, Goal};
use crate::context::Context;
use crate::error::CliError;
use crate::output;

/// The arguments of `env wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    pub one: OneArgs,
    /// A condition, with =False or =Unknown for another status than True; or `stopped`, or `delete`
    #[arg(long = "for", value_name = "CONDITION", default_value = types::READY, value_parser = goal)]
    pub goal: String,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
}

fn goal(text: &str) -> Result<String, String> {
    parse(text).map(|_| text.to_owned())
}

fn parse(text: &str) -> Result<Goal, String> {
    let text = text.strip_prefix("condition=").unwrap_or(text);
    if text.eq_ignore_ascii_case("delete") {
        return Ok(Goal::Gone);
    }
    if text.eq_ignore_ascii_case("stopped") {
        return Ok(Goal::Stopped);
    }
    let (name, status) = text.split_once('=').unwrap_or((text, "True"));
    let same = |known: &&str| known.eq_ignore_ascii_case(name);
    let type_ = types::ALL
        .iter()
        .find(|k| same(k))
        .ok_or_else(|| format!("one of {}, stopped, delete", types::ALL.join(", ")))?;
    let status = ["True", "False", "Unknown"].into_iter().find(|s| s.eq_ignore_ascii_case(status));
    let status = status.ok_or("a status is True, False or Unknown")?;
    Ok(Goal::Condition { type_: (*type_).to_owned(), status: status.to_owned() })
}

pub(super) async fn run(context: &Context, args: &WaitArgs) -> Result<(), CliError> {
    let goal = parse(&args.goal).map_err(CliError::usage)?;
    let chosen = super::choose(context, &args.one).await?;
    waiting::until(&chosen, &goal, args.timeout).await?;
    output::note(&format!("Environment {}: {} reached", chosen.name, args.goal));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_written_as_kubectl_has_them_or_shorter() {
        let condition =
            |type_: &str, status: &str| Ok(Goal::Condition { type_: type_.into(), status: status.into() });
        assert_eq!(parse("Ready"), condition("Ready", "True"));
        assert_eq!(parse("condition=ready=false"), condition("Ready", "False"));
        assert_eq!(parse("delete"), Ok(Goal::Gone));
        assert_eq!(parse("Stopped"), Ok(Goal::Stopped));
        assert!(parse("Redy").unwrap_err().contains("Ready"));
        assert!(parse("Ready=maybe").is_err());
    }
}
