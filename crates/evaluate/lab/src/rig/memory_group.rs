//! Control groups of memory: version 1, where the controller has a hierarchy of its own, and version 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_linux::groups::LIMITS;
use rustix::fs::{Access, access};

use crate::Error;

/// So often the kernel is asked to take memory from a group, at most.
const TRIES_MAX: usize = 5;
/// The processes of a group; a process whose number, or 0 for its own, is written to it joins.
pub(super) const PROCESSES: &str = "cgroup.procs";

/// The group in which groups with a limit can be made: that of this process, or the nearest around it that allows it.
pub(super) fn parent() -> Result<PathBuf, Error> {
    let missing = |needs: &str, how_to_enable: &str| Error::Unsupported {
        feature: "A limit of memory".into(),
        needs: needs.into(),
        how_to_enable: how_to_enable.into(),
    };
    let mut groups = forebay_linux::groups::own().into_iter().filter(|group| gives_limits(group)).peekable();
    let has_any = groups.peek().is_some();
    groups.find(|group| may_divide(group)).ok_or_else(|| {
        if has_any {
            return missing(
                "root, or a control group of memory that belongs to this user",
                "Run the command with sudo, or in a delegated group, as of: systemd-run --user --scope -p Delegate=yes.",
            );
        }
        missing(
            "a control group of memory that this process may divide",
            "Mount one with: mount -t cgroup -o memory memory /sys/fs/cgroup/memory (version 1), or give the \
             groups below the root the controller: echo +memory > /sys/fs/cgroup/cgroup.subtree_control (version 2).",
        )
    })
}

/// Sets what the processes of a group, and the files that they read, may take of memory. Swap is not limited.
pub(crate) fn set_limit(group: &Path, bytes: u64) -> Result<(), Error> {
    let limit = LIMITS.iter().map(|name| group.join(name)).find(|path| path.exists());
    let limit = limit.unwrap_or_else(|| group.join(LIMITS[0]));
    let set = || fs::write(&limit, bytes.to_string());
    // What is in use just now may be free a moment later.
    let is_busy =
        |set: &io::Result<()>| set.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy);
    let mut done = set();
    for _ in 1..TRIES_MAX {
        if !is_busy(&done) {
            break;
        }
        done = set();
    }
    done.map_err(|error| Error::at("set", &limit, error))
}

/// The most that a group has used, or what it uses.
pub(super) fn used_at_most(group: &Path) -> Option<u64> {
    const USED: [&str; 4] =
        ["memory.peak", "memory.max_usage_in_bytes", "memory.current", "memory.usage_in_bytes"];
    let number = |name| fs::read_to_string(group.join(name)).ok()?.trim().parse().ok();
    USED.into_iter().find_map(number)
}

/// How many processes of a group the kernel has killed for want of memory.
pub(super) fn kills(group: &Path) -> Result<u64, Error> {
    let gone = || Error::at("look at", group, io::Error::from(io::ErrorKind::NotFound));
    forebay_linux::groups::kills(group).ok_or_else(gone)
}

/// Removes a group. Processes that are still in it after `patience` go to the group around it. No group is fine.
pub(crate) fn remove(group: &Path, patience: Duration) -> Result<(), Error> {
    let give_up = Instant::now() + patience;
    let mut moved = false;
    loop {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && !moved => {
                if Instant::now() > give_up {
                    move_out(group);
                    moved = true;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            result => return result.map_err(|error| Error::at("remove", group, error)),
        }
    }
}

/// What cannot be moved has ended meanwhile.
fn move_out(group: &Path) {
    let Some(around) = group.parent() else { return };
    let processes = fs::read_to_string(group.join(PROCESSES)).unwrap_or_default();
    for process in processes.lines() {
        let _ = fs::write(around.join(PROCESSES), process);
    }
}

/// Whether this user may make groups in it, and put processes there.
fn may_divide(group: &Path) -> bool {
    let writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    writable(group) && writable(&group.join(PROCESSES))
}

/// Whether a group made in this one has a limit to set.
fn gives_limits(group: &Path) -> bool {
    let read = |name: &str| fs::read_to_string(group.join(name));
    match read("cgroup.subtree_control") {
        Ok(given) => given.split_whitespace().any(|controller| controller == "memory"),
        Err(_) => group.join(LIMITS[1]).exists(),
    }
}
