//! The rules of leases, pure: moments in, decisions out.

use std::collections::BTreeMap;
use std::time::Duration;

use cuddy_protocol::lease::{
    CEILING_SECONDS, DEFAULT_EXCLUSIVE_TTL_SECONDS, DEFAULT_SCOPE, DEFAULT_TTL_SECONDS, Lease,
};
use cuddy_protocol::{CommandError, ErrorCode};
use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::idle::{HeldLease, Proof};

/// The most leases at once: a list of them still fits into one answer.
pub const MAX_LEASES: usize = 256;
/// The most of them that callers without a bearer hold, so that there is always room for the others.
pub const MAX_UNPROVED: usize = 64;

/// A lease as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// What people see.
    pub name: String,
    /// The process whose death gives it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// That process's identity, which no later process of the same number has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// When it began.
    pub started: Moment,
    /// When it was last renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed: Option<Moment>,
    /// When it ends by itself.
    pub expires: Moment,
    /// What an exclusive claim covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Issuer and subject.
    pub holder: String,
    /// The thumbprint of the key behind it; none for the environment itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
}

impl Held {
    fn proof(&self) -> Proof {
        if self.kid.is_some() { Proof::Bearer } else { Proof::None }
    }

    fn shown(&self, id: &str) -> Lease {
        Lease {
            id: id.to_owned(),
            name: self.name.clone(),
            pid: self.pid,
            started_at: self.started.to_string(),
            renewed_at: self.renewed.map(|at| at.to_string()),
            expires_at: self.expires.to_string(),
            scope: self.scope.clone(),
            exclusive: self.scope.is_some(),
            holder: self.holder.clone(),
        }
    }
}

/// What somebody wants to hold. Parsed and allowed already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// The handle, sanitised.
    pub id: String,
    /// What people see.
    pub name: String,
    /// The holder process and its identity.
    pub process: Option<(i32, String)>,
    /// Whether the scope is claimed; absent keeps what a renewed lease has.
    pub exclusive: Option<bool>,
    /// The scope.
    pub scope: Option<String>,
    /// How long.
    pub ttl: Option<Duration>,
    /// Issuer and subject, from the bearer.
    pub holder: String,
    /// The thumbprint of the key.
    pub kid: Option<String>,
}

/// All leases.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Book(BTreeMap<String, Held>);

impl Book {
    /// Takes a lease, or renews the one of this id if the same holder has it.
    ///
    /// # Errors
    /// `CONFLICT` names who holds the id or the scope; `BUSY` when there are too many; `INVALID_PARAMS` for a scope that
    /// nobody claims.
    pub fn take(&mut self, now: Moment, take: Take) -> Result<Lease, CommandError> {
        self.drop_where(|lease| lease.expires <= now);
        let known = self.0.get(&take.id);
        if let Some(known) = known
            && known.holder != take.holder
        {
            return Err(held_by(&take.id, known, &format!("the lease {}", take.id)));
        }
        let exclusive = take.exclusive.unwrap_or_else(|| known.is_some_and(|lease| lease.scope.is_some()));
        if take.scope.is_some() && !exclusive {
            return Err(CommandError::invalid("$.scope", "only together with exclusive: true"));
        }
        let scope = exclusive.then(|| {
            let kept = known.and_then(|lease| lease.scope.clone());
            take.scope.or(kept).unwrap_or_else(|| DEFAULT_SCOPE.to_owned())
        });
        if let Some(scope) = &scope
            && let Some((id, other)) =
                self.0.iter().find(|(id, l)| **id != take.id && l.scope.as_ref() == Some(scope))
        {
            return Err(held_by(id, other, &format!("the scope {scope}")));
        }
        if known.is_none() {
            self.check_room(take.kid.is_none())?;
        }
        let default = if exclusive { DEFAULT_EXCLUSIVE_TTL_SECONDS } else { DEFAULT_TTL_SECONDS };
        let ttl = take.ttl.unwrap_or_else(|| Duration::from_secs(default));
        let started = known.map_or(now, |lease| lease.started);
        let process = take.process.or_else(|| known.and_then(|l| l.pid.zip(l.identity.clone())));
        let (pid, identity) = process.unzip();
        let lease = Held {
            name: take.name,
            pid,
            identity,
            started,
            renewed: known.map(|_| now),
            expires: (now + ttl).min(started + Duration::from_secs(CEILING_SECONDS)),
            scope,
            holder: take.holder,
            kid: take.kid,
        };
        let shown = lease.shown(&take.id);
        self.0.insert(take.id, lease);
        Ok(shown)
    }

    /// Gives a lease back; says whether there was one.
    ///
    /// # Errors
    /// `FORBIDDEN` when somebody else holds it.
    pub fn release(&mut self, now: Moment, id: &str, holder: &str) -> Result<bool, CommandError> {
        self.drop_where(|lease| lease.expires <= now);
        match self.0.get(id) {
            Some(lease) if lease.holder != holder => {
                let message =
                    format!("the lease {id} is held by {}: only its holder gives it back", lease.holder);
                Err(CommandError::new(ErrorCode::Forbidden, message).with("holder", lease.holder.clone()))
            }
            Some(_) => Ok(self.0.remove(id).is_some()),
            None => Ok(false),
        }
    }

    /// Drops leases; returns how many.
    pub fn drop_where(&mut self, gone: impl Fn(&Held) -> bool) -> usize {
        let before = self.0.len();
        self.0.retain(|_, lease| !gone(lease));
        before - self.0.len()
    }

    /// Returns the holder processes and their identities, each once.
    pub fn holders(&self) -> impl Iterator<Item = (i32, String)> {
        let all: BTreeMap<String, i32> =
            self.0.values().filter_map(|l| l.identity.clone().zip(l.pid)).collect();
        all.into_iter().map(|(identity, pid)| (pid, identity))
    }

    /// Returns the leases in force as callers see them.
    pub fn list(&self, now: Moment) -> impl Iterator<Item = Lease> {
        self.0.iter().filter(move |(_, lease)| lease.expires > now).map(|(id, lease)| lease.shown(id))
    }

    /// Returns the leases as the idle clock sees them.
    pub fn held(&self) -> impl Iterator<Item = HeldLease> {
        self.0.iter().map(|(id, lease)| HeldLease {
            id: id.clone(),
            name: lease.name.clone(),
            holder: lease.holder.clone(),
            until: lease.expires,
            proof: lease.proof(),
        })
    }

    fn check_room(&self, unproved: bool) -> Result<(), CommandError> {
        let without_bearer = self.0.values().filter(|l| l.proof() == Proof::None).count();
        let (count, max) = if unproved { (without_bearer, MAX_UNPROVED) } else { (self.0.len(), MAX_LEASES) };
        if count >= max || self.0.len() >= MAX_LEASES {
            let message = format!("{count} leases are held, at most {max}: give some back first");
            return Err(CommandError::new(ErrorCode::Busy, message));
        }
        Ok(())
    }
}

fn held_by(id: &str, lease: &Held, what: &str) -> CommandError {
    let message = format!("{what} is held by {} as {:?} until {}", lease.holder, lease.name, lease.expires);
    CommandError::new(ErrorCode::Conflict, message)
        .with("holder", lease.holder.clone())
        .with("id", id)
        .with("expiresAt", lease.expires.to_string())
}
