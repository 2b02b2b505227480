//! Limits of memory that a program sets itself (`RLIMIT_AS`, `RLIMIT_DATA`): the kernel counts what the agent has, too.
//!
//! The kernel gets limits that are higher by that. The program reads what it has set, and so do the programs that it executes, which
//! have no agent under a limit. A process begins with an agent only where it has no such limit, so its own come through here.
//!
//! Limits stay in order, so the kernel refuses what it would refuse of the program's own numbers.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

use forebay_sigsafe::elf::{Elf_Ehdr, Elf_Phdr, PT_LOAD};
use forebay_sigsafe::general::{self as n, rlimit64};
use forebay_sigsafe::{call, errno, sys};

use crate::call::Call;
use crate::{environment, fault_threads, process, session};

const PAGE: usize = 4096;
/// `PF_W`: a segment that can be written to.
const WRITABLE: u32 = 2;
/// Whether a file may be executed (faccessat2(2)).
const X_OK: u32 = 1;
/// What the loader keeps in the program's memory of one library more. Measured: 8 KiB at most.
const LOADER_BYTES: usize = 8 << 10;
/// Limits from here on are no limits: no address space is as large.
const LARGE: u64 = 1 << 62;

/// A limit that the kernel has higher than the program set it. All are 0 where there is none.
struct Raised {
    resource: u32,
    /// The kernel's values.
    soft: AtomicU64,
    hard: AtomicU64,
    /// What was added.
    own_bytes: AtomicU64,
}

static RAISED: [Raised; 2] = [Raised::new(n::RLIMIT_AS), Raised::new(n::RLIMIT_DATA)];

/// Limits are what the program sets from now on: the process could not put them back when it executes another program.
static SETTLED: AtomicBool = AtomicBool::new(false);

impl Raised {
    const fn new(resource: u32) -> Self {
        let [soft, hard, own_bytes] = [const { AtomicU64::new(0) }; 3];
        Self { resource, soft, hard, own_bytes }
    }

    fn of(resource: u32) -> Option<&'static Self> {
        RAISED.iter().find(|raised| raised.resource == resource)
    }

    fn is_set(&self) -> bool {
        self.own_bytes.load(Relaxed) != 0
    }

    fn set(&self, limit: rlimit64, own_bytes: u64) {
        self.soft.store(limit.rlim_cur, Relaxed);
        self.hard.store(limit.rlim_max, Relaxed);
        self.own_bytes.store(own_bytes, Relaxed);
    }

    /// What the agent has that the limit counts. It takes no more of that as long as there is the limit.
    fn fix_bytes(&self) -> u64 {
        let bytes = if self.resource == n::RLIMIT_AS {
            image_bytes(|_| true) + session::fix_bytes() + fault_threads::reserved_bytes()
        } else {
            image_bytes(|segment| segment.p_flags & WRITABLE != 0) + fault_threads::fix_bytes()
        };
        (bytes + LOADER_BYTES) as u64
    }

    fn free_bytes(&self) {
        if self.resource == n::RLIMIT_AS { session::free_bytes() } else { fault_threads::free_bytes() }
    }

    /// The program's value for one of the kernel's. One that another process has set is as it is.
    fn lowered(&self, value: u64) -> u64 {
        let is_raised =
            value < LARGE && [&self.soft, &self.hard].iter().any(|own| own.load(Relaxed) == value);
        if is_raised { value.saturating_sub(self.own_bytes.load(Relaxed)) } else { value }
    }

    fn lowered_limit(&self, limit: rlimit64) -> rlimit64 {
        rlimit64 { rlim_cur: self.lowered(limit.rlim_cur), rlim_max: self.lowered(limit.rlim_max) }
    }

    /// The kernel gets the program's values: the kernel's before, if it has others now.
    fn lower(&self) -> Option<rlimit64> {
        if !self.is_set() {
            return None;
        }
        let mut limit = rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: (both calls) they read and write locals.
        let known = unsafe { sys!(n::__NR_prlimit64, 0, self.resource, 0, &raw mut limit) } == 0;
        let lowered = self.lowered_limit(limit);
        let is_other = (lowered.rlim_cur, lowered.rlim_max) != (limit.rlim_cur, limit.rlim_max);
        // SAFETY: above.
        let is_lower = known && is_other && unsafe { set(self.resource, &lowered) };
        is_lower.then_some(limit)
    }
}

/// # Safety
/// None of this process's threads needs the memory that it may then have no more.
unsafe fn set(resource: u32, limit: &rlimit64) -> bool {
    // SAFETY: the call reads the limit.
    unsafe { sys!(n::__NR_prlimit64, 0, resource, &raw const *limit, 0) == 0 }
}

unsafe extern "C" {
    /// The beginning of this library's image, which its linker defines.
    #[link_name = "__ehdr_start"]
    static IMAGE: Elf_Ehdr;
}

/// Memory of this library's segments that `counts` names.
fn image_bytes(counts: impl Fn(&Elf_Phdr) -> bool) -> usize {
    let image = &raw const IMAGE;
    // SAFETY: the loader has mapped the image with its headers, and they stay as they are.
    let headers = unsafe {
        let first = image.byte_add((*image).e_phoff).cast::<Elf_Phdr>();
        core::slice::from_raw_parts(first, (*image).e_phnum as usize)
    };
    let pages = |segment: &Elf_Phdr| {
        let start = segment.p_vaddr & !(PAGE - 1);
        (segment.p_vaddr + segment.p_memsz).next_multiple_of(PAGE) - start
    };
    headers.iter().filter(|segment| segment.p_type == PT_LOAD && counts(segment)).map(pages).sum()
}

/// A call of the program on limits: which resource of this process, and the indices of its arguments for the new and the old limit.
fn asked(call: &Call) -> Option<(&'static Raised, Option<usize>, Option<usize>)> {
    let [first, second, ..] = call.arguments;
    match call.number as u32 {
        n::__NR_setrlimit => Some((Raised::of(first as u32)?, Some(1), None)),
        n::__NR_getrlimit => Some((Raised::of(first as u32)?, None, Some(1))),
        n::__NR_prlimit64 if first as u32 == 0 || first as u32 == process::id() => {
            let given = |index: &usize| call.arguments.get(*index).is_some_and(|pointer| *pointer != 0);
            Some((Raised::of(second as u32)?, Some(2).filter(given), Some(3).filter(given)))
        }
        _ => None,
    }
}

/// Carries out a call of the program on limits.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn call(call: &Call) -> isize {
    // SAFETY: (all) the caller's; a call that names no limit here is as the program makes it.
    unsafe {
        let asked = if SETTLED.load(Relaxed) { None } else { asked(call) };
        let Some((raised, new, old)) = asked else { return call.execute() };
        let before = Raised::new(raised.resource);
        before.set(
            rlimit64 { rlim_cur: raised.soft.load(Relaxed), rlim_max: raised.hard.load(Relaxed) },
            raised.own_bytes.load(Relaxed),
        );
        let result = match new.and_then(|index| Some((index, read(*call.arguments.get(index)?)?))) {
            // A child of vfork has this memory, and limits of its own.
            Some((index, limit)) if !process::is_vfork_child() => raise(raised, call, index, limit),
            _ => call.execute(),
        };
        if let Some(old) = old.and_then(|index| call.arguments.get(index)).filter(|_| result == 0) {
            let old = *old as *mut rlimit64;
            // What the kernel has just written can be written again.
            old.write_unaligned(before.lowered_limit(old.read_unaligned()));
        }
        result
    }
}

/// A limit in memory that may be none, which is for the kernel to say.
fn read(address: usize) -> Option<rlimit64> {
    let mut bytes = [0u8; size_of::<rlimit64>()];
    if environment::peek(address, &mut bytes) != Some(bytes.len()) {
        return None;
    }
    // SAFETY: any bytes make a limit, and there are as many.
    Some(unsafe { bytes.as_ptr().cast::<rlimit64>().read_unaligned() })
}

/// Makes the program's call with higher limits.
///
/// # Safety
/// The program is making `call`, whose argument `index` is where `limit` is.
unsafe fn raise(raised: &Raised, call: &Call, index: usize, limit: rlimit64) -> isize {
    let own_bytes = raised.fix_bytes();
    let higher = |value: u64| if value < LARGE { value + own_bytes } else { value };
    let limit = rlimit64 { rlim_cur: higher(limit.rlim_cur), rlim_max: higher(limit.rlim_max) };
    let mut with_higher = *call;
    if let Some(argument) = with_higher.arguments.get_mut(index) {
        *argument = &raw const limit as usize;
    }
    // SAFETY: the program's call, of another limit.
    let result = unsafe { with_higher.execute() };
    if result != 0 {
        if raised.is_set() {
            return result;
        }
        raised.free_bytes();
        // A limit that another process has set may leave no room for more.
        // SAFETY: the caller's.
        return unsafe { call.execute() };
    }
    let is_limit = limit.rlim_cur < LARGE || limit.rlim_max < LARGE;
    raised.set(limit, if is_limit { own_bytes } else { 0 });
    if !is_limit {
        raised.free_bytes();
    }
    result
}

/// What `execute` gives, which may make this process another program: that has the limits that this one has set.
///
/// # Safety
/// `execute` makes a call of the program's, of `path` in `directory`.
pub unsafe fn with_programs_own(directory: usize, path: usize, execute: impl FnOnce() -> isize) -> isize {
    let is_any = RAISED.iter().any(Raised::is_set);
    // Without rights a limit that is once low stays so: paths are looked for in many folders.
    if !is_any || !may_be_executed(directory, path) {
        return execute();
    }
    let lowered = RAISED.each_ref().map(Raised::lower);
    let result = execute();
    for (raised, limit) in RAISED.iter().zip(lowered) {
        if let Some(limit) = limit {
            // SAFETY: the limit is higher.
            let _ = unsafe { set(raised.resource, &limit) };
        }
    }
    result
}

/// Whether there is something that this process may execute; where the kernel does not tell, there may be.
fn may_be_executed(directory: usize, path: usize) -> bool {
    // SAFETY: the pointer may be bad, which is for the kernel to say.
    let result = unsafe { sys!(n::__NR_faccessat2, directory, path, X_OK, n::AT_EACCESS | n::AT_EMPTY_PATH) };
    result == 0 || call::is(result, errno::ENOSYS)
}

/// The process is about to confine itself: what it executes then is to have the limits that it has set.
pub fn settle() {
    let is_own = !process::is_vfork_child();
    for raised in &RAISED {
        let _ = raised.lower();
        if is_own {
            raised.set(rlimit64 { rlim_cur: 0, rlim_max: 0 }, 0);
        }
    }
    if is_own {
        SETTLED.store(true, Relaxed);
    }
}
