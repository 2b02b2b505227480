//! The one host that a process is, for all of its threads.

use std::{
    ffi::c_int,
    sync::{Arc, OnceLock},
};

use forebay_millipage::{Error, Host, Options, Placement, Process};

use crate::failure::Failure;

/// Set once by [`join`].
static PROCESS: OnceLock<Process> = OnceLock::new();

/// As the header says.
const BLOCKS: c_int = -1;
const CYCLIC: c_int = -2;
const COPIES: c_int = -3;

/// Makes the process a host.
pub fn join(options: Options) -> Result<(), Failure> {
    let joined = Process::join(options)?;
    PROCESS.get_or_init(|| joined);
    Ok(())
}

/// Has it leave.
pub fn leave() -> Result<(), Failure> {
    Ok(PROCESS.get().ok_or(Error::NoHost)?.leave()?)
}

/// It, for one call.
pub fn host() -> Result<Arc<Host>, Failure> {
    Ok(PROCESS.get().ok_or(Error::NoHost)?.host()?)
}

/// It, where this process is a host now.
pub fn host_if_joined() -> Option<Arc<Host>> {
    PROCESS.get()?.host().ok()
}

/// What the number of a placement stands for.
pub fn placement(number: c_int, hosts: u16) -> Result<Placement, Failure> {
    Ok(match number {
        BLOCKS => Placement::Blocks,
        CYCLIC => Placement::Cyclic,
        COPIES => Placement::Copies,
        _ => Placement::On(rank(number, hosts)?),
    })
}

/// A rank, if there is such a host.
pub fn rank(rank: c_int, hosts: u16) -> Result<u16, Failure> {
    u16::try_from(rank).ok().filter(|rank| *rank < hosts).ok_or(Failure::Rank { rank, hosts })
}
