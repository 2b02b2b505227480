//! Why a program cannot be run. Each error is one sentence with what to do about it.

use std::{error, fmt, io, path::PathBuf};

use forebay_linux::{process::StartError, reason};

/// `forebay run` cannot run the program.
#[derive(Debug)]
pub enum Error {
    /// The program was not started.
    Start(StartError),
    /// A file that is installed with forebay is missing.
    Missing {
        /// What it is to the user.
        part: &'static str,
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// The memory shared with agents cannot be made.
    NoSharedMemory {
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not know the program as our child.
    Lost {
        /// What waitpid(2) said.
        source: io::Error,
    },
}

impl Error {
    /// Exit status, as shells, env(1) and timeout(1) have it: 127 not found, 126 not executable, 125 our own failure.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Start(error) => error.exit_status(),
            _ => 125,
        }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Missing { part, places } => {
                let places: Vec<String> =
                    places.iter().map(|place| format!("'{}'", place.display())).collect();
                write!(
                    f,
                    "{part} is missing (looked for {}); build it with `make`, or install forebay anew",
                    places.join(", ")
                )
            }
            Self::NoSharedMemory { source } => write!(
                f,
                "no shared memory for the program's agent ({}); \
                 free memory or raise the limits that 'ulimit -a' shows for it, open files and file size",
                reason(source)
            ),
            Self::Lost { source } => write!(
                f,
                "lost track of the program: waitpid failed ({}); run the program without forebay",
                reason(source)
            ),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Start(error) => error.source(),
            Self::NoSharedMemory { source } | Self::Lost { source } => Some(source),
            Self::Missing { .. } => None,
        }
    }
}
