//! Threads that sleep most of the time, as those of servers under a light load do. Measured is the processor time of a
//! thread that a timer wakes, and of one that wakes another with a packet, by how long both slept.
//!
//! The longer a processor idles, the more of its caches is gone, and the deeper it sleeps.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{Case, Error, Setting};

const ASLEEP_US: [u64; 3] = [100, 1_000, 10_000];
/// A sample takes about so long, and has so many turns at least and at most.
const SAMPLE_US: u64 = 100_000;
const TURNS_MIN: u64 = 8;
const TURNS_MAX: u64 = 64;
/// For a packet over the loopback.
const PATIENCE: Duration = Duration::from_secs(5);

/// Both, for each time asleep.
pub fn cases(setting: &Setting) -> Vec<Case> {
    let some = ASLEEP_US.into_iter().step_by(if setting.quick { 2 } else { 1 });
    let cost = ("cost", "us");
    let both = some.flat_map(|asleep_us| {
        let timer = move || turn_us(asleep_us, &mut || Ok(())).map_err(Error::refused("sleep"));
        let other = move || {
            let both = sending_us(asleep_us, true).and_then(|us| Ok((us, sending_us(asleep_us, false)?)));
            let (awaited_us, alone_us) = both.map_err(Error::refused("send packets over the loopback"))?;
            Ok((awaited_us - alone_us).max(0.0))
        };
        [
            Case::new("wake-up", format!("{asleep_us} us/by a timer"), cost, timer),
            Case::new("wake-up", format!("{asleep_us} us/of another"), cost, other),
        ]
    });
    both.collect()
}

/// Processor time of this thread for each time that it sleeps so long, while it `goes_on`, in us; none where it never slept.
pub fn woken_us(asleep: Duration, mut goes_on: impl FnMut() -> bool) -> Option<f64> {
    let (begun_us, mut turns) = (used_us(), 0_u32);
    while goes_on() {
        thread::sleep(asleep);
        turns += 1;
    }
    (turns > 0).then(|| (used_us() - begun_us) / f64::from(turns))
}

/// Processor time of this thread for each time that it sleeps and then takes its turn, in us.
fn turn_us(asleep_us: u64, turn: &mut dyn FnMut() -> io::Result<()>) -> io::Result<f64> {
    let (begun_us, turns) = (used_us(), turns(asleep_us));
    for _ in 0..turns {
        thread::sleep(Duration::from_micros(asleep_us));
        turn()?;
    }
    Ok((used_us() - begun_us) / turns as f64)
}

/// The same for sending a packet only, after each sleep: to a thread that sleeps until it comes, or to nobody.
fn sending_us(asleep_us: u64, is_awaited: bool) -> io::Result<f64> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    thread::scope(|scope| {
        if is_awaited {
            // Until an empty one comes.
            scope.spawn(|| while matches!(receiver.recv(&mut [0; 8]), Ok(1..)) {});
        }
        let mut sending_us = 0.0;
        let taken = turn_us(asleep_us, &mut || {
            let before_us = used_us();
            sender.send(&[1; 8])?;
            sending_us += used_us() - before_us;
            Ok(())
        });
        sender.send(&[])?;
        taken.map(|_| sending_us / turns(asleep_us) as f64)
    })
}

fn turns(asleep_us: u64) -> u64 {
    (SAMPLE_US / asleep_us).clamp(TURNS_MIN, TURNS_MAX)
}

/// Processor time that this thread has had.
fn used_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_takes_what_is_done_in_it_but_not_the_sleep() {
        let idle_us = turn_us(1_000, &mut || Ok(())).unwrap();
        let mut word = 1_u64;
        let busy = &mut || {
            (0..3_000_000_u64).for_each(|number| word = std::hint::black_box(word ^ number));
            Ok(())
        };
        let busy_us = turn_us(1_000, busy).unwrap();
        assert!(idle_us > 0.0 && busy_us > 2.0 * idle_us, "{idle_us} {busy_us}");
    }

    #[test]
    fn who_goes_on_sleeping_is_woken_each_time() {
        let mut left = 3;
        let goes_on = || {
            left -= 1;
            left >= 0
        };
        assert!(woken_us(Duration::from_millis(1), goes_on).unwrap() > 0.0);
        assert_eq!((left, woken_us(Duration::ZERO, || false)), (-1, None));
    }

    #[test]
    fn a_thread_that_waits_for_packets_ends_with_them() {
        assert!(sending_us(100, true).unwrap() > 0.0);
    }
}
