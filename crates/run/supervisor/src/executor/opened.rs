//! Files that are opened ahead of a program, which takes them in place of opens of its own. That is done on FUSE, where an open is a
//! request that no hint makes shorter.
//!
//! A file lies in a message of a socket, and nowhere else. So a program that has taken one has its only descriptor: where the program
//! closes or removes it, no other one keeps it.

use std::{
    collections::HashMap,
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU32,
            Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        },
    },
};

use forebay_policy::price::{REMOTE_KEPT_MS, REPLAY_OTHERS_MAX};
use forebay_protocol::layout::{
    Figures, OPENED_ENOUGH, OPENED_FREE, OPENED_READY, OPENED_RESERVED, OPENED_TAKEN, OpenedFile,
    SLOT_CLAIMED, Taker, replay, replayed_open_key,
};
use rustix::{
    cmsg_space,
    fs::{Statx, makedev},
    io::Errno,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
        sendmsg, socketpair,
    },
};

use crate::{channel::Channel, ffi};

/// The open of a program that was foretold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The slot of the process.
    pub slot: usize,
    /// Tells it; see [`forebay_protocol::layout::open_key`].
    pub key: u64,
    /// See [`forebay_protocol::layout::shown_flags`].
    pub flags: u32,
    /// Where a replay foretold it, for whom; else the process's speculator did.
    pub taker: Option<Taker>,
}

impl Open {
    /// That of a file whose data a replay brings, by the process that takes such files now.
    pub fn of_replay(channel: &Channel, path: &[u8]) -> Option<Self> {
        let taker = channel.header().replay.taker()?;
        let process = channel.slot(taker.slot).pid.load(Relaxed);
        let key = replayed_open_key(path, process);
        Some(Self { slot: taker.slot, key, flags: 0, taker: Some(taker) })
    }
}

/// Files that lie open.
#[derive(Clone)]
pub struct Opened {
    channel: Arc<Channel>,
    /// By their places; also those that were taken since the last [`Self::sweep`].
    lying: Arc<Mutex<HashMap<usize, Lying>>>,
    /// Files of a replay that nobody came for, since one was taken.
    untaken: Arc<AtomicU32>,
}

/// A file for a process, which waits at its end until it is closed or taken.
struct Lying {
    slot: usize,
    foretold: Foretold,
    since: u64,
    _socket: OwnedFd,
}

/// Who foretold an open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Foretold {
    /// The speculator of this generation.
    BySpeculator(u32),
    /// The replay, for this process.
    ByReplay(Taker),
}

/// What is left of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Its socket: it was taken.
    Socket,
    /// The file itself.
    File,
}

/// A place for a file that is being opened; free again where none is laid there.
pub struct Place {
    opened: Opened,
    index: usize,
    slot: usize,
    foretold: Foretold,
    is_filled: bool,
}

impl Opened {
    /// Files for the processes of `channel`.
    pub fn new(channel: Arc<Channel>) -> Self {
        Self { channel, lying: Arc::default(), untaken: Arc::default() }
    }

    /// Whether another file may be opened ahead: the rest of the places is for those that are being opened.
    pub fn has_room(&self) -> bool {
        self.channel.header().opened_count.load(Relaxed) < OPENED_ENOUGH
    }

    /// A place for a file that is to be opened. Where the program takes other files than a replay foretold, or comes too late for them,
    /// the replay has one place, until a file is taken again.
    pub fn reserve(&self, open: Open) -> Option<Place> {
        let header = self.channel.header();
        let Open { slot, key, taker, .. } = open;
        let is_trial = self.untaken.load(Relaxed) >= REPLAY_OTHERS_MAX;
        let has_room = if is_trial { header.opened_count.load(Relaxed) == 0 } else { self.has_room() };
        if taker.is_some() && !has_room {
            return None;
        }
        let claim = |file: &OpenedFile| {
            file.state.compare_exchange(OPENED_FREE, OPENED_RESERVED, AcqRel, Relaxed).is_ok()
        };
        let index = header.opened.iter().position(claim)?;
        header.opened[index].key.store(key, Relaxed);
        header.opened_count.fetch_add(1, Relaxed);
        let of_speculator = || Foretold::BySpeculator(self.channel.slot(slot).generation.load(Relaxed));
        let foretold = taker.map_or_else(of_speculator, Foretold::ByReplay);
        Some(Place { opened: self.clone(), index, slot, foretold, is_filled: false })
    }

    /// Closes what nobody comes for any more.
    pub fn sweep(&self) {
        let mut lying = self.lock();
        if lying.is_empty() {
            return;
        }
        let now = ffi::ticks();
        let left = |(index, file): (&usize, &Lying)| Some((*index, self.left(*index, file, now)?));
        let all: Vec<_> = lying.iter().filter_map(left).collect();
        for (index, left) in all {
            // With its socket a file is closed that still lies there.
            let Some(Lying { slot, foretold, .. }) = lying.remove(&index) else { continue };
            let is_of_replay = matches!(foretold, Foretold::ByReplay(_));
            if left == Left::File {
                self.untaken.fetch_add(is_of_replay.into(), Relaxed);
                self.release(index);
                self.channel.header().jobs[slot].fetch_sub(1, SeqCst);
            } else if is_of_replay {
                self.untaken.store(0, Relaxed);
            }
        }
    }

    /// What is left where a file was taken, or nobody can take it any more. Its place is reserved then.
    fn left(&self, index: usize, file: &Lying, now: u64) -> Option<Left> {
        let header = self.channel.header();
        let state = &header.opened[index].state;
        let kept = header.ticks_per_second.load(Relaxed) / 1_000 * REMOTE_KEPT_MS;
        let is_old = || now.wrapping_sub(file.since) > kept;
        let was = state.load(Acquire);
        let is_over = match was {
            OPENED_READY => is_old() || !self.is_expected(file),
            // Its process was killed over it.
            OPENED_TAKEN => is_old(),
            // Another file may be on its way there.
            _ => return Some(Left::Socket),
        };
        let is_reserved = is_over && state.compare_exchange(was, OPENED_RESERVED, AcqRel, Relaxed).is_ok();
        is_reserved.then_some(Left::File)
    }

    /// Whether the speculation or the replay goes on for which the file was opened, and no program waits for what is open.
    fn is_expected(&self, file: &Lying) -> bool {
        let (header, slot) = (self.channel.header(), self.channel.slot(file.slot));
        header.slot_states[file.slot].load(SeqCst) == SLOT_CLAIMED
            && header.files_watched.load(SeqCst) == 0
            && ffi::ticks() >= header.quiet_until.load(SeqCst).max(slot.quiet_until.load(SeqCst))
            && match file.foretold {
                Foretold::BySpeculator(generation) => slot.generation.load(Relaxed) == generation,
                Foretold::ByReplay(taker) => {
                    header.replay.taker() == Some(taker)
                        && header.replay.state.load(Relaxed) != replay::STOPPED
                }
            }
    }

    /// A place that is reserved is free again.
    fn release(&self, index: usize) {
        let header = self.channel.header();
        header.opened[index].state.store(OPENED_FREE, Release);
        header.opened_count.fetch_sub(1, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Lying>> {
        self.lying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Lays a file there, of which this is known. From now on the process waits for it at its end; it has waited for the job until now,
    /// unless that took too long.
    pub fn fill(mut self, file: OwnedFd, known: &Statx) -> Result<(), Errno> {
        let (to, socket) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        let _ = control.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&to, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
        // The message has it.
        drop(file);
        let since = ffi::ticks();
        let place = &self.opened.channel.header().opened[self.index];
        place.socket.store(socket.as_raw_fd().cast_unsigned(), Relaxed);
        place.opened_at.store(since, Relaxed);
        place.figures.store(figures(known).value(), Relaxed);
        let lying = Lying { slot: self.slot, foretold: self.foretold, since, _socket: socket };
        let mut all = self.opened.lock();
        all.insert(self.index, lying);
        self.opened.channel.header().jobs[self.slot].fetch_add(1, SeqCst);
        place.state.store(OPENED_READY, Release);
        drop(all);
        self.is_filled = true;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_filled {
            self.opened.release(self.index);
        }
    }
}

fn figures(known: &Statx) -> Figures {
    let times = [&known.stx_mtime, &known.stx_ctime].map(|time| (time.tv_sec, time.tv_nsec));
    Figures {
        device: makedev(known.stx_dev_major, known.stx_dev_minor),
        inode: known.stx_ino,
        mode: known.stx_mode.into(),
        owner: (known.stx_uid, known.stx_gid),
        size: known.stx_size,
        times,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSliceMut;

    use forebay_protocol::layout::OPENED;

    use rustix::{
        fs::{AtFlags, StatxFlags, statx},
        io::{ioctl_fionbio, read},
        net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
        pipe::pipe,
    };

    const SLOT: usize = 3;
    const OPEN: Open = Open { slot: SLOT, key: 7, flags: 0, taker: None };

    /// A channel with a process, and files for it.
    fn fixture() -> Opened {
        let channel = Arc::new(Channel::create(true).unwrap());
        channel.header().ticks_per_second.store(1 << 40, Relaxed);
        channel.header().slot_states[SLOT].store(SLOT_CLAIMED, Relaxed);
        channel.slot(SLOT).generation.store(5, Relaxed);
        Opened::new(channel)
    }

    /// Opens a pipe's end ahead: its other end tells when it is closed.
    fn fill(opened: &Opened, open: Open) -> OwnedFd {
        let (watched, file) = pipe().unwrap();
        let known = statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).unwrap();
        opened.reserve(open).unwrap().fill(file, &known).unwrap();
        watched
    }

    /// The open of a replay.
    fn replayed(opened: &Opened) -> Open {
        opened.channel.header().replay.begin_taking(SLOT);
        Open::of_replay(&opened.channel, b"/a").unwrap()
    }

    fn is_closed(watched: &OwnedFd) -> bool {
        ioctl_fionbio(watched, true).unwrap();
        read(watched, &mut [0]) == Ok(0)
    }

    fn counts(opened: &Opened) -> (u32, u32) {
        let header = opened.channel.header();
        (header.opened_count.load(Relaxed), header.jobs[SLOT].load(Relaxed))
    }

    #[test]
    fn a_file_lies_open_while_what_it_was_opened_for_goes_on() {
        type End = fn(&Opened);
        let of_both: [End; 5] = [
            |opened| opened.channel.slot(SLOT).quiet_until.store(u64::MAX, Relaxed),
            |opened| opened.channel.header().slot_states[SLOT].store(0, Relaxed),
            |opened| opened.channel.header().files_watched.store(1, Relaxed),
            |opened| opened.channel.header().quiet_until.store(u64::MAX, Relaxed),
            // It is open for too long.
            |opened| opened.channel.header().ticks_per_second.store(0, Relaxed),
        ];
        let of_speculation: End = |opened| opened.channel.slot(SLOT).generation.store(6, Relaxed);
        let of_replay: [End; 3] = [
            |opened| opened.channel.header().replay.end_taking(SLOT),
            |opened| opened.channel.header().replay.begin_taking(SLOT),
            |opened| opened.channel.header().replay.state.store(replay::STOPPED, Relaxed),
        ];
        type Foretell = fn(&Opened) -> Open;
        let speculated: Foretell = |_| OPEN;
        let ends = of_both.into_iter().chain([of_speculation]).map(|end| (speculated, end));
        let ends = ends.chain(of_both.into_iter().chain(of_replay).map(|end| (replayed as Foretell, end)));
        for (open, end) in ends {
            let opened = fixture();
            let watched = fill(&opened, open(&opened));
            opened.sweep();
            assert!(!is_closed(&watched));
            assert_eq!(counts(&opened), (1, 1), "the process would wait for it");
            end(&opened);
            opened.sweep();
            assert!(is_closed(&watched));
            assert_eq!(counts(&opened), (0, 0));
        }
    }

    #[test]
    fn a_replay_whose_files_the_program_does_not_take_opens_one_at_a_time() {
        let opened = fixture();
        let header = opened.channel.header();
        for _ in 0..REPLAY_OTHERS_MAX {
            let _watched = fill(&opened, replayed(&opened));
            header.ticks_per_second.store(0, Relaxed);
            opened.sweep();
            header.ticks_per_second.store(1 << 40, Relaxed);
        }
        let _watched = fill(&opened, replayed(&opened));
        assert!(opened.reserve(replayed(&opened)).is_none());
        assert!(opened.reserve(OPEN).is_some(), "a speculator foretells its program's own");
        // The program takes it.
        let file = header.opened.iter().find(|file| file.state.load(Relaxed) == OPENED_READY).unwrap();
        file.state.store(OPENED_FREE, Relaxed);
        header.opened_count.store(0, Relaxed);
        header.jobs[SLOT].store(0, Relaxed);
        opened.sweep();
        let _watched = [fill(&opened, replayed(&opened)), fill(&opened, replayed(&opened))];
        assert_eq!(counts(&opened), (2, 2));
    }

    #[test]
    fn what_was_taken_is_forgotten() {
        let opened = fixture();
        let _watched = fill(&opened, OPEN);
        let header = opened.channel.header();
        let file = header.opened.iter().find(|file| file.key.load(Relaxed) == OPEN.key).unwrap();
        assert_eq!(file.state.load(Relaxed), OPENED_READY);
        // As the program does.
        file.state.store(OPENED_FREE, Relaxed);
        header.opened_count.store(0, Relaxed);
        header.jobs[SLOT].store(0, Relaxed);
        opened.sweep();
        assert!(opened.lock().is_empty());
        assert_eq!(counts(&opened), (0, 0));
    }

    #[test]
    fn a_place_that_is_not_filled_is_free_again() {
        let opened = fixture();
        let places: Vec<_> = (0..OPENED).map(|_| opened.reserve(OPEN).unwrap()).collect();
        assert!(!opened.has_room() && opened.reserve(OPEN).is_none());
        assert_eq!(counts(&opened), (OPENED as u32, 0), "an open that gets no answer would keep the process");
        drop(places);
        assert!(opened.has_room());
        assert_eq!(counts(&opened), (0, 0));
    }

    #[test]
    fn who_takes_a_file_has_its_only_descriptor() {
        let opened = fixture();
        let watched = fill(&opened, OPEN);
        let lying = opened.lock();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let (mut byte, socket) = ([0], &lying.values().next().unwrap()._socket);
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::DONTWAIT).unwrap();
        let taken: Vec<_> = control.drain().collect();
        assert!(matches!(taken[..], [RecvAncillaryMessage::ScmRights(_)]));
        assert!(!is_closed(&watched));
        drop(taken);
        assert!(is_closed(&watched));
    }
}
