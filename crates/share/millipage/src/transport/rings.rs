//! The transport between hosts of one machine that see each other's processes, and between hosts in one process. Messages lie in
//! rings in memory that both hosts map, and contents are copied from the sender's memory object.
//!
//! Each host that serves a machine has an *inbox*: a ring for each sender, and a mark for each ring that holds something. A
//! sender makes a system call only where the receiver sleeps. Nothing here allocates while a ring has room.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    os::fd::BorrowedFd,
    ptr,
    sync::{
        Arc,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
        },
    },
    thread,
    time::{Duration, Instant},
};

use forebay_coherence::{HostId, MESSAGE_BYTES, Message};
use forebay_vm::{DescriptorName, Mapping, Object, ObjectName, Views};

use super::{
    Contents, Next, Sink,
    said::Said,
    watched::{Way, lost_elsewhere},
};
use crate::{
    Error,
    doorbell::Doorbell,
    parts::{Parts, Words},
};

/// Messages that a ring has room for. More wait at the sender.
const ROOM: u32 = 128;
/// Rings that one word of marks is for.
const MARKS: usize = u64::BITS as usize;
/// How long a host that leaves waits until what it said has room.
const FLUSH: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1);

/// What a ring holds: what kind of thing is said, and a message.
type Entry = [u64; 3];

const HERE: u64 = 0;
const LOST: u64 = 1;
const MESSAGE: u64 = 2;
/// The kind is in the low bits, a lost host above.
const HOST_SHIFT: u32 = 8;

/// What all senders to a host look at.
#[repr(C, align(64))]
struct Head {
    /// 1 where the receiver sleeps until something arrives.
    listens: AtomicU32,
}

/// A bit for each ring that may hold something.
#[repr(C, align(64))]
pub struct Marks(AtomicU64);

impl Marks {
    pub(crate) fn are_set(&self) -> bool {
        self.0.load(SeqCst) != 0
    }
}

/// Messages of one sender to one receiver.
#[repr(C)]
struct Ring {
    sender: Written,
    receiver: Taken,
    entries: [[AtomicU64; 3]; ROOM as usize],
}

/// What the sender writes.
#[repr(C, align(64))]
struct Written {
    /// Entries, counted from the beginning.
    count: AtomicU32,
    /// 1 where the sender waits for room.
    is_full: AtomicU32,
}

/// What the receiver writes.
#[repr(C, align(64))]
struct Taken {
    count: AtomicU32,
}

// SAFETY: atomic words, and space between them.
unsafe impl Words for Head {}
// SAFETY: as above.
unsafe impl Words for Marks {}
// SAFETY: as above.
unsafe impl Words for Ring {}

impl Ring {
    /// Whether there was room.
    fn write(&self, said: Said) -> bool {
        let written = self.sender.count.load(Relaxed);
        if written.wrapping_sub(self.receiver.count.load(SeqCst)) >= ROOM {
            return false;
        }
        let entry = &self.entries[(written % ROOM) as usize];
        entry.iter().zip(to_words(said)).for_each(|(word, value)| word.store(value, Relaxed));
        self.sender.count.store(written.wrapping_add(1), Release);
        true
    }

    /// The next entry.
    fn next(&self) -> Option<Entry> {
        let taken = self.receiver.count.load(Relaxed);
        let entry = &self.entries[(taken % ROOM) as usize];
        let is_there = taken != self.sender.count.load(Acquire);
        is_there.then(|| entry.each_ref().map(|word| word.load(Relaxed)))
    }

    /// The next entry is taken, and there is room for another one.
    fn pass(&self) {
        let taken = self.receiver.count.load(Relaxed);
        self.receiver.count.store(taken.wrapping_add(1), SeqCst);
    }
}

fn to_words(said: Said) -> Entry {
    match said {
        Said::Here => [HERE, 0, 0],
        Said::Lost(host) => [LOST | u64::from(host.0) << HOST_SHIFT, 0, 0],
        Said::Message(message) => {
            let bytes = message.to_bytes();
            let (first, second) = bytes.split_at(MESSAGE_BYTES / 2);
            let word = |half: &[u8]| half.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            [MESSAGE, word(first), word(second)]
        }
    }
}

/// What an entry says in a job of so many hosts; `None` where that makes no sense.
fn from_words([kind, first, second]: Entry, hosts: usize) -> Option<Said> {
    let said = match kind & ((1 << HOST_SHIFT) - 1) {
        HERE => Said::Here,
        LOST => Said::Lost(HostId(u16::try_from(kind >> HOST_SHIFT).ok()?)),
        MESSAGE => {
            let mut bytes = [0; MESSAGE_BYTES];
            bytes[..8].copy_from_slice(&first.to_le_bytes());
            bytes[8..].copy_from_slice(&second.to_le_bytes());
            Said::Message(Message::from_bytes(&bytes)?)
        }
        _ => return None,
    };
    let named = match said {
        Said::Lost(host) | Said::Message(Message::Forward { requester: host, .. }) => host.index(),
        _ => 0,
    };
    (named < hosts).then_some(said)
}

/// Where others write to a host.
#[derive(Clone, Copy)]
struct Inbox {
    head: &'static Head,
    marks: &'static [Marks],
    /// By the sender's rank.
    rings: &'static [Ring],
}

impl Inbox {
    const fn bytes(hosts: usize) -> usize {
        Parts::bytes::<Head>(1) + Parts::bytes::<Marks>(hosts.div_ceil(MARKS)) + Parts::bytes::<Ring>(hosts)
    }

    fn new(object: &Object, hosts: usize) -> Result<Self, Error> {
        let mut parts = Parts::of(Mapping::new(object)?);
        Ok(Self {
            head: &parts.take(1)[0],
            marks: parts.take(hosts.div_ceil(MARKS)),
            rings: parts.take(hosts),
        })
    }
}

/// What a host offers to the others: its inbox, and what it sends from.
pub struct Offer {
    object: Object,
    inbox: Inbox,
    names: String,
}

impl Offer {
    /// In a job of so many hosts: the memory, and the doorbell that wakes this host.
    ///
    /// # Errors
    /// The kernel has no such object.
    pub fn new(hosts: usize, memory: &Object, doorbell: &Doorbell) -> Result<Self, Error> {
        let object = Object::sparse(Inbox::bytes(hosts))?;
        let inbox = Inbox::new(&object, hosts)?;
        let names =
            format!("{}\n{}\n{}", object.name()?, memory.name()?, doorbell.name().map_err(Error::Wait)?);
        Ok(Self { object, inbox, names })
    }

    /// What the other hosts have to know.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.names.clone().into_bytes()
    }
}

/// A host as another one sees it.
#[derive(Clone)]
pub struct End {
    inbox: Inbox,
    /// Its memory, as this process maps it: an address, and how many bytes.
    memory: (usize, usize),
    /// Unmapped with the last end. None where the host is in this process, and maps it itself.
    _mapped: Option<Arc<Views>>,
    doorbell: Arc<Doorbell>,
}

impl End {
    /// That of a host in this process, in a job of so many hosts.
    ///
    /// # Errors
    /// The kernel has no such object.
    pub fn here(hosts: usize, views: &Views, doorbell: &Doorbell) -> Result<Self, Error> {
        let inbox = Inbox::new(&Object::sparse(Inbox::bytes(hosts))?, hosts)?;
        let doorbell = doorbell.beside(&inbox.head.listens).map_err(Error::Wait)?;
        let memory = (views.privileged(0), views.bytes());
        Ok(Self { inbox, memory, _mapped: None, doorbell: Arc::new(doorbell) })
    }

    /// That of a host in another process, which has said its names.
    fn there(hosts: usize, said: &[u8]) -> Result<Self, Error> {
        let names = String::from_utf8_lossy(said);
        let mut names = names.lines();
        let mut object = || -> Result<Object, Error> {
            let name: Option<ObjectName> = names.next().and_then(|name| name.parse().ok());
            Ok(Object::named(&name.ok_or(Error::Garbled)?)?)
        };
        let inbox = object()?;
        if inbox.bytes() < Inbox::bytes(hosts) {
            return Err(Error::Garbled);
        }
        let inbox = Inbox::new(&inbox, hosts)?;
        let mapped = Views::map_sparse(&object()?, 0, None)?;
        let doorbell: Option<DescriptorName> = names.next().and_then(|name| name.parse().ok());
        let doorbell = Doorbell::named(&doorbell.ok_or(Error::Garbled)?, &inbox.head.listens);
        let memory = (mapped.privileged(0), mapped.bytes());
        Ok(Self {
            inbox,
            memory,
            _mapped: Some(Arc::new(mapped)),
            doorbell: Arc::new(doorbell.map_err(Error::Wait)?),
        })
    }
}

/// One host's way to the others.
pub struct Rings {
    me: HostId,
    /// Where its own memory begins.
    base: usize,
    inbox: Inbox,
    /// By rank; none to itself, and none that serves no machine.
    peers: Vec<Option<Peer>>,
    /// A host is lost: what waits for room there will not get any.
    is_broken: bool,
    /// Others open it by its name until all have.
    _object: Option<Object>,
}

/// Another host.
struct Peer {
    end: End,
    /// What its ring had no room for.
    waiting: VecDeque<Said>,
}

impl Peer {
    fn new(end: End) -> Self {
        Self { end, waiting: VecDeque::with_capacity(ROOM as usize) }
    }

    /// Says something as host `me`, now or when there is room.
    fn say(&mut self, me: HostId, said: Said) {
        if self.waiting.is_empty() && self.ring(me).write(said) {
            self.tell(me);
        } else {
            self.waiting.push_back(said);
            self.push(me);
        }
    }

    /// Writes as much of what waits as there is room for.
    fn push(&mut self, me: HostId) {
        let ring = self.ring(me);
        let mut has_written = false;
        while let Some(said) = self.waiting.front() {
            let is_new = || ring.sender.is_full.swap(1, SeqCst) == 0;
            // The receiver rings where it makes room after that is noted.
            if !(ring.write(*said) || is_new() && ring.write(*said)) {
                break;
            }
            self.waiting.pop_front();
            has_written = true;
        }
        if has_written {
            self.tell(me);
        }
    }

    fn tell(&self, me: HostId) {
        let (word, bit) = place(me.index());
        self.end.inbox.marks[word].0.fetch_or(bit, SeqCst);
        self.end.doorbell.ring();
    }

    fn ring(&self, me: HostId) -> &'static Ring {
        &self.end.inbox.rings[me.index()]
    }
}

/// The mark of a ring.
const fn place(host: usize) -> (usize, u64) {
    (host / MARKS, 1 << (host % MARKS))
}

impl Rings {
    /// That of host `me`, which has made its offer, to the hosts that have `said` theirs, by rank. A host that said nothing
    /// serves no machine.
    ///
    /// # Errors
    /// A host's inbox or memory cannot be opened here.
    pub fn new(offer: Offer, me: HostId, views: &Views, said: &[Vec<u8>]) -> Result<Self, Error> {
        let Offer { object, inbox, .. } = offer;
        let peer = |(host, said): (usize, &Vec<u8>)| {
            let is_other = host != me.index() && !said.is_empty();
            is_other.then(|| End::there(inbox.rings.len(), said).map(Peer::new)).transpose()
        };
        let peers = said.iter().enumerate().map(peer).collect::<Result<_, _>>()?;
        let base = views.privileged(0);
        Ok(Self { me, base, inbox, peers, is_broken: false, _object: Some(object) })
    }

    /// That of host `me` to others in the same process, by rank. A host without an end serves no machine.
    pub fn within_process(ends: &[Option<End>], me: HostId) -> Option<Self> {
        let End { inbox, memory: (base, _), .. } = ends.get(me.index())?.clone()?;
        let others = ends.iter().enumerate().map(|(host, end)| end.clone().filter(|_| host != me.index()));
        let peers = others.map(|end| end.map(Peer::new)).collect();
        Some(Self { me, base, inbox, peers, is_broken: false, _object: None })
    }

    /// Takes all that a host has said, and notes the first error.
    fn pull(
        &mut self,
        host: usize,
        sink: &mut dyn Sink,
        heard: &mut dyn FnMut(HostId),
        failed: &mut Option<Error>,
    ) -> usize {
        let Some(Some(peer)) = self.peers.get(host) else { return 0 };
        let (from, ring, hosts) = (HostId(host as u16), &self.inbox.rings[host], self.peers.len());
        let mut messages = 0;
        heard(from);
        while let Some(words) = ring.next() {
            ring.pass();
            let taken = match from_words(words, hosts) {
                None => Err(Error::Garbled),
                Some(Said::Here) => Ok(0),
                Some(Said::Lost(lost)) => Err(lost_elsewhere(lost, from)),
                Some(Said::Message(message)) => {
                    if sink.room(message).is_none_or(|room| peer.copy(self.base, room)) {
                        sink.take(from, message);
                        Ok(1)
                    } else {
                        Err(Error::Garbled)
                    }
                }
            };
            match taken {
                Ok(count) => messages += count,
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        peer.make_room(ring);
        messages
    }

    fn has_waiting(&self) -> bool {
        self.peers.iter().flatten().any(|peer| !peer.waiting.is_empty())
    }
}

impl Peer {
    /// Something of what this host has written is taken.
    fn make_room(&self, ring: &Ring) {
        if ring.sender.is_full.load(SeqCst) != 0 && ring.sender.is_full.swap(0, SeqCst) != 0 {
            self.end.doorbell.ring();
        }
    }

    /// Copies contents from this host's memory to the same place of the own one, which begins at `base`. Whether they are there.
    fn copy(&self, base: usize, to: Contents) -> bool {
        let ((address, bytes), offset) = (self.end.memory, to.address.wrapping_sub(base));
        if offset.checked_add(to.bytes).is_none_or(|end| end > bytes) {
            return false;
        }
        let from = (address + offset) as *const u8;
        // SAFETY: the bytes are within the mapping, as was just seen, and its sender leaves them as they are. The room is the
        // receiver's, which lets no thread use it now.
        unsafe { ptr::copy_nonoverlapping(from, to.address as *mut u8, to.bytes) };
        true
    }
}

impl Way for Rings {
    fn leads_to(&self, host: HostId) -> bool {
        self.peers.get(host.index()).is_some_and(Option::is_some)
    }

    fn say(&mut self, to: HostId, said: Said, contents: Contents) -> Result<(), Error> {
        debug_assert!(contents.bytes == 0 || contents.address >= self.base, "contents outside the memory");
        if let Some(Some(peer)) = self.peers.get_mut(to.index()) {
            peer.say(self.me, said);
        }
        Ok(())
    }

    fn take(&mut self, sink: &mut dyn Sink, heard: &mut dyn FnMut(HostId)) -> Result<usize, Error> {
        self.push();
        let (mut messages, mut failed) = (0, None);
        for (word, marks) in self.inbox.marks.iter().enumerate() {
            if marks.0.load(SeqCst) == 0 {
                continue;
            }
            let mut marked = marks.0.swap(0, SeqCst);
            while marked != 0 {
                let host = word * MARKS + marked.trailing_zeros() as usize;
                marked &= marked - 1;
                messages += self.pull(host, sink, heard, &mut failed);
            }
        }
        failed.map_or(Ok(messages), Err)
    }

    fn push(&mut self) {
        for peer in self.peers.iter_mut().flatten().filter(|peer| !peer.waiting.is_empty()) {
            peer.push(self.me);
        }
    }

    fn marks(&self) -> Option<&'static [Marks]> {
        Some(self.inbox.marks)
    }

    fn take_over(&mut self) -> bool {
        // Nothing waits, so there is room for much to wait.
        if self.has_waiting() {
            return false;
        }
        self.inbox.head.listens.store(0, SeqCst);
        true
    }

    fn take_one(
        &mut self,
        sink: &mut dyn Sink,
        is_wanted: &dyn Fn(Message) -> bool,
        heard: &mut dyn FnMut(HostId),
    ) -> Next {
        if self.has_waiting() {
            return Next::Other;
        }
        for (word, marks) in self.inbox.marks.iter().enumerate() {
            let mut marked = marks.0.load(SeqCst);
            while marked != 0 {
                let host = word * MARKS + marked.trailing_zeros() as usize;
                let bit = marked & marked.wrapping_neg();
                marked &= !bit;
                let Some(Some(peer)) = self.peers.get(host) else { return Next::Other };
                let ring = &self.inbox.rings[host];
                // A sender marks its ring after it has written.
                marks.0.fetch_and(!bit, SeqCst);
                let Some(words) = ring.next() else { continue };
                let message = match from_words(words, self.peers.len()) {
                    Some(Said::Message(message)) if is_wanted(message) => message,
                    _ => {
                        marks.0.fetch_or(bit, SeqCst);
                        return Next::Other;
                    }
                };
                if !sink.room(message).is_none_or(|room| peer.copy(self.base, room)) {
                    marks.0.fetch_or(bit, SeqCst);
                    return Next::Other;
                }
                ring.pass();
                peer.make_room(ring);
                if ring.next().is_some() {
                    marks.0.fetch_or(bit, SeqCst);
                }
                heard(HostId(host as u16));
                sink.take(HostId(host as u16), message);
                return Next::Taken;
            }
        }
        Next::Nothing
    }

    fn give_up(&mut self) {
        self.is_broken = true;
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn may_sleep(&mut self) -> bool {
        self.inbox.head.listens.store(1, SeqCst);
        self.push();
        !self.inbox.marks.iter().any(Marks::are_set)
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        // What is in a ring stays there until the receiver takes it.
        let deadline = Instant::now() + FLUSH;
        while !self.is_broken && self.has_waiting() && Instant::now() < deadline {
            self.push();
            thread::sleep(LOOK);
        }
    }
}
