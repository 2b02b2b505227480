//! Packets of many sessions in few system calls.
//!
//! Messages to different clients go in one `sendmmsg`. Packets of one picture and of one length go as one message, which
//! the kernel divides as late as it can (`UDP_SEGMENT`). Not every path takes such messages: a device may be unable to make
//! checksums, or its MTU may be smaller than the packets.

use std::cell::Cell;
use std::io::IoSlice;
use std::time::Duration;

use forebay_rtsp::packetise::Packet;
use forebay_streaming::stream::Burst;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

use crate::datagrams::{Datagrams, Pair};

/// Messages in one system call.
const MESSAGES_MAX: usize = 64;
/// What a message may have that the kernel divides: segments, and bytes.
const SEGMENTS_MAX: usize = 64;
const MESSAGE_BYTES_MAX: usize = 65_000;
/// Shorter packets go alone: they come in no numbers, and each other length is another system call.
const SEGMENT_BYTES_MIN: usize = 1000;
/// How long to wait for room in a socket, once for all packets that are due, before those are lost that find none.
const ROOM_WAIT: Duration = Duration::from_millis(2);

/// What is kept between batches, so that none allocates.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    pub slices: Vec<IoSlice<'static>>,
    /// What stands before packets on a connection.
    pub heads: Vec<[u8; 4]>,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub calls: u64,
    pub messages: u64,
    /// Messages that the system did not take.
    pub lost: u64,
}

/// Where packets go.
#[derive(Debug)]
pub(crate) struct Destination {
    address: SocketAddrAny,
    takes_segments: Cell<bool>,
}

/// What messages leave by.
trait Outlet {
    /// What larger messages are divided into; 0 where they are not.
    fn segment(&self) -> u16;
    fn set_segment(&self, bytes: u16);
    /// Returns how many were taken.
    fn send(&self, messages: &mut [MMsgHdr<'_>]) -> Result<usize, Errno>;
    fn wait_for_room(&self);
}

/// Messages that have not been sent yet.
pub(crate) struct Batch<'a> {
    datagrams: &'a Datagrams,
    slices: Vec<IoSlice<'a>>,
    messages: Vec<Message<'a>>,
    pair: usize,
    progress: Progress,
}

/// What has become of a batch so far.
#[derive(Debug, Default)]
struct Progress {
    tally: Tally,
    has_waited: bool,
}

struct Message<'a> {
    to: &'a Destination,
    slices: std::ops::Range<usize>,
    /// What it is to be divided into; 0 if it is one packet.
    segment: u16,
    bytes: usize,
}

impl<'a> Batch<'a> {
    pub fn new(datagrams: &'a Datagrams, spare: &mut Spare) -> Self {
        let slices = std::mem::take(&mut spare.slices);
        let messages = Vec::with_capacity(MESSAGES_MAX);
        Batch { datagrams, slices, messages, pair: 0, progress: Progress::default() }
    }

    /// Packets from a pair of sockets to a client.
    pub fn push(&mut self, pair: usize, to: &'a Destination, burst: Burst<'a>) {
        if pair != self.pair {
            self.send();
            self.pair = pair;
        }
        let can_segment = self.datagrams.pair(pair).can_segment() && to.takes_segments.get();
        let mut rest = burst.packets;
        while let Some((message, after)) = first_message(rest, can_segment) {
            rest = after;
            let (start, bytes) = (self.slices.len(), message.iter().map(Packet::bytes).sum());
            for packet in message {
                self.slices.push(IoSlice::new(packet.head()));
                self.slices.extend(packet.own().map(IoSlice::new));
                self.slices.extend(packet.pieces().map(|piece| IoSlice::new(&burst.buffer[piece])));
            }
            let segment = if message.len() > 1 { message[0].bytes() as u16 } else { 0 };
            self.messages.push(Message { to, slices: start..self.slices.len(), segment, bytes });
            if self.messages.len() == MESSAGES_MAX {
                self.send();
            }
        }
    }

    /// Sends what is left.
    pub fn finish(mut self, spare: &mut Spare) -> Tally {
        self.send();
        spare.slices = emptied(std::mem::take(&mut self.slices));
        self.progress.tally
    }

    fn send(&mut self) {
        if let Some(pair) = self.datagrams.pairs().get(self.pair) {
            send_all(&self.messages, &self.slices, pair, &mut self.progress);
        }
        self.slices.clear();
        self.messages.clear();
    }
}

impl Destination {
    pub fn new(address: SocketAddrAny) -> Self {
        Self { address, takes_segments: Cell::new(true) }
    }
}

impl Outlet for Pair {
    fn segment(&self) -> u16 {
        Self::segment(self)
    }

    fn set_segment(&self, bytes: u16) {
        Self::set_segment(self, bytes);
    }

    fn send(&self, messages: &mut [MMsgHdr<'_>]) -> Result<usize, Errno> {
        sendmmsg(&self.rtp, messages, SendFlags::empty())
    }

    fn wait_for_room(&self) {
        let wait = Timespec { tv_sec: 0, tv_nsec: ROOM_WAIT.as_nanos() as i64 };
        let _ = poll(&mut [PollFd::new(&self.rtp, PollFlags::OUT)], Some(&wait));
    }
}

/// The same memory, with nothing in it, and so nothing that is borrowed.
pub(crate) fn emptied<'a>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'a>> {
    slices.clear();
    slices.into_iter().map(|_| IoSlice::new(&[])).collect()
}

/// The packets that go as the first message, and those after them.
fn first_message(packets: &[Packet], can_segment: bool) -> Option<(&[Packet], &[Packet])> {
    let segment = packets.first()?.bytes();
    let mut count = 1;
    if can_segment && segment >= SEGMENT_BYTES_MIN {
        let max = SEGMENTS_MAX.min(MESSAGE_BYTES_MAX / segment).max(1);
        while count < packets.len().min(max)
            && packets[count - 1].bytes() == segment
            && packets[count].bytes() <= segment
        {
            count += 1;
        }
    }
    Some(packets.split_at(count))
}

fn send_all(messages: &[Message<'_>], slices: &[IoSlice<'_>], out: &impl Outlet, progress: &mut Progress) {
    let mut rest = messages;
    while !rest.is_empty() {
        let count = alike(rest, out);
        let done = send_alike(&rest[..count], slices, out, progress);
        rest = &rest[done..];
    }
}

/// How many messages can go with the socket as it is; sets it where the first could not.
fn alike(messages: &[Message<'_>], out: &impl Outlet) -> usize {
    let suits = |message: &Message<'_>, segment: u16| match message.segment {
        0 if segment == 0 => true,
        0 => message.to.takes_segments.get() && message.bytes <= usize::from(segment),
        wanted => segment == wanted,
    };
    if !suits(&messages[0], out.segment()) {
        out.set_segment(messages[0].segment);
    }
    messages.iter().take_while(|message| suits(message, out.segment())).count().max(1)
}

/// Returns how many messages are done with: all up to the first whose way does not take segments.
fn send_alike(
    messages: &[Message<'_>],
    slices: &[IoSlice<'_>],
    out: &impl Outlet,
    progress: &mut Progress,
) -> usize {
    let mut controls: [SendAncillaryBuffer<'_, '_, '_>; MESSAGES_MAX] =
        std::array::from_fn(|_| SendAncillaryBuffer::default());
    let mut headers: Vec<MMsgHdr<'_>> = messages
        .iter()
        .zip(&mut controls)
        .map(|(message, control)| {
            MMsgHdr::new_with_addr(&message.to.address, &slices[message.slices.clone()], control)
        })
        .collect();
    let mut done = 0;
    while done < headers.len() {
        progress.tally.calls += 1;
        match out.send(&mut headers[done..]) {
            Ok(count) => {
                done += count.max(1);
                progress.tally.messages += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::NOBUFS) if !progress.has_waited => {
                progress.has_waited = true;
                out.wait_for_room();
            }
            Err(error) if out.segment() > 0 && is_of_segments(error) => {
                let message = &messages[done];
                message.to.takes_segments.set(false);
                out.set_segment(0);
                if out.segment() == 0 {
                    send_all(&divided(message, slices), slices, out, progress);
                } else {
                    progress.tally.lost += 1;
                }
                return done + 1;
            }
            Err(_) => {
                progress.tally.lost += 1;
                done += 1;
            }
        }
    }
    done
}

/// The packets that a message was put together from.
fn divided<'a>(message: &Message<'a>, slices: &[IoSlice<'_>]) -> Vec<Message<'a>> {
    let segment = match message.segment {
        0 => message.bytes,
        segment => segment.into(),
    };
    let mut packets: Vec<Message<'a>> = Vec::new();
    for number in message.slices.clone() {
        match packets.last_mut() {
            Some(last) if last.bytes < segment => {
                last.slices.end = number + 1;
                last.bytes += slices[number].len();
            }
            _ => packets.push(Message {
                to: message.to,
                slices: number..number + 1,
                segment: 0,
                bytes: slices[number].len(),
            }),
        }
    }
    packets
}

/// Devices that cannot make checksums, tunnels, and ways that are narrower than a packet refuse what is to be divided.
fn is_of_segments(error: Errno) -> bool {
    matches!(error, Errno::IO | Errno::INVAL | Errno::MSGSIZE)
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.messages += other.messages;
        self.lost += other.lost;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use rustix::net::addr::SocketAddrArg;

    use super::*;

    /// One that does as it is told.
    struct Fake {
        segment: Cell<u16>,
        waits: Cell<u32>,
        sends: Cell<u32>,
        answer: fn(u16, usize) -> Result<usize, Errno>,
    }

    impl Fake {
        fn new(answer: fn(u16, usize) -> Result<usize, Errno>) -> Self {
            Self { segment: Cell::new(0), waits: Cell::new(0), sends: Cell::new(0), answer }
        }
    }

    impl Outlet for Fake {
        fn segment(&self) -> u16 {
            self.segment.get()
        }

        fn set_segment(&self, bytes: u16) {
            self.segment.set(bytes);
        }

        fn send(&self, messages: &mut [MMsgHdr<'_>]) -> Result<usize, Errno> {
            self.sends.set(self.sends.get() + 1);
            (self.answer)(self.segment.get(), messages.len())
        }

        fn wait_for_room(&self) {
            self.waits.set(self.waits.get() + 1);
        }
    }

    fn destination() -> Destination {
        Destination::new(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5000).as_any())
    }

    #[test]
    fn a_full_socket_is_waited_for_once_and_what_finds_no_room_is_counted() {
        let (to, bytes) = (destination(), [0; 100]);
        let slices = [IoSlice::new(&bytes)];
        let messages: Vec<_> =
            (0..MESSAGES_MAX).map(|_| Message { to: &to, slices: 0..1, segment: 0, bytes: 100 }).collect();
        let (full, mut progress) = (Fake::new(|_, _| Err(Errno::AGAIN)), Progress::default());
        for _ in 0..3 {
            send_all(&messages, &slices, &full, &mut progress);
        }
        assert_eq!((full.waits.get(), progress.tally.messages), (1, 0));
        assert_eq!(progress.tally.lost, 3 * MESSAGES_MAX as u64);
    }

    #[test]
    fn what_a_way_does_not_take_together_goes_there_packet_by_packet() {
        let (narrow, wide) = (destination(), destination());
        let (head, rest, last) = ([0; 20], [0; 1180], [0; 900]);
        let packets = [&head[..], &rest, &head, &rest, &head, &last];
        let slices: Vec<_> = packets.iter().map(|bytes| IoSlice::new(bytes)).collect();
        let message = |to| Message { to, slices: 0..6, segment: 1200, bytes: 3320 };
        let out = Fake::new(|segment, count| match segment {
            1200 => Err(Errno::INVAL),
            _ => Ok(count),
        });
        let mut progress = Progress::default();
        send_all(&[message(&narrow)], &slices, &out, &mut progress);
        assert_eq!(progress.tally, Tally { calls: 2, messages: 3, lost: 0 });
        assert_eq!((narrow.takes_segments.get(), wide.takes_segments.get()), (false, true));
        let parts: Vec<_> = divided(&message(&wide), &slices).iter().map(|one| one.bytes).collect();
        assert_eq!(parts, [1200, 1200, 920]);
    }
}
