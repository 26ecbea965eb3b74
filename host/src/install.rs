//! `install`: puts this program where the user's container finds it, and makes the volume's folders.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use cuddy_protocol::places;

/// The program's mode: any user of the container may run it, none may write it.
const PROGRAM_MODE: u32 = 0o755;
/// The mode of home: both users of the pod through their group, which new files inherit.
const HOME_MODE: u32 = 0o2770;
/// The mode of the sidecar's state.
const STATE_MODE: u32 = 0o700;

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The program.
    #[error("copy the program to {}", path.display())]
    Program {
        /// Where to.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A folder.
    #[error("make the folder {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// Installs; again and again with the same outcome.
pub fn run(bin_dir: &Path, volume: Option<&Path>) -> Result<(), InstallError> {
    let program = bin_dir.join(places::HOST_BIN);
    copy_program(&program).map_err(|source| InstallError::Program { path: program, source })?;
    let Some(volume) = volume else { return Ok(()) };
    let gid = u32::try_from(places::SHARED_GID).ok();
    for (name, mode, gid) in
        [(places::VOLUME_HOME, HOME_MODE, gid), (places::VOLUME_SIDECAR, STATE_MODE, None)]
    {
        let path = volume.join(name);
        make_folder(&path, mode, gid).map_err(|source| InstallError::Folder { path, source })?;
    }
    Ok(())
}

/// Copies to a fresh name first: whoever starts the program finds the old one or the new one, whole.
fn copy_program(target: &Path) -> io::Result<()> {
    let fresh = target.with_file_name(format!(".{}.{}", places::HOST_BIN, std::process::id()));
    let _ = fs::remove_file(&fresh);
    let outcome = (|| {
        let mut source = File::open("/proc/self/exe")?;
        let mut copy = OpenOptions::new().write(true).create_new(true).mode(PROGRAM_MODE).open(&fresh)?;
        io::copy(&mut source, &mut copy)?;
        // The mode at creation is cut by the umask.
        copy.set_permissions(Permissions::from_mode(PROGRAM_MODE))?;
        copy.sync_all()?;
        drop(copy);
        fs::rename(&fresh, target)
    })();
    if outcome.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    outcome
}

fn make_folder(path: &Path, mode: u32, gid: Option<u32>) -> io::Result<()> {
    match fs::DirBuilder::new().mode(mode & 0o777).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    // Not a link: what lies behind one is not ours to change.
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "something else has this name"));
    }
    if let Some(gid) = gid.filter(|gid| *gid != found.gid()) {
        // Allowed to members of the group alone; on a machine without it the folder keeps the group it has.
        if let Err(error) = chown(path, None, Some(gid))
            && error.kind() != io::ErrorKind::PermissionDenied
        {
            return Err(error);
        }
    }
    // After the group: changing that clears the bit by which new files inherit it.
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Err(_) if fs::symlink_metadata(path)?.mode() & 0o7777 == mode => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        for _ in 0..2 {
            make_folder(&home, HOME_MODE, None).unwrap();
            assert_eq!(fs::metadata(&home).unwrap().mode() & 0o7777, HOME_MODE);
            fs::write(home.join("file"), "kept").unwrap();
        }
        assert_eq!(fs::read(home.join("file")).unwrap(), b"kept");
    }

    #[test]
    fn a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::os::unix::fs::symlink("/tmp", &home).unwrap();
        let mode = fs::metadata("/tmp").unwrap().mode();
        assert!(make_folder(&home, HOME_MODE, None).is_err());
        assert_eq!(fs::metadata("/tmp").unwrap().mode(), mode);
    }
}
