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
    /// Prepares the library at `path`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let missing = |_| Error::Missing { part: AGENT.what, places: vec![path.to_path_buf()] };
        if !path.as_os_str().as_bytes().iter().any(|byte| SPECIAL.contains(byte)) && path.is_absolute() {
            return Ok(Self::Path(path.into()));
        }
        File::open(path).map_err(missing).map(Self::Descriptor)
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
    fn a_plain_path_is_named_as_it_is() {
        assert_eq!(Preload::new(Path::new("/usr/lib/a.so")).unwrap().value(1), "/usr/lib/a.so");
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
        assert!(matches!(Preload::new(&path), Err(Error::Missing { .. })));
    }
}
