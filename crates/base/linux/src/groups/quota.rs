//! Processor time that control groups allow in each period, and how often it ran out.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::groups::folders::chain;
use crate::kernel_text::keyed;

/// What a group with a quota counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quota {
    /// Processors that it allows.
    pub processors: f64,
    /// Periods in which the group had something to do.
    pub periods: f64,
    /// Of those the ones in which its time ran out.
    pub throttled: f64,
}

/// The groups of the processor around process `pid`, for each version the innermost first.
#[must_use]
pub fn around(pid: u32) -> Vec<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    chain("cpu", &read(&format!("/proc/{pid}/cgroup")), &read("/proc/self/mountinfo"))
}

/// The groups around process `pid` that have a quota of processor time.
#[must_use]
pub fn limiting(pid: u32) -> Vec<PathBuf> {
    around(pid).into_iter().filter(|group| of(group).is_some()).collect()
}

/// The quota of a group; `None` where it has none.
#[must_use]
pub fn of(group: &Path) -> Option<Quota> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let processors = match read("cpu.max") {
        Some(text) => {
            let mut numbers = text.split_whitespace().map(str::parse::<f64>);
            numbers.next()?.ok()? / numbers.next()?.ok()?
        }
        None => {
            let number = |name: &str| read(name)?.trim().parse::<f64>().ok();
            number("cpu.cfs_quota_us").filter(|quota| *quota > 0.0)? / number("cpu.cfs_period_us")?
        }
    };
    let text = read("cpu.stat")?;
    let counted: HashMap<&str, f64> = keyed(&text);
    let count = |key| counted.get(key).copied();
    Some(Quota { processors, periods: count("nr_periods")?, throttled: count("nr_throttled")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_in_both_versions_and_none_is_none() {
        let group = tempfile::tempdir().unwrap();
        let tell = |name, text: &str| fs::write(group.path().join(name), text).unwrap();
        tell("cpu.stat", "nr_periods 40\nnr_throttled 30\nthrottled_time 5\n");
        assert_eq!(of(group.path()), None);
        tell("cpu.cfs_quota_us", "-1\n");
        tell("cpu.cfs_period_us", "100000\n");
        assert_eq!(of(group.path()), None);
        tell("cpu.cfs_quota_us", "50000\n");
        assert_eq!(of(group.path()), Some(Quota { processors: 0.5, periods: 40.0, throttled: 30.0 }));
        tell("cpu.max", "max 100000\n");
        assert_eq!(of(group.path()), None);
        tell("cpu.max", "25000 100000\n");
        assert_eq!(of(group.path()).unwrap().processors, 0.25);
    }
}
