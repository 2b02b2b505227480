//! What a server cannot exceed on this machine: what the loopback carries from one processor to another, what that takes at
//! least of the first, and how punctual timers are.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::sys::socket::sockopt::UdpGsoSegment;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg, setsockopt};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, clock_gettime};

use crate::Error;
use crate::clock::{now_ns, ns};
use crate::outcome::Quantiles;
use crate::processor::{Processors, allow_descriptors, pin};
use crate::sockets::{Pair, Ports, Receiver};

/// Messages of one call.
const MESSAGES_MAX: usize = 64;
/// Descriptors of a receiver, and others that this process has.
const DESCRIPTORS: u64 = 2;
const DESCRIPTORS_BESIDES: u64 = 256;
/// What frames are cut from: more than caches hold, as with the films of many players.
const FILM_BYTES: usize = 64 << 20;
/// How long packets gather where few came, as with players (see [`crate::crowd`]): to wake the receiver for each would take
/// time of the sender's processor.
const GATHER: Duration = Duration::from_micros(500);
const FEW_BYTES: u64 = UNDER_WAY_BYTES / 4;
/// The sender waits while more is on its way, so that nothing is lost and what counts has arrived.
const UNDER_WAY_BYTES: u64 = 1 << 20;
/// A datagram that is segmented can be no longer, with its heads.
const SEGMENTED_BYTES_MAX: usize = 65_000;
const SEGMENTS_MAX: usize = 64;
/// The receiver looks whether it is over so often.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Nothing under way takes longer, or it is lost.
const PATIENCE: Duration = Duration::from_secs(2);
const TIMER_EVERY_NS: i64 = 1_000_000;
const EVENTS: usize = 512;
/// More are not worth their ports.
const RECEIVERS_MAX: usize = 10_000;

/// How bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Many packets with one call, to a receiver each.
    Sendmmsg,
    /// The same, but each of so many packets, which the kernel takes apart.
    Segmented {
        /// Packets, of which no more are taken than the kernel allows.
        packets: usize,
    },
    /// Writes of so many packets to connections.
    Tcp {
        /// Packets.
        packets: usize,
    },
}

/// What arrives in a second of packets of `bytes`, sent in turn to so many `receivers`, by one processor that sends and one that
/// receives, in bits. The more there are, the less of what the kernel knows of each is in caches.
///
/// # Errors
/// The system refuses it.
pub fn bits_per_second(
    way: Way,
    bytes: usize,
    receivers: usize,
    processors: Processors,
    time: Duration,
) -> Result<f64, Error> {
    let receivers = Receivers::open(way, allowed(receivers))?;
    between(&receivers, processors, |addresses, counts| send(way, bytes, addresses, time, counts))
}

/// What it takes of a processor to send frames of `bytes` at their times over TCP, in seconds for each gigabit. Each goes
/// with one `sendfile` of a file in memory, and nothing else is done. Each of so many `receivers` has a frame in every
/// `interval`.
///
/// # Errors
/// The system refuses it.
pub fn sendfile_seconds_per_gigabit(
    bytes: usize,
    interval: Duration,
    receivers: usize,
    processors: Processors,
    time: Duration,
) -> Result<f64, Error> {
    let receivers = Receivers::open(Way::Tcp { packets: 1 }, allowed(receivers))?;
    between(&receivers, processors, |addresses, _| send_film(bytes, interval, addresses, time))
}

/// Sends on the processor of servers while another thread receives on that of players.
fn between(
    receivers: &Receivers,
    processors: Processors,
    send: impl FnOnce(&[SocketAddr], &Counts) -> io::Result<f64> + Send,
) -> Result<f64, Error> {
    let counts = Counts::default();
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let _ = pin(processors.players);
            receivers.receive(&counts)
        });
        let sending = scope.spawn(|| {
            let _ = pin(processors.server);
            let sent = send(&receivers.addresses, &counts);
            counts.over.store(true, Ordering::Relaxed);
            sent
        });
        let sent = sending.join().expect("sending does not panic");
        receiving.join().expect("receiving does not panic").map_err(Error::system("receive packets"))?;
        sent.map_err(Error::system("send packets over the loopback"))
    })
}

/// How many of so many receivers there can be, by the descriptors that this process may have, and the ports that there are.
pub fn allowed(receivers: usize) -> usize {
    let descriptors = allow_descriptors(receivers as u64 * DESCRIPTORS + DESCRIPTORS_BESIDES);
    let most = descriptors.saturating_sub(DESCRIPTORS_BESIDES) / DESCRIPTORS;
    receivers.min(most as usize).clamp(1, RECEIVERS_MAX)
}

#[derive(Debug, Default)]
struct Counts {
    arrived: AtomicU64,
    over: AtomicBool,
}

/// Where packets go.
struct Receivers {
    pairs: Vec<Pair>,
    listener: Option<TcpListener>,
    addresses: Vec<SocketAddr>,
}

impl Receivers {
    fn open(way: Way, count: usize) -> Result<Self, Error> {
        let here = Ipv4Addr::LOCALHOST;
        if let Way::Tcp { .. } = way {
            let listener = TcpListener::bind((here, 0)).map_err(Error::system("listen"))?;
            let address = listener.local_addr().map_err(Error::system("listen"))?;
            return Ok(Self { pairs: vec![], listener: Some(listener), addresses: vec![address; count] });
        }
        let mut ports = Ports::new(u64::from(std::process::id()));
        let pairs = (0..count).map(|_| ports.pair(here.into())).collect::<Result<Vec<_>, _>>()?;
        let addresses = pairs.iter().map(|pair| (here, pair.port).into()).collect();
        Ok(Self { pairs, listener: None, addresses })
    }

    fn receive(&self, counts: &Counts) -> io::Result<()> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let watch = |socket: &dyn std::os::fd::AsFd, key| {
            epoll::add(&epoll, socket.as_fd(), EventData::new_u64(key), EventFlags::IN)
        };
        let mut streams = Vec::new();
        if let Some(listener) = &self.listener {
            listener.set_nonblocking(true)?;
            // Who connects gives up where that fails.
            while streams.len() < self.addresses.len() && !counts.over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => streams.push(stream),
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
        for (key, stream) in (0..).zip(&streams) {
            watch(stream, key)?;
        }
        for (key, pair) in (0..).zip(&self.pairs) {
            watch(&pair.media, key)?;
        }
        let mut receiver = Receiver::new();
        let mut events = Vec::<epoll::Event>::with_capacity(EVENTS);
        while !counts.over.load(Ordering::Relaxed) {
            events.clear();
            match epoll::wait(&epoll, spare_capacity(&mut events), Some(&LOOK_EVERY)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut arrived = 0;
            for event in &events {
                let key = event.data.u64() as usize;
                let descriptor = match streams.get(key) {
                    Some(stream) => stream.as_raw_fd(),
                    None => self.pairs[key].media.as_raw_fd(),
                };
                while let Ok(Some(received)) = receiver.receive(&descriptor, None) {
                    if received.bytes.is_empty() {
                        return Ok(());
                    }
                    arrived += received.bytes.len() as u64;
                }
            }
            counts.arrived.fetch_add(arrived, Ordering::Relaxed);
            if arrived < FEW_BYTES {
                std::thread::sleep(GATHER);
            }
        }
        Ok(())
    }
}

/// Sends for a while, no more than the receiver can take, and tells the bits that arrived in a second.
fn send(
    way: Way,
    bytes: usize,
    addresses: &[SocketAddr],
    time: Duration,
    counts: &Counts,
) -> io::Result<f64> {
    let mut sender = Sender::open(way, bytes, addresses)?;
    let mut sent = 0;
    let begun = Instant::now();
    while begun.elapsed() < time {
        sent += sender.send()?;
        let full = Instant::now();
        while sent.saturating_sub(counts.arrived.load(Ordering::Relaxed)) > UNDER_WAY_BYTES {
            if full.elapsed() > PATIENCE {
                return Err(io::Error::other("packets are lost on the loopback"));
            }
            std::hint::spin_loop();
        }
    }
    Ok(counts.arrived.load(Ordering::Relaxed) as f64 * 8.0 / begun.elapsed().as_secs_f64())
}

/// Sends frames at their times, and tells the processor time of a gigabit.
fn send_film(bytes: usize, interval: Duration, addresses: &[SocketAddr], time: Duration) -> io::Result<f64> {
    let streams = connections(addresses)?;
    let film = film(FILM_BYTES.max(2 * bytes))?;
    let places = film.metadata()?.len() - bytes as u64;
    let spent_ns = || ns(clock_gettime(ClockId::ThreadCPUTime));
    let (begun_ns, before_ns) = (now_ns(), spent_ns());
    let gap_ns = interval.as_nanos() as f64 / streams.len() as f64;
    let mut woken_ns = begun_ns;
    let mut frames = 0_u32;
    // One at least, however long this thread is kept from its processor.
    while frames == 0 || now_ns() < begun_ns + time.as_nanos() as i64 {
        let due_ns = begun_ns + (f64::from(frames) * gap_ns) as i64;
        if due_ns > now_ns() {
            // As a server does, so that it does not wake for each.
            woken_ns = due_ns.max(woken_ns + GATHER.as_nanos() as i64);
            sleep_until(woken_ns)?;
        }
        let mut at = u64::from(frames) * bytes as u64 % places;
        let mut rest = bytes;
        while rest > 0 {
            match sendfile(&streams[frames as usize % streams.len()], &film, Some(&mut at), rest) {
                Ok(sent) => rest -= sent,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        frames += 1;
    }
    let gigabits = f64::from(frames) * bytes as f64 * 8.0 / 1e9;
    Ok((spent_ns() - before_ns) as f64 / 1e9 / gigabits)
}

/// A file in memory.
fn film(bytes: usize) -> io::Result<File> {
    let mut film = File::from(memfd_create("forebay-film", MemfdFlags::CLOEXEC)?);
    film.write_all(&vec![0x80; bytes])?;
    Ok(film)
}

fn connections(addresses: &[SocketAddr]) -> io::Result<Vec<TcpStream>> {
    let streams = addresses.iter().map(TcpStream::connect).collect::<io::Result<Vec<_>>>()?;
    for stream in &streams {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    Ok(streams)
}

enum Sender {
    Datagrams { socket: UdpSocket, message: Vec<u8>, to: Addresses, headers: Headers },
    Streams { streams: Vec<TcpStream>, message: Vec<u8> },
}

type Headers = MultiHeaders<SockaddrStorage>;

/// Where packets go, in turn.
struct Addresses {
    all: Vec<Option<SockaddrStorage>>,
    next: usize,
}

impl Addresses {
    /// Those of the next call.
    fn next(&mut self) -> &[Option<SockaddrStorage>] {
        let first = self.next;
        let last = (first + MESSAGES_MAX).min(self.all.len());
        self.next = if last < self.all.len() { last } else { 0 };
        &self.all[first..last]
    }
}

impl Sender {
    fn open(way: Way, bytes: usize, addresses: &[SocketAddr]) -> io::Result<Self> {
        let packets = match way {
            Way::Sendmmsg => 1,
            Way::Segmented { packets } => {
                packets.clamp(1, SEGMENTS_MAX.min((SEGMENTED_BYTES_MAX / bytes).max(1)))
            }
            Way::Tcp { packets } => packets.max(1),
        };
        let message = vec![0x80; packets * bytes];
        if let Way::Tcp { .. } = way {
            return Ok(Self::Streams { streams: connections(addresses)?, message });
        }
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        if packets > 1 {
            setsockopt(&socket, UdpGsoSegment, &(bytes as i32))?;
        }
        let all = addresses.iter().map(|address| Some(SockaddrStorage::from(*address))).collect();
        let to = Addresses { all, next: 0 };
        let headers = Headers::preallocate(MESSAGES_MAX, None);
        Ok(Self::Datagrams { socket, message, to, headers })
    }

    /// Sends to the next receivers, or to all connections, and tells how many bytes.
    fn send(&mut self) -> io::Result<u64> {
        match self {
            Self::Datagrams { socket, message, to, headers } => {
                let to = to.next();
                let slices: Vec<_> = to.iter().map(|_| [IoSlice::new(message)]).collect();
                let sent = sendmmsg(socket.as_raw_fd(), headers, &slices, to, [], MsgFlags::empty())?.count();
                Ok((sent * message.len()) as u64)
            }
            Self::Streams { streams, message } => {
                streams.iter_mut().try_for_each(|stream| stream.write_all(message))?;
                Ok((streams.len() * message.len()) as u64)
            }
        }
    }
}

/// How late a sleeper wakes on a processor with nothing else to do, who sleeps until each next millisecond.
///
/// # Errors
/// The system does not let it sleep.
pub fn timer_lateness(processor: Option<usize>, time: Duration) -> Result<Quantiles, Error> {
    Processors::on(processor, || {
        let mut late_us: Histogram<u64> =
            Histogram::new_with_bounds(1, 60_000_000, 3).expect("these bounds are allowed");
        let end = now_ns() + time.as_nanos() as i64;
        let mut due = now_ns() + TIMER_EVERY_NS;
        while due < end {
            sleep_until(due).map_err(Error::system("sleep"))?;
            let now = now_ns();
            late_us.saturating_record(((now - due) / 1_000).max(0) as u64);
            // What was slept through was due all the same, and is in the sample: no one is asked for twice.
            due = (due + TIMER_EVERY_NS).max(now);
        }
        Ok(Quantiles::of(&late_us))
    })
}

/// A signal may end it early.
fn sleep_until(moment_ns: i64) -> io::Result<()> {
    let moment = Timespec { tv_sec: moment_ns / 1_000_000_000, tv_nsec: moment_ns % 1_000_000_000 };
    match clock_nanosleep_absolute(ClockId::Monotonic, &moment) {
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(50);

    /// Measures for longer and longer, until other programs have left time for something.
    fn in_time<T: std::fmt::Debug>(measure: impl Fn(Duration) -> T, is_something: impl Fn(&T) -> bool) {
        let mut said = vec![];
        for time in (0..10).map(|doubled| MOMENT * (1 << doubled)) {
            let measured = measure(time);
            if is_something(&measured) {
                return;
            }
            said.push(measured);
        }
        panic!("{said:?}");
    }

    #[test]
    fn every_way_carries_something() {
        let processors = Processors::of_this_machine();
        for way in [Way::Sendmmsg, Way::Segmented { packets: 14 }, Way::Tcp { packets: 14 }] {
            for receivers in [1, MESSAGES_MAX, 3 * MESSAGES_MAX + 1] {
                let bits = |time| bits_per_second(way, 1_400, receivers, processors, time).unwrap();
                in_time(bits, |bits| *bits > 1e6);
            }
        }
    }

    #[test]
    fn small_frames_take_more_of_a_processor_for_each_gigabit() {
        let processors = Processors::of_this_machine();
        let interval = Duration::from_millis(10);
        let [tiny, usual] = [(1, 1), (20_000, 8)].map(|(bytes, receivers)| {
            sendfile_seconds_per_gigabit(bytes, interval, receivers, processors, MOMENT).unwrap()
        });
        assert!(tiny > 100.0 * usual && usual > 0.0, "{tiny}, {usual}");
    }

    #[test]
    fn all_receivers_have_their_turn() {
        let address = |port: u16| Some(SockaddrStorage::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        let mut to = Addresses { all: (1..=100).map(address).collect(), next: 0 };
        assert_eq!(to.next(), (1..=64).map(address).collect::<Vec<_>>());
        assert_eq!(to.next(), (65..=100).map(address).collect::<Vec<_>>());
        assert_eq!(to.next().first(), Some(&address(1)));
    }

    #[test]
    fn no_timer_is_early() {
        let late = |time| timer_lateness(Processors::of_this_machine().server, time).unwrap();
        in_time(late, |late| {
            assert!(late.p50 <= late.p99 && late.p99 <= late.max, "{late:?}");
            late.samples > 0
        });
    }
}
