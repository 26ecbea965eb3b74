//! Everything that is printed: results on stdout, words about them on stderr.
//!
//! Text that comes from a cluster or a pod is hostile to a terminal: [`clean`] takes its control characters out.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::env_vars;
use crate::error::{CliError, Kind};

/// Prints a line on stdout.
pub(crate) fn line(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints text from a pod on stdout: as it is into a pipe, without control characters onto a terminal.
pub(crate) fn foreign(text: &str) -> Result<(), CliError> {
    if io::stdout().is_terminal() { line(&clean(text)) } else { line(text) }
}

/// Prints a value as JSON on stdout.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| CliError::failed("the result cannot be written as JSON").because(e))?;
    line(&text)
}

/// Prints a value as YAML on stdout.
pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<(), CliError> {
    let text = serde_saphyr::to_string(value)
        .map_err(|e| CliError::failed(format!("the result cannot be written as YAML: {e}")))?;
    line(text.trim_end())
}

/// Prints rows beneath a head, in columns as wide as they need, two spaces apart.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> Result<(), CliError> {
    line(&columns(head, rows))
}

/// Prints a word on stderr. Never fails: nobody can be told.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", clean(text));
}

/// Reports what clap has to say, help and version included, and returns the exit code.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(Kind::Usage.exit_code()) } else { ExitCode::SUCCESS }
}

/// Reports an error on stderr and returns its exit code.
pub(crate) fn report(error: &CliError, as_json: bool) -> ExitCode {
    if error.kind != Kind::BrokenPipe {
        if as_json {
            let value = serde_json::json!({
                "error": { "kind": error.kind, "message": clean(&error.chain()), "hints": error.hints }
            });
            note(&value.to_string());
        } else {
            let head = if colour() { "\u{1b}[1;31merror\u{1b}[0m" } else { "error" };
            let _ = writeln!(io::stderr().lock(), "{head}: {}", clean(&error.chain()));
            for hint in &error.hints {
                note(&format!("hint: {hint}"));
            }
        }
    }
    ExitCode::from(error.kind.exit_code())
}

/// Sends diagnostics to stderr; errors only, unless asked for more.
pub(crate) fn start_logging(verbose: u8) {
    let default = match verbose {
        0 => "error",
        1 => "cuddy=info",
        2 => "cuddy=debug,cuddy_edge=debug",
        _ => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env(env_vars::LOG)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colour()).init();
}

/// Returns the text without what a terminal would act upon. Line ends and tabs stay.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_direction(*c))).collect()
}

/// Says whether a character turns the direction of writing, by which a text can be made to read as another one.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os(env_vars::NO_COLOR).is_none_or(|v| v.is_empty())
}

fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut all: Vec<Vec<String>> = vec![head.iter().map(|h| (*h).to_owned()).collect()];
    all.extend(
        rows.iter().map(|row| row.iter().map(|cell| clean(cell).replace(['\n', '\t'], " ")).collect()),
    );
    let width = |column: usize| {
        all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let lines = all.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need() {
        let rows = vec![vec!["dev".into(), "True".into()], vec!["a-long-name".into(), "False".into()]];
        insta::assert_snapshot!(columns(&["NAME", "READY"], &rows), @r"
        NAME         READY
        dev          True
        a-long-name  False
        ");
    }

    #[test]
    fn terminals_are_kept_from_hostile_text() {
        assert_eq!(clean("a\u{1b}]52;c;x\u{7}b\u{202e}c\r\nd\te"), "a]52;c;xbc\nd\te");
    }
}
