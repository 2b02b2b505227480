//! The terms of a job: values that must be alike on all hosts.

use std::{fs, iter, time::Duration};

use forebay_coherence::HostId;
use forebay_vm::PAGE_BYTES;
use rustix::process::{Pid, geteuid, getpid};

use crate::{
    Error, Granularity,
    extent::{Extent, FEW},
    host::BYTES_MIN,
    machines::Machines,
    transport::Wire,
};

/// What hosts say to each other while they join, and afterwards. Another one has another number.
const PROTOCOL: u32 = 8;

/// How much is shared, how, and over what.
pub struct Terms {
    /// None where the memory is as large as need be.
    pub bytes: Option<usize>,
    /// How large it can be then where it is the only one on its machine, as this host finds.
    pub room: usize,
    /// None where there are as many as need be.
    pub views: Option<usize>,
    /// How many there can be then, as this host finds.
    pub views_max: usize,
    pub granularity: Granularity,
    pub at: Option<usize>,
    pub wire: Wire,
    /// Each host has a memory of its own, wherever it is.
    pub separate: bool,
    /// The machine that the host counts as on, where a real one is to be several.
    pub machine: u16,
    /// A number that tells the job from others, with those of the other hosts.
    pub chance: u64,
    /// After which a host that says nothing is lost. Each host has its own.
    pub silence: Duration,
    /// The host's machine fetches what it will probably need. Each host has its own.
    pub foresight: bool,
}

impl Terms {
    /// A line for each, and some that may differ: where this host is, what it counts as on, and whose it is.
    pub fn to_bytes(&self) -> Vec<u8> {
        let at = self.at.map_or_else(|| "anywhere".into(), |at| format!("{at:#x}"));
        let by_need =
            |number: Option<usize>| number.map_or_else(|| "by need".into(), |number| number.to_string());
        let lines = [
            format!("protocol {PROTOCOL}"),
            format!("version {}", env!("CARGO_PKG_VERSION")),
            format!("size {}", by_need(self.bytes)),
            format!("views {}", by_need(self.views)),
            format!("granularity {:?}", self.granularity),
            format!("transport {}", self.wire),
            format!("separate {}", if self.separate { "memories" } else { "machines" }),
            format!("address {at}"),
            format!("{ROOM}{}", self.room),
            format!("{VIEWS_MAX}{}", self.views_max),
            format!("{MACHINE}{}", machine()),
            format!("{PROCESS}{} {}", processes(), getpid()),
            format!("{COUNTS_AS}{}", self.machine),
            format!("{NETWORK}{}", namespace("net")),
            format!("{USER}{}", geteuid().as_raw()),
            format!("{CHANCE}{}", self.chance),
        ];
        lines.join("\n").into_bytes()
    }

    /// Compares what all hosts have said. Where each of them is.
    ///
    /// # Errors
    /// They do not have the same.
    pub fn compare(&self, all: &[Vec<u8>]) -> Result<Vec<Whereabouts>, Error> {
        let all: Vec<_> = all.iter().map(|said| String::from_utf8_lossy(said)).collect();
        let first = all.first().map(|said| &**said).unwrap_or_default();
        for (host, said) in all.iter().enumerate() {
            let differs = |(line, other): &(&str, &str)| {
                let own = [ROOM, VIEWS_MAX, MACHINE, PROCESS, COUNTS_AS, NETWORK, USER, CHANCE];
                line != other && !own.iter().any(|name| line.starts_with(name))
            };
            if let Some((line, other)) = first.lines().zip(said.lines()).find(differs) {
                let (what, first) = line.split_once(' ').unwrap_or_default();
                let (_, theirs) = other.split_once(' ').unwrap_or_default();
                return Err(Error::Mismatch {
                    what: what.into(),
                    host: host as u16,
                    theirs: theirs.into(),
                    first: first.into(),
                });
            }
        }
        Ok(all.iter().map(|said| whereabouts(said)).collect())
    }

    /// How large the memories of these machines are, and in how many views they are used.
    pub fn extent(&self, all: &[Vec<u8>], machines: &Machines) -> Extent {
        let bytes = self.bytes.unwrap_or_else(|| self.room(all, machines));
        match self.views {
            Some(views) => Extent::new(bytes, views),
            // Hosts on one machine use parts of a page alike, and more views would be more mappings.
            None if machines.count() == 1 => Extent::new(bytes, FEW),
            None => Extent::sparing(bytes, self.views_by_need(all, bytes), FEW),
        }
    }

    /// As many views as each host can have, and as leave each minipage a number.
    fn views_by_need(&self, all: &[Vec<u8>], bytes: usize) -> usize {
        let most = |said: &Vec<u8>| value(&String::from_utf8_lossy(said), VIEWS_MAX)?.parse().ok();
        let most = all.iter().filter_map(most).fold(self.views_max, usize::min);
        let pages = bytes.div_ceil(PAGE_BYTES);
        let has_numbers = |views: &usize| pages * (views + FEW) <= u32::MAX as usize;
        let doubled = iter::successors(Some(most), |views| Some(views / 2));
        doubled.take_while(|views| *views > FEW).find(has_numbers).unwrap_or(FEW)
    }

    /// How large the memory of each of these machines is, where that is by need: as large as each host finds that it can be, if all
    /// memories on its real machine are as large.
    fn room(&self, all: &[Vec<u8>], machines: &Machines) -> usize {
        let said: Vec<_> = all.iter().map(|said| String::from_utf8_lossy(said)).collect();
        let real = |host: usize| value(&said[host], MACHINE);
        let serving: Vec<usize> =
            (0..said.len()).filter(|host| machines.serves(HostId(*host as u16))).collect();
        let room = |host: usize| -> Option<usize> {
            let memories = serving.iter().filter(|other| real(**other) == real(host)).count();
            Some(value(&said[host], ROOM)?.parse::<usize>().ok()? / memories.max(1))
        };
        let least = (0..said.len()).filter_map(room).min().unwrap_or(self.room);
        (least / PAGE_BYTES * PAGE_BYTES).max(BYTES_MIN)
    }

    /// Which hosts map one memory: those on one machine that can see each other, unless each has a memory of its own.
    pub fn machines(&self, all: &[Vec<u8>]) -> Machines {
        let key = |(host, said): (usize, &Vec<u8>)| {
            let said = String::from_utf8_lossy(said);
            let value = |name| value(&said, name).unwrap_or_default().to_owned();
            let (process, apart) = (value(PROCESS), self.separate.then_some(host));
            let space = process.split(' ').next().unwrap_or_default().to_owned();
            (value(MACHINE), space, value(COUNTS_AS), apart)
        };
        Machines::by(&all.iter().enumerate().map(key).collect::<Vec<_>>())
    }
}

/// Where a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// On the same machine as this one.
    pub on_this_machine: bool,
    /// Its process, if this one can see it.
    pub process: Option<Pid>,
    /// On the same machine, and in the same network namespace.
    pub is_in_this_network: bool,
    /// Of the same user, who may open its shared memory.
    pub is_of_this_user: bool,
}

const ROOM: &str = "room ";
const VIEWS_MAX: &str = "views at most ";
const MACHINE: &str = "machine ";
const PROCESS: &str = "process ";
const COUNTS_AS: &str = "counts as on ";
const NETWORK: &str = "network ";
const USER: &str = "user ";
const CHANCE: &str = "chance ";

fn value<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.strip_prefix(name))
}

fn whereabouts(said: &str) -> Whereabouts {
    let on_this_machine = value(said, MACHINE) == Some(&machine());
    let (space, number) = value(said, PROCESS).and_then(|value| value.split_once(' ')).unwrap_or_default();
    let process = number.parse().ok().and_then(Pid::from_raw);
    let is_in_this_network = on_this_machine && value(said, NETWORK) == Some(&namespace("net"));
    let process = process.filter(|_| on_this_machine && space == processes());
    let is_of_this_user = on_this_machine && value(said, USER) == Some(&geteuid().as_raw().to_string());
    Whereabouts { on_this_machine, process, is_in_this_network, is_of_this_user }
}

/// Tells machines apart, and boots of one.
fn machine() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}

/// Tells apart what numbers of processes belong to.
fn processes() -> String {
    namespace("pid")
}

/// Tells namespaces of this kind apart.
fn namespace(kind: &str) -> String {
    fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(bytes: usize, wire: Wire) -> Terms {
        let granularity = Granularity::Fine;
        let (views, at, separate, silence, foresight) = (Some(4), None, false, Duration::ZERO, true);
        let (bytes, room, views_max) = (Some(bytes), 4096, 256);
        Terms {
            bytes,
            room,
            views,
            views_max,
            granularity,
            at,
            wire,
            separate,
            machine: 0,
            chance: 5,
            silence,
            foresight,
        }
    }

    #[test]
    fn hosts_map_one_memory_where_they_are_on_one_machine_and_see_each_other() {
        let here = terms(4096, Wire::Tcp);
        let said =
            |from: &str, to: &str| String::from_utf8(here.to_bytes()).unwrap().replace(from, to).into_bytes();
        let (elsewhere, hidden) = (said(&machine(), "other"), said(&processes(), "hidden"));
        let counted = Terms { machine: 1, ..terms(4096, Wire::Tcp) };
        let all =
            [here.to_bytes(), elsewhere, here.to_bytes(), hidden, counted.to_bytes(), counted.to_bytes()];
        assert_eq!(here.machines(&all), Machines::by(&[0, 1, 0, 2, 3, 3]));
        let separate = Terms { separate: true, ..terms(4096, Wire::Tcp) };
        assert_eq!(separate.machines(&all), Machines::by(&[0, 1, 2, 3, 4, 5]));
    }

    #[test]
    fn hosts_with_the_same_terms_are_told_apart_by_machine() {
        let here = terms(4096, Wire::Tcp);
        let elsewhere = String::from_utf8(here.to_bytes()).unwrap().replace(&machine(), "other").into_bytes();
        let found = here.compare(&[here.to_bytes(), elsewhere]).unwrap();
        assert_eq!(
            found[0],
            Whereabouts {
                on_this_machine: true,
                process: Some(getpid()),
                is_in_this_network: true,
                is_of_this_user: true
            }
        );
        assert_eq!(
            found[1],
            Whereabouts {
                on_this_machine: false,
                process: None,
                is_in_this_network: false,
                is_of_this_user: false
            }
        );
    }

    #[test]
    fn the_first_difference_is_named_alike_on_all_hosts() {
        let (one, other) = (terms(4096, Wire::Tcp), terms(8192, Wire::Auto));
        let all = [one.to_bytes(), one.to_bytes(), other.to_bytes()];
        for host in [&one, &other] {
            let error = host.compare(&all).unwrap_err().to_string();
            assert_eq!(error, "join(): host 2 has size 8192, host 0 has 4096; start all hosts alike");
        }
    }

    #[test]
    fn memories_by_need_are_as_large_as_all_hosts_have_room_for() {
        let hosts =
            [3 << 30, 1 << 30, 2 << 30].map(|room| Terms { bytes: None, room, ..terms(0, Wire::Auto) });
        let all = hosts.each_ref().map(Terms::to_bytes);
        let room = |keys: &[u16; 3], all: &[Vec<u8>]| {
            hosts.each_ref().map(|host| host.room(all, &Machines::by(keys)))
        };
        assert!(hosts.iter().all(|host| host.compare(&all).is_ok()));
        assert_eq!(room(&[0, 0, 0], &all), [1 << 30; 3]);
        assert_eq!(room(&[0, 0, 1], &all), [1 << 29; 3]);
        // The second one is on another real machine.
        let mut apart = all.clone();
        apart[1] = String::from_utf8(all[1].clone()).unwrap().replace(&machine(), "other").into_bytes();
        assert_eq!(room(&[0, 1, 2], &apart), [1 << 30; 3]);
        let error = hosts[0].compare(&[all[0].clone(), terms(8192, Wire::Auto).to_bytes()]).unwrap_err();
        assert!(error.to_string().contains("host 1 has size 8192, host 0 has by need"), "{error}");
    }

    #[test]
    fn views_by_need_are_many_between_machines_where_minipages_have_numbers() {
        let views = |bytes: usize, views_max: &[usize], keys: &[u16]| {
            let host =
                |views_max: &usize| Terms { views: None, views_max: *views_max, ..terms(bytes, Wire::Auto) };
            let hosts: Vec<Terms> = views_max.iter().map(host).collect();
            let all: Vec<_> = hosts.iter().map(Terms::to_bytes).collect();
            let extents = hosts.iter().map(|host| host.extent(&all, &Machines::by(keys)));
            let found: Vec<_> = extents.map(|extent| (extent.views, extent.few)).collect();
            assert!(found.windows(2).all(|two| two[0] == two[1]), "{found:?}");
            found[0]
        };
        assert_eq!(views(1 << 30, &[256, 256], &[0, 0]), (16, 16));
        assert_eq!(views(1 << 30, &[256, 256], &[0, 1]), (256, 16));
        assert_eq!(views(1 << 30, &[256, 16], &[0, 1]), (16, 16));
        assert_eq!(views(100 << 30, &[256, 256], &[0, 1]), (128, 16));
        assert_eq!(views(1 << 40, &[256, 256], &[0, 1]), (16, 16));
    }
}
