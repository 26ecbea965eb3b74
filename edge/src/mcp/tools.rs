//! `tools/list`: written once for each set of capabilities.

use std::sync::OnceLock;

use bytes::Bytes;
use cuddy_commands::{Declaration, Effect};
use cuddy_protocol::{Capabilities, Capability};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::dispatch::Dispatcher;

/// The lists, by capabilities.
#[derive(Debug, Default)]
pub(super) struct ToolLists([OnceLock<Bytes>; 16]);

impl ToolLists {
    /// Returns the list that a caller sees, as JSON.
    pub(super) fn get(&self, dispatcher: &Dispatcher, caller: &Caller) -> Bytes {
        self.0[index(caller.capabilities)]
            .get_or_init(|| {
                let tools: Vec<Value> = dispatcher.listed(caller).into_iter().map(tool).collect();
                Bytes::from(json!({ "tools": tools }).to_string())
            })
            .clone()
    }
}

/// Returns the place of a set: one bit for each capability, so below 16.
fn index(capabilities: Capabilities) -> usize {
    [Capability::Read, Capability::Operate, Capability::Attach, Capability::Admin]
        .iter()
        .enumerate()
        .filter(|(_, capability)| capabilities.allows(**capability))
        .fold(0, |sum, (bit, _)| sum | 1 << bit)
}

/// Returns a command as `tools/list` tells it: for the server, and for a proxy that answers in its place.
pub fn tool(declaration: &Declaration) -> Value {
    json!({
        "name": declaration.name,
        "description": declaration.summary,
        "inputSchema": (declaration.params_schema)(),
        "outputSchema": (declaration.output_schema)(),
        "annotations": {
            "readOnlyHint": declaration.effect == Effect::Read,
            "destructiveHint": declaration.effect == Effect::Destructive,
            "idempotentHint": declaration.idempotent,
            "openWorldHint": declaration.open_world,
        },
        "_meta": { "family": declaration.family.as_str() },
    })
}
