//! Where a server listens that has no option for it: live555MediaServer takes port 554 or 8554 of all interfaces, and one for
//! tunnels besides.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;
use crate::servers::server::find_program;

const SOURCE: &str = include_str!("../../../../../../tests/guests/bench/loopback_port.c");
const LIBRARY: &str = "loopback_port.so";
/// How long the compiler may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What it needs that may be missing.
pub(super) fn check() -> Result<(), Error> {
    find_program("cc").map(drop).ok_or(Error::Missing { program: "cc", package: "gcc" })
}

/// What env(1) gives a server, so that it listens on this port of the loopback. Builds what is preloaded in `folder`, if it is not
/// there yet.
pub(super) fn environment(folder: &Path, port: u16, interrupt: &Interrupt) -> Result<[OsString; 2], Error> {
    let library = folder.join(LIBRARY);
    if !library.exists() {
        let source = library.with_extension("c");
        fs::write(&source, SOURCE).map_err(Error::file("write", &source))?;
        let line = ["cc", "-O2", "-shared", "-fPIC", "-o", LIBRARY, "loopback_port.c"];
        Invocation::new(folder, line).succeed(folder, LIMIT, interrupt)?;
    }
    let mut preload = OsString::from("LD_PRELOAD=");
    preload.push(library);
    Ok([preload, format!("LOOPBACK_PORT={port}").into()])
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::servers::server::process::free_port;

    #[test]
    fn a_server_with_ports_of_its_own_listens_where_it_is_told_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port().unwrap();
        let environment = environment(folder.path(), port, &Interrupt::watch()).unwrap();
        let server = forebay_testkit::guests::build("fixed_ports");
        let output = Command::new("env").args(environment).arg(server).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("127.0.0.1 {port}\nrefused\nrefused\n127.0.0.1 0\n"));
    }
}
