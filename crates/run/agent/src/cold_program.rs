//! Tells the executor of a program that was not in memory. The executor reads the program's libraries ahead, while the kernel and the
//! dynamic loader wait for one after the other.

use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use forebay_protocol::layout::{CELL_FREE, CELL_READY, CELL_WRITING, Header, PATH_BYTES, ProgramCell};
use forebay_sigsafe::general as n;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::sys;

use crate::{process, session};

/// Tells of the program that is open as `descriptor`. `room` is for its path.
pub fn announce(header: &Header, descriptor: usize, room: &mut [u8; PATH_BYTES]) {
    let mut link = PathBuffer::<32>::new();
    if !(link.push(b"/proc/self/fd/") && link.push_number(descriptor as u64)) {
        return;
    }
    // SAFETY: a terminated path, and a buffer as large as the call is told.
    let length = unsafe { sys!(n::__NR_readlink, link.as_ptr(), room.as_mut_ptr(), room.len()) };
    // One that fills the buffer may be cut.
    let length = usize::try_from(length).ok().filter(|length| *length < PATH_BYTES);
    let Some(path) = length.and_then(|length| room.get(..length)) else { return };
    let claim =
        |cell: &&ProgramCell| cell.state.compare_exchange(CELL_FREE, CELL_WRITING, AcqRel, Relaxed).is_ok();
    let Some(cell) = header.libraries.programs.iter().find(claim) else { return };
    cell.process.store(process::id(), Relaxed);
    cell.path_len.store(path.len() as u32, Relaxed);
    for (to, from) in cell.path.iter().zip(path) {
        to.store(*from, Relaxed);
    }
    cell.state.store(CELL_READY, Release);
    session::ring(header);
}
