//! Handles of jobs, which are file names too.

use std::fmt;

use cuddy_protocol::CommandError;
use serde::{Deserialize, Serialize};

/// The most characters of a handle.
pub const MAX_LEN: usize = 100;

/// A handle: letters, digits, `.`, `_` and `-`, the first of them a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// Returns the handle that a text is, letter by letter.
    pub fn exact(text: &str) -> Option<Self> {
        let begins_well = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        let fits = begins_well && text.len() <= MAX_LEN && text.bytes().all(allowed);
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns the handle that a caller gave. It is refused rather than changed: two handles that differ are never one job.
    pub fn given(text: &str) -> Result<Self, CommandError> {
        Self::exact(text).ok_or_else(|| {
            let expected =
                format!("1 to {MAX_LEN} letters, digits, '.', '_' and '-', the first a letter or a digit");
            CommandError::invalid("$.id", expected)
        })
    }

    /// Returns the handle made from a name: every character that a handle cannot hold becomes `-`.
    pub fn from_name(path: &str, name: &str) -> Result<Self, CommandError> {
        let text: String = name
            .trim()
            .chars()
            .map(|c| if u8::try_from(c).is_ok_and(allowed) { c } else { '-' })
            .skip_while(|c| !c.is_ascii_alphanumeric())
            .take(MAX_LEN)
            .collect();
        Self::exact(&text).ok_or_else(|| CommandError::invalid(path, "at least one letter or digit (ASCII)"))
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
    fn a_name_becomes_a_handle() {
        let made = |text| JobId::from_name("$.name", text).map(String::from).ok();
        assert_eq!(made("suite").as_deref(), Some("suite"));
        assert_eq!(made(" my job/ü ").as_deref(), Some("my-job--"));
        assert_eq!(made("../../etc").as_deref(), Some("etc"));
        assert_eq!(made(".."), None);
        assert_eq!(made(""), None);
        assert_eq!(made("///"), None);
        assert_eq!(made(&"x".repeat(200)).unwrap().len(), MAX_LEN);
        assert_eq!(JobId::exact(&"x".repeat(100)).unwrap().numbered(12).as_str().len(), MAX_LEN);
    }

    #[test]
    fn a_given_handle_is_taken_as_it_is_or_not_at_all() {
        for text in ["a", "0", "a.b_c-d", &"x".repeat(100)] {
            assert_eq!(JobId::given(text).unwrap().as_str(), text);
        }
        for text in ["", ".a", "-a", "_a", "a b", " a", "a/b", "..", "ü", "a\n", "a\0", &"x".repeat(101)] {
            let error = JobId::given(text).unwrap_err();
            assert_eq!(error.error_code, cuddy_protocol::ErrorCode::InvalidParams, "{text:?}");
            assert!(error.message.contains("$.id"), "{}", error.message);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_given_names_a_file_in_the_folder(text in ".{0,150}") {
            for id in [JobId::from_name("$.name", &text), JobId::given(&text)].into_iter().flatten() {
                prop_assert!(JobId::exact(id.as_str()).is_some());
                prop_assert!(!id.as_str().contains('/') && id.as_str() != ".." && id.as_str() != ".");
            }
        }
    }
}
