//! The programs that write the first structures of a file system, or of swap, to a device.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Error;

/// Runs `program`, which is in `package`, with `options` on `device`.
pub(super) fn format_device(
    program: &str,
    package: &str,
    options: &[&str],
    device: &Path,
) -> Result<(), Error> {
    let options = options.iter().map(OsStr::new);
    format(program, package, &options.chain([device.as_os_str()]).collect::<Vec<_>>())
}

/// Runs `program`, which is in `package`, with `arguments`.
pub(super) fn format(program: &str, package: &str, arguments: &[&OsStr]) -> Result<(), Error> {
    // An ordinary user's PATH, and with it root's after `su`, often lacks the system's folders.
    let places = [program.to_owned(), format!("/usr/sbin/{program}"), format!("/sbin/{program}")];
    for place in places {
        let run = Command::new(&place).args(arguments).stdin(Stdio::null()).output();
        match run {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(format!("start {place}"), error)),
            Ok(run) if run.status.success() => return Ok(()),
            Ok(run) => {
                let arguments: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
                return Err(Error::Program {
                    command: format!("{place} {}", arguments.join(" ")),
                    said: format!("{}, {}", run.status, String::from_utf8_lossy(&run.stderr).trim()),
                });
            }
        }
    }
    Err(Error::Unsupported {
        feature: "The slow disk".into(),
        needs: program.into(),
        how_to_enable: format!("Install {package}: apt-get install {package}"),
    })
}
