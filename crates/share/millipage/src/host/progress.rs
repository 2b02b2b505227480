//! The progress thread of a machine, in its first host: serves faults of its hosts and requests of the other machines.

use std::{
    hint,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::Ordering::{Relaxed, SeqCst},
    thread,
    time::{Duration, Instant},
};

use forebay_sigsafe::ticks;

use super::{
    EXIT_LOST, SPIN, Shared,
    between::{Between, Service},
};
use crate::{
    requests::Slots,
    scheduling::{Quiet, set_realtime},
    usage::Activity,
};

/// How long it looks for messages before it sleeps where the program computes, whose time that is: what has just come is
/// mostly followed by its end, and one fetch by the next, which takes some 15 us.
const SPIN_BUSY: Duration = Duration::from_micros(20);
/// How long it sleeps at most.
const SLEEP_NS: u32 = 100_000_000;
/// The thread begins without the program's signals.
const QUIET: Quiet<'static> = Quiet::by_nature();
/// How long a program gets to end by itself when a host is lost.
const GRACE: Duration = Duration::from_secs(1);

impl Shared {
    /// The progress thread.
    pub(super) fn make_progress(&self) {
        let Some((between, service)) = self.service() else { return };
        let _guard = EndsWithProgress(self);
        set_realtime();
        let event = service
            .engine_quietly(QUIET)
            .transport()
            .event()
            .and_then(|event| event.try_clone_to_owned().ok());
        let mut spin_until = Instant::now();
        while !self.leaving.load(Relaxed) {
            let begun = ticks();
            let (progress, failure) = {
                let mut engine = service.engine_quietly(QUIET);
                (engine.progress(between.machine(self)), engine.failure().map(ToString::to_string))
            };
            if let Some(failure) = failure {
                return self.fail(&failure);
            }
            if progress.served > 0 {
                self.clock.add(Activity::Service, begun);
            }
            let now = Instant::now();
            if progress.is_awaited {
                // Threads that this one has woken go on when it sleeps, and they have waited long enough. So have those that
                // look at what another machine has taken.
                spin_until = now;
            } else if progress.served > 0 {
                spin_until = now + spin(between, service);
            }
            if now < spin_until {
                hint::spin_loop();
            } else if self.sleep(between, service, event.as_ref()).is_err() {
                thread::yield_now();
            }
        }
    }

    /// Nothing is served any more: a thread in a fault can never go on.
    pub(super) fn fail(&self, failure: &str) {
        if !self.is_process {
            return self.close();
        }
        let deadline = Instant::now() + GRACE;
        while !self.leaving.load(Relaxed) {
            // What is to be told to the others may be under way yet.
            if let Some((between, service)) = self.service() {
                service.engine_quietly(QUIET).progress(between.machine(self));
            }
            thread::sleep(GRACE / 100);
            let slots = self.between().map(|between| &between.desk.slots[self.board.place()]);
            let can_end = self.told.load(Relaxed) && !slots.is_some_and(Slots::has_faults);
            if Instant::now() > deadline && !can_end {
                self.end(failure);
            }
        }
    }

    /// Ends the process at once: threads in faults would never let it end in order.
    fn end(&self, why: &str) -> ! {
        let (host, hosts) = (self.me.0, self.hosts);
        eprintln!("forebay: host {host} of {hosts} ends: {why}");
        // SAFETY: nothing of this process is used any more.
        unsafe { libc::_exit(EXIT_LOST) }
    }

    fn sleep(&self, between: &Between, service: &Service, event: Option<&OwnedFd>) -> rustix::io::Result<()> {
        let doorbell = &between.desk.doorbell;
        let nothing = || !self.leaving.load(Relaxed) && !between.desk.slots.iter().any(Slots::has_events);
        // A call that sleeps waits for messages, and none comes after it before it ends.
        let sleeps = || service.asleep.load(SeqCst) > 0;
        let next_call_ns = service.calls.await_next(!service.is_crowded && !sleeps());
        let polls = || !service.is_crowded && service.polling.load(SeqCst) > 0;
        if polls() || next_call_ns.is_some() {
            // No message need wake this thread while another one looks for them.
            service.is_relied_on.store(true, SeqCst);
            let is_needed = || !polls() && (next_call_ns.is_none() || sleeps());
            let slept = doorbell.sleep(None, next_call_ns.unwrap_or(SLEEP_NS), || !nothing() || is_needed());
            service.is_relied_on.store(false, SeqCst);
            return slept;
        }
        let event = event.map(AsFd::as_fd);
        doorbell
            .sleep(event, SLEEP_NS, || !nothing() || !service.engine_quietly(QUIET).transport().may_sleep())
    }
}

/// How long to look for more messages where some have just come.
fn spin(between: &Between, service: &Service) -> Duration {
    if service.is_crowded || service.polling.load(SeqCst) > 0 {
        Duration::ZERO
    } else if between.desk.slots.iter().any(Slots::has_waiters) || service.asleep.load(SeqCst) > 0 {
        SPIN
    } else {
        SPIN_BUSY
    }
}

/// Without progress all threads would wait for ever, so where it panics the process ends.
struct EndsWithProgress<'a>(&'a Shared);

impl Drop for EndsWithProgress<'_> {
    fn drop(&mut self) {
        if thread::panicking() && self.0.is_process {
            self.0.end("its progress thread panicked");
        }
    }
}
