//! How much memory prefetching, and each speculator, may take: a share of what the machine has available, or of what
//! the control group that the program runs in is allowed, if that is less; and whether memory is short there.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use forebay_speculation::channel::{Header, MEMORY_ENOUGH, MEMORY_SHORT};

/// Until it is known.
pub const BYTES_AT_FIRST: u64 = 64 << 20;
const SHARE: u64 = 8;
const HORIZON_BYTES_MAX: u64 = 256 << 20;
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// Between looks: both figures change.
const INTERVAL: Duration = Duration::from_secs(1);

/// Memory is short where tasks waited for it for more than this part of the time.
const WAITED_PART: u128 = 1_000;

/// Keeps the limits in the header up to date.
pub struct MemoryLimits {
    /// What the user said that a speculator may take.
    wanted_bytes: Option<u64>,
    groups: Vec<PathBuf>,
    looked: Option<Instant>,
    /// Where the kernel tells how long tasks waited for memory (PSI), and what it told last.
    pressure: Option<PathBuf>,
    waited_us: Option<u64>,
}

impl MemoryLimits {
    /// For this process's control group. `wanted_bytes` is what a speculator may add, if that is given.
    pub fn new(header: &Header, wanted_bytes: Option<u64>) -> Self {
        if let Some(bytes) = wanted_bytes {
            header.memory_bytes_max.store(bytes, Relaxed);
        }
        Self { wanted_bytes, groups: vec![], looked: None, pressure: None, waited_us: None }
    }

    /// Sets the limits, if it is time.
    pub fn look_if_due(&mut self, header: &Header) {
        if self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return;
        }
        if self.looked.is_none() {
            self.groups = groups();
            self.pressure = self.groups.first().map(|group| group.join("memory.pressure"));
            if !self.pressure.as_ref().is_some_and(|file| file.exists()) {
                self.pressure = Some("/proc/pressure/memory".into());
            }
        }
        self.look_at_pressure(header);
        self.looked = Some(Instant::now());
        let allowed = self.groups.iter().filter_map(|group| limit_bytes(group)).min();
        let share = available_bytes().into_iter().chain(allowed).min().map(|bytes| bytes / SHARE);
        if let Some(share) = share {
            header.horizon_bytes.store(share.min(HORIZON_BYTES_MAX), Relaxed);
        }
        if let Some(bytes) = self.wanted_bytes.or(share.map(|share| share.min(MEMORY_BYTES_MAX))) {
            header.memory_bytes_max.store(bytes, Relaxed);
        }
    }
}

impl MemoryLimits {
    fn look_at_pressure(&mut self, header: &Header) {
        let Some(file) = &self.pressure else { return };
        let text = fs::read_to_string(file).unwrap_or_default();
        let waited_us = waited_us(&text);
        let before = std::mem::replace(&mut self.waited_us, waited_us);
        if let (Some(waited_us), Some(before), Some(looked)) = (waited_us, before, self.looked) {
            let waited = u128::from(waited_us.saturating_sub(before));
            let short = waited * WAITED_PART > looked.elapsed().as_micros();
            header.memory.store(if short { MEMORY_SHORT } else { MEMORY_ENOUGH }, Relaxed);
        }
    }
}

/// For how long some task waited for memory since the start, as the kernel tells it:
/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn waited_us(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// Whether this process is in a control group of memory.
#[must_use]
pub fn has_memory_group() -> bool {
    let controls = |group: &PathBuf| {
        ["memory.max", "memory.limit_in_bytes"].iter().any(|name| group.join(name).exists())
    };
    groups().iter().any(controls)
}

/// Memory that the machine could give to programs.
fn available_bytes() -> Option<u64> {
    // The line is the third; one read of a page has it.
    let mut page = [0; 4096];
    let length = File::open("/proc/meminfo").ok()?.read(&mut page).ok()?;
    let text = std::str::from_utf8(&page[..length]).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Folders of the control group of memory that this process is in, and of those around it.
fn groups() -> Vec<PathBuf> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    groups_of(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

fn groups_of(membership: &str, mounts: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (kind, option) = match controllers {
            "" => ("cgroup2", None),
            list if list.split(',').any(|controller| controller == "memory") => ("cgroup", Some("memory")),
            _ => continue,
        };
        let Some((root, mounted_at)) = mounts.lines().find_map(|mount| mount_of(mount, kind, option)) else {
            continue;
        };
        // In a container the mount may show a part of the tree only.
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let folder = Path::new(mounted_at).join(below);
        found.extend(
            folder.ancestors().take_while(|folder| folder.starts_with(mounted_at)).map(Path::to_owned),
        );
    }
    found
}

/// Root and mount point, from a line of mountinfo, if it is of this kind.
fn mount_of<'a>(line: &'a str, kind: &str, option: Option<&str>) -> Option<(&'a str, &'a str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut of_system = file_system.split(' ');
    let same = of_system.next() == Some(kind)
        && option.is_none_or(|option| {
            of_system.nth(1).is_some_and(|options| options.split(',').any(|word| word == option))
        });
    let mut words = mount.split(' ').skip(3);
    let place = (words.next()?, words.next()?);
    same.then_some(place)
}

/// What the group may use, by either version's file; `None` where there is no limit.
fn limit_bytes(group: &Path) -> Option<u64> {
    ["memory.max", "memory.high", "memory.limit_in_bytes"]
        .iter()
        .filter_map(|name| fs::read_to_string(group.join(name)).ok()?.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "4:memory:/a/b\n9:name=systemd:/x\n0::/c\n";
    const MOUNTS: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn pressure_is_read_as_the_kernel_tells_it() {
        let text = "some avg10=0.12 avg60=0.00 avg300=0.00 total=4711\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=42\n";
        assert_eq!(waited_us(text), Some(4711));
        assert_eq!(waited_us(""), None);
    }

    #[test]
    fn groups_of_either_version_are_found_with_those_around_them() {
        let found = groups_of(BOTH, MOUNTS);
        let expected = [
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/unified/c",
            "/sys/fs/cgroup/unified",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_mount_may_show_a_part_of_the_tree() {
        let mounts = "35 31 0:32 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = groups_of("4:memory:/docker/7/inner\n", mounts);
        assert_eq!(found[0], Path::new("/sys/fs/cgroup/memory/inner"));
        assert_eq!(groups_of("4:memory:/\n", mounts), [PathBuf::from("/sys/fs/cgroup/memory")]);
    }

    #[test]
    fn without_groups_nothing_is_found() {
        assert!(groups_of("", MOUNTS).is_empty());
        assert!(groups_of(BOTH, "").is_empty());
        assert!(groups_of("nonsense", "nonsense").is_empty());
    }

    #[test]
    fn limits_of_both_versions_are_read() {
        let folder = std::env::temp_dir().join(format!("forebay-limits-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        assert_eq!(limit_bytes(&folder), None);
        fs::write(folder.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit_bytes(&folder), None);
        fs::write(folder.join("memory.high"), "1048576\n").unwrap();
        assert_eq!(limit_bytes(&folder), Some(1 << 20));
        fs::write(folder.join("memory.limit_in_bytes"), "4096\n").unwrap();
        assert_eq!(limit_bytes(&folder), Some(4096));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_limits_are_a_share_of_what_there_is_or_what_was_asked_for() {
        let channel = crate::channel::Channel::create(true).unwrap();
        let header = channel.header();
        MemoryLimits::new(header, None).look_if_due(header);
        assert!(header.horizon_bytes.load(Relaxed) <= HORIZON_BYTES_MAX);
        assert!(header.memory_bytes_max.load(Relaxed) <= available_bytes().unwrap());
        let mut limits = MemoryLimits::new(header, Some(5 << 20));
        assert_eq!(header.memory_bytes_max.load(Relaxed), 5 << 20);
        limits.look_if_due(header);
        assert_eq!(header.memory_bytes_max.load(Relaxed), 5 << 20);
    }
}
