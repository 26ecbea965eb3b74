//! The steps carried out, by what they touch.

mod children;
mod pod;
mod sidecar;
mod stop;
