//! One line per event on stderr, which is the container's log.

use std::fmt::Display;
use std::io::Write;

/// Writes one line; a log that cannot be written is no reason to fail.
pub fn line(message: impl Display) {
    let text = format!("{} cuddy-host[{}]: {message}\n", jiff::Timestamp::now(), std::process::id());
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
