//! The transport between hosts in one process, for tests.

use std::{
    collections::VecDeque,
    os::fd::BorrowedFd,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

use forebay_coherence::{HostId, Message};

use super::{Contents, Sink, Transport};
use crate::{Error, doorbell::Doorbell};

/// One host's end.
pub struct Local {
    me: HostId,
    mailboxes: Arc<[Mailbox]>,
}

struct Mailbox {
    packets: Mutex<VecDeque<Packet>>,
    doorbell: Arc<Doorbell>,
}

struct Packet {
    from: HostId,
    message: Message,
    contents: Vec<u8>,
}

/// The ends of a network of as many hosts as there are doorbells, one for each.
#[must_use]
pub(crate) fn local(doorbells: &[Arc<Doorbell>]) -> Vec<Local> {
    let mailbox =
        |doorbell: &Arc<Doorbell>| Mailbox { packets: Mutex::default(), doorbell: doorbell.clone() };
    let mailboxes: Arc<[Mailbox]> = doorbells.iter().map(mailbox).collect();
    (0..doorbells.len()).map(|host| Local { me: HostId(host as u16), mailboxes: mailboxes.clone() }).collect()
}

impl Local {
    fn own(&self) -> &Mutex<VecDeque<Packet>> {
        &self.mailboxes[self.me.index()].packets
    }
}

impl Transport for Local {
    fn send(&mut self, to: HostId, message: Message, contents: Option<Contents>) -> Result<(), Error> {
        let mut bytes = vec![];
        if let Some(Contents { address, bytes: length }) = contents {
            bytes.resize(length, 0);
            // SAFETY: the caller's memory, which no thread writes to now.
            unsafe { ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), length) };
        }
        let mailbox = &self.mailboxes[to.index()];
        let packet = Packet { from: self.me, message, contents: bytes };
        mailbox.packets.lock().unwrap_or_else(PoisonError::into_inner).push_back(packet);
        mailbox.doorbell.ring();
        Ok(())
    }

    fn receive(&mut self, sink: &mut dyn Sink) -> Result<usize, Error> {
        let packets = std::mem::take(&mut *self.own().lock().unwrap_or_else(PoisonError::into_inner));
        let count = packets.len();
        for Packet { from, message, contents } in packets {
            if let Some(room) = sink.room(message) {
                assert_eq!(room.bytes, contents.len(), "{message:?}");
                // SAFETY: the receiver's memory, which no thread may use now.
                unsafe { ptr::copy_nonoverlapping(contents.as_ptr(), room.address as *mut u8, room.bytes) };
            }
            sink.take(from, message);
        }
        Ok(count)
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn may_sleep(&mut self) -> bool {
        self.own().lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
