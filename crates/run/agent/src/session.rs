//! The memory that the supervisor shares with this process: header and access log always, a slot from the first stall on.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use forebay_policy::account::Account;
use forebay_policy::price::NEIGHBOUR_WAIT_US;
use forebay_policy::program;
use forebay_protocol::access_log::AccessLog;
use forebay_protocol::layout::{
    HEADER_BYTES, Header, LAYOUT, MAGIC, OPENED_ENOUGH, Off, Program, SHARED_BYTES, SLOT_BYTES, SLOT_CLAIMED,
    SLOT_CLOSED, SLOT_FREE, Slot, one_less, slot_offset,
};
use forebay_sigsafe::general as n;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::sys;

use crate::process;

static HEADER: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());
static SLOT: AtomicPtr<Slot> = AtomicPtr::new(core::ptr::null_mut());
static SLOT_INDEX: AtomicUsize = AtomicUsize::new(0);
static SUPERVISOR: AtomicU32 = AtomicU32::new(0);
static DESCRIPTOR: AtomicU32 = AtomicU32::new(0);
/// Key of this executable in the header's table of programs; 0 for the one that the run started.
static PROGRAM_KEY: AtomicU64 = AtomicU64::new(0);

/// This process maps no slot that it has not had yet.
static IS_SLOT_FIXED: AtomicBool = AtomicBool::new(false);

/// How long the supervisor gets to leave, in all.
static LEAVE_PAUSES: AtomicU32 = AtomicU32::new(1000);

/// Names a session: `<supervisor's process id>:<its descriptor>:<key of the executable>`.
#[derive(Clone, Copy)]
pub struct Name {
    pub supervisor: u32,
    pub descriptor: u32,
    pub program_key: u64,
}

impl Name {
    /// Reads the value of `FOREBAY_SESSION`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        use forebay_sigsafe::text::{parse_decimal, parse_hexadecimal};
        let (supervisor, rest) = parse_decimal(text)?;
        let (descriptor, rest) = parse_decimal(rest.strip_prefix(b":")?)?;
        let program_key = match rest.strip_prefix(b":") {
            Some(key) => parse_hexadecimal(key)?.0,
            None => 0,
        };
        Some(Self {
            supervisor: supervisor.try_into().ok()?,
            descriptor: descriptor.try_into().ok()?,
            program_key,
        })
    }
}

/// The name of this session.
pub fn name() -> Name {
    Name {
        supervisor: SUPERVISOR.load(Ordering::Relaxed),
        descriptor: DESCRIPTOR.load(Ordering::Relaxed),
        program_key: PROGRAM_KEY.load(Ordering::Relaxed),
    }
}

/// Maps header and access log; `false` where there is no such session or it is of another build.
pub fn attach(name: Name) -> bool {
    SUPERVISOR.store(name.supervisor, Ordering::Relaxed);
    DESCRIPTOR.store(name.descriptor, Ordering::Relaxed);
    PROGRAM_KEY.store(name.program_key, Ordering::Relaxed);
    let Some(address) = map(0, SHARED_BYTES) else { return false };
    let header = address as *mut Header;
    // SAFETY: the mapping is as large as a header, stays for ever, and every field is an atomic.
    let fields = unsafe { &*header };
    if fields.magic.load(Ordering::Acquire) != MAGIC || fields.layout.load(Ordering::Relaxed) != LAYOUT {
        return false;
    }
    HEADER.store(header, Ordering::Release);
    true
}

/// Whether a program that this process becomes could open the session, as one of the supervisor's rights can.
pub fn is_reachable() -> bool {
    // SAFETY: the path is terminated.
    path().is_some_and(|path| unsafe {
        sys!(n::__NR_faccessat, n::AT_FDCWD, path.as_ptr(), n::R_OK | n::W_OK) == 0
    })
}

/// The supervisor's descriptor of the session.
fn path() -> Option<PathBuffer<48>> {
    let mut path = PathBuffer::<48>::new();
    let name = name();
    let fits = path.push(b"/proc/")
        && path.push_number(name.supervisor.into())
        && path.push(b"/fd/")
        && path.push_number(name.descriptor.into());
    fits.then_some(path)
}

#[inline(never)]
fn map(offset: usize, bytes: usize) -> Option<usize> {
    let path = path()?;
    // SAFETY: the path is terminated; the new mapping is placed by the kernel.
    unsafe {
        let fd = sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_RDWR | n::O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let protection = n::PROT_READ | n::PROT_WRITE;
        let address = sys!(n::__NR_mmap, 0, bytes, protection, n::MAP_SHARED, fd, offset);
        let _ = sys!(n::__NR_close, fd);
        if address <= 0 {
            return None;
        }
        // A core file has limits, and what is here is not the program's.
        let _ = sys!(n::__NR_madvise, address, bytes, n::MADV_DONTDUMP);
        Some(address as usize)
    }
}

/// The header, once attached.
#[inline]
pub fn header() -> Option<&'static Header> {
    // SAFETY: null or the mapping of `attach`, which is never unmapped.
    unsafe { HEADER.load(Ordering::Relaxed).as_ref() }
}

/// Wakes a thread of the executor, if one sleeps.
pub fn ring(header: &Header) {
    header.doorbell.fetch_add(1, Ordering::AcqRel);
    if header.sleepers.load(Ordering::Acquire) > 0 {
        // SAFETY: the word is in the header.
        let _ = unsafe { sys!(n::__NR_futex, &raw const header.doorbell, n::FUTEX_WAKE, 1) };
    }
}

/// Tells the executor that this process has waited for a file, if the program waits long enough on average for it to read neighbours
/// ahead. Whether it does.
pub fn tell_of_wait(ticks: u64) -> bool {
    let Some(header) = header() else { return false };
    let neighbours = &header.neighbours;
    let waited = neighbours.on_waits(1, ticks);
    let ticks_per_us = header.ticks_per_second.load(Ordering::Relaxed) / 1_000_000;
    if neighbours.mean_wait() < NEIGHBOUR_WAIT_US.saturating_mul(ticks_per_us) {
        return false;
    }
    neighbours.slot.store(SLOT_INDEX.load(Ordering::Relaxed) as u32, Ordering::Relaxed);
    if waited >= neighbours.look_at.load(Ordering::Relaxed) {
        ring(header);
    }
    true
}

/// The access log, once attached.
pub fn access_log() -> Option<&'static AccessLog> {
    let header = HEADER.load(Ordering::Relaxed);
    // SAFETY: `attach` maps the log behind the header, for ever, and every field is an atomic.
    (!header.is_null()).then(|| unsafe { &*header.cast::<u8>().add(HEADER_BYTES).cast::<AccessLog>() })
}

/// Lets the supervisor look at what was asked of it, now rather than at its next round: it gets the signal that it gets of its
/// children. Whether there is one.
#[inline(never)]
pub fn wake_supervisor() -> bool {
    let mut path = PathBuffer::<32>::new();
    if !(path.push(b"/proc/") && path.push_number(name().supervisor.into())) {
        return false;
    }
    // SAFETY: the path is terminated, and the descriptor, which stands for the process, is this function's.
    unsafe {
        let process = sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_DIRECTORY | n::O_CLOEXEC);
        if process < 0 {
            return false;
        }
        let sent = sys!(n::__NR_pidfd_send_signal, process, n::SIGCHLD, 0, 0);
        let _ = sys!(n::__NR_close, process);
        sent == 0
    }
}

/// Rules speculators out for all programs of the session, and waits until they and the supervisor have ended. Whether that has
/// made room.
#[cold]
#[inline(never)]
pub fn ask_to_leave() -> bool {
    let Some(header) = header() else { return false };
    if header.supervisor_pid.load(Ordering::Relaxed) == 0 {
        return false;
    }
    header.enabled.store(0, Ordering::SeqCst);
    if !wake_supervisor() {
        return false;
    }
    while header.supervisor_pid.load(Ordering::Relaxed) != 0 {
        let left = LEAVE_PAUSES.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        LEAVE_PAUSES.store(left - 1, Ordering::Relaxed);
        process::pause();
    }
    true
}

/// This process's slot, if it has one.
#[inline]
pub fn slot() -> Option<&'static Slot> {
    // SAFETY: null or a mapping of `claim`, which only a forked child unmaps, before it uses it.
    unsafe { SLOT.load(Ordering::Relaxed).as_ref() }
}

/// What this process has mapped of the session: no more than that from now on, with the slot of a forked child, which is as large.
pub fn fix_bytes() -> usize {
    let has_slot = slot().is_some();
    IS_SLOT_FIXED.store(!has_slot, Ordering::Relaxed);
    SHARED_BYTES + if has_slot { SLOT_BYTES } else { 0 }
}

/// This process may map a slot, after all.
pub fn free_bytes() {
    IS_SLOT_FIXED.store(false, Ordering::Relaxed);
}

/// Claims a slot for the process `pid`.
#[inline(never)]
pub fn claim(pid: u32) -> Result<&'static Slot, Off> {
    if let Some(slot) = slot() {
        return Ok(slot);
    }
    let header = header().filter(|_| !IS_SLOT_FIXED.load(Ordering::Relaxed)).ok_or(Off::NoChannel)?;
    for (index, state) in header.slot_states.iter().enumerate() {
        if state.load(Ordering::Relaxed) != SLOT_FREE
            || state.compare_exchange(SLOT_FREE, SLOT_CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            continue;
        }
        let Some(address) = map(slot_offset(index), SLOT_BYTES) else {
            state.store(SLOT_FREE, Ordering::Release);
            return Err(Off::NoChannel);
        };
        let pointer = address as *mut Slot;
        // SAFETY: the mapping is as large as a slot, stays for ever, and every field is an atomic.
        let slot = unsafe { &*pointer };
        slot.pid.store(pid, Ordering::Relaxed);
        set_name(slot);
        SLOT_INDEX.store(index, Ordering::Relaxed);
        SLOT.store(pointer, Ordering::Release);
        return Ok(slot);
    }
    Err(Off::NoSlot)
}

/// Gives the slot to the supervisor for its figures.
///
/// The mapping stays: a signal handler or another thread may be using it.
pub fn close() {
    SLOT.store(core::ptr::null_mut(), Ordering::Relaxed);
    if let Some(state) =
        header().and_then(|header| header.slot_states.get(SLOT_INDEX.load(Ordering::Relaxed)))
    {
        // In one order with the executor's look at it, so that `hints_under_way` misses none.
        state.store(SLOT_CLOSED, Ordering::SeqCst);
    }
}

/// What all processes of the run share that execute this process's program. The one that the run started has an entry, too: those
/// that it forks are as many accounts otherwise.
fn shared_program() -> Option<&'static Program> {
    header().and_then(|header| program::program(&header.programs, name().program_key))
}

/// A speculation of this process saved more than it cost.
pub fn on_gain() {
    if let Some(header) = header() {
        program::on_gain(&header.programs, name().program_key);
    }
}

/// The account of this process's program: of all processes of the run that execute it.
pub fn account() -> Option<Account<'static>> {
    let header = header()?;
    let words = match shared_program() {
        Some(program) => &program.account,
        None => &slot()?.account,
    };
    let account = Account::new(words, header.first_ticks.load(Ordering::Relaxed));
    Some(account.believing(header.savings_believed.load(Ordering::Relaxed)))
}

/// Hints of this process's speculators that the executor is carrying out.
pub fn hints_under_way() -> u32 {
    let jobs = header().and_then(|header| header.jobs.get(SLOT_INDEX.load(Ordering::Relaxed)));
    jobs.map_or(0, |jobs| jobs.load(Ordering::SeqCst))
}

/// This process has taken a file that was open ahead.
pub fn has_taken(header: &Header) {
    let left = one_less(&header.opened_count);
    if let Some(jobs) = header.jobs.get(SLOT_INDEX.load(Ordering::Relaxed)) {
        let _ = one_less(jobs);
    }
    if left == Some(OPENED_ENOUGH) {
        ring(header);
    }
}

/// Whether the executor has files open ahead of programs.
pub fn has_opened_ahead() -> bool {
    header().is_some_and(|header| header.opened_count.load(Ordering::Relaxed) != 0)
}

/// The place of this process's slot among all.
pub fn slot_index() -> usize {
    SLOT_INDEX.load(Ordering::Relaxed)
}

/// Has the executor close what it has open ahead, where nobody may take that any more.
pub fn call_in() {
    if let Some(header) = header().filter(|_| has_opened_ahead()) {
        ring(header);
    }
}

/// Forgets the slot, which is that of the parent.
pub fn forget_slot() {
    let slot = SLOT.swap(core::ptr::null_mut(), Ordering::Relaxed);
    if !slot.is_null() {
        // SAFETY: the child has one thread, which holds no reference into the slot here.
        let _ = unsafe { sys!(n::__NR_munmap, slot, SLOT_BYTES) };
    }
}

/// Whether the mapping at `address` is the session's.
pub fn owns(address: usize) -> bool {
    address == HEADER.load(Ordering::Relaxed) as usize || address == SLOT.load(Ordering::Relaxed) as usize
}

#[inline(never)]
fn set_name(slot: &Slot) {
    let mut name = [0u8; 16];
    // SAFETY: the call fills at most 16 bytes.
    let result = unsafe { sys!(n::__NR_prctl, forebay_sigsafe::prctl::PR_GET_NAME, name.as_mut_ptr()) };
    if result == 0 {
        for (to, from) in slot.name.iter().zip(name) {
            to.store(from, Ordering::Relaxed);
        }
    }
}
