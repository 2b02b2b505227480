//! Finds the agent's library, and names it to the loader.

use std::{
    ffi::OsString,
    fs::File,
    os::{
        fd::{AsRawFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags, accessat, statvfs};

use crate::{Error, installed::AGENT};

/// What ends a path in LD_PRELOAD, or is replaced in it (ld.so(8)).
const SPECIAL: &[u8] = b" :$\n";

/// Finds the agent's library near this executable.
///
/// # Errors
/// It is in none of the folders.
pub fn locate() -> Result<PathBuf, Error> {
    AGENT.find()
}

/// The agent's library as LD_PRELOAD can name it.
#[derive(Debug)]
pub enum Preload {
    /// By its path.
    Path(OsString),
    /// By a descriptor of the supervisor, where LD_PRELOAD cannot express the path.
    Descriptor(File),
}

impl Preload {
    /// Prepares the library at `path`. `None` where this user may not read it, or its mount lets no code be mapped: the loader would print
    /// a complaint among the program's own messages.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        let mount = statvfs(path).ok()?;
        if mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return None;
        }
        if path.as_os_str().as_bytes().iter().any(|byte| SPECIAL.contains(byte)) || !path.is_absolute() {
            return File::open(path).ok().map(Self::Descriptor);
        }
        accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS).ok()?;
        Some(Self::Path(path.into()))
    }

    /// What stands for the library in LD_PRELOAD while process `supervisor` has it open.
    #[must_use]
    pub fn value(&self, supervisor: u32) -> OsString {
        match self {
            Self::Path(path) => path.clone(),
            Self::Descriptor(file) => format!("/proc/{supervisor}/fd/{}", file.as_raw_fd()).into(),
        }
    }

    /// What the supervisor keeps open for it.
    #[must_use]
    pub fn descriptor(&self) -> Option<RawFd> {
        match self {
            Self::Path(_) => None,
            Self::Descriptor(file) => Some(file.as_raw_fd()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_path_is_named_as_it_is_and_must_be_there() {
        assert!(Preload::new(Path::new("/usr/lib/none.so")).is_none());
        assert_eq!(Preload::new(Path::new("/proc/self/exe")).unwrap().value(1), "/proc/self/exe");
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_named_by_descriptor() {
        let folder = std::env::temp_dir().join(format!("forebay agent: {}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join(AGENT.file);
        std::fs::write(&path, "library").unwrap();
        let preload = Preload::new(&path).unwrap();
        assert_eq!(std::fs::read_to_string(preload.value(std::process::id())).unwrap(), "library");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(Preload::new(&path).is_none());
    }
}
