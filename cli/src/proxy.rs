//! `mcp proxy`: a client that speaks MCP on stdio, and an environment that speaks it over HTTP with a bearer per request.
//!
//! Data flows one way: `lines` -> `message` -> `session` -> one task per call (`call`) -> `Writer`. The handshake and the
//! list are answered here (`handshake`), from the compiled table, so that opening an editor starts no environment (D44).
//! Upstream there is no session: each call has a random id of its own, by which it is taken back and no other is.

mod call;
mod handshake;
mod lines;
mod message;
mod progress;
mod session;
mod writer;

pub(crate) use session::serve;
