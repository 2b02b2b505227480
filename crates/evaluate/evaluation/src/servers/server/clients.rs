//! Clients that ask for documents over HTTP: as fast as the server answers, or by a schedule that does not wait for answers.
//!
//! Latency is from when a request was to be made. A server that is late so cannot delay the requests that would show it.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::experiments::{Connections, Generator, Rate};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::http::{Answered, Incoming, request};
use super::observer::Schedstat;
use crate::harness::random::Random;

/// How long nothing is waited for without a look at whether the load was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Connections that were refused in a row, before the server is given up.
const REFUSED_MAX: u32 = 200;
/// Latencies are told with three digits.
const DIGITS: u8 = 3;
/// Longer ones count as this: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const READ_BYTES: usize = 256 << 10;

/// Who asks for what.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    pub(super) address: SocketAddr,
    pub(super) authority: String,
    /// They are asked for in no order.
    pub(super) paths: Vec<String>,
    pub(super) number: u16,
    pub(super) rate: Rate,
    pub(super) connections: Connections,
}

/// The part of the time that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

impl Window {
    /// How long of it lies between two moments.
    fn seconds_between(&self, from: Instant, to: Instant) -> f64 {
        to.min(self.end).saturating_duration_since(from.max(self.begin)).as_secs_f64()
    }
}

/// What came of it within the window.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Of answers that were refusals, and of connections that broke.
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    /// Requests that the schedule had.
    pub(super) intended: Option<f64>,
    /// Seconds of all requests that were under way, together.
    pub(super) under_way_s: f64,
    /// From when a request was to be made to its answer, in nanoseconds.
    pub(super) latency_ns: Histogram<u64>,
    pub(super) generator: Generator,
}

impl Answers {
    fn none() -> Self {
        Self {
            requests: 0,
            bytes: 0,
            errors: 0,
            first_error: None,
            intended: None,
            under_way_s: 0.0,
            latency_ns: Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS)
                .expect("these bounds are allowed"),
            generator: Generator { threads: 0.0, processor_s: 0.0, queued_s: 0.0 },
        }
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.intended = self.intended.zip(other.intended).map(|(one, two)| one + two);
        self.under_way_s += other.under_way_s;
        self.latency_ns.add(other.latency_ns).expect("both have the same bounds");
        self.generator.threads += other.generator.threads;
        self.generator.processor_s += other.generator.processor_s;
        self.generator.queued_s += other.generator.queued_s;
    }

    fn fails(&mut self, why: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(why);
    }
}

impl Clients {
    /// Asks from now on until the end of the window, or until `stop` is set. A sentence where the server cannot be asked.
    pub(super) fn run(&self, window: Window, stop: &AtomicBool) -> Result<Answers, String> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // Half of the processors are left to the server.
        let threads = (processors / 2).clamp(1, usize::from(self.number));
        thread::scope(|scope| {
            let start =
                |number: usize| scope.spawn(move || Asking::new(self, number, threads, window)?.run(stop));
            let running: Vec<_> = (0..threads).map(start).collect();
            let mut ended = running.into_iter().map(|thread| thread.join().expect("clients do not panic"));
            let mut answers = ended.next().expect("one thread")?;
            for more in ended {
                answers.add(more?);
            }
            Ok(answers)
        })
    }
}

/// The clients of one thread.
struct Asking<'a> {
    clients: &'a Clients,
    window: Window,
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    epoll: rustix::fd::OwnedFd,
    schedule: Option<Schedule>,
    random: Random,
    requests: Vec<Vec<u8>>,
    refused: u32,
    answers: Answers,
    buffer: Vec<u8>,
}

/// Requests at even distances.
struct Schedule {
    next: Instant,
    distance: Duration,
    /// When those were to be made that wait for a connection.
    overdue: VecDeque<Instant>,
}

#[derive(Default)]
struct Connection {
    stream: Option<TcpStream>,
    asked: Option<Asked>,
    incoming: Incoming,
}

/// A request that is under way.
#[derive(Clone, Copy)]
struct Asked {
    intended: Instant,
    begun: Instant,
    request: usize,
    written: usize,
}

impl<'a> Asking<'a> {
    fn new(clients: &'a Clients, number: usize, threads: usize, window: Window) -> Result<Self, String> {
        let own = usize::from(clients.number) / threads
            + usize::from(number < usize::from(clients.number) % threads);
        let now = Instant::now();
        let schedule = match clients.rate {
            Rate::Most => None,
            Rate::PerSecond(rate) => {
                let distance = Duration::from_secs_f64(threads as f64 / rate);
                let next = now + distance.mul_f64(number as f64 / threads as f64);
                Some(Schedule { next, distance, overdue: VecDeque::new() })
            }
        };
        let close = clients.connections == Connections::New;
        Ok(Self {
            clients,
            window,
            connections: (0..own).map(|_| Connection::default()).collect(),
            idle: (0..own).collect(),
            epoll: epoll::create(CreateFlags::CLOEXEC)
                .map_err(|errno| format!("no clients can be had: {errno}"))?,
            random: Random::new(number as u64),
            requests: clients.paths.iter().map(|path| request(&clients.authority, path, close)).collect(),
            refused: 0,
            answers: Answers { intended: schedule.as_ref().map(|_| 0.0), ..Answers::none() },
            buffer: vec![0; READ_BYTES],
            schedule,
        })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<Answers, String> {
        let mut events = Vec::with_capacity(256);
        let mut before = None;
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= self.window.end {
                break;
            }
            if before.is_none() && now >= self.window.begin {
                before = Some(Schedstat::of_this_thread());
            }
            self.ask(now)?;
            let boundary = if before.is_some() { self.window.end } else { self.window.begin };
            let due = self.schedule.as_ref().map_or(boundary, |schedule| schedule.next.min(boundary));
            let wait = due.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
            let timeout = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as _ };
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(format!("clients cannot wait: {errno}")),
            }
            for event in &events {
                self.proceed(event.data.u64() as usize)?;
            }
        }
        let now = Instant::now();
        let pending = self.connections.iter().filter_map(|connection| connection.asked);
        self.answers.under_way_s +=
            pending.map(|asked| self.window.seconds_between(asked.begun, now)).sum::<f64>();
        let used = Schedstat::of_this_thread().since(before.unwrap_or_default());
        self.answers.generator = Generator { threads: 1.0, processor_s: used.ran_s, queued_s: used.queued_s };
        Ok(self.answers)
    }

    /// Makes the requests that are to be made now, as far as there are connections.
    fn ask(&mut self, now: Instant) -> Result<(), String> {
        if let Some(schedule) = &mut self.schedule {
            while schedule.next <= now {
                schedule.overdue.push_back(schedule.next);
                if schedule.next >= self.window.begin {
                    self.answers.intended = self.answers.intended.map(|intended| intended + 1.0);
                }
                schedule.next += schedule.distance;
            }
        }
        for _ in 0..self.idle.len() {
            let intended = match &mut self.schedule {
                None => now,
                Some(schedule) => match schedule.overdue.pop_front() {
                    None => break,
                    Some(intended) => intended,
                },
            };
            let number = self.idle.pop_front().expect("one is idle");
            let request = self.random.below(self.requests.len());
            self.connections[number].asked = Some(Asked { intended, begun: now, request, written: 0 });
            self.proceed(number)?;
        }
        Ok(())
    }

    /// Does what can be done on a connection without waiting.
    fn proceed(&mut self, number: usize) -> Result<(), String> {
        if self.connections[number].stream.is_none() && self.connections[number].asked.is_some() {
            self.connect(number)?;
        }
        if !self.write(number)? {
            return Ok(());
        }
        loop {
            let connection = &mut self.connections[number];
            let Some(stream) = &mut connection.stream else { return Ok(()) };
            match stream.read(&mut self.buffer) {
                Ok(0) => match connection.incoming.closed() {
                    Some(answered) => return self.answered(number, answered),
                    None => return self.broken(number, "the server closed the connection"),
                },
                Ok(length) => {
                    if let Some(answered) = connection.incoming.take(&self.buffer[..length])? {
                        return self.answered(number, answered);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.broken(number, &forebay_results::reason(&error)),
            }
        }
    }

    /// Writes the request; false where that has to wait or has failed.
    fn write(&mut self, number: usize) -> Result<bool, String> {
        loop {
            let connection = &mut self.connections[number];
            let (Some(stream), Some(asked)) = (&mut connection.stream, &mut connection.asked) else {
                return Ok(true);
            };
            let rest = &self.requests[asked.request][asked.written..];
            if rest.is_empty() {
                return Ok(true);
            }
            match stream.write(rest) {
                Ok(length) => asked.written += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A connection that is not there yet says so too.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    return Ok(false);
                }
                Err(error) => return self.broken(number, &forebay_results::reason(&error)).map(|()| false),
            }
        }
    }

    fn connect(&mut self, number: usize) -> Result<(), String> {
        let cannot = |errno: Errno| format!("clients cannot connect: {errno}");
        let family = if self.clients.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(cannot)?;
        match rustix::net::connect(&socket, &self.clients.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return self.broken(number, &forebay_results::reason(&errno.into())),
        }
        let wanted = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(&self.epoll, &socket, EventData::new_u64(number as u64), wanted).map_err(cannot)?;
        self.connections[number].stream = Some(TcpStream::from(socket));
        Ok(())
    }

    fn answered(&mut self, number: usize, answered: Answered) -> Result<(), String> {
        let now = Instant::now();
        self.refused = 0;
        let connection = &mut self.connections[number];
        if !answered.keeps || self.clients.connections == Connections::New {
            connection.stream = None;
        }
        let Some(asked) = connection.asked.take() else {
            return Err("the server answered what nobody had asked for".into());
        };
        self.idle.push_back(number);
        self.answers.under_way_s += self.window.seconds_between(asked.begun, now);
        if now >= self.window.begin && now < self.window.end {
            if (200..300).contains(&answered.status) {
                self.answers.requests += 1;
                self.answers.bytes += answered.bytes;
                let latency = now.duration_since(asked.intended).as_nanos();
                self.answers.latency_ns.saturating_record(latency.min(u128::from(u64::MAX)) as u64);
            } else {
                let path = &self.clients.paths[asked.request];
                self.answers.fails(|| format!("the server answers {} for {path}", answered.status));
            }
        }
        Ok(())
    }

    /// A connection that ended between two requests is nothing to speak of; the next request gets a new one.
    fn broken(&mut self, number: usize, why: &str) -> Result<(), String> {
        let now = Instant::now();
        let connection = &mut self.connections[number];
        connection.stream = None;
        connection.incoming = Incoming::default();
        let Some(asked) = connection.asked.take() else { return Ok(()) };
        self.idle.push_back(number);
        self.answers.under_way_s += self.window.seconds_between(asked.begun, now);
        self.answers.fails(|| why.to_owned());
        self.refused += 1;
        if self.refused > REFUSED_MAX {
            return Err(format!(
                "{REFUSED_MAX} requests in a row failed ({why}); is the server still there?"
            ));
        }
        Ok(())
    }
}
