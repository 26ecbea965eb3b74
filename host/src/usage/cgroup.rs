//! The files of a control group, version 2 or 1.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// Which group this process is in.
const OWN: &str = "/proc/self/cgroup";
/// From this limit on version 1 means none: the largest page-aligned number.
const NO_LIMIT_V1: u64 = 1 << 62;

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit<T> {
    /// None.
    Unlimited,
    /// This much.
    At(T),
}

/// The group this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cgroup {
    /// One folder has everything.
    V2(PathBuf),
    /// Each controller has its own.
    V1 {
        /// Memory.
        memory: PathBuf,
        /// CPU limits.
        cpu: PathBuf,
        /// CPU accounting.
        cpuacct: PathBuf,
    },
}

/// Returns how many processes have been ended for want of memory, where that can be read.
pub fn oom_kills() -> Option<u64> {
    Cgroup::find().ok()?.oom_kills().ok()
}

impl Cgroup {
    /// Finds the group, or says why there is none.
    pub fn find() -> Result<Self, String> {
        let own = fs::read_to_string(OWN).map_err(|error| format!("{OWN}: {error}"))?;
        Self::below(Path::new(MOUNT), &own)
    }

    /// Finds the group below a mount point, by the lines of `/proc/self/cgroup`: `id:controllers:path`.
    pub fn below(mount: &Path, own: &str) -> Result<Self, String> {
        let line = |controller: &str| {
            own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                controllers.split(',').any(|c| c == controller).then_some(path)
            })
        };
        // The mount shows either the whole tree or, in a container, the group itself as its root.
        let within = |root: PathBuf, path: Option<&str>, file: &str| {
            let path = path.unwrap_or("/").trim_start_matches('/');
            let exact = root.join(path);
            let candidates = [exact, root];
            candidates.into_iter().find(|folder| folder.join(file).is_file())
        };
        if mount.join("cgroup.controllers").is_file() {
            let folder = within(mount.to_owned(), line(""), "cpu.stat");
            return folder
                .map(Self::V2)
                .ok_or_else(|| format!("{}: no cpu.stat in this group", mount.display()));
        }
        let memory = within(mount.join("memory"), line("memory"), "memory.usage_in_bytes");
        let cpuacct = ["cpuacct", "cpu,cpuacct", "cpuacct,cpu"]
            .into_iter()
            .find_map(|name| within(mount.join(name), line("cpuacct"), "cpuacct.usage"));
        let cpu = ["cpu", "cpu,cpuacct", "cpuacct,cpu"]
            .into_iter()
            .find_map(|name| within(mount.join(name), line("cpu"), "cpu.cfs_quota_us"));
        if memory.is_none() && cpuacct.is_none() {
            return Err(format!(
                "{}: neither version 2 nor version 1 of control groups is here",
                mount.display()
            ));
        }
        // A controller that is missing is told when it is read, by the name of its file.
        let or_root = |folder: Option<PathBuf>, name: &str| folder.unwrap_or_else(|| mount.join(name));
        Ok(Self::V1 {
            memory: or_root(memory, "memory"),
            cpu: or_root(cpu, "cpu"),
            cpuacct: or_root(cpuacct, "cpuacct"),
        })
    }

    /// Returns the name of the source.
    pub fn source(&self) -> &'static str {
        match self {
            Self::V2(_) => "cgroup2",
            Self::V1 { .. } => "cgroup1",
        }
    }

    /// Returns the CPU time used, in microseconds.
    pub fn cpu_usec(&self) -> Result<u64, String> {
        match self {
            Self::V2(folder) => field(&folder.join("cpu.stat"), "usage_usec"),
            Self::V1 { cpuacct, .. } => Ok(number(&cpuacct.join("cpuacct.usage"))? / 1000),
        }
    }

    /// Returns the CPU quota, in cores.
    pub fn cpu_quota(&self) -> Result<Limit<f64>, String> {
        let (quota, period, path) = match self {
            Self::V2(folder) => {
                let path = folder.join("cpu.max");
                let text = match fs::read_to_string(&path) {
                    Ok(text) => text,
                    // The root group has no limits and no file for them.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Limit::Unlimited),
                    Err(error) => return Err(format!("{}: {error}", path.display())),
                };
                let mut words = text.split_whitespace().map(str::to_owned);
                (words.next().unwrap_or_default(), words.next().unwrap_or_default(), path)
            }
            Self::V1 { cpu, .. } => {
                (read(&cpu.join("cpu.cfs_quota_us"))?, read(&cpu.join("cpu.cfs_period_us"))?, cpu.clone())
            }
        };
        if matches!(quota.as_str(), "max" | "-1") {
            return Ok(Limit::Unlimited);
        }
        match (quota.parse::<f64>(), period.parse::<f64>()) {
            (Ok(quota), Ok(period)) if quota > 0.0 && period > 0.0 => Ok(Limit::At(quota / period)),
            _ => Err(format!("{}: not a quota: {quota:?} of {period:?}", path.display())),
        }
    }

    /// Returns the memory in use, in bytes.
    pub fn memory_current(&self) -> Result<u64, String> {
        match self {
            Self::V2(folder) => number(&folder.join("memory.current")),
            Self::V1 { memory, .. } => number(&memory.join("memory.usage_in_bytes")),
        }
    }

    /// Returns the most memory that was in use, in bytes. Kernels before 5.19 do not tell it in version 2.
    pub fn memory_peak(&self) -> Result<u64, String> {
        match self {
            Self::V2(folder) => number(&folder.join("memory.peak")),
            Self::V1 { memory, .. } => number(&memory.join("memory.max_usage_in_bytes")),
        }
    }

    /// Returns the memory limit, in bytes.
    pub fn memory_limit(&self) -> Result<Limit<u64>, String> {
        match self {
            Self::V2(folder) => {
                let path = folder.join("memory.max");
                match read(&path)?.as_str() {
                    "max" => Ok(Limit::Unlimited),
                    text => parse(&path, text).map(Limit::At),
                }
            }
            Self::V1 { memory, .. } => {
                let limit = number(&memory.join("memory.limit_in_bytes"))?;
                Ok(if limit >= NO_LIMIT_V1 { Limit::Unlimited } else { Limit::At(limit) })
            }
        }
    }

    /// Returns how many processes have been ended for want of memory.
    pub fn oom_kills(&self) -> Result<u64, String> {
        match self {
            Self::V2(folder) => field(&folder.join("memory.events"), "oom_kill"),
            Self::V1 { memory, .. } => field(&memory.join("memory.oom_control"), "oom_kill"),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn number(path: &Path) -> Result<u64, String> {
    parse(path, &read(path)?)
}

fn parse(path: &Path, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{}: not a number: {text:?}", path.display()))
}

/// Returns a number from a file of lines `name number`.
fn field(path: &Path, name: &str) -> Result<u64, String> {
    let text = read(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or_else(|| Err(format!("{}: no {name}", path.display())), |value| parse(path, value.trim()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Writes a tree of files and returns its root.
    pub(in crate::usage) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    pub(in crate::usage) const V2: &[(&str, &str)] = &[
        ("cgroup.controllers", "cpu memory\n"),
        ("cpu.stat", "usage_usec 2500000\nuser_usec 1\n"),
        ("cpu.max", "150000 100000\n"),
        ("memory.current", "800\n"),
        ("memory.peak", "960\n"),
        ("memory.max", "1000\n"),
        ("memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n"),
    ];

    #[test]
    fn version_2_in_a_container_is_read() {
        let dir = tree(V2);
        let cgroup = Cgroup::below(dir.path(), "0::/\n").unwrap();
        assert_eq!((cgroup.source(), cgroup.cpu_usec()), ("cgroup2", Ok(2_500_000)));
        assert_eq!(cgroup.cpu_quota(), Ok(Limit::At(1.5)));
        assert_eq!((cgroup.memory_current(), cgroup.memory_peak()), (Ok(800), Ok(960)));
        assert_eq!((cgroup.memory_limit(), cgroup.oom_kills()), (Ok(Limit::At(1000)), Ok(3)));
    }

    #[test]
    fn version_2_without_a_namespace_is_found_by_its_path() {
        let mut files = vec![("cgroup.controllers", "cpu"), ("cpu.stat", "usage_usec 1\n")];
        files.push(("kubepods/a/cpu.stat", "usage_usec 7\n"));
        files.push(("kubepods/a/cpu.max", "max 100000\n"));
        files.push(("kubepods/a/memory.max", "max\n"));
        let dir = tree(&files);
        let cgroup = Cgroup::below(dir.path(), "0::/kubepods/a\n").unwrap();
        assert_eq!((cgroup.cpu_usec(), cgroup.cpu_quota()), (Ok(7), Ok(Limit::Unlimited)));
        assert_eq!(cgroup.memory_limit(), Ok(Limit::Unlimited));
        assert!(cgroup.memory_current().unwrap_err().contains("memory.current"));
    }

    #[test]
    fn version_1_is_read_and_named() {
        let dir = tree(&[
            ("memory/memory.usage_in_bytes", "800\n"),
            ("memory/memory.max_usage_in_bytes", "900\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("cpu,cpuacct/cpuacct.usage", "5000000\n"),
            ("cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ]);
        let own = "5:cpu,cpuacct:/kubepods/x\n4:memory:/kubepods/x\n0::/\n";
        let cgroup = Cgroup::below(dir.path(), own).unwrap();
        assert_eq!((cgroup.source(), cgroup.cpu_usec()), ("cgroup1", Ok(5000)));
        assert_eq!(cgroup.cpu_quota(), Ok(Limit::At(0.5)));
        assert_eq!((cgroup.memory_limit(), cgroup.oom_kills()), (Ok(Limit::Unlimited), Ok(2)));
        assert_eq!((cgroup.memory_current(), cgroup.memory_peak()), (Ok(800), Ok(900)));
    }

    #[test]
    fn nothing_there_is_said() {
        let dir = tree(&[]);
        assert!(Cgroup::below(dir.path(), "").unwrap_err().contains("neither version"));
        let broken =
            tree(&[("cgroup.controllers", ""), ("cpu.stat", "usage_usec many\n"), ("cpu.max", "x y")]);
        let cgroup = Cgroup::below(broken.path(), "0::/").unwrap();
        assert!(cgroup.cpu_usec().unwrap_err().contains("not a number"));
        assert!(cgroup.cpu_quota().unwrap_err().contains("not a quota"));
    }
}
