//! Documents that a server sends by TCP from the page cache to several clients at once, as web servers do. The sockets are
//! full, no processor cache holds the file, and the clients share the machine.
//!
//! [`packets`](crate::packets) measures the same calls alone, with empty sockets. A large document costs several times as
//! much by the byte: the kernel sends what a socket cannot take later, when acknowledgements arrive. So the order matters
//! too. Apache gives a document as much as its socket takes; other servers give other clients a turn first.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_cork;
use rustix::time::{ClockId, clock_gettime};

use crate::{Case, Error, Setting, machine, size};

const BYTES: [usize; 5] = [1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20];
/// Of what is larger than a turn, once more without turns.
const AT_ONCE_BYTES: usize = 10 << 20;
/// Clients that have a document on its way each.
const CONNECTIONS: usize = 16;
/// Of a document, as much as nginx sends of one before it looks after others.
const TURN_BYTES: usize = 2 << 20;
/// What goes before a document.
const HEAD: [u8; 256] = [b'h'; 256];
const REQUEST: [u8; 96] = [b'r'; 96];
const READ_BYTES: usize = 256 << 10;
/// Of all documents together, at least; and so many times the last cache.
const FILE_BYTES_MIN: usize = 64 << 20;
const TIMES_LAST_CACHE: usize = 2;
/// The kernel finds out how large sockets should be.
const WARM_UP: Duration = Duration::from_millis(1500);
const SAMPLE: Duration = Duration::from_millis(250);
/// How long nothing is waited for without a look at whether to go on.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(5);
/// The epoch that ends all threads.
const END: u64 = u64::MAX;

/// By size, what a document takes the server's threads and what it takes the clients'.
pub fn cases(setting: &Setting) -> Result<Vec<Case>, Error> {
    let parts = if setting.quick { 8 } else { 1 };
    let file_bytes = if setting.quick {
        8 << 20
    } else {
        let last = machine::caches().iter().map(|cache| cache.bytes).max().unwrap_or(0);
        FILE_BYTES_MIN.max(TIMES_LAST_CACHE * last)
    };
    let sizes = if setting.quick { &BYTES[BYTES.len() / 2..][..1] } else { &BYTES[..] };
    let mut cases = Vec::new();
    let in_turns = sizes.iter().map(|&bytes| ("TCP documents", bytes, TURN_BYTES));
    let at_once = (!setting.quick).then_some(("TCP documents, at once", AT_ONCE_BYTES, usize::MAX));
    for (subject, bytes, turn_bytes) in in_turns.chain(at_once) {
        let rig = Rc::new(RefCell::new(None::<Rig>));
        for (side, of) in [("server", Cost::server as fn(&Cost) -> f64), ("clients", Cost::clients)] {
            let rig = Rc::clone(&rig);
            let sample = move || {
                let mut rig = rig.borrow_mut();
                if rig.is_none() {
                    *rig = Some(Rig::start(bytes, file_bytes, turn_bytes, WARM_UP / parts).map_err(failed)?);
                }
                let rig = rig.as_ref().expect("it was started");
                Ok(of(&rig.sample(SAMPLE / parts).map_err(failed)?))
            };
            cases.push(Case::new(subject, format!("{}/{side}", size(bytes)), ("cost", "us"), sample));
        }
    }
    Ok(cases)
}

fn failed(source: io::Error) -> Error {
    Error::refused("send documents over the loopback")(source)
}

/// What a document takes, in us of processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    server_us: f64,
    clients_us: f64,
}

impl Cost {
    fn server(&self) -> f64 {
        self.server_us
    }

    fn clients(&self) -> f64 {
        self.clients_us
    }
}

/// Threads that serve documents, and threads that ask for them, until it is dropped.
struct Rig {
    /// A thread that sees another one tells what it has done so far.
    epoch: Arc<AtomicU64>,
    said: Receiver<Said>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// What a thread has done.
#[derive(Clone, Copy, Debug)]
struct Said {
    epoch: u64,
    serves: bool,
    processor_s: f64,
    /// That have come.
    documents: u64,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.epoch.store(END, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // What went wrong was told by a sample that failed.
            let _ = thread.join();
        }
    }
}

impl Rig {
    /// As many threads serve as there are processors, or with documents that are sent at once one for each client, as in servers
    /// that do so; and half as many as processors ask, as `forebay evaluate server web` does.
    fn start(bytes: usize, file_bytes: usize, turn_bytes: usize, warm_up: Duration) -> io::Result<Self> {
        let file = Arc::new(file_of(file_bytes.max(bytes))?);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let at_once = turn_bytes == usize::MAX;
        let servers = if at_once { CONNECTIONS } else { processors.min(CONNECTIONS) };
        let askers = (processors / 2).clamp(1, CONNECTIONS);
        let mut serving: Vec<Vec<TcpStream>> = (0..servers).map(|_| vec![]).collect();
        let mut asking: Vec<Vec<TcpStream>> = (0..askers).map(|_| vec![]).collect();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        for number in 0..CONNECTIONS {
            let client = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
            let (server, _) = listener.accept()?;
            server.set_nodelay(true)?;
            for stream in [&client, &server] {
                stream.set_nonblocking(true)?;
            }
            serving[number % servers].push(server);
            asking[number % askers].push(client);
        }
        let epoch = Arc::new(AtomicU64::new(0));
        let (says, said) = channel();
        let mut threads = Vec::new();
        for (number, streams) in serving.into_iter().enumerate() {
            let place = file_bytes / servers * number / bytes * bytes;
            let sending = streams.into_iter().map(|stream| Sending { stream, place: 0, left: 0 }).collect();
            let teller = Teller::new(&epoch, &says, true);
            let mut server = Server {
                sending,
                file: Arc::clone(&file),
                bytes,
                file_bytes,
                turn_bytes,
                place,
                unfinished: vec![],
            };
            threads.push(thread::spawn(move || server.serve(teller)));
        }
        for streams in asking {
            let teller = Teller::new(&epoch, &says, false);
            threads.push(thread::spawn(move || ask(&streams, bytes, teller)));
        }
        let rig = Self { epoch, said, threads };
        thread::sleep(warm_up);
        Ok(rig)
    }

    fn sample(&self, time: Duration) -> io::Result<Cost> {
        let before = self.totals()?;
        let begun = Instant::now();
        loop {
            thread::sleep(time);
            let after = self.totals()?;
            let documents = after.2 - before.2;
            // On a busy machine one side may have waited for a processor all the time.
            if documents > 0 && after.0 > before.0 && after.1 > before.1 {
                let each_us = |one: f64, other: f64| (one - other) * 1e6 / documents as f64;
                return Ok(Cost {
                    server_us: each_us(after.0, before.0),
                    clients_us: each_us(after.1, before.1),
                });
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::new(ErrorKind::TimedOut, "no document came"));
            }
        }
    }

    /// Of all threads: seconds of those that serve and of those that ask, and documents.
    fn totals(&self) -> io::Result<(f64, f64, u64)> {
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
        let (mut server_s, mut clients_s, mut documents) = (0.0, 0.0, 0);
        let mut missing = self.threads.len();
        while missing > 0 {
            let said = self.said.recv_timeout(PATIENCE);
            let said = said.map_err(|_| io::Error::new(ErrorKind::TimedOut, "a connection broke"))?;
            if said.epoch != epoch {
                continue;
            }
            missing -= 1;
            documents += said.documents;
            *(if said.serves { &mut server_s } else { &mut clients_s }) += said.processor_s;
        }
        Ok((server_s, clients_s, documents))
    }
}

fn file_of(bytes: usize) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    let content: Vec<u8> = (0..1usize << 20).map(|byte| byte as u8).collect();
    for _ in 0..bytes.div_ceil(content.len()) {
        file.write_all(&content)?;
    }
    Ok(file)
}

/// Tells what a thread has done, when it is asked.
struct Teller {
    epoch: Arc<AtomicU64>,
    seen: u64,
    says: Sender<Said>,
    serves: bool,
}

impl Teller {
    fn new(epoch: &Arc<AtomicU64>, says: &Sender<Said>, serves: bool) -> Self {
        Self { epoch: Arc::clone(epoch), seen: 0, says: says.clone(), serves }
    }

    /// False at the end.
    fn go_on(&mut self, documents: u64) -> bool {
        let epoch = self.epoch.load(Ordering::Relaxed);
        if epoch == self.seen {
            return true;
        }
        self.seen = epoch;
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let processor_s = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
        let said = Said { epoch, serves: self.serves, processor_s, documents };
        epoch != END && self.says.send(said).is_ok()
    }
}

/// Waits for what happens on some streams.
struct Events {
    epoll: std::os::fd::OwnedFd,
    happened: Vec<epoll::Event>,
}

impl Events {
    fn of<'a>(streams: impl Iterator<Item = &'a TcpStream>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (number, stream) in streams.enumerate() {
            let wanted = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            epoll::add(&epoll, stream, EventData::new_u64(number as u64), wanted)?;
        }
        Ok(Self { epoll, happened: Vec::with_capacity(2 * CONNECTIONS) })
    }

    /// The numbers of the streams.
    fn wait(&mut self, time: Duration) -> io::Result<impl Iterator<Item = usize>> {
        self.happened.clear();
        let timeout = Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as _ };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.happened), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(self.happened.iter().map(|event| event.data.u64() as usize)),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// A document on its way.
struct Sending {
    stream: TcpStream,
    /// In the file.
    place: u64,
    left: usize,
}

struct Server {
    sending: Vec<Sending>,
    file: Arc<File>,
    bytes: usize,
    file_bytes: usize,
    /// What is sent of one before others have their turn.
    turn_bytes: usize,
    /// Of the next document.
    place: usize,
    /// Those that had a turn and may have another.
    unfinished: Vec<usize>,
}

impl Server {
    fn serve(&mut self, mut teller: Teller) -> io::Result<()> {
        let mut events = Events::of(self.sending.iter().map(|sending| &sending.stream))?;
        while teller.go_on(0) {
            let mut next = std::mem::take(&mut self.unfinished);
            let wait = if next.is_empty() { LOOK_EVERY } else { Duration::ZERO };
            next.extend(events.wait(wait)?);
            for number in next {
                self.proceed(number)?;
            }
        }
        Ok(())
    }

    fn proceed(&mut self, number: usize) -> io::Result<()> {
        let sending = &mut self.sending[number];
        if sending.left == 0 {
            let mut request = [0; REQUEST.len()];
            match sending.stream.read(&mut request) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.place + self.bytes > self.file_bytes {
                self.place = 0;
            }
            (sending.place, sending.left) = (self.place as u64, self.bytes);
            self.place += self.bytes;
            set_tcp_cork(&sending.stream, true)?;
            sending.stream.write_all(&HEAD)?;
        }
        let turn = sending.left.min(self.turn_bytes);
        match rustix::fs::sendfile(&sending.stream, &*self.file, Some(&mut sending.place), turn) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(sent) => sending.left -= sent,
            Err(Errno::AGAIN) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        if sending.left == 0 {
            set_tcp_cork(&sending.stream, false)?;
        } else {
            self.unfinished.push(number);
        }
        Ok(())
    }
}

/// Asks for a document on each of the streams, and for another one when it has come.
fn ask(streams: &[TcpStream], bytes: usize, mut teller: Teller) -> io::Result<()> {
    let mut events = Events::of(streams.iter())?;
    let mut come = vec![0; streams.len()];
    let mut buffer = vec![0; READ_BYTES];
    let mut documents = 0;
    for mut stream in streams {
        stream.write_all(&REQUEST)?;
    }
    while teller.go_on(documents) {
        for number in events.wait(LOOK_EVERY)? {
            loop {
                match (&streams[number]).read(&mut buffer) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(length) => come[number] += length,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
                if come[number] == HEAD.len() + bytes {
                    come[number] = 0;
                    documents += 1;
                    (&streams[number]).write_all(&REQUEST)?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_whole_and_a_larger_one_takes_both_sides_longer() {
        let cost = |bytes| {
            let rig = Rig::start(bytes, 8 << 20, TURN_BYTES, Duration::from_millis(50)).unwrap();
            rig.sample(Duration::from_millis(100)).unwrap()
        };
        let (small, large) = (cost(1 << 10), cost(4 << 20));
        assert!(
            large.server_us > small.server_us && large.clients_us > small.clients_us,
            "{small:?} {large:?}"
        );
    }

    #[test]
    fn threads_end_with_their_rig() {
        let rig = Rig::start(1 << 10, 1 << 20, TURN_BYTES, Duration::ZERO).unwrap();
        let epoch = Arc::downgrade(&rig.epoch);
        drop(rig);
        assert_eq!(epoch.strong_count(), 0);
    }
}
