//! What a reconcile fails at. What a person has to mend is an outcome and no error.

use crate::identity::IdentityError;

/// Why a reconcile ended early. It is tried again after the Environment's back-off.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The anchor Secret.
    #[error("failed to read the anchor Secret")]
    ReadAnchor(#[source] kube::Error),
    /// The Environment, read again before its pod goes.
    #[error("failed to read the Environment again")]
    ReadEnvironment(#[source] kube::Error),
    /// A child other than the pod.
    #[error("failed to apply the {kind}")]
    ApplyChild {
        /// Its kind.
        kind: &'static str,
        /// Why.
        #[source]
        source: kube::Error,
    },
    /// The pod.
    #[error("failed to create the pod")]
    CreatePod(#[source] kube::Error),
    /// The pod.
    #[error("failed to delete the pod")]
    DeletePod(#[source] kube::Error),
    /// The status.
    #[error("failed to write the status")]
    WriteStatus(#[source] kube::Error),
    /// A serving certificate.
    #[error("failed to issue a serving certificate")]
    IssueCertificate(#[source] IdentityError),
    /// An object cannot be written as JSON.
    #[error("failed to write a child as JSON")]
    Serialize(#[source] serde_json::Error),
    /// The Environment changed since it was read, in a way that matters to what was about to be done.
    #[error("the Environment changed meanwhile")]
    Changed,
    /// A watch was given up: the process ends.
    #[error("the caches are gone")]
    Caches,
}

impl ReconcileError {
    /// Returns the kind for a metric.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::ReadAnchor(_) | Self::ReadEnvironment(_) => "read",
            Self::ApplyChild { .. } => "apply_child",
            Self::CreatePod(_) => "create_pod",
            Self::DeletePod(_) => "delete_pod",
            Self::WriteStatus(_) => "write_status",
            Self::IssueCertificate(_) | Self::Serialize(_) => "build",
            Self::Changed => "changed",
            Self::Caches => "caches",
        }
    }
}
