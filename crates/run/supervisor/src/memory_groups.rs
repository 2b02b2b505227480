//! The control groups that the program runs in.
//!
//! They tell how much memory the program has left, whether its tasks wait for memory, and whether the kernel killed one of
//! its processes for want of it. A program may join another group at any time.

use std::path::{Path, PathBuf};

use forebay_linux::groups;

/// Where the kernel tells of the whole machine how long tasks waited for memory (PSI).
const MACHINE_PRESSURE: &str = "/proc/pressure/memory";
/// The same of a group of version 2.
const GROUP_PRESSURE: &str = "memory.pressure";

/// The groups of one process.
pub struct MemoryGroups {
    pid: u32,
    membership: Option<String>,
    /// The innermost first.
    chain: Vec<PathBuf>,
    pressure: PathBuf,
    /// The innermost groups that the process was seen in, with the kills that they had then.
    seen: Vec<(PathBuf, u64)>,
}

impl MemoryGroups {
    /// Those of process `pid`; nothing was looked at yet.
    pub fn new(pid: u32) -> Self {
        Self { pid, membership: None, chain: vec![], pressure: MACHINE_PRESSURE.into(), seen: vec![] }
    }

    /// Looks where the process is now. Whether that is another place than before.
    pub fn look(&mut self) -> bool {
        // One that has just ended was where it was before; forebay's own group is where it began.
        let known = self.membership.is_some();
        let now = groups::membership(self.pid)
            .or_else(|| groups::membership(std::process::id()).filter(|_| !known));
        match now {
            Some(membership) if self.membership.as_ref() != Some(&membership) => {
                let chain = groups::of_member(&membership);
                self.move_to(membership, chain);
                true
            }
            _ => false,
        }
    }

    fn move_to(&mut self, membership: String, chain: Vec<PathBuf>) {
        let innermost = chain.iter().map(|group| group.join(GROUP_PRESSURE)).find(|file| file.exists());
        self.pressure = innermost.unwrap_or_else(|| MACHINE_PRESSURE.into());
        for group in chain.iter().filter(|group| chain.iter().all(|other| other.parent() != Some(group))) {
            if let Some(kills) =
                groups::kills(group).filter(|_| self.seen.iter().all(|(seen, _)| seen != group))
            {
                self.seen.push((group.clone(), kills));
            }
        }
        self.membership = Some(membership);
        self.chain = chain;
    }

    /// Where the kernel tells how long tasks of the process's group, or else of the machine, waited for memory.
    pub fn pressure(&self) -> &Path {
        &self.pressure
    }

    /// Whether the kernel keeps account of their memory.
    pub fn have_account(&self) -> bool {
        groups::has_account(&self.chain)
    }

    /// The least that one of them may use; `None` where there is no limit.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.chain.iter().filter_map(|group| groups::limit_bytes(group)).min()
    }

    /// The least that one of them has left; `None` where there is no limit.
    pub fn left_bytes(&self) -> Option<u64> {
        self.chain.iter().filter_map(|group| groups::left_bytes(group)).min()
    }

    /// Whether one of them has little left.
    pub fn are_full(&self) -> bool {
        self.chain.iter().any(|group| groups::is_full(group))
    }

    /// Pages that programs in the innermost group that tells it had to have swapped in again so far.
    pub fn missed_pages(&self) -> Option<u64> {
        self.chain.iter().find_map(|group| groups::missed_pages(group))
    }

    /// Whether one of them has processes wait for each other when nothing is left.
    pub fn wait_when_full(&self) -> bool {
        self.chain.iter().any(|group| groups::waits_when_full(group))
    }

    /// Processes of them that the kernel killed for want of memory since the first look.
    pub fn kills(&self) -> u64 {
        let since =
            |(group, before): &(PathBuf, u64)| groups::kills(group).map(|now| now.saturating_sub(*before));
        self.seen.iter().filter_map(since).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A group of version 2 in a folder, with what the kernel shows of it.
    fn group(folder: &Path, kills: u64) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(GROUP_PRESSURE), "").unwrap();
        fs::write(folder.join("memory.events"), format!("oom_kill {kills}\n")).unwrap();
        folder.to_owned()
    }

    fn chain(membership: &str, root: &Path) -> Vec<PathBuf> {
        let mounts = format!(
            "35 31 0:32 / {0}/v1 rw - cgroup cgroup rw,memory\n41 31 0:38 / {0}/v2 rw - cgroup2 cgroup2 rw\n",
            root.display()
        );
        groups::own_of(membership, &mounts)
    }

    #[test]
    fn pressure_is_that_of_the_innermost_group_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let inner = group(&root.join("v2/a/b"), 0);
        group(&root.join("v2"), 0);
        fs::create_dir_all(root.join("v1/x")).unwrap();
        let mut groups = MemoryGroups::new(0);
        assert_eq!(groups.pressure(), Path::new(MACHINE_PRESSURE));
        for (membership, expected) in [
            ("0::/a/b\n", inner.join(GROUP_PRESSURE)),
            // The group of memory of version 1 has no such file; that of version 2 beside it has.
            ("4:memory:/x\n0::/a/b\n", inner.join(GROUP_PRESSURE)),
            // It was switched off in the group `a` (`cgroup.pressure`).
            ("0::/a\n", root.join("v2").join(GROUP_PRESSURE)),
            ("4:memory:/x\n", MACHINE_PRESSURE.into()),
            ("", MACHINE_PRESSURE.into()),
        ] {
            groups.move_to(membership.into(), chain(membership, root));
            assert_eq!(groups.pressure(), expected, "{membership:?}");
        }
    }

    #[test]
    fn kills_count_from_when_the_program_came_to_a_group() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let [first, second] = ["v2/first", "v2/second"].map(|name| group(&root.join(name), 5));
        let mut groups = MemoryGroups::new(0);
        for name in ["0::/first\n", "0::/second\n", "0::/first\n"] {
            groups.move_to(name.into(), chain(name, root));
            assert_eq!(groups.kills(), 0, "those were before");
        }
        group(&first, 6);
        assert_eq!(groups.kills(), 1);
        group(&second, 7);
        assert_eq!(groups.kills(), 3, "the program may have gone on elsewhere since");
    }

    #[test]
    fn a_process_is_looked_up_again_until_it_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut groups = MemoryGroups::new(child.id());
        assert!(groups.look() && !groups.look(), "it moves nowhere");
        let before = groups.membership.clone();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!groups.look(), "what was last seen stays");
        assert_eq!(groups.membership, before);
        // Where nothing was seen it is forebay's own place.
        assert!(MemoryGroups::new(child.id()).look());
    }
}
