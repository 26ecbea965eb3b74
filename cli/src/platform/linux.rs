//! Linux: `/proc` and rustix.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal, setsid};

use super::{Holder, Process};

pub(super) const KNOWS_HOLDERS: bool = true;

/// The signals that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Terminate,
    Kill,
}

pub(super) fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Field 22 of `/proc/<pid>/stat`: clock ticks since boot.
pub(super) fn started(pid: u32) -> Option<u64> {
    stat(pid)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// Sends a signal to this very process, and says whether it was there: the descriptor holds on to it, so a number that
/// has been given to another process in between is noticed.
pub(super) fn signal(process: Process, signal: Signal) -> bool {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return false };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    if !process.is_alive() {
        return false;
    }
    let signal = match signal {
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    pidfd_send_signal(handle, signal).is_ok()
}

pub(super) fn holder(port: u16) -> Option<Holder> {
    let (uid, inode) = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .find_map(|table| listener(&table, port))?;
    let own = fs::metadata("/proc/self").ok().map(|m| m.uid());
    let pid = (own == Some(uid) || own == Some(0)).then(|| owner_of_socket(inode)).flatten();
    Some(Holder { pid, name: pid.and_then(name) })
}

pub(super) fn new_session() {
    // Fails only for a group's leader, which then has no terminal to lose.
    let _ = setsid();
}

pub(super) fn stdout_is_closed() -> bool {
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(_) => fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL),
        Err(_) => false,
    }
}

pub(super) fn inherited_file(path: &Path) -> Option<File> {
    let file = File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let (own, wanted) = (file.metadata().ok()?, fs::metadata(path).ok()?);
    (own.dev() == wanted.dev() && own.ino() == wanted.ino()).then_some(file)
}

pub(super) fn inheritable_file(file: File) -> Stdio {
    file.into()
}

/// Returns what follows the name in `/proc/<pid>/stat`; the name may hold blanks and parentheses.
fn stat(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')').map(|(_, rest)| rest.to_owned())
}

fn state(pid: u32) -> Option<char> {
    stat(pid)?.trim_start().chars().next()
}

/// Finds a listener in `/proc/net/tcp`: its uid and its socket's inode.
fn listener(table: &str, port: u16) -> Option<(u32, u64)> {
    const LISTEN: &str = "0A";
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let matches = u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == LISTEN;
        matches.then(|| Some((fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?)))?
    })
}

fn owner_of_socket(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        descriptors
            .filter_map(Result::ok)
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|target| target.as_os_str() == wanted.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let found = holder(port).unwrap();
        assert_eq!(found.pid, Some(std::process::id()));
        assert_eq!(found.name, name(std::process::id()));
        drop(socket);
        assert_eq!(holder(port), None);
    }

    #[test]
    fn only_listeners_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:4268 00000000:0000 01 00000000:00000000 00:00000000 00000000  1000        0 111 1\n\
             1: 0100007F:4268 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 222 1\n";
        assert_eq!(listener(table, 17000), Some((1000, 222)));
        assert_eq!(listener(table, 17001), None);
        assert_eq!(listener("head\ngarbage\n", 1), None);
    }

    #[test]
    fn a_process_is_known_by_number_and_start() {
        let own = Process::find(std::process::id()).unwrap();
        assert!(own.is_alive());
        let reused = Process { started: own.started.map(|s| s + 1), ..own };
        assert!(
            !reused.is_alive(),
            "a process of the same number that was started at another time is another one"
        );
        assert!(!signal(reused, Signal::Terminate));
    }

    #[tokio::test]
    async fn a_process_that_will_not_end_is_ended() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "trap '' TERM; echo up; while :; do sleep 1; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut up = [0; 2];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(process.end(std::time::Duration::from_millis(100)).await);
        assert!(!process.is_alive());
        child.wait().unwrap();
    }
}
