//! The guest programs that this crate carries, put where they can be run.
//!
//! They are ordinary dynamically linked programs, since only such a program can be assisted: `forebay` itself, which
//! may be static, could not stand in for them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

macro_rules! carried {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Paths of the guest programs.
        #[derive(Debug)]
        pub(crate) struct Guests {
            $($(#[$doc])* pub(crate) $name: PathBuf,)*
        }

        impl Guests {
            /// Writes the programs into `folder`.
            pub(crate) fn unpack(folder: &Path) -> Result<Self, Error> {
                Ok(Self {
                    $($name: unpack(
                        folder,
                        stringify!($name),
                        include_bytes!(concat!(env!("OUT_DIR"), "/", stringify!($name))),
                    )?,)*
                })
            }
        }
    };
}

carried! {
    /// Reads slices of an array.
    slices,
    /// Reads a mapped file at computed offsets.
    mapped,
    /// Looks for a string in files, each of which it maps.
    mapscan,
    /// Works on much memory and reads a block of a file now and then.
    resident,
    /// Runs a command and hints the files that it will read.
    agrep_hinted,
    /// Runs a command and writes down what the kernel accounted to it.
    accounted,
    /// Multiplies a matrix by a vector.
    matvec,
    /// Transforms in place.
    fft,
    /// Solves by V-cycles over grids of several sizes.
    multigrid,
    /// Gathers through an index.
    gather,
}

fn unpack(folder: &Path, name: &str, program: &[u8]) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    install(&path, program).map_err(Error::file("write", &path))?;
    Ok(path)
}

/// The writer is a process of its own. What another thread of this one forks may have a file of this one open for writing for a moment, and
/// then the kernel does not execute it (ETXTBSY).
fn install(path: &Path, program: &[u8]) -> io::Result<()> {
    let mut writer = Command::new("install");
    let mut writer = writer
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let written = writer.stdin.take().map_or(Ok(()), |mut input| input.write_all(program));
    let output = writer.wait_with_output()?;
    match output.status.success() {
        true => written,
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
