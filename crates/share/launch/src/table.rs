//! The launcher's end.

use std::{
    fs, io,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::frame;

/// How long a host may take over the rest of a frame.
const FRAME: Duration = Duration::from_secs(10);

/// How long the hosts of a round wait for others before that is told.
const LATE: Duration = Duration::from_secs(6);
/// How long they wait at all.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between looks at those that are waited for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Told of hosts that others wait for.
type Tell = Box<dyn FnMut(String) + Send>;

/// Where the hosts of a job meet.
pub struct Table {
    /// By rank; none that is gone.
    sockets: Vec<Option<UnixStream>>,
    /// Their parts of the round.
    said: Vec<Option<Vec<u8>>>,
    left_behind: Vec<Option<Vec<u8>>>,
    /// The first one that was missed in a round, and why.
    gone: Option<(usize, String)>,
    /// When the first host of this round spoke.
    since: Option<Instant>,
    /// A host that was stopped at the last look.
    suspect: Option<usize>,
    /// The processes of the hosts, by rank, where they are known.
    processes: Vec<i32>,
    tell: Option<Tell>,
}

impl Table {
    /// One with so many places, and the sockets that lead there, by rank.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn new(hosts: u16) -> io::Result<(Self, Vec<UnixStream>)> {
        let pairs: Vec<_> = (0..hosts).map(|_| UnixStream::pair()).collect::<io::Result<_>>()?;
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        for socket in &ours {
            socket.set_read_timeout(Some(FRAME))?;
            socket.set_write_timeout(Some(FRAME))?;
        }
        let none = || ours.iter().map(|_| None).collect();
        let (said, left_behind) = (none(), none());
        let sockets = ours.into_iter().map(Some).collect();
        let (gone, since, suspect, processes, tell) = (None, None, None, vec![], None);
        Ok((Self { sockets, said, left_behind, gone, since, suspect, processes, tell }, theirs))
    }

    /// Looks at the processes of the hosts, given by rank, while hosts wait for others, and tells which are waited for.
    #[must_use]
    pub fn watching(mut self, processes: Vec<i32>, tell: impl FnMut(String) + Send + 'static) -> Self {
        self.processes = processes;
        self.tell = Some(Box::new(tell));
        self
    }

    /// Serves the hosts until all of them are gone. What each said at last, if it did.
    pub fn serve(mut self) -> Vec<Option<Vec<u8>>> {
        while let Some(ready) = self.ready() {
            for host in ready {
                self.hear(host);
            }
            self.end_round();
        }
        self.left_behind
    }

    /// Hosts that say something, or have gone; `None` if there are none any more.
    fn ready(&self) -> Option<Vec<usize>> {
        let places = self.sockets.iter().enumerate();
        let (hosts, mut files): (Vec<_>, Vec<_>) = places
            .filter_map(|(host, socket)| Some((host, PollFd::new(socket.as_ref()?, PollFlags::IN))))
            .unzip();
        if files.is_empty() {
            return None;
        }
        match poll(&mut files, self.since.map(|_| &LOOK)) {
            Ok(_) => {
                let ready = hosts.into_iter().zip(&files).filter(|(_, file)| !file.revents().is_empty());
                Some(ready.map(|(host, _)| host).collect())
            }
            Err(Errno::INTR) => Some(vec![]),
            Err(_) => None,
        }
    }

    fn hear(&mut self, host: usize) {
        let Some(socket) = &self.sockets[host] else { return };
        match frame::read(socket) {
            Ok((frame::SAYS, said)) => self.said[host] = Some(said),
            Ok((frame::LEAVES, said)) => self.left_behind[host] = Some(said),
            // It is gone, or talks nonsense.
            _ => self.sockets[host] = None,
        }
    }

    /// Hands out what all have said, or tells that not all will.
    fn end_round(&mut self) {
        let has_gone = |host: &usize| self.sockets[*host].is_none() && self.said[*host].is_none();
        if self.said.iter().any(Option::is_some) {
            self.since.get_or_insert_with(Instant::now);
        }
        // Who is told of it ends, too, and is not the one that others wait for in vain.
        if self.gone.is_none() {
            let gone = (0..self.sockets.len()).find(has_gone);
            self.gone = gone.map(|host| (host, "ended before all had joined".into())).or_else(|| self.late());
        }
        let answer = match &self.gone {
            Some((gone, why)) => {
                let rank = (*gone as u16).to_le_bytes();
                (frame::FAILED, [&rank[..], why.as_bytes()].concat())
            }
            None if self.said.iter().all(Option::is_some) => {
                (frame::ALL_SAID, frame::join(self.said.iter().flatten().map(Vec::as_slice)))
            }
            None => return,
        };
        self.since = None;
        for (socket, said) in self.sockets.iter_mut().zip(&mut self.said) {
            let waits = said.take().is_some();
            if let Some(open) = socket.as_ref().filter(|_| waits)
                && frame::write(open, answer.0, &answer.1).is_err()
            {
                *socket = None;
            }
        }
    }
}

impl Table {
    /// A host that the others need not wait for any longer, and why. Others that are late are told of.
    fn late(&mut self) -> Option<(usize, String)> {
        let waited = self.since?.elapsed();
        let is_missing = |host: &usize| self.said[*host].is_none();
        let mut missing = (0..self.said.len()).filter(is_missing).peekable();
        let first = *missing.peek()?;
        if waited < LATE {
            return None;
        }
        let stopped = missing.find(|host| self.processes.get(*host).is_some_and(|pid| is_stopped(*pid)));
        // A job that was stopped as a whole continues host by host.
        if let Some(host) = stopped.filter(|host| self.suspect == Some(*host)) {
            let process = self.processes[host];
            let why = format!("(process {process}) was stopped before it called join(); start the job again");
            return Some((host, why));
        }
        self.suspect = stopped;
        if waited > PATIENCE {
            return Some((first, format!("did not call join() within {} s", PATIENCE.as_secs())));
        }
        let missing = (0..self.said.len()).filter(is_missing);
        if let Some(mut tell) = self.tell.take() {
            tell(format!("the other hosts wait in join() for {}", listed(missing, &self.processes)));
        }
        None
    }
}

/// Hosts, by number and process; not more than a line holds.
fn listed(hosts: impl Iterator<Item = usize>, processes: &[i32]) -> String {
    let hosts: Vec<usize> = hosts.collect();
    let named = hosts.iter().take(8).map(|host| match processes.get(*host) {
        Some(process) => format!("host {host} (process {process})"),
        None => format!("host {host}"),
    });
    let named = named.collect::<Vec<_>>().join(", ");
    if hosts.len() > 8 { format!("{named} and {} more", hosts.len() - 8) } else { named }
}

/// Whether a process is stopped, by a signal or a debugger (proc_pid_stat(5)).
fn is_stopped(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before may contain anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use crate::{Seat, SeatError};

    #[test]
    fn all_hear_what_all_say_in_each_round() {
        let (table, sockets) = Table::new(3).unwrap();
        let server = thread::spawn(|| table.serve());
        let hosts = sockets.into_iter().enumerate().map(|(rank, socket)| {
            thread::spawn(move || {
                let mut seat = Seat::new(socket).unwrap();
                for round in 0..20u8 {
                    let said = vec![round; rank * 1_000];
                    let all = seat.exchange(&said).unwrap();
                    assert_eq!(all, (0..3).map(|rank| vec![round; rank * 1_000]).collect::<Vec<_>>());
                }
                if rank != 1 {
                    seat.leave(&[rank as u8]);
                }
            })
        });
        hosts.collect::<Vec<_>>().into_iter().for_each(|host| host.join().unwrap());
        assert_eq!(server.join().unwrap(), [Some(vec![0]), None, Some(vec![2])]);
    }

    #[test]
    fn a_host_that_ends_fails_the_round_for_all_before_and_behind_it() {
        let (table, mut sockets) = Table::new(3).unwrap();
        let server = thread::spawn(|| table.serve());
        let (last, first) = (sockets.pop().unwrap(), sockets.remove(0));
        let early = thread::spawn(|| Seat::new(first).unwrap().exchange(b"early").unwrap_err());
        drop(sockets);
        let late = Seat::new(last).unwrap().exchange(b"late").unwrap_err();
        for error in [early.join().unwrap(), late] {
            assert!(matches!(error, SeatError::Host { host: 1, .. }), "{error}");
        }
        server.join().unwrap();
    }

    #[test]
    fn who_comes_when_others_have_heard_and_gone_hears_of_the_first() {
        let (table, mut sockets) = Table::new(3).unwrap();
        let server = thread::spawn(|| table.serve());
        let (last, first) = (sockets.pop().unwrap(), sockets.remove(0));
        drop(sockets);
        Seat::new(first).unwrap().exchange(b"early").unwrap_err();
        let late = Seat::new(last).unwrap().exchange(b"late").unwrap_err();
        assert!(matches!(late, SeatError::Host { host: 1, .. }), "{late}");
        server.join().unwrap();
    }

    #[test]
    fn a_host_that_is_late_is_told_of_and_one_that_is_stopped_fails_the_round() {
        let mut late = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = late.id() as i32;
        let (table, mut sockets) = Table::new(2).unwrap();
        let (sender, told) = mpsc::channel();
        let table = table.watching(vec![1, pid], move |sentence| sender.send(sentence).unwrap());
        let server = thread::spawn(|| table.serve());
        let first = sockets.remove(0);
        let waiting = thread::spawn(|| Seat::new(first).unwrap().exchange(b"early").unwrap_err());
        let sentence = told.recv_timeout(LATE * 5).unwrap();
        assert_eq!(sentence, format!("the other hosts wait in join() for host 1 (process {pid})"));
        kill_process(Pid::from_child(&late), Signal::STOP).unwrap();
        let error = waiting.join().unwrap().to_string();
        assert_eq!(
            error,
            format!("host 1 (process {pid}) was stopped before it called join(); start the job again")
        );
        late.kill().unwrap();
        late.wait().unwrap();
        drop(sockets);
        server.join().unwrap();
    }

    #[test]
    fn many_hosts_are_not_all_listed() {
        assert_eq!(listed([3].into_iter(), &[]), "host 3");
        assert!(listed(0..20, &[]).ends_with("host 7 and 12 more"));
    }
}
