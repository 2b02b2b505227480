//! What processes without an agent wait for.
//!
//! The kernel tells in which system call a thread waits (proc_pid_syscall(5)). A look-up, a read or a listing that waits needs a
//! device or a server. What is in memory is not seen. What is seen is written into the access log, as agents do.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs::{self, File},
    ops::Range,
    os::unix::{
        ffi::OsStringExt,
        fs::{FileExt, MetadataExt},
    },
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed},
    },
    time::{Duration, Instant},
};

use forebay_linux::kernel_text;
use forebay_policy::price::{WAITS_LOOK_PART, WAITS_QUIET_PART};
use forebay_profile::{Identity, Kind};
use forebay_protocol::{
    access_log::{Attributes, Outcome, Use, wanted},
    layout::{NO_SLOT, SLOT_CLAIMED, SLOT_CLOSED, Unassisted, told},
};
use rustix::process::geteuid;

use super::{
    access::joined_to,
    files::{Files, Presence, presence},
    needs::NEEDS_MAX,
};
use crate::{channel::Channel, executor, ffi, storms::family};

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// What the executor gets after the program's end to tell what it knows, and between two looks whether it has.
const LAST: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_micros(100);
/// How long the processes are taken to be the same.
const FAMILY: Duration = Duration::from_millis(5);
/// Processes, and threads of each, that are looked at, at most.
const PROCESSES_MAX: usize = 256;
const THREADS_MAX: usize = 256;
/// Look-ups whose outcome is asked for, at most.
const OPEN_MAX: usize = 64;
/// What the kernel reads for the first read of a file in sequence, by default.
const READ_AHEAD_BYTES: u64 = 128 << 10;
/// A read that begins this near behind the last one that was seen goes on in sequence: not every wait is seen.
const NEAR_BYTES: u64 = 4 * READ_AHEAD_BYTES;

/// Looks at the processes of a run that have no agent.
pub struct Waits {
    channel: Arc<Channel>,
    /// The program that was started.
    first: u32,
    family: Vec<Member>,
    family_until: Instant,
    /// Processes that may not be looked at.
    refused: HashSet<u32>,
    known: HashSet<(Arc<[u8]>, Kind, u64)>,
    /// Look-ups of which the outcome is not known, the oldest first.
    open: VecDeque<LookUp>,
    /// What was read or listed.
    named: HashMap<Arc<[u8]>, Named>,
    files: Files,
    /// Whether the program that was started is among them.
    is_first_among: Option<bool>,
    last_wait: Instant,
    /// What a wait that is seen stands for: the shortest pause.
    sample: Duration,
    next: Instant,
}

/// A process without an agent.
#[derive(Clone, Copy)]
struct Member {
    process: u32,
    /// Whether it has the user of this process.
    is_of_user: bool,
}

/// A look-up that waited, at this time of the log.
struct LookUp {
    at: u32,
    path: Arc<[u8]>,
    opens: bool,
}

/// A file or folder in the access log.
struct Named {
    /// Place of its record.
    place: u32,
    /// Place and end of the last range.
    last: Option<(u32, Range<u64>)>,
}

/// Something that a thread waits for.
struct Need {
    path: Arc<[u8]>,
    kind: Kind,
    /// Bytes, of what is read.
    range: Range<u64>,
    opens: bool,
}

impl Waits {
    /// Begins with the run of the program `first`.
    pub fn new(channel: Arc<Channel>, first: u32) -> Self {
        let now = Instant::now();
        Self {
            channel,
            first,
            family: Vec::new(),
            family_until: now,
            refused: HashSet::new(),
            known: HashSet::new(),
            open: VecDeque::new(),
            named: HashMap::new(),
            files: Files::default(),
            is_first_among: None,
            last_wait: now,
            sample: Duration::ZERO,
            next: now,
        }
    }

    /// Looks at what the processes wait for, if that is due. How long until it is due again.
    pub fn look(&mut self) -> Duration {
        let began = Instant::now();
        if began < self.next {
            return self.next - began;
        }
        // Asked again as often as the supervisor wakes: it is cheap, and one may begin any time.
        if !self.is_wanted() || !are_there(&self.channel) {
            return PAUSE_MAX;
        }
        let before = ffi::processor_time();
        self.settle();
        if began >= self.family_until {
            self.family = without_agent(&self.channel, self.first);
            self.family.retain(|member| !self.refused.contains(&member.process));
            let is_first_among = self.family.iter().any(|member| member.process == self.first);
            self.is_first_among.get_or_insert(is_first_among);
            self.family_until = began + FAMILY;
        }
        let known = self.known.len();
        let mut waits = 0;
        for Member { process, is_of_user } in self.family.clone() {
            let found = self.look_at(process);
            // What lies beside its files, a process of another user may have no right to read.
            waits += if is_of_user { found } else { 0 };
        }
        self.tell(waits);
        // A long wait is new once, such as that for a terminal.
        if self.known.len() > known {
            self.last_wait = began;
        }
        self.sample = ffi::processor_time().saturating_sub(before) * WAITS_LOOK_PART;
        let quiet = (began - self.last_wait) / WAITS_QUIET_PART;
        let pause = self.sample.max(quiet).min(PAUSE_MAX);
        self.next = Instant::now() + pause;
        pause
    }

    /// Whether there are processes without an agent.
    pub const fn are_any(&self) -> bool {
        !self.family.is_empty()
    }

    /// Whether the program that was started has no agent.
    pub fn are_of_first(&self) -> bool {
        self.is_first_among == Some(true)
    }

    /// The run is over: the executor writes down what it knows, and what is not known of look-ups stays so. No path is opened, because a file system may be unmounted next.
    pub fn finish(&mut self) {
        let (log, opens) = (self.channel.access_log(), &self.channel.header().neighbours.opens);
        let deadline = Instant::now() + LAST;
        if opens.compare_exchange(told::SOME, told::WANTED, Relaxed, Relaxed).is_ok() {
            while opens.load(Acquire) == told::WANTED && Instant::now() < deadline {
                executor::wake(&self.channel);
                std::thread::sleep(LAST_LOOK);
            }
        }
        for LookUp { at, path, .. } in self.open.drain(..) {
            let _ = log.append_path(Outcome::Found, at, 0, &path);
        }
    }

    fn is_wanted(&self) -> bool {
        self.channel.access_log().wanted.load(Relaxed) & (wanted::ACCESSES | wanted::AFTER_WAIT) != 0
    }

    /// Looks at the threads of a process. How many of them wait for a device.
    fn look_at(&mut self, process: u32) -> u64 {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return 0 };
        let mut waits = 0;
        for thread in threads.flatten().take(THREADS_MAX) {
            let thread = thread.path();
            let text = match fs::read_to_string(thread.join("syscall")) {
                Ok(text) => text,
                Err(error) => {
                    if error.kind() == std::io::ErrorKind::PermissionDenied {
                        self.refused.insert(process);
                    }
                    continue;
                }
            };
            let Some(need) = Call::parse(&text).and_then(|call| call.needs(process)) else {
                continue;
            };
            let is_in_device = waits_for_device(&thread);
            // It may have gone on meanwhile.
            if fs::read_to_string(thread.join("syscall")).is_ok_and(|now| now == text) {
                self.add(need);
                waits += u64::from(is_in_device);
            }
        }
        waits
    }

    fn add(&mut self, need: Need) {
        let Need { path, kind, range, opens } = need;
        if self.known.len() >= NEEDS_MAX || !self.known.insert((Arc::clone(&path), kind, range.start)) {
            return;
        }
        let log = self.channel.access_log();
        let at = log.time(ffi::ticks());
        match kind {
            Kind::Read => {
                self.files.look(&path);
                self.write_range(at, &path, Use::Read, range);
            }
            Kind::Directory => self.write_range(at, &path, Use::Listed, range),
            Kind::Link => drop(log.append_path(Outcome::Link, at, 0, &path)),
            _ => self.open.push_back(LookUp { at, path, opens }),
        }
    }

    fn write_range(&mut self, at: u32, path: &Arc<[u8]>, used: Use, range: Range<u64>) {
        let log = self.channel.access_log();
        if !self.named.contains_key(path) {
            let Some(place) = log.append_path(Outcome::Named, at, 0, path) else { return };
            if let Some(identity) = self.files.get(path) {
                // Its open was not seen to wait.
                log.append_attributes(at, place, &attributes(identity));
            }
            self.named.insert(Arc::clone(path), Named { place, last: None });
        }
        let Some(named) = self.named.get_mut(path) else { return };
        match &mut named.last {
            Some((place, last)) if goes_on(last, &range) => {
                last.end = last.end.max(range.end);
                log.extend(*place, last.end);
            }
            last => {
                let place = log.append_range(used, at, named.place, range.start, range.end);
                *last = place.map(|place| (place, range));
            }
        }
    }

    /// Writes down the look-ups whose outcome is known by now.
    fn settle(&mut self) {
        for look_up in std::mem::take(&mut self.open) {
            match presence(&look_up.path) {
                Presence::There => self.write_look_up(&look_up, Outcome::Found),
                Presence::Missing => self.write_look_up(&look_up, Outcome::Missing),
                Presence::Unknown => self.open.push_back(look_up),
            }
        }
        while self.open.len() > OPEN_MAX
            && let Some(oldest) = self.open.pop_front()
        {
            self.write_look_up(&oldest, Outcome::Found);
        }
    }

    fn write_look_up(&mut self, look_up: &LookUp, outcome: Outcome) {
        let LookUp { at, path, opens } = look_up;
        let log = self.channel.access_log();
        let Some(place) = log.append_path(outcome, *at, 0, path) else { return };
        if outcome == Outcome::Found && *opens {
            self.files.look(path);
            if let Some(identity) = self.files.get(path) {
                log.append_attributes(*at, place, &attributes(identity));
            }
        }
    }

    /// Tells the executor that threads wait, as agents do.
    fn tell(&self, waits: u64) {
        let header = self.channel.header();
        if waits == 0 || header.enabled.load(Relaxed) == 0 {
            return;
        }
        let ticks_per_us = header.ticks_per_second.load(Relaxed) / 1_000_000;
        let ticks = ticks_per_us.saturating_mul(self.sample.as_micros() as u64);
        header.neighbours.slot.store(NO_SLOT, Relaxed);
        header.neighbours.on_waits(waits, ticks.saturating_mul(waits));
        executor::wake(&self.channel);
    }
}

fn attributes(identity: Identity) -> Attributes {
    let Identity { dev, ino, size, mtime_ns } = identity;
    Attributes { dev, ino, size, mtime_ns }
}

/// Whether a read goes on in sequence after another one.
fn goes_on(last: &Range<u64>, next: &Range<u64>) -> bool {
    (last.start..=last.end.saturating_add(NEAR_BYTES)).contains(&next.start)
}

/// Whether a thread is in a wait that no signal ends: not for a terminal, a pipe or a peer.
fn waits_for_device(thread: &std::path::Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'))
}

/// Whether processes of the run have no agent, and are of this user's rights.
fn are_there(channel: &Channel) -> bool {
    let counts = channel.header().processes_unassisted.iter().enumerate();
    counts
        .into_iter()
        .any(|(reason, count)| reason != Unassisted::Privileged as usize && count.load(Relaxed) > 0)
}

/// The processes of a run that have no agent, see the files that this process sees, and have no more rights.
fn without_agent(channel: &Channel, first: u32) -> Vec<Member> {
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
    let (own, user) = (view("self"), geteuid());
    let member = |process: u32| {
        let owner = fs::metadata(format!("/proc/{process}")).ok()?.uid();
        let is_of_user = owner == user.as_raw();
        let is_ours = !assisted.contains(&process)
            && (is_of_user || user.is_root())
            && own.is_some()
            && view(&process.to_string()) == own;
        is_ours.then_some(Member { process, is_of_user })
    };
    let mut all = Vec::new();
    let mut waiting = vec![first];
    while let Some(process) = waiting.pop()
        && all.len() < PROCESSES_MAX
    {
        all.push(process);
        waiting.extend(family::children(process));
    }
    all.into_iter().filter_map(member).collect()
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
    fn needs(&self, process: u32) -> Option<Need> {
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
                let path = link(process, &format!("fd/{a}"))?;
                return Some(Need { path, kind: Kind::Directory, range: 0..0, opens: false });
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
        let opens = matches!(self.number, libc::SYS_open | libc::SYS_openat | libc::SYS_openat2);
        Some(Need { path: joined_to(&base, &path)?, kind, range: 0..0, opens })
    }
}

/// What a read of a descriptor needs: at an offset, or where the descriptor is, with what the kernel reads ahead then.
fn read(process: u32, descriptor: u64, offset: Option<u64>, count: u64) -> Option<Need> {
    let path = link(process, &format!("fd/{descriptor}"))?;
    let (start, count) = match offset {
        Some(offset) => (offset, count.max(1)),
        None => {
            let about = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
            (kernel_text::field(&about, "pos")?.parse().ok()?, count.max(READ_AHEAD_BYTES))
        }
    };
    Some(Need { path, kind: Kind::Read, range: start..start.saturating_add(count), opens: false })
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
    use crate::profiles::access::{Entry, LogReader};

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
        let channel = Arc::new(Channel::create(true).unwrap());
        let mut waits = Waits::new(channel, std::process::id());
        assert_eq!((waits.look(), waits.are_of_first()), (PAUSE_MAX, false));
    }

    #[test]
    fn a_program_without_an_agent_is_told_from_others() {
        let channel = Arc::new(Channel::create(true).unwrap());
        channel.header().processes_unassisted[Unassisted::Static as usize].store(1, Relaxed);
        let mut waits = Waits::new(channel, std::process::id());
        let _ = waits.look();
        assert!(waits.are_of_first());
    }

    #[test]
    fn what_is_waited_for_is_in_the_log_as_agents_write_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| -> Arc<[u8]> { folder.path().join(name).into_os_string().into_vec().into() };
        fs::write(folder.path().join("file"), [1; 1000]).unwrap();
        let channel = Arc::new(Channel::create(true).unwrap());
        let mut waits = Waits::new(channel.clone(), std::process::id());
        let (file, none) = (at("file"), at("none"));
        assert!(!folder.path().join("none").exists());
        let mut add = |path: &Arc<[u8]>, kind, range: Range<u64>| {
            waits.add(Need { path: path.clone(), kind, range, opens: kind == Kind::LookUp });
        };
        add(&file, Kind::LookUp, 0..0);
        add(&none, Kind::LookUp, 0..0);
        add(&file, Kind::Read, 0..100);
        add(&file, Kind::Read, 100..200);
        add(&file, Kind::Read, 0..100);
        add(&file, Kind::Read, 10_000_000..10_000_001);
        waits.settle();
        waits.add(Need { path: at("last"), kind: Kind::LookUp, range: 0..0, opens: true });
        waits.finish();
        let mut reader = LogReader::default();
        let all: Vec<_> = std::iter::from_fn(|| reader.next(channel.access_log())).collect();
        let text = |entry: &Entry| match entry {
            Entry::Needed { path, kind, range, .. } => {
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap();
                format!("{kind:?} {} {range:?}", String::from_utf8_lossy(name))
            }
            Entry::File { opened, identity, .. } => {
                format!("file of {}, opened: {}", identity.size, opened.is_some())
            }
            Entry::Made { .. } => "made".to_owned(),
        };
        let expected = [
            "file of 1000, opened: true",
            "Read file 0..200",
            "Read file 10000000..10000001",
            "LookUp file 0..0",
            "file of 1000, opened: true",
            "Missing none 0..0",
            "LookUp last 0..0",
        ];
        assert_eq!(all.iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_executor_is_told_of_waits_where_speculation_is_wanted() {
        for enabled in [true, false] {
            let channel = Arc::new(Channel::create(enabled).unwrap());
            let mut waits = Waits::new(channel.clone(), std::process::id());
            waits.sample = Duration::from_millis(1);
            waits.tell(0);
            waits.tell(2);
            let header = channel.header();
            let (told, slot) = (header.neighbours.waits.load(Relaxed), header.neighbours.slot.load(Relaxed));
            assert_eq!((told, slot == NO_SLOT), if enabled { (2, true) } else { (0, false) });
            let ms = header.ticks_per_second.load(Relaxed) / 1_000_000 * 1_000;
            assert_eq!(header.neighbours.wait_ticks.load(Relaxed), told * ms);
        }
    }
}
