//! Programs that this one executes get an agent of their own.

use core::sync::atomic::Ordering;

use forebay_sigsafe::elf::{Elf_Ehdr, Elf_Phdr, PT_INTERP};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{sys, text};
use forebay_speculation::channel::{Header, Unassisted};
use forebay_speculation::program::ProgramRecord;
use forebay_speculation::signature::Signature;

use crate::entry::Call;
use crate::environment::{self, Extended};
use crate::{original, role, session, spawn};

/// A chain of `#!` lines is followed this far, as by the kernel.
const INTERPRETERS_MAX: usize = 5;
const MACHINE_X86_64: u16 = 62;
const CLASS_64: u8 = 2;
const LOADER: &[u8] = b"/ld-linux-x86-64.so.2";

/// What the examination of a program and its environment take: more than there may be of the program's stack.
struct Workspace {
    start: Start,
    interpreter: [u8; 256],
    extended: Extended,
}

impl Workspace {
    const fn new() -> Self {
        Self { start: Start { bytes: [0; 1024], len: 0 }, interpreter: [0; 256], extended: Extended::new() }
    }
}

/// Carries out `execve` or `execveat` with the agent added to the new program's environment.
///
/// # Safety
/// `call` is such a call of the program.
pub unsafe fn execute(call: &Call, at: bool) -> isize {
    let vfork_child = original::is_vfork_child();
    if role::is_original() && !vfork_child {
        let _ = original::leave_image();
    } else {
        spawn::end_that_of_parent();
    }
    // What a vfork child maps would stay with its parent: it uses the stack, which is its parent's.
    if vfork_child {
        // SAFETY: the caller's.
        return unsafe { execute_on_stack(call, at) };
    }
    // SAFETY: (all) the mapping is as large as what is put there, and goes with the image or here.
    unsafe {
        let bytes = size_of::<Workspace>();
        let (protection, flags) = (n::PROT_READ | n::PROT_WRITE, n::MAP_PRIVATE | n::MAP_ANONYMOUS);
        let address = sys!(n::__NR_mmap, 0, bytes, protection, flags, usize::MAX, 0);
        if address < 0 {
            return forebay_sigsafe::syscall(call.number, call.arguments);
        }
        let workspace = address as *mut Workspace;
        workspace.write(const { Workspace::new() });
        let result = execute_with(call, at, &mut *workspace);
        let _ = sys!(n::__NR_munmap, address, bytes);
        result
    }
}

/// # Safety
/// As [`execute`].
#[inline(never)]
unsafe fn execute_on_stack(call: &Call, at: bool) -> isize {
    // SAFETY: the caller's.
    unsafe { execute_with(call, at, &mut Workspace::new()) }
}

/// # Safety
/// As [`execute`].
unsafe fn execute_with(call: &Call, at: bool, workspace: &mut Workspace) -> isize {
    let [a, b, c, d, ..] = call.arguments;
    let (directory, path, environment, environment_index) =
        if at { (a, b, d, 3) } else { (n::AT_FDCWD as usize, a, c, 2) };
    let mut arguments = call.arguments;
    // SAFETY: the program's own pointers, which the kernel would read too.
    if let Some(name) = unsafe { inject(directory, path as *const u8, workspace) } {
        match workspace.extended.fill(environment, name) {
            Some(array) => arguments[environment_index] = array as usize,
            None => count(Unassisted::NotExamined),
        }
    }
    // SAFETY: the program's call but for the environment, which is there until the call returns or the image is gone.
    unsafe { forebay_sigsafe::syscall(call.number, arguments) }
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
unsafe fn inject(directory: usize, path: *const u8, workspace: &mut Workspace) -> Option<session::Name> {
    let header = session::header()?;
    if path.addr() < 4096 || header.enabled.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // SAFETY: the caller's.
    let key = Signature::call(0).bytes(unsafe { text::bytes(path) }).value();
    if !worth_it(header, key) {
        count(Unassisted::NeverStalls);
        return None;
    }
    // SAFETY: a terminated path.
    match unsafe { examine(directory, path, workspace) } {
        Ok(()) if environment::library_reachable() => {
            Some(session::Name { program_key: key, ..session::name() })
        }
        Ok(()) => {
            count(Unassisted::AgentUnreachable);
            None
        }
        Err(Some(reason)) => {
            count(reason);
            None
        }
        Err(None) => None,
    }
}

fn worth_it(header: &Header, key: u64) -> bool {
    let Some(program) = forebay_speculation::program::program(&header.programs, key) else { return true };
    let (record, inject) = ProgramRecord::decide(program.record.load(Ordering::Relaxed));
    program.record.store(record, Ordering::Relaxed);
    inject
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
        let Some(line) = start.used().strip_prefix(b"#!") else { return start.loadable() };
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
            let fd = sys!(n::__NR_openat, directory, path, n::O_RDONLY | n::O_CLOEXEC | n::O_NONBLOCK);
            if fd < 0 {
                return Err(Some(Unassisted::NotExamined));
            }
            let read = sys!(n::__NR_pread64, fd, self.bytes.as_mut_ptr(), self.bytes.len(), 0);
            let capabilities = sys!(n::__NR_fgetxattr, fd, c"security.capability".as_ptr(), 0, 0);
            let _ = sys!(n::__NR_close, fd);
            if capabilities > 0 {
                return Err(Some(Unassisted::Privileged));
            }
            self.len = usize::try_from(read).map_err(|_| Some(Unassisted::NotExamined))?;
        }
        Ok(())
    }

    fn loadable(&self) -> Result<(), Option<Unassisted>> {
        let bytes = self.used();
        if bytes.len() < size_of::<Elf_Ehdr>() || !bytes.starts_with(b"\x7fELF") {
            // The caller of execvp may start a shell on it: that is an execve of its own.
            return Err(None);
        }
        // SAFETY: the bytes are there, and any bytes make a header.
        let header = unsafe { bytes.as_ptr().cast::<Elf_Ehdr>().read_unaligned() };
        if bytes.get(4) != Some(&CLASS_64) || header.e_machine != MACHINE_X86_64 {
            return Err(Some(Unassisted::OtherArchitecture));
        }
        let size = size_of::<Elf_Phdr>();
        for index in 0..header.e_phnum as usize {
            let at = (header.e_phoff).wrapping_add(index * size);
            let Some(program) = bytes.get(at..at.wrapping_add(size)) else {
                return Err(Some(Unassisted::NotExamined));
            };
            // SAFETY: the bytes are there, and any bytes make a program header.
            let program = unsafe { program.as_ptr().cast::<Elf_Phdr>().read_unaligned() };
            if program.p_type != PT_INTERP {
                continue;
            }
            let (at, length) = (program.p_offset, program.p_filesz);
            let Some(loader) = bytes.get(at..at.wrapping_add(length)) else {
                return Err(Some(Unassisted::NotExamined));
            };
            let loader = loader.strip_suffix(b"\0").unwrap_or(loader);
            return if loader.ends_with(LOADER) { Ok(()) } else { Err(Some(Unassisted::OtherLibc)) };
        }
        Err(Some(Unassisted::Static))
    }
}
