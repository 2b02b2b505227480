//! Packets of many sessions in few system calls.
//!
//! Messages to different clients go in one `sendmmsg`. Packets of one picture that have the same length go as one message,
//! which the kernel divides again at the last moment (`UDP_SEGMENT`), so that they pass through most of it as one.

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
/// How long to wait for room in a socket before packets are lost.
const ROOM_WAIT: Duration = Duration::from_millis(2);

/// What is kept between batches, so that none allocates.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    pub slices: Vec<IoSlice<'static>>,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub calls: u64,
    pub messages: u64,
    /// Messages that the system did not take.
    pub lost: u64,
}

/// Messages that have not been sent yet.
pub(crate) struct Batch<'a> {
    datagrams: &'a Datagrams,
    slices: Vec<IoSlice<'a>>,
    messages: Vec<Message<'a>>,
    pair: usize,
    tally: Tally,
}

struct Message<'a> {
    to: &'a SocketAddrAny,
    slices: std::ops::Range<usize>,
    /// What it is to be divided into; 0 if it is one packet.
    segment: u16,
    bytes: usize,
}

impl<'a> Batch<'a> {
    pub fn new(datagrams: &'a Datagrams, spare: &mut Spare) -> Batch<'a> {
        let slices = std::mem::take(&mut spare.slices);
        let messages = Vec::with_capacity(MESSAGES_MAX);
        Batch { datagrams, slices, messages, pair: 0, tally: Tally::default() }
    }

    /// Packets from a pair of sockets to a client.
    pub fn push(&mut self, pair: usize, to: &'a SocketAddrAny, burst: Burst<'a>) {
        if pair != self.pair {
            self.send();
            self.pair = pair;
        }
        let can_segment = self.datagrams.pair(pair).can_segment();
        let mut rest = burst.packets;
        while let Some((message, after)) = first_message(rest, can_segment) {
            rest = after;
            let (start, bytes) = (self.slices.len(), message.iter().map(Packet::bytes).sum());
            for packet in message {
                self.slices.push(IoSlice::new(packet.head()));
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
        self.tally
    }

    fn send(&mut self) {
        let pair = self.datagrams.pairs().get(self.pair);
        let messages = std::mem::take(&mut self.messages);
        if let Some(pair) = pair {
            let mut rest = messages.as_slice();
            while !rest.is_empty() {
                let count = alike(rest, pair);
                let sent = send_alike(&rest[..count], &self.slices, pair, &mut self.tally);
                rest = &rest[sent..];
            }
        }
        self.slices.clear();
        self.messages = messages;
        self.messages.clear();
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

/// How many messages can go with the socket as it is; sets it where the first could not.
fn alike(messages: &[Message<'_>], pair: &Pair) -> usize {
    let suits = |message: &Message<'_>, segment: u16| match message.segment {
        0 => segment == 0 || message.bytes <= usize::from(segment),
        wanted => segment == wanted,
    };
    if !suits(&messages[0], pair.segment()) {
        pair.set_segment(messages[0].segment);
    }
    messages.iter().take_while(|message| suits(message, pair.segment())).count().max(1)
}

/// Returns how many messages are done with.
fn send_alike(messages: &[Message<'_>], slices: &[IoSlice<'_>], pair: &Pair, tally: &mut Tally) -> usize {
    let mut controls: [SendAncillaryBuffer<'_, '_, '_>; MESSAGES_MAX] =
        std::array::from_fn(|_| SendAncillaryBuffer::default());
    let mut headers: Vec<MMsgHdr<'_>> = messages
        .iter()
        .zip(&mut controls)
        .map(|(message, control)| {
            MMsgHdr::new_with_addr(message.to, &slices[message.slices.clone()], control)
        })
        .collect();
    let mut done = 0;
    let mut has_waited = false;
    while done < headers.len() {
        tally.calls += 1;
        match sendmmsg(&pair.rtp, &mut headers[done..], SendFlags::empty()) {
            Ok(count) => {
                done += count.max(1);
                tally.messages += count as u64;
                has_waited = false;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::NOBUFS) if !has_waited => {
                has_waited = true;
                wait_for_room(pair);
            }
            Err(error) if messages[done].segment > 0 && is_of_segments(error) => {
                // Those that were put together stay so in this batch: they are lost, once.
                pair.give_up_segments();
                tally.lost += 1;
                done += 1;
            }
            Err(_) => {
                tally.lost += 1;
                done += 1;
                has_waited = false;
            }
        }
    }
    done
}

/// Devices that cannot make checksums, and tunnels, refuse datagrams that are to be divided.
fn is_of_segments(error: Errno) -> bool {
    matches!(error, Errno::IO | Errno::INVAL | Errno::MSGSIZE)
}

fn wait_for_room(pair: &Pair) {
    let wait = Timespec { tv_sec: 0, tv_nsec: ROOM_WAIT.as_nanos() as i64 };
    let _ = poll(&mut [PollFd::new(&pair.rtp, PollFlags::OUT)], Some(&wait));
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.calls += other.calls;
        self.messages += other.messages;
        self.lost += other.lost;
    }
}
