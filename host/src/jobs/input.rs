//! What a job reads: kept in memory under no name, since its caller is gone while it still reads.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;

use cuddy_protocol::{CommandError, ErrorCode};
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Takes in a job's input to its end, and returns a file of it, read from its beginning; none where there is no input. How
/// much there may be is the connection's bound.
pub async fn keep(
    text: Option<&str>,
    mut more: mpsc::UnboundedReceiver<Vec<u8>>,
    cancel: &CancellationToken,
) -> Result<Option<OwnedFd>, CommandError> {
    let mut file = None;
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        write(&mut file, text.as_bytes()).map_err(|e| refused(&e))?;
    }
    loop {
        tokio::select! {
            bytes = more.recv() => match bytes {
                Some(bytes) => write(&mut file, &bytes).map_err(|e| refused(&e))?,
                None => break,
            },
            () = cancel.cancelled() => {
                return Err(CommandError::new(ErrorCode::Cancelled, "the caller went away before the job was started"));
            }
        }
    }
    // The connection that broke off in the middle of its input ends the input, too, and is told by the token alone.
    if cancel.is_cancelled() {
        return Err(CommandError::new(
            ErrorCode::Cancelled,
            "the caller went away before the job was started",
        ));
    }
    let Some(mut file) = file else { return Ok(None) };
    file.rewind().map_err(|e| refused(&e))?;
    Ok(Some(file.into()))
}

fn write(file: &mut Option<File>, bytes: &[u8]) -> io::Result<()> {
    if file.is_none() {
        *file = Some(memfd_create(c"cuddy-job-stdin", MemfdFlags::CLOEXEC)?.into());
    }
    match file {
        Some(file) => file.write_all(bytes),
        None => Ok(()),
    }
}

fn refused(error: &io::Error) -> CommandError {
    CommandError::new(ErrorCode::Busy, format!("the job's input cannot be kept: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn all_input_is_kept_in_its_order() {
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send(b"b".repeat(100_000)).unwrap();
        sender.send(b"c".to_vec()).unwrap();
        drop(sender);
        let kept = keep(Some("a"), receiver, &CancellationToken::new()).await.unwrap().unwrap();
        let mut read = Vec::new();
        File::from(kept).read_to_end(&mut read).unwrap();
        assert_eq!((read.len(), read[0], read[1], read[100_001]), (100_002, b'a', b'b', b'c'));
    }

    #[tokio::test]
    async fn no_input_is_no_file_and_a_caller_that_leaves_starts_nothing() {
        let (sender, receiver) = mpsc::unbounded_channel();
        drop(sender);
        assert!(keep(None, receiver, &CancellationToken::new()).await.unwrap().is_none());
        let (_sender, receiver) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert_eq!(keep(None, receiver, &cancel).await.unwrap_err().error_code, ErrorCode::Cancelled);
    }
}
