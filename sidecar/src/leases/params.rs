//! Parameters of the lease commands: bounded, sanitised, allowed.

use std::time::Duration;

use cuddy_commands::activity::lease_take::{ActivityLeaseTakeParams, LONG_LEASE_SECONDS};
use cuddy_edge::caller::Caller;
use cuddy_protocol::lease::CEILING_SECONDS;
use cuddy_protocol::{Capability, CommandError, ErrorCode};

use super::book::Take;
use crate::clock::Moment;
use crate::text;

/// How ids of running jobs' leases start; nobody takes one.
pub const JOB_PREFIX: &str = "job-";
/// How fresh the bearer of a long lease must be, in seconds (D41).
const FRESH_SECONDS: i64 = 60;

/// Returns the id that a text stands for: the same text gives the same id wherever it is given.
pub fn lease_id(path: &str, text: &str) -> Result<String, CommandError> {
    let kept = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    let lower = text.trim().to_lowercase();
    let id: String = lower.chars().map(|c| if kept(c) { c } else { '-' }).take(text::NAME).collect();
    let id = id.trim_matches(['-', '.']);
    if id.is_empty() {
        return Err(CommandError::invalid(path, "at least one letter or digit of ASCII"));
    }
    Ok(id.to_owned())
}

fn one_line(path: &str, text: &str) -> Result<String, CommandError> {
    let length = text.chars().count();
    if length == 0 || length > text::NAME || text::one_line(text, text::NAME) != text {
        return Err(CommandError::invalid(path, "1 to 100 characters, without control characters"));
    }
    Ok(text.to_owned())
}

/// Returns what the caller wants to hold, if it may; the process is looked up by `identity` in the caller's stead.
pub fn parse(params: ActivityLeaseTakeParams, caller: &Caller) -> Result<(Take, Option<i32>), CommandError> {
    let name = one_line("$.name", &params.name)?;
    let (path, source) = params.id.as_ref().map_or(("$.name", &name), |id| ("$.id", id));
    let id = lease_id(path, source)?;
    if id.starts_with(JOB_PREFIX) {
        return Err(CommandError::invalid(
            path,
            "an id that does not start with job-, which running jobs have",
        ));
    }
    if params.ttl_seconds.is_some_and(|ttl| !(1..=CEILING_SECONDS).contains(&ttl)) {
        return Err(CommandError::invalid("$.ttlSeconds", format!("1 to {CEILING_SECONDS}")));
    }
    if params.ttl_seconds.is_some_and(|ttl| ttl > LONG_LEASE_SECONDS) {
        check_long(caller, Moment::wall())?;
    }
    if params.pid.is_some_and(|pid| pid < 1) {
        return Err(CommandError::invalid("$.pid", "a process id, 1 or more"));
    }
    let take = Take {
        id,
        name,
        process: None,
        exclusive: params.exclusive,
        scope: params.scope.map(|scope| one_line("$.scope", &scope)).transpose()?,
        ttl: params.ttl_seconds.map(Duration::from_secs),
        holder: caller.owner(),
        kid: caller.kid.clone(),
    };
    Ok((take, params.pid))
}

/// A lease over an hour costs money unseen: it wants admin, and a bearer that was just made (D41).
fn check_long(caller: &Caller, now: Moment) -> Result<(), CommandError> {
    let forbidden = |message: &str| Err(CommandError::new(ErrorCode::Forbidden, message));
    if !caller.is_bearer() {
        return forbidden("a lease over 3600 seconds wants a bearer: take a shorter one and renew it");
    }
    if !caller.capabilities.allows(Capability::Admin) {
        return forbidden("a lease over 3600 seconds wants erun:admin: take a shorter one and renew it");
    }
    let age = now.as_millis() / 1000 - caller.issued_at;
    if age > FRESH_SECONDS {
        return forbidden("a lease over 3600 seconds wants a bearer issued within the last 60 seconds");
    }
    Ok(())
}
