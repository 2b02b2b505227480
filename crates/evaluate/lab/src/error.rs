//! Why a rig or an eviction could not be had.

use std::io;
use std::path::{Path, PathBuf};

/// What was asked and what stood in the way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This host, or this user, cannot have it. All three parts are for `doctor` and for people.
    #[error("{feature} needs {needs}. {how_to_enable}")]
    Unsupported {
        /// What was asked for.
        feature: String,
        /// What it takes that is not here.
        needs: String,
        /// What to do about it: a sentence or a command.
        how_to_enable: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with the path or device it was tried on.
        what: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// A program that was started (mkfs.ext4) failed.
    #[error("`{command}` failed: {said}")]
    Program {
        /// The command line.
        command: String,
        /// Its last words, or how it ended.
        said: String,
    },
    /// The cleanup process could not do what it was asked, or is gone.
    #[error("rig: {0}")]
    Cleanup(String),
    /// Something on the disk is still in use, so that it cannot be unmounted.
    #[error("{} is still in use by {users}", path.display())]
    Busy {
        /// The mount point.
        path: PathBuf,
        /// The processes that hold it, as far as they can be seen.
        users: String,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    pub(crate) fn at(verb: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::io(format!("{verb} {}", path.display()), source)
    }
}
