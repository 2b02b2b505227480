//! Descriptors that lead to no file: pipes, sockets and events. The program gets them as if they were made. Nothing ever comes from
//! them: a speculator that waits for that ends.

use forebay_protocol::layout::End;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::{call, errno, general as n};

use super::descriptors::{self, Kind};
use super::{State, end, kernel, touch_program};

/// Sockets of one machine: linux/socket.h.
const AF_UNIX: u16 = 1;
/// A socket's name: its family, and after that a path, terminated or of the whole length.
const NAME_BYTES: usize = 110;
const FAMILY_BYTES: usize = 2;

/// Makes a descriptor: `eventfd`, `epoll_create` and others; `socket` for those of this machine.
pub fn made(state: &mut State) -> isize {
    let file = descriptors::opened(Kind::Outside, -1, n::O_RDWR);
    state.descriptors.add(file, 0).map_or(call::error(errno::EMFILE), |(descriptor, _)| descriptor as isize)
}

/// Whether a call only makes a descriptor.
pub const fn makes_one(number: u32, first: usize) -> bool {
    match number {
        n::__NR_socket => first as u16 == AF_UNIX,
        n::__NR_eventfd | n::__NR_eventfd2 | n::__NR_epoll_create | n::__NR_epoll_create1 => true,
        _ => false,
    }
}

/// `pipe`, `pipe2` and `socketpair`, which tell their descriptors in `pair`.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn made_two(state: &mut State, pair: usize) -> isize {
    let (first, second) = (made(state), made(state));
    if second < 0 {
        if let Ok(first) = usize::try_from(first) {
            descriptors::close(state, first);
        }
        return second;
    }
    // SAFETY: the caller's; garbage ends the speculator.
    touch_program(state, || unsafe {
        (pair as *mut [i32; 2]).write_unaligned([first as i32, second as i32])
    });
    0
}

/// `connect`. Where no socket of that name is in use, that is the answer. No other connection is made.
///
/// A socket in use keeps its name in the kernel's caches. So a name that is not there is no reason to ask a device.
///
/// # Safety
/// As [`super::call`].
pub unsafe fn connect(state: &mut State, name: usize, length: usize) -> isize {
    let mut path = PathBuffer::<NAME_BYTES>::new();
    // SAFETY: the caller's; garbage ends the speculator.
    if !touch_program(state, || unsafe { read_path(name, length, &mut path) }) {
        end(state, End::NotEmulated);
    }
    // SAFETY: a terminated path.
    let found = unsafe { kernel::find(n::AT_FDCWD as isize, path.as_ptr() as usize, 0) };
    if found >= 0 {
        kernel::close(found);
        end(state, End::NotEmulated);
    }
    if found == call::EAGAIN { call::error(errno::ENOENT) } else { found }
}

/// Reads the path of a socket's name, if it begins at the root.
///
/// # Safety
/// The name can be read.
unsafe fn read_path(name: usize, length: usize, path: &mut PathBuffer<NAME_BYTES>) -> bool {
    // SAFETY: (all) the caller's.
    unsafe {
        if length <= FAMILY_BYTES || (name as *const u16).read_unaligned() != AF_UNIX {
            return false;
        }
        let at = |place: usize| ((name + place) as *const u8).read();
        let whole = length.min(NAME_BYTES) - FAMILY_BYTES;
        let mut bytes = (FAMILY_BYTES..FAMILY_BYTES + whole).map(at).take_while(|byte| *byte != 0);
        at(FAMILY_BYTES) == b'/' && bytes.all(|byte| path.push(&[byte]))
    }
}
