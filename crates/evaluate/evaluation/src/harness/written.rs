//! What programs write: taken away before a run, and told from another run's afterwards.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Error;
use crate::harness::command::digest;

/// The file or folder that a program writes; none for one that only prints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(pub(crate) Option<PathBuf>);

impl Written {
    /// Takes away what an earlier run wrote, so that no run can pass with another's files.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        self.0.as_deref().map_or(Ok(()), remove)
    }

    /// The digest of what the program wrote; `None` where it writes nothing or that cannot be read.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        let mut hasher = Sha256::new();
        add_digest(self.0.as_deref()?, &mut hasher).ok()?;
        Some(hasher.finalize().into())
    }
}

/// Removes a file, or a folder with all that is in it. What is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(Error::file("remove", path))
}

/// Adds names, kinds and contents of a file or folder, in the order of names. What is not there adds nothing.
pub(crate) fn add_digest(path: &Path, hasher: &mut Sha256) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    hasher.update(path.file_name().unwrap_or_default().as_encoded_bytes());
    if found.is_symlink() {
        hasher.update(fs::read_link(path)?.as_os_str().as_encoded_bytes());
    } else if found.is_dir() {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        entries.sort();
        hasher.update((entries.len() as u64).to_le_bytes());
        entries.iter().try_for_each(|entry| add_digest(entry, hasher))?;
    } else if found.is_file() {
        hasher.update(digest(&mut fs::File::open(path)?)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_differ_by_what_is_below_them_and_are_taken_away_with_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("copy");
        let written = Written(Some(path.clone()));
        let nothing = written.digest();
        let mut seen = vec![nothing];
        for (name, content) in [("one", "a"), ("one", "b"), ("other", "b"), ("below/one", "b")] {
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
            let found = written.digest();
            assert!(
                found.is_some() && found == written.digest() && !seen.contains(&found),
                "{name} {content}"
            );
            seen.push(found);
            written.remove().unwrap();
            assert!(!path.exists());
        }
        fs::write(&path, "a file").unwrap();
        assert!(!seen.contains(&written.digest()));
        written.remove().and_then(|()| written.remove()).unwrap();
        assert_eq!(written.digest(), nothing);
        assert_eq!(Written::default().digest(), None);
    }
}
