//! An error with its causes on one line. Errors here tell their own level only, and logs in JSON print no causes.

use std::error::Error;
use std::fmt;

/// Displays an error, then its causes, separated by colons.
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(inner) = cause {
            write!(f, ": {inner}")?;
            cause = inner.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::StoreError;

    #[test]
    fn causes_follow_their_error() {
        let io = std::io::Error::other("no such luck");
        let error = StoreError::Api { action: "read", source: kube::Error::Service(io.into()) };
        assert_eq!(
            Chain(&error).to_string(),
            "failed to read the Secret cuddy-operator-identity: ServiceError: no such luck: no such luck"
        );
    }
}
