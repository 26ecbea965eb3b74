//! The doors of Cuddy as a library, and what every program here shares.
//!
//! Data flows one way: connection -> guard (host, origin, bearer, limits) -> door -> dispatch -> handler. Doors translate
//! and know no command by name; `dispatch` alone checks what a caller may do.

pub mod caller;
pub mod client;
pub mod handler;
pub mod keys;
pub mod token;
