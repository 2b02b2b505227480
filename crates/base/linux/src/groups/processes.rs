//! Limits that control groups put on the number of processes, each thread counted.

use std::fs;
use std::path::{Path, PathBuf};

use crate::groups::folders::chain;

const LIMIT: &str = "pids.max";
const USED: &str = "pids.current";

/// The groups around process `pid` that have such a limit.
#[must_use]
pub fn limiting(pid: u32) -> Vec<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let around = chain("pids", &read(&format!("/proc/{pid}/cgroup")), &read("/proc/self/mountinfo"));
    around.into_iter().filter(|group| number(group, LIMIT).is_some()).collect()
}

/// How many more processes a group may have; `None` where it has no limit.
#[must_use]
pub fn left(group: &Path) -> Option<u64> {
    Some(number(group, LIMIT)?.saturating_sub(number(group, USED)?))
}

fn number(group: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_and_max_is_none() {
        let group = tempfile::tempdir().unwrap();
        let tell = |name, text: &str| fs::write(group.path().join(name), text).unwrap();
        tell(USED, "20\n");
        assert_eq!(left(group.path()), None);
        for (limit, expected) in [("max\n", None), ("24\n", Some(4)), ("7\n", Some(0))] {
            tell(LIMIT, limit);
            assert_eq!(left(group.path()), expected, "{limit}");
        }
    }
}
