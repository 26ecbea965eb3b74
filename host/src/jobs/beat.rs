//! The beat of a supervisor: a line in memory, about once a second, whatever the work does.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::id::JobId;

/// The time between two beats.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// One beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// Counts from 1.
    pub seq: u64,
    /// When, in milliseconds since boot: an age is not measured with a clock that people set.
    pub boot_ms: u64,
    /// When, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The bytes printed so far.
    pub printed: u64,
    /// The supervisor, so that a beat of an earlier job of this name is told apart.
    pub pid: i32,
}

impl Beat {
    /// Returns the beat of this moment.
    pub fn now(seq: u64, printed: u64) -> Self {
        let at_ms = jiff::Timestamp::now().as_millisecond();
        Self { seq, boot_ms: boot_ms(), at_ms, printed, pid: std::process::id() as i32 }
    }

    /// Returns how old it is, in milliseconds, never less than 0.
    pub fn age_ms(&self) -> u64 {
        boot_ms().saturating_sub(self.boot_ms)
    }

    fn encode(&self) -> String {
        // Of fixed length, so that each beat covers the one before.
        let Self { seq, boot_ms, at_ms, printed, pid } = self;
        format!("{seq:020} {boot_ms:020} {at_ms:020} {printed:020} {pid:010}\n")
    }

    fn decode(text: &str) -> Option<Self> {
        let mut fields = text.strip_suffix('\n')?.split(' ');
        let mut next = || fields.next();
        Some(Self {
            seq: next()?.parse().ok()?,
            boot_ms: next()?.parse().ok()?,
            at_ms: next()?.parse().ok()?,
            printed: next()?.parse().ok()?,
            pid: next()?.parse().ok()?,
        })
    }
}

fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Returns the file of a job's beat.
pub fn path(folder: &Path, id: &JobId) -> PathBuf {
    folder.join(format!("{id}.beat"))
}

/// Returns a job's last beat, if there is one that can be read.
pub fn read(folder: &Path, id: &JobId) -> Option<Beat> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed())
        .open(path(folder, id))
        .ok()?;
    let mut bytes = [0_u8; 128];
    let len = file.read_at(&mut bytes, 0).ok()?;
    Beat::decode(std::str::from_utf8(bytes.get(..len)?).ok()?)
}

/// Writes beats. A folder that cannot be written means no beats: the work goes on.
#[derive(Debug)]
pub struct Pulse {
    file: Option<File>,
    path: PathBuf,
    last: Option<Beat>,
}

impl Pulse {
    /// Returns a pulse that has not beaten yet.
    pub fn start(folder: &Path, id: &JobId) -> Self {
        let path = path(folder, id);
        Self { file: create(&path).ok(), path, last: None }
    }

    /// Beats once.
    pub fn beat(&mut self, printed: u64) {
        let beat = Beat::now(self.last.map_or(0, |last| last.seq) + 1, printed);
        if let Some(file) = &self.file
            && file.write_all_at(beat.encode().as_bytes(), 0).is_ok()
        {
            self.last = Some(beat);
        }
    }

    /// Returns the last beat that was written.
    pub fn last(&self) -> Option<Beat> {
        self.last
    }

    /// Ends the pulse and takes its file away.
    pub fn stop(self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn create(path: &Path) -> io::Result<File> {
    // A fresh file: one that is left over may be anything.
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o660).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_count_and_are_young() {
        let dir = tempfile::tempdir().unwrap();
        let id = JobId::exact("a").unwrap();
        assert_eq!(read(dir.path(), &id), None);
        let mut pulse = Pulse::start(dir.path(), &id);
        pulse.beat(0);
        pulse.beat(77);
        let beat = read(dir.path(), &id).unwrap();
        assert_eq!((beat.seq, beat.printed, Some(beat)), (2, 77, pulse.last()));
        assert!(beat.age_ms() < 60_000);
        pulse.stop();
        assert_eq!(read(dir.path(), &id), None);
    }

    #[test]
    fn a_torn_beat_is_none() {
        let text = Beat::now(1, 2).encode();
        assert!(Beat::decode(&text).is_some());
        assert!(Beat::decode(&text[..text.len() - 1]).is_none() && Beat::decode("\n").is_none());
    }
}
