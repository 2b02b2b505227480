//! One memory for the hosts of each machine. The first host of a machine makes the memory object, the board and the doorbell, and
//! names them in a round. The others open them by their names.

use std::sync::Arc;

use forebay_coherence::HostId;
use forebay_vm::{DescriptorName, Mapping, Object, ObjectName};

use super::{
    Meeting,
    terms::{Terms, Whereabouts},
};
use crate::{Error, desk::Common, doorbell::Doorbell, extent::Extent, machines::Machines};

/// What a host has of its machine.
pub struct OfMachine {
    pub memory: Object,
    pub common: Common,
    pub machines: Arc<Machines>,
}

/// The memory of this host's machine, and what its hosts share besides; `all` hosts have said their terms. Hosts of a machine that
/// cannot open the same ones have memories of their own, each as if on a machine of its own.
///
/// # Errors
/// There is not enough memory, or a host has ended.
pub fn agree(
    terms: &Terms,
    all: &[Vec<u8>],
    machines: Machines,
    places: &[Whereabouts],
    meeting: &mut Meeting,
) -> Result<OfMachine, Error> {
    let me = meeting.me;
    let extent = terms.extent(all, &machines);
    let makes = machines.serves(me);
    let made = if makes { make(extent, &machines, places, me).map(Some) } else { Ok(None) };
    let (made, said) = meeting.agree(made, |made| {
        let names = made.as_ref().map(|made| made.names.clone());
        names.unwrap_or_default().into_bytes()
    })?;
    let first = machines.first(machines.of(me));
    // The first host keeps the board open until all hosts have it.
    let (had, _board) = match made {
        Some(Made { memory, common, board, .. }) => (Ok((memory, common)), Some(board)),
        None => (open(extent, &machines, me, said.get(first.index()).map_or(&[], Vec::as_slice)), None),
    };
    let have = meeting.exchange(&[u8::from(had.is_ok())])?;
    let have: Vec<bool> = have.iter().map(|said| said == &[1]).collect();
    if let (true, Ok((memory, common))) = (have.iter().all(|has| *has), had) {
        return Ok(OfMachine { memory, common, machines: Arc::new(machines) });
    }
    let has_all = |host| machines.hosts(machines.of(host)).iter().all(|host| have[host.index()]);
    let key = |host: u16| (machines.of(HostId(host)).0, (!has_all(HostId(host))).then_some(host));
    let apart = Machines::by(&(0..machines.hosts_at_all()).map(key).collect::<Vec<_>>());
    agree(terms, all, apart, places, meeting)
}

/// How many memories are on this machine.
pub fn memories(machines: &Machines, places: &[Whereabouts]) -> usize {
    let ranks = (0..machines.hosts_at_all()).map(HostId);
    ranks.filter(|host| places[host.index()].on_this_machine && machines.serves(*host)).count()
}

/// What the first host of a machine has made.
struct Made {
    memory: Object,
    board: Object,
    common: Common,
    /// Of the memory, the board, and the doorbell if there is one, a line each.
    names: String,
}

fn make(extent: Extent, machines: &Machines, places: &[Whereabouts], me: HostId) -> Result<Made, Error> {
    let memory = super::memory(extent, memories(machines, places))?;
    let board = Object::sparse(Common::bytes(machines, me, &extent))?;
    let doorbell = |asleep| Doorbell::new(asleep).map(Arc::new);
    let common = Common::new(Mapping::new(&board)?, machines, me, extent, doorbell).map_err(Error::Wait)?;
    let mut names = format!("{}\n{}", memory.name()?, board.name()?);
    if let Some(desk) = &common.desk {
        names = format!("{names}\n{}", desk.doorbell.name().map_err(Error::Wait)?);
    }
    Ok(Made { memory, board, common, names })
}

fn open(extent: Extent, machines: &Machines, me: HostId, names: &[u8]) -> Result<(Object, Common), Error> {
    let names = String::from_utf8_lossy(names);
    let mut names = names.lines();
    let mut object = || -> Result<Object, Error> {
        let name: Option<ObjectName> = names.next().and_then(|name| name.parse().ok());
        Ok(Object::named(&name.ok_or(Error::Garbled)?)?)
    };
    let (memory, board) = (object()?, object()?);
    let doorbell = |asleep| {
        let name: Option<DescriptorName> = names.next().and_then(|name| name.parse().ok());
        let name = name.ok_or(std::io::ErrorKind::NotFound)?;
        Doorbell::named(&name, asleep).map(Arc::new)
    };
    let common = Common::new(Mapping::new(&board)?, machines, me, extent, doorbell).map_err(Error::Wait)?;
    Ok((memory, common))
}
