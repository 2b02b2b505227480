//! Hosts within one process, for tests: as on one machine, or as on several with a network between them.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use forebay_coherence::{Foresight, HostId};
use forebay_vm::{Mapping, Object, Views};

use super::{Host, Options, Start, Vitals};
use crate::{
    Error,
    desk::Common,
    doorbell::Doorbell,
    extent::Extent,
    join::Whereabouts,
    machines::Machines,
    transport::{End, Rings, Transport, Watched},
};

/// Where a host is that no other one loses: its process is this one.
const HERE: Whereabouts =
    Whereabouts { on_this_machine: true, process: None, is_in_this_network: true, is_of_this_user: true };

/// Hosts in this process, each as if on a machine of its own, with a network between them: pointers into their memories differ.
///
/// # Errors
/// There is not enough memory, or address space.
pub fn in_process(hosts: u16, options: Options) -> Result<Vec<Host>, Error> {
    in_process_machines(&vec![1; hosts.into()], options)
}

/// The same, but hosts as they are on one machine, with one memory.
///
/// # Errors
/// As for [`in_process`].
pub fn in_process_together(hosts: u16, options: Options) -> Result<Vec<Host>, Error> {
    in_process_machines(&[hosts], options)
}

/// The same, but so many hosts as if on each of several machines, with one memory for each machine. They have their ranks in turn:
/// the first hosts of all machines, then the second ones, and so on.
///
/// # Errors
/// As for [`in_process`].
pub fn in_process_machines(hosts: &[u16], options: Options) -> Result<Vec<Host>, Error> {
    let most = hosts.iter().copied().max().unwrap_or(0);
    let turns = (0..most).flat_map(|turn| {
        let have = hosts.iter().enumerate().filter(move |(_, hosts)| **hosts > turn);
        have.map(|(machine, _)| machine)
    });
    let machines = Arc::new(Machines::by(&turns.collect::<Vec<_>>()));
    let all: Vec<OfMachine> = (0..machines.count())
        .map(|machine| OfMachine::new(HostId(machine), &machines, options))
        .collect::<Result<_, _>>()?;
    let ranks = (0..hosts.iter().sum()).map(HostId);
    let commons = ranks.map(|me| Ok((me, all[machines.of(me).index()].common(me, &machines)?)));
    let commons: Vec<(HostId, Common)> = commons.collect::<Result<_, Error>>()?;
    let views = |me: &HostId| {
        // Two hosts cannot have the same addresses here.
        let at = options.at.filter(|_| me.0 == 0);
        let views = options.views_here();
        Ok(Views::map_sparse(&all[machines.of(*me).index()].memory, views, at)?)
    };
    let views: Vec<Views> = commons.iter().map(|(me, _)| views(me)).collect::<Result<_, Error>>()?;
    let end = |((me, common), views): (&(HostId, Common), &Views)| {
        let desk = common.desk.as_ref().filter(|_| machines.serves(*me));
        desk.map(|desk| End::here(commons.len(), views, &desk.doorbell)).transpose()
    };
    let ends: Vec<Option<End>> = commons.iter().zip(&views).map(end).collect::<Result<_, _>>()?;
    let host = |((me, common), views): ((HostId, Common), Views)| {
        let way = Rings::within_process(&ends, me)
            .map(|way| Watched::new(way, me, &vec![HERE; ends.len()], Duration::MAX));
        let transport = way.map(|way| Box::new(way) as Box<dyn Transport>);
        let (granularity, machines, vitals) = (options.granularity, machines.clone(), Vitals::none());
        let (here, memories) = (ends.len(), all.len());
        Host::begin(Start {
            me,
            job: 0,
            machines,
            granularity,
            views,
            object: None,
            common,
            transport,
            vitals,
            here,
            memories,
            foresight: Foresight::default(),
            meeting: None,
        })
    };
    commons.into_iter().zip(views).map(host).collect()
}

/// What the hosts of one machine share.
struct OfMachine {
    memory: Object,
    common: Mapping,
    doorbell: OnceLock<Arc<Doorbell>>,
    extent: Extent,
}

impl OfMachine {
    fn new(machine: HostId, machines: &Machines, options: Options) -> Result<Self, Error> {
        let extent = Extent::new(options.bytes_here(), options.views_here());
        let common = Object::sparse(Common::bytes(machines, machines.first(machine), &extent))?;
        let memory = Object::sparse(extent.bytes())?;
        Ok(Self { memory, common: Mapping::new(&common)?, doorbell: OnceLock::new(), extent })
    }

    fn common(&self, me: HostId, machines: &Machines) -> Result<Common, Error> {
        let doorbell = |asleep| {
            let made = Arc::new(Doorbell::new(asleep)?);
            Ok(self.doorbell.get_or_init(|| made).clone())
        };
        Common::new(self.common, machines, me, self.extent, doorbell).map_err(Error::Wait)
    }
}
