//! What wakes the event loop: sockets, one timer, signals, and a call to stop.

use std::num::NonZeroU64;
use std::sync::Arc;

use forebay_rtsp::range::SECOND_NS;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::error::{Result, to};
use crate::token::Token;

/// The sources of events.
pub(crate) struct Events {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer rings; 0 while it is not set.
    timer_ns: u64,
    stop: Arc<OwnedFd>,
    signals: Option<SignalFd>,
}

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Makes [`crate::Serving::run`] return soon.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Events {
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(to("epoll"))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(to("a timer"))?;
        let stop = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(to("eventfd"))?;
        let events = Self { epoll, timer, timer_ns: 0, stop: Arc::new(stop), signals: None };
        events.watch(&events.timer, Token::Timer).map_err(to("epoll"))?;
        events.watch(&*events.stop, Token::Stop).map_err(to("epoll"))?;
        Ok(events)
    }

    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Blocks the signals that [`Events::heed_signals`] reads, in this thread and in those that it starts later.
    pub fn block_signals() -> Result<()> {
        signals().thread_block().map_err(to("signals"))
    }

    pub fn heed_signals(&mut self) -> Result<()> {
        let signals = SignalFd::with_flags(&signals(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .map_err(to("signalfd"))?;
        self.watch(&signals, Token::Signals).map_err(to("epoll"))?;
        self.signals = Some(signals);
        Ok(())
    }

    /// Whether the signal that came is SIGHUP; `None` if none came.
    pub fn next_signal_is_hangup(&mut self) -> Option<bool> {
        let signal = self.signals.as_mut()?.read_signal().ok().flatten()?;
        Some(signal.ssi_signo == Signal::SIGHUP as u32)
    }

    /// Reports when `source` can be read.
    pub fn watch(&self, source: impl AsFd, token: Token) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, source, token.to_data(), epoll::EventFlags::IN)
    }

    /// Changes what is reported of a source that is watched.
    pub fn change(
        &self,
        source: impl AsFd,
        token: Token,
        interest: epoll::EventFlags,
    ) -> rustix::io::Result<()> {
        epoll::modify(&self.epoll, source, token.to_data(), interest)
    }

    /// Sets the timer only when its time changes: most turns of the loop begin because it rang.
    pub fn set_timer(&mut self, next_ns: u64) -> Result<()> {
        // A time in the past is due at once; 0 would be never.
        let next_ns = next_ns.max(1);
        if next_ns != self.timer_ns {
            let at = Timespec { tv_sec: (next_ns / SECOND_NS) as i64, tv_nsec: (next_ns % SECOND_NS) as i64 };
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let spec = Itimerspec { it_interval: never, it_value: at };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec).map_err(to("a timer"))?;
            self.timer_ns = next_ns;
        }
        Ok(())
    }

    /// The timer rang, and is not set until [`Events::set_timer`].
    pub fn clear_timer(&mut self) {
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        self.timer_ns = 0;
    }

    /// Makes the timers of this thread ring when they are due: a nanosecond is the least that the kernel accepts.
    pub fn sharpen_timers() {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }

    /// Waits for events, at most as many as fit into `events`.
    pub fn wait(&self, events: &mut Vec<epoll::Event>, timeout: Option<&Timespec>) -> Result<()> {
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(to("epoll")(error)),
        }
    }
}

fn signals() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect()
}
