//! Events: what a person reads under `kubectl describe`, only on transitions that somebody can act on.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::chain::Chain;
use crate::config::FIELD_MANAGER;

/// The most bytes of a note: the API server refuses more than 1 kB.
const NOTE_MAX: usize = 1000;

/// One thing to tell. The words of reason and action are the program's own, so that nobody outside can make new ones up;
/// the note may hold words of the API server, the kubelet or a sidecar and is cleaned before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether somebody should look.
    pub kind: EventType,
    /// The transition, in PascalCase: the reason of the condition that changed.
    pub reason: &'static str,
    /// What the operator was doing, in PascalCase.
    pub action: &'static str,
    /// What happened and what to do, one or two sentences.
    pub note: String,
}

/// Publishes events. Cloning is cheap.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Returns a publisher that reports as this pod.
    pub fn new(client: kube::Client, pod_name: &str) -> Self {
        let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: Some(pod_name.to_owned()) };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// Publishes one event about an object. A failure is logged and not returned: an event that is lost must not hold up
    /// what it tells about.
    pub async fn publish(&self, regarding: &ObjectReference, notice: &Notice) {
        let event = Event {
            type_: notice.kind,
            reason: notice.reason.to_owned(),
            action: notice.action.to_owned(),
            note: Some(clean(&notice.note)),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, regarding).await {
            tracing::warn!(reason = notice.reason, error = %Chain(&error), "event not published");
        }
    }
}

/// Returns a note without control characters, cut at a character's edge.
fn clean(note: &str) -> String {
    let mut clean: String = note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.len() > NOTE_MAX {
        let ellipsis = '…';
        let end = clean.floor_char_boundary(NOTE_MAX - ellipsis.len_utf8());
        clean.truncate(end);
        clean.push(ellipsis);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock_api::MockApi;
    use proptest::prelude::*;

    #[tokio::test]
    async fn an_event_tells_about_its_object() {
        let (client, mut api) = MockApi::new();
        let events = Events::new(client, "cuddy-operator-0");
        let regarding = ObjectReference {
            kind: Some("Environment".into()),
            namespace: Some("team".into()),
            name: Some("dev".into()),
            uid: Some("u-1".into()),
            ..ObjectReference::default()
        };
        let notice = Notice {
            kind: EventType::Warning,
            reason: "ImageError",
            action: "Start",
            note: "cannot pull\r\nthe image".into(),
        };
        let publishing = tokio::spawn(async move {
            events.publish(&regarding, &notice).await;
            // The second one of a kind counts on, and one that the API server refuses holds nothing up.
            events.publish(&regarding, &notice).await;
        });
        let call = api.next().await;
        assert_eq!(call.path, "/apis/events.k8s.io/v1/namespaces/team/events");
        let event = call.echo();
        assert_eq!((&event["type"], &event["reason"]), (&"Warning".into(), &"ImageError".into()));
        assert_eq!(event["note"], "cannot pull  the image");
        assert_eq!(event["reportingController"], "cuddy-operator");
        assert_eq!(event["reportingInstance"], "cuddy-operator-0");
        let call = api.next().await;
        assert_eq!(call.method, http::Method::PATCH);
        assert_eq!(call.body["series"]["count"], 2);
        call.refuse(403, "Forbidden");
        publishing.await.unwrap();
    }

    #[test]
    fn notes_are_cut_at_a_characters_edge() {
        assert_eq!(clean("image not found\n\u{1b}[31m"), "image not found  [31m");
        let long = clean(&"é".repeat(2000));
        assert!(long.len() <= NOTE_MAX && long.ends_with('…'), "{}", long.len());
    }

    proptest! {
        #[test]
        fn no_note_is_too_long_or_moves_a_terminal(note in ".{0,2000}") {
            let clean = clean(&note);
            prop_assert!(clean.len() <= NOTE_MAX);
            prop_assert!(!clean.chars().any(char::is_control));
        }
    }
}
