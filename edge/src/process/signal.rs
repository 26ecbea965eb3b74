//! The signals that end a program.

use std::io;

/// Waits for SIGTERM or SIGINT. The handlers stand when this returns, before the future is first polled, so that no early
/// signal is lost.
pub fn termination() -> io::Result<impl Future<Output = &'static str> + Send + 'static> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        })
    }
    #[cfg(not(unix))]
    {
        Ok(async {
            if let Err(error) = tokio::signal::ctrl_c().await {
                tracing::error!(%error, "waiting for an interrupt");
            }
            "interrupt"
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_signal_before_the_first_look_is_not_lost() {
        let ended = termination().unwrap();
        let sent = Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap(), "SIGTERM");
    }
}
