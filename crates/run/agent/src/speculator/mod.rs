//! The speculator: a copy of the original that carries on without the data, in a jail.
//!
//! Every system call of the program's code ends up in [`call`], from a patched site or through the trap of the jail. The
//! speculator reads what is resident, starts reads of what is not, and predicts values that it lacks. It emulates effects
//! outside, and ends at a call that it cannot emulate. It has one thread; how its signal handlers share its state: [`STATE`].

mod checkpoint;
mod descriptors;
mod emulation;
mod figures;
mod filter;
mod hints;
mod jail;
mod kernel;
mod listing;
mod mappings;
mod memory;
mod opening;
mod outside;
mod paths;
mod reads;
mod sequential;
mod shared;
mod signals;
mod told;
mod waits;

pub use hints::{device, device_of};
pub use memory::{is_of_file, is_present, page_map};
pub use shared::{List, Mapping};
pub use signals::{SA_RESTORER, adopt_frame, restorer};

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::balance::Idleness;
use forebay_policy::site::{self, Kind, Strategy};
use forebay_protocol::hint_log::Producer;
use forebay_protocol::layout::{DEVICES, End, GO, HOLD, Header, LEASES_SOME, LOGS, Slot, feature, mark};
use forebay_protocol::signature::Signature;
use forebay_sigsafe::general as n;
use forebay_sigsafe::handover::{Handover, Taken};
use forebay_sigsafe::{prctl, sys};

use crate::call::Call;
use crate::snapshot::{Original, Snapshot};
use crate::{role, session, signatures, trace, usage};

/// Between looks at whether a speculator that is held back may go on.
const HELD_PAUSE_US: i64 = 1_000;

/// State of the speculator.
pub struct State {
    pub header: &'static Header,
    pub slot: &'static Slot,
    pub generation: u32,
    pub original: Original,
    pub hints: hints::Hints,
    pub descriptors: descriptors::Table,
    pub paths: paths::Paths,
    pub listed: listing::Listed,
    pub told: told::Told,
    pub stubs: reads::Stubs,
    pub memory: memory::Memory,
    pub checkpoints: checkpoint::Checkpoints,
    /// What was spent since the last hint.
    pub idleness: Idleness,
}

struct StateCell(UnsafeCell<MaybeUninit<State>>);

// SAFETY: only `begin` uses the cell, once in a process, and hands the state over to `STATE`.
unsafe impl Sync for StateCell {}

/// Where the state is.
static PLACE: StateCell = StateCell(UnsafeCell::new(MaybeUninit::zeroed()));

/// The state, which each entry takes as a whole and passes down. The entries are calls of the program, from patched sites or
/// trapped (SIGSYS, in [`signals`]), touches of relocated memory (SIGBUS), and ticks (SIGPROF).
///
/// While one entry has the state, the others get nothing, with one exception. In [`touch_program`] it is lent: a fault that
/// the touch causes is served. A tick is counted, and the entry carries it out when it is through. Any other fault is a crash.
static STATE: Handover<State> = Handover::new();

/// Takes the state for an entry.
fn enter() -> Option<Taken<'static, State>> {
    STATE.take()
}

/// Touches the program's memory, which may have been relocated: what the touch provokes finds the state.
#[inline(always)]
fn touch_program<R>(state: &mut State, act: impl FnOnce() -> R) -> R {
    // SAFETY: there is one state, and `state` is what the caller's entry has taken, or was lent. One thread.
    unsafe { STATE.lend(state, act) }
}

/// Turns the freshly forked copy into a jailed speculator; ends it where that fails.
#[inline(never)]
pub fn begin(slot: &'static Slot, snapshot: &Snapshot) {
    role::begin_speculator();
    let Some(header) = session::header() else { kernel::exit() };
    let place = PLACE.0.get().cast::<State>();
    // SAFETY: a process becomes a speculator once, so this is the only reference that is ever made of the cell. The state is
    // filled in place because it is large: the parts that are not written here are arrays whose zeroes are valid.
    let state = unsafe {
        (&raw mut (*place).header).write(header);
        (&raw mut (*place).slot).write(slot);
        (&raw mut (*place).generation).write(snapshot.generation);
        (&raw mut (*place).original).write(snapshot.original);
        (&raw mut (*place).descriptors.last_stat.0).write(-1);
        (&raw mut (*place).checkpoints)
            .write(checkpoint::Checkpoints::new(snapshot.circumstances.first_checkpoint));
        &mut *place
    };
    // SAFETY: no arguments.
    slot.speculator_pid.store(unsafe { sys!(n::__NR_getpid) } as u32, Relaxed);
    // SAFETY: a terminated string.
    let _ = unsafe { sys!(n::__NR_prctl, prctl::PR_SET_NAME, c"forebay:spec".as_ptr()) };
    // Before the jail lowers the priority. The supervisor abandons a dead process's generation first, and then kills what has the
    // name: the speculator that it does not see ends here.
    if slot.generation.load(Relaxed) != state.generation {
        end(state, End::Abandoned);
    }
    let before = forebay_sigsafe::ticks();
    if jail::enter(state, snapshot).is_err() {
        end(state, End::Jail);
    }
    let _ = STATE.begin(state);
    slot.counters.jail_ticks.fetch_add(forebay_sigsafe::ticks().wrapping_sub(before), Relaxed);
}

/// Opens what leads to this process's own descriptors.
fn open_own(state: &mut State) -> bool {
    let flags = n::O_PATH | n::O_DIRECTORY | n::O_CLOEXEC;
    // SAFETY: a terminated path.
    state.descriptors.folder = unsafe { sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/fd".as_ptr(), flags) };
    if state.descriptors.folder < 0 {
        missing(feature::PROC);
    }
    state.descriptors.folder >= 0
}

/// Ends the speculator, saying how.
pub fn end(state: &mut State, how: End) -> ! {
    if matches!(how, End::Memory | End::Lifetime) {
        // What would carry on would end in the same way.
        let _ = checkpoint::dismiss(state);
    }
    if !checkpoint::waits(state) {
        memory::tell_last(state);
    }
    trace::tell(b"  ahead: ends, how", &[state.generation.into(), how as u64]);
    let usage = usage();
    state
        .slot
        .counters
        .speculator_pages
        .fetch_add(memory::private_pages::peak_private_pages(state, &usage), Relaxed);
    let is_newest = state.slot.generation.load(Relaxed) == state.generation;
    leave(state.header, state.slot, is_newest, &usage, how)
}

/// Ends the speculator at a fault of its own code, of whose state nothing is known.
fn crash() -> ! {
    let (Some(header), Some(slot)) = (session::header(), session::slot()) else { kernel::exit() };
    // SAFETY: no arguments.
    let is_newest = slot.speculator_pid.load(Relaxed) == unsafe { sys!(n::__NR_getpid) } as u32;
    leave(header, slot, is_newest, &usage(), End::Signal)
}

fn leave(header: &Header, slot: &Slot, is_newest: bool, usage: &n::rusage, how: End) -> ! {
    let counters = &slot.counters;
    if let Some(ends) = counters.ends.get(how as usize) {
        ends.fetch_add(1, Relaxed);
    }
    counters.speculator_footprint_bytes.fetch_max((usage.ru_maxrss as u64) << 10, Relaxed);
    counters.speculator_reclaims.fetch_add(usage.ru_minflt as u64, Relaxed);
    counters.speculator_faults.fetch_add(usage.ru_majflt as u64, Relaxed);
    tell_processor_time(slot, usage);
    if is_newest {
        slot.flights.store(0, Relaxed);
        slot.speculator_pid.store(0, Relaxed);
    }
    header.speculators.fetch_sub(1, Relaxed);
    kernel::exit()
}

/// Processor time of this process that the original knows of, in microseconds.
static TOLD_US: AtomicU64 = AtomicU64::new(0);

/// Tells the original of the processor time since it was last told.
fn tell_processor_time(slot: &Slot, usage: &n::rusage) {
    let now = usage::processor_us(usage);
    let more = now.saturating_sub(TOLD_US.swap(now, Relaxed));
    slot.counters.speculator_cpu_us.fetch_add(more, Relaxed);
}

/// What this process has used of the machine.
fn usage() -> n::rusage {
    usage::of(n::RUSAGE_SELF as i32)
}

/// Whether this speculator has been given up. While memory control holds speculators back, it sleeps here.
pub fn abandoned(state: &State) -> bool {
    loop {
        if state.slot.generation.load(Relaxed) != state.generation
            || state.slot.dismissed.load(Relaxed) == state.generation
            || state.header.enabled.load(Relaxed) == 0
            || state.header.leases.load(Relaxed) == LEASES_SOME
            || state.header.held_by_quota.load(Relaxed) != 0
        {
            return true;
        }
        match state.header.control.load(Relaxed) {
            GO => return false,
            HOLD if hints::original_lives(state) => kernel::pause(HELD_PAUSE_US),
            _ => return true,
        }
    }
}

/// Notes that something of the kernel's is missing.
pub fn missing(bit: u32) {
    let Some(missing) = session::header().map(|header| &header.missing) else { return };
    if missing.load(Relaxed) & bit == 0 {
        missing.fetch_or(bit, Relaxed);
    }
}

/// Carries out a call of the speculating program.
///
/// # Safety
/// `call` holds the registers of a call that the program is making. Its pointers may be garbage: a fault ends the
/// speculator.
pub unsafe fn call(call: &Call) -> isize {
    // SAFETY: the caller's.
    let result = unsafe { carry_out(call, true) };
    let [a, b, c, ..] = call.arguments;
    trace::tell(b"  ahead: call", &[call.number as u64, a as u32 as u64, b as u64, c as u64, result as u64]);
    result
}

/// Carries out the call that the original is stalled in, which it does not look for in the log.
///
/// # Safety
/// As [`call`].
#[inline(never)]
pub unsafe fn first_call(call: &Call) -> isize {
    // SAFETY: the caller's.
    unsafe { carry_out(call, false) }
}

/// # Safety
/// As [`call`].
unsafe fn carry_out(call: &Call, logged: bool) -> isize {
    // A call within a call is none of the program's.
    let Some(mut taken) = enter() else { crash() };
    let state = &mut *taken;
    if logged && abandoned(state) {
        end(state, End::Abandoned);
    }
    // SAFETY: the caller's.
    let result = unsafe { dispatch(state, call, logged) };
    signals::catch_up(state);
    result
}

/// # Safety
/// As [`call`].
#[inline(never)]
unsafe fn dispatch(state: &mut State, call: &Call, logged: bool) -> isize {
    let [a, b, c, d, ..] = call.arguments;
    for argument in call.arguments {
        // SAFETY: the caller's. Buffers of unknown length that matter are touched where their length is known.
        unsafe { memory::touch(state, argument, ARGUMENT_BYTES) };
    }
    let at = n::AT_FDCWD as usize;
    // SAFETY: (all arms) the caller's.
    unsafe {
        match call.number as u32 {
            n::__NR_read | n::__NR_pread64 | n::__NR_readv | n::__NR_preadv | n::__NR_preadv2 => {
                reads::read(state, call, logged)
            }
            n::__NR_getdents64 | n::__NR_getdents => reads::directory(state, call, logged),
            n::__NR_lseek => {
                signatures::seek(call);
                reads::seek(state, a, b as i64, c as u32)
            }
            n::__NR_copy_file_range | n::__NR_sendfile => reads::transfer(state, call, logged),
            n::__NR_open => {
                let result = opening::open(state, call, at, a, b as u32);
                opened(state, call, result)
            }
            n::__NR_openat => {
                let result = opening::open(state, call, a, b, c as u32);
                opened(state, call, result)
            }
            n::__NR_creat => {
                let result = opening::open(state, call, at, a, n::O_CREAT | n::O_WRONLY | n::O_TRUNC);
                opened(state, call, result)
            }
            n::__NR_openat2 => {
                let result = opening::open_how(state, call);
                opened(state, call, result)
            }
            n::__NR_stat => figures::stat(state, call, at, a, b, 0),
            n::__NR_lstat => figures::stat(state, call, at, a, b, n::AT_SYMLINK_NOFOLLOW),
            n::__NR_newfstatat => figures::stat(state, call, a, b, c, d as u32),
            n::__NR_fstat => figures::stat_descriptor(state, a, b),
            n::__NR_statx => figures::statx(state, call),
            n::__NR_access => figures::access(state, call, at, a, b),
            n::__NR_faccessat | n::__NR_faccessat2 => figures::access(state, call, a, b, c),
            n::__NR_readlink => figures::readlink(state, call, at, a, b, c),
            n::__NR_readlinkat => figures::readlink(state, call, a, b, c, d),
            n::__NR_chdir => paths::change_directory(state, at, a),
            n::__NR_fchdir => paths::change_directory_to(state, a),
            n::__NR_close => descriptors::close(state, a),
            n::__NR_dup => descriptors::duplicate(state, a, 0),
            n::__NR_dup2 | n::__NR_dup3 => descriptors::duplicate_to(state, a, b),
            n::__NR_fcntl => descriptors::control(state, a, b as u32, c),
            n::__NR_mmap => mappings::map(state, call, logged),
            _ => emulation::call(state, call),
        }
    }
}

/// # Safety
/// As [`call`].
unsafe fn opened(state: &mut State, call: &Call, result: isize) -> isize {
    if let Ok(descriptor) = usize::try_from(result) {
        // SAFETY: the caller's.
        let signature = touch_program(state, || unsafe { signatures::path(call) });
        signatures::opened(descriptor, signature);
    }
    result
}

/// What a call may read or write behind a pointer, if it is of a fixed size.
const ARGUMENT_BYTES: usize = 4096;

const MARK_SITE_SHIFT: u32 = 48;
const MARK_BYTES_SHIFT: u32 = 8;
const MARK_BYTES: u64 = (mark::EARLIER >> MARK_BYTES_SHIFT) - 1;
/// One more than the index of the hint's device; 0 where that is unknown.
const MARK_DEVICE_SHIFT: u32 = 2;
const MARK_DEVICES: u64 = (mark::SEQUENTIAL >> MARK_DEVICE_SHIFT) - 1;
const _: () = assert!(DEVICES as u64 <= MARK_DEVICES && mark::SEQUENTIAL < 1 << MARK_BYTES_SHIFT);

/// Mark of a log entry: how many bytes it hinted, if any, and the call site of its predicted value.
fn make_mark(hinted_bytes: Option<usize>, predicting: Option<u32>) -> u64 {
    let hinted =
        hinted_bytes.map_or(0, |bytes| mark::HINTED | ((bytes as u64) & MARK_BYTES) << MARK_BYTES_SHIFT);
    let predicted = predicting
        .map_or(0, |site| mark::PREDICTED | u64::from(site as u16).wrapping_add(1) << MARK_SITE_SHIFT);
    hinted | predicted
}

/// Call site of a predicted value, by the mark of its log entry.
pub fn predicting_site(mark: u64) -> Option<u32> {
    (mark & mark::PREDICTED != 0).then(|| ((mark >> MARK_SITE_SHIFT) as u32).checked_sub(1))?
}

/// The mark of a log entry, with the device of its hint.
fn on_device(mark: u64, device: Option<u8>) -> u64 {
    mark | device.map_or(0, |device| ((u64::from(device) + 1) & MARK_DEVICES) << MARK_DEVICE_SHIFT)
}

/// Index of the device of a hint, by the mark of its log entry.
pub fn marked_device(mark: u64) -> Option<usize> {
    ((mark >> MARK_DEVICE_SHIFT & MARK_DEVICES) as usize).checked_sub(1)
}

/// Hinted bytes, by the mark of a log entry.
fn marked_bytes(mark: u64) -> u64 {
    (mark >> MARK_BYTES_SHIFT) & MARK_BYTES
}

/// What to predict at the call site of `call`: the site's index and the strategy.
/// `detail` tells apart uses of one site that are known to differ.
fn predict(state: &mut State, call: &Call, kind: Kind, detail: u64) -> (Option<u32>, Strategy) {
    let key =
        Signature::call(call.number as u64).word(site_name(call)).word(kind as u64).word(detail).value();
    strategy_at(state, key, kind, None)
}

/// As [`predict`], for the site with this key, where a page of memory may be what is asked for. No site is responsible where the
/// strategy is left out this once.
fn strategy_at(state: &mut State, key: u64, kind: Kind, page: Option<usize>) -> (Option<u32>, Strategy) {
    let key = Signature::call(key).word(session::name().program_key).value();
    let (site, strategy) = site::lookup(&state.header.sites, key, kind);
    trace::tell(b"  ahead: site, kind, strategy", &[site.into(), kind as u64, strategy as u64]);
    if strategy != Strategy::Wait && checkpoint::before(state, Some(site), page) {
        return (None, Strategy::Wait);
    }
    (Some(site), strategy)
}

/// Names the place in libc the same way in every process.
fn site_name(call: &Call) -> u64 {
    call.site as u64
}

/// Takes note of a value waited for: a speculation without a predicted value is attributed to it.
fn waited(state: &State, site: Option<u32>) {
    let last = state.slot.last_predicted.get(state.generation as usize % LOGS);
    if last.is_none_or(|last| last.load(Relaxed) == 0) {
        remember_site(state, site);
    }
}

/// Takes note of a predicted value.
fn count_predicted(state: &State, site: Option<u32>) {
    state.slot.counters.fabricated.fetch_add(1, Relaxed);
    remember_site(state, site);
}

fn remember_site(state: &State, site: Option<u32>) {
    let Some(site) = site else { return };
    let position = Producer::new(state.slot, state.generation).position();
    if let Some(last) = state.slot.last_predicted.get(state.generation as usize % LOGS) {
        last.store(position << 32 | (u64::from(site) + 1), Relaxed);
    }
    if let Some(first) = state.slot.first_predicted.get(site as usize)
        && (first.load(Relaxed) >> 32) as u32 != state.generation
    {
        first.store(u64::from(state.generation) << 32 | position & 0xffff_ffff, Relaxed);
        if let Some(pages) = state.slot.pages_before.get(site as usize) {
            pages.store(memory::hinted(state), Relaxed);
        }
    }
}

/// Bits of what the kernel lacks, for the parts.
use feature as lacking;
