//! Looking at the host: what runs there, and whether it answers. Often while something goes on, seldom otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::HostClient;
use crate::activity::Activity;
use crate::build_info;
use crate::leases::Leases;
use crate::proved::Proved;

/// The pace while something runs or was called of late.
const LIVELY: Duration = Duration::from_secs(5);
/// The pace while nothing goes on: a job that the agent started by itself is noticed this late.
const QUIET: Duration = Duration::from_secs(30);
/// The pace while the host does not answer.
const DOWN: Duration = Duration::from_secs(1);
/// The shortest time between two looks, however much is called.
const GAP: Duration = Duration::from_secs(1);
/// For how long an answer to `hello` counts: probes come every second, and their port is open to everybody.
const HELLO_AGE: Duration = Duration::from_millis(500);

/// The watch.
#[derive(Debug)]
pub struct HostWatch {
    host: Arc<HostClient>,
    activity: Arc<Activity>,
    leases: Arc<Leases>,
    proved: Arc<Proved>,
    up: AtomicBool,
    looked: Mutex<Option<Instant>>,
    greeted: Mutex<Option<(Instant, bool)>>,
}

impl HostWatch {
    /// Returns a watch that has not looked yet.
    pub fn new(
        host: Arc<HostClient>,
        activity: Arc<Activity>,
        leases: Arc<Leases>,
        proved: Arc<Proved>,
    ) -> Arc<Self> {
        Arc::new(Self {
            host,
            activity,
            leases,
            proved,
            up: AtomicBool::new(false),
            looked: Mutex::default(),
            greeted: Mutex::default(),
        })
    }

    /// Returns the idle clock that is told.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Says whether the host answered when it was last looked at.
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// Looks now, unless somebody has looked within `age`. What cannot be seen stays as it was last seen.
    pub async fn look(&self, age: Duration) {
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at| at.elapsed() < age) {
            return;
        }
        match self.host.activity().await {
            Ok(seen) => {
                self.activity.host_seen(seen);
                if !self.up.swap(true, Ordering::Relaxed) {
                    tracing::info!("the host answers");
                }
            }
            Err(error) => {
                if self.up.swap(false, Ordering::Relaxed) {
                    tracing::warn!(%error, "the host does not answer");
                }
            }
        }
        *looked = Some(Instant::now());
    }

    /// Looks now and reclaims leases, within `time`: a host that hangs must not keep the operator waiting. What cannot be
    /// seen in time stays as it was last seen.
    pub async fn look_within(&self, time: Duration) {
        let looking = async {
            self.look(Duration::ZERO).await;
            self.leases.reclaim().await;
        };
        let _ = tokio::time::timeout(time, looking).await;
    }

    /// Says whether a host of this very build answers `hello`.
    pub async fn greets(&self) -> bool {
        let mut greeted = self.greeted.lock().await;
        if let Some((at, answer)) = *greeted
            && at.elapsed() < HELLO_AGE
        {
            return answer;
        }
        let answer = match self.host.hello().await {
            Ok(hello) if hello.build == build_info::build() => true,
            Ok(hello) => {
                let theirs = crate::text::one_line(&hello.build, 100);
                tracing::error!(theirs, ours = build_info::build(), "the host is of another build");
                false
            }
            Err(_) => false,
        };
        *greeted = Some((Instant::now(), answer));
        answer
    }

    /// Looks again and again until cancelled.
    pub async fn watch_until(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            self.look(Duration::ZERO).await;
            self.leases.reclaim().await;
            self.proved.keep(&self.activity).await;
            let pace = match (self.is_up(), self.activity.is_lively()) {
                (false, _) => DOWN,
                (true, true) => LIVELY,
                (true, false) => QUIET,
            };
            let next = async {
                tokio::time::sleep(GAP).await;
                let _ = tokio::time::timeout(pace.saturating_sub(GAP), self.activity.stirred()).await;
            };
            tokio::select! {
                () = next => {}
                () = shutdown.cancelled() => return,
            }
        }
    }
}
