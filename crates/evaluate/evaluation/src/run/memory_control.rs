//! The published table of what memory control does: programs that swap, with less and more memory, without speculation,
//! with it, and with speculation under memory control.
//!
//! K. Fraser and F. Chang, "Operating System I/O Speculation: How Two Invocations Are Faster Than One", USENIX 2003,
//! Table 5 and Figures 5 and 6.

mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_lab::{MemoryLimit, Profile, SlowDisk, SlowSwap, cold};

use crate::harness::command::{Invocation, Ran};
use crate::harness::guests::Guests;
use crate::harness::interrupt::Interrupt;
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::run::account::{Account, Accountant};
use crate::run::comparison::{Seen, difference};
use crate::run::counters::{Counters, take_totals};
use crate::run::rounds::{as_far_as_it_went, in_turn, rounds};
use crate::run::swapping::{Size, Swapper, SwappingProgram};
use crate::{Error, Progress, harness::metric, scratch_folder};

/// More than all programs and their copies swap out at the same time.
const SWAP_BYTES: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// How far the memory of the first and the last round is from that of a size. A program that has nearly enough is
/// another one with a little more, so one limit alone would be chance.
const SPREAD: f64 = 0.02;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk that is swapped to.
    pub profile: Profile,
    /// The programs, in the order they are run.
    pub programs: Vec<SwappingProgram>,
    /// Rounds; each runs every side at every size once.
    pub runs: usize,
    /// How much the programs have to do.
    pub size: Size,
    /// The sizes of memory, as shares of what a program takes where there is enough; `None` for those of
    /// [`shares`].
    pub shares: Option<Vec<f64>>,
    /// What a run may take; one that takes longer is told as such.
    pub run_limit: Duration,
    /// The `forebay` program.
    pub forebay: PathBuf,
}

impl Options {
    /// All programs, in five rounds, with memory from far too little to ample.
    pub fn new(profile: Profile, forebay: PathBuf) -> Self {
        Self {
            profile,
            programs: SwappingProgram::ALL.to_vec(),
            runs: 5,
            size: Size::on(profile),
            shares: None,
            run_limit: Duration::from_secs(300),
            forebay,
        }
    }
}

/// The five sizes of memory that a program gets, as shares of what it takes where there is enough.
pub fn shares(program: SwappingProgram) -> [f64; 5] {
    match program {
        // It goes over most of its memory again and again; with less it does nothing but swap.
        SwappingProgram::Sphinx => [0.55, 0.65, 0.75, 0.9, 1.3],
        _ => [0.3, 0.5, 0.7, 0.9, 1.3],
    }
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speculation {
    /// As it is.
    Off,
    /// Under `forebay run` without memory control.
    On,
    /// Under `forebay run` with memory control.
    Controlled,
}

impl Speculation {
    /// All, in the order of a round.
    pub const ALL: [Self; 3] = [Self::Off, Self::On, Self::Controlled];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Controlled => "control",
        }
    }
}

/// What was measured of a program on one side at one size of memory, one value a round.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Elapsed seconds.
    pub elapsed_s: Series,
    /// Elapsed time over that without speculation, of rounds in which both came to their end.
    pub relative: Series,
    /// Elapsed seconds without those of processor time.
    pub stall_s: Series,
    /// Page faults of the original that waited for a device.
    pub major_faults: Series,
    /// What else `forebay run` counted.
    pub counters: Counters,
    /// Runs in which the kernel killed it for want of memory.
    pub killed: usize,
    /// A time that it took longer than; it is not run again then.
    pub overran: Option<Duration>,
}

impl Cell {
    /// What became of the runs that did not come to their end; `None` where all did.
    fn unfinished(&self) -> Option<String> {
        let killed = || {
            format!("was killed for want of memory in {} of {} runs", self.killed, self.killed + self.ended())
        };
        let overran = |limit: Duration| format!("did not end within {} s", limit.as_secs());
        self.overran.map(overran).or_else(|| (self.killed > 0).then(killed))
    }

    fn ended(&self) -> usize {
        self.elapsed_s.values().len()
    }
}

/// What was measured of a program at one size of memory.
#[derive(Clone, Debug)]
pub struct AtSize {
    /// Of what the program takes where there is enough.
    pub share: f64,
    /// The limit; that of a round is a little less or more.
    pub bytes: u64,
    /// One entry a side.
    pub sides: BTreeMap<Speculation, Cell>,
}

/// What was measured of a program.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The program.
    pub program: SwappingProgram,
    /// What it takes where there is enough.
    pub max_rss_bytes: f64,
    /// From the least memory to the most.
    pub sizes: Vec<AtSize>,
    /// One sentence for each run whose output, status or file differed from the first run's.
    pub differences: Vec<String>,
    /// The most files of which some pages stayed in memory before a run.
    pub files_not_cold: usize,
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    /// The disk that was swapped to.
    pub profile: Profile,
    /// One entry a program.
    pub measured: Vec<Measured>,
    /// Why there is not all of it.
    pub stopped: Option<Error>,
}

/// Runs the programs. Nothing of it is left behind, however it ends; what was measured until something stopped it is in the
/// outcome. A difference between the sides is there too: it is not an error.
///
/// # Errors
///
/// A program or a right that is missing; or before the first round of the first program is over, a program that fails by
/// itself for another reason than too little memory, or an interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    options.programs.iter().try_for_each(|program| program.check_installed())?;
    MemoryLimit::supported()?;
    let shares_of = |program| options.shares.clone().unwrap_or_else(|| shares(program).to_vec());
    let steps_of = |&program| 1 + options.runs * shares_of(program).len() * Speculation::ALL.len();
    let mut steps = Steps::new(options.programs.iter().map(steps_of).sum(), progress);

    let scratch = scratch_folder()?;
    let guests = Guests::unpack(scratch.path())?;
    let data = SlowDisk::start(Profile::Local, 0)?;
    let _swap = SlowSwap::start(options.profile, SWAP_BYTES)?;
    let bench = Bench {
        forebay: &options.forebay,
        scratch: scratch.path(),
        accountant: Accountant::new(&guests.accounted, scratch.path()),
        run_limit: options.run_limit,
        interrupt: &interrupt,
    };
    bench.warm_forebay()?;
    let mut measured = Vec::new();
    let all = options.programs.iter().try_for_each(|&program| {
        steps.begin(format!("{program}: with memory enough"));
        let swapper = Swapper::prepare(program, options.size, data.mount_point(), &guests, &interrupt)?;
        let mut trial = Trial::start(&bench, program, swapper, &shares_of(program))?;
        let (any, all) = rounds(options.runs, |round| {
            let of_rounds = format!("{program}: round {round} of {}", options.runs);
            let sides = in_turn(&Speculation::ALL, round);
            let begin = |doing| steps.begin(format!("{of_rounds}, {doing}"));
            trial.run_round(&sides, of_round(round, options.runs), begin)
        });
        measured.extend(any.then_some(trial.measured));
        all
    });
    steps.end(&all);
    let (measured, stopped) = as_far_as_it_went(measured, all)?;
    Ok(Outcome { profile: options.profile, measured, stopped })
}

/// What all runs share.
struct Bench<'a> {
    forebay: &'a Path,
    scratch: &'a Path,
    accountant: Accountant,
    run_limit: Duration,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// Reads what `forebay run` itself takes, so that no size of memory pays for it.
    fn warm_forebay(&self) -> Result<(), Error> {
        let nothing = Invocation::new(self.scratch, ["true"]);
        let assisted = nothing.behind([
            self.forebay.as_os_str(),
            "run".as_ref(),
            "--no-profile".as_ref(),
            "--".as_ref(),
        ]);
        assisted.run(self.scratch, self.run_limit, self.interrupt).map(drop)
    }

    fn run(&self, invocation: &Invocation, group: Option<&Path>) -> Result<(Ran, Account), Error> {
        let ran =
            self.accountant.attend(invocation, group).run(self.scratch, self.run_limit, self.interrupt)?;
        Ok((ran, self.accountant.take()?))
    }
}

/// One program on a bench, with the result that all of its runs must have.
struct Trial<'a> {
    bench: &'a Bench<'a>,
    swapper: Swapper,
    first: Seen,
    measured: Measured,
}

impl<'a> Trial<'a> {
    /// Runs the program once with all the memory of the machine: that is its footprint, and its result.
    fn start(
        bench: &'a Bench<'a>,
        program: SwappingProgram,
        swapper: Swapper,
        shares: &[f64],
    ) -> Result<Self, Error> {
        swapper.output.remove()?;
        let (ran, account) = bench.run(&swapper.invocation, None)?;
        if !account.status.success() {
            return Err(failed(&swapper.invocation, &ran));
        }
        let measured = Measured {
            program,
            max_rss_bytes: account.max_rss_bytes,
            sizes: sizes(account.max_rss_bytes, shares),
            differences: Vec::new(),
            files_not_cold: 0,
        };
        let first = (ran.result, swapper.output.digest());
        Ok(Self { bench, swapper, first, measured })
    }

    /// Runs the program once on every side with that part of the memory of every size.
    fn run_round(
        &mut self,
        sides: &[Speculation],
        part: f64,
        mut begin: impl FnMut(String),
    ) -> Result<(), Error> {
        for size in 0..self.measured.sizes.len() {
            let mebibytes = self.measured.sizes[size].bytes / MIB;
            let mut elapsed_s = BTreeMap::new();
            for &side in sides {
                begin(format!("{mebibytes} MiB, speculation {}", side.name()));
                elapsed_s.insert(side, self.run(size, side, part)?);
            }
            let alone_s = elapsed_s.remove(&Speculation::Off).flatten();
            elapsed_s.into_iter().for_each(|(side, elapsed_s)| self.compare(size, side, elapsed_s, alone_s));
        }
        Ok(())
    }

    /// Runs the program once with that part of the memory of a size, and keeps what was seen. How long it took, where it
    /// came to its end.
    fn run(&mut self, size: usize, side: Speculation, part: f64) -> Result<Option<f64>, Error> {
        let at = &self.measured.sizes[size];
        if at.sides.get(&side).is_some_and(|cell| cell.overran.is_some()) {
            return Ok(None);
        }
        self.swapper.output.remove()?;
        let evicted = cold::evict(&self.swapper.data, cold::Extent::Data)?;
        let statistics = self.bench.scratch.join("statistics.json");
        let invocation = self.on_side(side, &statistics);
        // A group for each run: nothing is left of what an earlier one was charged for.
        let limit = MemoryLimit::start((at.bytes as f64 * part) as u64)?;
        let ended = self.bench.run(&invocation, Some(&limit.processes_file()));
        let killed = limit.kills()? > 0;
        drop(limit);

        let measured = &mut self.measured;
        measured.files_not_cold = measured.files_not_cold.max(evicted.resident.len());
        let at = &mut measured.sizes[size];
        let cell = at.sides.entry(side).or_default();
        let (ran, account) = match ended {
            Err(Error::TimedOut { limit, .. }) => {
                cell.overran = Some(limit);
                return Ok(None);
            }
            ended => ended?,
        };
        if account.status != self.first.0.status {
            if killed {
                cell.killed += 1;
                return Ok(None);
            }
            if side == Speculation::Off {
                return Err(failed(&invocation, &ran));
            }
        }
        cell.elapsed_s.push(account.elapsed_s);
        cell.stall_s.push(account.stall_s());
        if side == Speculation::Off {
            cell.major_faults.push(account.major_faults);
        }
        cell.keep_counters(&statistics);
        let result = (ran.result, self.swapper.output.digest());
        if !result.0.agrees_but_for_messages(&self.first.0) || result.1 != self.first.1 {
            let name = format!("{} at {} MiB", side.name(), at.bytes / MIB);
            measured.differences.push(difference(&name, &self.first, &result, &ran.stderr_end));
        }
        Ok(Some(account.elapsed_s))
    }

    fn compare(&mut self, size: usize, side: Speculation, elapsed_s: Option<f64>, alone_s: Option<f64>) {
        if let (Some(elapsed_s), Some(alone_s)) = (elapsed_s, alone_s) {
            let cell = self.measured.sizes[size].sides.entry(side).or_default();
            cell.relative.push(elapsed_s / alone_s);
        }
    }

    fn on_side(&self, side: Speculation, statistics: &Path) -> Invocation {
        let control = match side {
            Speculation::Off => return self.swapper.invocation.clone(),
            Speculation::On => "off",
            Speculation::Controlled => "on",
        };
        let run = [self.bench.forebay.as_os_str(), "run".as_ref(), "--json".as_ref(), statistics.as_os_str()];
        let options = ["--no-profile", "--memory-control", control, "--"].map(AsRef::as_ref);
        self.swapper.invocation.behind(run.into_iter().chain(options))
    }
}

impl Cell {
    /// Of the time stalled there is only what was measured in the same way on every side.
    fn keep_counters(&mut self, statistics: &Path) {
        for row in take_totals(statistics) {
            match row.metric.as_str() {
                metric::STALL_TIME => {}
                metric::MAJOR_FAULTS => self.major_faults.push(row.value),
                _ => self.counters.push(row.metric, row.unit, row.value),
            }
        }
    }
}

/// The part of a size's memory that a program has in this round.
fn of_round(round: usize, runs: usize) -> f64 {
    let last = runs.saturating_sub(1).max(1) as f64;
    let place = if runs > 1 { (round - 1) as f64 / last } else { 0.5 };
    1.0 + SPREAD * (2.0 * place - 1.0)
}

/// Whole MiB, at least one.
fn sizes(max_rss_bytes: f64, shares: &[f64]) -> Vec<AtSize> {
    let mebibytes = |share: f64| ((max_rss_bytes * share / MIB as f64).round() as u64).max(1);
    let at = |&share: &f64| AtSize { share, bytes: mebibytes(share) * MIB, sides: BTreeMap::new() };
    shares.iter().map(at).collect()
}

fn failed(invocation: &Invocation, ran: &Ran) -> Error {
    let (command, status) = (invocation.to_string(), ran.result.status.to_string());
    Error::Failed { command, status, stderr: ran.stderr_end.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shares_of_the_footprint_in_whole_mebibytes() {
        let found = sizes(64.6 * MIB as f64, &[0.3, 1.0, 1.3]);
        assert_eq!(found.iter().map(|at| at.bytes / MIB).collect::<Vec<_>>(), [19, 65, 84]);
        assert_eq!(sizes(1e5, &[0.3])[0].bytes, MIB);
    }

    #[test]
    fn rounds_have_a_little_less_and_a_little_more_than_the_size() {
        let parts = |runs| (1..=runs).map(|round| of_round(round, runs)).collect::<Vec<_>>();
        assert_eq!(parts(1), [1.0]);
        assert_eq!(parts(3), [1.0 - SPREAD, 1.0, 1.0 + SPREAD]);
        assert!(parts(5).is_sorted());
    }

    #[test]
    fn memory_goes_from_too_little_to_ample() {
        for program in SwappingProgram::ALL {
            let shares = shares(program);
            assert!(shares.is_sorted() && shares[0] < 0.6 && shares[4] > 1.0, "{program}");
        }
    }
}
