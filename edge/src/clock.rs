//! The clock, handed in so that tests can turn it. Wall time decides about bearers alone; how long something lasts is
//! measured on the runtime's own steady clock.

use std::sync::Arc;

use jiff::Timestamp;

/// Tells what time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns the machine's clock.
pub fn system() -> Clock {
    Arc::new(Timestamp::now)
}
