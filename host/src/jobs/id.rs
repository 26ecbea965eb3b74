//! Handles of jobs, which are file names too.

use std::fmt;

use cuddy_protocol::CommandError;
use serde::{Deserialize, Serialize};

/// The most characters of a handle.
pub const MAX_LEN: usize = 100;

/// A handle: letters, digits, `.`, `_` and `-`, no leading dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// Returns the handle that a text is, letter by letter.
    pub fn exact(text: &str) -> Option<Self> {
        let fits =
            !text.is_empty() && text.len() <= MAX_LEN && !text.starts_with('.') && text.bytes().all(allowed);
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns the handle made from what a caller gave: every other character becomes `-`.
    pub fn sanitised(path: &str, text: &str) -> Result<Self, CommandError> {
        let text: String = text
            .trim()
            .chars()
            .map(|c| if u8::try_from(c).is_ok_and(allowed) { c } else { '-' })
            .take(MAX_LEN)
            .collect();
        Self::exact(text.trim_start_matches('.'))
            .filter(|id| id.0.bytes().any(|b| b.is_ascii_alphanumeric()))
            .ok_or_else(|| {
                CommandError::invalid(path, "letters, digits, '.', '_' and '-', at least one letter or digit")
            })
    }

    /// Returns the handle with a number, for a second job of the same program.
    pub fn numbered(&self, number: usize) -> Self {
        let suffix = format!("-{number}");
        let stem: String = self.0.chars().take(MAX_LEN - suffix.len()).collect();
        Self(stem + &suffix)
    }

    /// Returns the handle as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

impl TryFrom<String> for JobId {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::exact(&text).ok_or(text)
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn handles_are_file_names() {
        let made = |text| JobId::sanitised("$.id", text).map(String::from).ok();
        assert_eq!(made("suite").as_deref(), Some("suite"));
        assert_eq!(made(" my job/ü ").as_deref(), Some("my-job--"));
        assert_eq!(made("../../etc").as_deref(), Some("-..-etc"));
        assert_eq!(made(".."), None);
        assert_eq!(made(""), None);
        assert_eq!(made("///"), None);
        assert_eq!(made(&"x".repeat(200)).unwrap().len(), MAX_LEN);
        assert_eq!(JobId::exact(&"x".repeat(100)).unwrap().numbered(12).as_str().len(), MAX_LEN);
    }

    proptest! {
        #[test]
        fn whatever_is_given_names_a_file_in_the_folder(text in ".{0,150}") {
            if let Ok(id) = JobId::sanitised("$.id", &text) {
                prop_assert!(JobId::exact(id.as_str()).is_some());
                prop_assert!(!id.as_str().contains('/') && id.as_str() != ".." && id.as_str() != ".");
            }
        }
    }
}
