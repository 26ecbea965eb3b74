//! Keys that come and go while the sidecar runs.

use cuddy_protocol::anchor::TrustedKey;
use http::StatusCode;
use serde_json::json;

use crate::support::ask::{ask, mcp_request};
use crate::support::identity::{Identity, Signer};
use crate::support::pod::Pod;

const ANCHOR: &str = "/control/v1/anchor";

async fn status(pod: &Pod, who: &Signer) -> StatusCode {
    ask(&pod.doors, mcp_request("version", &json!({}), &who.bearer())).await.status
}

#[tokio::test]
async fn a_push_changes_who_gets_in_and_answers_what_is_loaded() {
    let pod = Pod::open().await;
    let (first, second) = (pod.identity.user.clone(), Signer::new());
    assert_eq!(status(&pod, &second).await, StatusCode::UNAUTHORIZED);
    pod.call("activity_lease_take", json!({ "name": "first" })).await.unwrap();
    let keys = [second.trusted()];
    let answer = pod.operator(ANCHOR, Some(json!({ "generation": 2, "keys": keys }))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body, json!({ "generation": 2, "keys": [second.trusted().kid] }));
    assert_eq!(status(&pod, &first).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&pod, &second).await, StatusCode::OK);
    let report = pod.report().await;
    assert_eq!((report.anchor_generation, report.keys), (2, vec![second.trusted().kid]));
    assert_eq!(report.leases, [], "a key's leases go with it");
}

#[tokio::test]
async fn a_bad_push_changes_nothing() {
    let pod = Pod::open().await;
    let user = pod.identity.user.clone();
    let bad = TrustedKey { public_key: "hush".to_owned(), ..Signer::new().trusted() };
    let answer = pod.operator(ANCHOR, Some(json!({ "generation": 2, "keys": [user.trusted(), bad] }))).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(!answer.body.to_string().contains("hush"), "{answer:?}");
    let answer = pod.operator(ANCHOR, Some(json!({ "generation": 0, "keys": [] }))).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(status(&pod, &user).await, StatusCode::OK);
    assert_eq!(pod.report().await.anchor_generation, 1);
}

#[tokio::test]
async fn no_keys_let_nobody_in() {
    let pod = Pod::open().await;
    let answer = pod.operator(ANCHOR, Some(json!({ "generation": 2, "keys": [] }))).await;
    assert_eq!(answer.body, json!({ "generation": 2, "keys": [] }));
    assert_eq!(status(&pod, &pod.identity.user).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn an_older_anchor_stays_closed_until_the_operator_pushes() {
    let pod = Pod::open().await;
    let user = pod.identity.user.clone();
    pod.operator(ANCHOR, Some(json!({ "generation": 7, "keys": [user.trusted()] }))).await;
    // Started again with the Secret of generation 1.
    let pod = pod.restart().await;
    assert!(pod.anchor.is_closed());
    assert_eq!(status(&pod, &user).await, StatusCode::SERVICE_UNAVAILABLE);
    let ready = http::Request::get("/readyz").body(axum::body::Body::empty()).unwrap();
    assert_eq!(ask(&pod.admin, ready).await.body, "waiting for: anchor, host\n");
    let answer = pod.operator(ANCHOR, Some(json!({ "generation": 7, "keys": [user.trusted()] }))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(status(&pod, &user).await, StatusCode::OK);
}

#[tokio::test]
async fn keys_that_are_none_close_the_doors_and_not_the_operator() {
    let identity = Identity::new();
    let mut document = identity.document(1);
    document.keys[0].kid = "another".to_owned();
    let pod = Pod::with(tempfile::tempdir().unwrap(), identity, document).await;
    pod.open_gate().await;
    let user = pod.identity.user.clone();
    assert_eq!(status(&pod, &user).await, StatusCode::SERVICE_UNAVAILABLE);
    pod.operator(ANCHOR, Some(json!({ "generation": 1, "keys": [user.trusted()] }))).await;
    assert_eq!(status(&pod, &user).await, StatusCode::OK);
}
