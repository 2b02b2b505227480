//! Calls a function for each fault in registered areas, in the thread that touched the memory. All other faults go to the
//! handler that was installed before.

use std::{
    ffi::{c_int, c_void},
    io,
    mem::MaybeUninit,
    ops::Range,
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{
            AtomicPtr, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use crate::Error;

/// How the kernel tells of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGBUS.
    Bus,
    /// SIGSEGV.
    Segv,
}

impl Signal {
    const ALL: [Self; 2] = [Self::Bus, Self::Segv];

    const fn number(self) -> c_int {
        match self {
            Self::Bus => libc::SIGBUS,
            Self::Segv => libc::SIGSEGV,
        }
    }
}

/// What a thread did that it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte that it touched.
    pub address: usize,
    /// Whether it wrote there.
    pub is_write: bool,
}

/// Serves a fault, in a signal handler: when it returns `true` the thread tries again, else the fault goes where it went
/// before. It may be told of a fault that another thread has just served.
pub trait Serve: Sync {
    /// Serves it. Nothing here may allocate, take a lock or panic.
    fn serve(&self, fault: Fault) -> bool;
}

/// Areas that can have a handler at the same time: hosts within one process, each with an area, may be many.
const AREAS_MAX: usize = 1_024;

/// An area, and who serves its faults. Free while it ends at 0.
struct Area {
    start: AtomicUsize,
    end: AtomicUsize,
    server: AtomicPtr<&'static dyn Serve>,
}

static AREAS: [Area; AREAS_MAX] = [const {
    Area { start: AtomicUsize::new(0), end: AtomicUsize::new(0), server: AtomicPtr::new(ptr::null_mut()) }
}; AREAS_MAX];

/// What was to be done with each signal before, once we handle it.
static BEFORE: [AtomicPtr<libc::sigaction>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// Changes of the above take turns.
static CHANGE: Mutex<()> = Mutex::new(());

/// Faults in an area are served until this is dropped.
#[derive(Debug)]
pub struct Served(usize);

impl Drop for Served {
    fn drop(&mut self) {
        // A handler may still be on its way to the server, which therefore lives for ever.
        AREAS[self.0].end.store(0, Release);
    }
}

/// Has the faults in `area` served.
///
/// # Errors
/// Too many areas have a handler, or the kernel takes none.
pub fn serve(area: Range<usize>, signal: Signal, server: &'static dyn Serve) -> Result<Served, Error> {
    let _turn = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    handle(signal).map_err(Error::Handler)?;
    let free = AREAS.iter().position(|area| area.end.load(Relaxed) == 0);
    let index = free.ok_or(Error::TooManyAreas { limit: AREAS_MAX })?;
    let place = &AREAS[index];
    place.server.store(Box::into_raw(Box::new(server)), Relaxed);
    place.start.store(area.start, Relaxed);
    place.end.store(area.end, Release);
    Ok(Served(index))
}

/// Puts our handler in place, once.
fn handle(signal: Signal) -> io::Result<()> {
    let before = &BEFORE[signal as usize];
    if !before.load(Acquire).is_null() {
        return Ok(());
    }
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the structures are this function's; zeros are an empty mask. On the alternate stack, where the thread has
    // one: the fault may be of its stack's end. Other signals come when the fault is served: a handler of the program could
    // touch what its own thread waits for, or jump away from here.
    unsafe {
        if libc::sigaction(signal.number(), ptr::null(), old.as_mut_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        before.store(Box::into_raw(Box::new(old.assume_init())), Release);
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = on_signal as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigfillset(&raw mut ours.sa_mask);
        for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS] {
            libc::sigdelset(&raw mut ours.sa_mask, own);
        }
        if libc::sigaction(signal.number(), &raw const ours, ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_signal(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both; what another process or `raise` sent has no address, and a code below 1.
    let (code, address, errno) =
        unsafe { ((*info).si_code, (*info).si_addr() as usize, *libc::__errno_location()) };
    let served = code > 0 && serve_fault(address, context);
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = errno };
    if !served {
        pass_on(number, info, context);
    }
}

fn serve_fault(address: usize, context: *mut c_void) -> bool {
    let area = AREAS.iter().find(|area| {
        // The end is written last.
        address < area.end.load(Acquire) && address >= area.start.load(Relaxed)
    });
    let Some(server) = area.map(|area| area.server.load(Relaxed)).filter(|server| !server.is_null()) else {
        return false;
    };
    // SAFETY: a box of its own, never freed; the context is the kernel's.
    let (server, error) = unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        (*server, context.uc_mcontext.gregs[libc::REG_ERR as usize])
    };
    server.serve(Fault { address, is_write: error & WRITE != 0 })
}

/// In the processor's error code of a page fault.
const WRITE: i64 = 1 << 1;

/// Does with a signal what would have been done without us.
fn pass_on(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let signal = Signal::ALL.into_iter().find(|signal| signal.number() == number);
    let before = signal.map_or(ptr::null_mut(), |signal| BEFORE[signal as usize].load(Acquire));
    if before.is_null() {
        return;
    }
    // SAFETY: a box of its own, never freed, with what sigaction(2) gave: the handler has the signature that the flag says.
    unsafe {
        let action = &*before;
        match action.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // It happens again as we return, and then by default. One that was sent does not, so it is sent again.
                let mut default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                default.sa_sigaction = action.sa_sigaction;
                libc::sigaction(number, &raw const default, ptr::null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(number);
                }
            }
            handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
                block_as_for(action, number, context);
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(number, info, context);
            }
            handler => {
                block_as_for(action, number, context);
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(number);
            }
        }
    }
}

/// Blocks the signals that the kernel would have blocked for this handler: it may leave by a jump.
///
/// # Safety
/// The context is the kernel's, of the signal with this number.
unsafe fn block_as_for(action: &libc::sigaction, number: c_int, context: *mut c_void) {
    // SAFETY: zeros are an empty set. The kernel's set has 64 signals, and only that many are read.
    unsafe {
        let mut blocked = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        let interrupted = &raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        ptr::copy_nonoverlapping(interrupted.cast::<u64>(), (&raw mut blocked).cast::<u64>(), 1);
        for signal in 1..=64 {
            if libc::sigismember(&raw const action.sa_mask, signal) == 1 {
                libc::sigaddset(&raw mut blocked, signal);
            }
        }
        if action.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut blocked, number);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, ptr::null_mut());
    }
}
