//! Starts the program with the agent in its environment, where the agent can be loaded into it. In everything else the
//! program starts as it would without forebay.

use std::{
    convert::Infallible,
    ffi::{CStr, CString, OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
};

use forebay_linux::process::{
    Life, SHELL, SignalsBlocked, StartError, become_other, by_shell, check_executable, environment, start,
    start_first, terminated,
};
use forebay_protocol::{executable, layout::Unassisted};
use rustix::process::{PTracer, Pid, getpid, set_ptracer};

use crate::{
    agent_library::Preload,
    channel::Channel,
    examine::{examine, holds_record_locks, is_text},
    patch_table,
    profiles::Recording,
};

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// What a program needs for its agent.
pub struct Assistance<'a> {
    /// The memory that the agent shares with the supervisor.
    pub channel: &'a Channel,
    /// The agent's library. `None` where this user may not read it.
    pub preload: Option<&'a Preload>,
    /// Whether agents patch libc.
    pub patch: bool,
    /// The supervisor's process id; asked for when the run is recorded, or the program turns out to have this user's rights, with the
    /// executable and its arguments. `None` where the system has no room for a supervisor.
    pub supervisor: &'a dyn Fn(&Path, &[CString]) -> Option<u32>,
    /// What is recorded of the run. A program that can have no agent has a supervisor for this, too.
    pub recording: Option<&'a Recording>,
}

impl Assistance<'_> {
    /// To examine the program waits for the disk, and brings a part of it into memory: the supervisor replays meanwhile.
    fn begin_recording(&self, path: &Path, arguments: &[CString]) {
        if let Some(recording) = self.recording {
            recording.look_at(path);
            let _ = (self.supervisor)(path, arguments);
        }
    }
}

/// Starts the program as a child and returns its process id.
///
/// # Errors
/// The command was not found, cannot be executed, or the system refuses a process.
pub fn launch(
    command: &[OsString],
    assistance: &Assistance<'_>,
    signals: &SignalsBlocked,
) -> Result<i32, StartError> {
    let execute = |path: &CStr, arguments: &[CString], environment: &[CString]| {
        start(path, arguments, environment, signals, Life::Own)
    };
    execute_first(command, Some(assistance), &execute)
}

/// This process becomes the program, with an agent where there is assistance. Returns why it has not.
pub fn become_program(command: &[OsString], assistance: Option<&Assistance<'_>>) -> StartError {
    let execute = |path: &CStr, arguments: &[CString], environment: &[CString]| {
        Err::<Infallible, _>(become_other(path, arguments, environment))
    };
    match execute_first(command, assistance, &execute) {
        Err(error) => error,
        Ok(never) => match never {},
    }
}

type Execute<'a, T> = &'a dyn Fn(&CStr, &[CString], &[CString]) -> io::Result<T>;

fn execute_first<T>(
    command: &[OsString],
    assistance: Option<&Assistance<'_>>,
    execute: Execute<'_, T>,
) -> Result<T, StartError> {
    let environment = environment();
    start_first(command, |path, arguments| {
        Attempt { assistance, execute, environment: &environment }.start(path, arguments)
    })
}

/// What the attempts to start the files of one command have in common.
struct Attempt<'a, T> {
    assistance: Option<&'a Assistance<'a>>,
    execute: Execute<'a, T>,
    environment: &'a [CString],
}

impl<T> Attempt<'_, T> {
    fn start(&self, path: &Path, arguments: &[CString]) -> io::Result<T> {
        // Asked first because a file that cannot be executed need not be examined, which opens it.
        check_executable(path)?;
        let loader = self.examine(path, arguments);
        match self.start_examined(path, arguments, loader) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) && is_text(path) => {
                let (shell, arguments) = (Path::new(SHELL), by_shell(path, arguments));
                self.start_examined(shell, &arguments, self.examine(shell, &arguments))
            }
            started => started,
        }
    }

    /// The loader of the program, or why it gets no agent. A program that gets none whatever its file says is not opened.
    fn examine(&self, path: &Path, arguments: &[CString]) -> Result<PathBuf, Unassisted> {
        let assistance = self.assistance.filter(|_| !holds_record_locks()).ok_or(Unassisted::NotExamined)?;
        assistance.begin_recording(path, arguments);
        examine(path)
    }

    fn start_examined(
        &self,
        path: &Path,
        arguments: &[CString],
        loader: Result<PathBuf, Unassisted>,
    ) -> io::Result<T> {
        let program = terminated(path.as_os_str());
        let plainly = || (self.execute)(&program, arguments, self.environment);
        let Some(assistance) = self.assistance else { return plainly() };
        let supervisor = || (assistance.supervisor)(path, arguments);
        let is_reported = self.environment.iter().any(|entry| executable::asks_for_report(entry.as_bytes()));
        let reason = match (&loader, assistance.preload) {
            (Ok(_), _) if is_reported => Unassisted::NotExamined,
            (Ok(loader), Some(preload)) => match supervisor() {
                Some(supervisor) => {
                    if assistance.patch {
                        patch_table::publish(assistance.channel.header(), loader);
                    }
                    let agent = preload.value(supervisor);
                    let assisted = self.assisted_environment(assistance.channel, &agent, supervisor);
                    match (self.execute)(&program, arguments, &assisted) {
                        // Our variables may be what was too much.
                        Err(error) if error.raw_os_error() == Some(libc::E2BIG) => Unassisted::NotExamined,
                        started => return started,
                    }
                }
                None => Unassisted::Limited,
            },
            (Ok(_), None) => Unassisted::AgentUnreachable,
            (Err(reason), _) => *reason,
        };
        if reason != Unassisted::Privileged {
            // It sees what the program waits for.
            if let Some(supervisor) = supervisor() {
                may_be_looked_at_by(supervisor);
            }
        } else if let Some(recording) = assistance.recording {
            recording.renounce(assistance.channel);
        }
        // Told before, because this process may become the program.
        let count = &assistance.channel.header().processes_unassisted[reason as usize];
        count.fetch_add(1, Relaxed);
        let started = plainly();
        if started.is_err() {
            count.fetch_sub(1, Relaxed);
        }
        started
    }

    /// The environment with the agent before the user's own preloads and the session's name at the end. The agent
    /// takes both out again.
    fn assisted_environment(&self, channel: &Channel, agent: &OsStr, supervisor: u32) -> Vec<CString> {
        let mut environment = self.environment.to_vec();
        // The loader takes the last of several.
        match environment.iter_mut().rfind(|entry| entry.as_bytes().starts_with(PRELOAD)) {
            Some(entry) => {
                let users = &entry.as_bytes()[PRELOAD.len()..];
                *entry = terminated(OsStr::from_bytes(&[PRELOAD, agent.as_bytes(), b":", users].concat()));
            }
            None => environment.push(terminated(OsStr::from_bytes(&[PRELOAD, agent.as_bytes()].concat()))),
        }
        let session = format!("FOREBAY_SESSION={supervisor}:{}", channel.descriptor());
        environment.push(terminated(OsStr::new(&session)));
        environment
    }
}

/// Lets the supervisor see what this process waits for when it has become the program. Yama allows that to ancestors alone.
fn may_be_looked_at_by(supervisor: u32) {
    let supervisor = i32::try_from(supervisor).ok().and_then(Pid::from_raw);
    if let Some(supervisor) = supervisor.filter(|pid| *pid != getpid()) {
        // Refused where there is no Yama, which asks for nothing then.
        let _ = set_ptracer(PTracer::ProcessID(supervisor));
    }
}
