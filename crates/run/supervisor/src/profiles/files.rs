//! What files are that no agent has told of. Nothing is asked of a device or server, and no file is opened.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
    sync::Arc,
};

use forebay_profile::Identity;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, makedev, openat2, statx};
use rustix::io::Errno;

/// Identities of regular files, by path; nothing for what is none.
#[derive(Debug, Default)]
pub struct Files(HashMap<Arc<[u8]>, Option<Identity>>);

impl Files {
    /// Looks a file up that is in use, unless it is known.
    pub fn look(&mut self, path: &Arc<[u8]>) {
        if !self.0.contains_key(path) {
            self.0.insert(Arc::clone(path), identity_of(path));
        }
    }

    /// What is known.
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<Identity> {
        self.0.get(path).copied().flatten()
    }
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    Missing,
    /// The kernel would have to ask.
    Unknown,
}

/// Whether there is something at a path.
pub fn presence(path: &[u8]) -> Presence {
    match opened(path) {
        Ok(_) => Presence::There,
        Err(Errno::NOENT | Errno::NOTDIR) => Presence::Missing,
        Err(_) => Presence::Unknown,
    }
}

fn opened(path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED | ResolveFlags::NO_MAGICLINKS)
}

/// Device of what is at a path, if the kernel has that in memory.
pub fn device_of(path: &[u8]) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = statx(opened(path).ok()?, c"", flags, StatxFlags::BASIC_STATS).ok()?;
    Some(makedev(status.stx_dev_major, status.stx_dev_minor))
}

/// What a regular file is that the kernel has in memory; no program of another user's rights.
fn identity_of(path: &[u8]) -> Option<Identity> {
    let found = opened(path).ok()?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = statx(&found, c"", flags, StatxFlags::BASIC_STATS).ok()?;
    let mode = u32::from(status.stx_mode);
    let is_plain =
        FileType::from_raw_mode(mode) == FileType::RegularFile && mode & (libc::S_ISUID | libc::S_ISGID) == 0;
    let mtime_ns = status.stx_mtime.tv_sec.checked_mul(1_000_000_000)?;
    is_plain.then_some(Identity {
        dev: makedev(status.stx_dev_major, status.stx_dev_minor),
        ino: status.stx_ino,
        size: status.stx_size,
        mtime_ns: mtime_ns.checked_add(status.stx_mtime.tv_nsec.into())?,
    })
}

/// Folders that other file systems are mounted on.
pub struct Mounts(Vec<PathBuf>);

impl Mounts {
    /// Those of this process.
    #[must_use]
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        // A path with a space is shorter here, and so has more below it.
        let point = |line: &str| {
            let field = line.split(' ').nth(4)?;
            Some(field.split('\\').next().unwrap_or_default().into())
        };
        Self(text.lines().filter_map(point).filter(|point: &PathBuf| point.parent().is_some()).collect())
    }

    /// Whether one of them is above a file. Otherwise the file lies with the root folder, which stays mounted.
    #[must_use]
    pub fn are_above(&self, path: &[u8]) -> bool {
        let path = std::path::Path::new(OsStr::from_bytes(path));
        self.0.iter().any(|point| path.starts_with(point))
    }
}
