//! Programs that this one executes get an agent of their own.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use forebay_policy::program::ProgramRecord;
use forebay_protocol::executable::{self, DYNAMIC_BYTES, PROGRAM_HEADER_BYTES};
use forebay_protocol::layout::{Header, PATH_BYTES, Unassisted};
use forebay_protocol::signature::Signature;
use forebay_sigsafe::elf::{Elf_Ehdr, Elf_Phdr, PT_INTERP};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{call, errno, sys, ticks};

use crate::call::Call;
use crate::environment::{self, Extended};
use crate::{
    accesses, cold_program, limits, mapped_pages, original, process, record_locks, role, session, spawn,
};

/// A chain of `#!` lines is followed this far, as by the kernel.
const INTERPRETERS_MAX: usize = 5;
const MACHINE_X86_64: u16 = 62;
const CLASS_64: u8 = 2;
const LOADER: &[u8] = b"/ld-linux-x86-64.so.2";
/// Longest path of a loader.
const LOADER_BYTES: usize = 256;
/// Program headers of more bytes are not looked at.
const HEADERS_BYTES: usize = 64 * PROGRAM_HEADER_BYTES;

/// What the examination of a program and its environment take: more than there may be of the program's stack.
struct Workspace {
    start: Start,
    interpreter: [u8; 256],
    extended: Extended,
}

impl Workspace {
    const fn new() -> Self {
        let start = Start {
            bytes: [0; 1024],
            len: 0,
            headers: [0; HEADERS_BYTES],
            loader: [0; LOADER_BYTES],
            dynamic: [0; DYNAMIC_BYTES],
            loadable: Err(None),
            path: [0; PATH_BYTES],
        };
        Self { start, interpreter: [0; 256], extended: Extended::new() }
    }
}

/// The workspace of vfork children. What one maps would stay with its parent, whose memory it has, and its stack may be
/// of a page.
struct Lent(UnsafeCell<MaybeUninit<Workspace>>);

// SAFETY: `execute_in_parent` makes the only reference, between a `borrow` that succeeded and the store that ends it. No other
// child of this memory, and no handler that interrupts the child, borrows meanwhile: `BORROWER` names its process.
unsafe impl Sync for Lent {}

static LENT: Lent = Lent(UnsafeCell::new(MaybeUninit::uninit()));
/// The process that has it, in the bits of [`PROCESS`]; 0 there for none. The kernel clears these when the process has another image, or
/// has ended: it takes the word for a robust futex of the process.
static BORROWER: AtomicU32 = AtomicU32::new(0);
/// `FUTEX_TID_MASK`
const PROCESS: u32 = 0x3fff_ffff;
/// The borrower's list of robust futexes (set_robust_list(2)).
static ROBUST: Robust = Robust { first: AtomicUsize::new(0), offset: 0, pending: AtomicUsize::new(0) };
/// How long one waits for another to be gone, which takes a call.
const BORROW_PAUSES_MAX: u32 = 1000;

/// `struct robust_list_head`: an empty list, and a futex beside it.
#[repr(C)]
struct Robust {
    first: AtomicUsize,
    offset: usize,
    pending: AtomicUsize,
}

impl Robust {
    /// Has the kernel clear [`BORROWER`], which is this process's. Whether it will: not where the process has a list of its own.
    fn begin(&'static self) -> bool {
        let (mut list, mut length) = (0usize, 0usize);
        // SAFETY: the call writes to locals.
        let known = unsafe { sys!(n::__NR_get_robust_list, 0, &raw mut list, &raw mut length) };
        if known < 0 || list != 0 {
            return false;
        }
        self.first.store(&raw const *self as usize, Ordering::Relaxed);
        self.pending.store(BORROWER.as_ptr() as usize, Ordering::Relaxed);
        // SAFETY: the list is static, and leads to itself and to a static word.
        unsafe { sys!(n::__NR_set_robust_list, &raw const *self, size_of::<Self>()) == 0 }
    }

    /// The process has no list again.
    fn end(&'static self) {
        // SAFETY: the call takes no pointer.
        let _ = unsafe { sys!(n::__NR_set_robust_list, 0, size_of::<Self>()) };
    }
}

/// Carries out `execve` or `execveat` with the agent added to the new program's environment.
///
/// # Safety
/// `call` is such a call of the program.
pub unsafe fn execute(call: &Call, at: bool) -> isize {
    let vfork_child = process::is_vfork_child();
    if role::is_original() && !vfork_child {
        original::leave_image();
        mapped_pages::record_at_exec();
    } else {
        spawn::end_that_of_parent();
    }
    if vfork_child {
        // SAFETY: the caller's.
        return unsafe { execute_in_parent(call, at) };
    }
    // SAFETY: (all) the mapping is as large as what is put there, and goes with the image or here.
    unsafe {
        let bytes = size_of::<Workspace>();
        let (protection, flags) = (n::PROT_READ | n::PROT_WRITE, n::MAP_PRIVATE | n::MAP_ANONYMOUS);
        let address = sys!(n::__NR_mmap, 0, bytes, protection, flags, usize::MAX, 0);
        if address < 0 {
            return execute_alone(call, at);
        }
        let workspace = address as *mut Workspace;
        workspace.write(const { Workspace::new() });
        let result = execute_with(call, at, &mut *workspace);
        let _ = sys!(n::__NR_munmap, address, bytes);
        result
    }
}

/// In a vfork child.
///
/// # Safety
/// As [`execute`].
#[inline(never)]
unsafe fn execute_in_parent(call: &Call, at: bool) -> isize {
    // SAFETY: (all) the workspace is this process's until the word says otherwise, which the kernel sees to. The word by which a program
    // may wait for the execution (CLONE_CHILD_CLEARTID) stays the program's.
    unsafe {
        if !borrow() {
            return execute_alone(call, at);
        }
        if !ROBUST.begin() {
            BORROWER.store(0, Ordering::Release);
            return execute_alone(call, at);
        }
        let workspace = LENT.0.get().cast::<Workspace>();
        workspace.write(const { Workspace::new() });
        let result = execute_with(call, at, &mut *workspace);
        ROBUST.end();
        BORROWER.store(0, Ordering::Release);
        result
    }
}

/// Takes the workspace, when no other child of this memory has it. (A process that had it when
/// this memory was forked is no child of this one, and ends some time.)
fn borrow() -> bool {
    let process = process::id();
    // SAFETY: no pointers.
    let is_gone = |other| call::is(unsafe { sys!(n::__NR_kill, other, 0) }, errno::ESRCH);
    for _ in 0..BORROW_PAUSES_MAX {
        let was = BORROWER.load(Ordering::Relaxed);
        if (was & PROCESS == 0 || is_gone(was & PROCESS))
            && BORROWER.compare_exchange(was, process, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return true;
        }
        process::pause();
    }
    false
}

/// # Safety
/// As [`execute`].
unsafe fn execute_with(call: &Call, at: bool, workspace: &mut Workspace) -> isize {
    let [a, b, c, d, ..] = call.arguments;
    let (directory, path, environment, environment_index) =
        if at { (a, b, d, 3) } else { (n::AT_FDCWD as usize, a, c, 2) };
    // SAFETY: the program's own pointers, which the kernel would read too.
    if let Some(name) = unsafe { inject(directory, path, workspace) } {
        if let Some(array) = workspace.extended.fill(environment, name) {
            let mut arguments = call.arguments;
            arguments[environment_index] = array as usize;
            // SAFETY: the program's call but for the environment, which is there until the call returns or the image is gone.
            let result = unsafe { forebay_sigsafe::syscall(call.number, arguments) };
            // Our variables may be what was too much.
            if !call::is(result, errno::E2BIG) {
                return result;
            }
        }
        count(Unassisted::NotExamined);
    }
    // SAFETY: the program's call.
    unsafe { execute_alone(call, at) }
}

/// The program's call as it is: what it executes has no agent.
///
/// # Safety
/// As [`execute`].
pub unsafe fn execute_alone(call: &Call, at: bool) -> isize {
    let [first, second, ..] = call.arguments;
    let (directory, path) = if at { (first, second) } else { (n::AT_FDCWD as usize, first) };
    // SAFETY: (both) the caller's.
    unsafe {
        limits::with_programs_own(directory, path, || forebay_sigsafe::syscall(call.number, call.arguments))
    }
}

fn count(reason: Unassisted) {
    if let Some(counter) =
        session::header().and_then(|header| header.processes_unassisted.get(reason as usize))
    {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The session to hand on, where the program at `path` should and can have an agent.
///
/// # Safety
/// `path` is what the program passed for a path.
unsafe fn inject(directory: usize, path: usize, workspace: &mut Workspace) -> Option<session::Name> {
    let header = session::header()?;
    if header.enabled.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // The pointer may be bad, which is for the kernel to say.
    let read = environment::peek(path, &mut workspace.interpreter)?;
    let start = workspace.interpreter.get(..read)?.split(|&byte| byte == 0).next()?;
    if start.len() < read {
        // SAFETY: the copy is terminated.
        unsafe { accesses::executes(directory, start.as_ptr()) };
    }
    let key = Signature::call(0).bytes(start).value();
    // With a process that has no agent the recording would end, for all that it executes, too.
    if !(worth_it(header, key) || accesses::is_on() && launches(header, key)) {
        count(Unassisted::NoGain);
        return None;
    }
    if has_limited_memory() {
        count(Unassisted::Limited);
        return None;
    }
    if is_someone_else() {
        count(Unassisted::Privileged);
        return None;
    }
    // SAFETY: a terminated path, or the kernel says that it is none.
    match unsafe { examine(directory, path as *const u8, workspace) } {
        Ok(()) if !environment::library_reachable() => {
            count(Unassisted::AgentUnreachable);
            None
        }
        Ok(()) if !session::is_reachable() => {
            count(Unassisted::RightsGivenUp);
            None
        }
        Ok(()) => Some(session::Name { program_key: key, ..session::name() }),
        Err(Some(reason)) => {
            if reason == Unassisted::Privileged {
                original::quieten();
            }
            count(reason);
            None
        }
        Err(None) => None,
    }
}

/// Whether the loader will take the program for one of more rights than its user has, and ignore what is to be preloaded.
fn is_someone_else() -> bool {
    // SAFETY: no arguments.
    unsafe { sys!(n::__NR_geteuid) != sys!(n::__NR_getuid) || sys!(n::__NR_getegid) != sys!(n::__NR_getgid) }
}

/// Whether the address space is limited, of which an agent would take a part.
fn has_limited_memory() -> bool {
    [n::RLIMIT_AS, n::RLIMIT_DATA].into_iter().any(|resource| {
        let mut limit = n::rlimit64 { rlim_cur: u64::MAX, rlim_max: u64::MAX };
        // SAFETY: the call writes to a local.
        let _ = unsafe { sys!(n::__NR_prlimit64, 0, resource, 0, &raw mut limit) };
        limit.rlim_cur != u64::MAX
    })
}

fn worth_it(header: &Header, key: u64) -> bool {
    let Some(program) = forebay_policy::program::program(&header.programs, key) else { return true };
    let (record, inject) = ProgramRecord::decide(program.record.load(Ordering::Relaxed));
    program.record.store(record, Ordering::Relaxed);
    let launcher = session::name().program_key;
    if launcher != key {
        program.launcher.store(launcher, Ordering::Relaxed);
    }
    inject
}

/// Whether a process of this executable has executed another one.
fn launches(header: &Header, key: u64) -> bool {
    header.programs.iter().any(|program| program.launcher.load(Ordering::Relaxed) == key)
}

/// Whether a library can be preloaded into the program; `Err(None)` where it cannot be started at all.
///
/// # Safety
/// `path` is terminated.
unsafe fn examine(
    directory: usize,
    path: *const u8,
    workspace: &mut Workspace,
) -> Result<(), Option<Unassisted>> {
    let Workspace { start, interpreter, .. } = workspace;
    let (mut directory, mut path) = (directory, path);
    for _ in 0..INTERPRETERS_MAX {
        // SAFETY: a terminated path, or the terminated copy below.
        unsafe { start.read(directory, path)? };
        let Some(line) = start.used().strip_prefix(b"#!") else { return start.loadable };
        let word = line
            .split(|&byte| byte == b'\n')
            .next()
            .unwrap_or_default()
            .split(|&byte| byte == b' ' || byte == b'\t')
            .find(|word| !word.is_empty())
            .unwrap_or_default();
        if word.is_empty() || word.len() >= interpreter.len() {
            return Err(Some(Unassisted::NotExamined));
        }
        *interpreter = [0; 256];
        for (to, from) in interpreter.iter_mut().zip(word) {
            *to = *from;
        }
        (directory, path) = (n::AT_FDCWD as usize, interpreter.as_ptr());
    }
    Err(Some(Unassisted::NotExamined))
}

/// The beginning of an executable file.
struct Start {
    bytes: [u8; 1024],
    len: usize,
    /// Room for its program headers, the path of its loader and its dynamic section, and what these say.
    headers: [u8; HEADERS_BYTES],
    loader: [u8; LOADER_BYTES],
    dynamic: [u8; DYNAMIC_BYTES],
    loadable: Result<(), Option<Unassisted>>,
    /// Room for the path of its file.
    path: [u8; PATH_BYTES],
}

impl Start {
    fn used(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// # Safety
    /// `path` is terminated.
    unsafe fn read(&mut self, directory: usize, path: *const u8) -> Result<(), Option<Unassisted>> {
        let mut stat = core::mem::MaybeUninit::<n::stat>::uninit();
        // SAFETY: `stat` and `bytes` are as large as the calls are told.
        unsafe {
            // Looked at through O_PATH first: opening a FIFO or a device could be noticed.
            let found = sys!(n::__NR_openat, directory, path, n::O_PATH | n::O_CLOEXEC);
            if found < 0 {
                return Err(None);
            }
            let known = sys!(n::__NR_fstat, found, stat.as_mut_ptr());
            let _ = sys!(n::__NR_close, found);
            if known < 0 {
                return Err(None);
            }
            let stat = stat.assume_init();
            if stat.st_mode & n::S_IFMT != n::S_IFREG {
                return Err(None);
            }
            if stat.st_mode & (n::S_ISUID | n::S_ISGID) != 0 {
                return Err(Some(Unassisted::Privileged));
            }
            // A lock on the file would go with the descriptor.
            if record_locks::may_be_on(&stat, &mut self.headers) {
                return Err(Some(Unassisted::NotExamined));
            }
            let fd = sys!(n::__NR_openat, directory, path, n::O_RDONLY | n::O_CLOEXEC | n::O_NONBLOCK);
            if fd < 0 {
                return Err(Some(Unassisted::NotExamined));
            }
            let before = ticks();
            let read = sys!(n::__NR_pread64, fd, self.bytes.as_mut_ptr(), self.bytes.len(), 0);
            let is_cold = |header: &&Header| {
                ticks().wrapping_sub(before) > header.stall_ticks_min.load(Ordering::Relaxed)
            };
            if let Some(header) = session::header().filter(is_cold) {
                cold_program::announce(header, fd as usize, &mut self.path);
            }
            self.len = usize::try_from(read).unwrap_or(0);
            self.loadable = self.examine_elf(fd);
            let capabilities = sys!(n::__NR_fgetxattr, fd, c"security.capability".as_ptr(), 0, 0);
            let _ = sys!(n::__NR_close, fd);
            if capabilities > 0 {
                return Err(Some(Unassisted::Privileged));
            }
            if read < 0 {
                return Err(Some(Unassisted::NotExamined));
            }
        }
        Ok(())
    }

    fn header(&self) -> Option<Elf_Ehdr> {
        let bytes = self.used();
        let is_whole = bytes.len() >= size_of::<Elf_Ehdr>() && bytes.starts_with(b"\x7fELF");
        // SAFETY: the bytes are there, and any bytes make a header.
        is_whole.then(|| unsafe { bytes.as_ptr().cast::<Elf_Ehdr>().read_unaligned() })
    }

    /// Whether the loader of the file that is open as `fd` takes a library before all others.
    fn examine_elf(&mut self, fd: isize) -> Result<(), Option<Unassisted>> {
        // The caller of execvp may start a shell on it: that is an execve of its own.
        let Some(header) = self.header() else { return Err(None) };
        if self.used().get(4) != Some(&CLASS_64) || header.e_machine != MACHINE_X86_64 {
            return Err(Some(Unassisted::OtherArchitecture));
        }
        let read = |offset: u64, buffer: &mut [u8]| {
            // SAFETY: a buffer as large as the call is told.
            let read = unsafe { sys!(n::__NR_pread64, fd, buffer.as_mut_ptr(), buffer.len(), offset) };
            usize::try_from(read).unwrap_or(0)
        };
        let Self { bytes, len, headers, loader, dynamic, .. } = self;
        // Tools that change a linked file put headers and path behind everything else.
        let known = bytes.get(..*len).unwrap_or_default();
        let fill = |offset: usize, buffer: &mut [u8]| {
            let Some(known) = known.get(offset..offset.saturating_add(buffer.len())) else {
                return read(offset as u64, buffer) == buffer.len();
            };
            buffer.iter_mut().zip(known).for_each(|(to, from)| *to = *from);
            true
        };
        let length = header.e_phnum as usize * PROGRAM_HEADER_BYTES;
        let Some(headers) = headers.get_mut(..length) else { return Err(Some(Unassisted::NotExamined)) };
        if length == 0 || !fill(header.e_phoff, headers) {
            return Err(Some(Unassisted::NotExamined));
        }
        let Some(interpreter) = interpreter(headers) else { return Err(Some(Unassisted::Static)) };
        let Some(path) = loader.get_mut(..interpreter.p_filesz) else {
            return Err(Some(Unassisted::NotExamined));
        };
        if !fill(interpreter.p_offset, path) {
            return Err(Some(Unassisted::NotExamined));
        }
        if !path.strip_suffix(b"\0").unwrap_or(path).ends_with(LOADER) {
            return Err(Some(Unassisted::OtherLibc));
        }
        let is_sanitized = executable::needs_to_be_first(headers, dynamic, read);
        if is_sanitized { Err(Some(Unassisted::Sanitized)) } else { Ok(()) }
    }
}

/// The program header of the path of the loader.
fn interpreter(headers: &[u8]) -> Option<Elf_Phdr> {
    // SAFETY: the bytes are there, and any bytes make a program header.
    let header = |bytes: &[u8]| unsafe { bytes.as_ptr().cast::<Elf_Phdr>().read_unaligned() };
    headers.chunks_exact(size_of::<Elf_Phdr>()).map(header).find(|header| header.p_type == PT_INTERP)
}
