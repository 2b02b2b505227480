//! The desk of a machine that is one of several: where its hosts are served. One of them, the first, has the thread that serves.

use std::{
    io,
    sync::{Arc, atomic::AtomicU32},
};

use forebay_coherence::HostId;
use forebay_vm::{Mapping, PAGE_BYTES};

use crate::{
    board::Board, doorbell::Doorbell, machines::Machines, parts::Parts, requests::Slots, rights::Rights,
};

/// What the hosts of a machine use to be served.
pub struct Desk {
    pub rights: Rights,
    /// Of each host, by place.
    pub slots: &'static [Slots],
    /// Rung when there is something to serve.
    pub doorbell: Arc<Doorbell>,
}

/// What the hosts of a machine share besides the memory: the board, and the desk where there are other machines.
pub struct Common {
    pub board: Board,
    pub desk: Option<Desk>,
}

/// How many minipages there can be: each has a page of a view for itself.
pub const fn minipages_max(bytes: usize, views: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES) * views
}

impl Common {
    /// What both take for the machine of host `me`, with so many minipages at most.
    pub fn bytes(machines: &Machines, me: HostId, minipages: usize) -> usize {
        let hosts = machines.hosts(machines.of(me)).len();
        let desk = Parts::bytes::<Slots>(hosts) + Rights::bytes(hosts, minipages);
        Board::bytes(hosts) + if machines.count() > 1 { desk } else { 0 }
    }

    /// Those that this memory, zeros at first, is for the machine of host `me`. The doorbell is given the word that tells
    /// whether the serving thread sleeps.
    ///
    /// # Errors
    /// There is no doorbell.
    pub fn new(
        memory: Mapping,
        machines: &Machines,
        me: HostId,
        minipages: usize,
        doorbell: impl FnOnce(&'static AtomicU32) -> io::Result<Arc<Doorbell>>,
    ) -> io::Result<Self> {
        let mut parts = Parts::of(memory);
        let hosts = machines.hosts(machines.of(me));
        let has_others = machines.count() > 1;
        let board = Board::new(&mut parts, me, hosts, has_others);
        if !has_others {
            return Ok(Self { board, desk: None });
        }
        let slots = parts.take(hosts.len());
        let rights = Rights::new(&mut parts, &board, minipages);
        let doorbell = doorbell(board.asleep())?;
        Ok(Self { board, desk: Some(Desk { rights, slots, doorbell }) })
    }
}
