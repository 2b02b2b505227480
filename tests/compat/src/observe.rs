//! Observers: what other processes see of a program while it runs, and when.
//!
//! Times are `CLOCK_MONOTONIC` nanoseconds, as in the guests' stamps. An observer may see an event late, never early. An
//! event before the stamp of its effect was therefore not caused by the original.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, IoSliceMut, Read, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};
use nix::libc;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    listen, recvmsg, socket,
};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::Scratch;
use crate::case::Finish;
use crate::run::Outcome;

/// Something seen, and when.
pub type Event = (u64, String);

/// The present time as the guests take it.
///
/// # Panics
/// Never on Linux.
#[must_use]
pub fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock");
    u64::try_from(t.tv_sec() * 1_000_000_000 + t.tv_nsec()).expect("a time after the start of the machine")
}

/// Gives an event that should not happen at all the time to be seen. No condition can tell that nothing will come.
fn let_stragglers_arrive() {
    thread::sleep(Duration::from_millis(30));
}

/// A thread that collects events until it is told to stop.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Event>>,
}

impl Watch {
    /// `step` waits a little for events and adds what came; it is called until the end and once after it.
    fn start(mut step: impl FnMut(&mut Vec<Event>) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut events = Vec::new();
            loop {
                let last = told.load(Ordering::Acquire);
                step(&mut events);
                if last {
                    return events;
                }
            }
        });
        Self { stop, thread }
    }

    fn end(self) -> Vec<Event> {
        let_stragglers_arrive();
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("the observer")
    }
}

/// Puts the events into words, and compares event `i` with stamp `i`.
fn in_order(events: &[Event], outcome: &mut Outcome) -> String {
    let mut text = String::new();
    for (index, (at, what)) in events.iter().enumerate() {
        let _ = writeln!(text, "{what}");
        match outcome.stamps.get(index) {
            Some(stamp) if at < stamp => {
                outcome
                    .complaints
                    .push(format!("{what:?} was seen {} us before its time", (stamp - at) / 1000));
            }
            None => outcome.complaints.push(format!("{what:?} was seen, but no effect belongs to it")),
            Some(_) => {}
        }
    }
    text
}

/// Watches the directory `out`: nothing in it may change before the first effect. Files named in `made_before` are
/// created by the program before that.
pub fn directory(made_before: &'static [&'static str]) -> impl Fn(&Scratch) -> Finish {
    move |scratch| {
        let notify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).expect("inotify");
        let interest = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE;
        notify.add_watch(&scratch.at("out"), interest).expect("watch the directory");
        let watch = Watch::start(move |events| match notify.read_events() {
            Ok(seen) => {
                let at = now_ns();
                for event in seen {
                    let name = event.name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                    if !(event.mask.contains(AddWatchFlags::IN_CREATE)
                        && made_before.contains(&name.as_str()))
                    {
                        events.push((at, format!("{name} {:?}", event.mask)));
                    }
                }
            }
            Err(_) => thread::sleep(Duration::from_micros(200)),
        });
        Box::new(move |outcome| {
            let events = watch.end();
            let first = outcome.stamps.first().copied().unwrap_or(u64::MAX);
            for (at, what) in events.iter().filter(|(at, _)| *at < first) {
                outcome
                    .complaints
                    .push(format!("out/{what} {} us before the first effect", (first - at) / 1000));
            }
            String::new()
        })
    }
}

/// Receives datagrams: one event each.
pub fn datagrams(receiver: UdpSocket) -> impl Fn(&Scratch) -> Finish {
    move |_| {
        let receiver = receiver.try_clone().expect("a copy of the socket");
        receiver.set_read_timeout(Some(Duration::from_millis(2))).expect("a time limit");
        let watch = Watch::start(move |events| {
            let mut bytes = [0; 256];
            while let Ok(length) = receiver.recv(&mut bytes) {
                events.push((now_ns(), String::from_utf8_lossy(&bytes[..length]).into_owned()));
            }
        });
        Box::new(move |outcome| in_order(&watch.end(), outcome))
    }
}

/// Accepts connections one after the other, reads each to its end and answers `got LENGTH`.
pub fn connections(listener: TcpListener) -> impl Fn(&Scratch) -> Finish {
    move |_| {
        let listener = listener.try_clone().expect("a copy of the socket");
        listener.set_nonblocking(true).expect("no waiting");
        let watch = Watch::start(move |events| match listener.accept() {
            Ok((mut stream, _)) => {
                let at = now_ns();
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
                let mut text = String::new();
                if let Err(error) = stream.read_to_string(&mut text) {
                    let _ = write!(text, " ({error})");
                }
                // In one piece: the guest reads once.
                let _ = stream.write_all(format!("got {}", text.len()).as_bytes());
                events.push((at, text));
            }
            Err(_) => thread::sleep(Duration::from_micros(300)),
        });
        Box::new(move |outcome| in_order(&watch.end(), outcome))
    }
}

/// Receives messages with descriptors on the UNIX socket `name`: one event each, with the count of descriptors.
pub fn passed_descriptors(name: &'static str) -> impl Fn(&Scratch) -> Finish {
    move |scratch| {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).expect("a socket");
        let address = UnixAddr::new(&scratch.at(name)).expect("a short path");
        bind(listener.as_raw_fd(), &address).expect("bind");
        listen(&listener, Backlog::new(4).expect("a small number")).expect("listen");
        let mut connected: Option<Closing> = None;
        let watch = Watch::start(move |events| {
            if connected.is_none() {
                connected = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).ok().map(Closing);
            }
            let Some(stream) = &connected else { return thread::sleep(Duration::from_micros(300)) };
            let mut bytes = [0; 256];
            let mut room = nix::cmsg_space!([i32; 4]);
            let (length, passed) = {
                let mut parts = [IoSliceMut::new(&mut bytes)];
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
                let received = recvmsg::<()>(stream.0, &mut parts, Some(&mut room), flags);
                let Ok(message) = received else { return thread::sleep(Duration::from_micros(300)) };
                let passed: usize = message
                    .cmsgs()
                    .into_iter()
                    .flatten()
                    .map(|c| if let ControlMessageOwned::ScmRights(fds) = c { close_all(&fds) } else { 0 })
                    .sum();
                (message.bytes, passed)
            };
            if length > 0 {
                events
                    .push((now_ns(), format!("{} with {passed}", String::from_utf8_lossy(&bytes[..length]))));
            } else {
                thread::sleep(Duration::from_micros(300));
            }
        });
        Box::new(move |outcome| in_order(&watch.end(), outcome))
    }
}

/// A bare descriptor, closed when it is dropped.
struct Closing(RawFd);

impl Drop for Closing {
    fn drop(&mut self) {
        let _ = nix::unistd::close(self.0);
    }
}

fn close_all(fds: &[i32]) -> usize {
    for &fd in fds {
        let _ = nix::unistd::close(fd);
    }
    fds.len()
}

/// Reads lines from the FIFO `name`: one event each.
pub fn lines(name: &'static str) -> impl Fn(&Scratch) -> Finish {
    move |scratch| {
        let mut fifo = open_fifo(&scratch.at(name));
        let mut rest = Vec::new();
        let watch = Watch::start(move |events| {
            let mut bytes = [0; 4096];
            match fifo.read(&mut bytes) {
                Ok(length) => {
                    rest.extend_from_slice(&bytes[..length]);
                    let at = now_ns();
                    while let Some(end) = rest.iter().position(|&b| b == b'\n') {
                        let line: Vec<u8> = rest.drain(..=end).collect();
                        events.push((at, String::from_utf8_lossy(&line).trim_end().to_owned()));
                    }
                }
                Err(_) => thread::sleep(Duration::from_micros(200)),
            }
        });
        Box::new(move |outcome| in_order(&watch.end(), outcome))
    }
}

/// Keeps a writer on the FIFO, so that opening it never waits.
fn open_fifo(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .expect("open the FIFO")
}

/// The kinds of file lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// `flock(2)`.
    Flock,
    /// POSIX record locks.
    Posix,
    /// Open file description locks.
    Description,
}

impl LockKind {
    /// Whether another process holds the lock now.
    fn is_held(self, path: &Path) -> bool {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("open the locked file");
        let mut lock = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: 10,
            l_len: 20,
            l_pid: 0,
        };
        match self {
            Self::Flock => return Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err(),
            Self::Posix => fcntl(&file, FcntlArg::F_GETLK(&mut lock)).expect("ask for the lock"),
            Self::Description => fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).expect("ask for the lock"),
        };
        lock.l_type != libc::F_UNLCK as i16
    }
}

/// Tries the lock on `out/file` all the time, while the program says on the FIFO `name` what it does: `L` it has
/// the lock, `r` it is about to release it, `R` it has released it, `E` it may take it again.
pub fn lock(kind: LockKind, name: &'static str) -> impl Fn(&Scratch) -> Finish {
    move |scratch| {
        let mut fifo = open_fifo(&scratch.at(name));
        let file = scratch.at("out/file");
        let held_at_the_end = file.clone();
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&wrong);
        let mut said = String::new();
        let watch = Watch::start(move |events| {
            let before = said.len();
            hear(&mut fifo, &mut said);
            for letter in said[before..].chars() {
                events.push((now_ns(), letter.to_string()));
            }
            let state = said.chars().next_back();
            let held = kind.is_held(&file);
            let length = said.len();
            hear(&mut fifo, &mut said);
            if said.len() == length {
                match state {
                    Some('L') if !held => found.lock().expect("the list").push("released early".to_owned()),
                    Some('R') if held => {
                        found.lock().expect("the list").push("held after its release".to_owned())
                    }
                    _ => {}
                }
            } else {
                for letter in said[length..].chars() {
                    events.push((now_ns(), letter.to_string()));
                }
            }
            thread::sleep(Duration::from_micros(200));
        });
        Box::new(move |outcome| {
            let events = watch.end();
            let mut wrong = wrong.lock().expect("the list").clone();
            wrong.dedup();
            outcome.complaints.extend(wrong.into_iter().map(|what| format!("the lock was {what}")));
            if kind.is_held(&held_at_the_end) {
                outcome.complaints.push("the lock is held after the program's end".to_owned());
            }
            events.into_iter().map(|(_, letter)| letter).collect()
        })
    }
}

fn hear(fifo: &mut File, said: &mut String) {
    let mut bytes = [0; 64];
    match fifo.read(&mut bytes) {
        Ok(length) => said.push_str(&String::from_utf8_lossy(&bytes[..length])),
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
    }
}

/// A process that counts the signals it gets.
pub struct SignalTarget {
    child: Child,
    pid: i32,
    events: Arc<Mutex<Receiver<Event>>>,
}

impl SignalTarget {
    /// Starts the guest `watch_signals`.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start() -> Self {
        let program: PathBuf = crate::guests::build("watch_signals");
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().expect("start the target");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let pid = lines.next().and_then(|line| line.parse().ok()).expect("its process id");
        let (send, events) = channel();
        thread::spawn(move || {
            for line in lines {
                let (number, at) = line.split_once(' ').expect("number and time");
                let _ = send.send((at.parse().expect("a time"), number.to_owned()));
            }
        });
        Self { child, pid, events: Arc::new(Mutex::new(events)) }
    }

    /// Its process id, for the guest's arguments.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The signals of one run, in order, each no earlier than its effect.
    pub fn observer(&self) -> impl Fn(&Scratch) -> Finish + use<> {
        let (pid, events) = (self.pid, Arc::clone(&self.events));
        move |_| {
            let events = Arc::clone(&events);
            Box::new(move |outcome| {
                let_stragglers_arrive();
                kill(Pid::from_raw(pid), Signal::SIGUSR2).expect("mark the end");
                let marker = (100 + Signal::SIGUSR2 as i32).to_string();
                let events = events.lock().expect("the events");
                let seen: Vec<Event> =
                    std::iter::from_fn(|| events.recv_timeout(Duration::from_secs(5)).ok())
                        .take_while(|(_, number)| *number != marker)
                        .collect();
                in_order(&seen, outcome)
            })
        }
    }
}

impl Drop for SignalTarget {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
