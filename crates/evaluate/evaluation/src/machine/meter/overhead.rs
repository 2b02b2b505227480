//! The cost of the meter. On each processor a server and its client keep the processor busy. They run without the meter and
//! with all counters of their process and of the machine, in turn. A control runs beside each pair, without the meter: it
//! tells the scatter of the machine.

use forebay_quantity::percent;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use forebay_counters::{Meter, Target};
use forebay_results::{Row, Spread};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::harness::interrupt::{Interrupt, kept};
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::harness::table::render;
use crate::{Error, Progress};

/// What a request and its answer hold.
const MESSAGE_BYTES: usize = 1024;

/// What the server reads of its memory for a request.
const TOUCHED_BYTES: usize = 64 << 10;

/// The longest that a message may be on its way.
const MESSAGE_LIMIT: Duration = Duration::from_secs(30);

/// What to compare, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs of runs.
    pub pairs: usize,
    /// How long a run is.
    pub run: Duration,
    /// How the counters are sampled.
    pub sampling: forebay_counters::Options,
}

impl Options {
    /// Fifteen pairs of runs of two seconds, sampled as by default.
    pub fn new() -> Self {
        Self { pairs: 15, run: Duration::from_secs(2), sampling: forebay_counters::Options::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Requests per second without the meter, one value a pair.
    pub without: Series,
    /// With it.
    pub with: Series,
    /// Without it once more.
    pub control: Series,
    /// Processor time of sampling, as a share of one processor's.
    pub own_share: Series,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

impl Outcome {
    /// The share of the throughput that the meter takes, pair by pair: 0.01 is one per cent.
    pub fn overhead(&self) -> Series {
        loss(&self.with, &self.without)
    }

    /// The same of the control: what differs though nothing does.
    pub fn noise(&self) -> Series {
        loss(&self.control, &self.without)
    }

    /// The table.
    pub fn table(&self) -> String {
        let line = |name: &str, throughput: &Series, lost: Option<Series>| {
            let spread = lost.as_ref().and_then(Series::spread);
            let (low, high) = lost.as_ref().map_or((f64::NAN, f64::NAN), Series::middle_half);
            let range = |spread: Spread| {
                format!("{} ({} to {})", percent(spread.median), percent(low), percent(high))
            };
            let lost = spread.map_or_else(String::new, range);
            vec![name.to_owned(), format!("{:.0}", throughput.median()), lost]
        };
        let rows = [
            line("without", &self.without, None),
            line("with the meter", &self.with, Some(self.overhead())),
            line("without again", &self.control, Some(self.noise())),
        ];
        let table = render(&["loopback servers", "requests/s", "lost: median (middle half)"], rows);
        let own = percent(self.own_share.median());
        format!("{table}\nSampling took {own} of one processor's time.")
    }

    /// Results by the schema.
    pub fn rows(&self) -> Vec<Row> {
        let sides = [("without", &self.without), ("with", &self.with), ("control", &self.control)];
        let throughput = sides
            .into_iter()
            .filter_map(|(case, series)| Some(Row::of("meter", case, "throughput", "1/s", series.spread()?)));
        let lost = [("with", self.overhead()), ("control", self.noise())]
            .into_iter()
            .filter_map(|(case, series)| Some(Row::of("meter", case, "overhead", "1", series.spread()?)));
        let own =
            self.own_share.spread().map(|spread| Row::of("meter", "with", "share_of_processor", "1", spread));
        throughput.chain(lost).chain(own).collect()
    }
}

fn loss(some: &Series, base: &Series) -> Series {
    some.per_round_ratio(base).values().iter().map(|ratio| 1.0 - ratio).collect()
}

/// Measures.
///
/// # Errors
/// There is no loopback network, the counters cannot be had, or a signal came.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    let mut outcome = Outcome::default();
    let mut steps = Steps::new(options.pairs * 3, progress);
    let mut measure = || {
        for run in 0..options.pairs * 3 {
            interrupt.check()?;
            // Each side is as often first, second and last.
            match (run / 3 + run % 3) % 3 {
                0 => {
                    steps.begin("without");
                    outcome.without.push(throughput(options.run)?);
                }
                1 => {
                    steps.begin("with the meter");
                    let (requests, own_share) = metered(options)?;
                    outcome.with.push(requests);
                    outcome.own_share.push(own_share);
                }
                _ => {
                    steps.begin("without again");
                    outcome.control.push(throughput(options.run)?);
                }
            }
        }
        Ok(())
    };
    let ended = measure();
    steps.end(&ended);
    outcome.stopped = kept(ended, !outcome.with.values().is_empty() && !outcome.without.values().is_empty())?;
    Ok(outcome)
}

/// Throughput while two meters sample, and the processor time that they take.
fn metered(options: &Options) -> Result<(f64, f64), Error> {
    let machine = Meter::start(&Target::Machine, &options.sampling)?;
    let process = Meter::start(&Target::Tree(std::process::id()), &options.sampling)?;
    let requests = throughput(options.run);
    let own = process.stop().own_share() + machine.stop().own_share();
    Ok((requests?, own))
}

/// Requests per second of all processors.
fn throughput(run: Duration) -> Result<f64, Error> {
    let failed = |source| Error::Start { command: "servers on the loopback network".to_owned(), source };
    let ours = sched_getaffinity(None).map_err(|errno| failed(errno.into()))?;
    let processors = (0..CpuSet::MAX_CPU).filter(|processor| ours.is_set(*processor));
    thread::scope(|scope| {
        let pairs: Vec<_> =
            processors.map(|processor| scope.spawn(move || exchange(run, processor))).collect();
        pairs
            .into_iter()
            .map(|pair| pair.join().expect("an exchange does not panic"))
            .sum::<io::Result<f64>>()
    })
    .map_err(failed)
}

/// Requests per second of a client that sends the next when the last is answered. It and its server are kept on one processor:
/// their throughput would hang on where they happen to be.
fn exchange(run: Duration, processor: usize) -> io::Result<f64> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut connection, _) = listener.accept()?;
    for end in [&client, &connection] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(MESSAGE_LIMIT))?;
    }
    thread::scope(|scope| {
        // It ends when the client hangs up, and has the client's processor.
        scope.spawn(move || serve(&mut connection));
        let mut message = [7u8; MESSAGE_BYTES];
        let started = Instant::now();
        let mut answered = 0u64;
        while started.elapsed() < run {
            client.write_all(&message)?;
            client.read_exact(&mut message)?;
            answered += 1;
        }
        let elapsed = started.elapsed().as_secs_f64();
        drop(client);
        Ok(answered as f64 / elapsed)
    })
}

fn serve(connection: &mut TcpStream) {
    let memory: Vec<u8> = (0..16 * TOUCHED_BYTES).map(|index| index as u8).collect();
    let mut message = [0u8; MESSAGE_BYTES];
    for part in memory.chunks(TOUCHED_BYTES).cycle() {
        if connection.read_exact(&mut message).is_err() {
            return;
        }
        message[0] = part.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
        if connection.write_all(&message).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_is_measured_in_every_pair() {
        let options = Options { pairs: 3, run: Duration::from_millis(30), ..Options::new() };
        let outcome = run(&options, &mut |_| {}).unwrap();
        for series in [&outcome.without, &outcome.with, &outcome.control] {
            assert_eq!(series.values().len(), 3);
            assert!(series.values().iter().all(|&requests| requests > 0.0), "{series:?}");
        }
        assert!(outcome.own_share.values().iter().all(|&share| share > 0.0));
        assert_eq!(outcome.rows().len(), 6);
    }

    #[test]
    fn what_is_lost_is_a_share_of_the_throughput_without() {
        let series = |value: f64| [value].into_iter().collect::<Series>();
        let outcome = Outcome {
            without: series(1000.0),
            with: series(990.0),
            control: series(1005.0),
            own_share: series(0.001),
            stopped: None,
        };
        assert!((outcome.overhead().median() - 0.01).abs() < 1e-12);
        assert!(
            outcome.table().contains("1.00 %") && outcome.table().contains("-0.50 %"),
            "{}",
            outcome.table()
        );
    }
}
