//! Ed25519 public keys as text: PEM, SubjectPublicKeyInfo (RFC 8410).

/// What the base64 of every such key begins with: the algorithm's header, 12 of its 44 bytes.
pub const SPKI_PREFIX: &str = "MCowBQYDK2VwAyEA";
/// The most characters that a key has, surrounding space included.
pub const MAX_LENGTH: usize = 512;

/// The shape that the API server demands (RE2), the header and the length of the key included.
pub const PEM_PATTERN: &str =
    r"^\s*-----BEGIN PUBLIC KEY-----\s+MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=\s+-----END PUBLIC KEY-----\s*$";

/// Why a text is not an Ed25519 public key. Tells nothing of the text itself: it may be somebody's private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// It is a private key.
    #[error("it is a private key; put the public key there, and replace this one, since it has been shown")]
    Private,
    /// It is a certificate.
    #[error("it is a certificate; take the Ed25519 public key alone")]
    Certificate,
    /// It is a key of another kind.
    #[error("it is not an Ed25519 key; RSA and EC keys are not accepted")]
    OtherAlgorithm,
    /// It is no PEM of a public key.
    #[error("it is not an Ed25519 public key in PEM (what `cuddy key show` prints)")]
    Malformed,
}

/// Returns the key in its one canonical form: three lines and a final newline.
pub fn canonical(text: &str) -> Result<String, KeyError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(KeyError::Empty);
    }
    if text.len() > MAX_LENGTH {
        return Err(classify(text));
    }
    let body = text
        .strip_prefix("-----BEGIN PUBLIC KEY-----")
        .and_then(|rest| rest.strip_suffix("-----END PUBLIC KEY-----"))
        .ok_or_else(|| classify(text))?;
    if !body.starts_with(char::is_whitespace) || !body.ends_with(char::is_whitespace) {
        return Err(KeyError::Malformed);
    }
    let body = body.trim();
    let key = body.strip_prefix(SPKI_PREFIX).ok_or_else(|| classify(text))?;
    let (digits, padding) = key.split_at_checked(43).ok_or(KeyError::Malformed)?;
    let base64 = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    // The last digit carries four bits of the key and two that must be zero.
    let last_is_canonical = digits.bytes().last().is_some_and(|b| b"AEIMQUYcgkosw048".contains(&b));
    if padding != "=" || !digits.bytes().all(base64) || !last_is_canonical {
        return Err(KeyError::Malformed);
    }
    Ok(format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n"))
}

fn classify(text: &str) -> KeyError {
    if text.contains("PRIVATE KEY") {
        KeyError::Private
    } else if text.contains("BEGIN CERTIFICATE") {
        KeyError::Certificate
    } else if text.contains("BEGIN PUBLIC KEY")
        || text.contains("BEGIN RSA PUBLIC KEY")
        || text.starts_with("ssh-rsa")
    {
        KeyError::OtherAlgorithm
    } else {
        KeyError::Malformed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const GOOD: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    #[test]
    fn one_form_for_every_spelling() {
        assert_eq!(canonical(GOOD).unwrap(), GOOD);
        assert_eq!(canonical(&GOOD.replace('\n', "\r\n")).unwrap(), GOOD);
        assert_eq!(canonical(&format!("\n  {GOOD}\n")).unwrap(), GOOD);
    }

    #[test]
    fn others_are_told_apart() {
        let rsa = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----";
        for (text, error) in [
            ("", KeyError::Empty),
            (" \n", KeyError::Empty),
            ("hello", KeyError::Malformed),
            (rsa, KeyError::OtherAlgorithm),
            ("-----BEGIN RSA PUBLIC KEY-----\nMIIB\n-----END RSA PUBLIC KEY-----", KeyError::OtherAlgorithm),
            ("-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----", KeyError::Private),
            ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", KeyError::Certificate),
        ] {
            assert_eq!(canonical(text), Err(error), "{text}");
        }
        assert_eq!(canonical(&GOOD.replace("ZuE=", "ZuF=")), Err(KeyError::Malformed), "stray bits");
        assert_eq!(canonical(&GOOD.replace("ZuE=", "Zu=")), Err(KeyError::Malformed), "too short");
        assert_eq!(canonical(&GOOD.replace("ZuE=", "Z*E=")), Err(KeyError::Malformed), "no base64");
        assert_eq!(canonical(&GOOD.replace("ZuE=", "ZuEéE=")), Err(KeyError::Malformed), "no ASCII");
    }
}
