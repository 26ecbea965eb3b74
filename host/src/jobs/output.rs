//! `exec_job_output`

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cuddy_commands::exec::job_output::{
    DEFAULT_PAGE_BYTES, ExecJobOutputOutput, ExecJobOutputParams, MAX_PAGE_BYTES,
};
use cuddy_protocol::job::JobState;
use cuddy_protocol::{CommandError, ErrorCode};

use super::id::JobId;
use super::store::Store;
use super::{page, record};

/// Returns a page of a job's output.
pub fn run(store: &Store, params: &ExecJobOutputParams) -> Result<ExecJobOutputOutput, CommandError> {
    let id = JobId::given(&params.id)?;
    let offset = params.offset.unwrap_or(0);
    let max = params.max_bytes.unwrap_or(DEFAULT_PAGE_BYTES);
    if !(1..=MAX_PAGE_BYTES).contains(&max) {
        return Err(CommandError::invalid("$.maxBytes", format!("1 to {MAX_PAGE_BYTES}")));
    }
    // The state before the bytes: what a job prints between the two is of a page to come, never lost from a complete one.
    let job = store.get(&id)?;
    let running = job.state == JobState::Running;
    let unreadable = |error: std::io::Error| {
        CommandError::new(ErrorCode::Unavailable, format!("the output of job {id} cannot be read: {error}"))
    };
    let file = match record::open_plain(&record::log_path(store.folder(), &id)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(CommandError::new(ErrorCode::NotFound, format!("there is no output of job {id}")));
        }
        opened => opened.map_err(unreadable)?,
    };
    let len = file.metadata().map_err(unreadable)?.len();
    if offset > len {
        return Err(CommandError::invalid("$.offset", format!("at most {len}, the bytes that there are")));
    }
    let page = page::read(&file, len, offset, usize::try_from(max).unwrap_or(usize::MAX), running)
        .map_err(unreadable)?;
    let next_offset = offset + page.bytes.len() as u64;
    let (output, output_base64) = text(page.bytes);
    Ok(ExecJobOutputOutput {
        job,
        offset,
        next_offset,
        output,
        output_base64,
        has_more: page.has_more,
        complete: page.at_end && !running,
    })
}

/// Returns bytes as text, and as base64 beside it where they are not UTF-8.
pub(crate) fn text(bytes: Vec<u8>) -> (String, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let bytes = error.as_bytes();
            (String::from_utf8_lossy(bytes).into_owned(), Some(STANDARD.encode(bytes)))
        }
    }
}
