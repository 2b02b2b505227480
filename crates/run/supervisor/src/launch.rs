//! Starts the program: found as a shell would find it, examined, with the agent in its environment where it can take
//! one, and in everything else exactly as if forebay were not there.

use std::{
    env,
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
};

use forebay_protocol::layout::Unassisted;
use rustix::fs::{Access, AtFlags, CWD, FileType, accessat, stat};

use crate::{
    Error, Options,
    agent_library::Preload,
    channel::Channel,
    examine::{Examined, examine, script_interpreter},
    ffi::{self, Life, SignalsBlocked},
    patch_table,
};

/// Where execvp(3) looks without PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// Runs a file that is text but names no interpreter, as execvp(3) has it.
const SHELL: &str = "/bin/sh";
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
) -> Result<i32, Error> {
    let environment = ffi::environment();
    find(&options.command, |path, arguments| {
        let attempt = Attempt { channel, preload, signals, environment: &environment, patch: options.patch };
        attempt.start(path, arguments)
    })
}

/// Starts a program without an agent and returns its process id.
///
/// # Errors
/// As [`launch`].
pub fn start_plainly(
    command: &[OsString],
    environment: &[CString],
    signals: &SignalsBlocked,
    life: Life,
) -> Result<i32, Error> {
    find(command, |path, arguments| {
        check_executable(path)?;
        let start = |program: &Path, arguments: &[CString]| {
            ffi::start(&c_string(program.as_os_str()), arguments, environment, signals, life)
        };
        match start(path, arguments) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) && examine(path).is_text => {
                start(Path::new(SHELL), &by_shell(path, arguments))
            }
            started => started,
        }
    })
}

/// Starts the first of the files that the command may mean.
fn find(
    command: &[OsString],
    mut start: impl FnMut(&Path, &[CString]) -> io::Result<i32>,
) -> Result<i32, Error> {
    let name = command.first().ok_or(Error::NoCommand)?;
    let arguments: Vec<CString> = command.iter().map(|argument| c_string(argument)).collect();
    let mut refused = None;
    for path in candidates(name, env::var_os("PATH").as_deref()) {
        match start(&path, &arguments) {
            Ok(pid) => return Ok(pid),
            // As execvp(3): such a directory of PATH is passed over, and remembered when nothing better comes.
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) if !exists(&path) => {}
                Some(libc::EACCES) => refused = refused.or(Some((path, error))),
                _ => return Err(failed(name, path, error)),
            },
        }
    }
    Err(match refused {
        Some((path, error)) => failed(name, path, error),
        None => Error::NotFound { name: name.clone() },
    })
}

/// The files that `name` may mean, in order.
fn candidates(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    if name.is_empty() {
        return vec![];
    }
    if name.as_bytes().contains(&b'/') {
        return vec![name.into()];
    }
    let folders = path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes().split(|byte| *byte == b':');
    // An empty folder is the current one; execvp(3) then names the file without a slash, which means the same.
    folders.map(|folder| Path::new(OsStr::from_bytes(folder)).join(name)).collect()
}

fn exists(path: &Path) -> bool {
    stat(path).is_ok()
}

fn failed(name: &OsStr, path: PathBuf, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ENOENT) => match script_interpreter(&path).or_else(|| examine(&path).loader.ok()) {
            Some(interpreter) => Error::NoInterpreter { path, interpreter },
            None => Error::NotFound { name: name.into() },
        },
        Some(libc::EAGAIN | libc::ENOMEM) => Error::NoProcess { path, source },
        _ => Error::NotExecutable { is_folder: path.is_dir(), path, source },
    }
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
        let program = c_string(path.as_os_str());
        let reason = match &examined.loader {
            Ok(loader) => {
                if self.patch {
                    patch_table::publish(self.channel.header(), loader);
                }
                let assisted = self.assisted_environment();
                match ffi::start(&program, arguments, &assisted, self.signals, Life::Own) {
                    // Our variables may be what was too much.
                    Err(error) if error.raw_os_error() == Some(libc::E2BIG) => Unassisted::NotExamined,
                    started => return started,
                }
            }
            Err(reason) => *reason,
        };
        let pid = ffi::start(&program, arguments, self.environment, self.signals, Life::Own)?;
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
                *entry = c_string(OsStr::from_bytes(&[PRELOAD, agent.as_bytes(), b":", users].concat()));
            }
            None => environment.push(c_string(OsStr::from_bytes(&[PRELOAD, agent.as_bytes()].concat()))),
        }
        let session = format!("FOREBAY_SESSION={}:{}", std::process::id(), self.channel.descriptor());
        environment.push(c_string(OsStr::new(&session)));
        environment
    }
}

fn check_executable(path: &Path) -> io::Result<()> {
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?;
    if FileType::from_raw_mode(stat(path)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(())
}

/// The arguments of a shell that is to run a file.
fn by_shell(path: &Path, arguments: &[CString]) -> Vec<CString> {
    let mut by_shell = vec![c_string(OsStr::new(SHELL)), c_string(path.as_os_str())];
    by_shell.extend_from_slice(arguments.get(1..).unwrap_or_default());
    by_shell
}

/// A string for the kernel. What came from the kernel has no zero byte inside; anything after one would be lost to
/// execve(2) anyway.
fn c_string(text: &OsStr) -> CString {
    let bytes = text.as_bytes().split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_is_not_searched_for() {
        assert_eq!(candidates(OsStr::new("./x"), Some(OsStr::new("/bin"))), [PathBuf::from("./x")]);
    }

    #[test]
    fn a_name_is_looked_for_in_each_folder_of_path() {
        let found = candidates(OsStr::new("x"), Some(OsStr::new("/a::/b/")));
        assert_eq!(found, [PathBuf::from("/a/x"), PathBuf::from("x"), PathBuf::from("/b/x")]);
        let found = candidates(OsStr::new("x"), None);
        assert_eq!(found, [PathBuf::from("/bin/x"), PathBuf::from("/usr/bin/x")]);
    }

    #[test]
    fn an_empty_name_is_no_file() {
        assert!(candidates(OsStr::new(""), Some(OsStr::new("/bin"))).is_empty());
    }
}
