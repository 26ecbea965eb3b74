//! Waiting until an environment is up, and waking it where that is allowed.

use std::time::Duration;

use cuddy_crds::{Environment, labels};
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::json;

use super::availability::{self, Availability, Up, Why};
use super::{Notice, ReachError, Wake};
use crate::cluster::ClusterError;

/// What is asked for.
pub(crate) struct Request<'a> {
    /// The cluster.
    pub(crate) client: &'a Client,
    /// The Environment's namespace.
    pub(crate) namespace: &'a str,
    /// The Environment's name.
    pub(crate) name: &'a str,
    /// Whether it may be started.
    pub(crate) wake: Wake,
    /// How long it may take.
    pub(crate) timeout: Duration,
}

/// Waits until the environment is up. One that is up already costs one request.
pub(crate) async fn until_up(request: &Request<'_>, notice: Notice<'_>) -> Result<Up, ReachError> {
    let api: Api<Environment> = Api::namespaced(request.client.clone(), request.namespace);
    let action = format!("get Environment {} of namespace {}", request.name, request.namespace);
    let first = api.get_opt(request.name).await.map_err(ClusterError::request(action))?;
    let first = first.ok_or_else(|| not_found(request))?;
    let mut last = Why::default();
    if let Some(up) = step(request, &api, &first, &mut last, notice).await? {
        return Ok(up);
    }
    let mut watch = std::pin::pin!(watcher::watch_object(api.clone(), request.name).default_backoff());
    let watched = async {
        while let Some(seen) = watch.next().await {
            match seen {
                Ok(Some(environment)) => {
                    if let Some(up) = step(request, &api, &environment, &mut last, notice).await? {
                        return Ok(up);
                    }
                }
                Ok(None) => return Err(not_found(request)),
                // The watch is taken up again by itself, later and later.
                Err(error) => tracing::info!(%error, "the watch of the Environment broke off"),
            }
        }
        Err(not_found(request))
    };
    match tokio::time::timeout(request.timeout, watched).await {
        Ok(result) => result,
        Err(_) => Err(ReachError::NotReady {
            name: request.name.to_owned(),
            seconds: request.timeout.as_secs(),
            reason: last.reason,
            message: last.message,
        }),
    }
}

/// Gives the Environment a wake id that it has not seen.
pub(crate) async fn ask(api: &Api<Environment>, name: &str) -> Result<(), ClusterError> {
    annotate(api, name, labels::WAKE).await
}

/// Writes a new opaque id into an annotation.
pub(crate) async fn annotate(
    api: &Api<Environment>,
    name: &str,
    annotation: &str,
) -> Result<(), ClusterError> {
    let id = uuid::Uuid::new_v4().to_string();
    let patch = json!({ "metadata": { "annotations": { annotation: id } } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(ClusterError::request(format!("annotate Environment {name}")))?;
    Ok(())
}

async fn step(
    request: &Request<'_>,
    api: &Api<Environment>,
    environment: &Environment,
    last: &mut Why,
    notice: Notice<'_>,
) -> Result<Option<Up>, ReachError> {
    let name = request.name.to_owned();
    let tell = |last: &mut Why, why: Why| {
        if *last != why {
            notice(&format!(
                "environment {} is not ready yet ({}): {}",
                request.name, why.reason, why.message
            ));
            *last = why;
        }
    };
    match availability::of(environment) {
        Availability::Up(up) => return Ok(Some(up)),
        Availability::Coming(why) => tell(last, why),
        Availability::Asleep(why) if request.wake == Wake::Yes => {
            ask(api, request.name).await?;
            notice(&format!("waking environment {} ({})", request.name, why.reason));
        }
        Availability::Asleep(why) => return Err(ReachError::Stopped { name, reason: why.reason }),
        Availability::Held => {
            return Err(ReachError::Held { name, namespace: request.namespace.to_owned() });
        }
        Availability::Broken(why) => {
            return Err(ReachError::Broken { name, reason: why.reason, message: why.message });
        }
    }
    Ok(None)
}

fn not_found(request: &Request<'_>) -> ReachError {
    ReachError::NotFound { name: request.name.to_owned(), namespace: request.namespace.to_owned() }
}
