//! What can keep the program from being started. Each error is one sentence with what to do about it.

use std::{
    error,
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
};

use forebay_results::reason;

/// `forebay run` cannot start the program.
#[derive(Debug)]
pub enum Error {
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
    /// A file that is installed with forebay is missing.
    Missing {
        /// What it is to the user.
        part: &'static str,
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// No sockets for the hosts of a job.
    NoSockets {
        /// What the system said.
        source: io::Error,
    },
    /// The memory shared with agents cannot be made.
    NoSharedMemory {
        /// What the system said.
        source: io::Error,
    },
    /// The program was lost sight of.
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
            Self::NotFound { .. } | Self::NoInterpreter { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }

    /// What the system said.
    fn system(&self) -> Option<&io::Error> {
        match self {
            Self::NotExecutable { source, .. }
            | Self::NoProcess { source, .. }
            | Self::NoSharedMemory { source }
            | Self::NoSockets { source }
            | Self::Lost { source } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.system().map(reason).unwrap_or_default();
        match self {
            Self::NoCommand => write!(f, "no program to run; name one: forebay run -- PROGRAM [ARGUMENT]..."),
            Self::NotFound { name } if name.to_string_lossy().contains('/') => {
                write!(f, "'{}' does not exist; check the path", Path::new(name).display())
            }
            Self::NotFound { name } => {
                write!(
                    f,
                    "'{}' was not found in PATH; check the spelling, or give its path",
                    Path::new(name).display()
                )
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
            Self::NotExecutable { path, source: denied, .. }
                if denied.raw_os_error() == Some(libc::EACCES) =>
            {
                write!(f, "'{0}' is not executable ({source}); allow it with: chmod +x '{0}'", path.display())
            }
            Self::NotExecutable { path, .. } => {
                write!(
                    f,
                    "'{}' cannot be executed ({source}); run a program made for this machine",
                    path.display()
                )
            }
            Self::NoProcess { path, .. } => write!(
                f,
                "no process for '{}' ({source}); end other programs, or raise the limit with: ulimit -u",
                path.display()
            ),
            Self::Missing { part, places } => {
                let places: Vec<String> =
                    places.iter().map(|place| format!("'{}'", place.display())).collect();
                write!(
                    f,
                    "{part} is missing (looked for {}); build it with `make`, or install forebay anew",
                    places.join(", ")
                )
            }
            Self::NoSockets { .. } => write!(
                f,
                "no sockets for the hosts to meet ({source}); start fewer, or raise the limit with: ulimit -n"
            ),
            Self::NoSharedMemory { .. } => write!(
                f,
                "no shared memory for the program's agent ({source}); \
                 free memory or raise the limits that 'ulimit -a' shows for it, open files and file size"
            ),
            Self::Lost { .. } => {
                write!(f, "the program was lost sight of ({source}); run it without forebay")
            }
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.system().map(|source| source as &(dyn error::Error + 'static))
    }
}
