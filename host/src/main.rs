//! The host program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    cuddy_host::cli::run()
}
