//! A job's record as it stands on the disk: what callers read, and what tells its supervisor from every other process.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cuddy_protocol::job::{JobRecord, JobState, OUTPUT_LIMIT_BYTES, UnknownReasonKind};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::durable::{self, Reserve};
use super::id::JobId;
use crate::process::{Identity, Place};

/// The version of [`StoredJob`] that this build writes; a newer one is kept and reported.
pub const VERSION: u32 = 1;
/// The largest record, in bytes: 64 KiB of arguments, JSON-escaped at worst, and the rest.
const MAX_BYTES: u64 = 1024 * 1024;
/// What a record may grow by until its end: child, times, a reason.
const ROOM_FOR_THE_END: u64 = 8 * 1024;

/// The file's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredJob {
    /// Always [`VERSION`].
    pub version: u32,
    /// The supervisor.
    pub supervisor: Identity,
    /// Where its pid counts.
    pub place: Place,
    /// How many processes had been ended for want of memory when it started, where that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// What callers read.
    pub job: JobRecord,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// A record.
    Job(Box<StoredJob>),
    /// Something that is none; it is never deleted and never taken for a success.
    Damaged(String),
}

/// Returns the file of a record.
pub fn path(folder: &Path, id: &JobId) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// Returns the file of a job's output.
pub fn log_path(folder: &Path, id: &JobId) -> PathBuf {
    folder.join(format!("{id}.log"))
}

/// Opens a file of the folder for reading; one that is no plain file (a pipe would block, a link leads elsewhere) is refused.
pub fn open_plain(path: &Path) -> io::Result<std::fs::File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a plain file")) }
}

/// Reads a record.
///
/// Errors: only that the file cannot be read for a reason of the system's; what is in it never is one.
pub fn read(folder: &Path, id: &JobId) -> io::Result<Option<Stored>> {
    let file = match open_plain(&path(folder, id)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Ok(Some(Stored::Damaged(error.to_string()))),
    };
    let mut bytes = Vec::new();
    if file.take(MAX_BYTES + 1).read_to_end(&mut bytes)? as u64 > MAX_BYTES {
        return Ok(Some(Stored::Damaged(format!("larger than {MAX_BYTES} bytes"))));
    }
    Ok(Some(decode(&bytes, id)))
}

fn decode(bytes: &[u8], id: &JobId) -> Stored {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    match serde_json::from_slice::<Versioned>(bytes) {
        Ok(Versioned { version }) if version != VERSION => {
            return Stored::Damaged(format!("of version {version}; this build reads version {VERSION}"));
        }
        Ok(_) => {}
        Err(error) => return Stored::Damaged(error.to_string()),
    }
    match serde_json::from_slice::<StoredJob>(bytes) {
        Ok(stored) if stored.job.id == id.as_str() => Stored::Job(Box::new(stored)),
        Ok(_) => Stored::Damaged("of another job".to_owned()),
        Err(error) => Stored::Damaged(error.to_string()),
    }
}

impl StoredJob {
    /// Writes the record durably.
    pub fn write(&self, folder: &Path, id: &JobId) -> io::Result<()> {
        durable::write(&path(folder, id), &self.encode()?)
    }

    /// Takes room for the record at the end of the job.
    pub fn reserve(&self, folder: &Path, id: &JobId) -> io::Result<Reserve> {
        Reserve::make(&path(folder, id), self.encode()?.len() as u64 + ROOM_FOR_THE_END)
    }

    /// Returns the file's content.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec_pretty(self)?)
    }
}

/// Returns what callers read of a record that cannot be read.
pub fn damaged(folder: &Path, id: &JobId, why: &str, modified: jiff::Timestamp) -> JobRecord {
    JobRecord {
        id: id.to_string(),
        name: id.to_string(),
        kind: "command".to_owned(),
        state: JobState::Unknown,
        command: Vec::new(),
        dir: String::new(),
        pid: 0,
        child_pid: None,
        started_at: modified.to_string(),
        ended_at: None,
        exit_code: None,
        signal: None,
        reason: Some(format!("the record of this job cannot be read ({why}); it is kept as it is")),
        unknown_reason_kind: Some(UnknownReasonKind::RecordDamaged),
        log_path: log_path(folder, id).display().to_string(),
        output_bytes: 0,
        output_limit_bytes: OUTPUT_LIMIT_BYTES,
        output_truncated: false,
        lease_id: format!("job-{id}"),
        last_alive_at: None,
        alive_seq: None,
        alive_age_ms: None,
    }
}
