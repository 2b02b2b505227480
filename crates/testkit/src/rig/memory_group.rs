//! Control groups of memory: version 1, where the controller has a hierarchy of its own, and version 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Error;

/// What a group may use: of version 2, then of version 1.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];
/// What has happened in a group: of version 2, then of version 1.
const EVENTS: [&str; 2] = ["memory.events", "memory.oom_control"];
/// The processes of a group; a process whose number, or 0 for its own, is written to it joins.
pub(super) const PROCESSES: &str = "cgroup.procs";

/// The group in which groups with a limit can be made: that of this process, or the nearest around it that allows it.
pub(super) fn parent() -> Result<PathBuf, Error> {
    let missing = |needs: &str, how_to_enable: &str| Error::Unsupported {
        feature: "A limit of memory".into(),
        needs: needs.into(),
        how_to_enable: how_to_enable.into(),
    };
    if !rustix::process::geteuid().is_root() {
        return Err(missing("root", "Run the command with sudo."));
    }
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let candidates = candidates(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    candidates.into_iter().find(|group| gives_limits(group)).ok_or_else(|| {
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
    fs::write(&limit, bytes.to_string()).map_err(|error| Error::at("set", &limit, error))
}

/// How many processes of a group the kernel has killed for want of memory.
pub(super) fn kills(group: &Path) -> Result<u64, Error> {
    let events = EVENTS.iter().map(|name| group.join(name)).find(|path| path.exists());
    let events = events.unwrap_or_else(|| group.join(EVENTS[0]));
    let text = fs::read_to_string(&events).map_err(|error| Error::at("read", &events, error))?;
    let killed = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    Ok(killed.and_then(|count| count.trim().parse().ok()).unwrap_or(0))
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

/// Whether a group made in this one has a limit to set.
fn gives_limits(group: &Path) -> bool {
    let read = |name: &str| fs::read_to_string(group.join(name));
    match read("cgroup.subtree_control") {
        Ok(given) => given.split_whitespace().any(|controller| controller == "memory"),
        Err(_) => group.join(LIMITS[1]).exists(),
    }
}

/// The folders of the groups that could be divided, by the texts of /proc/self/cgroup and /proc/self/mountinfo: for
/// each version that of the process and those around it, the innermost first.
fn candidates(membership: &str, mounts: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in membership.lines() {
        // ID:CONTROLLERS:PATH (cgroups(7)); version 2 names no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let kind = match controllers {
            "" => "cgroup2",
            controllers if controllers.split(',').any(|name| name == "memory") => "cgroup",
            _ => continue,
        };
        let Some((root, mount_point)) = mounts.lines().find_map(|line| mount_of(line, kind)) else {
            continue;
        };
        let within = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let own = Path::new(mount_point).join(within);
        let around = own.ancestors().take_while(|folder| folder.starts_with(mount_point));
        found.extend(around.map(Path::to_owned));
    }
    found
}

/// The root and the mount point in a line of mountinfo (proc_pid_mountinfo(5)), if it is of such a hierarchy.
fn mount_of<'a>(line: &'a str, kind: &str) -> Option<(&'a str, &'a str)> {
    let (place, file_system) = line.split_once(" - ")?;
    let mut file_system = file_system.split_whitespace();
    // KIND SOURCE OPTIONS; the options of version 1 name its controllers.
    let (found, options) = (file_system.next()?, file_system.nth(1).unwrap_or(""));
    if found != kind || (kind == "cgroup" && options.split(',').all(|option| option != "memory")) {
        return None;
    }
    let mut place = place.split_whitespace().skip(3);
    Some((place.next()?, place.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        31 25 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        32 25 0:28 /docker/x /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory\n\
        33 25 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn groups_are_looked_for_from_the_inside() {
        let found = candidates("4:memory:/docker/x/a\n3:cpu:/b\n0::/c/d\n", MOUNTS);
        let expected = [
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/unified/c/d",
            "/sys/fs/cgroup/unified/c",
            "/sys/fs/cgroup/unified",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_leads_to_the_mount() {
        assert_eq!(candidates("4:memory:/elsewhere\n", MOUNTS), [PathBuf::from("/sys/fs/cgroup/memory")]);
        assert!(candidates("4:memory:/a\n0::/\n", "").is_empty());
    }
}
