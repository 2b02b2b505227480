//! What processes without an agent wait for.
//!
//! The kernel tells in which system call a thread waits (proc_pid_syscall(5)). A look-up, a read or a listing that waits needs a
//! device or a server. What is in memory is not seen.

use std::{
    collections::HashSet,
    fs::{self, File},
    ops::Range,
    os::unix::{
        ffi::OsStringExt,
        fs::{FileExt, MetadataExt},
    },
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use forebay_linux::kernel_text;
use forebay_profile::{Identity, Kind};
use forebay_protocol::layout::{SLOT_CLAIMED, SLOT_CLOSED, Unassisted};
use rustix::process::geteuid;

use super::{
    access::joined_to,
    files::{Files, Presence, presence},
    needs::NEEDS_MAX,
};
use crate::{channel::Channel, ffi, storms::family};

/// Looks take at most this part of a processor.
const COST_PART: u32 = 8;
/// While nothing new is waited for, a pause is this part of the time since something was. So looks become few.
const QUIET_PART: u32 = 8;
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How long the processes are taken to be the same.
const FAMILY: Duration = Duration::from_millis(5);
/// Processes, and threads of each, that are looked at, at most.
const PROCESSES_MAX: usize = 256;
const THREADS_MAX: usize = 256;
/// Look-ups whose outcome is asked for, at most.
const OPEN_MAX: usize = 64;
/// What the kernel reads for the first read of a file in sequence, by default.
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// Something that a process was seen to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub at_ns: u64,
    /// The file, as the process's kernel calls it.
    pub path: Arc<[u8]>,
    /// What of it.
    pub kind: Kind,
    /// Bytes, of what is read.
    pub range: Range<u64>,
}

/// Looks at the processes of a run that have no agent.
pub struct Waits {
    family: Vec<u32>,
    family_until: Instant,
    /// Processes that may not be looked at.
    refused: HashSet<u32>,
    found: Vec<Wait>,
    known: HashSet<(Arc<[u8]>, Kind, u64)>,
    /// Where among `found` look-ups are of which the outcome is not known.
    open: Vec<usize>,
    files: Files,
    /// Whether the program that was started is among them.
    is_first_among: Option<bool>,
    last_wait: Instant,
    next: Instant,
}

impl Waits {
    /// Begins with the run.
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            family: Vec::new(),
            family_until: now,
            refused: HashSet::new(),
            found: Vec::new(),
            known: HashSet::new(),
            open: Vec::new(),
            files: Files::default(),
            is_first_among: None,
            last_wait: now,
            next: now,
        }
    }

    /// Looks at what the processes of the program `first` wait for, if that is due. How long until it is due again.
    pub fn look(&mut self, channel: &Channel, first: u32) -> Duration {
        let began = Instant::now();
        if began < self.next {
            return self.next - began;
        }
        if !are_there(channel) {
            self.next = began + PAUSE_MAX;
            return PAUSE_MAX;
        }
        let before = ffi::processor_time();
        self.settle();
        if began >= self.family_until {
            self.family = without_agent(channel, first);
            self.family.retain(|process| !self.refused.contains(process));
            self.is_first_among.get_or_insert(self.family.contains(&first));
            self.family_until = began + FAMILY;
        }
        let known = self.found.len();
        self.family.clone().into_iter().for_each(|process| self.look_at(process));
        // A long wait is new once, such as that for a terminal.
        if self.found.len() > known {
            self.last_wait = began;
        }
        let quiet = (began - self.last_wait) / QUIET_PART;
        let pause = (ffi::processor_time().saturating_sub(before) * COST_PART).max(quiet).min(PAUSE_MAX);
        self.next = Instant::now() + pause;
        pause
    }

    fn look_at(&mut self, process: u32) {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return };
        for thread in threads.flatten().take(THREADS_MAX) {
            let place = thread.path().join("syscall");
            let text = match fs::read_to_string(&place) {
                Ok(text) => text,
                Err(error) => {
                    if error.kind() == std::io::ErrorKind::PermissionDenied {
                        self.refused.insert(process);
                    }
                    continue;
                }
            };
            let Some((path, kind, range)) = Call::parse(&text).and_then(|call| call.needs(process)) else {
                continue;
            };
            // It may have gone on meanwhile.
            if fs::read_to_string(&place).is_ok_and(|now| now == text) {
                self.add(path, kind, range);
            }
        }
    }

    fn add(&mut self, path: Arc<[u8]>, kind: Kind, range: Range<u64>) {
        if self.found.len() >= NEEDS_MAX || !self.known.insert((Arc::clone(&path), kind, range.start)) {
            return;
        }
        match kind {
            Kind::Read => self.files.look(&path),
            Kind::LookUp => self.open.push(self.found.len()),
            _ => {}
        }
        let (_, at_ns) = ffi::simultaneous();
        self.found.push(Wait { at_ns, path, kind, range });
    }

    /// Finds out which look-ups failed.
    fn settle(&mut self) {
        let found = &mut self.found;
        self.open.retain(|place| {
            let wait = &mut found[*place];
            let presence = presence(&wait.path);
            if presence == Presence::Missing {
                wait.kind = Kind::Missing;
            }
            presence == Presence::Unknown
        });
        self.open.drain(..self.open.len().saturating_sub(OPEN_MAX));
    }

    /// What was waited for.
    pub fn so_far(&self) -> impl Iterator<Item = &Wait> {
        self.found.iter()
    }

    /// Whether the program that was started has no agent.
    pub fn are_of_first(&self) -> bool {
        self.is_first_among == Some(true)
    }

    /// The file as it was when it was read.
    pub fn identity_of(&self, path: &[u8]) -> Option<Identity> {
        self.files.get(path)
    }
}

/// Whether processes of the run have no agent, and are of this user's rights.
fn are_there(channel: &Channel) -> bool {
    let counts = channel.header().processes_unassisted.iter().enumerate();
    counts
        .into_iter()
        .any(|(reason, count)| reason != Unassisted::Privileged as usize && count.load(Relaxed) > 0)
}

/// The processes of a run that have no agent, and see the files that this process sees.
fn without_agent(channel: &Channel, first: u32) -> Vec<u32> {
    let of_slot = |slot| {
        let slot = channel.slot(slot);
        [&slot.pid, &slot.speculator_pid, &slot.checkpoint.pid].map(|number| number.load(Relaxed))
    };
    let slots = channel.slots_in(SLOT_CLAIMED).chain(channel.slots_in(SLOT_CLOSED));
    let assisted: HashSet<u32> = slots.flat_map(of_slot).collect();
    let view = |process: &str| {
        let link = |name: &str| fs::read_link(format!("/proc/{process}/{name}")).ok();
        Some((link("root")?, link("ns/mnt")?))
    };
    let own = view("self");
    let is_ours = |process: &u32| {
        let folder = format!("/proc/{process}");
        !assisted.contains(process)
            && fs::metadata(&folder).is_ok_and(|found| found.uid() == geteuid().as_raw())
            && own.is_some()
            && view(&process.to_string()) == own
    };
    let mut all = Vec::new();
    let mut waiting = vec![first];
    while let Some(process) = waiting.pop()
        && all.len() < PROCESSES_MAX
    {
        all.push(process);
        waiting.extend(family::children(process));
    }
    all.retain(is_ours);
    all
}

/// A system call that a thread waits in.
struct Call {
    number: libc::c_long,
    arguments: [u64; 6],
}

impl Call {
    /// `NUMBER ARGUMENTS STACK POSITION`; nothing for a thread that runs, or waits without a call.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Self { number, arguments })
    }

    /// What the call needs of a file system.
    fn needs(&self, process: u32) -> Option<(Arc<[u8]>, Kind, Range<u64>)> {
        let [a, b, c, d, ..] = self.arguments;
        let here = libc::AT_FDCWD as u64;
        let (directory, path, kind) = match self.number {
            libc::SYS_read | libc::SYS_readv => {
                return read(process, a, None, if self.number == libc::SYS_read { c } else { 0 });
            }
            libc::SYS_pread64 => return read(process, a, Some(d), c),
            libc::SYS_preadv | libc::SYS_preadv2 => return read(process, a, Some(d), 0),
            libc::SYS_sendfile if c == 0 => return read(process, b, None, d),
            libc::SYS_copy_file_range if b == 0 => return read(process, a, None, 0),
            libc::SYS_getdents | libc::SYS_getdents64 => {
                return Some((link(process, &format!("fd/{a}"))?, Kind::Directory, 0..0));
            }
            libc::SYS_open | libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_chdir => {
                (here, a, Kind::LookUp)
            }
            libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_faccessat
            | libc::SYS_faccessat2 => (a, b, Kind::LookUp),
            libc::SYS_readlink => (here, a, Kind::Link),
            libc::SYS_readlinkat => (a, b, Kind::Link),
            _ => return None,
        };
        let path = text(process, path)?;
        let base = match directory as i32 {
            _ if path.starts_with(b"/") => (*b"/").into(),
            libc::AT_FDCWD => link(process, "cwd")?,
            directory => link(process, &format!("fd/{directory}"))?,
        };
        Some((joined_to(&base, &path)?, kind, 0..0))
    }
}

/// What a read of a descriptor needs: at an offset, or where the descriptor is, with what the kernel reads ahead then.
fn read(
    process: u32,
    descriptor: u64,
    offset: Option<u64>,
    count: u64,
) -> Option<(Arc<[u8]>, Kind, Range<u64>)> {
    let path = link(process, &format!("fd/{descriptor}"))?;
    let (start, count) = match offset {
        Some(offset) => (offset, count.max(1)),
        None => {
            let about = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
            (kernel_text::field(&about, "pos")?.parse().ok()?, count.max(READ_AHEAD_BYTES))
        }
    };
    Some((path, Kind::Read, start..start.saturating_add(count)))
}

/// The file that a link of the process leads to, if it has a name.
fn link(process: u32, name: &str) -> Option<Arc<[u8]>> {
    let path = fs::read_link(format!("/proc/{process}/{name}")).ok()?.into_os_string().into_vec();
    (path.starts_with(b"/") && !path.ends_with(b" (deleted)")).then(|| path.into())
}

/// Terminated text in the memory of the process.
fn text(process: u32, address: u64) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let mut bytes = vec![0; libc::PATH_MAX as usize];
    let length = memory.read_at(&mut bytes, address).ok()?;
    bytes.truncate(length);
    let end = bytes.iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
    bytes.truncate(end);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_where_a_thread_waits_in_one() {
        let call = Call::parse("0 0x3 0x7ffc0000 0x1000 0x0 0x0 0x0 0x7ffc1000 0x401000\n").unwrap();
        assert_eq!((call.number, call.arguments), (libc::SYS_read, [3, 0x7ffc_0000, 0x1000, 0, 0, 0]));
        for text in ["running\n", "-1 0x7ffc1000 0x401000\n", "", "0 0x3", "0 3 4 5 6 7 8"] {
            assert!(Call::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_path_in_memory_ends_at_its_terminator() {
        let own = std::process::id();
        let path = c"/a/path";
        assert_eq!(text(own, path.as_ptr() as u64).as_deref(), Some(&b"/a/path"[..]));
        assert_eq!(text(own, c"".as_ptr() as u64), None);
        assert_eq!(text(own, 0), None);
    }

    #[test]
    fn a_run_in_which_all_processes_have_agents_is_not_looked_at() {
        let channel = Channel::create(false).unwrap();
        let mut waits = Waits::new();
        assert_eq!(waits.look(&channel, std::process::id()), PAUSE_MAX);
        assert_eq!((waits.so_far().count(), waits.are_of_first()), (0, false));
    }

    #[test]
    fn a_program_without_an_agent_is_told_from_others() {
        let channel = Channel::create(false).unwrap();
        channel.header().processes_unassisted[Unassisted::Static as usize].store(1, Relaxed);
        let mut waits = Waits::new();
        let _ = waits.look(&channel, std::process::id());
        assert!(waits.are_of_first());
    }
}
