//! One run of a server under a load, and all that is counted meanwhile.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::experiments::{
    Clients, Dependency, Description, Evidence, Generator, Load, RouterLayout, Server, Trial,
};
use forebay_counters::{Meter, Options as Counting, Target as Counted};
use forebay_probes::woken_us;
use forebay_stream_clients::{Crowd, Order, Outcome as Viewed, Start, Transport};

use super::clients::{Answers, Window};
use super::load_meter::LoadMeter;
use super::load_output::{p99_s, transactions};
use super::meters::{Counts, Opened, processor_s, total};
use super::observer::{Observer, Seen};
use super::process::Process;
use super::router::Network;
use super::run::{Figure, Run};
use super::takers::Taken;
use super::target::Target;
use super::web::Documents;
use crate::Error;
use crate::error::quoted;
use crate::harness::interrupt::Interrupt;
use crate::harness::prediction::SLEEP_US;

/// How long a server is looked at before its load.
const AT_REST: Duration = Duration::from_millis(200);
/// So often at most.
const AT_REST_LOOKS_MAX: usize = 25;
/// How often is looked for an interrupt, and whether the server is still there.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A load of somebody else's that takes longer is ended.
const LOAD_LIMIT: Duration = Duration::from_secs(3600);
/// A run during which the machine stood still is made again, so often in all.
const ATTEMPTS_MAX: usize = 3;
/// Viewers that come in a second at most.
const RAMP_PER_SECOND: f64 = 200.0;
/// Later packets are late, in seconds.
const LATE_S: f64 = 0.1;
/// How long its dependency takes for an answer.
pub(super) const DEPENDENCY_ANSWERS: &str = "dependency_answers_after";
/// How long a thread of ours sleeps again and again beside a server of streams, and what it takes to be woken, as a figure: a
/// processor is as fast, and as fast awake, as it is just then.
const ASLEEP: Duration = Duration::from_micros(SLEEP_US as u64);
pub(super) const WAKE_UP: &str = "wake_up_after_10_ms";

/// Where runs are made.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    pub(super) description: &'a Description,
    /// Of this run alone.
    pub(super) folder: &'a Path,
    pub(super) documents: Option<&'a Documents>,
    /// The command, which is a server too.
    pub(super) forebay: &'a Path,
    pub(super) interrupt: &'a Interrupt,
    pub(super) given: Given,
}

/// What a server is given in this run; by default all that there is, and its dependency as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
    /// So many processors.
    pub(super) processors: Option<f64>,
    /// Its dependency behind a proxy, and so much later.
    pub(super) dependency_later: Option<Duration>,
    /// What runs beside it.
    pub(super) taken: Option<Taken>,
    /// Files on a disk of forebay's, with a latency or without.
    pub(super) disk_is_slow: Option<bool>,
    /// How long a load of somebody else's may take until it is given up.
    pub(super) load_limit: Option<Duration>,
}

impl Bench<'_> {
    /// Starts the server, loads it, counts, and ends it.
    pub(super) fn measure(&self, trial: &Trial) -> Result<Run, Error> {
        let mut run = self.attempt(trial);
        for _ in 1..ATTEMPTS_MAX {
            let again = match &run {
                Ok(run) => !run.punctual,
                Err(error) => matches!(error, Error::StoodStill { .. }),
            };
            if !again {
                break;
            }
            run = self.attempt(trial);
        }
        run
    }

    fn attempt(&self, trial: &Trial) -> Result<Run, Error> {
        match (&trial.server, &trial.load) {
            (Server::Forwarding(layout), Load::Messages { bytes }) => self.forwarding(*layout, *bytes),
            _ => self.process(trial),
        }
    }

    /// The kernel is the server: what is counted is the machine's, with what the ends of the network take.
    fn forwarding(&self, layout: RouterLayout, bytes: u64) -> Result<Run, Error> {
        let Description { warm_up, seconds, .. } = *self.description;
        let network = Network::start(layout, self.folder, self.interrupt)?;
        let sending = network.send(bytes, warm_up, seconds)?;
        let meter = Meter::open(&Counted::Machine, &Counting::default())?;
        self.pause(Duration::from_secs_f64(warm_up))?;
        let meter = meter.start()?;
        self.pause(Duration::from_secs_f64(seconds))?;
        let refused = meter.refused().to_vec();
        let machine = meter.stop();
        let bytes_per_s = network.received(sending)? / 8.0;
        let counts = Counts {
            server: machine.clone(),
            group: None,
            machine,
            seen: Seen::default(),
            refused,
            disk: None,
            late_s: 0.0,
        };
        let all = evidence(&counts, &Seen::default(), seconds);
        let evidence = Evidence {
            requests: bytes_per_s / bytes as f64 * seconds,
            bytes: bytes_per_s * seconds,
            in_kernel: true,
            processor_s: all.machine_processor_s,
            ..all
        };
        Ok(Run::of(evidence, &counts, vec![], None))
    }

    fn process(&self, trial: &Trial) -> Result<Run, Error> {
        let (mut target, at_rest) = self.start(trial)?;
        self.loaded(trial, &mut target, &at_rest)
    }

    /// The server, and what its threads do without a load.
    pub(super) fn start(&self, trial: &Trial) -> Result<(Target, Seen), Error> {
        let mut target = Target::start(trial, self, self.folder, self.description.port(), &[])?;
        let at_rest = self.at_rest(&mut target)?;
        Ok((target, at_rest))
    }

    /// Loads a server that has started, and counts.
    pub(super) fn loaded(&self, trial: &Trial, target: &mut Target, at_rest: &Seen) -> Result<Run, Error> {
        let mut run = self.under_its_load(trial, target, at_rest)?;
        let answers_s = target.dependency_answers_after_s();
        run.figures.extend(answers_s.map(|seconds| Figure::new(DEPENDENCY_ANSWERS, "s", seconds)));
        if let Some((proxy, dependency)) = target.proxy_address().zip(self.description.dependency()) {
            run.behind_proxy(&proxy.to_string(), dependency);
        }
        Ok(run)
    }

    fn under_its_load(&self, trial: &Trial, target: &mut Target, at_rest: &Seen) -> Result<Run, Error> {
        if let Load::Media { clients, media, .. } = trial.load {
            let mut viewers = gather(target.address(), clients, media).map_err(Error::Load)?;
            let view = |window: Window, stop: &AtomicBool| {
                let warm_up = window.begin.saturating_duration_since(Instant::now());
                let time = window.end.duration_since(window.begin);
                let is_over = AtomicBool::new(false);
                let (viewed, woken_us) = std::thread::scope(|scope| {
                    let sleeper = scope.spawn(|| woken_us(ASLEEP, || !is_over.load(Ordering::Relaxed)));
                    let viewed = viewers.watch(warm_up, time, stop);
                    is_over.store(true, Ordering::Relaxed);
                    (viewed, sleeper.join().expect("who sleeps does not panic"))
                });
                Ok((viewed.map_err(|error| error.to_string())?, woken_us))
            };
            let ((viewed, woken_us), counts) = self.under_load(target, view)?;
            let mut run = of_viewers(&viewed, &counts, at_rest, self.description.seconds);
            run.figures.extend(woken_us.map(|us| Figure::new(WAKE_UP, "s", us / 1e6)));
            return Ok(run);
        }
        match target.clients(&trial.load, self.documents)? {
            Some(clients) => {
                let ask = |window, stop: &AtomicBool| clients.run(window, stop);
                let (answers, counts) = self.under_load(target, ask)?;
                check_answered(&answers, &counts, self.description.seconds)?;
                let mut run = of_clients(&answers, &counts, at_rest, self.description.seconds);
                if let Load::Documents { bytes, .. } = trial.load {
                    let documents = self.documents.map_or(0, |documents| documents.paths.len());
                    run.serving_of(documents as f64 * bytes as f64);
                }
                Ok(run)
            }
            None => self.with_command(&trial.load, target, at_rest),
        }
    }

    /// What the threads do without a load, once there are no more of them than a moment ago: pools take their time.
    fn at_rest(&self, target: &mut Target) -> Result<Seen, Error> {
        let number = |seen: &Seen| seen.threads.unwrap_or_default().number().round();
        let mut before = Seen::default();
        for _ in 0..AT_REST_LOOKS_MAX {
            let observer = Observer::start(target.scope.clone());
            self.wait_until(Instant::now() + AT_REST, target)?;
            let now = observer.stop();
            if number(&now) == number(&before) {
                return Ok(now);
            }
            before = now;
        }
        Ok(before)
    }

    /// Counts while a load of forebay's own goes on.
    fn under_load<T: Send>(
        &self,
        target: &mut Target,
        load: impl FnOnce(Window, &AtomicBool) -> Result<T, String> + Send,
    ) -> Result<(T, Counts), Error> {
        let served = self.documents.map(|documents| documents.folder.as_path());
        let meters = Opened::new(target, self.description.seconds, served)?;
        let begin = Instant::now() + Duration::from_secs_f64(self.description.warm_up);
        let window = Window { begin, end: begin + Duration::from_secs_f64(self.description.seconds) };
        let stop = AtomicBool::new(false);
        let (came, counts) = std::thread::scope(|scope| {
            let loading = scope.spawn(|| load(window, &stop));
            let counts = self.count(meters, window, target);
            stop.store(true, Ordering::Relaxed);
            (loading.join().expect("loads do not panic"), counts)
        });
        // That the server has ended says more than that it could not be asked.
        let counts = counts?;
        Ok((came.map_err(Error::Load)?, counts))
    }

    fn pause(&self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        loop {
            self.interrupt.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    fn count(&self, meters: Opened, window: Window, target: &mut Target) -> Result<Counts, Error> {
        self.wait_until(window.begin, target)?;
        let meters = meters.start()?;
        let begun_late = Instant::now().saturating_duration_since(window.begin);
        self.wait_until(window.end, target)?;
        let ended_late = Instant::now().saturating_duration_since(window.end);
        Ok(Counts { late_s: begun_late.max(ended_late).as_secs_f64(), ..meters.stop() })
    }

    fn wait_until(&self, moment: Instant, target: &mut Target) -> Result<(), Error> {
        loop {
            self.interrupt.check()?;
            target.check()?;
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// A load of somebody else's, from its start to its end.
    fn with_command(&self, load: &Load, target: &mut Target, at_rest: &Seen) -> Result<Run, Error> {
        let Load::Command { arguments, prints, .. } = load else {
            unreachable!("all other loads have clients of forebay's own");
        };
        let seconds = self.description.seconds.to_string();
        let filled = |word: &String| target.with_port(word).replace("{seconds}", &seconds).into();
        let arguments: Vec<OsString> = arguments.iter().map(filled).collect();
        let limit = self.given.load_limit.unwrap_or(LOAD_LIMIT);
        let folder = self.folder.join("load");
        std::fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let meters = Opened::new(target, self.description.seconds, None)?.start()?;
        let begun = Instant::now();
        let mut process = Process::start(&arguments, &folder, None)?;
        let mut taken = LoadMeter::start(process.id());
        while !process.has_ended()? {
            taken.iter_mut().for_each(LoadMeter::look);
            self.wait_until(Instant::now() + LOOK_EVERY, target)?;
            if begun.elapsed() > limit {
                return Err(Error::Load(format!("the load did not end within {limit:?}")));
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let counts = meters.stop();
        let said = process.said()?;
        let wrong = |what: String| Error::Load(format!("{what}{}", quoted(&process.words())));
        let rate = transactions(&said, prints).map_err(wrong)?;
        let generator = taken.and_then(|taken| taken.stop(seconds, processors()));
        let p99 = p99_s(&said, prints).map_err(wrong)?.map(|p99_s| Figure::new("latency_p99", "s", p99_s));
        let evidence = Evidence {
            requests: rate.map_or(1.0, |rate| rate * seconds),
            in_flight: rate.and(counts.seen.clients).and_then(Clients::all_under_way),
            generator,
            ..evidence(&counts, at_rest, seconds)
        };
        Ok(Run::of(evidence, &counts, p99.into_iter().collect(), None))
    }
}

/// An error where no request was answered well: there is no latency then, and nothing to judge.
fn check_answered(answers: &Answers, counts: &Counts, seconds: f64) -> Result<(), Error> {
    if answers.requests > 0 {
        return Ok(());
    }
    counts.punctual(seconds)?;
    Err(Error::Load(match &answers.first_error {
        Some(first) => format!("no request succeeded within {seconds} s; the first failed because {first}"),
        None => format!(
            "the server answered no request within {seconds} s; look at what it does, or give more seconds"
        ),
    }))
}

fn of_clients(answers: &Answers, counts: &Counts, at_rest: &Seen, seconds: f64) -> Run {
    let evidence = Evidence {
        requests: answers.requests as f64,
        failed: answers.errors as f64,
        bytes: answers.bytes as f64,
        intended: answers.intended,
        in_flight: Some(answers.under_way_s / seconds),
        generator: Some(answers.generator),
        ..evidence(counts, at_rest, seconds)
    };
    let latencies = [("latency_p50", 0.5), ("latency_p90", 0.9), ("latency_p99", 0.99), ("latency_max", 1.0)];
    let latencies = latencies.map(|(metric, share)| {
        Figure::new(metric, "s", answers.latency_ns.value_at_quantile(share) as f64 / 1e9)
    });
    let failed = Figure::new("failed", "1/s", answers.errors as f64 / seconds);
    let trouble = answers.first_error.as_ref();
    let trouble =
        trouble.map(|first| format!("{} requests failed, the first because {first}", answers.errors));
    Run::of(evidence, counts, latencies.into_iter().chain([failed]).collect(), trouble)
}

/// Has so many play over UDP, each from the beginning of one of the files. A sentence where one of them cannot.
pub(super) fn gather(address: SocketAddr, clients: u16, media: u16) -> Result<Crowd, String> {
    let order = Order {
        address,
        paths: (0..media).map(|number| number.to_string()).collect(),
        links: vec![],
        drifts: vec![],
        players: clients.into(),
        transport: Transport::Udp,
        ramp_per_second: RAMP_PER_SECOND,
        start: Start::Beginning,
        needed_s: 0.0,
        seek_every_s: None,
        stay_s: None,
        late_s: LATE_S,
        seed: 1,
    };
    let mut crowd = Crowd::new(order).map_err(|error| error.to_string())?;
    let gathered = crowd.gather(&AtomicBool::new(false)).map_err(|error| error.to_string())?;
    gathered.first_failure.map_or(Ok(crowd), Err)
}

fn of_viewers(viewed: &Viewed, counts: &Counts, at_rest: &Seen, seconds: f64) -> Run {
    // In time all of it plays as long as the clock runs.
    let intended = (viewed.played_s > 0.0)
        .then(|| viewed.packets as f64 * seconds * f64::from(viewed.playing) / viewed.played_s);
    let generator = Generator { threads: 1.0, processor_s: viewed.ran_s, queued_s: viewed.queued_s };
    let evidence = Evidence {
        requests: viewed.packets as f64,
        bytes: viewed.bytes as f64,
        intended,
        generator: Some(generator),
        ..evidence(counts, at_rest, seconds)
    };
    let figures = [
        ("lateness_p50", "s", viewed.lateness.p50),
        ("lateness_p99", "s", viewed.lateness.p99),
        ("lateness_max", "s", viewed.lateness.max),
        ("jitter", "s", viewed.jitter.p50),
        ("lost", "1/s", viewed.lost as f64 / seconds),
    ];
    let figures = figures.map(|(metric, unit, value)| Figure::new(metric, unit, value)).to_vec();
    let lost = || format!("{} packets were lost", viewed.lost);
    let trouble = viewed.first_failure.clone().or_else(|| (viewed.lost > 0).then(lost));
    Run::of(evidence, counts, figures, trouble)
}

fn processors() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |processors| processors.get() as f64)
}

/// What the counters say, whoever made the load.
fn evidence(counts: &Counts, at_rest: &Seen, seconds: f64) -> Evidence {
    let refaults = ["refaulted_file_pages", "refaulted_anonymous_pages"];
    let of_server = |names: &[&str]| total(&counts.server, names, seconds);
    let of_machine = |names: &[&str]| total(&counts.machine, names, seconds);
    let of_group = |names: &[&str]| counts.group.as_ref().and_then(|group| total(group, names, seconds));
    Evidence {
        seconds,
        processors: processors(),
        threads: counts.seen.threads,
        threads_at_rest: at_rest.threads.unwrap_or_default(),
        threads_at_work: counts.seen.threads_at_work,
        busiest_thread: counts.seen.busiest_thread,
        one_at_a_time: counts.seen.one_at_a_time,
        timed_locks: counts.seen.timed_locks,
        sleeps: Some(counts.seen.sleeps),
        timeouts: counts.seen.timeouts,
        timeouts_at_rest: at_rest.timeouts,
        clients: counts.seen.clients,
        dependencies: Dependency::beyond(counts.seen.dependencies.clone(), &at_rest.dependencies),
        leads: counts.seen.leads.clone(),
        allowed_processors: counts.seen.allowed_processors,
        quota: counts.seen.quota,
        disk: counts.disk.clone(),
        processor_s: processor_s(&counts.server, seconds),
        system_s: of_server(&["cpu_system"]),
        processor_wait_s: of_server(&["cpu_wait"]),
        machine_processor_s: of_machine(&["cpu_user", "cpu_system", "cpu_interrupts", "cpu_soft_interrupts"]),
        minor_faults: of_server(&["minor_faults"]),
        major_faults: of_server(&["major_faults"]),
        refaults: of_group(&refaults).or_else(|| of_machine(&refaults)),
        memory_limit_hits: of_group(&["memory_limit_hits"]),
        disk_read_bytes: of_server(&["disk_read_bytes"]),
        disk_written_bytes: of_server(&["disk_written_bytes"]),
        memory_pressure_s: of_group(&["memory_pressure_some"])
            .or_else(|| of_machine(&["memory_pressure_some"])),
        calls: counts.seen.calls.map(|calls| calls.number),
        call_bytes: counts.seen.calls.map(|calls| calls.bytes),
        held_bytes: counts.seen.held_bytes.clone(),
        ..Evidence::default()
    }
}

#[cfg(test)]
mod tests {
    use forebay_counters::Readings;

    use super::*;

    #[test]
    fn a_server_is_not_blamed_for_a_machine_that_stood_still() {
        let counts = |late_s| Counts {
            server: Readings::default(),
            group: None,
            machine: Readings::default(),
            seen: Seen::default(),
            disk: None,
            refused: vec![],
            late_s,
        };
        let unanswered = |late_s| check_answered(&Answers::none(), &counts(late_s), 1.0).unwrap_err();
        assert!(matches!(unanswered(0.1), Error::Load(why) if why.contains("answered no request")));
        assert!(matches!(unanswered(0.3), Error::StoodStill { .. }));
    }
}
