//! The launcher's end.

use std::{io, os::unix::net::UnixStream, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use crate::frame;

/// How long a host may take over the rest of a frame.
const FRAME: Duration = Duration::from_secs(10);

/// Where the hosts of a job meet.
#[derive(Debug)]
pub struct Table {
    /// By rank; none that is gone.
    sockets: Vec<Option<UnixStream>>,
    /// Their parts of the round.
    said: Vec<Option<Vec<u8>>>,
    left_behind: Vec<Option<Vec<u8>>>,
    /// The first one that was missed in a round.
    gone: Option<usize>,
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
        Ok((Self { sockets: ours.into_iter().map(Some).collect(), said, left_behind, gone: None }, theirs))
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
        match poll(&mut files, None) {
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
        // Who is told of it ends, too, and is not the one that others wait for in vain.
        self.gone = self.gone.or_else(|| (0..self.sockets.len()).find(has_gone));
        let answer = match self.gone {
            Some(gone) => {
                let rank = (gone as u16).to_le_bytes();
                (frame::FAILED, [&rank[..], b"ended before all had joined"].concat())
            }
            None if self.said.iter().all(Option::is_some) => {
                (frame::ALL_SAID, frame::join(self.said.iter().flatten().map(Vec::as_slice)))
            }
            None => return,
        };
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

#[cfg(test)]
mod tests {
    use std::thread;

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
}
