//! A proxy before a dependency of a server, which makes its answers later by a known time and tells how late they are anyway.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

const CHUNK_BYTES: usize = 64 << 10;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Takes connections until it is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    /// Both ends of all connections, to end them with.
    streams: Mutex<Vec<TcpStream>>,
    answers: AtomicU64,
    waited_ns: AtomicU64,
}

impl Proxy {
    /// One before `dependency`, whose answers come later by `delay`.
    pub(super) fn start(dependency: SocketAddr, delay: Duration) -> Result<Self, Error> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|source| Error::NoPort { source })?;
        let address = listener.local_addr().map_err(|source| Error::NoPort { source })?;
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if of_thread.ended.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(stream) = stream {
                    // A server whose dependency is gone sees a connection that ends.
                    let _ = connect(stream, dependency, delay, &of_thread);
                }
            }
        });
        Ok(Self { address, shared })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How long the dependency itself takes for an answer, in seconds; `None` before it has answered.
    pub(super) fn answers_after_s(&self) -> Option<f64> {
        let answers = self.shared.answers.load(Ordering::Relaxed);
        let waited_s = self.shared.waited_ns.load(Ordering::Relaxed) as f64 / 1e9;
        (answers > 0).then(|| waited_s / answers as f64)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        for stream in self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the thread that takes connections.
        let _ = TcpStream::connect_timeout(&self.address, CONNECT_LIMIT);
    }
}

/// When a question went to the dependency that was not answered yet.
type Asked = Arc<Mutex<Option<Instant>>>;

fn connect(asking: TcpStream, to: SocketAddr, delay: Duration, shared: &Arc<Shared>) -> std::io::Result<()> {
    let answering = TcpStream::connect_timeout(&to, CONNECT_LIMIT)?;
    asking.set_nodelay(true)?;
    answering.set_nodelay(true)?;
    let mut streams = shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
    streams.extend([asking.try_clone()?, answering.try_clone()?]);
    drop(streams);
    let asked = Asked::default();
    let (questions, to_answering) = (asking.try_clone()?, answering.try_clone()?);
    let of_questions = asked.clone();
    thread::spawn(move || ask(questions, to_answering, &of_questions));
    let (late, in_time) = mpsc::channel();
    let shared = shared.clone();
    thread::spawn(move || listen(answering, &late, &asked, &shared));
    thread::spawn(move || answer(asking, &in_time, delay));
    Ok(())
}

/// Passes questions on.
fn ask(mut from: TcpStream, mut to: TcpStream, asked: &Asked) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        asked.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        if to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Takes answers, with the moment at which each came.
fn listen(mut from: TcpStream, late: &Sender<(Instant, Vec<u8>)>, asked: &Asked, shared: &Shared) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        let now = Instant::now();
        if let Some(asked) = asked.lock().unwrap_or_else(PoisonError::into_inner).take() {
            shared.answers.fetch_add(1, Ordering::Relaxed);
            shared.waited_ns.fetch_add(now.duration_since(asked).as_nanos() as u64, Ordering::Relaxed);
        }
        if late.send((now, chunk[..length].to_vec())).is_err() {
            return;
        }
    }
}

/// Passes answers on, late.
fn answer(mut to: TcpStream, in_time: &Receiver<(Instant, Vec<u8>)>, delay: Duration) {
    for (came, chunk) in in_time {
        thread::sleep((came + delay).saturating_duration_since(Instant::now()));
        if to.write_all(&chunk).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it gets.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut chunk = [0; 64];
            while let Ok(length @ 1..) = stream.read(&mut chunk) {
                stream.write_all(&chunk[..length]).unwrap();
            }
        });
        address
    }

    #[test]
    fn answers_come_whole_in_order_and_no_sooner_than_they_may() {
        let delay = Duration::from_millis(30);
        let proxy = Proxy::start(echo(), delay).unwrap();
        let mut asking = TcpStream::connect(proxy.address()).unwrap();
        for question in [b"first", b"other"] {
            let begun = Instant::now();
            asking.write_all(question).unwrap();
            let mut answer = [0; 5];
            asking.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, question);
            assert!(begun.elapsed() >= delay);
        }
        let after_s = proxy.answers_after_s().unwrap();
        assert!(after_s > 0.0, "{after_s}");
        // What ends on one side ends on the other.
        asking.shutdown(Shutdown::Write).unwrap();
        assert_eq!(asking.read(&mut [0; 5]).unwrap(), 0);
    }
}
