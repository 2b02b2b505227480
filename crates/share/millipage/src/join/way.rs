//! The way of messages between machines. The user and the places of hosts tell what may carry them, and all hosts use the first
//! of those that works on each of them.

use forebay_coherence::HostId;
use forebay_launch::environment;
use forebay_vm::{Object, Views};

use super::{
    Meeting,
    meeting::variable,
    terms::{Terms, Whereabouts},
};
use crate::{
    Error,
    doorbell::Doorbell,
    machines::Machines,
    transport::{
        Interface, Listening, Offer, Reach, Rings, Streams, Transport, Ucx, Watched, Way, Wire, Worker,
    },
};

const INTERFACE_WANTED: &str = "the name of a network interface, an address, or a network as in 10.0.0.0/8";

/// What a host has when it looks for a way.
#[derive(Clone, Copy)]
pub struct Has<'a> {
    pub terms: &'a Terms,
    pub machines: &'a Machines,
    pub places: &'a [Whereabouts],
    pub memory: &'a Object,
    pub views: &'a Views,
    /// That of its machine.
    pub doorbell: Option<&'a Doorbell>,
}

/// What carries messages between machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Rings,
    Streams(Reach),
    Ucx,
}

/// What may carry them, the best first.
///
/// # Errors
/// The user has chosen what cannot reach a host.
fn carriers(wire: Wire, places: &[Whereabouts]) -> Result<Vec<Carrier>, Error> {
    let is_visible = |place: &Whereabouts| place.process.is_some() && place.is_of_this_user;
    let hidden = places.iter().position(|place| !is_visible(place));
    let is_here = places.iter().all(|place| place.is_in_this_network);
    let streams = Carrier::Streams(match wire {
        _ if !is_here => Reach::Network,
        Wire::Tcp => Reach::Loopback,
        _ => Reach::Machine,
    });
    match (wire, hidden) {
        (Wire::Ucx, _) => Ok(vec![Carrier::Ucx]),
        (Wire::SharedMemory, Some(host)) => Err(Error::Hidden { host: host as u16 }),
        (Wire::SharedMemory, None) => Ok(vec![Carrier::Rings]),
        (Wire::Auto, None) => Ok(vec![Carrier::Rings, streams]),
        (Wire::Auto, Some(_)) | (Wire::Tcp, _) => Ok(vec![streams]),
    }
}

/// The way to the other machines, where there are any and this host serves its own.
///
/// # Errors
/// Nothing carries messages on all hosts.
pub fn agree(has: Has<'_>, meeting: &mut Meeting) -> Result<Option<Box<dyn Transport>>, Error> {
    if has.machines.count() == 1 {
        return Ok(None);
    }
    let (carriers, _) = meeting.agree(carriers(has.terms.wire, has.places), |_| vec![])?;
    let (last, others) = carriers.split_last().ok_or(Error::Garbled)?;
    for carrier in others {
        let found = find(*carrier, has, meeting);
        // All hosts use it, or none.
        let all = meeting.exchange(&[u8::from(found.is_ok())])?;
        if all.iter().all(|said| said == &[1]) {
            return found;
        }
    }
    let found = find(*last, has, meeting);
    meeting.agree(found, |_| vec![]).map(|(found, _)| found)
}

/// The way that one carrier gives.
fn find(carrier: Carrier, has: Has<'_>, meeting: &mut Meeting) -> Result<Option<Box<dyn Transport>>, Error> {
    let me = meeting.me;
    let serves = has.machines.serves(me);
    match carrier {
        Carrier::Rings => {
            let doorbell = has.doorbell.filter(|_| serves);
            let offer = doorbell.map(|bell| Offer::new(has.places.len(), has.memory, bell)).transpose();
            let (offer, all) =
                meeting.agree(offer, |offer| offer.as_ref().map(Offer::to_bytes).unwrap_or_default())?;
            watched(offer.map(|own| Rings::new(own, me, has.views, &all)), has, me)
        }
        Carrier::Streams(reach) => {
            let interface = variable::<Interface>(environment::INTERFACE, INTERFACE_WANTED);
            let listening = interface
                .and_then(|chosen| serves.then(|| Listening::new(reach, chosen.as_ref())).transpose());
            let (listening, all) = meeting.agree(listening, |listening| {
                listening.as_ref().map(Listening::to_bytes).unwrap_or_default()
            })?;
            watched(listening.map(|own| Streams::new(own, me, &all)), has, me)
        }
        Carrier::Ucx => {
            let worker = serves.then(|| {
                let worker = Worker::new(has.terms.wire)?;
                Ok::<_, Error>((worker.address()?, worker))
            });
            let (worker, all) = meeting.agree(worker.transpose(), |worker| {
                worker.as_ref().map(|(address, _)| address.clone()).unwrap_or_default()
            })?;
            watched(worker.map(|(_, own)| Ucx::new(own, me, &all, has.places)), has, me)
        }
    }
}

/// A way whose hosts are watched: the hosts of a machine watch each other, and hosts that serve watch those of other machines.
fn watched<W: Way + 'static>(
    way: Option<Result<W, Error>>,
    has: Has<'_>,
    me: HostId,
) -> Result<Option<Box<dyn Transport>>, Error> {
    let Some(way) = way.transpose()? else { return Ok(None) };
    let place = |(host, place): (usize, &Whereabouts)| Whereabouts {
        process: place.process.filter(|_| has.machines.serves(HostId(host as u16))),
        ..*place
    };
    let places: Vec<_> = has.places.iter().enumerate().map(place).collect();
    Ok(Some(Box::new(Watched::new(way, me, &places, has.terms.silence))))
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::*;

    #[test]
    fn the_way_follows_from_the_choice_and_from_where_hosts_are() {
        let here = Whereabouts {
            on_this_machine: true,
            process: Some(getpid()),
            is_in_this_network: true,
            is_of_this_user: true,
        };
        let stranger = Whereabouts { is_of_this_user: false, ..here };
        let hidden = Whereabouts { process: None, ..here };
        let far = Whereabouts {
            on_this_machine: false,
            process: None,
            is_in_this_network: false,
            is_of_this_user: false,
        };
        let of = |wire, other| carriers(wire, &[here, other]).unwrap();
        let streams = |reach| vec![Carrier::Streams(reach)];
        assert_eq!(of(Wire::Auto, here), [Carrier::Rings, Carrier::Streams(Reach::Machine)]);
        assert_eq!(of(Wire::SharedMemory, here), [Carrier::Rings]);
        for other in [stranger, hidden] {
            assert_eq!(of(Wire::Auto, other), streams(Reach::Machine));
            assert_eq!(of(Wire::Tcp, other), streams(Reach::Loopback));
        }
        assert_eq!(of(Wire::Auto, far), streams(Reach::Network));
        assert_eq!(of(Wire::Tcp, far), streams(Reach::Network));
        for other in [here, hidden, far] {
            assert_eq!(of(Wire::Ucx, other), [Carrier::Ucx]);
        }
        for other in [stranger, hidden, far] {
            let error = carriers(Wire::SharedMemory, &[here, other]).unwrap_err().to_string();
            assert!(error.contains("host 1") && error.contains("auto or tcp"), "{error}");
        }
    }
}
