//! What the program ends with when it does not end well: a kind, which is the exit code (D39), a sentence, and hints.

use std::error::Error;
use std::fmt;
use std::io;

use serde::Serialize;

/// What kind of failure it was. Scripts go by the exit code; people by the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// It was tried and did not work.
    Failed,
    /// The command line or its input is wrong.
    Usage,
    /// Somebody said no: a bearer, a capability, a confirmation, a precondition.
    Refused,
    /// Nothing answers, and nothing was done.
    Unreachable,
    /// It still runs; there is no outcome yet.
    TimedOut,
    /// What became of it cannot be known.
    Unknown,
    /// The channel broke during a call and could not be made anew.
    ChannelLost,
    /// Whoever read the output has gone. No failure at all.
    BrokenPipe,
}

impl Kind {
    /// Returns the exit code (D39).
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unreachable => 4,
            Self::TimedOut => 124,
            Self::Unknown => 125,
            Self::ChannelLost => 126,
        }
    }
}

/// A failure as it is reported.
#[derive(Debug)]
pub struct CliError {
    /// The kind.
    pub kind: Kind,
    /// What went wrong, as a sentence without a full stop.
    pub message: String,
    /// What to do next, one line each.
    pub hints: Vec<String>,
    /// What lies beneath.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl CliError {
    /// Returns an error of a kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hints: Vec::new(), source: None }
    }

    /// Returns a failure.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// Returns an error of usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Returns a refusal.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    /// Returns the error that nothing answers.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unreachable, message)
    }

    /// Returns the error with a hint more.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns the error with what lies beneath it.
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the sentence and its causes, joined by colons, each said once.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut next = self.source.as_deref().map(|e| e as &dyn Error);
        while let Some(error) = next {
            let part = error.to_string();
            if !part.is_empty() && !text.contains(&part) {
                text.push_str(": ");
                text.push_str(&part);
            }
            next = error.source();
        }
        text
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CliError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        let kind = if error.kind() == io::ErrorKind::BrokenPipe { Kind::BrokenPipe } else { Kind::Failed };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_d39s() {
        let codes = [
            (Kind::Failed, 1),
            (Kind::Usage, 2),
            (Kind::Refused, 3),
            (Kind::Unreachable, 4),
            (Kind::TimedOut, 124),
            (Kind::Unknown, 125),
            (Kind::ChannelLost, 126),
            (Kind::BrokenPipe, 0),
        ];
        for (kind, code) in codes {
            assert_eq!(kind.exit_code(), code, "{kind:?}");
        }
    }

    #[test]
    fn a_chain_says_each_cause_once() {
        let inner = io::Error::other("no route");
        let error = CliError::unreachable("the cluster does not answer").because(inner);
        assert_eq!(error.chain(), "the cluster does not answer: no route");
        let twice = CliError::failed("cannot read x: no route").because(io::Error::other("no route"));
        assert_eq!(twice.chain(), "cannot read x: no route");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(error.kind.exit_code(), 0);
    }
}
