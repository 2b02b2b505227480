//! `forebay doctor`: what this machine supports, and the one thing that turns on each feature that is missing.

use std::fs::{self, File};
use std::io::{IoSliceMut, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use forebay_supervisor::{
    agent_library, has_cachestat, has_fault_signals, has_memory_group, has_pagemap_scan, has_userfaultfd,
    landlock_version,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::FAILURE;

/// A feature and what to know about it.
struct Feature {
    name: &'static str,
    /// What it is for.
    purpose: &'static str,
    /// What turns it on.
    remedy: &'static str,
    /// Whether `forebay run` is of no use without it.
    need: Need,
    present: fn() -> bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
    /// For the slow disks of `forebay demo` and `forebay evaluate` only.
    Rig,
}

const FEATURES: &[Feature] = &[
    Feature {
        name: "agent library",
        purpose: "is loaded into the program",
        remedy: "build it with: make",
        need: Need::Required,
        present: || agent_library::locate().is_ok(),
    },
    Feature {
        name: "glibc",
        purpose: "loads the agent; programs of another C library run unassisted",
        remedy: "install it with: apt install libc6",
        need: Need::Required,
        present: || Path::new("/lib64/ld-linux-x86-64.so.2").exists(),
    },
    Feature {
        name: "/proc",
        purpose: "connects agents with forebay",
        remedy: "mount it with: mount -t proc proc /proc",
        need: Need::Required,
        present: || Path::new("/proc/self/fd").exists(),
    },
    Feature {
        name: "seccomp",
        purpose: "jails the speculator; there is no speculation without",
        remedy: "run a kernel built with CONFIG_SECCOMP_FILTER",
        need: Need::Required,
        present: || Path::new("/proc/sys/kernel/seccomp/actions_avail").exists(),
    },
    Feature {
        name: "steady time-stamp counter",
        purpose: "times the calls of the program",
        remedy: "run on a processor (or virtual machine) with constant_tsc and nonstop_tsc",
        need: Need::Optional,
        present: has_steady_counter,
    },
    Feature {
        name: "RWF_NOWAIT",
        purpose: "starts reads without waiting for them",
        remedy: "keep data on ext4, xfs or btrfs",
        need: Need::Optional,
        present: has_rwf_nowait,
    },
    Feature {
        name: "openat2 RESOLVE_CACHED",
        purpose: "tells cold paths from cached ones",
        remedy: "run Linux 5.12 or later",
        need: Need::Optional,
        present: has_resolve_cached,
    },
    Feature {
        name: "cachestat",
        purpose: "tells what is in memory where RWF_NOWAIT cannot",
        remedy: "run Linux 6.5 or later",
        need: Need::Optional,
        present: || File::open("/proc/self/exe").is_ok_and(|file| has_cachestat(file.as_fd())),
    },
    Feature {
        name: "landlock",
        purpose: "is a second wall around the speculator",
        remedy: "boot the kernel with lsm=landlock before the other modules of that option",
        need: Need::Optional,
        present: || landlock_version().is_some(),
    },
    Feature {
        name: "perf events",
        purpose: "tells of page faults that wait for a disk or swap",
        remedy: "allow them with: sysctl kernel.perf_event_paranoid=2",
        need: Need::Optional,
        present: has_fault_signals,
    },
    Feature {
        name: "userfaultfd",
        purpose: "lets the speculator run on over memory that is not there",
        remedy: "run a kernel built with CONFIG_USERFAULTFD, in a container whose profile allows the call",
        need: Need::Optional,
        present: has_userfaultfd,
    },
    Feature {
        name: "PAGEMAP_SCAN",
        purpose: "finds memory that is swapped out",
        remedy: "run Linux 6.7 or later",
        need: Need::Optional,
        present: || File::open("/proc/self/pagemap").is_ok_and(|file| has_pagemap_scan(file.as_fd())),
    },
    Feature {
        name: "control group of memory",
        purpose: "limits how much is prefetched where a program has less memory than the machine",
        remedy: "mount the memory controller; without it the machine's memory is the limit",
        need: Need::Optional,
        present: has_memory_group,
    },
    Feature {
        name: "swap",
        purpose: "is what programs larger than memory wait for; without it that part has nothing to do",
        remedy: "add some with: swapon FILE",
        need: Need::Optional,
        present: || fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1),
    },
    Feature {
        name: "root",
        purpose: "sets up slow disks",
        remedy: "run the command with sudo",
        need: Need::Rig,
        present: || rustix::process::geteuid().is_root(),
    },
    Feature {
        name: "fuse",
        purpose: "is what slow disks are made of",
        remedy: "load it with: modprobe fuse",
        need: Need::Rig,
        present: || Path::new("/dev/fuse").exists(),
    },
    Feature {
        name: "loop devices",
        purpose: "make block devices of slow files",
        remedy: "load them with: modprobe loop",
        need: Need::Rig,
        present: || Path::new("/dev/loop-control").exists(),
    },
    Feature {
        name: "control group of memory",
        purpose: "gives programs little memory (evaluate speculation --table 5); takes root",
        remedy: "mount it with: mount -t cgroup -o memory memory /sys/fs/cgroup/memory",
        need: Need::Rig,
        present: || forebay_testkit::MemoryLimit::supported().is_ok(),
    },
];

/// Prints the list; fails where something required is missing.
pub fn run() -> anyhow::Result<ExitCode> {
    let mut missing_required = false;
    let mut text = String::new();
    for (heading, needs) in [
        ("forebay run", &[Need::Required, Need::Optional][..]),
        ("slow disks of forebay demo and forebay evaluate", &[Need::Rig]),
    ] {
        text.push_str(heading);
        text.push('\n');
        for feature in FEATURES.iter().filter(|feature| needs.contains(&feature.need)) {
            let present = (feature.present)();
            missing_required |= !present && feature.need == Need::Required;
            text.push_str(&describe(feature, present));
        }
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if missing_required { FAILURE.into() } else { ExitCode::SUCCESS })
}

fn describe(feature: &Feature, present: bool) -> String {
    let Feature { name, purpose, remedy, need, .. } = feature;
    match (present, need) {
        (true, _) => format!("  yes      {name}: {purpose}\n"),
        (false, Need::Required) => format!("  MISSING  {name}: {purpose}\n           {remedy}\n"),
        (false, _) => format!("  no       {name}: {purpose}\n           {remedy}\n"),
    }
}

fn has_steady_counter() -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|wanted| flags.split(' ').any(|flag| flag == *wanted))
}

/// Asks the file system of the working folder, or that of forebay where the folder cannot be written.
fn has_rwf_nowait() -> bool {
    let supports = |file: &File| {
        let mut byte = [0u8];
        let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT);
        matches!(read, Ok(_) | Err(Errno::AGAIN))
    };
    let unnamed = openat2(
        CWD,
        c".",
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
        ResolveFlags::empty(),
    );
    let file = unnamed.map(File::from).or_else(|_| File::open("/proc/self/exe"));
    file.is_ok_and(|file| supports(&file))
}

fn has_resolve_cached() -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat2(CWD, c"/", flags, Mode::empty(), ResolveFlags::CACHED);
    matches!(opened, Ok(_) | Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_its_remedy() {
        for feature in FEATURES {
            assert!(describe(feature, false).contains(feature.remedy));
            assert!(!describe(feature, true).contains(feature.remedy));
        }
    }
}
