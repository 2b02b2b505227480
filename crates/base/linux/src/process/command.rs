//! Finds the program of a command line as a shell would, and starts it.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, accessat, stat};
use rustix::io::Errno;

use super::StartError;
use super::program_file::{Elf, ProgramFile};
use super::signals::SignalsBlocked;
use super::start::{Life, start};

/// Where execvp(3) looks without PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// Runs a file that is text but names no interpreter, as execvp(3) has it.
pub const SHELL: &str = "/bin/sh";

/// Starts the program of a command line and returns its process id.
///
/// # Errors
/// The command was not found, cannot be executed, or the system refuses a process.
pub fn start_command(
    command: &[OsString],
    environment: &[CString],
    signals: &SignalsBlocked,
    life: Life,
) -> Result<i32, StartError> {
    start_first(command, |path, arguments| {
        check_executable(path)?;
        let start = |program: &Path, arguments: &[CString]| {
            start(&terminated(program.as_os_str()), arguments, environment, signals, life)
        };
        match start(path, arguments) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) && is_text(path) => {
                start(Path::new(SHELL), &by_shell(path, arguments))
            }
            started => started,
        }
    })
}

/// Calls `start` with each file that the command may mean, and with its arguments, until one is a program.
///
/// # Errors
/// None was found or could be started, or the system refuses a process.
pub fn start_first<T>(
    command: &[OsString],
    mut start: impl FnMut(&Path, &[CString]) -> io::Result<T>,
) -> Result<T, StartError> {
    let name = command.first().ok_or(StartError::NoCommand)?;
    let arguments: Vec<CString> = command.iter().map(|argument| terminated(argument)).collect();
    let mut refused = None;
    for path in candidates(name, env::var_os("PATH").as_deref()) {
        match start(&path, &arguments) {
            Ok(started) => return Ok(started),
            // As execvp(3): such a directory of PATH is passed over, and remembered when nothing better comes.
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) if stat(&path).is_err() => {}
                Some(libc::EACCES) => refused = refused.or(Some((path, error))),
                _ => return Err(failed(name, path, error)),
            },
        }
    }
    Err(match refused {
        Some((path, error)) => failed(name, path, error),
        None => StartError::NotFound { name: name.clone() },
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

fn failed(name: &OsStr, path: PathBuf, source: io::Error) -> StartError {
    match source.raw_os_error() {
        Some(libc::ENOENT) => match interpreter(&path) {
            Some(interpreter) => StartError::NoInterpreter { path, interpreter },
            None => StartError::NotFound { name: name.into() },
        },
        Some(libc::EAGAIN | libc::ENOMEM) => StartError::NoProcess { path, source },
        _ => StartError::NotExecutable { is_folder: path.is_dir(), path, source },
    }
}

fn interpreter(path: &Path) -> Option<PathBuf> {
    let file = ProgramFile::open(path).ok()?;
    file.script_interpreter().or_else(|| match file.elf()? {
        Elf::Dynamic { loader, .. } => Some(loader),
        Elf::OtherMachine | Elf::Static => None,
    })
}

/// Whether a shell would run the file at `path` as a script.
fn is_text(path: &Path) -> bool {
    ProgramFile::open(path).is_ok_and(|file| file.is_text())
}

/// Whether the kernel would execute the file at `path`, as far as its permissions and kind say. Asked before the file is
/// opened.
///
/// # Errors
/// What execve(2) would say.
pub fn check_executable(path: &Path) -> io::Result<()> {
    match accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        // A sandbox that is older than the call (faccessat2) refuses it. Then execve(2) itself has to say.
        Err(Errno::PERM) => {}
        asked => asked?,
    }
    if FileType::from_raw_mode(stat(path)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(())
}

/// The arguments of a shell that is to run a file.
#[must_use]
pub fn by_shell(path: &Path, arguments: &[CString]) -> Vec<CString> {
    let mut by_shell = vec![terminated(OsStr::new(SHELL)), terminated(path.as_os_str())];
    by_shell.extend_from_slice(arguments.get(1..).unwrap_or_default());
    by_shell
}

/// A string for the kernel. What came from the kernel has no zero byte inside; execve(2) would ignore what follows one.
#[must_use]
pub fn terminated(text: &OsStr) -> CString {
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

    #[test]
    fn what_is_missing_of_a_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        let missing = || io::Error::from_raw_os_error(libc::ENOENT);
        let error = failed(OsStr::new("script"), script, missing());
        assert!(error.to_string().contains("needs '/no/such/interpreter'"), "{error}");
        let error = failed(OsStr::new("x"), folder.path().join("x"), missing());
        assert!(matches!(error, StartError::NotFound { .. }), "{error}");
        assert_eq!(error.exit_status(), 127);
    }

    #[test]
    fn a_full_process_table_is_told_with_the_remedy() {
        let error = failed(OsStr::new("x"), "/bin/x".into(), io::Error::from_raw_os_error(libc::EAGAIN));
        let said = error.to_string();
        assert!(said.starts_with("cannot start '/bin/x': Resource temporarily unavailable; "), "{said}");
        assert!(said.ends_with("(ulimit -u)"), "{said}");
        assert_eq!(error.exit_status(), 125);
    }
}
