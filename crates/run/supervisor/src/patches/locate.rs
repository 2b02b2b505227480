//! Finds the C library that programs load on this host.

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

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    /// A loader cache of entries with flags, processor bits, name and path.
    fn cache(entries: &[(u32, u64, &str, &str)]) -> Vec<u8> {
        let mut cache = b"glibc-ld.so.cache1.1".to_vec();
        cache.extend((entries.len() as u32).to_le_bytes());
        cache.resize(48, 0);
        let mut strings = Vec::new();
        let base = 48 + 24 * entries.len() as u32;
        for (flags, processor, name, path) in entries {
            let at = base + strings.len() as u32;
            for word in [*flags, at, at + name.len() as u32 + 1, 0] {
                cache.extend(word.to_le_bytes());
            }
            cache.extend(processor.to_le_bytes());
            strings.extend(format!("{name}\0{path}\0").into_bytes());
        }
        cache.extend(strings);
        cache
    }

    #[test]
    fn the_loader_cache_tells_the_general_64_bit_library() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("libc.so.6");
        fs::write(&path, "").unwrap();
        let there = path.to_str().unwrap();
        let wanted = [
            (0x0303, 0, "libc.so", "/elsewhere"),
            (0x0003, 0, "libc.so.6", "/elsewhere"),
            (0x0303, 2, "libc.so.6", "/elsewhere"),
            (0x0303, 0, "libc.so.6", "/nonexistent/libc.so.6"),
            (0x0303, 0, "libc.so.6", there),
        ];
        assert_eq!(in_loader_cache(&cache(&wanted)), Some(path.clone()));
        assert_eq!(in_loader_cache(&cache(&wanted[..4])), None);
    }

    #[test]
    fn maps_tell_the_library_that_is_loaded() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("libc.so.6");
        fs::write(&path, "").unwrap();
        let line = |path: &str| format!("7f0000000000-7f0000001000 r-xp 00000000 fe:00 77   {path}\n");
        let other = [line("/usr/lib/libc.so.6.old"), line("[heap]"), line("/nonexistent/libc.so.6")].concat();
        assert_eq!(in_maps(other.as_bytes()), None);
        assert_eq!(in_maps((other + &line(path.to_str().unwrap())).as_bytes()), Some(path));
    }

    #[test]
    fn this_host_has_one() {
        if Path::new("/lib64/ld-linux-x86-64.so.2").exists() {
            assert!(libc_path().is_some_and(|path| path.ends_with("libc.so.6")));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn arbitrary_caches_and_maps_do_no_harm(
            bytes in prop::collection::vec(any::<u8>(), 0..256),
            place in any::<prop::sample::Index>(),
        ) {
            in_maps(&bytes);
            in_loader_cache(&bytes);
            let mut damaged = cache(&[(0x0303, 0, "libc.so.6", "/nonexistent/libc.so.6")]);
            let at = place.index(damaged.len());
            damaged.splice(at.., bytes.iter().copied().take(12));
            in_loader_cache(&damaged);
        }
    }
}
