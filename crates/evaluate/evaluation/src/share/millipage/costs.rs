//! Basic costs (Table 1): faults, protections, look-ups, messages, fetches, barriers, locks. Messages by UCX alone are
//! measured in the same rounds, so that a fetch can be seen beside the messages that it cannot do without.

use forebay_results::Row;
use forebay_share_workload::Task;

use super::{Measured, Setting, jobs::Jobs, metric};
use crate::harness::interrupt::kept;
use crate::harness::progress::Steps;
use crate::harness::table::render;
use crate::{Error, Progress};

/// Sizes of messages.
const MESSAGES_BYTES: [usize; 5] = [32, 128, 512, 1024, 4096];
/// What is measured both ways.
const TRANSPORTS: [&str; 2] = ["shm", "tcp"];

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// See there; both transports are measured.
    pub setting: Setting,
    /// Numbers of hosts; with 2, all is measured, with others what depends on it.
    pub hosts: Vec<u16>,
    /// How often each thing is done in a round.
    pub times: usize,
}

impl Options {
    /// As published, up to 8 hosts.
    pub fn new(setting: Setting) -> Self {
        Self { setting, hosts: vec![1, 2, 4, 8], times: 1_000 }
    }

    /// Less often, with few hosts.
    pub fn quick(setting: Setting) -> Self {
        Self { setting, hosts: vec![1, 2], times: 50 }
    }
}

/// What was measured, in seconds: by case, `TRANSPORT/N hosts` or `TRANSPORT/ucx`.
#[derive(Debug)]
pub struct Outcome {
    cases: Vec<(String, Measured)>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// A line of the table: what it is called, its figure and case, what was published, and which messages it waits for.
struct Line {
    what: String,
    figure: String,
    case: String,
    published_us: &'static str,
    messages: Vec<usize>,
}

/// Measures.
///
/// # Errors
///
/// The workload or UCX is not there, a process fails, or an interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let jobs = Jobs::new(&options.setting)?;
    let times = options.times;
    let per_round = TRANSPORTS.len() * (options.hosts.len() + 1);
    let mut steps = Steps::new(options.setting.runs * per_round, progress);
    let mut cases: Vec<(String, Measured)> = Vec::new();
    let mut measure = || {
        for transport in (0..options.setting.runs).flat_map(|_| TRANSPORTS) {
            let mut add = |case: String, hosts: u16, task: &Task| -> Result<(), Error> {
                steps.begin(case.clone());
                let reports = jobs.share(hosts, transport, task)?;
                let place = cases.iter().position(|(known, _)| *known == case).unwrap_or_else(|| {
                    cases.push((case, Measured::default()));
                    cases.len() - 1
                });
                // Of what several measure the slowest counts.
                let names: std::collections::BTreeSet<&String> =
                    reports.iter().flat_map(|report| report.figures.keys()).collect();
                for name in names {
                    let figures = reports.iter().filter_map(|report| report.figures.get(name));
                    cases[place].1.push(name, figures.copied().fold(0.0, f64::max));
                }
                Ok(())
            };
            let messages = Task::Messages { bytes: MESSAGES_BYTES.to_vec(), times: 20 * times };
            add(ucx(transport), 2, &messages)?;
            for &hosts in &options.hosts {
                add(case(transport, hosts), hosts, &Task::Costs { times })?;
            }
        }
        Ok(())
    };
    let ended = measure();
    steps.end(&ended);
    let stopped = kept(ended, !cases.is_empty())?;
    Ok(Outcome { cases, stopped })
}

fn case(transport: &str, hosts: u16) -> String {
    format!("{transport}/{hosts} host{}", if hosts == 1 { "" } else { "s" })
}

fn ucx(transport: &str) -> String {
    format!("{transport}/ucx")
}

impl Outcome {
    fn median_us(&self, case: &str, figure: &str) -> f64 {
        let measured = self.cases.iter().find(|(known, _)| known == case);
        measured.map_or(f64::NAN, |(_, measured)| measured.median(figure) * 1e6)
    }

    /// A figure over the messages that it waits for, one after the other, by UCX alone.
    fn of_messages(&self, transport: &str, line: &Line) -> f64 {
        let message = |bytes: &usize| self.median_us(&ucx(transport), &format!("message {bytes}"));
        let messages_us: f64 = line.messages.iter().map(message).sum();
        self.median_us(&format!("{transport}/{}", line.case), &line.figure) / messages_us
    }

    fn hosts(&self) -> Vec<u16> {
        let number = |case: &str| case.strip_prefix("shm/")?.split(' ').next()?.parse().ok();
        self.cases.iter().filter_map(|(case, _)| number(case)).collect()
    }

    fn lines(&self) -> Vec<Line> {
        let line = |what: &str, figure: &str, case: &str, published_us, messages: &[usize]| Line {
            what: what.into(),
            figure: figure.into(),
            case: case.into(),
            published_us,
            messages: messages.to_vec(),
        };
        let mut lines = vec![
            line("access fault, to its handler and back", "fault", "1 host", "26", &[]),
            line("get protection", "access", "1 host", "7", &[]),
            line("set protection: allow", "grant", "1 host", "12", &[]),
            line("set protection: forbid", "revocation", "1 host", "12", &[]),
            line("look-up of a minipage", "look-up", "1 host", "7", &[]),
        ];
        for (bytes, published_us) in [(32, "12"), (512, "22"), (1024, "34"), (4096, "90")] {
            lines.push(line(
                &format!("message of {bytes} B, UCX alone"),
                &format!("message {bytes}"),
                "ucx",
                published_us,
                &[],
            ));
        }
        for (bytes, read_us, write_us) in [(128, "204", "212-366"), (4096, "314", "327-480")] {
            let messages = [32, bytes];
            for (what, figure, published_us) in [
                ("read fetch", "read", read_us),
                ("read fetch, after a pause", "read after a pause", ""),
                ("read fetch, the other computes", "read beside computing", ""),
                ("write fetch, 1 copy", "write", write_us),
                ("write fetch, the other computes", "write beside computing", ""),
            ] {
                let (what, figure) = (format!("{what} {bytes} B"), format!("{figure} {bytes}"));
                lines.push(line(&what, &figure, "2 hosts", published_us, &messages));
            }
            lines.push(line(
                &format!("write to a copy {bytes} B"),
                &format!("upgrade {bytes}"),
                "2 hosts",
                "",
                &[32, 32],
            ));
            for hosts in self.hosts().into_iter().filter(|hosts| *hosts > 2) {
                let (what, figure) = (
                    format!("write fetch, {} copies {bytes} B", hosts - 1),
                    format!("write of copied {bytes}"),
                );
                lines.push(line(&what, &figure, &format!("{hosts} hosts"), write_us, &[32, 32, 32, bytes]));
            }
        }
        for hosts in self.hosts() {
            let needs: &[usize] = if hosts == 2 { &[32, 32] } else { &[] };
            let hosts = format!("{hosts} host{}", if hosts == 1 { "" } else { "s" });
            lines.push(line(&format!("barrier, {hosts}"), "barrier", &hosts, "59-153", needs));
        }
        lines.push(line("baton passed on by a word, 2 hosts", "baton", "2 hosts", "", &[32, 32, 32, 32]));
        lines.push(line("lock and unlock, at the manager", "lock", "2 hosts", "67-80", &[]));
        lines.push(line("lock and unlock, remote", "remote lock", "2 hosts", "67-80", &[32, 32]));
        lines
    }

    /// Our costs beside the published ones, and the ratios to the messages that they need.
    pub fn table(&self) -> String {
        let header = ["us", "1999", "shm", "tcp", "needs", "shm: times that", "tcp: times that"];
        let rows = self.lines().into_iter().map(|line| {
            let found =
                |transport: &str| us(self.median_us(&format!("{transport}/{}", line.case), &line.figure));
            let ratio = |transport| match self.of_messages(transport, &line) {
                ratio if !line.messages.is_empty() && ratio.is_finite() => format!("{ratio:.1}"),
                _ => String::new(),
            };
            let needs = match line.messages.len() {
                0 => String::new(),
                count => format!("{count} messages"),
            };
            let [shm, tcp] = TRANSPORTS.map(found);
            let [of_shm, of_tcp] = TRANSPORTS.map(ratio);
            vec![line.what, line.published_us.into(), shm, tcp, needs, of_shm, of_tcp]
        });
        [NOTE.to_owned(), render(&header, rows)].join("\n\n")
    }

    /// Rows by the result schema: cases as in [`Outcome`], all in microseconds, and ratios to messages.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (case, measured) in &self.cases {
            for (name, series) in measured.iter() {
                let us: crate::harness::statistics::Series =
                    series.values().iter().map(|seconds| seconds * 1e6).collect();
                rows.extend(us.spread().map(|spread| Row::of("millipage", case, metric(name), "us", spread)));
            }
        }
        for line in self.lines().iter().filter(|line| !line.messages.is_empty()) {
            for transport in TRANSPORTS {
                let ratio = self.of_messages(transport, line);
                if ratio.is_finite() {
                    let name = format!("{}_over_messages", metric(&line.figure));
                    rows.push(Row::once("millipage", format!("{transport}/{}", line.case), name, "1", ratio));
                }
            }
        }
        rows
    }
}

const NOTE: &str = "Medians over rounds of medians, in microseconds. Two hosts have a processor each; more share them, and wait \
                    for them. What a cost needs are the messages that follow each other in it, each by UCX alone, polling.";

fn us(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        value if value < 0.1 => format!("{value:.3}"),
        value if value < 9.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}
