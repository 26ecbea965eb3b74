//! `exec_raw` with `wait: false`

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cuddy_commands::exec::raw::{ExecRawOutput, ExecRawParams};
use cuddy_protocol::job::{JobState, UnknownReasonKind};
use cuddy_protocol::{CommandError, ErrorCode};
use tokio::sync::mpsc;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::id::JobId;
use super::input;
use super::store::Store;
use super::{MAX_RECORDS, MAX_RUNNING};
use crate::exec::Context;
use crate::exec::supervise::Supervisor;
use crate::serve::blocking;
use crate::supervisor::channel::{JobOrder, Reply, Request, Work};

/// How long a supervisor has until the record is on the disk.
const START: Duration = Duration::from_secs(10);
/// The variable that tells a job its handle.
const ID_VARIABLE: &str = "ERUN_JOB_ID";

/// The handles of jobs that are being started: they have no record yet.
#[derive(Debug, Clone, Default)]
pub struct Starts(Arc<Mutex<HashSet<JobId>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
struct Claim {
    starts: Starts,
    id: JobId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Ok(mut starts) = self.starts.0.lock() {
            starts.remove(&self.id);
        }
    }
}

/// How the handle came to be.
#[derive(Debug, Clone)]
enum Wanted {
    /// The caller gave it, or the name it is made from.
    Exactly(JobId),
    /// It is made from the program's name; a number keeps it apart from others.
    Like(JobId),
}

/// Starts a job and returns once its record is on the disk.
///
/// `input` is what the job reads. All of it is kept first: the caller is gone while the job still reads.
pub async fn run(
    context: &Context,
    params: ExecRawParams,
    input: mpsc::UnboundedReceiver<Vec<u8>>,
    cancel: &CancellationToken,
) -> Result<ExecRawOutput, CommandError> {
    let (wanted, name) = names(&params)?;
    let folder = context.home.open(params.cwd.as_deref())?;
    let input = input::keep(params.stdin.as_deref(), input, cancel).await?;
    let claim = {
        let (store, starts) = (Arc::clone(&context.store), context.starts.clone());
        blocking(move || claim(&store, &starts, &wanted)).await?
    };
    let id = claim.id.clone();
    let mut env = params.env.unwrap_or_default();
    env.extend(context.variables.iter().cloned());
    env.insert(ID_VARIABLE.to_owned(), id.to_string());
    let order = JobOrder {
        id: id.to_string(),
        name,
        work: Work { argv: params.argv, env },
        dir: folder.path,
        jobs_dir: context.store.folder().to_owned(),
        beats_dir: context.store.beats().to_owned(),
    };
    let mut fds = vec![folder.handle];
    fds.extend(input);
    let mut supervisor = Supervisor::start(&context.supervisors, &Request::Job(Box::new(order)), fds).await?;
    let mut buffer = Vec::new();
    let reply = time::timeout(START, supervisor.reply(&mut buffer)).await.unwrap_or_else(|_| {
        let message = format!(
            "job {id} was not recorded within {} seconds; look for it with exec_job_status",
            START.as_secs()
        );
        Err(CommandError::new(ErrorCode::OutcomeUnknown, message).with("jobId", id.as_str()))
    })?;
    match reply {
        Reply::Started { .. } => Ok(ExecRawOutput {
            executed: Some(true),
            job_id: Some(id.to_string()),
            state: Some(JobState::Running),
            wait: Some(false),
            ..ExecRawOutput::default()
        }),
        Reply::Failed(error) => Err(error),
        Reply::Ended { .. } => Err(CommandError::new(ErrorCode::Internal, "a job was answered like a call")),
    }
}

/// Returns handle and name: what was given, or the program's own name.
fn names(params: &ExecRawParams) -> Result<(Wanted, String), CommandError> {
    let program = params.argv.first().and_then(|program| Path::new(program).file_name());
    let program = program.map_or_else(|| "job".to_owned(), |name| name.to_string_lossy().into_owned());
    let name: String =
        params.name.as_deref().unwrap_or(&program).chars().filter(|c| !c.is_control()).take(100).collect();
    let wanted = match (&params.id, &params.name) {
        (Some(id), _) => Wanted::Exactly(JobId::given(id)?),
        (None, Some(name)) => Wanted::Exactly(JobId::from_name("$.name", name)?),
        (None, None) => {
            Wanted::Like(JobId::from_name("$.argv[0]", &program).or_else(|_| JobId::given("job"))?)
        }
    };
    Ok((wanted, name))
}

/// Takes a handle, if there is room for one more job.
fn claim(store: &Store, starts: &Starts, wanted: &Wanted) -> Result<Claim, CommandError> {
    let records = store.sweep()?;
    let Ok(mut pending) = starts.0.lock() else {
        return Err(CommandError::new(ErrorCode::Internal, "the list of starting jobs is damaged"));
    };
    // One that is being started may have its record already, and counts once.
    let running =
        store.running()?.iter().filter(|job| !pending.iter().any(|id| id.as_str() == job.id)).count();
    if running + pending.len() >= MAX_RUNNING {
        let message = format!("{MAX_RUNNING} jobs run already; wait for one or cancel one");
        return Err(CommandError::new(ErrorCode::Busy, message).with("running", running + pending.len()));
    }
    if records >= MAX_RECORDS {
        let message = format!("{records} records of jobs are kept and none may be removed");
        return Err(CommandError::new(ErrorCode::Busy, message).with("records", records));
    }
    let id = match wanted {
        Wanted::Exactly(id) => {
            if pending.contains(id) {
                return Err(conflict(id, "is being started"));
            }
            match store.find(id)? {
                Some(job) if job.state == JobState::Running => return Err(conflict(id, "is running")),
                Some(job) if job.unknown_reason_kind == Some(UnknownReasonKind::RecordDamaged) => {
                    return Err(conflict(id, "has a record that cannot be read and is kept"));
                }
                Some(_) | None => id.clone(),
            }
        }
        Wanted::Like(stem) => {
            let candidates = std::iter::once(stem.clone()).chain((2..).map(|number| stem.numbered(number)));
            let free =
                |id: &JobId| !pending.contains(id) && !super::record::path(store.folder(), id).exists();
            // More than all records and starts together cannot be taken.
            let found = candidates.take(2 * (MAX_RECORDS + MAX_RUNNING)).find(free);
            found.ok_or_else(|| conflict(stem, "and all its numbers are taken"))?
        }
    };
    pending.insert(id.clone());
    drop(pending);
    Ok(Claim { starts: starts.clone(), id })
}

fn conflict(id: &JobId, why: &str) -> CommandError {
    CommandError::new(ErrorCode::Conflict, format!("job {id} {why}; give another id")).with("id", id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(argv: &str, name: Option<&str>, id: Option<&str>) -> ExecRawParams {
        ExecRawParams {
            argv: vec![argv.to_owned()],
            name: name.map(str::to_owned),
            id: id.map(str::to_owned),
            ..ExecRawParams::default()
        }
    }

    #[test]
    fn the_handle_defaults_to_the_name_and_that_to_the_program() {
        let made = |p| match names(&p).unwrap() {
            (Wanted::Exactly(id), name) => (true, id.to_string(), name),
            (Wanted::Like(id), name) => (false, id.to_string(), name),
        };
        let text = |a: bool, b: &str, c: &str| (a, b.to_owned(), c.to_owned());
        assert_eq!(made(params("./gradlew", Some("suite"), None)), text(true, "suite", "suite"));
        assert_eq!(made(params("/usr/bin/make", None, None)), text(false, "make", "make"));
        assert_eq!(made(params("make", Some("my tests"), Some("t1"))), text(true, "t1", "my tests"));
        assert_eq!(made(params("/", None, None)), text(false, "job", "job"));
        for id in ["../", "a b", ".a", ""] {
            let error = names(&params("a", Some("fine"), Some(id))).unwrap_err();
            assert_eq!(error.error_code, ErrorCode::InvalidParams, "{id:?}");
        }
    }

    #[test]
    fn a_handle_is_claimed_once_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("jobs"), dir.path().join("beats"));
        let starts = Starts::default();
        let id = JobId::exact("a").unwrap();
        let first = claim(&store, &starts, &Wanted::Exactly(id.clone())).unwrap();
        let refused = claim(&store, &starts, &Wanted::Exactly(id.clone())).unwrap_err();
        assert_eq!(refused.error_code, ErrorCode::Conflict);
        let second = claim(&store, &starts, &Wanted::Like(id.clone())).unwrap();
        assert_eq!(second.id.as_str(), "a-2");
        drop(first);
        assert_eq!(claim(&store, &starts, &Wanted::Exactly(id)).unwrap().id.as_str(), "a");
    }

    #[test]
    fn a_hundred_jobs_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("jobs"), dir.path().join("beats"));
        let starts = Starts::default();
        let stem = JobId::exact("a").unwrap();
        let claims: Vec<Claim> =
            (0..MAX_RUNNING).map(|_| claim(&store, &starts, &Wanted::Like(stem.clone())).unwrap()).collect();
        let refused = claim(&store, &starts, &Wanted::Like(stem)).unwrap_err();
        assert_eq!((refused.error_code, refused.retryable), (ErrorCode::Busy, true));
        drop(claims);
    }
}
