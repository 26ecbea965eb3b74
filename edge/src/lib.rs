//! The doors of Cuddy as a library, and what every program here shares.
//!
//! Data flows one way: connection -> guard (host, origin, bearer, limits) -> door -> dispatch -> handler. Doors translate
//! and know no command by name; `dispatch` alone checks what a caller may do.

pub mod admission;
mod arguments;
pub mod audit;
pub mod bearer;
mod body;
pub mod caller;
pub mod client;
pub mod clock;
mod connection;
pub mod dispatch;
pub mod doors;
mod guard;
pub mod handler;
mod in_flight;
pub mod keys;
mod limits;
pub mod mcp;
pub mod metrics;
pub mod process;
mod schema;
pub mod server;
mod sessions;
pub mod token;
mod token_parts;
