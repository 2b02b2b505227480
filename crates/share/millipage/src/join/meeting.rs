//! The rendezvous of hosts: at the table of `forebay share`, in a PMIx job, or none if this host is alone.

use std::{
    env,
    os::{
        fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use forebay_coherence::HostId;
use forebay_launch::{Seat, environment};
use rustix::{
    fs::{FileType, fstat},
    io::{FdFlags, fcntl_setfd},
};

use super::pmix::{self, Pmix};
use crate::{Error, usage::Usage};

/// What begins how something went.
const WELL: u8 = 1;
const WRONG: u8 = 0;

/// One host's place among the others.
pub struct Meeting {
    pub me: HostId,
    pub hosts: u16,
    place: Place,
}

enum Place {
    Alone,
    Launcher(Seat),
    Pmix(Box<Pmix>),
}

impl Meeting {
    /// The place that the environment tells of.
    ///
    /// # Errors
    /// What it says makes no sense.
    pub fn find() -> Result<Self, Error> {
        let Some(descriptor) = variable::<RawFd>(environment::SOCKET, "a descriptor")? else {
            return if env::var_os(pmix::VARIABLE).is_some() { Self::by_pmix() } else { Ok(Self::alone()) };
        };
        let rank = variable(environment::RANK, "a number below that of the hosts")?;
        let hosts = variable(environment::HOSTS, "a number of hosts")?.unwrap_or(0);
        let me = rank.filter(|rank| *rank < hosts).ok_or(Error::Variable {
            name: environment::RANK,
            value: env::var(environment::RANK).unwrap_or_default(),
            wanted: "a number below that of the hosts",
        })?;
        Ok(Self { me: HostId(me), hosts, place: Place::Launcher(seat(descriptor)?) })
    }

    const fn alone() -> Self {
        Self { me: HostId(0), hosts: 1, place: Place::Alone }
    }

    fn by_pmix() -> Result<Self, Error> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Relaxed) {
            return Err(Error::JoinedAlready);
        }
        let pmix = Pmix::new()?;
        let (rank, hosts) = (pmix.rank(), pmix.hosts()?);
        let few = |number: u32| {
            u16::try_from(number).map_err(|_| Error::Meeting(format!("{hosts} hosts are too many")))
        };
        Ok(Self { me: HostId(few(rank)?), hosts: few(hosts)?, place: Place::Pmix(Box::new(pmix)) })
    }

    /// All have joined. PMIx, which would see to it that processes end together, is not needed for that.
    pub fn met(&mut self) {
        if matches!(self.place, Place::Pmix(_)) {
            self.place = Place::Alone;
        }
    }

    /// Tells the others how something went here, by `say` if it went well. What it came to, and what all have said.
    ///
    /// # Errors
    /// It went wrong here, or else elsewhere: it fails on all hosts where it does on one.
    pub fn agree<T>(
        &mut self,
        here: Result<T, Error>,
        say: impl FnOnce(&T) -> Vec<u8>,
    ) -> Result<(T, Vec<Vec<u8>>), Error> {
        let said = match &here {
            Ok(value) => [&[WELL], &say(value)[..]].concat(),
            Err(error) => [&[WRONG], error.to_string().as_bytes()].concat(),
        };
        let all = self.exchange(&said);
        let here = here?;
        let judge = |(host, said): (usize, Vec<u8>)| match said.split_first() {
            Some((&WELL, value)) => Ok(value.to_vec()),
            Some((_, reason)) => {
                Err(Error::Join { host: host as u16, reason: String::from_utf8_lossy(reason).into_owned() })
            }
            None => Err(Error::Garbled),
        };
        let all = all?.into_iter().enumerate().map(judge).collect::<Result<_, _>>()?;
        Ok((here, all))
    }

    /// Says something, and hears what all say.
    ///
    /// # Errors
    /// Another host has ended, or does not come.
    pub fn exchange(&mut self, said: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        match &mut self.place {
            Place::Alone => Ok(vec![said.to_vec()]),
            Place::Pmix(pmix) => pmix.exchange(said, self.hosts),
            Place::Launcher(seat) => {
                let all = seat.exchange(said).map_err(|error| Error::Meeting(error.to_string()))?;
                if all.len() == usize::from(self.hosts) { Ok(all) } else { Err(Error::Garbled) }
            }
        }
    }

    /// Leaves, and tells the figures to the launcher, for statistics.
    pub fn leave(self, usage: &Usage) {
        if let Place::Launcher(seat) = self.place {
            let lines: String =
                usage.named().iter().map(|(name, figure)| format!("{name}\t{figure}\n")).collect();
            seat.leave(lines.as_bytes());
        }
    }
}

/// What a variable says, if it is set.
///
/// # Errors
/// It says something else.
pub fn variable<T: FromStr>(name: &'static str, wanted: &'static str) -> Result<Option<T>, Error> {
    let Some(value) = env::var_os(name) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    value.parse().map(Some).map_err(|_| Error::Variable { name, value, wanted })
}

/// The place at the launcher's table that this descriptor leads to.
fn seat(descriptor: RawFd) -> Result<Seat, Error> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let wrong = || Error::Variable {
        name: environment::SOCKET,
        value: descriptor.to_string(),
        wanted: "a socket that was inherited",
    };
    if TAKEN.swap(true, Relaxed) {
        return Err(Error::JoinedAlready);
    }
    if descriptor < 3 {
        return Err(wrong());
    }
    // SAFETY: borrowed to be looked at; a number that is no descriptor makes an error.
    let stat = fstat(unsafe { BorrowedFd::borrow_raw(descriptor) }).map_err(|_| wrong())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(wrong());
    }
    // SAFETY: the launcher opened it for the process that joins, which happens once, so no other thread has it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // Programs that this one starts are no hosts.
    fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(|_| wrong())?;
    Seat::new(UnixStream::from(socket)).map_err(|_| wrong())
}
