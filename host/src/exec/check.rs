//! What of a command is refused before anything runs.

use std::collections::BTreeMap;
use std::time::Duration;

use cuddy_commands::exec::raw::{
    DEFAULT_TIMEOUT_SECONDS, ExecRawParams, MAX_ARGV_BYTES, MAX_TIMEOUT_SECONDS,
};
use cuddy_protocol::{CommandError, ErrorCode};

/// The most items of an argument list.
const MAX_ARGS: usize = 1024;
/// The most bytes of all variables together, names included: as much as the arguments.
const MAX_ENV_BYTES: usize = MAX_ARGV_BYTES;
/// Variables that would change which program runs or what it loads.
const REFUSED: [&str; 4] = ["PATH", "HOME", "SHELL", "IFS"];
/// The same, as beginnings of names.
const REFUSED_PREFIXES: [&str; 3] = ["LD_", "DYLD_", "ERUN_"];

/// Checks program and arguments.
pub fn argv(argv: &[String]) -> Result<(), CommandError> {
    if argv.is_empty() || argv.len() > MAX_ARGS {
        return Err(CommandError::invalid("$.argv", format!("1 to {MAX_ARGS} strings")));
    }
    if argv[0].is_empty() {
        return Err(CommandError::invalid("$.argv[0]", "the name of a program"));
    }
    if let Some(index) = argv.iter().position(|arg| arg.contains('\0')) {
        return Err(CommandError::invalid(&format!("$.argv[{index}]"), "a string without NUL"));
    }
    let bytes: usize = argv.iter().map(|arg| arg.len() + 1).sum();
    if bytes > MAX_ARGV_BYTES {
        let message =
            format!("$.argv: {bytes} bytes, and at most {MAX_ARGV_BYTES} are taken; feed more through stdin");
        return Err(CommandError::new(ErrorCode::TooLarge, message).with("path", "$.argv"));
    }
    Ok(())
}

/// Checks the variables.
pub fn variables(env: Option<&BTreeMap<String, String>>) -> Result<(), CommandError> {
    let Some(env) = env else { return Ok(()) };
    let mut bytes = 0;
    for (name, value) in env {
        bytes += name.len() + value.len() + 2;
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(CommandError::invalid(
                "$.env",
                format!("names without '=' and NUL, which {name:?} is not"),
            ));
        }
        let path = format!("$.env.{name}");
        if value.contains('\0') {
            return Err(CommandError::invalid(&path, "a string without NUL"));
        }
        if REFUSED.contains(&name.as_str()) || REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        {
            return Err(CommandError::invalid(
                &path,
                "another name: PATH, HOME, SHELL, IFS, LD_*, DYLD_* and ERUN_* are not for callers to set",
            ));
        }
    }
    if bytes > MAX_ENV_BYTES {
        let message = format!("$.env: {bytes} bytes, and at most {MAX_ENV_BYTES} are taken");
        return Err(CommandError::new(ErrorCode::TooLarge, message).with("path", "$.env"));
    }
    Ok(())
}

/// Returns the time limit of a foreground call.
pub fn timeout(seconds: Option<u64>) -> Result<Duration, CommandError> {
    match seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS) {
        seconds @ 1..=MAX_TIMEOUT_SECONDS => Ok(Duration::from_secs(seconds)),
        _ => Err(CommandError::invalid(
            "$.timeout_seconds",
            format!("1 to {MAX_TIMEOUT_SECONDS}; run what takes longer with wait=false"),
        )),
    }
}

/// Checks that a foreground call names no job.
pub fn foreground(params: &ExecRawParams) -> Result<(), CommandError> {
    for (path, given) in [("$.name", params.name.is_some()), ("$.id", params.id.is_some())] {
        if given {
            return Err(CommandError::invalid(path, "only with wait=false: a foreground call is no job"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(outcome: Result<(), CommandError>) -> Option<ErrorCode> {
        outcome.err().map(|error| error.error_code)
    }

    #[test]
    fn argument_lists_are_bounded() {
        let list = |args: &[&str]| argv(&args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
        assert_eq!(code(list(&["true"])), None);
        assert_eq!(code(list(&["true", ""])), None);
        assert_eq!(code(list(&[])), Some(ErrorCode::InvalidParams));
        assert_eq!(code(list(&[""])), Some(ErrorCode::InvalidParams));
        assert_eq!(code(list(&["a", "b\0c"])), Some(ErrorCode::InvalidParams));
        assert_eq!(code(list(&vec!["a"; 1024])), None);
        assert_eq!(code(list(&vec!["a"; 1025])), Some(ErrorCode::InvalidParams));
        assert_eq!(code(list(&["a", &"x".repeat(64 * 1024)])), Some(ErrorCode::TooLarge));
    }

    #[test]
    fn variables_that_choose_programs_are_refused() {
        let set = |name: &str, value: &str| {
            code(variables(Some(&BTreeMap::from([(name.to_owned(), value.to_owned())]))))
        };
        assert_eq!(set("CI", "1"), None);
        assert_eq!(set("PATHS", "1"), None);
        for name in [
            "PATH",
            "HOME",
            "SHELL",
            "IFS",
            "LD_PRELOAD",
            "LD_X",
            "DYLD_LIBRARY_PATH",
            "ERUN_TENANT",
            "",
            "a=b",
            "a\0",
        ] {
            assert_eq!(set(name, "x"), Some(ErrorCode::InvalidParams), "{name:?}");
        }
        assert_eq!(set("A", "b\0"), Some(ErrorCode::InvalidParams));
        assert_eq!(set("A", &"b".repeat(MAX_ENV_BYTES)), Some(ErrorCode::TooLarge));
        assert_eq!(code(variables(None)), None);
    }

    #[test]
    fn time_limits_are_refused_rather_than_cut() {
        assert_eq!(timeout(None).unwrap().as_secs(), 300);
        assert_eq!(timeout(Some(3600)).unwrap().as_secs(), 3600);
        for seconds in [0, 3601, u64::MAX] {
            assert_eq!(timeout(Some(seconds)).unwrap_err().error_code, ErrorCode::InvalidParams);
        }
    }
}
