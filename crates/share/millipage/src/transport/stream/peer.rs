//! One connection after its handshake: messages wait here until the socket takes them, and are put together from what
//! arrives.

use std::{collections::VecDeque, io, mem, ops::Range, os::fd::OwnedFd, ptr};

use forebay_channel::{Channel, FRAME_EXTRA_BYTES, Opener, TEXT_BYTES_MAX, TEXT_START};
use forebay_coherence::{HostId, Message};
use rustix::{
    buffer::spare_capacity,
    io::Errno,
    net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown},
};

use super::packet::{CONTENTS_BYTES_MAX, PACKET_BYTES_MAX, Packet};
use crate::transport::{Contents, Next, Sink, said::Said};

/// As much is received at a time.
pub const ROOM_BYTES: usize = 2 * TEXT_BYTES_MAX;
/// The socket is asked to take more when so much is sealed.
const SEALED_BYTES: usize = TEXT_BYTES_MAX;
/// Frames that are sent or have arrived, and messages that wait, have so much room from the beginning. There can be more.
const FRAMES_BYTES: usize = 8 << 10;
const WAITING: usize = 64;

/// Why nothing more comes from a host.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// It has closed the connection.
    #[error("its connection has ended")]
    Ended,
    /// The kernel says so.
    #[error("its connection failed: {0}")]
    Failed(#[from] io::Error),
    /// What arrived does not open.
    #[error(transparent)]
    NotOurs(#[from] forebay_channel::NotOurs),
    /// What arrived is no message of this version.
    #[error("it sent what is no message; start the same version everywhere")]
    Garbled,
}

impl From<Errno> for Broken {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno.into())
    }
}

/// What came from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A message, which the sink has.
    Message,
    /// A sign of life.
    Here,
    /// The host has lost another one.
    Lost(HostId),
}

/// The connection to a host.
pub struct Peer {
    host: HostId,
    pub socket: OwnedFd,
    channel: Channel,
    waiting: VecDeque<Sending>,
    /// Frames that the socket has yet to take, from here on.
    sealed: Vec<u8>,
    taken: usize,
    /// Frames that are not taken yet, the last one in part.
    arrived: Vec<u8>,
    /// Where the text of the first one is, if that is open already, and how long the frame was.
    opened: Option<(Range<usize>, usize)>,
    receiving: Option<Receiving>,
}

/// A message whose contents have gone so far.
struct Sending {
    said: Said,
    contents: Contents,
    gone: usize,
}

/// A message whose contents have arrived so far.
struct Receiving {
    message: Message,
    room: Contents,
    there: usize,
}

impl Peer {
    pub fn new(host: HostId, socket: OwnedFd, channel: Channel) -> Self {
        Self {
            host,
            socket,
            channel,
            waiting: VecDeque::with_capacity(WAITING),
            sealed: Vec::with_capacity(FRAMES_BYTES),
            taken: 0,
            arrived: Vec::with_capacity(FRAMES_BYTES),
            opened: None,
            receiving: None,
        }
    }

    /// Says something, as soon as the socket takes it. The contents stay as they are until the receiver has them.
    pub fn say(&mut self, said: Said, contents: Contents) -> Result<(), Broken> {
        self.waiting.push_back(Sending { said, contents, gone: 0 });
        self.push()
    }

    /// The same in a signal handler: what takes memory, and what is wrong, is left to [`Peer::push`].
    pub fn say_what_fits(&mut self, said: Said, contents: Contents) {
        self.waiting.push_back(Sending { said, contents, gone: 0 });
        while self.fits_next() && self.seal_next() {}
        if let Some(rest) = self.sealed.get(self.taken..).filter(|rest| !rest.is_empty())
            && let Ok(sent) = send(&self.socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
        {
            self.note_sent(sent);
        }
    }

    /// Whether the next frame is sealed without more memory.
    fn fits_next(&self) -> bool {
        let part = |next: &Sending| (next.contents.bytes - next.gone).min(CONTENTS_BYTES_MAX);
        let bytes = |next| part(next) + FRAME_EXTRA_BYTES + PACKET_BYTES_MAX;
        let room = self.sealed.capacity() - self.sealed.len();
        self.waiting.front().is_some_and(|next| bytes(next) <= room)
    }

    fn note_sent(&mut self, sent: usize) {
        self.taken += sent;
        if self.taken == self.sealed.len() {
            self.taken = 0;
            self.sealed.clear();
        }
    }

    /// Whether something waits for the socket to take it.
    pub fn has_more(&self) -> bool {
        self.taken < self.sealed.len() || !self.waiting.is_empty()
    }

    /// Gives the socket what it takes.
    pub fn push(&mut self) -> Result<(), Broken> {
        loop {
            while self.sealed.len() < SEALED_BYTES && self.seal_next() {}
            let Some(rest) = self.sealed.get(self.taken..).filter(|rest| !rest.is_empty()) else {
                return Ok(());
            };
            match send(&self.socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => self.note_sent(sent),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Seals one more frame, if there is any.
    fn seal_next(&mut self) -> bool {
        let Some(Sending { said, contents, gone }) = self.waiting.front_mut() else { return false };
        let part = (contents.bytes - *gone).min(CONTENTS_BYTES_MAX);
        let packet = if *gone == 0 { Packet::First(*said, contents.bytes) } else { Packet::More };
        self.channel.sealer.seal(&mut self.sealed, |text| {
            packet.write(text);
            text.reserve(part);
            // SAFETY: the room was just reserved. The contents are this host's memory, which no thread writes to now, as the
            // trait says.
            unsafe {
                let to = text.as_mut_ptr().add(text.len());
                ptr::copy_nonoverlapping((contents.address + *gone) as *const u8, to, part);
                text.set_len(text.len() + part);
            }
        });
        *gone += part;
        if *gone == contents.bytes {
            self.waiting.pop_front();
        }
        true
    }

    /// Goes on to end the connection: sends what waits, closes this end, and takes whatever comes until the other one is
    /// closed. Whether all that is done.
    pub fn finish(&mut self, is_shut: &mut bool, room: &mut [u8]) -> bool {
        if self.push().is_err() {
            return true;
        }
        if !self.has_more() && !*is_shut {
            *is_shut = true;
            if shutdown(&self.socket, Shutdown::Write).is_err() {
                return true;
            }
        }
        loop {
            match recv(&self.socket, &mut *room, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return *is_shut,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    }

    /// Takes what has arrived, by way of `room`; `hosts` is how many there are.
    pub fn pull(
        &mut self,
        room: &mut [u8],
        hosts: usize,
        sink: &mut dyn Sink,
        mut heard: impl FnMut(Heard),
    ) -> Result<(), Broken> {
        if self.has_arrived() {
            self.take(&mut [], hosts, sink, &mut heard)?;
        }
        loop {
            let got = match recv(&self.socket, &mut *room, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(Broken::Ended),
                Ok((_, got)) => got,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            self.take(&mut room[..got], hosts, sink, &mut heard)?;
            if got < room.len() {
                return Ok(());
            }
        }
    }

    /// Whether a frame is here that is not taken.
    pub fn has_arrived(&self) -> bool {
        self.opened.is_some() || Opener::has_frame(&self.arrived)
    }

    fn take(
        &mut self,
        got: &mut [u8],
        hosts: usize,
        sink: &mut dyn Sink,
        heard: &mut dyn FnMut(Heard),
    ) -> Result<(), Broken> {
        // Most frames arrive whole.
        if self.arrived.is_empty() {
            let taken = self.take_frames(got, hosts, sink, heard)?;
            self.arrived.extend_from_slice(&got[taken..]);
        } else {
            let mut joined = mem::take(&mut self.arrived);
            joined.extend_from_slice(got);
            let taken = self.take_frames(&mut joined, hosts, sink, heard)?;
            joined.drain(..taken);
            self.arrived = joined;
        }
        Ok(())
    }

    /// Takes all that are whole. How many bytes those are.
    fn take_frames(
        &mut self,
        frames: &mut [u8],
        hosts: usize,
        sink: &mut dyn Sink,
        heard: &mut dyn FnMut(Heard),
    ) -> Result<usize, Broken> {
        let mut taken = 0;
        if let Some((text, used)) = self.opened.take() {
            let what = understand(&mut self.receiving, self.host, &frames[text], hosts, sink)?;
            what.into_iter().for_each(&mut *heard);
            taken = used;
        }
        while let Some((text, used)) = self.channel.opener.open(&mut frames[taken..])? {
            let what = understand(&mut self.receiving, self.host, text, hosts, sink)?;
            what.into_iter().for_each(&mut *heard);
            taken += used;
        }
        Ok(taken)
    }

    /// Takes one message that is wanted, and its contents, which are one frame. In a signal handler: what takes memory, and what is
    /// wrong, is left to [`Peer::pull`].
    pub fn take_one(
        &mut self,
        hosts: usize,
        sink: &mut dyn Sink,
        is_wanted: &dyn Fn(Message) -> bool,
    ) -> Next {
        if self.receiving.is_some() || self.opened.is_some() {
            return Next::Other;
        }
        if !Opener::has_frame(&self.arrived) {
            match recv(&self.socket, spare_capacity(&mut self.arrived), RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN | Errno::INTR) => return Next::Nothing,
                Ok(_) if Opener::has_frame(&self.arrived) => {}
                // A frame that is longer than the room, or an end.
                _ => return Next::Other,
            }
        }
        let Ok(Some((text, used))) = self.channel.opener.open(&mut self.arrived) else { return Next::Other };
        let is_one = match Packet::read(text, hosts) {
            Some((Packet::First(Said::Message(message), bytes), part)) => {
                bytes == part.len() && is_wanted(message)
            }
            _ => false,
        };
        if is_one && let Ok(Some(_)) = understand(&mut self.receiving, self.host, text, hosts, sink) {
            self.arrived.drain(..used);
            return Next::Taken;
        }
        self.opened = Some((TEXT_START..TEXT_START + text.len(), used));
        Next::Other
    }
}

/// Takes one text. What is complete with it.
fn understand(
    receiving: &mut Option<Receiving>,
    from: HostId,
    text: &[u8],
    hosts: usize,
    sink: &mut dyn Sink,
) -> Result<Option<Heard>, Broken> {
    let (packet, part) = Packet::read(text, hosts).ok_or(Broken::Garbled)?;
    match packet {
        Packet::First(..) if receiving.is_some() => return Err(Broken::Garbled),
        Packet::First(Said::Here, 0) if part.is_empty() => return Ok(Some(Heard::Here)),
        Packet::First(Said::Lost(host), 0) if part.is_empty() => return Ok(Some(Heard::Lost(host))),
        Packet::First(Said::Message(message), bytes) => {
            let room = sink.room(message);
            if room.map_or(0, |room| room.bytes) != bytes {
                return Err(Broken::Garbled);
            }
            let Some(room) = room else {
                sink.take(from, message);
                return if part.is_empty() { Ok(Some(Heard::Message)) } else { Err(Broken::Garbled) };
            };
            *receiving = Some(Receiving { message, room, there: 0 });
        }
        Packet::More if receiving.is_some() && !part.is_empty() => {}
        _ => return Err(Broken::Garbled),
    }
    let Some(Receiving { message, room, there }) = receiving else { return Err(Broken::Garbled) };
    if part.len() > room.bytes - *there {
        return Err(Broken::Garbled);
    }
    // SAFETY: the part fits into what is left of the room, which is the receiver's; no thread may use it now.
    unsafe { ptr::copy_nonoverlapping(part.as_ptr(), (room.address + *there) as *mut u8, part.len()) };
    *there += part.len();
    if *there < room.bytes {
        return Ok(None);
    }
    let message = *message;
    *receiving = None;
    sink.take(from, message);
    Ok(Some(Heard::Message))
}
