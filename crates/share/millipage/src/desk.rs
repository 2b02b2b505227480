//! The desk of a machine that is one of several: where its hosts are served. One of them, the first, has the thread that serves.

use std::{
    io,
    sync::{Arc, atomic::AtomicU32},
};

use forebay_coherence::HostId;
use forebay_vm::Mapping;

use crate::{
    board::Board, doorbell::Doorbell, extent::Extent, heap::Heap, machines::Machines, parts::Parts,
    requests::Slots, rights::Rights,
};

/// What the hosts of a machine use to be served.
pub struct Desk {
    pub rights: Rights,
    /// Of each host, by place.
    pub slots: &'static [Slots],
    /// Rung when there is something to serve.
    pub doorbell: Arc<Doorbell>,
}

/// What the hosts of a machine share besides the memory: the board, the heap, and the desk where there are other machines.
pub struct Common {
    pub board: Board,
    pub heap: Heap,
    pub desk: Option<Desk>,
}

impl Common {
    /// What all take for the machine of host `me`, with so much memory.
    pub fn bytes(machines: &Machines, me: HostId, extent: &Extent) -> usize {
        let hosts = machines.hosts(machines.of(me)).len();
        let desk = Parts::bytes::<Slots>(hosts) + Rights::bytes(hosts, extent.minipages_max());
        Board::bytes(hosts) + Heap::bytes(extent) + if machines.count() > 1 { desk } else { 0 }
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
        extent: Extent,
        doorbell: impl FnOnce(&'static AtomicU32) -> io::Result<Arc<Doorbell>>,
    ) -> io::Result<Self> {
        let mut parts = Parts::of(memory);
        let hosts = machines.hosts(machines.of(me));
        let has_others = machines.count() > 1;
        let board = Board::new(&mut parts, me, hosts, has_others);
        let heap = Heap::new(&mut parts, extent);
        if !has_others {
            return Ok(Self { board, heap, desk: None });
        }
        let slots = parts.take(hosts.len());
        let rights = Rights::new(&mut parts, &board, extent.minipages_max());
        let doorbell = doorbell(board.asleep())?;
        Ok(Self { board, heap, desk: Some(Desk { rights, slots, doorbell }) })
    }
}
