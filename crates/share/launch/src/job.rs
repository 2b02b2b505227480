//! The launcher of `forebay share`: it starts the hosts of a job on this machine and connects each to the [`Table`]. When one
//! host fails, it ends the others.

use std::ffi::{CString, OsString};
use std::fmt::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{error, fmt, fs, io, thread};

use forebay_linux::process::{
    self, ChildEnd, ChildState, Life, SignalsBlocked, StartError, child_state, is_for_program, next_signal,
    send_signal, start_command,
};
use forebay_linux::reason;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use rustix::thread::gettid;

use crate::{Table, environment};

/// Between looks at the hosts where no signal arrives.
const ROUND: Duration = Duration::from_millis(200);
/// Time for the hosts to end by themselves when one has failed. Each needs it to notice, and to report the lost host.
const GRACE: Duration = Duration::from_secs(3);
/// Time for the hosts to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interrupts from the terminal that end the job, whatever its hosts do.
const INTERRUPTS: u32 = 2;
/// Exit status of a host that ends because it lost another one.
pub const EXIT_LOST: u8 = 70;
/// Time for the last statistics to arrive when all hosts have ended.
const STATISTICS: Duration = Duration::from_secs(1);

/// Variables of UCX that the launcher sets unless the user has: no handlers for faults, no hooks in memory calls, nothing
/// on standard output.
const UCX: [&str; 4] =
    ["UCX_HANDLE_ERRORS=none", "UCX_ERROR_SIGNALS=", "UCX_MEM_EVENTS=n", "UCX_LOG_LEVEL=fatal"];

/// A job: which program, and how its hosts share.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// How often it is started.
    pub hosts: u16,
    /// Minipages that can share a page, instead of what the program asks for.
    pub views: Option<usize>,
    /// Bytes of shared memory, instead of what the program asks for.
    pub bytes: Option<u64>,
    /// What messages go over: `shm`, `tcp`, `auto` or `ucx`.
    pub transport: String,
    /// Where hosts listen for hosts on other machines: the name of a network interface, an address, or a network.
    pub interface: Option<String>,
    /// Each host has a memory of its own.
    pub separate: bool,
    /// How many machines the hosts count as on, in blocks of neighbouring ranks.
    pub machines: u16,
    /// A machine fetches what it will probably need after a barrier.
    pub foresight: bool,
    /// A library that wraps system calls on memory that may be absent, for hosts that do not load it themselves.
    pub wrappers: Option<PathBuf>,
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// 0 if all hosts ended well, else as it would be of the first one that did not.
    pub exit_status: u8,
    /// Figures of each host that left in order, by rank: names and numbers.
    pub counts: Vec<Vec<(String, u64)>>,
}

/// Runs a job to its end. The calling thread must be the only one of its process, which passes its signals to the hosts.
/// `tell` is called with a sentence about each host that fails.
///
/// # Errors
/// A host could not be started; the others have been ended.
pub fn run(job: &Job, tell: &mut dyn FnMut(&str)) -> Result<Ended, JobError> {
    let signals = SignalsBlocked::new();
    // Processes whose parents end become children of this one, so that none is left behind.
    let _ = set_child_subreaper(Some(getpid()));
    let (table, sockets) = Table::new(job.hosts).map_err(|source| JobError::NoSockets { source })?;
    let mut hosts = Hosts::default();
    for (rank, socket) in sockets.into_iter().enumerate() {
        match start(job, rank, &socket, &signals) {
            Ok(pid) => hosts.0.push(Some(pid)),
            Err(error) => {
                hosts.end_all();
                return Err(error);
            }
        }
    }
    let (sender, left_behind) = mpsc::channel();
    let (late, told) = mpsc::channel();
    let table = table.watching(hosts.0.iter().flatten().copied().collect(), move |sentence| {
        // At its end the job is told of no host.
        let _ = late.send(sentence);
    });
    thread::spawn(move || sender.send(table.serve()));
    let exit_status = hosts.watch(&told, tell)?;
    if exit_status != 0 {
        hosts.end_all();
    }
    // A process that a host has left behind may still be connected.
    let counts = left_behind.recv_timeout(STATISTICS).unwrap_or_default();
    Ok(Ended {
        exit_status,
        counts: counts.into_iter().map(|said| counted(&said.unwrap_or_default())).collect(),
    })
}

fn start(job: &Job, rank: usize, socket: &UnixStream, signals: &SignalsBlocked) -> Result<i32, JobError> {
    let mut variables = process::environment();
    if variables.iter().any(|variable| names(variable, environment::SOCKET)) {
        // This launcher was started by a host of another job, and its hosts are none of that.
        variables.retain(|variable| !environment::OF_A_JOB.iter().any(|name| names(variable, name)));
    }
    let preloaded = job.wrappers.as_deref().and_then(|library| preloaded(library, &variables));
    let mut set = |text: String| {
        let name = text.split_inclusive('=').next().unwrap_or_default();
        variables.retain(|variable| !variable.as_bytes().starts_with(name.as_bytes()));
        variables.push(CString::new(text).unwrap_or_default());
    };
    set(format!("{}={}", environment::SOCKET, socket.as_raw_fd()));
    set(format!("{}={rank}", environment::RANK));
    set(format!("{}={}", environment::HOSTS, job.hosts));
    set(format!("{}={}", environment::TRANSPORT, job.transport));
    if job.separate {
        set(format!("{}=1", environment::SEPARATE));
    }
    let machine = rank * usize::from(job.machines.min(job.hosts)) / usize::from(job.hosts);
    if job.machines > 1 {
        set(format!("{}={machine}", environment::MACHINE));
    }
    if !job.foresight {
        set(format!("{}=0", environment::FORESIGHT));
    }
    preloaded.into_iter().for_each(&mut set);
    job.views.iter().for_each(|views| set(format!("{}={views}", environment::VIEWS)));
    job.interface.iter().for_each(|interface| set(format!("{}={interface}", environment::INTERFACE)));
    job.bytes.iter().for_each(|bytes| set(format!("{}={bytes}", environment::SIZE)));
    for text in UCX {
        let name = text.split_inclusive('=').next().unwrap_or_default();
        if !variables.iter().any(|variable| variable.as_bytes().starts_with(name.as_bytes())) {
            variables.push(CString::new(text).unwrap_or_default());
        }
    }
    let no_sockets = |errno: Errno| JobError::NoSockets { source: errno.into() };
    // This host inherits it, and no other.
    fcntl_setfd(socket, FdFlags::empty()).map_err(no_sockets)?;
    let started = start_command(&job.command, &variables, signals, Life::OfParent);
    fcntl_setfd(socket, FdFlags::CLOEXEC).map_err(no_sockets)?;
    Ok(started?)
}

/// Whether a variable of the environment has this name.
fn names(variable: &CString, name: &str) -> bool {
    variable.as_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
}

/// The variable that has the loader load a library before all that it loads already; none for a path that cannot be in it.
fn preloaded(library: &Path, variables: &[CString]) -> Option<String> {
    const NAME: &str = "LD_PRELOAD=";
    let library = library.to_str().filter(|path| !path.contains([':', ' ']))?;
    let before = variables.iter().find_map(|variable| variable.to_str().ok()?.strip_prefix(NAME));
    Some(match before.filter(|before| !before.is_empty()) {
        Some(before) => format!("{NAME}{library}:{before}"),
        None => format!("{NAME}{library}"),
    })
}

/// The processes of the hosts, by rank; none that has ended.
#[derive(Default)]
struct Hosts(Vec<Option<i32>>);

impl Hosts {
    /// Waits until all have ended, and ends them when one has failed. The status of that one, or 0. Passes on what it is
    /// `told`.
    fn watch(&mut self, told: &Receiver<String>, tell: &mut dyn FnMut(&str)) -> Result<u8, JobError> {
        let mut failed = None;
        let mut due = None;
        let mut interrupts = 0;
        let mut stopped = vec![false; self.0.len()];
        while self.0.iter().any(Option::is_some) {
            if let Some(arrived) = next_signal(Some(ROUND)) {
                if arrived.number == libc::SIGCONT {
                    stopped.fill(false);
                }
                if is_for_program(&arrived) {
                    self.signal(arrived.number, arrived.value);
                }
                interrupts += u32::from(arrived.number == libc::SIGINT);
            }
            told.try_iter().for_each(|sentence| tell(&sentence));
            if let Some((status, sentence)) = self.first_failure(&mut stopped)?.filter(|_| failed.is_none()) {
                failed = Some(status);
                due.get_or_insert(Instant::now() + GRACE);
                tell(&sentence);
            }
            if interrupts == INTERRUPTS {
                interrupts += 1;
                failed.get_or_insert((128 + libc::SIGINT) as u8);
                due = Some(Instant::now());
                tell(&format!(
                    "interrupted twice; {} hosts that go on are ended",
                    self.0.iter().flatten().count()
                ));
            }
            // The parent of this process sees that all hosts stopped by our stopping.
            let mut running = self.0.iter().zip(&stopped).filter(|(pid, _)| pid.is_some()).peekable();
            if running.peek().is_some() && running.all(|(_, stopped)| *stopped) && failed.is_none() {
                stopped.fill(false);
                send_signal(getpid().as_raw_nonzero().get(), libc::SIGSTOP, None);
            }
            if let Some(due) = due {
                self.urge(due);
            }
        }
        Ok(failed.unwrap_or(0))
    }

    /// Looks which hosts have ended or stopped. The status of the one that failed first of those that have ended, and a
    /// sentence about it.
    fn first_failure(&mut self, stopped: &mut [bool]) -> Result<Option<(u8, String)>, JobError> {
        let mut failures = vec![];
        for (host, is_stopped) in stopped.iter_mut().enumerate() {
            let Some(pid) = self.0[host] else { continue };
            match child_state(pid).map_err(|source| JobError::Lost { source })? {
                None => {}
                Some(ChildState::Stopped) => *is_stopped = true,
                Some(ChildState::Continued) => *is_stopped = false,
                Some(ChildState::Ended(ended, _)) => {
                    self.0[host] = None;
                    if ended.exit_status() != 0 {
                        failures.push((host, pid, ended));
                    }
                }
            }
        }
        // A host that lost another one is the consequence, even where both are seen at once.
        let first = failures.iter().min_by_key(|(_, _, ended)| *ended == ChildEnd::Exited(EXIT_LOST));
        let others = self.0.iter().flatten().count();
        Ok(first.map(|(host, pid, ended)| (ended.exit_status(), describe_end(*host, *pid, *ended, others))))
    }

    /// Sends the signals that are due.
    fn urge(&self, due: Instant) {
        let now = Instant::now();
        if now >= due {
            self.signal(libc::SIGTERM, None);
            self.signal(libc::SIGCONT, None);
        }
        if now >= due + PATIENCE {
            self.signal(libc::SIGKILL, None);
        }
    }

    fn signal(&self, number: i32, value: Option<usize>) {
        self.0.iter().flatten().for_each(|pid| send_signal(*pid, number, value));
    }

    /// Kills all hosts, and the processes that they left behind.
    fn end_all(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let left = children();
            if left.is_empty() {
                break;
            }
            left.iter().for_each(|pid| send_signal(pid.as_raw_nonzero().get(), libc::SIGKILL, None));
            thread::sleep(Duration::from_millis(1));
            for pid in left {
                // One that has not ended yet is looked for again.
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        self.0.clear();
    }
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let path = format!("/proc/self/task/{}/children", gettid().as_raw_nonzero());
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// How a host ended, in a sentence.
fn describe_end(host: usize, pid: i32, ended: ChildEnd, others: usize) -> String {
    let how = match ended {
        ChildEnd::Killed(signal) => format!("was ended by signal {signal}"),
        ChildEnd::Exited(status) => format!("ended with status {status}"),
    };
    match others {
        0 => format!("host {host} (process {pid}) {how}"),
        _ => format!("host {host} (process {pid}) {how}; the others are ended too"),
    }
}

/// What a host left behind: a name, a tab and a number on each line.
fn counted(said: &[u8]) -> Vec<(String, u64)> {
    let text = String::from_utf8_lossy(said);
    let pair = |line: &str| {
        let (name, number) = line.split_once('\t')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

impl Ended {
    /// The figures as a table: a line for each kind, a column for each host.
    #[must_use]
    pub fn table(&self) -> String {
        let names =
            self.counts.iter().max_by_key(|counts| counts.len()).map(Vec::as_slice).unwrap_or_default();
        let mut text = format!("{:20}", "host");
        for host in 0..self.counts.len() {
            let _ = write!(text, "{host:>12}");
        }
        for (index, (name, _)) in names.iter().enumerate() {
            let _ = write!(text, "\n{name:20}");
            for counts in &self.counts {
                let number = counts.get(index).map_or_else(|| "-".into(), |(_, number)| number.to_string());
                let _ = write!(text, "{number:>12}");
            }
        }
        text + "\n"
    }
}

/// The job could not be run.
#[derive(Debug)]
pub enum JobError {
    /// A host was not started.
    Start(StartError),
    /// No sockets between the hosts and the launcher.
    NoSockets {
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not know a host as our child.
    Lost {
        /// What waitpid(2) said.
        source: io::Error,
    },
}

impl JobError {
    /// Exit status, as shells, env(1) and timeout(1) have it: 127 not found, 126 not executable, 125 our own failure.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Start(error) => error.exit_status(),
            Self::NoSockets { .. } | Self::Lost { .. } => 125,
        }
    }
}

impl From<StartError> for JobError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::NoSockets { source } => write!(
                f,
                "no sockets for the hosts to meet ({}); start fewer, or raise the limit with: ulimit -n",
                reason(source)
            ),
            Self::Lost { source } => {
                write!(f, "lost track of a host: waitpid failed ({}); start the job again", reason(source))
            }
        }
    }
}

impl error::Error for JobError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Start(error) => error.source(),
            Self::NoSockets { source } | Self::Lost { source } => Some(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_leave_behind_becomes_a_table() {
        let counts =
            vec![counted(b"faults\t12\nbarriers\t3\n"), counted(b""), counted(b"faults\t7\nbarriers\tx\n")];
        let ended = Ended { exit_status: 0, counts };
        let lines: Vec<String> =
            ended.table().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines, ["host 0 1 2", "faults 12 - 7", "barriers 3 - -"]);
    }

    #[test]
    fn a_library_is_loaded_before_those_that_the_user_wants_first() {
        let with = |value: &str| [c"A=1".into(), CString::new(format!("LD_PRELOAD={value}")).unwrap()];
        let library = Path::new("/lib/libforebay.so");
        assert_eq!(preloaded(library, &[]).unwrap(), "LD_PRELOAD=/lib/libforebay.so");
        assert_eq!(preloaded(library, &with("")).unwrap(), "LD_PRELOAD=/lib/libforebay.so");
        assert_eq!(
            preloaded(library, &with("a.so:b.so")).unwrap(),
            "LD_PRELOAD=/lib/libforebay.so:a.so:b.so"
        );
        assert_eq!(preloaded(Path::new("/a b/libforebay.so"), &[]), None);
    }
}
