//! The two environment variables that carry the agent into a program.
//!
//! The agent takes them out at the start, so that the program sees the environment that it was given. It puts them back for
//! programs that this one executes.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use forebay_protocol::executable;
use forebay_sigsafe::general::{__NR_getpid, __NR_process_vm_readv, iovec};
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::text;

use crate::session::Name;

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const SESSION: &[u8] = b"FOREBAY_SESSION=";
const LIBRARY_BYTES_MAX: usize = 1024;
/// No code of this mount's files is mapped (statvfs(3)).
const ST_NOEXEC: i64 = 8;

/// Where the library's path stands (on the initial stack, which lives as long as the process).
static LIBRARY: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static LIBRARY_LEN: AtomicUsize = AtomicUsize::new(0);

/// Path of this library, as the loader was told it.
fn library() -> &'static [u8] {
    let pointer = LIBRARY.load(Ordering::Relaxed);
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: set by `take` to a part of a string that is neither freed nor written to again.
    unsafe { core::slice::from_raw_parts(pointer, LIBRARY_LEN.load(Ordering::Relaxed)) }
}

/// Whether the loader of a program in this process's root directory could load the library: it reads the file, and maps its code.
pub fn library_reachable() -> bool {
    use forebay_sigsafe::general::{__NR_faccessat, __NR_statfs, AT_FDCWD, R_OK, statfs};
    use forebay_sigsafe::sys;
    let library = library();
    let mut system = core::mem::MaybeUninit::<statfs>::uninit();
    // SAFETY: `take` leaves a terminator behind the path; the second call fills what it is given where it succeeds.
    !library.is_empty()
        && unsafe {
            sys!(__NR_faccessat, AT_FDCWD, library.as_ptr(), R_OK) == 0
                && sys!(__NR_statfs, library.as_ptr(), system.as_mut_ptr()) == 0
                && system.assume_init().f_flags & ST_NOEXEC == 0
        }
}

/// Takes the variables out of the environment array, in place and keeping the order of the others. The name of
/// the session, if there is one.
///
/// # Safety
/// `environment` is the null-terminated array that the kernel made for this process, not yet in use by others.
pub unsafe fn take(environment: *mut *mut u8) -> Option<Name> {
    let mut session = None;
    let mut preload = None;
    let mut from = environment;
    // SAFETY: walks the caller's array up to its null; its strings are terminated.
    unsafe {
        while !(*from).is_null() {
            let entry = text::bytes(*from);
            if let Some(value) = entry.strip_prefix(SESSION) {
                session = Name::parse(value);
            } else if entry.starts_with(PRELOAD) {
                preload = Some(from);
            }
            from = from.add(1);
        }
    }
    let (name, preload) = (session?, preload?);
    // SAFETY: as above; the string is the kernel's copy for this process.
    let drop_preload = unsafe { split_preload(preload) };
    let (mut from, mut to) = (environment, environment);
    // SAFETY: `to` never overtakes `from`.
    unsafe {
        while !(*from).is_null() {
            let ours = text::bytes(*from).starts_with(SESSION) || (drop_preload && from == preload);
            if !ours {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        while to != from {
            *to = core::ptr::null_mut();
            to = to.add(1);
        }
    }
    Some(name)
}

/// Keeps the library's path, which is the variable's first element, and leaves the user's own value in the entry.
/// Whether nothing is left.
///
/// # Safety
/// `entry` points at an entry that starts with [`PRELOAD`], in writable memory.
unsafe fn split_preload(entry: *mut *mut u8) -> bool {
    // SAFETY: the caller's; all offsets stay within the string.
    unsafe {
        let string = *entry;
        let path = string.add(PRELOAD.len());
        let value = text::bytes(path);
        let colon = value.iter().position(|&byte| byte == b':');
        LIBRARY_LEN.store(colon.unwrap_or(value.len()), Ordering::Relaxed);
        LIBRARY.store(path, Ordering::Relaxed);
        let Some(colon) = colon else { return true };
        // The user's value needs its own "LD_PRELOAD=", for which the library's path makes room: keep that path
        // in front of it, so it moves to the string's beginning, over the old variable name.
        let rest = path.add(colon + 1);
        if colon < PRELOAD.len() + 1 {
            return false;
        }
        let kept = colon.min(LIBRARY_BYTES_MAX);
        let mut copy = PathBuffer::<{ LIBRARY_BYTES_MAX + 1 }>::new();
        let _ = copy.push(text::bytes(path).get(..kept).unwrap_or_default());
        let start = rest.sub(PRELOAD.len());
        forebay_sigsafe::memory::copy(string, copy.as_ptr(), kept + 1);
        if string.add(kept + 1) > start {
            LIBRARY_LEN.store(0, Ordering::Relaxed);
        }
        forebay_sigsafe::memory::copy(start, PRELOAD.as_ptr(), PRELOAD.len());
        LIBRARY.store(string, Ordering::Relaxed);
        *entry = start;
        false
    }
}

const ENTRIES_MAX: usize = 512;
const STRINGS_MAX: usize = 2048;
const VALUE_MAX: usize = 1024;
const PAGE: usize = 4096;

/// Entries that one call reads.
const BATCH: usize = 64;
/// What is read of each.
const START: usize = PRELOAD.len();

/// An environment with the variables put back, in a fixed size.
pub struct Extended {
    entries: [*const u8; ENTRIES_MAX],
    /// Pointers to some entries, where these begin, and their beginnings.
    pointers: [u8; BATCH * size_of::<usize>()],
    remote: [iovec; BATCH],
    starts: [u8; BATCH * START],
    preload: PathBuffer<STRINGS_MAX>,
    session: PathBuffer<96>,
    /// The program's own value of `LD_PRELOAD`.
    value: [u8; VALUE_MAX],
}

impl Extended {
    /// Room for an environment.
    pub const fn new() -> Self {
        Self {
            entries: [core::ptr::null(); ENTRIES_MAX],
            pointers: [0; BATCH * size_of::<usize>()],
            remote: [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; BATCH],
            starts: [0; BATCH * START],
            preload: PathBuffer::new(),
            session: PathBuffer::new(),
            value: [0; VALUE_MAX],
        }
    }

    /// Fills it from the program's own; `None` where it does not fit, or the loader would report the agent.
    ///
    /// The pointers may be bad: it is for the kernel to say so, so they are read through it.
    pub fn fill(&mut self, environment: usize, name: Name) -> Option<*const *const u8> {
        let mut len = 0;
        let mut value_len = 0;
        let mut place = None;
        let mut fits = self.preload.push(PRELOAD) && self.preload.push(library());
        let mut is_whole = environment == 0;
        while !is_whole {
            let from = len;
            (len, is_whole) = self.take_pointers(environment, from)?;
            let known = self.read_starts(from, len);
            for index in from..len {
                let start = self.start(index, from, known)?;
                if executable::asks_for_report(&start) {
                    return None;
                }
                if start == PRELOAD {
                    // The loader takes the last of several.
                    let value = *self.entries.get(index)? as usize + PRELOAD.len();
                    let read = peek(value, &mut self.value)?;
                    let value = self.value.get(..read)?;
                    value_len = value.iter().position(|&byte| byte == 0)?;
                    place = Some(index);
                }
            }
        }
        if place.is_some() {
            let value = self.value.get(..value_len).unwrap_or_default();
            fits = fits && self.preload.push(b":") && self.preload.push(value);
        }
        fits = fits
            && self.session.push(SESSION)
            && self.session.push_number(name.supervisor.into())
            && self.session.push(b":")
            && self.session.push_number(name.descriptor.into())
            && self.session.push(b":")
            && push_hexadecimal(&mut self.session, name.program_key);
        if !fits || library().is_empty() {
            return None;
        }
        if place.is_none() {
            place = Some(len);
            len += 1;
        }
        *self.entries.get_mut(place?)? = self.preload.as_ptr();
        *self.entries.get_mut(len)? = self.session.as_ptr();
        *self.entries.get_mut(len + 1)? = core::ptr::null();
        Some(self.entries.as_ptr())
    }

    /// Takes the next pointers of the environment: how many there are then, and whether these are all.
    fn take_pointers(&mut self, environment: usize, from: usize) -> Option<(usize, bool)> {
        let read = peek(environment + from * size_of::<usize>(), &mut self.pointers)?;
        let pointers = self.pointers.get(..read)?.chunks_exact(size_of::<usize>());
        if pointers.len() == 0 {
            return None;
        }
        let mut len = from;
        for pointer in pointers {
            let entry = usize::from_ne_bytes(pointer.try_into().ok()?);
            if entry == 0 {
                return Some((len, true));
            }
            *self.entries.get_mut(len)? = entry as *const u8;
            len += 1;
        }
        Some((len, false))
    }

    /// Reads the beginnings of these entries: of how many, as one that cannot be read ends it.
    fn read_starts(&mut self, from: usize, to: usize) -> usize {
        let Some(entries) = self.entries.get(from..to) else { return 0 };
        for (remote, entry) in self.remote.iter_mut().zip(entries) {
            *remote = iovec { iov_base: entry.cast_mut().cast(), iov_len: START as u64 };
        }
        let count = entries.len().min(BATCH);
        let local = iovec { iov_base: self.starts.as_mut_ptr().cast(), iov_len: (count * START) as u64 };
        // SAFETY: the kernel writes to the buffer at most, and says where the other side is bad.
        let read = unsafe {
            let process = forebay_sigsafe::sys!(__NR_getpid);
            let remote = self.remote.as_ptr();
            forebay_sigsafe::sys!(__NR_process_vm_readv, process, &raw const local, 1, remote, count, 0)
        };
        usize::try_from(read).map_or(0, |read| read / START)
    }

    /// The beginning of the entry, where those of so many from `from` on are known.
    fn start(&self, index: usize, from: usize, known: usize) -> Option<[u8; START]> {
        let at = index - from;
        if at < known {
            return self.starts.get(at * START..(at + 1) * START)?.try_into().ok();
        }
        let mut start = [0; START];
        let _ = peek(*self.entries.get(index)? as usize, &mut start)?;
        Some(start)
    }
}

/// Reads what can be read of `[address, address + buffer.len())`, without a fault: how much.
pub fn peek(address: usize, buffer: &mut [u8]) -> Option<usize> {
    let local = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() as u64 };
    // A page at a time, since a piece is read whole or not at all.
    let first = buffer.len().min(PAGE - address % PAGE);
    let remote = [
        iovec { iov_base: address as *mut _, iov_len: first as u64 },
        iovec { iov_base: (address + first) as *mut _, iov_len: (buffer.len() - first) as u64 },
    ];
    // SAFETY: the kernel writes to the buffer at most, and says where the other side is bad.
    let read = unsafe {
        let process = forebay_sigsafe::sys!(__NR_getpid);
        forebay_sigsafe::sys!(__NR_process_vm_readv, process, &raw const local, 1, remote.as_ptr(), 2, 0)
    };
    usize::try_from(read).ok()
}

fn push_hexadecimal<const N: usize>(buffer: &mut PathBuffer<N>, number: u64) -> bool {
    (0..16).rev().all(|digit| {
        let value = (number >> (digit * 4)) as u8 & 15;
        buffer.push(&[if value < 10 { b'0' + value } else { b'a' + value - 10 }])
    })
}
