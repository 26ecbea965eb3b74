//! Leases: taken, renewed, given back, reclaimed; kept on the volume, so that they outlive a stop.
//!
//! A change is decided and written under one lock and becomes visible only once it is durable.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cuddy_protocol::host::RunningJob;
use cuddy_protocol::lease::{CEILING_SECONDS, DEFAULT_TTL_SECONDS, Lease};
use cuddy_protocol::{CommandError, ErrorCode};
use futures::future::BoxFuture;
use tokio::sync::Mutex;

use crate::activity::Activity;
use crate::clock::Moment;
use crate::idle::{HeldLease, Proof};
use crate::store::{Loaded, Store, StoreError};
use crate::text;

pub mod book;
pub mod handlers;
pub mod params;

use book::{Book, Take};

/// The file within the state folder.
const FILE: &str = "leases.json";
/// The version of that file.
const VERSION: u32 = 1;
/// How long the host may take to tell which holders still live, all of them together.
const RECLAIM_TIME: Duration = Duration::from_secs(1);

/// Tells processes of the runtime container apart. What it says is hostile: it can give back a lease that a process
/// holds, and no other.
pub trait Processes: Send + Sync {
    /// Returns the identity of a process, or nothing when there is none of this number.
    fn identity(&self, pid: i32) -> BoxFuture<'_, Result<Option<String>, CommandError>>;
}

/// Whether the file can be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Good,
    /// The file cannot be understood. It may hold leases, but none beyond this moment.
    Damaged {
        until: Moment,
    },
    Newer {
        version: u32,
    },
    /// The folder cannot be read.
    Unreadable,
}

struct State {
    book: Book,
    condition: Condition,
}

/// The leases of the environment.
pub struct Leases {
    activity: Arc<Activity>,
    processes: Arc<dyn Processes>,
    store: Store,
    state: Mutex<State>,
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Leases {
    /// Loads the leases from the state folder. A file that cannot be understood is kept, and no lease can be changed until
    /// none that it may hold can be in force any more. Blocks.
    pub fn load(folder: &Path, activity: Arc<Activity>, processes: Arc<dyn Processes>) -> Self {
        let store = Store::new(folder.join(FILE), VERSION);
        let now = activity.clock().now();
        let (book, condition) = match store.load::<Book>() {
            Ok(Loaded::Absent) => (Book::default(), Condition::Good),
            Ok(Loaded::Good(book)) => (book, Condition::Good),
            Ok(Loaded::Damaged { modified }) => {
                let until = modified.min(now) + Duration::from_secs(CEILING_SECONDS);
                tracing::error!(path = %store.path().display(), %until, "leases that cannot be read");
                (Book::default(), Condition::Damaged { until })
            }
            Ok(Loaded::Newer { version }) => {
                tracing::error!(path = %store.path().display(), version, "leases of a later version");
                (Book::default(), Condition::Newer { version })
            }
            Err(error) => {
                tracing::error!(error = text::chain(&error), "leases that cannot be read");
                (Book::default(), Condition::Unreadable)
            }
        };
        let leases = Self { activity, processes, store, state: Mutex::new(State { book, condition }) };
        if let Ok(state) = leases.state.try_lock() {
            leases.publish(&state);
        }
        leases
    }

    /// Says whether leases can be changed, for the metrics.
    pub async fn is_sound(&self) -> bool {
        self.state.lock().await.condition == Condition::Good
    }

    /// Takes or renews a lease; returns it and all that are held.
    pub async fn take(&self, take: Take) -> Result<(Lease, Vec<Lease>), CommandError> {
        self.reclaim().await;
        let mut state = self.writable().await?;
        let mut book = state.book.clone();
        let lease = book.take(self.activity.clock().now(), take)?;
        self.commit(&mut state, book).await?;
        Ok((lease, self.list_of(&state)))
    }

    /// Gives a lease back; returns all that are still held. One that is not there is no error.
    pub async fn release(&self, id: &str, holder: &str) -> Result<Vec<Lease>, CommandError> {
        self.reclaim().await;
        if self.job_leases().iter().any(|lease| lease.id == id) {
            let message = format!("{id} belongs to a running job: end it with exec_job_cancel");
            return Err(CommandError::new(ErrorCode::Forbidden, message));
        }
        let mut state = self.writable().await?;
        let mut book = state.book.clone();
        if book.release(self.activity.clock().now(), id, holder)? {
            self.commit(&mut state, book).await?;
        }
        Ok(self.list_of(&state))
    }

    /// Returns all leases in force, those of running jobs among them.
    pub async fn list(&self) -> Vec<Lease> {
        self.reclaim().await;
        let state = self.state.lock().await;
        self.list_of(&state)
    }

    /// Drops the leases of keys that are no longer trusted (D41). `trusts` is asked with issuer and thumbprint.
    pub async fn revoke(&self, trusts: impl Fn(&str, &str) -> bool) {
        self.drop_where("keys that are no longer trusted", |lease| {
            let issuer = lease.holder.split('#').next().unwrap_or_default();
            lease.kid.as_ref().is_some_and(|kid| !trusts(issuer, kid))
        })
        .await;
    }

    /// Drops what has expired, and what belongs to a process that is gone. While the host cannot be asked, leases stay.
    pub async fn reclaim(&self) {
        let now = self.activity.clock().now();
        let held: Vec<(i32, String)> = {
            let state = self.state.lock().await;
            state.book.holders().collect()
        };
        let mut dead = BTreeSet::new();
        let asking = async {
            for (pid, identity) in held {
                match self.processes.identity(pid).await {
                    Ok(found) if found.as_ref() != Some(&identity) => {
                        dead.insert(identity);
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        };
        // Time that is up leaves the answers so far; the rest is asked the next time.
        let _ = tokio::time::timeout(RECLAIM_TIME, asking).await;
        self.drop_where("dead holders or expired", |lease| {
            lease.expires <= now || lease.identity.as_ref().is_some_and(|identity| dead.contains(identity))
        })
        .await;
    }

    async fn drop_where(&self, why: &str, gone: impl Fn(&book::Held) -> bool) {
        let mut state = self.state.lock().await;
        self.heal(&mut state);
        if state.condition != Condition::Good {
            return;
        }
        let mut book = state.book.clone();
        let count = book.drop_where(gone);
        if count == 0 {
            return;
        }
        if let Err(error) = self.commit(&mut state, book.clone()).await {
            // They are gone all the same: on a full disk a dead holder must not keep the environment up. After a restart
            // they are found dead again.
            tracing::warn!(%error, count, why, "leases dropped in memory alone");
            state.book = book;
            self.publish(&state);
        }
    }

    async fn writable(&self) -> Result<tokio::sync::MutexGuard<'_, State>, CommandError> {
        let mut state = self.state.lock().await;
        self.heal(&mut state);
        let path = self.store.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let message = match &state.condition {
            Condition::Good => return Ok(state),
            Condition::Damaged { until } => format!(
                "the leases cannot be read ({path} is damaged); they can be changed again at {until}, when none of \
                 them can be in force any more"
            ),
            Condition::Newer { version } => format!(
                "the leases were written by a later version ({path} has version {version}): use that version"
            ),
            Condition::Unreadable => format!("the leases cannot be read ({path}): see the sidecar's log"),
        };
        Err(CommandError::new(ErrorCode::PreconditionFailed, message))
    }

    /// Leaves a damaged file behind once nothing in it can be in force.
    fn heal(&self, state: &mut State) {
        let now = self.activity.clock().now();
        if let Condition::Damaged { until } = state.condition
            && until <= now
        {
            match self.store.set_aside(now) {
                Ok(path) => {
                    tracing::warn!(path = %path.display(), "damaged leases set aside");
                    state.condition = Condition::Good;
                }
                Err(error) => tracing::error!(error = text::chain(&error), "damaged leases"),
            }
        }
    }

    /// Writes the book, and only then puts it in force.
    async fn commit(&self, state: &mut State, book: Book) -> Result<(), CommandError> {
        let store = self.store.clone();
        let written = tokio::task::spawn_blocking(move || store.save(&book).map(|()| book)).await;
        match written {
            Ok(Ok(book)) => {
                state.book = book;
                self.publish(state);
                Ok(())
            }
            Ok(Err(error)) => Err(not_written(&error)),
            Err(_) => Err(CommandError::new(ErrorCode::Internal, "the lease could not be written")),
        }
    }

    fn publish(&self, state: &State) {
        let mut held: Vec<HeldLease> = state.book.held().collect();
        if let Condition::Damaged { until } = state.condition {
            held.push(HeldLease {
                id: "unreadable".to_owned(),
                name: "leases that cannot be read".to_owned(),
                holder: "cuddy-sidecar".to_owned(),
                until,
                proof: Proof::Bearer,
            });
        }
        self.activity.leases_are(held);
    }

    fn list_of(&self, state: &State) -> Vec<Lease> {
        let now = self.activity.clock().now();
        let mut all: Vec<Lease> = state.book.list(now).collect();
        all.extend(self.job_leases());
        all
    }

    fn job_leases(&self) -> Vec<Lease> {
        let (now, verdict) = self.activity.verdict();
        verdict.jobs.iter().map(|job| job_lease(job, now)).collect()
    }
}

/// Returns the lease that a running job holds (seed): it is renewed as long as the job runs.
fn job_lease(job: &RunningJob, now: Moment) -> Lease {
    let started = job
        .started_at
        .parse::<jiff::Timestamp>()
        .ok()
        .map_or(now, |t| Moment::from_millis(t.as_millisecond()));
    Lease {
        id: format!("{}{}", params::JOB_PREFIX, text::one_line(&job.id, text::NAME)),
        name: text::one_line(&job.name, text::NAME),
        pid: Some(job.pid),
        started_at: started.min(now).to_string(),
        renewed_at: Some(now.to_string()),
        expires_at: (now + Duration::from_secs(DEFAULT_TTL_SECONDS)).to_string(),
        scope: None,
        exclusive: false,
        holder: "job".to_owned(),
    }
}

fn not_written(error: &StoreError) -> CommandError {
    tracing::error!(error = text::chain(error), "lease not written");
    if error.is_full() {
        return CommandError::new(
            ErrorCode::DiskFull,
            "no space is left for the lease: delete something first",
        );
    }
    CommandError::new(ErrorCode::Internal, "the lease could not be written: nothing has changed")
}

#[cfg(test)]
mod tests;
