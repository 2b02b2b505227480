//! Tells the executor of programs that were not in memory, and of libraries that the program may be about to load. The executor reads
//! them ahead, with the libraries that they need, while the kernel and the dynamic loader wait for one after the other.
//!
//! The dynamic loader's own calls pass by the agent. But a program that loads a library by its path has looked the path up as a rule.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use forebay_protocol::layout::{CELL_FREE, CELL_READY, CELL_WRITING, Header, PATH_BYTES, ProgramCell};
use forebay_protocol::signature::Signature;
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
    tell(header, path, false);
}

/// Libraries that were told of lately, by the hashes of their paths.
static TOLD: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// The program has found something at this path.
pub fn found(path: &[u8]) {
    if !path.ends_with(b".so") || path.first() != Some(&b'/') || path.len() >= PATH_BYTES {
        return;
    }
    let hash = Signature::call(0).bytes(path).value();
    let told = TOLD.get((hash >> 32) as usize % TOLD.len());
    if let Some(header) = session::header()
        && told.is_some_and(|told| told.swap(hash, Relaxed) != hash)
    {
        tell(header, path, true);
    }
}

fn tell(header: &Header, path: &[u8], is_library: bool) {
    let claim =
        |cell: &&ProgramCell| cell.state.compare_exchange(CELL_FREE, CELL_WRITING, AcqRel, Relaxed).is_ok();
    let Some(cell) = header.libraries.programs.iter().find(claim) else { return };
    cell.process.store(process::id(), Relaxed);
    cell.is_library.store(is_library.into(), Relaxed);
    cell.path_len.store(path.len() as u32, Relaxed);
    for (to, from) in cell.path.iter().zip(path) {
        to.store(*from, Relaxed);
    }
    cell.state.store(CELL_READY, Release);
    session::ring(header);
}
