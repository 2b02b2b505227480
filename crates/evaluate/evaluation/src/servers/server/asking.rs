//! The clients of one thread: each is a task that makes one request after the other.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::experiments::{Connections, Generator, Rate};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::clients::{Answers, Clients, Window};
use super::http::{Answer, Failure, Line};
use super::observer::Schedstat;
use crate::harness::random::Random;

/// How long the load goes on after it was stopped, at most.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Requests that failed in a row, before the server is given up.
const REFUSED_MAX: u32 = 200;

/// The clients of one thread.
pub(super) struct Asking {
    clients: Clients,
    window: Window,
    /// How many they are.
    own: usize,
    state: Mutex<State>,
    /// Tells a client that a request is due.
    due: Notify,
}

struct State {
    schedule: Option<Schedule>,
    random: Random,
    /// When each client began the request that is under way.
    begun: Vec<Option<Instant>>,
    refused: u32,
    answers: Answers,
}

/// Requests at even distances.
struct Schedule {
    next: Instant,
    distance: Duration,
    /// When those were to be made that wait for a client.
    overdue: VecDeque<Instant>,
}

impl Asking {
    pub(super) fn new(clients: &Clients, number: usize, threads: usize, window: Window) -> Self {
        let own = usize::from(clients.number) / threads
            + usize::from(number < usize::from(clients.number) % threads);
        let now = Instant::now();
        let schedule = match clients.rate {
            Rate::Most => None,
            Rate::PerSecond(rate) => {
                let distance = Duration::from_secs_f64(threads as f64 / rate).max(Duration::from_nanos(1));
                let next = now + distance.mul_f64(number as f64 / threads as f64);
                Some(Schedule { next, distance, overdue: VecDeque::new() })
            }
        };
        let answers = Answers { intended: schedule.as_ref().map(|_| 0.0), ..Answers::none() };
        let random = Random::new(clients.load << 16 | number as u64);
        let state = State { schedule, random, begun: vec![None; own], refused: 0, answers };
        Self { clients: clients.clone(), window, own, state: Mutex::new(state), due: Notify::new() }
    }

    /// Asks until the window ends, or until `stop` is set. A sentence where the server cannot be asked.
    pub(super) fn run(self, stop: &AtomicBool) -> Result<Answers, String> {
        let asking = Arc::new(self);
        // The server goes on as soon as one client has asked, and not once all have: so that both work at the same time.
        let runtime = Builder::new_current_thread().enable_all().event_interval(1).build();
        let runtime =
            runtime.map_err(|error| format!("no clients can be had: {}", forebay_results::reason(&error)))?;
        let used = runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for number in 0..asking.own {
                tasks.spawn(client(Arc::clone(&asking), number));
            }
            if asking.clients.rate != Rate::Most {
                tasks.spawn(pace(Arc::clone(&asking)));
            }
            tokio::select! {
                biased;
                given_up = tasks.join_next() => {
                    Err(given_up.expect("there is a client").expect("clients do not panic"))
                }
                used = over(asking.window, stop) => Ok(used),
            }
        })?;
        drop(runtime);
        let now = Instant::now();
        let mut state = asking.state();
        let pending: f64 =
            state.begun.iter().flatten().map(|begun| asking.window.seconds_between(*begun, now)).sum();
        let mut answers = std::mem::replace(&mut state.answers, Answers::none());
        answers.under_way_s += pending;
        answers.generator = Generator { threads: 1.0, processor_s: used.ran_s, queued_s: used.queued_s };
        Ok(answers)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("clients do not panic")
    }

    /// Waits until a request is to be made, and tells when that was.
    async fn intended(&self) -> Instant {
        loop {
            match &mut self.state().schedule {
                None => return Instant::now(),
                Some(schedule) => {
                    if let Some(intended) = schedule.overdue.pop_front() {
                        return intended;
                    }
                }
            }
            self.due.notified().await;
        }
    }

    /// Makes requests due, whose time has come.
    fn make_due(&self, now: Instant) {
        let state = &mut *self.state();
        let Some(schedule) = &mut state.schedule else { return };
        while schedule.next <= now {
            schedule.overdue.push_back(schedule.next);
            if self.window.has(schedule.next) {
                state.answers.intended = state.answers.intended.map(|intended| intended + 1.0);
            }
            schedule.next += schedule.distance;
            self.due.notify_one();
        }
    }

    /// Begins a request, and chooses which.
    fn begin(&self, number: usize) -> (Instant, usize) {
        let mut state = self.state();
        let now = Instant::now();
        state.begun[number] = Some(now);
        (now, state.random.below(self.clients.requests.len()))
    }

    /// Makes a request over the connection that was kept, or over a new one.
    async fn exchange(&self, kept: &mut Option<Line>, request: usize) -> Result<Answer, Failure> {
        let mut line = match kept.take() {
            None => self.clients.site.connect().await?,
            Some(mut line) => {
                // That a connection ended between two requests is no failure.
                if !line.is_ready().await {
                    line = self.clients.site.connect().await?;
                }
                line
            }
        };
        let answer = line.exchange(self.clients.requests[request].clone()).await?;
        if self.clients.connections == Connections::Kept {
            *kept = Some(line);
        }
        Ok(answer)
    }

    /// Counts what came of a request; a sentence where no more should be made.
    fn end(
        &self,
        number: usize,
        intended: Instant,
        (begun, request): (Instant, usize),
        answered: Result<Answer, Failure>,
    ) -> Result<(), String> {
        let now = Instant::now();
        let state = &mut *self.state();
        state.begun[number] = None;
        state.answers.under_way_s += self.window.seconds_between(begun, now);
        let within = self.window.has(now);
        let failed = match answered {
            Ok(Answer { status, bytes }) if status < 400 => {
                state.refused = 0;
                if within {
                    state.answers.requests += 1;
                    state.answers.bytes += bytes;
                    let latency = now.duration_since(intended).as_nanos();
                    state.answers.latency_ns.saturating_record(latency.min(u128::from(u64::MAX)) as u64);
                }
                return Ok(());
            }
            Ok(Answer { status, .. }) => {
                state.refused = 0;
                format!("the server answers {status} for {}", self.clients.requests[request].uri())
            }
            Err(Failure::NotHttp(why)) => return Err(why),
            Err(Failure::Broken(why)) => {
                state.refused += 1;
                why
            }
        };
        if state.refused > REFUSED_MAX {
            return Err(format!(
                "{REFUSED_MAX} requests in a row failed ({failed}); is the server still there?"
            ));
        }
        state.answers.errors += u64::from(within);
        state.answers.first_error.get_or_insert(failed);
        Ok(())
    }
}

/// A client. It ends where the server cannot be asked, with a sentence.
async fn client(asking: Arc<Asking>, number: usize) -> String {
    let mut kept = None;
    loop {
        let intended = asking.intended().await;
        let begun = asking.begin(number);
        let answered = asking.exchange(&mut kept, begun.1).await;
        if let Err(sentence) = asking.end(number, intended, begun, answered) {
            return sentence;
        }
    }
}

/// Keeps the schedule. A timer of the kernel's is finer than the runtime's, which have milliseconds.
async fn pace(asking: Arc<Asking>) -> String {
    let distance = asking.state().schedule.as_ref().map_or(LOOK_EVERY, |schedule| schedule.distance);
    let cannot = |error: std::io::Error| format!("clients cannot wait: {}", forebay_results::reason(&error));
    let timer = match ticks(distance) {
        Ok(timer) => timer,
        Err(error) => return cannot(error),
    };
    loop {
        asking.make_due(Instant::now());
        match timer.readable().await {
            // The number of ticks is of no interest: the schedule knows the time.
            Ok(mut ready) => {
                let _ = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut [0; 8])?));
            }
            Err(error) => return cannot(error),
        }
    }
}

/// A timer that is readable again and again.
#[expect(
    deprecated,
    reason = "an OwnedFd keeps its descriptor, which is all that the unsafe constructor asks for"
)]
fn ticks(distance: Duration) -> std::io::Result<AsyncFd<OwnedFd>> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let every = Timespec::try_from(distance).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    let ticks = Itimerspec { it_interval: every, it_value: every };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &ticks)?;
    AsyncFd::new(timer)
}

/// Waits for the end of the window, or of the load, and tells what this thread used of the window.
async fn over(window: Window, stop: &AtomicBool) -> Schedstat {
    let mut before = None;
    loop {
        let now = Instant::now();
        if before.is_none() && now >= window.begin {
            before = Some(Schedstat::of_this_thread());
        }
        if now >= window.end || stop.load(Ordering::Relaxed) {
            return Schedstat::of_this_thread().since(before.unwrap_or_default());
        }
        let boundary = if before.is_some() { window.end } else { window.begin };
        tokio::time::sleep(boundary.saturating_duration_since(now).min(LOOK_EVERY)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Asked;
    use crate::servers::server::http::{Site, url};

    #[test]
    fn each_load_asks_in_an_order_of_its_own() {
        let site = Site::of(&url("http://127.0.0.1/").unwrap()).unwrap();
        let request = site.request("/", &Asked::default(), false).unwrap();
        let order = |load| {
            let (requests, connections) = (vec![request.clone(); 1000], Connections::Kept);
            let clients =
                Clients { site: site.clone(), requests, number: 1, rate: Rate::Most, connections, load };
            let now = Instant::now();
            let asking = Asking::new(&clients, 0, 1, Window { begin: now, end: now });
            (0..20).map(|_| asking.begin(0).1).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(0), order(1));
    }
}
