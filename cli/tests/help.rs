//! Every help text, as people see it.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

use std::fmt::Write;

use clap::{Command, CommandFactory};
use cuddy::args::Cli;

fn write(command: &mut Command, path: &str, all: &mut String) {
    if command.is_hide_set() {
        return;
    }
    let title = format!("{path} {}", command.get_name());
    let title = title.trim().to_owned();
    let help = command.clone().bin_name(title.clone()).render_long_help();
    writeln!(all, "$ {title} --help\n{help}").unwrap();
    for sub in command.get_subcommands_mut() {
        write(sub, &title, all);
    }
}

#[test]
fn help_reads_as_committed() {
    let mut all = String::new();
    let mut command = Cli::command();
    command.build();
    write(&mut command, "", &mut all);
    insta::assert_snapshot!(all);
}
