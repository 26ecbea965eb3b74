//! A background job: its own record, output and beat, and an end that is written down.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cuddy_protocol::job::{JobRecord, JobState, OUTPUT_LIMIT_BYTES};
use cuddy_protocol::{CommandError, ErrorCode};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Signal;

use super::channel::{JobOrder, Reply};
use super::output::Output;
use super::spawn::{Streams, spawn};
use super::{answer, wait_for};
use crate::jobs::beat::{self, Pulse};
use crate::jobs::durable::Reserve;
use crate::jobs::id::JobId;
use crate::jobs::record::{self, StoredJob};
use crate::log;
use crate::process::reap::{Exit, reap};
use crate::process::{Identity, Place, stat};
use crate::signals::Signals;
use crate::tree::{Ending, STEP, Step};
use crate::usage::cgroup;

/// How long what the program left behind may take to end by itself.
const SETTLE: Duration = Duration::from_millis(300);
/// How long the work has after the environment's stop has been announced.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How often the last record is tried, a second apart, should the disk refuse it in spite of the room taken.
const LAST_WORD_TRIES: u32 = 60;

/// Why the work is being ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    LeftBehind,
    Stopped,
}

enum Phase {
    Running,
    Settling(Instant),
    Ending(Ending, Cause),
}

/// Runs the job and answers once its record is on the disk.
pub(super) fn run(mut control: UnixStream, order: JobOrder, fds: Vec<OwnedFd>) -> io::Result<()> {
    let mut fds = fds.into_iter();
    let (Some(folder), stdin, None) = (fds.next(), fds.next(), fds.next()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a job comes with one or two descriptors"));
    };
    let stdin = stdin.map_or_else(Stdio::null, Stdio::from);
    let signals = Signals::listen()?;
    let job = match Job::start(order, &folder, stdin) {
        Ok(job) => job,
        Err(error) => return answer(&mut control, &Reply::Failed(error)),
    };
    drop(folder);
    if answer(&mut control, &Reply::Started { pid: job.own.pid }).is_err() {
        // Whoever asked is gone and will never know of this job: it must not run unseen.
        Ending::hard(job.own).run(|| {
            reap(|_, _| {});
        });
        job.discard();
        return Ok(());
    }
    drop(control);
    job.attend(&signals)
}

struct Job {
    order: JobOrder,
    id: JobId,
    own: Identity,
    stored: StoredJob,
    child: i32,
    output: Output,
    pulse: Pulse,
    reserve: Option<Reserve>,
    exit: Option<Exit>,
    // Held for as long as the supervisor lives: no second one can take the id.
    _lock: File,
}

impl Job {
    fn start(order: JobOrder, folder: &OwnedFd, stdin: Stdio) -> Result<Self, CommandError> {
        let id = JobId::exact(&order.id).ok_or_else(|| CommandError::invalid("$.id", "a handle"))?;
        let own = Identity::of(std::process::id() as i32)
            .ok_or_else(|| CommandError::new(ErrorCode::Internal, "/proc cannot be read"))?;
        let (file, lock) = open_log(&order, &id)?;
        let mut stored = first_record(&order, &id, own);
        let (reader, writer) = io::pipe().map_err(|e| storage("make a pipe", &e))?;
        let errors = writer.try_clone().map_err(|e| storage("make a pipe", &e))?;
        let output = Output::new(File::from(OwnedFd::from(reader)), file, OUTPUT_LIMIT_BYTES)
            .map_err(|e| storage("make a pipe", &e))?;
        // The record first: work that nobody could find again must not begin. Room for its end, too.
        stored.write(&order.jobs_dir, &id).map_err(|e| storage("write the job's record", &e))?;
        let undo = |error| {
            let _ = fs::remove_file(record::path(&order.jobs_dir, &id));
            let _ = fs::remove_file(record::log_path(&order.jobs_dir, &id));
            error
        };
        let reserve = stored
            .reserve(&order.jobs_dir, &id)
            .map_err(|e| undo(storage("take room for the job's record", &e)))?;
        let streams = Streams { stdin, stdout: writer.into(), stderr: errors.into() };
        let child = spawn(&order.work, folder, streams).map_err(undo)?;
        stored.job.child_pid = Some(child);
        let mut pulse = Pulse::start(&order.beats_dir, &id);
        pulse.beat(0);
        let mut job = Self {
            order,
            id,
            own,
            stored,
            child,
            output,
            pulse,
            reserve: Some(reserve),
            exit: None,
            _lock: lock,
        };
        if let Err(error) = job.stored.write(&job.order.jobs_dir, &job.id) {
            Ending::hard(own).run(|| {
                reap(|_, _| {});
            });
            job.reserve = None;
            job.discard();
            return Err(storage("write the job's record", &error));
        }
        Ok(job)
    }

    /// Takes away what there is of a job that nobody will hear of.
    fn discard(self) {
        let _ = fs::remove_file(record::path(&self.order.jobs_dir, &self.id));
        let _ = fs::remove_file(record::log_path(&self.order.jobs_dir, &self.id));
        self.pulse.stop();
    }

    /// Waits for the end: output, children, beats, the request to stop.
    fn attend(mut self, signals: &Signals) -> io::Result<()> {
        let mut phase = Phase::Running;
        let mut next_beat = Instant::now() + beat::INTERVAL;
        let mut reasons = Vec::new();
        loop {
            self.pause(signals, &phase, next_beat)?;
            signals.clear();
            self.output.take();
            if Instant::now() >= next_beat {
                self.pulse.beat(self.output.printed());
                next_beat = Instant::now() + beat::INTERVAL;
            }
            let (child, exit) = (self.child, &mut self.exit);
            let children = reap(|ended, how| {
                if ended == child {
                    *exit = Some(how);
                }
            });
            if !children {
                break;
            }
            phase = match phase {
                Phase::Ending(mut ending, cause) => match ending.step() {
                    Step::Done(survivors) if !survivors.is_empty() => {
                        reasons.push(format!("could not be ended: {}", survivors.join(", ")));
                        break;
                    }
                    _ if cause == Cause::LeftBehind && signals.stop_asked() => self.stop(&mut reasons),
                    _ => Phase::Ending(ending, cause),
                },
                _ if signals.stop_asked() => self.stop(&mut reasons),
                Phase::Running if self.exit.is_some() => Phase::Settling(Instant::now() + SETTLE),
                Phase::Settling(until) if Instant::now() >= until => {
                    reasons.push(self.left_behind());
                    Phase::Ending(Ending::hard(self.own), Cause::LeftBehind)
                }
                other => other,
            };
        }
        self.output.drain();
        self.record_end(reasons)
    }

    fn stop(&self, reasons: &mut Vec<String>) -> Phase {
        reasons.push("environment stopped".to_owned());
        Phase::Ending(Ending::soft(self.own, Signal::TERM, STOP_GRACE), Cause::Stopped)
    }

    fn left_behind(&self) -> String {
        let all = stat::all().unwrap_or_default();
        let names: Vec<String> = stat::descendants(&all, self.own.pid)
            .iter()
            .filter(|p| !p.dead)
            .take(10)
            .map(stat::Process::label)
            .collect();
        format!("the program ended and left processes behind, which were ended: {}", names.join(", "))
    }

    fn pause(&self, signals: &Signals, phase: &Phase, next_beat: Instant) -> io::Result<()> {
        let mut timeout = stat::left(next_beat);
        match phase {
            Phase::Running => {}
            Phase::Settling(until) => timeout = timeout.min(stat::left(*until)),
            Phase::Ending(..) => timeout = timeout.min(STEP),
        }
        let mut fds = vec![PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)];
        fds.extend(self.output.pipe().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        wait_for(&mut fds, Some(timeout))
    }

    /// Writes the last record. Until it is on the disk the supervisor lives and beats: a job without an end is not over.
    fn record_end(mut self, mut reasons: Vec<String>) -> io::Result<()> {
        let exit = self.exit.take().unwrap_or(Exit::UNSEEN);
        if let Some(fault) = self.output.fault() {
            reasons.push(format!("the output could not be kept from there on: {fault}"));
        }
        self.pulse.beat(self.output.printed());
        let job = &mut self.stored.job;
        job.state = JobState::Exited;
        job.exit_code = Some(exit.code);
        job.signal = exit.signal;
        job.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        job.output_bytes = self.output.printed();
        job.output_truncated = self.output.is_truncated();
        let last = self.pulse.last();
        job.last_alive_at =
            last.and_then(|b| Timestamp::from_millisecond(b.at_ms).ok()).map(|t| t.to_string());
        job.alive_seq = last.map(|b| b.seq);
        job.alive_age_ms = last.map(|b| b.age_ms());
        job.ended_at = Some(Timestamp::now().to_string());
        let content = self.stored.encode()?;
        let mut written = match self.reserve.take() {
            Some(reserve) => reserve.write(&content),
            None => self.stored.write(&self.order.jobs_dir, &self.id),
        };
        for _ in 0..LAST_WORD_TRIES {
            let Err(error) = &written else { break };
            log::line(format_args!("job {}: its end cannot be recorded: {error}", self.id));
            std::thread::sleep(beat::INTERVAL);
            self.pulse.beat(self.output.printed());
            written = self.stored.write(&self.order.jobs_dir, &self.id);
        }
        self.pulse.stop();
        written
    }
}

/// Makes the file of the output anew and locks it.
fn open_log(order: &JobOrder, id: &JobId) -> Result<(File, File), CommandError> {
    let path = record::log_path(&order.jobs_dir, id);
    // A supervisor that has the old file open goes on writing to it under no name, so it must be gone first.
    if let Ok(old) = record::open_plain(&path)
        && let Err(Errno::WOULDBLOCK) = flock(&old, FlockOperation::NonBlockingLockExclusive)
    {
        return Err(
            CommandError::new(ErrorCode::Conflict, format!("job {id} is running")).with("id", id.as_str())
        );
    }
    let _ = fs::remove_file(&path);
    let file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o660)
        .open(&path)
        .map_err(|e| storage("make the job's log", &e))?;
    let lock = file.try_clone().map_err(|e| storage("make the job's log", &e))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|e| storage("lock the job's log", &e.into()))?;
    Ok((file, lock))
}

fn first_record(order: &JobOrder, id: &JobId, own: Identity) -> StoredJob {
    StoredJob {
        version: record::VERSION,
        supervisor: own,
        place: Place::here(),
        oom_kills: cgroup::oom_kills(),
        job: JobRecord {
            id: id.to_string(),
            name: order.name.clone(),
            kind: "command".to_owned(),
            state: JobState::Running,
            command: order.work.argv.clone(),
            dir: order.dir.clone(),
            pid: own.pid,
            child_pid: None,
            started_at: Timestamp::now().to_string(),
            ended_at: None,
            exit_code: None,
            signal: None,
            reason: None,
            unknown_reason_kind: None,
            log_path: record::log_path(&order.jobs_dir, id).display().to_string(),
            output_bytes: 0,
            output_limit_bytes: OUTPUT_LIMIT_BYTES,
            output_truncated: false,
            lease_id: format!("job-{id}"),
            last_alive_at: None,
            alive_seq: None,
            alive_age_ms: None,
        },
    }
}

/// Returns the error of a disk that refuses.
fn storage(what: &str, error: &io::Error) -> CommandError {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if full {
        let message = format!(
            "the workspace's disk is full, so the host cannot {what}; free some space and call again"
        );
        return CommandError::new(ErrorCode::DiskFull, message);
    }
    CommandError::new(ErrorCode::Internal, format!("the host cannot {what}: {error}"))
}
