//! The listeners and the time they live.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cuddy_edge::dispatch::MissingHandler;
use cuddy_edge::server::{ConnectionLimits, serve_plain, serve_tls};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::anchor::AnchorFolder;
use crate::assembly::{Assembly, AssemblyError};
use crate::build_info;
use crate::config::{Auth, Listen, Settings};
use crate::disk::Disk;
use crate::listen::{self, ListenError};

/// How long requests that run may go on at the end.
const DRAIN: Duration = Duration::from_secs(4);
/// How long the end may take in all: the kubelet kills after ten seconds (D10).
const END: Duration = Duration::from_secs(5);
/// The pause before an anchor that could not be read is tried again.
const ANCHOR_PAUSE: Duration = Duration::from_secs(2);
/// The pause before a full disk is looked at again.
const DISK_PAUSE: Duration = Duration::from_secs(10);

/// Why the sidecar does not run.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// A port cannot be had.
    #[error("listen")]
    Listen(#[from] ListenError),
    /// A part cannot be made.
    #[error("put the parts together")]
    Assembly(#[from] AssemblyError),
    /// Commands and handlers do not go together.
    #[error("put commands and handlers together")]
    Commands(#[from] MissingHandler),
}

impl AppError {
    /// Says whether a port is taken by somebody else.
    pub fn is_port_taken(&self) -> bool {
        matches!(self, Self::Listen(error) if error.is_taken())
    }
}

/// The listeners, bound.
struct Listeners {
    tls: Option<TcpListener>,
    control: Option<TcpListener>,
    probe: Option<TcpListener>,
    metrics: Option<TcpListener>,
    plain: Option<TcpListener>,
}

impl Listeners {
    /// Binds all at once: in a pod this happens before the runtime container exists.
    fn bind(listen: &Listen) -> Result<Self, ListenError> {
        let on = |name, address: Option<SocketAddr>| address.map(|at| listen::on(name, at)).transpose();
        Ok(Self {
            tls: on("tls", listen.tls)?,
            control: on("control", listen.control)?,
            probe: on("probe", listen.probe)?,
            metrics: on("metrics", listen.metrics)?,
            plain: on("plain", listen.plain)?,
        })
    }
}

/// Serves until the token is cancelled.
pub async fn run(settings: Settings, shutdown: CancellationToken) -> Result<(), AppError> {
    let listeners = Listeners::bind(&settings.listen)?;
    let parts = Assembly::new(settings)?;
    let tasks = TaskTracker::new();
    let known = Arc::new(OnceLock::new());
    if let Some(listener) = listeners.metrics {
        let router = parts.admin(Arc::clone(&known));
        tasks.spawn(serve_plain(listener, router, limits(), shutdown.clone()));
    }
    if let Some(listener) = listeners.probe {
        let (gate, shutdown) = (Arc::clone(parts.gate()), shutdown.clone());
        let until = async move {
            tokio::select! {
                () = gate.opened() => {}
                () = shutdown.cancelled() => {}
            }
        };
        tasks.spawn(parts.probe().clone().listen(listener, until));
    }
    tasks.spawn(Arc::clone(parts.watch()).watch_until(shutdown.clone()));
    tasks.spawn(look_after_disk(Arc::clone(parts.disk()), shutdown.clone()));

    let read = shutdown.run_until_cancelled(anchor_of(parts.settings())).await;
    if let Some(folder) = read {
        let anchor = parts.put_in_force(folder.document).await;
        let _ = known.set(Arc::clone(&anchor));
        let doors = parts.doors(&anchor)?;
        if let Some(listener) = listeners.control {
            let router = parts.control(&anchor);
            tasks.spawn(serve_tls(listener, Arc::clone(&folder.tls), router, limits(), shutdown.clone()));
        }
        if let Some(listener) = listeners.tls.filter(|_| parts.settings().auth == Auth::Bearer) {
            tasks.spawn(serve_tls(listener, folder.tls, doors.clone(), limits(), shutdown.clone()));
        }
        if let Some(listener) = listeners.plain {
            tasks.spawn(serve_plain(listener, doors, limits(), shutdown.clone()));
        }
        tracing::info!(scope = %anchor.scope(), build = build_info::build(), "serving");
        shutdown.cancelled().await;
    }
    tasks.close();
    let ending = async {
        tasks.wait().await;
        parts.audit().flush().await
    };
    match tokio::time::timeout(END, ending).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the end of the audit trail"),
        Err(_) => tracing::warn!("not everything ended in time"),
    }
    Ok(())
}

fn limits() -> ConnectionLimits {
    ConnectionLimits { drain: DRAIN, ..ConnectionLimits::default() }
}

/// Reads the anchor until it can be understood. Meanwhile the ports are held, and nobody is served.
async fn anchor_of(settings: &Settings) -> AnchorFolder {
    loop {
        let folder = settings.anchor_dir.clone();
        match tokio::task::spawn_blocking(move || AnchorFolder::read(&folder)).await {
            Ok(Ok(read)) => return read,
            Ok(Err(error)) => {
                tracing::error!(error = crate::text::chain(&error), "no anchor: nobody is served");
            }
            Err(error) => tracing::error!(%error, "no anchor: nobody is served"),
        }
        tokio::time::sleep(ANCHOR_PAUSE).await;
    }
}

async fn look_after_disk(disk: Arc<Disk>, shutdown: CancellationToken) {
    let looking = async {
        loop {
            tokio::time::sleep(DISK_PAUSE).await;
            if disk.is_full() {
                let disk = Arc::clone(&disk);
                let _ = tokio::task::spawn_blocking(move || disk.prepare()).await;
            }
        }
    };
    shutdown.run_until_cancelled(looking).await;
}
