//! The guest programs that this crate carries, put where they can be run.
//!
//! They are ordinary dynamically linked programs, since only such a program can be assisted: `forebay` itself, which
//! may be static, could not stand in for them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
    fs::write(&path, program).map_err(Error::file("write", &path))?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&path, executable).map_err(Error::file("make executable", &path))?;
    Ok(path)
}
