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
    #[error("{command} ended with {status}{}", quoted(stderr))]
    Failed {
        /// The command line, shortened.
        command: String,
        /// Exit status or signal.
        status: String,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// A server ended as if all was well, or left its work to another process.
    #[error(
        "{command} ended with exit status 0{}; a server goes on: give it the option that keeps it in the foreground",
        quoted(said)
    )]
    Background {
        /// The command line, shortened.
        command: String,
        /// The end of what it wrote.
        said: String,
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
    /// Memory for views could not be had.
    #[error(transparent)]
    Memory(#[from] forebay_vm::Error),
    /// A page could not be protected.
    #[error("cannot protect a page: {0}")]
    Protect(#[source] io::Error),
    /// Hosts could not share memory.
    #[error(transparent)]
    Hosts(#[from] forebay_millipage::Error),
    /// A recorded trace cannot be run again.
    #[error(transparent)]
    Simulation(#[from] crate::projection::Error),
    /// A program on shared memory failed on one of its hosts.
    #[error("a host failed: {why}")]
    HostFailed {
        /// What the program says.
        why: String,
    },
    /// A program does not come in a form that an experiment needs.
    #[error("{kernel} has no form {form}")]
    NoForm {
        /// The program.
        kernel: crate::share::millipage::Kernel,
        /// Such as `for MPI`.
        form: &'static str,
    },
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
    #[error("{command} did not listen on {} within {limit:?}{}", listed(addresses), quoted(stderr))]
    Unready {
        /// The command line, shortened.
        command: String,
        /// Where it was to listen: at one of them.
        addresses: Vec<SocketAddr>,
        /// The time it had.
        limit: Duration,
        /// The end of what it wrote.
        stderr: String,
    },
    /// Another program listens on a server's port.
    #[error(
        "port {port} is taken ({}); end the program that listens there, or give another port",
        forebay_results::reason(source)
    )]
    PortTaken {
        /// The port.
        port: u16,
        /// The system's answer.
        source: io::Error,
    },
    /// The server that is measured does not answer.
    #[error(
        "{address} is answered by {owner}, and not by the server that is measured; give the address of that server, or measure \
         the other one"
    )]
    AnotherAnswers {
        /// Where requests are made.
        address: SocketAddr,
        /// What listens there.
        owner: String,
    },
    /// There is no port left for a server.
    #[error("no free port was found: {source}")]
    NoPort {
        /// The system's answer.
        source: io::Error,
    },
    /// The process of a server does not run.
    #[error("there is no process {process}")]
    NoProcess {
        /// Its id.
        process: u32,
    },
    /// The unit of a server does not run.
    #[error("the unit {unit} does not run; start it with: systemctl start {unit}")]
    NoUnit {
        /// Its name.
        unit: String,
    },
    /// The control group of a server does not exist.
    #[error("there is no control group {}", group.display())]
    NoGroup {
        /// As it was given.
        group: PathBuf,
    },
    /// A file is no result of `forebay evaluate host`.
    #[error("'{}' is no result of forebay evaluate host: {why}", path.display())]
    HostResults {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A server could not be loaded.
    #[error("{0}")]
    Load(String),
    /// Nothing of forebay's ran for a large part of what was to be measured.
    #[error("the machine stood still for {seconds:.1} s: measure again when less goes on")]
    StoodStill {
        /// For so long.
        seconds: f64,
    },
    /// SIGINT, SIGTERM or SIGHUP came.
    #[error("interrupted")]
    Interrupted,
}

/// What a program said, behind a sentence about it.
pub(crate) fn quoted(said: &str) -> String {
    if said.is_empty() { " and said nothing".to_owned() } else { format!(": {said}") }
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}
