//! An environment to test with.

pub(crate) mod ask;
pub(crate) mod identity;
pub(crate) mod pod;
pub(crate) mod programs;
