//! Where the C library is that programs load on this host.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name of glibc's shared object.
const NAME: &[u8] = b"libc.so.6";

/// Directories of the common distributions, for hosts without a loader cache.
const WELL_KNOWN: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib",
    "/run/current-system/sw/lib",
];

/// The libc that programs will load on this host, as far as one can tell without looking at the program: the one
/// that is loaded here, else the one in the loader's cache, else one in a well-known directory. `None` on a host
/// without glibc.
#[must_use]
pub fn libc_path() -> Option<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    in_maps(&maps)
        .or_else(|| in_loader_cache(&std::fs::read("/etc/ld.so.cache").unwrap_or_default()))
        .or_else(|| {
            let name = Path::new(OsStr::from_bytes(NAME));
            WELL_KNOWN.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists())
        })
}

/// The path of libc in the text of `/proc/<pid>/maps` (see proc_pid_maps(5)).
fn in_maps(maps: &[u8]) -> Option<PathBuf> {
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        (path.rsplit(|byte| *byte == b'/').next() == Some(NAME))
            .then(|| path_of(path))
            .filter(|path| path.exists())
    })
}

/// The path of libc in the content of `/etc/ld.so.cache` (ldconfig's format since glibc 2.2: a header of 48 bytes,
/// entries of 24 bytes, strings; offsets count from the start). Entries for particular processors are passed
/// over: which of them the loader takes only it can tell.
fn in_loader_cache(cache: &[u8]) -> Option<PathBuf> {
    /// For the C library of 64-bit x86 programs.
    const FLAGS: u32 = 0x0303;
    let number = |at: usize| cache.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let string = |at: usize| cache.get(at..)?.split(|byte| *byte == 0).next();
    if !cache.starts_with(b"glibc-ld.so.cache1.1") {
        return None;
    }
    let entries = cache.get(48..)?.chunks_exact(24).take(number(20)? as usize).enumerate();
    let mut offsets = entries.map(|(index, entry)| (48 + index * 24, entry));
    offsets.find_map(|(at, entry)| {
        let general = number(at)? == FLAGS && entry[16..] == [0; 8];
        if !general || !cache.get(number(at + 4)? as usize..)?.starts_with(b"libc.so.6\0") {
            return None;
        }
        Some(path_of(string(number(at + 8)? as usize)?)).filter(|path| path.is_absolute() && path.exists())
    })
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
