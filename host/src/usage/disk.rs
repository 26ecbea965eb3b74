//! Disk.

use std::path::Path;

use cuddy_commands::usage::DiskUsage;

use super::tenth;

/// Returns the file system of a folder, if it can be asked.
pub(super) fn read(mount: &Path) -> Option<DiskUsage> {
    let stat = rustix::fs::statvfs(mount).ok()?;
    let total_bytes = stat.f_blocks.checked_mul(stat.f_frsize)?;
    let used_bytes = stat.f_blocks.saturating_sub(stat.f_bfree).checked_mul(stat.f_frsize)?;
    // Of what this user may use: the reserve of root counts as neither free nor used, as df does it.
    let usable = used_bytes + stat.f_bavail.saturating_mul(stat.f_frsize);
    let percent_used = if usable > 0 { tenth(used_bytes as f64 / usable as f64 * 100.0) } else { 0.0 };
    Some(DiskUsage { mount: mount.display().to_string(), total_bytes, used_bytes, percent_used })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_a_size() {
        let disk = read(Path::new("/")).unwrap();
        assert!(disk.total_bytes >= disk.used_bytes && disk.used_bytes > 0);
        assert!((0.0..=100.0).contains(&disk.percent_used));
        assert_eq!(read(Path::new("/nowhere")), None);
    }
}
