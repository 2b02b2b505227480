//! Disturbances of a server while others play: clients that die, vanish or do not read, and floods of connections.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_stream_clients::{Order, Processors, Transport};

use super::players::Players;
use crate::Error;

/// Clients of one disturbance.
const CLIENTS: u32 = 20;
/// Connections of a flood that say nothing, for each two that say too much.
const SILENT: u32 = 50;
/// Requests that come at once on one connection.
const REQUESTS: usize = 500;
/// The length of a header, in bytes.
const HEADER_BYTES: usize = 1 << 20;
/// How long the server may refuse to read.
const PATIENCE: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Clients come, play, and are killed, again and again.
    Kill,
    /// Clients that play are gone without a word: not even their systems acknowledge anything any more.
    HalfOpen,
    /// Clients that play do not read any more.
    Slow,
    /// Connections, requests and endless headers, as fast as one thread can.
    Flood,
}

forebay_names::names! { "disturbance": Disturbance {
    Kill = "kill",
    HalfOpen = "half-open",
    Slow = "slow",
    Flood = "flood",
} }

/// A disturbance that goes on until this is ended or dropped.
pub(super) struct Disturber {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Disturber {
    /// Begins, on the players' processor. The order is of those that are disturbed.
    pub(super) fn start(
        disturbance: Disturbance,
        program: PathBuf,
        processor: Option<usize>,
        order: &Order,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let order = Order {
            players: CLIENTS,
            transport: match disturbance {
                Disturbance::Kill => order.transport,
                // Of datagrams a server does not hear whether anybody reads them.
                _ => Transport::Tcp,
            },
            seed: order.seed.wrapping_add(1),
            seek_every_s: None,
            stay_s: None,
            ..order.clone()
        };
        let scene = Scene { program, processor, order, stop: Arc::clone(&stop) };
        let disturb = move || match disturbance {
            Disturbance::Kill => scene.kill(),
            Disturbance::HalfOpen => scene.hold(Players::vanish),
            Disturbance::Slow => scene.hold(Players::freeze),
            Disturbance::Flood => scene.flood(),
        };
        let thread = Processors::on(processor, || thread::spawn(disturb));
        Self { stop, thread: Some(thread) }
    }

    /// Ends it: how many clients or connections there were of it.
    pub(super) fn end(mut self) -> u64 {
        self.join()
    }

    fn join(&mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        self.join();
    }
}

/// Where it happens.
struct Scene {
    program: PathBuf,
    processor: Option<usize>,
    order: Order,
    stop: Arc<AtomicBool>,
}

impl Scene {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Clients that play, as many as the server lets come.
    fn clients(&self) -> Result<(Players, u64), Error> {
        let mut players = Players::start(&self.program, self.processor)?;
        let check = || if self.is_over() { Err(Error::Interrupted) } else { Ok(()) };
        let gathered = players.play(&self.order, check)?;
        Ok((players, gathered.playing.into()))
    }

    fn kill(&self) -> u64 {
        let mut killed = 0;
        while !self.is_over() {
            match self.clients() {
                Ok((players, count)) => {
                    players.kill();
                    killed += count;
                }
                Err(_) => thread::sleep(LOOK_EVERY),
            }
        }
        killed
    }

    /// Has clients do something once they play, and keeps them so.
    fn hold(&self, change: fn(&mut Players) -> Result<(), Error>) -> u64 {
        let Ok((mut players, count)) = self.clients() else { return 0 };
        let changed = change(&mut players);
        while !self.is_over() {
            thread::sleep(LOOK_EVERY);
        }
        players.kill();
        if changed.is_ok() { count } else { 0 }
    }

    fn flood(&self) -> u64 {
        let address = self.order.address;
        let (requests, header) = (requests(address), header(address));
        let mut connections = 0;
        while !self.is_over() {
            for _ in 0..SILENT {
                connections += u64::from(say(address, b""));
            }
            connections += u64::from(say(address, &requests));
            connections += u64::from(say(address, &header));
        }
        connections
    }
}

/// Whether there was a connection. What the server does not take is not its fault.
fn say(address: SocketAddr, bytes: &[u8]) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, PATIENCE) else { return false };
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let _ = stream.write_all(bytes);
    true
}

/// Many at once, whose answers nobody reads.
fn requests(address: SocketAddr) -> Vec<u8> {
    let request = |number| format!("OPTIONS rtsp://{address}/ RTSP/1.0\r\nCSeq: {number}\r\n\r\n");
    (0..REQUESTS).flat_map(|number| request(number).into_bytes()).collect()
}

/// A request whose only header has no end.
fn header(address: SocketAddr) -> Vec<u8> {
    let mut request = format!("OPTIONS rtsp://{address}/ RTSP/1.0\r\nX-Long: ").into_bytes();
    request.resize(HEADER_BYTES, b'x');
    request
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_flood_has_silence_many_requests_and_a_header_without_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let order = Order {
            address,
            paths: vec!["film".into()],
            links: vec![],
            drifts: vec![],
            players: 1,
            transport: Transport::Udp,
            ramp_per_second: 1.0,
            start: forebay_stream_clients::Start::Beginning,
            needed_s: 1.0,
            seek_every_s: None,
            stay_s: None,
            late_s: 0.1,
            seed: 1,
        };
        let flood = Disturber::start(Disturbance::Flood, "nothing".into(), None, &order);
        let said = listener.incoming().take(SILENT as usize + 2).map(|stream| {
            let mut said = Vec::new();
            // Whoever floods may be gone before all is read.
            let _ = stream.unwrap().read_to_end(&mut said);
            said
        });
        let said: Vec<Vec<u8>> = said.collect();
        drop(listener);
        assert!(flood.end() >= u64::from(SILENT) + 2);
        assert!(said[..SILENT as usize].iter().all(Vec::is_empty));
        let count = |bytes: &[u8]| bytes.windows(6).filter(|six| six == b"CSeq: ").count();
        let (requests, header) = (&said[SILENT as usize], &said[SILENT as usize + 1]);
        assert_eq!((count(requests), count(header)), (REQUESTS, 0));
        assert!(header.len() > 1 << 16 && !header.ends_with(b"\n"), "{}", header.len());
    }
}
