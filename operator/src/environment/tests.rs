//! Whole reconciles against an API server in memory.

mod children;
mod refusals;
mod snapshots;
mod start;
mod stop;
