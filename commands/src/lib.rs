//! The registry: what the system can do, one file per command, declarations only.
//!
//! Every door (MCP, REST, CLI, scripts, documentation) reads this table and nothing else; handlers live where the work is
//! done and are found by name. Absent on purpose: handlers, IO, and any word about a door.

pub mod activity;
pub mod declaration;
pub mod exec;
pub mod idle;
pub mod schema;
pub mod usage;
pub mod version;

pub use declaration::{
    Aliases, Command, Confirm, Declaration, Effect, Family, Hosted, Method, ResultShape, Route,
};

/// Every command, families one after the other.
pub static TABLE: &[&Declaration] = &[
    &version::Version::DECLARATION,
    &usage::Usage::DECLARATION,
    &idle::Idle::DECLARATION,
    &exec::raw::ExecRaw::DECLARATION,
    &exec::job_status::ExecJobStatus::DECLARATION,
    &exec::job_await::ExecJobAwait::DECLARATION,
    &exec::job_output::ExecJobOutput::DECLARATION,
    &exec::job_cancel::ExecJobCancel::DECLARATION,
    &activity::lease_list::ActivityLeaseList::DECLARATION,
    &activity::lease_take::ActivityLeaseTake::DECLARATION,
    &activity::lease_release::ActivityLeaseRelease::DECLARATION,
];

/// Returns the command of this name, or of this retired name, from a table.
pub fn find<'t>(table: &'t [&'t Declaration], name: &str) -> Option<&'t Declaration> {
    table.iter().copied().find(|d| d.name == name || d.retired_names.contains(&name))
}
