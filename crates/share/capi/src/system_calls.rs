//! Wrappers of the calls that give the kernel memory of the program, under libc's names.
//!
//! Between machines the kernel may find shared memory absent: it fails, or moves fewer bytes than were asked for. A wrapper
//! makes such a call with a private copy, to and from which the calling thread copies, so all faults are the thread's. Calls
//! with other memory go to libc as they are. The loader finds the wrappers first where this library is linked or preloaded.
//!
//! # Safety
//! Each function wants of its caller what libc's function of that name does. Nothing here allocates or locks. With memory that is
//! not shared a function goes to libc at once, and is as safe in a signal handler as libc's. With shared memory it takes up to
//! 40 KiB of the stack.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    mem::{self, MaybeUninit},
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use libc::{FILE, iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};

/// Bytes that are copied at a time.
const WINDOW: usize = 1 << 20;
/// Bytes that a copy on the stack has at most.
const INLINE: usize = 4096;
/// Pieces of memory that a call can have (`IOV_MAX`).
const PIECES: usize = 1024;

/// Where the memory lies that may be absent; empty where there is none.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// The host says so when it has joined, in whatever library it is.
#[unsafe(no_mangle)]
pub extern "C" fn __forebay_memory_area(start: usize, end: usize) {
    START.store(start, Relaxed);
    END.store(end, Release);
}

/// Whether some of these bytes may be absent for the kernel.
fn is_shared<T>(memory: *const T, bytes: usize) -> bool {
    let first = memory as usize;
    first < END.load(Acquire) && first.saturating_add(bytes) > START.load(Relaxed)
}

/// The function that has a name behind this library.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    fn find(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name ends in a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Relaxed);
        found
    }
}

/// Functions that pass their arguments to `$body`, with the next function of the name.
macro_rules! wrappers {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty { |$next:ident| $body:expr })*) => {
        /// The functions behind this library.
        #[allow(non_upper_case_globals, reason = "they are called as the functions are")]
        mod next {
            $(pub static $name: super::Next = {
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => super::Next::new(name),
                    Err(_) => panic!("a name without zeros"),
                }
            };)*
        }

        /// Finds them before the program begins, since a signal handler may not.
        extern "C" fn find_all() {
            $(next::$name.find();)*
        }

        $($(#[$meta])*
        /// See its manual page.
        ///
        /// # Safety
        /// As for libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            type Call = unsafe extern "C" fn($($kind),*) -> $result;
            // SAFETY: libc has all of these functions, with these types.
            let $next = unsafe { mem::transmute::<*mut c_void, Call>(next::$name.find()) };
            // SAFETY: what the caller promises of the arguments is so of those that are passed on.
            unsafe { $body }
        })*
    };
}

#[used]
#[unsafe(link_section = ".init_array")]
static FIND_ALL: extern "C" fn() = find_all;

wrappers! {
    fn read(file: c_int, to: *mut c_void, bytes: size_t) -> ssize_t {
        |next| fill(to, bytes, || has_position(file), |to, bytes, _| next(file, to, bytes))
    }
    fn __read_chk(file: c_int, to: *mut c_void, bytes: size_t, room: size_t) -> ssize_t {
        |next| fill(to, bytes, || has_position(file), |to, bytes, done| next(file, to, bytes, room - done))
    }
    fn pread(file: c_int, to: *mut c_void, bytes: size_t, at: off_t) -> ssize_t {
        |next| fill(to, bytes, || true, |to, bytes, done| next(file, to, bytes, at + done as off_t))
    }
    fn pread64(file: c_int, to: *mut c_void, bytes: size_t, at: off_t) -> ssize_t {
        |next| fill(to, bytes, || true, |to, bytes, done| next(file, to, bytes, at + done as off_t))
    }
    fn readv(file: c_int, to: *const iovec, pieces: c_int) -> ssize_t {
        |next| with_pieces(to, pieces, false, |to| next(file, to, pieces))
    }
    fn preadv(file: c_int, to: *const iovec, pieces: c_int, at: off_t) -> ssize_t {
        |next| with_pieces(to, pieces, false, |to| next(file, to, pieces, at))
    }
    fn preadv64(file: c_int, to: *const iovec, pieces: c_int, at: off_t) -> ssize_t {
        |next| with_pieces(to, pieces, false, |to| next(file, to, pieces, at))
    }
    fn preadv2(file: c_int, to: *const iovec, pieces: c_int, at: off_t, flags: c_int) -> ssize_t {
        |next| with_pieces(to, pieces, false, |to| next(file, to, pieces, at, flags))
    }
    fn preadv64v2(file: c_int, to: *const iovec, pieces: c_int, at: off_t, flags: c_int) -> ssize_t {
        |next| with_pieces(to, pieces, false, |to| next(file, to, pieces, at, flags))
    }
    fn recv(socket: c_int, to: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t {
        |next| fill(to, bytes, || wants_all(flags), |to, bytes, _| next(socket, to, bytes, flags))
    }
    fn recvfrom(
        socket: c_int, to: *mut c_void, bytes: size_t, flags: c_int, from: *mut sockaddr, room: *mut socklen_t
    ) -> ssize_t {
        |next| fill(to, bytes, || wants_all(flags), |to, bytes, _| next(socket, to, bytes, flags, from, room))
    }
    fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        |next| with_message(message, |own| {
            let received = with_pieces((*message).msg_iov, pieces_of(message), false, |to| {
                own.msg_iov = to.cast_mut();
                next(socket, own, flags)
            });
            (*message).msg_namelen = own.msg_namelen;
            (*message).msg_controllen = own.msg_controllen;
            (*message).msg_flags = own.msg_flags;
            received
        })
    }
    fn getrandom(to: *mut c_void, bytes: size_t, flags: c_uint) -> ssize_t {
        |next| fill(to, bytes, || true, |to, bytes, _| next(to, bytes, flags))
    }
    fn fread(to: *mut c_void, size: size_t, count: size_t, file: *mut FILE) -> size_t {
        |next| elements(to, size, count, |next_to, bytes| {
            fill(next_to.cast_mut(), bytes, || true, |to, bytes, _| next(to, 1, bytes, file) as ssize_t)
        }, || next(to, size, count, file))
    }
    fn fread_unlocked(to: *mut c_void, size: size_t, count: size_t, file: *mut FILE) -> size_t {
        |next| elements(to, size, count, |next_to, bytes| {
            fill(next_to.cast_mut(), bytes, || true, |to, bytes, _| next(to, 1, bytes, file) as ssize_t)
        }, || next(to, size, count, file))
    }
    fn write(file: c_int, from: *const c_void, bytes: size_t) -> ssize_t {
        |next| drain(from, bytes, |from, bytes, _| next(file, from, bytes))
    }
    fn pwrite(file: c_int, from: *const c_void, bytes: size_t, at: off_t) -> ssize_t {
        |next| drain(from, bytes, |from, bytes, done| next(file, from, bytes, at + done as off_t))
    }
    fn pwrite64(file: c_int, from: *const c_void, bytes: size_t, at: off_t) -> ssize_t {
        |next| drain(from, bytes, |from, bytes, done| next(file, from, bytes, at + done as off_t))
    }
    fn writev(file: c_int, from: *const iovec, pieces: c_int) -> ssize_t {
        |next| with_pieces(from, pieces, true, |from| next(file, from, pieces))
    }
    fn pwritev(file: c_int, from: *const iovec, pieces: c_int, at: off_t) -> ssize_t {
        |next| with_pieces(from, pieces, true, |from| next(file, from, pieces, at))
    }
    fn pwritev64(file: c_int, from: *const iovec, pieces: c_int, at: off_t) -> ssize_t {
        |next| with_pieces(from, pieces, true, |from| next(file, from, pieces, at))
    }
    fn pwritev2(file: c_int, from: *const iovec, pieces: c_int, at: off_t, flags: c_int) -> ssize_t {
        |next| with_pieces(from, pieces, true, |from| next(file, from, pieces, at, flags))
    }
    fn pwritev64v2(file: c_int, from: *const iovec, pieces: c_int, at: off_t, flags: c_int) -> ssize_t {
        |next| with_pieces(from, pieces, true, |from| next(file, from, pieces, at, flags))
    }
    fn send(socket: c_int, from: *const c_void, bytes: size_t, flags: c_int) -> ssize_t {
        |next| drain(from, bytes, |from, bytes, _| next(socket, from, bytes, flags))
    }
    fn sendto(
        socket: c_int, from: *const c_void, bytes: size_t, flags: c_int, to: *const sockaddr, length: socklen_t
    ) -> ssize_t {
        |next| drain(from, bytes, |from, bytes, _| next(socket, from, bytes, flags, to, length))
    }
    fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        |next| with_message(message, |own| {
            with_pieces((*message).msg_iov, pieces_of(message), true, |from| {
                own.msg_iov = from.cast_mut();
                next(socket, own, flags)
            })
        })
    }
    fn fwrite(from: *const c_void, size: size_t, count: size_t, file: *mut FILE) -> size_t {
        |next| elements(from, size, count, |next_from, bytes| {
            drain(next_from, bytes, |from, bytes, _| next(from, 1, bytes, file) as ssize_t)
        }, || next(from, size, count, file))
    }
    fn fwrite_unlocked(from: *const c_void, size: size_t, count: size_t, file: *mut FILE) -> size_t {
        |next| elements(from, size, count, |next_from, bytes| {
            drain(next_from, bytes, |from, bytes, _| next(from, 1, bytes, file) as ssize_t)
        }, || next(from, size, count, file))
    }
}

/// Makes a call that fills memory: with a private copy where the memory is shared, and window by window if it `goes_on`
/// after a whole one.
unsafe fn fill(
    to: *mut c_void,
    bytes: usize,
    goes_on: impl FnOnce() -> bool,
    mut call: impl FnMut(*mut c_void, usize, usize) -> ssize_t,
) -> ssize_t {
    if bytes == 0 || !is_shared(to, bytes) {
        return call(to, bytes, 0);
    }
    let limit = if bytes <= WINDOW || goes_on() { bytes } else { WINDOW };
    in_windows(limit, |private, window, done| {
        let got = call(private, window, done);
        if got > 0 {
            // SAFETY: the caller has so many bytes there; a call tells of more where a datagram was longer.
            unsafe { libc::memcpy(to.byte_add(done), private, window.min(got as usize)) };
        }
        got
    })
}

/// Makes a call that takes memory, with a private copy where the memory is shared.
unsafe fn drain(
    from: *const c_void,
    bytes: usize,
    mut call: impl FnMut(*const c_void, usize, usize) -> ssize_t,
) -> ssize_t {
    if bytes == 0 || !is_shared(from, bytes) {
        return call(from, bytes, 0);
    }
    in_windows(bytes, |private, window, done| {
        // SAFETY: the caller has so many bytes there.
        unsafe { libc::memcpy(private, from.byte_add(done), window) };
        call(private, window, done)
    })
}

/// Calls for window after window, until one is not done whole. How many bytes were done, or what the first call returned.
fn in_windows(bytes: usize, mut call: impl FnMut(*mut c_void, usize, usize) -> ssize_t) -> ssize_t {
    with_private(bytes.min(WINDOW), |private| {
        let mut done = 0;
        while done < bytes {
            let window = WINDOW.min(bytes - done);
            let moved = call(private, window, done);
            if moved < 0 {
                return if done > 0 { done as ssize_t } else { moved };
            }
            done += moved as usize;
            if (moved as usize) < window {
                break;
            }
        }
        done as ssize_t
    })
}

/// A call on elements, as of `fread(3)`: `by_bytes` on shared memory, else `plain`.
fn elements(
    memory: *const c_void,
    size: size_t,
    count: size_t,
    by_bytes: impl FnOnce(*const c_void, usize) -> ssize_t,
    plain: impl FnOnce() -> size_t,
) -> size_t {
    match size.checked_mul(count) {
        Some(bytes) if bytes > 0 && is_shared(memory, bytes) => {
            // The memory for a private copy may be lacking: then no element is moved.
            by_bytes(memory, bytes).max(0) as size_t / size
        }
        _ => plain(),
    }
}

/// Makes a call on several pieces of memory, with private copies of those that are shared.
unsafe fn with_pieces(
    pieces: *const iovec,
    count: c_int,
    is_write: bool,
    call: impl FnOnce(*const iovec) -> ssize_t,
) -> ssize_t {
    let length = match usize::try_from(count) {
        Ok(length) if (1..=PIECES).contains(&length) && END.load(Relaxed) != 0 => length,
        _ => return call(pieces),
    };
    // SAFETY: the caller has so many pieces there.
    let mut given = (0..length).map(|index| unsafe { ptr::read_volatile(pieces.add(index)) });
    // The list itself may be shared.
    if is_shared(pieces, length * size_of::<iovec>()) || given.any(|piece| is_copied(&piece)) {
        // SAFETY: as the caller says; it is not more than the kernel takes.
        return unsafe { with_copies(pieces, length, is_write, call) };
    }
    call(pieces)
}

/// Whether a piece is replaced by a private copy.
fn is_copied(piece: &iovec) -> bool {
    piece.iov_len > 0 && is_shared(piece.iov_base, piece.iov_len)
}

/// [`with_pieces`] where some are shared, or their list is. Apart from it, since the copies of the list take much of the stack.
#[inline(never)]
unsafe fn with_copies(
    pieces: *const iovec,
    length: usize,
    is_write: bool,
    call: impl FnOnce(*const iovec) -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller has so many pieces there; each is read once.
    let given = |index: usize| unsafe { ptr::read_volatile(pieces.add(index)) };
    let mut own = MaybeUninit::<[iovec; PIECES]>::uninit();
    let own = own.as_mut_ptr().cast::<iovec>();
    let mut bytes = 0usize;
    for index in 0..length {
        let piece = given(index);
        bytes = bytes.saturating_add(if is_copied(&piece) { piece.iov_len } else { 0 });
        // SAFETY: there is room for as many as the kernel takes.
        unsafe { own.add(index).write(piece) };
    }
    if bytes == 0 {
        return call(own);
    }
    with_private(bytes, |private| {
        // SAFETY: the pieces of the list are written above; the private memory has room for all that are copied.
        unsafe {
            let originals = |index: usize| *own.add(index);
            let mut lent = MaybeUninit::<[iovec; PIECES]>::uninit();
            let lent = lent.as_mut_ptr().cast::<iovec>();
            let mut used = 0;
            for index in 0..length {
                let mut piece = originals(index);
                if is_copied(&piece) {
                    let copy = private.byte_add(used);
                    if is_write {
                        libc::memcpy(copy, piece.iov_base, piece.iov_len);
                    }
                    used += piece.iov_len;
                    piece.iov_base = copy;
                }
                lent.add(index).write(piece);
            }
            let moved = call(lent);
            let mut left = if is_write { 0 } else { moved.max(0) as usize };
            for index in 0..length {
                let (to, from) = (originals(index), *lent.add(index));
                let filled = left.min(to.iov_len);
                if from.iov_base != to.iov_base {
                    libc::memcpy(to.iov_base, from.iov_base, filled);
                }
                left -= filled;
            }
            moved
        }
    })
}

/// Makes a call with a copy of a message's header.
unsafe fn with_message(message: *const msghdr, call: impl FnOnce(&mut msghdr) -> ssize_t) -> ssize_t {
    // SAFETY: the caller has a header there.
    call(&mut unsafe { ptr::read_volatile(message) })
}

/// How many pieces a message has, where the kernel would take so many.
unsafe fn pieces_of(message: *const msghdr) -> c_int {
    // SAFETY: the caller has a header there.
    c_int::try_from(unsafe { (*message).msg_iovlen }).unwrap_or(c_int::MAX)
}

/// Calls with private memory of so many bytes.
fn with_private(bytes: usize, act: impl FnOnce(*mut c_void) -> ssize_t) -> ssize_t {
    if bytes <= INLINE {
        let mut place = MaybeUninit::<[c_char; INLINE]>::uninit();
        return act(place.as_mut_ptr().cast());
    }
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping replaces nothing, and is used by `act` alone.
    unsafe {
        let place = libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0);
        if place == libc::MAP_FAILED {
            return -1;
        }
        let result = act(place);
        libc::munmap(place, bytes);
        result
    }
}

/// Whether a file has a position, so a read that fills a window goes on without a wait.
fn has_position(file: c_int) -> bool {
    // SAFETY: it asks where the position is, and restores the error of a file that has none.
    unsafe {
        let error = *libc::__errno_location();
        let has = libc::lseek(file, 0, libc::SEEK_CUR) >= 0;
        *libc::__errno_location() = error;
        has
    }
}

/// Whether a call on a socket waits for all bytes, and takes them from the socket.
const fn wants_all(flags: c_int) -> bool {
    flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_element_is_moved_where_a_private_copy_is_lacking() {
        let shared = [0u64; 4];
        let begin = shared.as_ptr() as usize;
        __forebay_memory_area(begin, begin + size_of_val(&shared));
        let moved = |done| elements(shared.as_ptr().cast(), 8, 4, |_, _| done, || 99);
        assert_eq!([-1, 0, 7, 8, 32].map(moved), [0, 0, 0, 1, 4]);
        __forebay_memory_area(0, 0);
        assert_eq!(moved(-1), 99);
    }
}
