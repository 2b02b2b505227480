//! Unmounting the file system of a rig.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_linux::{named, processes};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::Error;

/// Processes named when a disk is in use.
const USERS_NAMED_MAX: usize = 5;

/// Unmounts all that is mounted there, the last one first, trying again for as long as `patience` while something is in use.
pub(crate) fn unmount(mount_point: &Path, patience: Duration) -> Result<(), Error> {
    let give_up = Instant::now() + patience;
    loop {
        match rustix::mount::unmount(mount_point, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Nothing is mounted there.
            Err(Errno::INVAL) => return Ok(()),
            Err(Errno::BUSY) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(5)),
            Err(Errno::BUSY) => {
                return Err(Error::Busy { path: mount_point.into(), users: users_of(mount_point) });
            }
            Err(error) => return Err(Error::at("unmount", mount_point, error)),
        }
    }
}

/// Takes all mounts there out of the tree now; each ends when its last user does.
pub(crate) fn unmount_lazily(mount_point: &Path) -> Result<(), Error> {
    loop {
        match rustix::mount::unmount(mount_point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
            Ok(()) => {}
            // EINVAL: not mounted.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(error) => return Err(Error::at("unmount", mount_point, error)),
        }
    }
}

/// The processes that have something below `folder` open, mapped, running or as their working directory.
fn users_of(folder: &Path) -> String {
    let uses = |process: &u32| uses(&Path::new("/proc").join(process.to_string()), folder);
    let users: BTreeSet<String> = processes().filter(uses).map(named).collect();
    match users.len() {
        0 => "something that is no process (a mount below it, swap, a namespace)".into(),
        count if count > USERS_NAMED_MAX => format!("{count} processes"),
        _ => users.into_iter().collect::<Vec<_>>().join(", "),
    }
}

fn uses(process: &Path, folder: &Path) -> bool {
    let leads_there = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(folder));
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    ["cwd", "root", "exe"].iter().any(|name| leads_there(&process.join(name)))
        || descriptors.map(|entry| entry.path()).any(|link| leads_there(&link))
        || fs::read_to_string(process.join("maps"))
            .is_ok_and(|maps| maps.lines().any(|line| line.contains(&*folder.to_string_lossy())))
}
