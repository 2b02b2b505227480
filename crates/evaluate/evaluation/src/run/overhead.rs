//! The cost of Forebay where it cannot help: programs whose data is in memory, programs that only compute, and the start of
//! processes.
//!
//! Forebay runs without access profiles, and with them: then it replays the profile of the run before, and records.
//!
//! A pair takes the best of a few runs of each side, in turn, because other work on the machine only adds time. A control
//! is one more side without Forebay: it tells what difference the machine can resolve.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_results::Row;

use crate::harness::command::{Invocation, RunResult};
use crate::harness::interrupt::{Interrupt, kept};
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::harness::table::{render, yes_no};
use crate::run::dataset::{array, objects, source_tree};
use crate::run::programs::is_on_path;
use crate::{Error, Progress, scratch_folder};
use forebay_quantity::seconds;

const RUN_LIMIT: Duration = Duration::from_secs(300);

/// Runs of each side of which a pair takes the best.
const BEST_OF: usize = 3;

/// How a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Alone.
    Original,
    /// With Forebay, which neither replays nor records.
    Forebay,
    /// With Forebay as it is by default.
    Profiles,
    /// Alone once more.
    Control,
}

/// Sides.
const SIDES: usize = 4;

impl Side {
    /// In the order of turn 0; each later turn has those that follow in the order of declaration. In four turns each side
    /// runs once behind each other one (a balanced Latin square): what a run leaves to the next one is no side's alone.
    const IN_TURN: [Self; SIDES] = [Self::Original, Self::Forebay, Self::Control, Self::Profiles];
    const ALL: [Self; SIDES] = [Self::Original, Self::Forebay, Self::Profiles, Self::Control];

    /// The sides in the order of a turn.
    fn of_turn(turn: usize) -> [Self; SIDES] {
        Self::IN_TURN.map(|side| Self::ALL[(side as usize + turn) % SIDES])
    }
}

/// Python as the system has it: what is first on the path may be a script that looks for another.
const PYTHON: &str = "/usr/bin/python3";

/// What to compare, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs of runs of each program.
    pub pairs: usize,
    /// Pairs of starts of a process that does nothing.
    pub start_pairs: usize,
    /// How much the programs have to do.
    pub size: Size,
    /// The `forebay` program.
    pub forebay: PathBuf,
}

impl Options {
    /// Twenty pairs of each program and two hundred starts.
    pub fn new(forebay: PathBuf) -> Self {
        Self { pairs: 20, start_pairs: 200, size: Size::FULL, forebay }
    }
}

/// How much the programs have to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Files searched, and how often each.
    pub files: usize,
    /// Passes over the files.
    pub passes: usize,
    /// Objects linked.
    pub objects: usize,
    /// Bytes summed, whole MiB.
    pub summed_bytes: u64,
    /// Bytes of text compressed and sorted.
    pub text_bytes: usize,
    /// Turns of the interpreted loop.
    pub turns: usize,
    /// Processes that the shell loop starts.
    pub processes: usize,
}

impl Size {
    /// Around half a second a program on a machine of today: long beside the start of a process.
    pub const FULL: Self = Self {
        files: 3_000,
        passes: 10,
        objects: 562,
        summed_bytes: 200 << 20,
        text_bytes: 16 << 20,
        turns: 8_000_000,
        processes: 500,
    };
}

/// One program without and with Forebay.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name in results.
    pub name: &'static str,
    /// Elapsed seconds without, one value a pair.
    pub without_s: Series,
    /// Elapsed seconds with, but without access profiles, one value a pair.
    pub with_s: Series,
    /// Elapsed seconds with access profiles, one value a pair.
    pub profiles_s: Series,
    /// Elapsed seconds without once more, one value a pair.
    pub control_s: Series,
    /// Whether output and exit status were the same in every run.
    pub identical: bool,
}

impl Case {
    fn new(name: &'static str) -> Self {
        let [without_s, with_s, profiles_s, control_s] = [(); SIDES].map(|()| Series::default());
        Self { name, without_s, with_s, profiles_s, control_s, identical: true }
    }

    /// With over without less one, pair by pair: 0.01 is one per cent.
    pub fn overhead(&self) -> Series {
        excess(&self.with_s, &self.without_s)
    }

    /// The same with access profiles.
    pub fn overhead_of_profiles(&self) -> Series {
        excess(&self.profiles_s, &self.without_s)
    }

    /// The control over without less one, pair by pair: what differs though nothing does.
    pub fn noise(&self) -> Series {
        excess(&self.control_s, &self.without_s)
    }

    /// Seconds more with than without, pair by pair.
    pub fn extra_s(&self) -> Series {
        self.with_s.per_round_difference(&self.without_s)
    }

    /// The same with access profiles.
    pub fn extra_of_profiles_s(&self) -> Series {
        self.profiles_s.per_round_difference(&self.without_s)
    }
}

fn excess(some: &Series, base: &Series) -> Series {
    some.per_round_ratio(base).values().iter().map(|ratio| ratio - 1.0).collect()
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    /// One entry a program.
    pub cases: Vec<Case>,
    /// Programs left out, and why.
    pub skipped: Vec<String>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// Runs every pair. Nothing is left behind, however it ends.
///
/// # Errors
///
/// No place for the data, a program that fails by itself, or an interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    progress(Progress::before(0.0, "writing the data"));
    let (data, scratch) = (scratch_folder()?, scratch_folder()?);
    let (planned, skipped) = plan(options, data.path(), scratch.path(), &interrupt)?;

    let mut steps = Steps::new(planned.iter().map(|planned| planned.pairs).sum(), progress);
    let mut cases = Vec::new();
    let ended = planned.into_iter().try_for_each(|planned| {
        let mut case = Case::new(planned.name);
        let ended = compare(&planned, options, scratch.path(), &interrupt, &mut steps, &mut case);
        cases.extend(Some(case).filter(|case| !case.without_s.values().is_empty()));
        ended
    });
    steps.end(&ended);
    let stopped = kept(ended, !cases.is_empty())?;
    Ok(Outcome { cases, skipped, stopped })
}

/// Runs the pairs of one program.
fn compare(
    Planned { name, plain, pairs }: &Planned,
    options: &Options,
    scratch: &Path,
    interrupt: &Interrupt,
    steps: &mut Steps<'_>,
    case: &mut Case,
) -> Result<(), Error> {
    // The user's own profiles are neither used nor changed, and on no side is the environment another one.
    let plain = plain.clone().with_variable("XDG_STATE_HOME", scratch.join("state"));
    let forebay = |arguments: &[&str]| {
        let head = [options.forebay.as_os_str(), "run".as_ref()];
        plain.behind(head.into_iter().chain(arguments.iter().map(AsRef::as_ref)))
    };
    let (without_profiles, with_profiles) = (forebay(&["--no-profile", "--"]), forebay(&["--"]));
    let run = |side| {
        let invocation = match side {
            Side::Original | Side::Control => &plain,
            Side::Forebay => &without_profiles,
            Side::Profiles => &with_profiles,
        };
        invocation.run(scratch, RUN_LIMIT, interrupt)
    };
    // Puts programs and data into memory, settles what the result has to be, and makes a profile.
    let expected: RunResult = run(Side::Original)?.result;
    for side in [Side::Forebay, Side::Profiles] {
        case.identical &= run(side)?.result == expected;
    }
    for pair in 0..*pairs {
        steps.begin(format!("{name}: pair {} of {pairs}", pair + 1));
        let mut best = [f64::INFINITY; SIDES];
        for side in (pair..pair + BEST_OF).flat_map(Side::of_turn) {
            let ran = run(side)?;
            case.identical &= ran.result == expected;
            let best_s = &mut best[side as usize];
            *best_s = best_s.min(ran.elapsed.as_secs_f64());
        }
        let Case { without_s, with_s, profiles_s, control_s, .. } = &mut *case;
        let series = [without_s, with_s, profiles_s, control_s];
        series.into_iter().zip(best).for_each(|(series, best_s)| series.push(best_s));
    }
    Ok(())
}

struct Planned {
    name: &'static str,
    plain: Invocation,
    pairs: usize,
}

fn plan(
    options: &Options,
    data: &Path,
    scratch: &Path,
    interrupt: &Interrupt,
) -> Result<(Vec<Planned>, Vec<String>), Error> {
    let size = options.size;
    let mut planned = Vec::new();
    let mut skipped = Vec::new();
    let mut add = |name, plain, pairs| planned.push(Planned { name, plain, pairs });

    let tree = data.join("tree");
    source_tree::write(&tree, size.files).map_err(Error::file("write the source tree", &tree))?;
    let search =
        ["grep", "-r", "forebay_absent_symbol"].into_iter().chain(std::iter::repeat_n("tree", size.passes));
    add("grep warm", Invocation::new(data, search), options.pairs);

    if is_on_path("ld") && is_on_path("as") {
        let folder = data.join("objects");
        std::fs::create_dir(&folder).map_err(Error::file("create", &folder))?;
        objects::write(&folder, size.objects, interrupt)?;
        let (output, entry) = (scratch.join("linked"), objects::entry());
        let head = ["ld".as_ref(), "-o".as_ref(), output.as_os_str(), "-e".as_ref(), entry.as_ref()];
        add("ld warm", Invocation::new(&folder, objects::names(size.objects)).behind(head), options.pairs);
    } else {
        skipped.push("ld warm: ld is not installed; the package binutils brings it".to_owned());
    }

    let summed = data.join("summed");
    array::write(&summed, size.summed_bytes).map_err(Error::file("write", &summed))?;
    add("sha256sum", Invocation::new(data, ["sha256sum", "summed"]), options.pairs);

    let text = data.join("text");
    let written = File::create(&text)
        .and_then(|mut file| file.write_all(source_tree::text(size.text_bytes, 1).as_bytes()));
    written.map_err(Error::file("write", &text))?;
    add("gzip", Invocation::new(data, ["gzip", "-c", "text"]), options.pairs);
    add("sort", Invocation::new(data, ["sort", "text"]), options.pairs);

    if Path::new(PYTHON).exists() {
        let turns = format!("print(sum(turn * turn for turn in range({})))", size.turns);
        add("python3 loop", Invocation::new(data, [PYTHON, "-c", &turns]), options.pairs);
    } else {
        skipped
            .push(format!("python3 loop: {PYTHON} is not installed; the package python3-minimal brings it"));
    }

    let shell_loop = format!("i=0; while [ $i -lt {} ]; do /bin/true; i=$((i + 1)); done", size.processes);
    add("shell loop of processes", Invocation::new(data, ["/bin/sh", "-c", &shell_loop]), options.pairs);
    add("start of /bin/true", Invocation::new(data, ["/bin/true"]), options.start_pairs);
    Ok((planned, skipped))
}

impl Outcome {
    /// Rows by the result schema, the side last in the case.
    pub fn rows(&self) -> Vec<Row> {
        self.cases
            .iter()
            .flat_map(|case| {
                let row = |side: &str, metric: &str, unit: &str, series: Series| {
                    series.spread().map(|spread| Row::of(case.name, side, metric, unit, spread))
                };
                [
                    row("warm/original", "elapsed", "s", case.without_s.clone()),
                    row("warm/forebay", "elapsed", "s", case.with_s.clone()),
                    row("warm/forebay", "overhead", "1", case.overhead()),
                    row("warm/forebay", "extra", "s", case.extra_s()),
                    row("warm/profiles", "elapsed", "s", case.profiles_s.clone()),
                    row("warm/profiles", "overhead", "1", case.overhead_of_profiles()),
                    row("warm/profiles", "extra", "s", case.extra_of_profiles_s()),
                    row("warm/control", "overhead", "1", case.noise()),
                ]
            })
            .flatten()
            .collect()
    }

    /// Whether every run gave the same output and exit status.
    pub fn identical(&self) -> bool {
        self.cases.iter().all(|case| case.identical)
    }

    /// Medians, the overhead with its quartiles, the time added, and what was left out.
    pub fn table(&self) -> String {
        let header = [
            "warm",
            "without",
            "with",
            "overhead (middle half)",
            "with profiles (middle half)",
            "control (middle half)",
            "time added",
            "with profiles",
            "pairs",
            "output identical",
        ];
        let rows = self.cases.iter().map(|case| {
            let overhead = case.overhead();
            vec![
                case.name.to_owned(),
                seconds(case.without_s.median()),
                seconds(case.with_s.median()),
                with_middle_half(&overhead),
                with_middle_half(&case.overhead_of_profiles()),
                with_middle_half(&case.noise()),
                seconds(case.extra_s().median()),
                seconds(case.extra_of_profiles_s().median()),
                overhead.values().len().to_string(),
                yes_no(case.identical),
            ]
        });
        let mut parts = vec![render(&header, rows)];
        parts.extend(self.skipped.iter().map(|reason| format!("Left out: {reason}.")));
        parts.join("\n\n")
    }
}

fn with_middle_half(shares: &Series) -> String {
    let (low, high) = shares.middle_half();
    format!("{} ({} - {})", share(shares.median()), share(low), share(high))
}

fn share(value: f64) -> String {
    format!("{:+.1} %", value * 100.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn overhead_is_taken_pair_by_pair() {
        let case = Case {
            name: "case",
            without_s: [1.0, 2.0, 4.0].into_iter().collect(),
            with_s: [1.5, 3.0, 4.0].into_iter().collect(),
            profiles_s: [2.0, 3.0, 3.0].into_iter().collect(),
            control_s: [1.0, 2.5, 3.0].into_iter().collect(),
            identical: true,
        };
        assert_eq!(case.overhead().values(), [0.5, 0.5, 0.0]);
        assert_eq!(case.extra_s().values(), [0.5, 1.0, 0.0]);
        assert_eq!(case.overhead_of_profiles().values(), [1.0, 0.5, -0.25]);
        assert_eq!(case.extra_of_profiles_s().values(), [1.0, 1.0, -1.0]);
        assert_eq!(case.noise().values(), [0.0, 0.25, -0.25]);
    }

    #[test]
    fn in_four_turns_each_side_runs_at_each_place_and_once_behind_each_other_one() {
        let turns: Vec<_> = (0..SIDES).map(Side::of_turn).collect();
        for place in 0..SIDES {
            let mut at_place: Vec<usize> = turns.iter().map(|turn| turn[place] as usize).collect();
            at_place.sort_unstable();
            assert_eq!(at_place, [0, 1, 2, 3]);
        }
        let behind = turns.iter().flat_map(|turn| turn.windows(2).map(|two| (two[0] as u8, two[1] as u8)));
        assert_eq!(behind.collect::<BTreeSet<_>>().len(), SIDES * (SIDES - 1));
    }

    #[test]
    fn time_may_be_added_or_taken() {
        assert_eq!((seconds(0.001), seconds(-0.001)), ("1.00 ms".to_owned(), "-1.00 ms".to_owned()));
        assert_eq!((share(0.0123), share(-0.004)), ("+1.2 %".to_owned(), "-0.4 %".to_owned()));
    }
}
