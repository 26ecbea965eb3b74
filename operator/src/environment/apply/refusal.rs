//! Which of the API server's errors a person has to mend, and in whose words that is told. Pure.

use cuddy_crds::conditions::reasons;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind it is.
    pub kind: Kind,
    /// The API server's words.
    pub message: String,
}

/// Kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A ResourceQuota is used up.
    Quota,
    /// A LimitRange, Pod Security, a webhook, a policy or the API server's own validation.
    Admission,
    /// The namespace is going away: there is nothing to mend.
    NamespaceTerminating,
}

impl Kind {
    /// Returns the reason of RuntimeAvailable.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Quota => reasons::QUOTA_EXCEEDED,
            Self::Admission | Self::NamespaceTerminating => reasons::ADMISSION_REFUSED,
        }
    }
}

/// Sorts out an error.
pub fn of(error: &kube::Error) -> Option<Refusal> {
    let kube::Error::Api(status) = error else { return None };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let kind = match status.code {
        403 if causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
            || status.message.contains("because it is being terminated") =>
        {
            Kind::NamespaceTerminating
        }
        403 if status.message.contains("exceeded quota") => Kind::Quota,
        400 | 403 | 422 => Kind::Admission,
        _ => return None,
    };
    Some(Refusal { kind, message: status.message.clone() })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn kind(code: u16, message: &str) -> Option<Kind> {
        let status = Status { code, message: message.to_owned(), ..Status::default() };
        of(&kube::Error::Api(Box::new(status))).map(|refusal| refusal.kind)
    }

    #[test]
    fn refusals_are_told_from_failures() {
        for (code, message, expected) in [
            (
                403,
                "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
                Some(Kind::Quota),
            ),
            (
                403,
                "pods \"a\" is forbidden: maximum memory usage per Container is 64Mi, but limit is 2Gi",
                Some(Kind::Admission),
            ),
            (
                403,
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": x",
                Some(Kind::Admission),
            ),
            (
                403,
                "pods \"a\" is forbidden: unable to create new content in namespace n because it is being terminated",
                Some(Kind::NamespaceTerminating),
            ),
            (400, "admission webhook \"w\" denied the request: no", Some(Kind::Admission)),
            (422, "Pod \"a\" is invalid: spec.x: Invalid value", Some(Kind::Admission)),
            (409, "the object has been modified", None),
            (404, "not found", None),
            (429, "too many requests", None),
            (500, "etcdserver: request timed out", None),
            (503, "unavailable", None),
        ] {
            assert_eq!(kind(code, message), expected, "{code} {message}");
        }
    }
}
