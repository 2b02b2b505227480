//! Requests of ONVIF that wait for something to tell. One thread keeps them all: alarms follow from the plan, so it sleeps until the
//! first one is due.

use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use forebay_cameras::onvif::{Pull, Response};

use super::onvif::{Face, PATIENCE, written};
use crate::error::{Result, to};

/// The longest sleep, and the shortest one, so that no plan keeps the thread busy.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);
const SLEEP_MIN: Duration = Duration::from_millis(5);

/// The requests that wait, by their pull points: as many as there are of those.
#[derive(Default)]
pub(super) struct Waiting {
    all: Mutex<HashMap<u64, Waiter>>,
    /// Something is due earlier than it was.
    changed: Condvar,
}

struct Waiter {
    pull: Pull,
    stream: TcpStream,
}

impl Waiting {
    /// Starts the thread.
    pub fn keep(face: Face) -> Result<()> {
        let keep = move || {
            let waiting = face.waiting.clone();
            let mut all = waiting.lock();
            loop {
                let at_ns = face.at_ns();
                all.retain(|_, waiter| waiter.pull.due_ns() > at_ns || waiter.waits_on(&face, at_ns));
                let due_ns = all.values().map(|waiter| waiter.pull.due_ns()).min();
                let sleep = due_ns.map_or(SLEEP_MAX, |due_ns| {
                    Duration::from_nanos(due_ns.saturating_sub(at_ns)).clamp(SLEEP_MIN, SLEEP_MAX)
                });
                all = waiting.changed.wait_timeout(all, sleep).unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        thread::Builder::new().name("onvif-events".to_owned()).spawn(keep).map_err(to("a thread"))?;
        Ok(())
    }

    /// Keeps a request, unless it can be answered now. One that waits at the same pull point is answered.
    pub fn add(&self, face: &Face, pull: Pull, stream: TcpStream) {
        let (point, at_ns) = (pull.point(), face.at_ns());
        let mut waiter = Waiter { pull, stream };
        let mut all = self.lock();
        if let Some(mut earlier) = all.remove(&point) {
            earlier.pull.give_up();
            earlier.waits_on(face, at_ns);
        }
        if waiter.waits_on(face, at_ns) {
            all.insert(point, waiter);
            self.changed.notify_one();
        }
    }

    /// Looks at the request that waits at a pull point, if there is one.
    pub fn stir(&self, face: &Face, point: u64) {
        let mut all = self.lock();
        if let Some(mut waiter) = all.remove(&point)
            && waiter.waits_on(face, face.at_ns())
        {
            all.insert(point, waiter);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiter>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Answers the request, if there is something to tell or its time is up; returns whether it still waits.
    fn waits_on(&mut self, face: &Face, at_ns: u64) -> bool {
        // What a client is told that has gone would be lost.
        if is_gone(&self.stream) {
            return false;
        }
        match self.pull.answer(&face.plan, &face.pull_points, at_ns) {
            Some(response) => {
                send(&self.stream, &response);
                false
            }
            None => true,
        }
    }
}

/// Whether a client has closed its connection.
fn is_gone(stream: &TcpStream) -> bool {
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    match peeked {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Sends as much as the socket takes at once; what is left has a thread of its own.
fn send(mut stream: &TcpStream, response: &Response) {
    let bytes = written(response);
    let sent = stream.write(&bytes).unwrap_or(0);
    if sent < bytes.len()
        && let Ok(mut stream) = stream.try_clone()
    {
        let rest = move || {
            // A client that goes away needs no answer.
            let _ = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
            let _ = stream.write_all(&bytes[sent..]);
        };
        let _ = thread::Builder::new().name("onvif".to_owned()).spawn(rest);
    }
}
