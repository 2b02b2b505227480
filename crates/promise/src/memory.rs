//! Control groups that leave a program less memory than it uses, and swap for what they push out.
//!
//! The swap is one device in memory for all tests of this process. It goes with the process, however that ends. A control
//! group goes with the run that it was made for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use forebay_testkit::{Profile, SlowBlock};

use crate::scratch;

const SWAP_BYTES: u64 = 2 << 30;
/// Above any other swap that the machine may have.
const SWAP_PRIORITY: &str = "32767";
/// How long the kernel may take to see that a group is empty, in steps of 10 ms.
const REMOVAL_TRIES_MAX: u32 = 300;

/// Why programs cannot be made to swap here; `None` where they can.
///
/// The first call starts the swap.
#[must_use]
pub fn obstacle() -> Option<&'static str> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    FOUND.get_or_init(|| start_swap().and_then(|()| Group::start("probe", 64).map(drop)).err()).as_deref()
}

fn start_swap() -> Result<(), String> {
    static DEVICE: OnceLock<SlowBlock> = OnceLock::new();
    if !crate::root() {
        return Err("only root may swap to a device of its own".to_owned());
    }
    let wanted = scratch::disk().filter(|profile| profile.latency().is_some());
    let device =
        SlowBlock::start(wanted.unwrap_or(Profile::Cloud), SWAP_BYTES).map_err(|error| error.to_string())?;
    device.set_latency(false).map_err(|error| error.to_string())?;
    for words in [&["mkswap", "-q"][..], &["swapon", "--priority", SWAP_PRIORITY][..]] {
        let places = ["", "/usr/sbin/", "/sbin/"];
        let run = |place: &&str| {
            Command::new(format!("{place}{}", words[0])).args(&words[1..]).arg(device.device()).output().ok()
        };
        let output = places.iter().find_map(run).ok_or_else(|| format!("{} is not installed", words[0]))?;
        if !output.status.success() {
            return Err(format!("{}: {}", words[0], String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    // Otherwise a device that answers through a process makes everybody wait long enough.
    device.set_latency(wanted.is_some()).map_err(|error| error.to_string())?;
    let _ = DEVICE.set(device);
    Ok(())
}

/// A control group with a memory limit. Dropping it removes it.
pub struct Group(PathBuf);

impl Group {
    /// Makes a group that may use `mib` mebibytes, and swap.
    ///
    /// # Errors
    /// Says what this machine lacks.
    pub fn start(name: &str, mib: u64) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (above, limit) = controller().ok_or("there is no memory controller")?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("forebay-promise-{}-{number}-{name}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("no control group can be made: {error}"))?;
        let group = Self(path);
        fs::write(group.0.join(limit), (mib << 20).to_string())
            .map_err(|error| format!("no memory limit can be set: {error}"))?;
        Ok(group)
    }

    /// The file that a process writes its number to, to become a member.
    #[must_use]
    pub fn members(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// How many members the kernel has killed for want of memory.
    #[must_use]
    pub fn killed(&self) -> u64 {
        let told = ["memory.oom_control", "memory.events"].map(|name| fs::read_to_string(self.0.join(name)));
        let lines = told.iter().flatten().flat_map(|text| text.lines());
        lines.filter_map(|line| line.strip_prefix("oom_kill ")?.parse::<u64>().ok()).sum()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..REMOVAL_TRIES_MAX {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where groups with a memory limit can be made, and the file that sets it, in either version of control groups.
fn controller() -> Option<(PathBuf, &'static str)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let path = Path::new(place.split(' ').nth(4)?).to_owned();
        let mut words = kind.split(' ');
        match words.next()? {
            "cgroup" => {
                let options = words.nth(1)?;
                options.split(',').any(|option| option == "memory").then_some((path, "memory.limit_in_bytes"))
            }
            "cgroup2" => {
                let handed_down = fs::read_to_string(path.join("cgroup.subtree_control")).ok()?;
                handed_down.split_whitespace().any(|name| name == "memory").then_some((path, "memory.max"))
            }
            _ => None,
        }
    })
}
