//! The folder of records: read, reconcile, list, sweep.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use cuddy_protocol::job::{JobRecord, JobState, RETENTION_SECONDS, UnknownReasonKind};
use cuddy_protocol::{CommandError, ErrorCode};
use jiff::Timestamp;

use super::id::JobId;
use super::record::{self, Stored, StoredJob};
use super::{MAX_RECORDS, beat};
use crate::process::Place;
use crate::usage::cgroup;

/// The most bytes of a command that a list shows per job; asking for the one job shows all.
const LIST_COMMAND_BYTES: usize = 2048;
/// How often finished jobs are looked through, as long as there is room.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// The records of one environment.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    beats: PathBuf,
    here: Place,
    /// When each finished record was written: those are not read again only to learn that they do not run.
    finished: Mutex<HashMap<JobId, SystemTime>>,
    swept: Mutex<Option<Instant>>,
    /// Held while a job is demoted: of two readers one decides, and the other reads what it wrote.
    demoting: Mutex<()>,
}

impl Store {
    /// Returns the store, its folders made where they are missing.
    pub fn open(folder: PathBuf, beats: PathBuf) -> Self {
        for path in [&folder, &beats] {
            if let Err(error) = fs::create_dir_all(path) {
                crate::log::line(format_args!("make {}: {error}", path.display()));
            }
        }
        Self {
            folder,
            beats,
            here: Place::here(),
            finished: Mutex::default(),
            swept: Mutex::default(),
            demoting: Mutex::default(),
        }
    }

    /// Returns the folder of the records, made anew where somebody removed it.
    pub fn folder(&self) -> &Path {
        let _ = fs::create_dir_all(&self.folder);
        &self.folder
    }

    /// Returns the folder of the beats.
    pub fn beats(&self) -> &Path {
        &self.beats
    }

    /// Returns a job as callers read it, reconciled with what lives.
    pub fn get(&self, id: &JobId) -> Result<JobRecord, CommandError> {
        self.find(id)?.ok_or_else(|| not_found(id))
    }

    /// Returns the stored record of a job that runs, and the job as callers read it.
    pub fn get_stored(&self, id: &JobId) -> Result<(Option<StoredJob>, JobRecord), CommandError> {
        match self.reconciled(id).map_err(|e| unreadable(&e))? {
            None => Err(not_found(id)),
            Some(Stored::Damaged(why)) => Ok((None, self.damaged(id, &why))),
            Some(Stored::Job(stored)) => {
                let job = self.present(id, &stored);
                Ok(((job.state == JobState::Running).then_some(*stored), job))
            }
        }
    }

    /// Returns a job as callers read it, if there is one.
    pub fn find(&self, id: &JobId) -> Result<Option<JobRecord>, CommandError> {
        Ok(match self.reconciled(id).map_err(|e| unreadable(&e))? {
            None => None,
            Some(Stored::Damaged(why)) => Some(self.damaged(id, &why)),
            Some(Stored::Job(stored)) => Some(self.present(id, &stored)),
        })
    }

    /// Returns every job, newest first, long commands cut.
    pub fn list(&self) -> Result<Vec<JobRecord>, CommandError> {
        self.sweep()?;
        let mut jobs = Vec::new();
        for id in self.ids()?.into_iter().take(MAX_RECORDS) {
            jobs.extend(self.find(&id)?.map(|mut job| {
                shorten(&mut job.command);
                job
            }));
        }
        jobs.sort_by(|a, b| started(b).cmp(&started(a)).then_with(|| a.id.cmp(&b.id)));
        Ok(jobs)
    }

    /// Returns the jobs that run.
    pub fn running(&self) -> Result<Vec<JobRecord>, CommandError> {
        let mut running = Vec::new();
        for id in self.ids()? {
            let modified = self.modified(&id);
            let known = self.finished.lock().is_ok_and(|finished| finished.get(&id).copied() == modified);
            if known && modified.is_some() {
                continue;
            }
            match self.find(&id)? {
                Some(job) if job.state == JobState::Running => running.push(job),
                // A demotion has changed the file since; the next look remembers it.
                Some(_) => {
                    if let (Some(modified), Ok(mut finished)) = (modified, self.finished.lock()) {
                        finished.insert(id, modified);
                    }
                }
                None => {}
            }
        }
        Ok(running)
    }

    /// Removes finished jobs whose time is over, and the oldest beyond the bound. What cannot be read is never removed.
    /// Returns how many records are left.
    pub fn sweep(&self) -> Result<usize, CommandError> {
        let ids = self.ids()?;
        if let Ok(mut swept) = self.swept.lock() {
            if ids.len() < MAX_RECORDS && swept.is_some_and(|at| at.elapsed() < SWEEP_INTERVAL) {
                return Ok(ids.len());
            }
            *swept = Some(Instant::now());
        }
        let now = Timestamp::now();
        let mut left = ids.len();
        let mut finished: Vec<(Timestamp, JobId)> = Vec::new();
        for id in ids {
            let Ok(Some(Stored::Job(stored))) = self.reconciled(&id) else { continue };
            let job = stored.job;
            if job.state == JobState::Running {
                continue;
            }
            let ended = job
                .ended_at
                .as_deref()
                .and_then(|at| at.parse().ok())
                .unwrap_or_else(|| started(&job).unwrap_or(now));
            if now.as_second() - ended.as_second() > RETENTION_SECONDS {
                left -= usize::from(self.remove(&id));
            } else {
                finished.push((ended, id));
            }
        }
        finished.sort();
        for (_, id) in finished {
            if left < MAX_RECORDS {
                break;
            }
            left -= usize::from(self.remove(&id));
        }
        if let Ok(mut known) = self.finished.lock() {
            known.retain(|id, _| record::path(&self.folder, id).exists());
        }
        Ok(left)
    }

    /// Removes a finished job.
    pub fn remove(&self, id: &JobId) -> bool {
        let _ = fs::remove_file(record::log_path(&self.folder, id));
        fs::remove_file(record::path(&self.folder, id)).is_ok()
    }

    fn ids(&self) -> Result<Vec<JobId>, CommandError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter_map(|name| JobId::exact(name.strip_suffix(".json")?)).collect())
    }

    fn modified(&self, id: &JobId) -> Option<SystemTime> {
        fs::symlink_metadata(record::path(&self.folder, id)).ok()?.modified().ok()
    }

    /// Returns the record, demoted where its supervisor is gone. A demotion is written, so that it is the answer for ever.
    fn reconciled(&self, id: &JobId) -> io::Result<Option<Stored>> {
        let Some(Stored::Job(stored)) = record::read(&self.folder, id)? else {
            return record::read(&self.folder, id);
        };
        if self.is_alive(&stored) {
            return Ok(Some(Stored::Job(stored)));
        }
        let _one = self.demoting.lock();
        // The supervisor has ended since, or long ago: what it wrote last stands now, so only this look may judge.
        match record::read(&self.folder, id)? {
            Some(Stored::Job(stored)) if !self.is_alive(&stored) => {
                let demoted = self.demoted(*stored, id);
                if let Err(error) = demoted.write(&self.folder, id) {
                    crate::log::line(format_args!("job {id}: its loss cannot be recorded: {error}"));
                }
                let _ = fs::remove_file(beat::path(&self.beats, id));
                self.remove_leftovers(id, demoted.supervisor.pid);
                Ok(Some(Stored::Job(Box::new(demoted))))
            }
            other => Ok(other),
        }
    }

    /// Removes the temporary files of a supervisor that is gone.
    fn remove_leftovers(&self, id: &JobId, supervisor: i32) {
        let prefix = format!(".{id}.json.{supervisor}.");
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Says whether nothing has to be done about a record: it is finished, or its supervisor lives.
    fn is_alive(&self, stored: &StoredJob) -> bool {
        stored.job.state != JobState::Running
            || (self.here.is_same(&stored.place) && stored.supervisor.is_alive())
    }

    fn demoted(&self, mut stored: StoredJob, id: &JobId) -> StoredJob {
        let job = &mut stored.job;
        let supervisor = stored.supervisor.pid;
        let (kind, reason) = if self.here.is_same(&stored.place) {
            let starved =
                matches!((stored.oom_kills, cgroup::oom_kills()), (Some(then), Some(now)) if now > then);
            if starved {
                let reason = "the container ran out of memory, and the kernel ended processes of it";
                (UnknownReasonKind::ContainerOom, reason.to_owned())
            } else {
                let reason = format!("job supervisor {supervisor} is gone without recording an exit status");
                (UnknownReasonKind::SupervisorGone, reason)
            }
        } else {
            let Place { hostname, .. } = &stored.place;
            let reason = format!(
                "the container that ran job supervisor {supervisor} (pod {hostname}) was replaced before an exit status \
                 was recorded"
            );
            (UnknownReasonKind::PodReplaced, reason)
        };
        if let Some(beat) = beat::read(&self.beats, id).filter(|beat| beat.pid == supervisor) {
            note_beat(job, &beat);
        }
        job.state = JobState::Unknown;
        job.exit_code = None;
        job.reason = Some(reason);
        job.unknown_reason_kind = Some(kind);
        job.ended_at = Some(Timestamp::now().to_string());
        stored
    }

    /// Returns what callers read: the record, with the beat's news where it runs.
    fn present(&self, id: &JobId, stored: &StoredJob) -> JobRecord {
        let mut job = stored.job.clone();
        match job.state {
            JobState::Running => {
                if let Some(beat) =
                    beat::read(&self.beats, id).filter(|beat| beat.pid == stored.supervisor.pid)
                {
                    note_beat(&mut job, &beat);
                    job.alive_age_ms = Some(beat.age_ms());
                }
            }
            // Frozen at the end by the supervisor: an old success must not look like a job that stopped beating.
            JobState::Exited => {}
            JobState::Unknown => {
                let last = job.last_alive_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
                job.alive_age_ms = last.map(|at| {
                    u64::try_from(Timestamp::now().as_millisecond() - at.as_millisecond()).unwrap_or(0)
                });
            }
        }
        job
    }

    fn damaged(&self, id: &JobId, why: &str) -> JobRecord {
        let modified = self.modified(id).and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default();
        record::damaged(&self.folder, id, why, modified)
    }
}

fn note_beat(job: &mut JobRecord, beat: &beat::Beat) {
    job.last_alive_at = Timestamp::from_millisecond(beat.at_ms).ok().map(|at| at.to_string());
    job.alive_seq = Some(beat.seq);
    job.output_bytes = beat.printed;
    job.output_truncated = beat.printed > job.output_limit_bytes;
}

fn started(job: &JobRecord) -> Option<Timestamp> {
    job.started_at.parse().ok()
}

/// Cuts a command to what a list shows, between characters.
fn shorten(command: &mut Vec<String>) {
    let mut room = LIST_COMMAND_BYTES;
    for (index, part) in command.iter_mut().enumerate() {
        if part.len() > room {
            part.truncate(part.floor_char_boundary(room));
            part.push('…');
            command.truncate(index + 1);
            return;
        }
        room -= part.len();
    }
}

fn not_found(id: &JobId) -> CommandError {
    let message = format!("there is no job {id}; exec_job_status without an id lists all");
    CommandError::new(ErrorCode::NotFound, message).with("id", id.as_str())
}

fn unreadable(error: &io::Error) -> CommandError {
    CommandError::new(ErrorCode::Unavailable, format!("the folder of job records cannot be read: {error}"))
}
