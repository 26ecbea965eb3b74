//! The family `activity`: leases, which say that something goes on where nobody calls.

pub mod lease_list;
pub mod lease_release;
pub mod lease_take;
