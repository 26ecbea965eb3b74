//! Binding: on all addresses, IPv4 and IPv6 in one socket, and on IPv4 alone where a machine has nothing else.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use tokio::net::TcpListener;

/// How many connections wait to be accepted.
const BACKLOG: i32 = 1024;

/// Why a listener is not there.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address} ({name})")]
pub struct ListenError {
    /// What it is for.
    pub name: &'static str,
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

impl ListenError {
    /// Says whether somebody else has the port: hostile code of the same pod may, after the sidecar ended.
    pub fn is_taken(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

/// Binds an address.
pub fn on(name: &'static str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    let bound = match bound(address) {
        Err(error) if has_no_ipv6(&error) && address.ip().is_unspecified() => {
            bound((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        other => other,
    };
    let listener = bound.and_then(|socket| TcpListener::from_std(StdListener::from(socket)));
    let listener = listener.map_err(|source| ListenError { name, address, source })?;
    match listener.local_addr() {
        Ok(address) => tracing::info!(listener = name, %address, "listening"),
        Err(source) => return Err(ListenError { name, address, source }),
    }
    Ok(listener)
}

fn has_no_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

/// "Address family not supported by protocol" on Linux; the standard library has no kind for it.
const EAFNOSUPPORT: i32 = rustix::io::Errno::AFNOSUPPORT.raw_os_error();

fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // After a restart connections of the last one are still on their way out. A port that somebody listens on is refused
    // all the same, and nobody can listen beside this socket: that would take SO_REUSEPORT on both.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn both_families_are_served_and_the_port_is_ours_alone() {
        let listener = on("test", "[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_ok());
        for address in [format!("[::]:{port}"), format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}")] {
            assert!(on("other", address.parse().unwrap()).unwrap_err().is_taken(), "{address}");
        }
    }
}
