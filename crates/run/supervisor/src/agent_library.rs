//! Finds the agent's library, and names it to the loader.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
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
pub struct Preload {
    value: OsString,
    /// Keeps a library open whose own path LD_PRELOAD cannot express.
    _file: Option<File>,
}

impl Preload {
    /// Prepares the library at `path`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let missing = |_| Error::Missing { part: AGENT.what, places: vec![path.to_path_buf()] };
        if !path.as_os_str().as_bytes().iter().any(|byte| SPECIAL.contains(byte)) && path.is_absolute() {
            return Ok(Self { value: path.into(), _file: None });
        }
        let file = File::open(path).map_err(missing)?;
        let value = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Ok(Self { value: value.into(), _file: Some(file) })
    }

    /// What stands for the library in LD_PRELOAD.
    #[must_use]
    pub fn value(&self) -> &OsStr {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_path_is_named_as_it_is() {
        assert_eq!(Preload::new(Path::new("/usr/lib/a.so")).unwrap().value(), "/usr/lib/a.so");
    }

    #[test]
    fn a_path_that_the_loader_would_split_is_named_by_descriptor() {
        let folder = std::env::temp_dir().join(format!("forebay agent: {}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join(AGENT.file);
        std::fs::write(&path, "library").unwrap();
        let preload = Preload::new(&path).unwrap();
        assert_eq!(std::fs::read_to_string(preload.value()).unwrap(), "library");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(Preload::new(&path), Err(Error::Missing { .. })));
    }
}
