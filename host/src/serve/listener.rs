//! The socket's name.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::UnixListener;

/// Owner and group: the sidecar connects as a member of the group.
const MODE: u32 = 0o770;

/// Binds a fresh name and puts it in the place of the last host's: whoever connects finds one or the other.
pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    let prefix = format!("{}.", path.file_name().unwrap_or_default().to_string_lossy());
    if let Some(folder) = path.parent() {
        sweep(folder, &prefix)?;
    }
    let fresh = path.with_file_name(format!("{prefix}{}", std::process::id()));
    let listener = UnixListener::bind(&fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(MODE))?;
    fs::rename(&fresh, path)?;
    Ok(listener)
}

/// Removes what hosts left behind that ended between binding and renaming.
fn sweep(folder: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}
