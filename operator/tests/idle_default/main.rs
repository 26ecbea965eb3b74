//! The shipped default, in process and under paused time: the sidecar's clock and the operator's decisions, together. No
//! shipped program has a switch for its clock, so that fifteen minutes can be waited for here alone.
//!
//! Real are the settings (of an Environment that says nothing), the variables that the operator puts into the pod for the
//! sidecar, the anchor, the bearers, the sidecar's doors and control routes, and every decision of the life cycle. Left out
//! are sockets, the API server and the network that the gate proves: they have tests of their own.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod pod;
mod settings;
mod world;

use std::time::Duration;

use clap::Parser;
use cuddy_crds::v1alpha1::StopReason;
use cuddy_operator::environment::lifecycle::{BY_OPERATOR, Fenced, Step};
use cuddy_protocol::control::FENCE_SECONDS;
use cuddy_sidecar::cli::{Cli, Verb};
use cuddy_sidecar::config::Settings;
use serde_json::json;
use tokio::time::{Instant, advance};

use pod::POD_UID;
use settings::{arguments, shipped};
use world::{GRAIN, Span, World};

#[tokio::test(start_paused = true)]
async fn nobody_works_and_it_is_stopped() {
    let mut world = World::open().await;
    let (opened, default) = (Instant::now(), shipped());
    assert!(default > Duration::ZERO);
    assert_eq!(world.run_until_deleted().await, opened + default);
    let quiesce = Step::Quiesce { if_idle_since: None };
    let record = Step::RecordStop { reason: StopReason::IdleStopped, by: BY_OPERATOR };
    let delete = Step::DeletePod { uid: POD_UID.to_owned(), failed: false };
    assert_eq!(world.outline(), [&quiesce, &record, &quiesce, &delete]);
    assert!(world.questions < 12, "{} questions in {default:?}", world.questions);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_between_begins_the_time_anew() {
    let mut world = World::open().await;
    for _ in 0..3 {
        world.run_for(shipped().saturating_sub(GRAIN)).await;
        assert_eq!(world.steps, [], "somebody called in time");
        world.pod.works().await;
    }
    world.run_for(shipped() / 2).await;
    let called = world.pod.works().await;
    called.assert_stopped(world.run_until_deleted().await, shipped());
}

#[tokio::test(start_paused = true)]
async fn looking_keeps_nothing_up() {
    let mut world = World::open().await;
    let opened = Span { began: Instant::now(), ended: Instant::now() };
    for _ in 0..3 {
        world.run_for(shipped() / 4).await;
        world.pod.call("idle", json!({})).await.unwrap();
    }
    opened.assert_stopped(world.run_until_deleted().await, shipped());
}

#[tokio::test(start_paused = true)]
async fn a_lease_holds_it_until_its_end() {
    let mut world = World::open().await;
    let held = shipped() * 3;
    let taken = world.pod.takes_lease(held).await;
    world.run_for(held).await;
    assert_eq!(world.steps, [], "it is held");
    taken.assert_stopped(world.run_until_deleted().await, held + shipped());
}

#[tokio::test(start_paused = true)]
async fn a_call_just_before_the_fence_takes_the_stop_back() {
    let mut world = World::open().await;
    world.run_until(|step| matches!(step, Step::Quiesce { .. })).await;
    let called = world.pod.works().await;
    world.go_on().await;
    assert_eq!(world.facts.quiesce, Some(Fenced::No));
    called.assert_stopped(world.run_until_deleted().await, shipped());
}

#[tokio::test(start_paused = true)]
async fn behind_the_fence_nothing_begins() {
    let mut world = World::open().await;
    world.run_until(|step| matches!(step, Step::RecordStop { .. })).await;
    assert_eq!(world.pod.refused().await, "STOPPING", "fenced, and not yet recorded");
    world.run_until(|step| matches!(step, Step::DeletePod { .. })).await;
    assert_eq!(world.pod.refused().await, "STOPPING", "recorded, and not yet deleted");
    assert_eq!(world.next(), Step::DeletePod { uid: POD_UID.to_owned(), failed: false });
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_nobody_used_ends_and_the_stop_with_it() {
    let mut world = World::open().await;
    world.run_until(|step| matches!(step, Step::DeletePod { .. })).await;
    // The operator dies before it deletes the pod; the stop is in the API.
    world.forget();
    assert!(world.facts.stop.is_some());
    advance(Duration::from_secs(FENCE_SECONDS) / 2).await;
    assert_eq!(world.pod.refused().await, "STOPPING");
    advance(Duration::from_secs(FENCE_SECONDS)).await;
    let called = world.pod.works().await;
    world.steps.clear();
    world.run_for(shipped().saturating_sub(GRAIN)).await;
    assert_eq!(world.steps, [Step::ForgetStop], "somebody works again");
    assert_eq!(world.facts.stop, None);
    called.assert_stopped(world.run_until_deleted().await, shipped());
}

#[test]
fn the_sidecar_on_its_own_has_the_same_default() {
    let folder = tempfile::tempdir().unwrap();
    let parse = |args: Vec<String>| {
        let Verb::Serve(args) = Cli::try_parse_from(args).unwrap().verb;
        Settings::parse(args).unwrap()
    };
    let alone = parse(["cuddy-sidecar", "serve", "--pod-uid=p"].map(str::to_owned).to_vec());
    let in_a_pod = parse(arguments(folder.path()));
    assert_eq!(alone.policy, in_a_pod.policy);
    assert_eq!((alone.auth, alone.gate_open), (in_a_pod.auth, in_a_pod.gate_open));
}
