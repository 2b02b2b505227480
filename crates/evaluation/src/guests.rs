//! The guest programs that this crate carries, put where they can be run.
//!
//! They are ordinary dynamically linked programs, since only such a program can be assisted: `forebay` itself, which
//! may be static, could not stand in for them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Error;

const SLICES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/slices"));
const AGREP_HINTED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agrep_hinted"));

/// Paths of the guest programs.
#[derive(Debug)]
pub(crate) struct Guests {
    /// Reads slices of an array.
    pub(crate) slices: PathBuf,
    /// Runs a command and hints the files that it will read.
    pub(crate) agrep_hinted: PathBuf,
}

impl Guests {
    /// Writes the programs into `folder`.
    pub(crate) fn unpack(folder: &Path) -> Result<Self, Error> {
        let unpack = |name: &str, program: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, program).map_err(Error::file("write", &path))?;
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&path, executable).map_err(Error::file("make executable", &path))?;
            Ok::<_, Error>(path)
        };
        Ok(Self { slices: unpack("slices", SLICES)?, agrep_hinted: unpack("agrep_hinted", AGREP_HINTED)? })
    }
}
