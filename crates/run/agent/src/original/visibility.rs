//! What would make copies of a process visible to the program, or change what is the program's.
//!
//! A speculator is a process. A process that adopts orphans gets it as a child, and a watcher of files sees what it opens. In
//! a new namespace of processes it may be the first one. None of that can be hidden, so such a program has no speculators.

use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use forebay_protocol::layout::{self, Header, Off};
use forebay_sigsafe::general as n;
use forebay_sigsafe::ioctl::UFFDIO_API;
use forebay_sigsafe::{sys, text};

use super::eligibility::disable_everywhere;
use crate::call::Call;
use crate::speculator::{is_of_file, page_map};
use crate::{environment, process, session};

/// The name of a namespace, such as `pid:[4026531836]`.
const NAME_BYTES: usize = 32;

/// How long a replay's last steps are waited for. The executor may have been killed.
const REPLAY_PAUSES_MAX: u32 = 1000;

/// Process that was looked at.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// Whether the call makes copies of the process visible.
pub fn shows_copies(call: &Call) -> bool {
    let [first, second, third, ..] = call.arguments;
    match call.number as u32 {
        n::__NR_unshare => first as u32 & (n::CLONE_NEWPID | n::CLONE_NEWTIME) != 0,
        n::__NR_ioctl => second as u32 == UFFDIO_API && asks_to_be_told_of_forks(third),
        n::__NR_inotify_add_watch => third as u32 & (n::IN_OPEN | n::IN_ACCESS | n::IN_CLOSE_NOWRITE) != 0,
        // Permission to open is asked of a program that waits for its copy; the namespace may be of processes.
        _ => true,
    }
}

/// Whether that is among the features that a userfaultfd shall have: a forked child then waits until the program has read of it.
#[cold]
fn asks_to_be_told_of_forks(api: usize) -> bool {
    let mut features = [0u8; 8];
    let read = environment::peek(api.wrapping_add(offset_of!(n::uffdio_api, features)), &mut features);
    read == Some(features.len()) && u64::from_ne_bytes(features) & u64::from(n::UFFD_FEATURE_EVENT_FORK) != 0
}

/// Whether the program asks to be told of what is opened and read.
pub fn watches_files(call: &Call) -> bool {
    matches!(call.number as u32, n::__NR_inotify_add_watch | n::__NR_fanotify_init)
}

/// The program is about to watch files: what reads ahead of it ends, and nothing of that is under way when this returns.
pub fn stop_replay() {
    let Some(header) = session::header() else { return };
    header.files_watched.store(1, SeqCst);
    let replay = &header.replay;
    for state in [layout::replay::NONE, layout::replay::ON] {
        let _ = replay.state.compare_exchange(state, layout::replay::STOPPED, SeqCst, SeqCst);
    }
    session::call_in();
    for _ in 0..REPLAY_PAUSES_MAX {
        if replay.under_way.load(SeqCst) == 0 && session::hints_under_way() == 0 {
            return;
        }
        process::pause();
    }
}

/// This process adopts the orphans of all that it started, and of all that they start.
pub fn adopts_orphans() {
    if let Some(header) = session::header() {
        header.enabled.store(0, Relaxed);
    }
    disable_everywhere(Off::Visible);
}

/// Whether what a process is in, and its children would be, is such that a copy of it would show. Looks once.
#[inline(never)]
pub fn shows_in_surroundings(header: &Header) -> bool {
    let process = process::id();
    if LOOKED_AT.load(Relaxed) == process {
        return false;
    }
    let own = Name::read(c"/proc/self/ns/pid");
    let ours = header.pid_namespace.load(Relaxed);
    // The first process of another namespace is one of the program's, and adopts its orphans.
    let is_elsewhere = ours != 0 && own.number().is_some_and(|number| number != ours);
    let shows = is_elsewhere
        || own != Name::read(c"/proc/self/ns/pid_for_children")
        || Name::read(c"/proc/self/ns/time") != Name::read(c"/proc/self/ns/time_for_children");
    if !shows {
        LOOKED_AT.store(process, Relaxed);
    }
    shows
}

/// Whether the calling thread's stack, or what it has for itself, is in memory that a copy of the process has too: it would
/// write to them.
#[inline(never)]
pub fn shows_on_stack() -> bool {
    let local = 0u8;
    let pages = page_map();
    if pages < 0 {
        return false;
    }
    let are_shared = [(&raw const local).addr(), forebay_sigsafe::thread_pointer()]
        .into_iter()
        .any(|address| is_of_file(pages, address));
    // SAFETY: the descriptor is this function's.
    let _ = unsafe { sys!(n::__NR_close, pages) };
    are_shared
}

/// What a namespace is called; the same for all that cannot be read.
#[derive(PartialEq, Eq)]
struct Name([u8; NAME_BYTES]);

impl Name {
    fn read(link: &core::ffi::CStr) -> Self {
        let mut name = [0; NAME_BYTES];
        // SAFETY: a terminated path, and a buffer as large as the call is told.
        let _ = unsafe { sys!(n::__NR_readlink, link.as_ptr(), name.as_mut_ptr(), NAME_BYTES) };
        Self(name)
    }

    fn number(&self) -> Option<u64> {
        let from = self.0.iter().position(u8::is_ascii_digit)?;
        text::parse_decimal(self.0.get(from..)?).map(|(number, _)| number)
    }
}
