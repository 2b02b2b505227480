//! Why a build could not be had.

use std::io;

/// What was asked, and what was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The attempt, with the path.
        what: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// A program that was started (cc, cargo) failed.
    #[error("`{command}` failed: {said}")]
    Program {
        /// The command line.
        command: String,
        /// Its last words, or how it ended.
        said: String,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }
}
