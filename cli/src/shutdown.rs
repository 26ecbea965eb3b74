//! The signals that end the program: Ctrl-C, TERM, a terminal that went away.

use crate::error::CliError;

/// Waits for the first of them.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    streams: [tokio::signal::unix::Signal; 3],
}

/// Catches them from now on.
pub(crate) fn signals() -> Result<Signals, CliError> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let streams = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        Ok(Signals { streams })
    }
    #[cfg(not(unix))]
    Ok(Signals {})
}

impl Signals {
    /// Returns when one of them came.
    pub(crate) async fn recv(&mut self) {
        #[cfg(unix)]
        {
            let [interrupt, terminate, hangup] = &mut self.streams;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
