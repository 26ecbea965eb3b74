//! The home folder: the only module that turns a caller's path into a folder.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use cuddy_protocol::{CommandError, ErrorCode};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// The folder of repositories below home.
const REPOSITORIES: &str = "git";
/// How often a lookup is tried that the kernel breaks off because something was renamed meanwhile.
const TRIES: usize = 8;

/// A folder to work in: opened beneath home, so it stays what was checked.
#[derive(Debug)]
pub struct Folder {
    /// The folder.
    pub handle: OwnedFd,
    /// Where it is, for records and messages.
    pub path: String,
}

/// The home folder.
#[derive(Debug, Clone)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// Returns the home folder at this place.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Opens the folder that a caller named, or the default: the one repository, or home where there is none or several.
    pub fn open(&self, cwd: Option<&str>) -> Result<Folder, CommandError> {
        let root = self.root()?;
        let Some(cwd) = cwd else { return self.default(&root) };
        let beneath = self.beneath(cwd)?;
        let handle = resolve(&root, beneath).map_err(|errno| self.refused(cwd, errno))?;
        Ok(folder(handle))
    }

    fn root(&self) -> Result<OwnedFd, CommandError> {
        openat(CWD, &self.path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(
            |errno| {
                let message = format!("the home folder {} cannot be opened: {errno}", self.path.display());
                CommandError::new(ErrorCode::Unavailable, message)
            },
        )
    }

    /// Returns the path below home that a caller's path means. Whether it leads there is the kernel's to say.
    fn beneath<'p>(&self, cwd: &'p str) -> Result<&'p Path, CommandError> {
        if cwd.contains('\0') {
            return Err(CommandError::invalid("$.cwd", "a path without NUL"));
        }
        let path = Path::new(cwd);
        let path = if path.is_absolute() {
            path.strip_prefix(&self.path).map_err(|_| self.outside(cwd))?
        } else {
            path
        };
        Ok(if path.as_os_str().is_empty() { Path::new(".") } else { path })
    }

    fn default(&self, root: &OwnedFd) -> Result<Folder, CommandError> {
        if let Some(name) = self.only_repository() {
            let path = Path::new(REPOSITORIES).join(name);
            if let Ok(handle) = resolve(root, &path) {
                return Ok(folder(handle));
            }
        }
        // Through `.`: the root handle itself is good for lookups only where the kernel is old.
        let handle = resolve(root, Path::new(".")).map_err(|errno| self.refused(".", errno))?;
        Ok(folder(handle))
    }

    fn only_repository(&self) -> Option<std::ffi::OsString> {
        let is_repository = |entry: &fs::DirEntry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir())
                && fs::symlink_metadata(entry.path().join(OsStr::new(".git"))).is_ok()
        };
        let entries = fs::read_dir(self.path.join(REPOSITORIES)).ok()?;
        let mut repositories = entries.filter_map(Result::ok).filter(is_repository);
        let only = repositories.next()?.file_name();
        repositories.next().is_none().then_some(only)
    }

    fn outside(&self, cwd: &str) -> CommandError {
        CommandError::invalid(
            "$.cwd",
            format!("a folder beneath {}, and {cwd:?} leads outside it", self.path.display()),
        )
        .with("cwd", cwd)
    }

    fn refused(&self, cwd: &str, errno: Errno) -> CommandError {
        let error = match errno {
            Errno::NOENT => {
                let message =
                    format!("$.cwd: the directory {cwd:?} does not exist beneath {}", self.path.display());
                CommandError::new(ErrorCode::NotFound, message)
            }
            Errno::XDEV | Errno::LOOP => return self.outside(cwd),
            Errno::NOTDIR => CommandError::invalid("$.cwd", format!("a directory, and {cwd:?} is none")),
            Errno::NAMETOOLONG => CommandError::invalid("$.cwd", "a shorter path"),
            Errno::ACCESS => CommandError::new(
                ErrorCode::Forbidden,
                format!("$.cwd: the directory {cwd:?} may not be entered"),
            ),
            // Without this call nothing can be kept beneath home: closed rather than by strings.
            Errno::NOSYS => CommandError::new(ErrorCode::Unavailable, "this kernel does not know openat2"),
            other => {
                CommandError::new(ErrorCode::Unavailable, format!("$.cwd: the directory {cwd:?}: {other}"))
            }
        };
        error.with("cwd", cwd)
    }
}

fn resolve(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut outcome = Err(Errno::AGAIN);
    for _ in 0..TRIES {
        outcome = openat2(root, path, flags, Mode::empty(), resolve);
        if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    outcome
}

fn folder(handle: OwnedFd) -> Folder {
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let path = fs::read_link(link).map_or_else(|_| String::new(), |path| path.to_string_lossy().into_owned());
    Folder { handle, path }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("git/one/.git")).unwrap();
        fs::create_dir_all(path.join("git/plain")).unwrap();
        (dir, Home::new(path))
    }

    fn code(outcome: Result<Folder, CommandError>) -> ErrorCode {
        outcome.unwrap_err().error_code
    }

    #[test]
    fn folders_beneath_home_are_opened() {
        let (_dir, home) = home();
        let one = home.path.join("git/one").display().to_string();
        for cwd in ["git/one", "git/one/", "git/../git/one", "./git/one", one.as_str()] {
            assert_eq!(home.open(Some(cwd)).unwrap().path, one, "{cwd}");
        }
        let root = home.path.display().to_string();
        for cwd in [".", "", root.as_str(), &format!("{root}/")] {
            assert_eq!(home.open(Some(cwd)).unwrap().path, root, "{cwd}");
        }
        symlink("git/one", home.path.join("inner")).unwrap();
        assert_eq!(home.open(Some("inner")).unwrap().path, one);
    }

    #[test]
    fn the_default_is_the_only_repository() {
        let (_dir, home) = home();
        assert!(home.open(None).unwrap().path.ends_with("/git/one"));
        fs::create_dir_all(home.path.join("git/two/.git")).unwrap();
        assert_eq!(home.open(None).unwrap().path, home.path.display().to_string());
        fs::remove_dir_all(home.path.join("git")).unwrap();
        assert_eq!(home.open(None).unwrap().path, home.path.display().to_string());
    }

    #[test]
    fn nothing_leads_outside() {
        let (_dir, home) = home();
        symlink("/etc", home.path.join("out")).unwrap();
        symlink("/proc/self/root", home.path.join("magic")).unwrap();
        symlink("../..", home.path.join("up")).unwrap();
        let sibling = format!("{}-other", home.path.display());
        for cwd in
            ["..", "/", "/etc", "/proc/self/root", "out", "magic", "magic/etc", "up", "git/../../x", &sibling]
        {
            assert_eq!(code(home.open(Some(cwd))), ErrorCode::InvalidParams, "{cwd}");
        }
        let absolute = format!("{}/../..", home.path.display());
        assert_eq!(code(home.open(Some(&absolute))), ErrorCode::InvalidParams);
        assert_eq!(code(home.open(Some("a\0b"))), ErrorCode::InvalidParams);
    }

    #[test]
    fn the_error_names_the_directory() {
        let (_dir, home) = home();
        let error = home.open(Some("git/none")).unwrap_err();
        assert_eq!(error.error_code, ErrorCode::NotFound);
        assert!(error.message.contains("git/none"), "{}", error.message);
        fs::write(home.path.join("file"), "").unwrap();
        let error = home.open(Some("file")).unwrap_err();
        assert_eq!(error.error_code, ErrorCode::InvalidParams);
        assert!(error.message.contains("\"file\""), "{}", error.message);
    }
}
