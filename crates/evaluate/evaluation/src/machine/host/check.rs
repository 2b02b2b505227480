//! The same quantities by tools of the Debian archive, in turn with ours.

use forebay_quantity::number;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_probes::{Case, Probe, Setting};
use forebay_results::{Row, Spread};

use super::Outcome;
use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;

/// About how long all of it takes.
pub(super) const SECONDS: f64 = 60.0;
const ROUNDS: usize = 3;
/// Ours are so many samples a round at least.
const SAMPLES_MIN: usize = 5;
/// And are taken for so long at most.
const OURS_MAX: Duration = Duration::from_secs(2);
/// A tool that takes longer is ended.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Within this both say the same.
const SAME: f64 = 0.10;
/// Enough for all that is compared.
const BYTES_MAX: usize = 128 << 20;
/// Status of a shell that finds no such program.
const NOT_FOUND: i32 = 127;

/// A quantity by ours and by a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Which quantity.
    pub what: &'static str,
    /// The tool.
    pub tool: &'static str,
    /// Of both.
    pub unit: &'static str,
    /// A value for each round.
    pub ours: Spread,
    /// A value for each round.
    pub theirs: Spread,
    note: &'static str,
}

impl Comparison {
    /// Ours over theirs.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.ours.median / self.theirs.median
    }

    /// Whether they say the same.
    #[must_use]
    pub fn agree(&self) -> bool {
        (self.ratio() - 1.0).abs() <= SAME
    }

    pub(super) fn line(&self) -> Vec<String> {
        let shown = |value: &Spread| format!("{} {}", number(value.median), self.unit);
        vec![
            self.what.into(),
            self.tool.into(),
            shown(&self.ours),
            shown(&self.theirs),
            format!("{:.2}", self.ratio()),
        ]
    }

    /// Why they differ, where they do.
    pub(super) fn remark(&self) -> Option<String> {
        if self.agree() {
            return None;
        }
        let (what, tool) = (self.what, self.tool);
        if self.ours.min <= self.theirs.max && self.theirs.min <= self.ours.max {
            let apart = |spread: &Spread| spread.relative_range() * 100.0;
            return Some(format!(
                "{what}: the runs of both sides overlap; ours are {:.0} % apart, those of {tool} {:.0} %.",
                apart(&self.ours),
                apart(&self.theirs)
            ));
        }
        Some(format!("{what}: differs in all runs. A note on {tool}: {}.", self.note))
    }

    pub(super) fn rows(&self) -> [Row; 2] {
        [("forebay", &self.ours), (self.tool, &self.theirs)]
            .map(|(side, spread)| Row::of(self.what, side, "checked", self.unit, spread.clone()))
    }
}

/// How a tool is asked.
struct Tool {
    what: &'static str,
    name: &'static str,
    package: &'static str,
    /// The program and its arguments; `{FILE}` is a file that is made, and goes.
    command: &'static str,
    /// What it says, in our unit.
    read: fn(&str) -> Option<f64>,
    unit: &'static str,
    ours: (Probe, &'static [(&'static str, &'static str)]),
    /// Of our values, one for each of these cases.
    together: fn(&[f64]) -> f64,
    /// What its method differs in.
    note: &'static str,
}

const TOOLS: [Tool; 8] = [
    Tool {
        what: "load, 256 KiB",
        name: "sysbench memory",
        package: "sysbench",
        command: "sysbench memory --memory-oper=read --memory-block-size=256K --memory-total-size=1000T --time=1 run",
        read: sysbench_mb_s,
        unit: "MB/s",
        ours: (Probe::Memory, &[("memory load", "256 KiB/stride 8 B")]),
        together: |values| values[0],
        note: "ours adds up what it loads, with one more instruction for each, and sysbench looks at the clock for each block of 256 KiB",
    },
    Tool {
        what: "store, 256 KiB",
        name: "sysbench memory",
        package: "sysbench",
        command: "sysbench memory --memory-oper=write --memory-block-size=256K --memory-total-size=1000T --time=1 run",
        read: sysbench_mb_s,
        unit: "MB/s",
        ours: (Probe::Memory, &[("memory store", "256 KiB/stride 8 B")]),
        together: |values| values[0],
        note: "it works out what it stores, in four instructions for each store, where ours stores a constant; two loops that \
               differ in this alone were 1.9 apart on an AMD EPYC, and less where stores wait for caches",
    },
    Tool {
        what: "copy, 64 MiB to 64 MiB",
        name: "perf bench mem memcpy",
        package: "linux-perf",
        command: "perf bench -f simple mem memcpy -f default -s 64MB -l 16",
        read: |text| Some(last_line(text)? / 1e6),
        unit: "MB/s",
        ours: (Probe::Memory, &[("memory block copy", "128 MiB")]),
        together: |values| values[0],
        note: "both copy by memcpy, it with one that is linked dynamically, which alone makes no difference, and of memory that it maps \
               anew for each run",
    },
    Tool {
        what: "stream, four lines together",
        name: "stress-ng --stream",
        package: "stress-ng",
        command: "stress-ng --stream 1 --stream-l3-size 10752K --timeout 5",
        read: stress_ng_mb_s,
        unit: "MB/s",
        ours: (
            Probe::Memory,
            &[
                ("memory stream", "copy"),
                ("memory stream", "scale"),
                ("memory stream", "add"),
                ("memory stream", "triad"),
            ],
        ),
        // Two arrays, two, three and three, one line after the other. Its arrays are four times as large as what it is told of the
        // cache, and so as large as ours.
        together: |rates| 10.0 / (2.0 / rates[0] + 2.0 / rates[1] + 3.0 / rates[2] + 3.0 / rates[3]),
        note: "its lines are what another compiler made of loops, and both hang on what others leave of the last cache",
    },
    Tool {
        what: "getppid",
        name: "perf bench syscall basic",
        package: "linux-perf",
        command: "perf bench -f simple syscall basic -l 2000000",
        read: |text| Some(last_line(text)? * 1e9 / 2e6),
        unit: "ns",
        ours: (Probe::Calls, &[("system call", "getppid of the C library")]),
        together: |values| values[0],
        note: "it finds the function of the C library by a table, as it is linked dynamically, where ours is linked statically",
    },
    Tool {
        what: "round trip through pipes",
        name: "perf bench sched pipe",
        package: "linux-perf",
        command: "taskset -c {CPU} perf bench -f simple sched pipe -T -l 100000",
        read: |text| Some(last_line(text)? * 1e6 / 1e5),
        unit: "us",
        ours: (Probe::Switches, &[("pipe", "two threads on one processor")]),
        together: |values| values[0],
        note: "it passes four bytes where ours passes one, and counts how its threads begin",
    },
    Tool {
        what: "disk reads, depth 1",
        name: "fio",
        package: "fio",
        command: "fio --name=forebay --filename={FILE} --size=256M --rw=randread --bs=4k --direct=1 --ioengine=psync --numjobs=1 --group_reporting --time_based --runtime=1 --output-format=json",
        read: fio_reads_s,
        unit: "1/s",
        ours: (Probe::Disk, &[("disk", "4 KiB/depth 1")]),
        together: |values| values[0],
        note: "it reads a file of its own, which lies elsewhere on the disk",
    },
    Tool {
        what: "disk reads, depth 8",
        name: "fio",
        package: "fio",
        command: "fio --name=forebay --filename={FILE} --size=256M --rw=randread --bs=4k --direct=1 --ioengine=psync --numjobs=8 --thread --group_reporting --time_based --runtime=1 --output-format=json",
        read: fio_reads_s,
        unit: "1/s",
        ours: (Probe::Disk, &[("disk", "4 KiB/depth 8")]),
        together: |values| values[0],
        note: "it reads a file of its own, which lies elsewhere on the disk",
    },
];

/// The number behind remarks that begin with `#`.
fn last_line(text: &str) -> Option<f64> {
    text.lines().last()?.trim().parse().ok()
}

/// `(12345.67 MiB/sec)`.
fn sysbench_mb_s(text: &str) -> Option<f64> {
    let before = text.split(" MiB/sec)").next().filter(|before| before.len() < text.len())?;
    Some(before.rsplit('(').next()?.parse::<f64>().ok()? * 1.048_576)
}

/// `memory rate: 12345.67 MB read/sec, 12345.67 MB write/sec`. Its MB are of 1024 x 1024 bytes.
fn stress_ng_mb_s(text: &str) -> Option<f64> {
    let rates = text.split("memory rate: ").nth(1)?;
    let rate = |number: usize| rates.split(", ").nth(number)?.split(' ').next()?.parse::<f64>().ok();
    Some((rate(0)? + rate(1)?) * 1.048_576)
}

fn fio_reads_s(text: &str) -> Option<f64> {
    // Before the JSON there may be remarks.
    let json = text.get(text.find('{')?..)?;
    serde_json::from_str::<serde_json::Value>(json).ok()?["jobs"][0]["read"]["iops"].as_f64()
}

/// Compares what `probes` measure with each tool that there is.
pub(super) fn run(
    probes: &[Probe],
    setting: &Setting,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(f64, String),
    outcome: &mut Outcome,
) {
    let setting = Setting { quick: false, bytes_max: BYTES_MAX, ..setting.clone() };
    let tools: Vec<&Tool> = TOOLS.iter().filter(|tool| probes.contains(&tool.ours.0)).collect();
    for (number, tool) in tools.iter().enumerate() {
        if interrupt.check().is_err() {
            return;
        }
        tell(number as f64 / tools.len() as f64, format!("{} beside {}", tool.what, tool.name));
        match compare(tool, &setting, interrupt) {
            Ok(comparison) => outcome.comparisons.push(comparison),
            Err(why) => outcome.refused.push(format!("{} beside {}: {why}.", tool.what, tool.name)),
        }
    }
}

fn compare(tool: &Tool, setting: &Setting, interrupt: &Interrupt) -> Result<Comparison, String> {
    let (probe, wanted) = tool.ours;
    let mut cases = probe.cases(setting).map_err(|error| error.to_string())?;
    // The name of a disk is not known before.
    let is =
        |case: &Case, (subject, name): &(&str, &str)| case.subject.starts_with(subject) && case.case == *name;
    cases.retain(|case| wanted.iter().any(|one| is(case, one)));
    let folder = tempfile::tempdir_in(&setting.folder).map_err(|error| error.to_string())?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        theirs.push(ask(tool, folder.path(), interrupt).map_err(|error| error.to_string())?);
        let each = begun.elapsed().min(OURS_MAX) / cases.len().max(1) as u32;
        let values: Result<Vec<f64>, String> = cases.iter_mut().map(|case| mean_of(case, each)).collect();
        ours.push((tool.together)(&values?));
    }
    let spread = |values: &[f64]| Spread::of(values).expect("there is a round");
    Ok(Comparison {
        what: tool.what,
        tool: tool.name,
        unit: tool.unit,
        ours: spread(&ours),
        theirs: spread(&theirs),
        note: tool.note,
    })
}

/// Over so long a time, as what tools tell is a mean over all of theirs: a median would leave out what else the machine does.
fn mean_of(case: &mut Case, time: Duration) -> Result<f64, String> {
    let begun = Instant::now();
    let mut values = Vec::new();
    while values.len() < SAMPLES_MIN || begun.elapsed() < time {
        values.push((case.sample)().map_err(|error| error.to_string())?);
    }
    Ok(mean(&values, case.unit.ends_with("/s")))
}

/// Of samples of the same work: of rates, what all of it took counts.
fn mean(values: &[f64], rates: bool) -> f64 {
    let mean = |values: &mut dyn Iterator<Item = f64>, number: usize| values.sum::<f64>() / number as f64;
    if rates {
        1.0 / mean(&mut values.iter().map(|rate| 1.0 / rate), values.len())
    } else {
        mean(&mut values.iter().copied(), values.len())
    }
}

/// What a tool says.
fn ask(tool: &Tool, folder: &Path, interrupt: &Interrupt) -> Result<f64, Error> {
    let file = folder.join("file").display().to_string();
    let processor = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let command = tool.command.replace("{FILE}", &file).replace("{CPU}", &processor.to_string());
    let output = folder.join("output");
    // The folder is ours, and its name has nothing that a shell would take for more than a name.
    let ran = Invocation::new(folder, ["sh", "-c", &format!("exec {command} >output 2>&1")]);
    let status = ran.run(folder, TIME_MAX, interrupt)?.result.status;
    if status.code() == Some(NOT_FOUND) {
        return Err(Error::Missing { program: tool.name, package: tool.package });
    }
    let text = std::fs::read_to_string(&output).map_err(Error::file("read", &output))?;
    let value = Some(&text).filter(|_| status.success()).and_then(|text| (tool.read)(text));
    value.ok_or_else(|| Error::Failed {
        command,
        status: format!("{status} and an answer that is not understood"),
        stderr: text.split_whitespace().take(40).collect::<Vec<_>>().join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(ours: [f64; 3], theirs: [f64; 3]) -> Comparison {
        let (ours, theirs) = (Spread::of(&ours).unwrap(), Spread::of(&theirs).unwrap());
        Comparison { what: "load", tool: "sysbench", unit: "MB/s", ours, theirs, note: "it loads twice" }
    }

    #[test]
    fn what_tools_print_is_read() {
        assert_eq!(last_line("# function 'default'\n9763.5\n"), Some(9763.5));
        let sysbench = "102400.00 MiB transferred (10000.50 MiB/sec)\n";
        assert!((sysbench_mb_s(sysbench).unwrap() - 10_486.3).abs() < 0.1);
        let stress =
            "stress-ng: info:  [7] stream: memory rate: 100.00 MB read/sec, 50.00 MB write/sec, 9.00 double";
        assert!((stress_ng_mb_s(stress).unwrap() - 157.29).abs() < 0.01);
        assert_eq!(fio_reads_s("note\n{\"jobs\": [{\"read\": {\"iops\": 12.5}}]}"), Some(12.5));
        for nonsense in ["", "MiB/sec)", "{", "{}"] {
            assert_eq!(
                (sysbench_mb_s(nonsense), stress_ng_mb_s(nonsense), fio_reads_s(nonsense)),
                (None, None, None)
            );
        }
    }

    #[test]
    fn means_are_over_the_time_that_all_samples_took() {
        // A second at 100 MB/s and four at 25: 200 MB in 5 s.
        assert!((mean(&[100.0, 25.0], true) - 40.0).abs() < 1e-9);
        assert!((mean(&[100.0, 25.0], false) - 62.5).abs() < 1e-9);
    }

    #[test]
    fn a_difference_is_explained_by_the_runs_or_by_a_note_on_the_tool() {
        assert_eq!(comparison([100.0, 101.0, 99.0], [95.0, 94.0, 96.0]).remark(), None);
        let overlap = comparison([100.0, 150.0, 140.0], [99.0, 105.0, 101.0]).remark().unwrap();
        assert!(overlap.contains("overlap; ours are 36 % apart"), "{overlap}");
        let apart = comparison([100.0, 101.0, 99.0], [50.0, 51.0, 49.0]).remark().unwrap();
        assert!(apart.contains("note on sysbench: it loads twice"), "{apart}");
    }

    #[test]
    fn a_tool_that_is_missing_is_named_with_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let tool = Tool { command: "nonexistent-program --help", ..TOOLS[0] };
        let refusal = ask(&tool, folder.path(), &Interrupt::watch()).unwrap_err().to_string();
        assert_eq!(refusal, "sysbench memory is not installed; the package sysbench brings it");
    }

    #[test]
    fn sysbench_is_asked_in_turn_with_ours() {
        if std::process::Command::new("sysbench").arg("--version").output().is_err() {
            forebay_testkit::skip("sysbench_is_asked_in_turn_with_ours", "sysbench is not installed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let setting = Setting {
            quick: false,
            folder: folder.path().into(),
            bytes_max: 1 << 20,
            stream_bytes: 64 << 10,
        };
        let tool = Tool { command: "sysbench memory --memory-total-size=16M --time=1 run", ..TOOLS[0] };
        let comparison = compare(&tool, &setting, &Interrupt::watch()).unwrap();
        assert_eq!((comparison.ours.runs, comparison.theirs.runs), (3, 3));
        assert!(comparison.ratio() > 0.0 && comparison.rows()[1].case == "sysbench memory");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
