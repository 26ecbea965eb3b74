//! Events: told once, when a condition comes to a reason that a person can act on or has waited for. Pure.

use cuddy_crds::conditions::{self, reasons, types};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::EventType;

use crate::events::Notice;

/// What is told, by condition: its reasons, whether somebody should look, and what the operator was doing.
const TOLD: [(&str, &[&str], EventType, &str); 8] = [
    (types::READY, &[reasons::INVALID, reasons::DEGRADED], EventType::Warning, "Reconcile"),
    (types::READY, &[reasons::RUNNING], EventType::Normal, "Start"),
    (
        types::ANCHORED,
        &[reasons::NO_KEYS, reasons::BAD_KEY, reasons::KEY_SOURCE_MISSING, reasons::NAME_CONFLICT],
        EventType::Warning,
        "Anchor",
    ),
    (
        types::NETWORK_ISOLATED,
        &[
            reasons::NOT_ENFORCED,
            reasons::CANARY_UNREACHABLE,
            reasons::FOREIGN_POLICY,
            reasons::REPORTED,
            reasons::NAME_CONFLICT,
            reasons::REFUSED,
        ],
        EventType::Warning,
        "Isolate",
    ),
    (types::WORKSPACE_BOUND, &[reasons::REFUSED, reasons::NAME_CONFLICT], EventType::Warning, "Bind"),
    (
        types::RUNTIME_AVAILABLE,
        &[
            reasons::IMAGE_ERROR,
            reasons::CRASH_LOOP,
            reasons::UNSCHEDULABLE,
            reasons::QUOTA_EXCEEDED,
            reasons::ADMISSION_REFUSED,
            reasons::NAME_CONFLICT,
            reasons::PORT_TAKEN,
            reasons::NODE_LOST,
        ],
        EventType::Warning,
        "Start",
    ),
    (types::SUSPENDED, &[reasons::MAX_BUSY], EventType::Warning, "Stop"),
    (types::SUSPENDED, &[reasons::USER_STOPPED, reasons::IDLE_STOPPED], EventType::Normal, "Stop"),
];

/// Returns what is to be told of a change. A reason that stays is told once, whatever happens to its message.
pub(super) fn of(before: &[Condition], after: &[Condition]) -> Vec<Notice> {
    TOLD.iter()
        .filter_map(|(type_, told, kind, action)| {
            let now = conditions::find(after, type_)?;
            let was = conditions::find(before, type_).map(|condition| condition.reason.as_str());
            let reason = told.iter().find(|reason| **reason == now.reason)?;
            (was != Some(reason)).then(|| Notice {
                kind: *kind,
                reason,
                action,
                note: if now.message.is_empty() { format!("{type_}: {reason}") } else { now.message.clone() },
            })
        })
        .collect()
}
