//! Starts the program with the agent in its environment, where the agent can be loaded into it. In everything else the
//! program starts as it would without forebay.

use std::{
    ffi::{CString, OsStr},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::atomic::Ordering::Relaxed,
};

use forebay_linux::process::{
    Life, SHELL, SignalsBlocked, StartError, by_shell, check_executable, environment, start, start_first,
    terminated,
};
use forebay_protocol::layout::Unassisted;

use crate::{
    Options,
    agent_library::Preload,
    channel::Channel,
    examine::{Examined, examine},
    patch_table,
};

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Starts the program and returns its process id.
///
/// # Errors
/// The command was not found, cannot be executed, or the system refuses a process.
pub fn launch(
    channel: &Channel,
    options: &Options,
    preload: &Preload,
    signals: &SignalsBlocked,
) -> Result<i32, StartError> {
    let environment = environment();
    start_first(&options.command, |path, arguments| {
        let attempt = Attempt { channel, preload, signals, environment: &environment, patch: options.patch };
        attempt.start(path, arguments)
    })
}

/// What the attempts to start the files of one command have in common.
struct Attempt<'a> {
    channel: &'a Channel,
    preload: &'a Preload,
    signals: &'a SignalsBlocked,
    environment: &'a [CString],
    patch: bool,
}

impl Attempt<'_> {
    fn start(&self, path: &Path, arguments: &[CString]) -> io::Result<i32> {
        // Asked first because a file that cannot be executed need not be examined, which opens it.
        check_executable(path)?;
        let examined = examine(path);
        match self.start_examined(path, arguments, &examined) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) && examined.is_text => {
                let shell = Path::new(SHELL);
                self.start_examined(shell, &by_shell(path, arguments), &examine(shell))
            }
            started => started,
        }
    }

    fn start_examined(&self, path: &Path, arguments: &[CString], examined: &Examined) -> io::Result<i32> {
        let program = terminated(path.as_os_str());
        let reason = match &examined.loader {
            Ok(loader) => {
                if self.patch {
                    patch_table::publish(self.channel.header(), loader);
                }
                let assisted = self.assisted_environment();
                match start(&program, arguments, &assisted, self.signals, Life::Own) {
                    // Our variables may be what was too much.
                    Err(error) if error.raw_os_error() == Some(libc::E2BIG) => Unassisted::NotExamined,
                    started => return started,
                }
            }
            Err(reason) => *reason,
        };
        let pid = start(&program, arguments, self.environment, self.signals, Life::Own)?;
        self.channel.header().processes_unassisted[reason as usize].fetch_add(1, Relaxed);
        Ok(pid)
    }

    /// The environment with the agent before the user's own preloads and the session's name at the end. The agent
    /// takes both out again.
    fn assisted_environment(&self) -> Vec<CString> {
        let mut environment = self.environment.to_vec();
        let agent = self.preload.value();
        // The loader takes the last of several.
        match environment.iter_mut().rfind(|entry| entry.as_bytes().starts_with(PRELOAD)) {
            Some(entry) => {
                let users = &entry.as_bytes()[PRELOAD.len()..];
                *entry = terminated(OsStr::from_bytes(&[PRELOAD, agent.as_bytes(), b":", users].concat()));
            }
            None => environment.push(terminated(OsStr::from_bytes(&[PRELOAD, agent.as_bytes()].concat()))),
        }
        let session = format!("FOREBAY_SESSION={}:{}", std::process::id(), self.channel.descriptor());
        environment.push(terminated(OsStr::new(&session)));
        environment
    }
}
