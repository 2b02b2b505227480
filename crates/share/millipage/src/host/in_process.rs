//! Hosts within one process, for tests: as on one machine, or as on several with a network between them.

use std::sync::{Arc, OnceLock};

use forebay_coherence::HostId;
use forebay_vm::{Mapping, Object, Views};

use super::{Host, Options, Start, Vitals};
use crate::{
    Error,
    desk::{Common, minipages_max},
    doorbell::Doorbell,
    machines::Machines,
    transport::{Transport, local},
};

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
    let doorbells = commons.iter().filter_map(|(_, common)| Some(common.desk.as_ref()?.doorbell.clone()));
    let mut ends = local(&doorbells.collect::<Vec<_>>()).into_iter();
    let host = |(me, common): (HostId, Common)| {
        let end = ends.next().map(|end| Box::new(end) as Box<dyn Transport>);
        let transport = end.filter(|_| machines.serves(me));
        let views = options.granularity.views(options.views);
        // Two hosts cannot have the same addresses here.
        let at = options.at.filter(|_| me.0 == 0);
        let views = Views::map(&all[machines.of(me).index()].memory, views, at)?;
        let (granularity, machines, vitals) = (options.granularity, machines.clone(), Vitals::none());
        Host::begin(Start {
            me,
            machines,
            granularity,
            views,
            object: None,
            common,
            transport,
            vitals,
            meeting: None,
        })
    };
    commons.into_iter().map(host).collect()
}

/// What the hosts of one machine share.
struct OfMachine {
    memory: Object,
    common: Mapping,
    doorbell: OnceLock<Arc<Doorbell>>,
    minipages: usize,
}

impl OfMachine {
    fn new(machine: HostId, machines: &Machines, options: Options) -> Result<Self, Error> {
        let minipages = minipages_max(options.bytes, options.granularity.views(options.views));
        let common = Object::sparse(Common::bytes(machines, machines.first(machine), minipages))?;
        let (memory, common) = (Object::new(options.bytes)?, Mapping::new(&common)?);
        Ok(Self { memory, common, doorbell: OnceLock::new(), minipages })
    }

    fn common(&self, me: HostId, machines: &Machines) -> Result<Common, Error> {
        let doorbell = |asleep| {
            let made = Arc::new(Doorbell::new(asleep)?);
            Ok(self.doorbell.get_or_init(|| made).clone())
        };
        Common::new(self.common, machines, me, self.minipages, doorbell).map_err(Error::Wait)
    }
}
