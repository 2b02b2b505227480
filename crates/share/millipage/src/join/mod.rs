//! How a process becomes a host. It finds the other hosts, and agrees with them on the job's terms, on one address for
//! the memory, and on one memory or the hosts' network addresses. Each step is one round, in which a failure on one host
//! is an error on all.

mod meeting;
mod one_memory;
mod pmix;
mod terms;
mod way;

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use forebay_coherence::Foresight;
use forebay_launch::environment;
use forebay_linux::{groups, kernel_text};
use forebay_vm::{Object, PAGE_BYTES, Views, free_memory_bytes, free_swap_bytes, layout::VIEWS_MAX};
use meeting::variable;
use one_memory::OfMachine;
use rustix::process::{Resource, getrlimit};
use terms::Terms;

pub use meeting::Meeting;
pub use terms::Whereabouts;
use way::Has;

use crate::{
    Error, Granularity, Host, Options,
    extent::{Extent, FEW},
    host::{Start, Vitals, digest},
    transport::{Wire, liveness::SILENCE},
};

const SWITCH: &str = "0 or 1";
/// Addresses that a process can have, on processors with the fewest.
const ADDRESSES: usize = 1 << 47;
/// Addresses that are tried before the hosts give up.
const ATTEMPTS: usize = 16;

/// Makes this process a host of the job that it was started for: by `forebay share`, or by a launcher that has PMIx, such as
/// mpirun, prterun or srun; its environment tells. Without any, it is a job of one host. The hosts go on when all have called
/// this.
///
/// The variables `FOREBAY_SHARE_SIZE` (bytes) and `FOREBAY_SHARE_VIEWS`, which `forebay share --size` and `--views` set, take
/// the places of the options, and `FOREBAY_SHARE_TRANSPORT` says what messages go over: `shm`, `tcp`, `auto` or `ucx`. Hosts
/// that are on one machine map one memory and send each other no messages, unless `FOREBAY_SHARE_SEPARATE` is 1. Hosts on several
/// machines listen at the addresses of `FOREBAY_SHARE_INTERFACE`: a name, an address or a network. Where `FOREBAY_SHARE_FORESIGHT`
/// is 0, a machine does not fetch what it will probably need after a barrier.
///
/// The memory is at the same address on all hosts, so pointers into it can be shared.
///
/// A host that is lost, be it that it ended, is stopped or cannot be reached (for 5 seconds, or as many as
/// `FOREBAY_SHARE_SILENCE` says), ends the job: calls that wait return [`Error::Lost`]. A process that does not learn of it
/// from a call within another second, or has a thread in a fault that can never be served, says so on standard error, and ends
/// with status [`crate::EXIT_LOST`].
///
/// Where there are several machines, the calling thread, and threads and processes that it starts from then on, are
/// scheduled as `SCHED_BATCH` where they were ordinary ones: they have as much of the processor, but do not interrupt the thread that serves other hosts.
///
/// # Errors
/// The hosts were not started alike, one of them cannot join, or they do not come together within two minutes; then all
/// hosts get an error. Or this process has joined already.
pub fn join(options: Options) -> Result<Host, Error> {
    let mut meeting = Meeting::find()?;
    let me = meeting.me;
    let (terms, all) = meeting.agree(terms(options), Terms::to_bytes)?;
    let places = terms.compare(&all)?;
    let OfMachine { memory, common, machines } =
        one_memory::agree(&terms, &all, terms.machines(&all), &places, &mut meeting)?;
    let views = map(&memory, common.heap.extent().views, terms.at, &mut meeting)?;
    let doorbell = common.desk.as_ref().map(|desk| &*desk.doorbell);
    let has =
        Has { terms: &terms, machines: &machines, places: &places, memory: &memory, views: &views, doorbell };
    let transport = way::agree(has, &mut meeting)?;
    let here: Vec<_> = common.board.hosts().iter().map(|host| places[host.index()]).collect();
    let vitals = Vitals::of(common.board.place(), &here, terms.silence);
    let job = digest(&all);
    meeting.met();
    let (granularity, object, meeting) = (options.granularity, Some(memory), Some(meeting));
    let here = places.iter().filter(|place| place.on_this_machine).count();
    let memories = one_memory::memories(&machines, &places);
    let foresight = if terms.foresight { Foresight::default() } else { Foresight::blind() };
    Host::begin(Start {
        me,
        job,
        machines,
        granularity,
        views,
        object,
        common,
        transport,
        vitals,
        here,
        memories,
        foresight,
        meeting,
    })
}

fn terms(options: Options) -> Result<Terms, Error> {
    let bytes = variable(environment::SIZE, "a number of bytes")?.unwrap_or(options.bytes);
    let bytes = (bytes > 0).then_some(bytes);
    let views = variable(environment::VIEWS, "a number of views")?;
    let views = views.or((options.views > 0).then_some(options.views));
    let silence = variable(environment::SILENCE, "a number of seconds")?.map_or(SILENCE, Duration::from_secs);
    let wire = wire()?;
    let separate = switch(environment::SEPARATE, false)?;
    let foresight = switch(environment::FORESIGHT, true)?;
    if let Some(wanted) = views.filter(|views| !(1..=VIEWS_MAX).contains(views)) {
        return Err(Error::ViewCount { wanted, most: VIEWS_MAX });
    }
    let granularity = options.granularity;
    let views = match granularity {
        Granularity::Fine => views,
        Granularity::Page => Some(granularity.views(1)),
    };
    let machine = variable(environment::MACHINE, "a number of a machine")?.unwrap_or(0);
    // Where the address space is limited, more views would leave less room.
    let views_max = if getrlimit(Resource::As).current.is_some() { FEW } else { VIEWS_MAX };
    let (at, room) = (options.at, room(views.unwrap_or(FEW)));
    let chance = RandomState::new().hash_one(());
    Ok(Terms {
        bytes,
        room,
        views,
        views_max,
        granularity,
        at,
        wire,
        separate,
        machine,
        chance,
        silence,
        foresight,
    })
}

/// How large the memory of a machine can be, where it is the only one on it. What all hosts allocate together can be so large, and what hosts allocate alone
/// too. So half of what is free, where the address space has room for all views, and minipages have numbers.
fn room(views: usize) -> usize {
    // All of the memory would be locked with the rest.
    let is_locked = locked_bytes().is_none_or(|bytes| bytes > 0);
    let free = free_bytes().filter(|_| !is_locked).map_or(0, |free| free as usize / 2);
    let space = getrlimit(Resource::As).current.map_or(ADDRESSES, |limit| ADDRESSES.min(limit as usize));
    let mapped = space / 2 / (2 * (views + 1));
    let numbered = u32::MAX as usize / (2 * views) * PAGE_BYTES;
    free.min(mapped).min(numbered)
}

/// Bytes that this process has locked in memory.
fn locked_bytes() -> Option<u64> {
    kernel_text::bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmLck")
}

/// Whether a variable says 1; what it is without one.
///
/// # Errors
/// It says something else than 0 or 1.
fn switch(name: &'static str, default: bool) -> Result<bool, Error> {
    match variable::<u8>(name, SWITCH)? {
        None => Ok(default),
        Some(number @ 0..=1) => Ok(number == 1),
        Some(number) => Err(Error::Variable { name, value: number.to_string(), wanted: SWITCH }),
    }
}

/// What messages go over.
///
/// # Errors
/// The variable says something else.
pub fn wire() -> Result<Wire, Error> {
    Ok(variable::<Wire>(environment::TRANSPORT, Wire::NAMES)?.unwrap_or_default())
}

/// Bytes that the kernel could give to this process now, swap included, within the limits of its control groups.
#[must_use]
pub fn free_bytes() -> Option<u64> {
    let swap = free_swap_bytes().unwrap_or(0);
    free_memory_bytes().map(|memory| groups::left_of_bytes(&groups::own(), memory, swap))
}

/// A memory object, if there is memory for so many `here`. Its pages exist from their allocation on.
fn memory(extent: Extent, here: usize) -> Result<Object, Error> {
    let (free, bytes) = (free_bytes(), extent.together_bytes());
    let wanted = (bytes as u64).saturating_mul(here as u64);
    if free.is_some_and(|free| wanted > free) {
        return Err(Error::Full { memories: here, bytes, free: free.unwrap_or(0) });
    }
    Ok(Object::sparse(extent.bytes())?)
}

/// Maps the views at an address that is free on all hosts: somewhat below the lowest that they would choose themselves.
fn map(object: &Object, views: usize, at: Option<usize>, meeting: &mut Meeting) -> Result<Views, Error> {
    let total = object.bytes().saturating_mul(views + 1);
    let mut refused = None;
    for attempt in 0..ATTEMPTS {
        let probed = Views::probe(object.bytes(), views).map_err(Error::from);
        let (_, chosen) = meeting.agree(probed, |base| (*base as u64).to_le_bytes().to_vec())?;
        let chosen = chosen.iter().filter_map(|bytes| Some(u64::from_le_bytes(bytes[..].try_into().ok()?)));
        let lowest = chosen.min().unwrap_or(0) as usize;
        let base = at.unwrap_or(lowest.saturating_sub(attempt * total));
        let mapped = Views::map_sparse(object, views, Some(base));
        let said = mapped.as_ref().map_or_else(ToString::to_string, |_| String::new());
        let all = meeting.exchange(said.as_bytes())?;
        let first = all.into_iter().enumerate().find(|(_, said)| !said.is_empty());
        match (mapped, first) {
            (Ok(views), None) => return Ok(views),
            (_, first) => refused = first,
        }
        if at.is_some() {
            break;
        }
    }
    let (host, reason) = refused.unwrap_or_default();
    Err(Error::NoAddress {
        bytes: total,
        host: host as u16,
        reason: String::from_utf8_lossy(&reason).into_owned(),
    })
}
