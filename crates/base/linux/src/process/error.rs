//! Why a program cannot be started. Each error is one sentence with what to do about it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{error, fmt, io};

use crate::reason;

/// The program cannot be started.
#[derive(Debug)]
pub enum StartError {
    /// No program was named.
    NoCommand,
    /// No such program.
    NotFound {
        /// As it was asked for.
        name: OsString,
    },
    /// The program is there but what interprets it is not.
    NoInterpreter {
        /// The program.
        path: PathBuf,
        /// Its `#!` interpreter or dynamic loader.
        interpreter: PathBuf,
    },
    /// The file is there but the kernel does not execute it.
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// It is a folder.
        is_folder: bool,
        /// What execve(2) said.
        source: io::Error,
    },
    /// The system has no room for another process.
    NoProcess {
        /// The program.
        path: PathBuf,
        /// What clone(2) or execve(2) said.
        source: io::Error,
    },
}

impl StartError {
    /// Exit status, as shells, env(1) and timeout(1) have it: 127 not found, 126 not executable, 125 our own failure.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound { .. } | Self::NoInterpreter { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::NoCommand | Self::NoProcess { .. } => 125,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommand => write!(f, "no program to start; name one behind --: -- PROGRAM [ARGUMENT]..."),
            Self::NotFound { name } => {
                let name = Path::new(name).display();
                if name.to_string().contains('/') {
                    write!(f, "'{name}' does not exist; check the path")
                } else {
                    write!(f, "'{name}' was not found in PATH; check the spelling, or give its path")
                }
            }
            Self::NoInterpreter { path, interpreter } => write!(
                f,
                "'{}' needs '{}', which does not exist; install it, or correct the program's first line",
                path.display(),
                interpreter.display()
            ),
            Self::NotExecutable { path, is_folder: true, .. } => {
                write!(f, "'{}' is a folder; name a program in it", path.display())
            }
            Self::NotExecutable { path, source, .. } if source.raw_os_error() == Some(libc::EACCES) => {
                let path = path.display();
                write!(f, "'{path}' is not executable ({}); allow it with: chmod +x '{path}'", reason(source))
            }
            Self::NotExecutable { path, source, .. } => {
                let path = path.display();
                write!(
                    f,
                    "'{path}' cannot be executed ({}); run a program made for this machine",
                    reason(source)
                )
            }
            Self::NoProcess { path, source } => write!(
                f,
                "cannot start '{}': {}; close other programs or raise the process limit (ulimit -u)",
                path.display(),
                reason(source)
            ),
        }
    }
}

impl error::Error for StartError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NotExecutable { source, .. } | Self::NoProcess { source, .. } => Some(source),
            Self::NoCommand | Self::NotFound { .. } | Self::NoInterpreter { .. } => None,
        }
    }
}
