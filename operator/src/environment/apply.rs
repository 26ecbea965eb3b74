//! Step four: writes. Only what belongs to the Environment is ever changed or deleted.

pub mod anchor;
pub mod differs;
pub mod refusal;

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::build::meta;
use crate::config::FIELD_MANAGER;
use refusal::Refusal;

/// Why a child could not be written.
#[derive(Debug)]
pub enum ChildError {
    /// An object of that name belongs to somebody else.
    Foreign,
    /// The API server refuses it: a quota, an admission rule, a namespace that goes away.
    Refused(Refusal),
    /// Anything that a retry may mend.
    Api(kube::Error),
}

impl From<kube::Error> for ChildError {
    fn from(error: kube::Error) -> Self {
        refusal::of(&error).map_or(Self::Api(error), Self::Refused)
    }
}

/// Creates a child, or makes the one that is there what it should be. `live` is what the cache shows.
///
/// It is created by POST, and changed by server-side apply with its UID as a precondition: an object that somebody else
/// made in the meantime is neither taken over nor changed.
pub async fn put<K>(
    api: &Api<K>,
    desired: &K,
    live: Option<&K>,
    environment_uid: &str,
) -> Result<K, ChildError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    if let Some(live) = live {
        return change(api, desired, live, environment_uid).await;
    }
    match create(api, desired).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let live = api.get(&desired.name_any()).await?;
            change(api, desired, &live, environment_uid).await
        }
        created => Ok(created?),
    }
}

/// Creates an object.
pub async fn create<K>(api: &Api<K>, desired: &K) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let params = PostParams { dry_run: false, field_manager: Some(FIELD_MANAGER.to_owned()) };
    api.create(&params, desired).await
}

async fn change<K>(api: &Api<K>, desired: &K, live: &K, environment_uid: &str) -> Result<K, ChildError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    if !meta::is_child(live.meta(), environment_uid) {
        return Err(ChildError::Foreign);
    }
    let mut desired = desired.clone();
    desired.meta_mut().uid.clone_from(&live.meta().uid);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    Ok(api.patch(&desired.name_any(), &params, &Patch::Apply(&desired)).await?)
}

/// Deletes an object of ours, and no other of its name. One that is gone already, or that another has taken the place of,
/// is as good as deleted.
pub async fn delete<K>(api: &Api<K>, name: &str, uid: &str) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(name, &params).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        deleted => deleted.map(|_| ()),
    }
}
