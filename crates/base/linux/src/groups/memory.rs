//! Limits, use and events of control groups of memory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::groups::folders::chain;
use crate::kernel_text;

/// What a group may use: of version 2, then of version 1.
pub const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];
/// From here on a group of version 2 is slowed down until it uses less.
const SLOWED: &str = "memory.high";
/// What it uses: of version 2, then of version 1.
const USED: [&str; 2] = ["memory.current", "memory.usage_in_bytes"];
/// Swap that it may use and uses (version 2); memory and swap together (version 1); whether it is swapped at all (version 1).
const SWAP: [&str; 2] = ["memory.swap.max", "memory.swap.current"];
const WITH_SWAP: [&str; 2] = ["memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"];
const SWAPPINESS: &str = "memory.swappiness";
/// What has happened in it: of version 2, there of it alone if that is told, then of version 1.
const EVENTS: [&str; 3] = ["memory.events.local", "memory.events", "memory.oom_control"];
/// A group in which less than this part of its limit is left is full.
const FULL_PART: u64 = 8;
/// What of it is of files, and has not been used for a while: of version 1 with the groups below, then of version 2.
const UNUSED: [&str; 2] = ["total_inactive_file", "inactive_file"];
/// Pages that were swapped in after the kernel had driven them out (refaults), likewise.
const MISSED: [&str; 2] = ["total_workingset_refault_anon", "workingset_refault_anon"];

/// Folders of the groups of memory that this process is in, and of those around them, for each version the innermost first.
#[must_use]
pub fn own() -> Vec<PathBuf> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    own_of(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// Text that says which groups a process is in; `None` where it has ended, or cannot be looked at.
#[must_use]
pub fn membership(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).ok().filter(|text| !text.is_empty())
}

/// Groups of memory as [`own`] has them, of those that [`membership`] tells.
#[must_use]
pub fn of_member(membership: &str) -> Vec<PathBuf> {
    own_of(membership, &fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// The same by the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
#[must_use]
pub fn own_of(membership: &str, mountinfo: &str) -> Vec<PathBuf> {
    chain("memory", membership, mountinfo)
}

/// What a group may use; `None` where there is no limit.
#[must_use]
pub fn limit_bytes(group: &Path) -> Option<u64> {
    [LIMITS[0], SLOWED, LIMITS[1]].iter().filter_map(|name| number(group, name)).min()
}

/// Whether the kernel keeps account of the memory of one of these groups, and of those in it.
#[must_use]
pub fn has_account(groups: &[PathBuf]) -> bool {
    // The root of version 2 has no limit; it tells what those below it can have.
    let offers = |group: &PathBuf| {
        let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
        controllers.split_whitespace().any(|controller| controller == "memory")
    };
    groups.iter().any(|group| LIMITS.iter().any(|name| group.join(name).exists()) || offers(group))
}

/// How many processes of a group the kernel has killed for want of memory; `None` where it does not tell.
#[must_use]
pub fn kills(group: &Path) -> Option<u64> {
    EVENTS
        .iter()
        .find_map(|name| kernel_text::number(&fs::read_to_string(group.join(name)).ok()?, "oom_kill"))
}

/// Whether processes of a group that has nothing left wait until others give back, instead of one being killed (version 1).
#[must_use]
pub fn waits_when_full(group: &Path) -> bool {
    let text = fs::read_to_string(group.join("memory.oom_control")).unwrap_or_default();
    kernel_text::number(&text, "oom_kill_disable") == Some(1)
}

/// Whether a group has little left of what it may use.
#[must_use]
pub fn is_full(group: &Path) -> bool {
    let Some(limit) = LIMITS.iter().find_map(|name| number(group, name)) else { return false };
    let is_little = |left: u64| left < limit / FULL_PART;
    // What could go at once takes the kernel long to tell.
    let used = USED.iter().find_map(|name| number(group, name));
    used.is_some_and(|used| is_little(limit.saturating_sub(used))) && left_bytes(group).is_some_and(is_little)
}

/// What the groups that this process is in leave to it, beside swap; `None` where there is no limit.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    own().iter().filter_map(|group| left_bytes(group)).min()
}

/// What groups, of which each is in the next, leave to processes in the first one, of so much memory and so much swap.
#[must_use]
pub fn left_of_bytes(groups: &[PathBuf], memory: u64, swap: u64) -> u64 {
    let least = |all: u64, left: fn(&Path) -> Option<u64>| {
        groups.iter().filter_map(|group| left(group)).fold(all, u64::min)
    };
    let both = least(memory, left_bytes).saturating_add(least(swap, left_swap_bytes));
    least(both, left_with_swap_bytes)
}

/// What of the limit of a group is free, or could be at once.
#[must_use]
pub fn left_bytes(group: &Path) -> Option<u64> {
    let limit = LIMITS.iter().find_map(|name| number(group, name))?;
    let used = USED.iter().find_map(|name| number(group, name))?;
    Some(left(group, limit, used))
}

fn left_swap_bytes(group: &Path) -> Option<u64> {
    let [limit, used] = SWAP.map(|name| number(group, name));
    Some(limit?.saturating_sub(used?))
}

fn left_with_swap_bytes(group: &Path) -> Option<u64> {
    if number(group, SWAPPINESS) == Some(0) {
        return left_bytes(group);
    }
    let [limit, used] = WITH_SWAP.map(|name| number(group, name));
    Some(left(group, limit?, used?))
}

fn left(group: &Path, limit: u64, used: u64) -> u64 {
    let unused = statistic(group, UNUSED).unwrap_or(0);
    limit.saturating_sub(used.saturating_sub(unused))
}

/// Pages of programs in a group that were swapped in so far after the kernel had driven them out.
#[must_use]
pub fn missed_pages(group: &Path) -> Option<u64> {
    statistic(group, MISSED)
}

/// A line of the group's statistics, by its names.
fn statistic(group: &Path, names: [&str; 2]) -> Option<u64> {
    let text = fs::read_to_string(group.join("memory.stat")).ok()?;
    names.iter().find_map(|name| kernel_text::number(&text, name))
}

fn number(group: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "4:memory:/a/b\n9:name=systemd:/x\n3:cpu:/b\n0::/c\n";
    const MOUNTS: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn groups_of_either_version_are_found_with_those_around_them() {
        let expected = [
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/unified/c",
            "/sys/fs/cgroup/unified",
        ];
        assert_eq!(own_of(BOTH, MOUNTS), expected.map(PathBuf::from));
    }

    #[test]
    fn a_mount_may_show_a_part_of_the_tree() {
        let mounts = "35 31 0:32 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = own_of("4:memory:/docker/7/inner\n", mounts);
        assert_eq!(found[0], Path::new("/sys/fs/cgroup/memory/inner"));
        for outside in ["4:memory:/\n", "4:memory:/elsewhere\n"] {
            assert_eq!(own_of(outside, mounts), [PathBuf::from("/sys/fs/cgroup/memory")]);
        }
    }

    #[test]
    fn without_groups_nothing_is_found() {
        assert!(own_of("", MOUNTS).is_empty());
        assert!(own_of(BOTH, "").is_empty());
        assert!(own_of("nonsense", "nonsense").is_empty());
    }

    #[test]
    fn limits_of_both_versions_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(limit_bytes(folder.path()), None);
        write("memory.max", "max\n");
        assert_eq!((limit_bytes(folder.path()), left_bytes(folder.path())), (None, None));
        write("memory.high", "1048576\n");
        assert_eq!(limit_bytes(folder.path()), Some(1 << 20));
        write("memory.limit_in_bytes", "4096\n");
        assert_eq!(limit_bytes(folder.path()), Some(4096));
    }

    #[test]
    fn an_account_is_kept_where_there_is_a_limit_or_can_be() {
        let [root, group] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let chain = [group.path().to_owned(), root.path().to_owned()];
        assert!(!has_account(&chain));
        fs::write(root.path().join("cgroup.controllers"), "cpu io\n").unwrap();
        assert!(!has_account(&chain));
        fs::write(root.path().join("cgroup.controllers"), "cpu memory io\n").unwrap();
        assert!(has_account(&chain) && !has_account(&chain[..1]));
        fs::write(group.path().join("memory.limit_in_bytes"), "1\n").unwrap();
        assert!(has_account(&chain[..1]));
    }

    #[test]
    fn kills_are_told_by_both_versions() {
        let group = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        assert_eq!(kills(group.path()), None);
        write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
        assert_eq!(kills(group.path()), Some(3));
        assert!(!waits_when_full(group.path()));
        write("memory.oom_control", "oom_kill_disable 1\nunder_oom 0\noom_kill 3\n");
        assert!(waits_when_full(group.path()));
        write("memory.events", "low 0\noom 1\noom_kill 2\noom_group_kill 0\n");
        assert_eq!(kills(group.path()), Some(2));
        write("memory.events.local", "low 0\noom 1\noom_kill 1\noom_group_kill 0\n");
        assert_eq!(kills(group.path()), Some(1));
    }

    #[test]
    fn a_group_is_full_before_nothing_is_left() {
        let group = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        assert!(!is_full(group.path()));
        write("memory.max", "8000\n");
        write("memory.current", "7000\n");
        assert!(!is_full(group.path()));
        write("memory.current", "7001\n");
        assert!(is_full(group.path()));
        write("memory.stat", "inactive_file 10\n");
        assert!(!is_full(group.path()), "that could go");
    }

    #[test]
    fn missed_pages_are_told_by_both_versions() {
        let group = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(group.path().join("memory.stat"), text).unwrap();
        assert_eq!(missed_pages(group.path()), None);
        write("anon 4096\nworkingset_refault_anon 5\nworkingset_refault_file 6\n");
        assert_eq!(missed_pages(group.path()), Some(5));
        write("workingset_refault_anon 5\ntotal_workingset_refault_anon 7\n");
        assert_eq!(missed_pages(group.path()), Some(7), "with those of the groups below");
    }

    #[test]
    fn what_is_left_counts_files_that_could_go() {
        for [limit, used, unused] in [
            ["memory.max", "memory.current", "inactive_file"],
            ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
            write(limit, "10000\n");
            write(used, "9000\n");
            assert_eq!(left_bytes(folder.path()), Some(1000));
            write("memory.stat", &format!("anon 1\n{unused} 8000\n"));
            assert_eq!(left_bytes(folder.path()), Some(9000));
            write(used, "12000\n");
            write("memory.stat", "");
            assert_eq!(left_bytes(folder.path()), Some(0));
        }
    }

    #[test]
    fn swap_counts_where_groups_may_use_it() {
        let [group, around] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let groups = [group.path().to_owned(), around.path().to_owned()];
        let left = || left_of_bytes(&groups, 1_000, 500);
        let tell = |group: &Path, files: &[(&str, &str)]| {
            files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
        };
        assert_eq!(left(), 1_500);
        // Of version 2, memory and swap are limited each for itself.
        tell(group.path(), &[("memory.max", "700"), ("memory.current", "100")]);
        assert_eq!(left(), 1_100);
        tell(around.path(), &[("memory.swap.max", "80"), ("memory.swap.current", "30")]);
        assert_eq!(left(), 650);
        tell(group.path(), &[("memory.swap.max", "0"), ("memory.swap.current", "0")]);
        assert_eq!(left(), 600);
        tell(group.path(), &[("memory.max", "max")]);
        assert_eq!(left(), 1_000);
    }

    #[test]
    fn of_version_1_a_group_has_memory_and_swap_together_or_is_not_swapped() {
        let group = tempfile::tempdir().unwrap();
        let groups = [group.path().to_owned()];
        let left = || left_of_bytes(&groups, 1_000, 500);
        let tell = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        tell("memory.limit_in_bytes", "700");
        tell("memory.usage_in_bytes", "100");
        tell(SWAPPINESS, "60");
        assert_eq!(left(), 1_100);
        tell(WITH_SWAP[0], "900");
        tell(WITH_SWAP[1], "150");
        assert_eq!(left(), 750);
        tell("memory.stat", "total_inactive_file 40");
        assert_eq!(left(), 790);
        tell(SWAPPINESS, "0");
        assert_eq!(left(), 640);
    }
}
