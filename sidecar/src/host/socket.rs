//! Opening the host's socket (D9). Its folder is written by hostile code: the name may be a link to another socket, a
//! file, a pipe that blocks, or change at any time.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use cuddy_protocol::places::HOST_SOCKET;
use rustix::fs::{FileType, Mode, OFlags};
use tokio::net::UnixStream;

/// Connects to the socket in a folder: the name is opened once, without following a link, looked at, and connected
/// through that very handle.
pub(super) async fn connect(folder: &Path) -> io::Result<UnixStream> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let folder = rustix::fs::open(folder, flags | OFlags::DIRECTORY, Mode::empty())?;
    let name = rustix::fs::openat(&folder, HOST_SOCKET, flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&name)?.st_mode);
    if kind != FileType::Socket {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{HOST_SOCKET} is no socket but {kind:?}"),
        ));
    }
    UnixStream::connect(format!("/proc/self/fd/{}", name.as_raw_fd())).await
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn only_a_socket_of_this_folder_is_connected() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join(HOST_SOCKET);
        assert_eq!(connect(folder.path()).await.unwrap_err().kind(), io::ErrorKind::NotFound);

        let other = folder.path().join("other.sock");
        let _other = UnixListener::bind(&other).unwrap();
        symlink(&other, &name).unwrap();
        assert!(connect(folder.path()).await.is_err(), "a link is not followed");

        std::fs::remove_file(&name).unwrap();
        std::fs::write(&name, "").unwrap();
        assert!(connect(folder.path()).await.unwrap_err().to_string().contains("no socket"));

        std::fs::remove_file(&name).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(connect(folder.path()).await.is_err(), "a pipe without a reader does not block");

        std::fs::remove_file(&name).unwrap();
        let _socket = UnixListener::bind(&name).unwrap();
        assert!(connect(folder.path()).await.is_ok());
    }
}
