//! What the host is told when it starts: flags, or variables of the environment.

use std::path::PathBuf;

use clap::Args;
use cuddy_protocol::{EnvironmentName, TenantName, places};

/// The settings that `init` and `host` share; `init` hands them on through the environment.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// The home folder, below which all work happens.
    #[arg(long, env = "CUDDY_HOME", default_value = places::HOME)]
    pub home: PathBuf,
    /// The tenant.
    #[arg(long, env = "CUDDY_TENANT")]
    pub tenant: TenantName,
    /// The environment.
    #[arg(long, env = "CUDDY_ENVIRONMENT")]
    pub environment: EnvironmentName,
    /// The folder in which the host binds its socket.
    #[arg(long, env = "CUDDY_HOST_SOCKET_DIR", default_value = places::HOST_SOCKET_DIR)]
    pub socket_dir: PathBuf,
    /// The folder of the sidecar, in which the file `open` appears when the gate opens.
    #[arg(long, env = "CUDDY_AGENT_SOCKET_DIR", default_value = places::AGENT_SOCKET_DIR)]
    pub agent_dir: PathBuf,
    /// The folder of the beats of jobs, in memory.
    #[arg(long, env = "CUDDY_BEATS_DIR", default_value = places::BEATS_DIR)]
    pub beats_dir: PathBuf,
}

impl Settings {
    /// Returns the folder of the job records.
    pub fn jobs_dir(&self) -> PathBuf {
        self.home
            .join(places::JOBS_BELOW_HOME)
            .join(self.tenant.as_str())
            .join(self.environment.as_str())
            .join("jobs")
    }
}
