//! What the tests share: keys, tokens, an environment with commands of its own, and a way to ask.

pub(crate) mod ask;
pub(crate) mod commands;
pub(crate) mod program;
pub(crate) mod tokens;
