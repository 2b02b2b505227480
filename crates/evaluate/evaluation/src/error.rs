use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why an experiment could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that the experiment runs is not installed.
    #[error("{program} is not installed; the package {package} brings it")]
    Missing {
        /// The program looked for on PATH.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A file or folder of the experiment could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A program of the experiment could not be started.
    #[error("cannot start {command}: {source}")]
    Start {
        /// The command line, shortened.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A program of the experiment ended with a status that its work does not explain.
    #[error("{command} ended with {status}: {stderr}")]
    Failed {
        /// The command line, shortened.
        command: String,
        /// Exit status or signal.
        status: String,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// A program of the experiment did not end in time and was ended.
    #[error("{command} did not end within {limit:?}")]
    TimedOut {
        /// The command line, shortened.
        command: String,
        /// The time it had.
        limit: Duration,
    },
    /// There is nothing of this name to run.
    #[error("there is no program {program}; look for it with: command -v {program}")]
    NoProgram {
        /// What was asked for.
        program: String,
    },
    /// Nothing can be counted.
    #[error(transparent)]
    Counters(#[from] forebay_counters::Error),
    /// The slow disk or a cold cache could not be had.
    #[error(transparent)]
    Rig(#[from] forebay_lab::Error),
    /// Memory could not be shared, or what shared it not be projected.
    #[error("{0}")]
    Sharing(String),
    /// The program that shares memory while it is measured is nowhere near.
    #[error("forebay-share-workload is not beside forebay (looked for {}); run make, or make install",
        places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(" and "))]
    NoWorkload {
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// An experiment's description makes no sense.
    #[error(transparent)]
    Description(#[from] crate::experiments::Error),
    /// A server was started and did not take connections in time.
    #[error("{command} did not listen on {address} within {limit:?}: {stderr}")]
    Unready {
        /// The command line, shortened.
        command: String,
        /// Where it was to listen.
        address: SocketAddr,
        /// The time it had.
        limit: Duration,
        /// The end of what it wrote.
        stderr: String,
    },
    /// Somebody else listens where a server was to.
    #[error(
        "port {port} is taken ({}); end who listens there, or give another port",
        forebay_results::reason(source)
    )]
    PortTaken {
        /// The port.
        port: u16,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no port left for a server.
    #[error("no free port can be had: {source}")]
    NoPort {
        /// The system's answer.
        source: io::Error,
    },
    /// A server that runs already could not be found.
    #[error("{0}")]
    Attach(String),
    /// A server could not be loaded.
    #[error("{0}")]
    Load(String),
    /// SIGINT, SIGTERM or SIGHUP came.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}
