//! Which command does what.

use std::sync::Arc;

use cuddy_commands::Command;
use cuddy_commands::exec::job_await::ExecJobAwait;
use cuddy_commands::exec::job_cancel::ExecJobCancel;
use cuddy_commands::exec::job_output::ExecJobOutput;
use cuddy_commands::exec::job_status::{ExecJobStatus, ExecJobStatusOutput, ExecJobStatusParams};
use cuddy_commands::exec::raw::ExecRaw;
use cuddy_commands::usage::Usage;
use cuddy_protocol::host::{Hello, ProcessAnswer, ProcessQuery, command};
use cuddy_protocol::{CommandError, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::blocking;
use crate::exec::Context;
use crate::exec::supervisors::Supervisors;
use crate::home::Home;
use crate::jobs::id::JobId;
use crate::jobs::start::Starts;
use crate::jobs::store::Store;
use crate::jobs::{await_job, cancel, output};
use crate::process::{Identity, identity};
use crate::settings::Settings;
use crate::{activity, build_info, exec, usage};

/// The commands of the registry that run here.
const EXEC_RAW: &str = ExecRaw::DECLARATION.name;
const JOB_STATUS: &str = ExecJobStatus::DECLARATION.name;
const JOB_AWAIT: &str = ExecJobAwait::DECLARATION.name;
const JOB_OUTPUT: &str = ExecJobOutput::DECLARATION.name;
const JOB_CANCEL: &str = ExecJobCancel::DECLARATION.name;
const USAGE: &str = Usage::DECLARATION.name;

/// What the host answers with.
pub(super) struct Host {
    settings: Settings,
    build: String,
    boot_id: String,
    exec: Context,
}

impl Host {
    /// Returns a host; its boot id is new.
    pub(super) fn new(settings: Settings) -> Self {
        let store = Store::open(settings.jobs_dir(), settings.beats_dir.clone());
        let variables = vec![
            ("ERUN_TENANT".to_owned(), settings.tenant.to_string()),
            ("ERUN_ENVIRONMENT".to_owned(), settings.environment.to_string()),
        ];
        let exec = Context {
            home: Home::new(settings.home.clone()),
            store: Arc::new(store),
            starts: Starts::default(),
            supervisors: Supervisors::default(),
            variables,
        };
        Self { settings, build: build_info::build(), boot_id: new_boot_id(), exec }
    }

    /// Returns the build.
    pub(super) fn build(&self) -> &str {
        &self.build
    }

    /// Runs a command. Once `cancel` is cancelled it ends as soon as what it started is over.
    pub(super) async fn run(
        &self,
        name: &str,
        params: Value,
        stdin: mpsc::UnboundedReceiver<Vec<u8>>,
        cancel: &CancellationToken,
    ) -> Result<Value, CommandError> {
        let store = Arc::clone(&self.exec.store);
        match name {
            command::HELLO => result(&Hello { build: self.build.clone(), boot_id: self.boot_id.clone() }),
            command::ACTIVITY => result(&blocking(move || activity::report(&store)).await?),
            command::PROCESS => result(&process(&parse(params)?)),
            USAGE => {
                let params = parse(params)?;
                let measured = usage::measure(&self.settings, &params);
                tokio::select! {
                    measured = measured => result(&measured),
                    () = cancel.cancelled() => Err(CommandError::new(ErrorCode::Cancelled, "the caller went away")),
                }
            }
            EXEC_RAW => result(&exec::run(&self.exec, parse(params)?, stdin, cancel).await?),
            JOB_STATUS => {
                let params = parse(params)?;
                result(&blocking(move || status(&store, &params)).await?)
            }
            JOB_AWAIT => result(&await_job::run(store, parse(params)?, cancel).await?),
            JOB_OUTPUT => {
                let params = parse(params)?;
                result(&blocking(move || output::run(&store, &params)).await?)
            }
            JOB_CANCEL => {
                let params = parse(params)?;
                result(&blocking(move || cancel::run(&store, &params)).await?)
            }
            other => Err(CommandError::new(
                ErrorCode::UnknownCommand,
                format!("the host knows no command {other:?}"),
            )),
        }
    }
}

fn parse<T: DeserializeOwned>(params: Value) -> Result<T, CommandError> {
    let params = if params.is_null() { Value::Object(Map::new()) } else { params };
    serde_json::from_value(params).map_err(|error| CommandError::invalid("$", error.to_string()))
}

fn result<T: Serialize>(output: &T) -> Result<Value, CommandError> {
    serde_json::to_value(output).map_err(|error| {
        CommandError::new(ErrorCode::Internal, format!("a result cannot be written: {error}"))
    })
}

fn status(store: &Store, params: &ExecJobStatusParams) -> Result<ExecJobStatusOutput, CommandError> {
    Ok(match &params.id {
        Some(id) => ExecJobStatusOutput { job: Some(store.get(&JobId::given(id)?)?), jobs: None },
        None => ExecJobStatusOutput { job: None, jobs: Some(store.list()?) },
    })
}

fn process(query: &ProcessQuery) -> ProcessAnswer {
    let found = Identity::of(query.pid);
    ProcessAnswer {
        identity: found.map(|found| format!("{}:{}:{}", found.pid, found.start, identity::boot_id())),
    }
}

/// Returns an id that no other start of a host has.
fn new_boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_or_else(
        |_| {
            let own = Identity::of(std::process::id() as i32);
            format!("{}-{}", std::process::id(), own.map_or(0, |own| own.start))
        },
        |id| id.trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use cuddy_commands::{Hosted, TABLE};

    use super::*;

    #[test]
    fn every_command_of_the_registry_that_is_hosted_here_has_its_handler() {
        let here: Vec<&str> = TABLE.iter().filter(|d| d.hosted == Hosted::Host).map(|d| d.name).collect();
        let mut known = vec![USAGE, EXEC_RAW, JOB_STATUS, JOB_AWAIT, JOB_OUTPUT, JOB_CANCEL];
        known.sort_unstable();
        let mut sorted = here.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, known);
    }
}
