//! Which system calls are worth redirecting.

use std::collections::BTreeSet;

use forebay_protocol::layout::{CLONE3, Displaced};

use super::{PatchTable, Site, Within, pages};

/// How many calls to redirect. Each page of libc that is written to has to be copied at every start of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// What programs usually wait for files in, what changes the file that a descriptor or path means, what makes a
    /// speculator unsafe, what gives memory, and what would show the handler of page faults or a speculator. Other calls of
    /// interest only where they are on the same pages.
    Essential,
    /// Every call of interest.
    All,
}

/// Name and number (x86-64) of each call of interest, and the tier it is in from; in the order of numbers.
const CALLS: [(&str, u16, Tier); 68] = [
    ("read", 0, Tier::Essential),
    ("write", 1, Tier::All),
    ("open", 2, Tier::Essential),
    ("close", 3, Tier::Essential),
    ("stat", 4, Tier::Essential),
    ("fstat", 5, Tier::Essential),
    ("lstat", 6, Tier::Essential),
    ("lseek", 8, Tier::Essential),
    ("mmap", 9, Tier::Essential),
    ("munmap", 11, Tier::All),
    ("brk", 12, Tier::Essential),
    ("rt_sigaction", 13, Tier::Essential),
    ("rt_sigprocmask", SIGNAL_MASK, Tier::Essential),
    ("ioctl", 16, Tier::All),
    ("pread64", 17, Tier::Essential),
    ("pwrite64", 18, Tier::All),
    ("readv", 19, Tier::Essential),
    ("writev", 20, Tier::All),
    ("access", 21, Tier::Essential),
    ("mremap", 25, Tier::Essential),
    ("madvise", 28, Tier::All),
    ("shmat", 30, Tier::Essential),
    ("dup", 32, Tier::Essential),
    ("dup2", 33, Tier::Essential),
    ("sendfile", 40, Tier::Essential),
    ("clone", CLONE, Tier::Essential),
    ("execve", 59, Tier::Essential),
    ("shmdt", 67, Tier::All),
    ("fcntl", 72, Tier::Essential),
    ("flock", 73, Tier::Essential),
    ("getdents", 78, Tier::All),
    ("getcwd", 79, Tier::All),
    ("chdir", 80, Tier::Essential),
    ("fchdir", 81, Tier::Essential),
    ("rename", 82, Tier::All),
    ("rmdir", 84, Tier::Essential),
    ("creat", 85, Tier::All),
    ("unlink", 87, Tier::All),
    ("readlink", 89, Tier::Essential),
    ("sigaltstack", 131, Tier::Essential),
    ("prctl", 157, Tier::Essential),
    ("chroot", 161, Tier::Essential),
    ("umount2", 166, Tier::Essential),
    ("getdents64", 217, Tier::Essential),
    ("fadvise64", 221, Tier::All),
    ("exit_group", 231, Tier::Essential),
    ("inotify_add_watch", 254, Tier::Essential),
    ("openat", 257, Tier::Essential),
    ("newfstatat", 262, Tier::Essential),
    ("unlinkat", 263, Tier::All),
    ("readlinkat", 267, Tier::Essential),
    ("faccessat", 269, Tier::Essential),
    ("unshare", 272, Tier::Essential),
    ("fallocate", 285, Tier::All),
    ("dup3", 292, Tier::Essential),
    ("preadv", 295, Tier::All),
    ("fanotify_init", 300, Tier::Essential),
    ("prlimit64", 302, Tier::Essential),
    ("setns", 308, Tier::Essential),
    ("seccomp", 317, Tier::Essential),
    ("execveat", 322, Tier::All),
    ("copy_file_range", 326, Tier::Essential),
    ("preadv2", 327, Tier::All),
    ("statx", 332, Tier::Essential),
    ("rseq", 334, Tier::Essential),
    ("clone3", CLONE3, Tier::Essential),
    ("openat2", 437, Tier::All),
    ("faccessat2", 439, Tier::Essential),
];

/// `clone`.
const CLONE: u16 = 56;
/// `rt_sigprocmask`.
const SIGNAL_MASK: u16 = 14;

/// The name of a call of interest.
#[must_use]
pub fn call_name(number: u16) -> Option<&'static str> {
    find(number).map(|call| call.0)
}

fn find(number: u16) -> Option<&'static (&'static str, u16, Tier)> {
    CALLS.binary_search_by_key(&number, |call| call.1).ok().map(|place| &CALLS[place])
}

/// The sites of `table` that are worth redirecting. Each start of a program waits for that.
#[must_use]
pub fn select(table: &PatchTable, tier: Tier) -> Vec<Site> {
    let compares = |site: &Site| site.displaced != Displaced::MovEaxNumber;
    let compared: BTreeSet<u16> =
        table.sites.iter().filter(|site| compares(site)).filter_map(|site| site.number).collect();
    // Where libc compares what a call returns elsewhere, it makes it on its own account here.
    let minor = |site: &Site| {
        site.within == Within::MqClose
            || !compares(site) && site.number.is_some_and(|number| compared.contains(&number))
    };
    let within = |tier: Tier, site: &Site| match site.number {
        // What else makes this call restores a mask that was set there, or is libc itself.
        Some(CLONE) => site.within == Within::Fork,
        Some(SIGNAL_MASK) => site.within == Within::SignalMask,
        Some(_) if tier < Tier::All && minor(site) => false,
        Some(number) => find(number).is_some_and(|call| call.2 <= tier),
        // It may make any call, such as those that confine the process.
        None => site.within == Within::Syscall,
    };
    let chosen: Vec<Site> = table.sites.iter().filter(|site| within(tier, site)).copied().collect();
    let touched = pages(&chosen);
    let costs_nothing = |site: &Site| site.pages().all(|page| touched.contains(&page));
    let wanted = |site: &&Site| within(tier, site) || within(Tier::All, site) && costs_nothing(site);
    table.sites.iter().filter(wanted).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_found_by_its_number() {
        for (name, number, _) in CALLS {
            assert_eq!(call_name(number), Some(name));
        }
        assert_eq!(call_name(u16::MAX), None);
    }
}
