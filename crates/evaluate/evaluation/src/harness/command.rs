//! Runs one program to its end: how long it took and everything by which its result can be told from another's.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use sha2::{Digest, Sha256};

use crate::Error;
use crate::harness::interrupt::Interrupt;

/// How often a running program is left to look for an interrupt; its end is noticed at once.
const INTERRUPT_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How much of standard error an error message quotes, in bytes.
const STDERR_QUOTED: usize = 600;

/// A command line, the folder it is run in, and what its environment has besides ours.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) folder: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Invocation {
    pub(crate) fn new<A: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = A>) -> Self {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        Self { arguments, folder: folder.to_owned(), variables: Vec::new() }
    }

    /// The same with one more variable in its environment.
    pub(crate) fn with_variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// The same command line behind another program and its arguments.
    pub(crate) fn behind<A: AsRef<OsStr>>(&self, prefix: impl IntoIterator<Item = A>) -> Self {
        let prefix = prefix.into_iter().map(|argument| argument.as_ref().to_owned());
        Self { arguments: prefix.chain(self.arguments.iter().cloned()).collect(), ..self.clone() }
    }

    /// Runs it with nothing on standard input and the POSIX locale. Standard output and error go to unnamed files in
    /// `scratch`. A program that outlives `limit` is killed together with its process group.
    pub(crate) fn run(&self, scratch: &Path, limit: Duration, interrupt: &Interrupt) -> Result<Ran, Error> {
        // Short programs end before anything looks for an interrupt.
        interrupt.check()?;
        let mut command = Command::new(&self.arguments[0]);
        command.args(&self.arguments[1..]).current_dir(&self.folder).stdin(Stdio::null());
        command.env("LC_ALL", "C").envs(self.variables.iter().map(|(name, value)| (name, value)));
        let started = Started::new(command, self.to_string(), scratch)?;
        started.finish(limit, interrupt)
    }

    /// The same, where all that matters is that it does not fail.
    pub(crate) fn succeed(
        &self,
        scratch: &Path,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let ran = self.run(scratch, limit, interrupt)?;
        if ran.result.status.success() {
            return Ok(());
        }
        let (command, status) = (self.to_string(), ran.result.status.to_string());
        Err(Error::Failed { command, status, stderr: ran.stderr_end })
    }
}

impl fmt::Display for Invocation {
    /// The program and its first arguments: a link of hundreds of objects is no use in a sentence.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let shown: Vec<_> =
            self.arguments.iter().take(SHOWN).map(|argument| argument.to_string_lossy()).collect();
        let more = if self.arguments.len() > SHOWN { " ..." } else { "" };
        write!(formatter, "{}{more}", shown.join(" "))
    }
}

/// A program that runs in a process group of its own, with its outputs in unnamed files.
pub(crate) struct Started {
    child: Child,
    /// What messages call it.
    name: String,
    scratch: PathBuf,
    stdout: File,
    stderr: File,
    since: Instant,
}

impl Started {
    /// Starts `command`, with its outputs in `scratch`.
    pub(crate) fn new(mut command: Command, name: String, scratch: &Path) -> Result<Self, Error> {
        let unnamed = || tempfile::tempfile_in(scratch).map_err(Error::file("write in", scratch));
        let (stdout, stderr) = (unnamed()?, unnamed()?);
        let clone = |file: &File| file.try_clone().map_err(Error::file("write in", scratch));
        command.stdout(clone(&stdout)?).stderr(clone(&stderr)?).process_group(0);
        let since = Instant::now();
        let child = command.spawn().map_err(|source| Error::Start { command: name.clone(), source })?;
        Ok(Self { child, name, scratch: scratch.to_owned(), stdout, stderr, since })
    }

    /// Counts its time from now on.
    pub(crate) fn restart_clock(&mut self) {
        self.since = Instant::now();
    }

    /// Waits for its end. Where that does not come within `limit`, it is killed together with its process group.
    pub(crate) fn finish(mut self, limit: Duration, interrupt: &Interrupt) -> Result<Ran, Error> {
        let waited = wait(&mut self.child, self.since, limit, interrupt);
        let elapsed = self.since.elapsed();
        let status = match waited {
            Ok(status) => status,
            Err(stopped) => {
                end_group(&mut self.child);
                let command = self.name;
                return Err(match stopped {
                    Stopped::Interrupted => Error::Interrupted,
                    Stopped::TimedOut => Error::TimedOut { command, limit },
                    Stopped::Lost(source) => Error::Start { command, source },
                });
            }
        };
        let unreadable = || Error::file("read in", &self.scratch);
        let stderr_end = end_of(&mut self.stderr).map_err(unreadable())?;
        let result = RunResult {
            status,
            stdout: digest(&mut self.stdout).map_err(unreadable())?,
            stderr: digest(&mut self.stderr).map_err(unreadable())?,
        };
        Ok(Ran { elapsed, result, stderr_end })
    }
}

/// A run that came to its end by itself.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) elapsed: Duration,
    pub(crate) result: RunResult,
    /// The end of standard error, for messages.
    pub(crate) stderr_end: String,
}

/// What two runs of one program must agree on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunResult {
    pub(crate) status: ExitStatus,
    stdout: [u8; 32],
    stderr: [u8; 32],
}

impl RunResult {
    /// Whether everything agrees but standard error: some programs tell there how long they took.
    pub(crate) fn agrees_but_for_messages(&self, other: &Self) -> bool {
        self.status == other.status && self.stdout == other.stdout
    }
}

/// The SHA-256 of a file from its first byte.
pub(crate) fn digest(file: &mut File) -> std::io::Result<[u8; 32]> {
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().into()),
            length => hasher.update(&buffer[..length]),
        }
    }
}

fn end_of(file: &mut File) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(STDERR_QUOTED as u64)))?;
    let mut end = Vec::new();
    file.take(STDERR_QUOTED as u64).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).trim().to_owned())
}

enum Stopped {
    Interrupted,
    TimedOut,
    Lost(std::io::Error),
}

fn wait(
    child: &mut Child,
    started: Instant,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<ExitStatus, Stopped> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())
        .map_err(|errno| Stopped::Lost(errno.into()))?;
    loop {
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&INTERRUPT_INTERVAL)) {
            Ok(0) | Err(Errno::INTR) => {
                interrupt.check().map_err(|_| Stopped::Interrupted)?;
                if started.elapsed() > limit {
                    return Err(Stopped::TimedOut);
                }
            }
            Ok(_) => return child.wait().map_err(Stopped::Lost),
            Err(errno) => return Err(Stopped::Lost(errno.into())),
        }
    }
}

/// The group has the child's number and the child is not yet reaped, so the number cannot be anybody else's.
fn end_group(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Invocation {
        Invocation::new(Path::new("/"), ["sh", "-c", script])
    }

    fn run(script: &str) -> Result<Ran, Error> {
        shell(script).run(&std::env::temp_dir(), LIMIT, &Interrupt::watch())
    }

    #[test]
    fn results_differ_by_status_and_by_either_output() {
        let result = |script| run(script).unwrap().result;
        assert_eq!(result("echo a; exit 3"), result("echo a; exit 3"));
        assert_ne!(result("echo a"), result("echo b"));
        assert_ne!(result("echo a"), result("echo a >&2"));
        assert_ne!(result("exit 1"), result("exit 2"));
    }

    #[test]
    fn a_program_that_outlives_its_limit_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let error = shell("sleep 600 & sleep 600").run(
            folder.path(),
            Duration::from_millis(200),
            &Interrupt::watch(),
        );
        assert!(matches!(error, Err(Error::TimedOut { .. })), "{error:?}");
        assert!(started.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn an_interrupt_ends_the_program() {
        let interrupt = Interrupt::watch();
        interrupt.raise();
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(shell("sleep 30").run(folder.path(), LIMIT, &interrupt), Err(Error::Interrupted)));
    }

    #[test]
    fn a_command_that_does_not_exist_is_named() {
        let missing = Invocation::new(Path::new("/"), ["/nonexistent/program"]);
        let error = missing.run(&std::env::temp_dir(), LIMIT, &Interrupt::watch()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/program"), "{error}");
    }

    #[test]
    fn long_command_lines_are_shortened() {
        let long = Invocation::new(Path::new("/"), (0..500).map(|number| number.to_string()));
        assert_eq!(long.to_string(), "0 1 2 3 4 5 6 7 ...");
    }
}
