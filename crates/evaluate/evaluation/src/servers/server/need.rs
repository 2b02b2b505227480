//! How much memory a server or a program needs, by experiment: its limit goes down and up again while it works.
//!
//! What is enough is counted: at a limit that is too little, pages come back again and again that memory had no room for. What
//! fewer pages cost is timed, and proved in runs that begin with the limit.

mod live;
mod report;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use forebay_lab::MemoryLimit;
use forebay_results::{Host, Spread};

use super::measure::Given;
use super::{Experiment, Options, check_installed, find_program};
use crate::experiments::{Knee, Server, Trial, knee, least};
use crate::harness::interrupt::Interrupt;
use crate::harness::progress::Steps;
use crate::{Error, Progress};
use live::{For, Live, LiveProgram, LiveServer, Window};

/// Of what is asked.
#[derive(Debug)]
pub enum NeedOf {
    /// The server of an experiment.
    Experiment(Box<Options>),
    /// A command line.
    Command(Vec<OsString>),
}

/// What to do.
#[derive(Debug)]
pub struct NeedOptions {
    /// Of what is asked.
    pub of: NeedOf,
    /// How often the limit goes down and up again.
    pub rounds: u16,
    /// Pairs of fresh runs that prove what is enough.
    pub pairs: u16,
    /// How long is counted at each limit; that of the experiment, or a second, where nothing is given.
    pub seconds: Option<f64>,
}

/// What came of it.
#[derive(Debug)]
pub struct Need {
    /// What it was about.
    pub title: String,
    /// One for each combination of levels.
    pub conditions: Vec<Condition>,
    /// Why not all of it was measured.
    pub stopped: Option<Error>,
}

impl Need {
    /// Where less memory begins to miss pages, in each condition.
    #[must_use]
    pub fn knees(&self) -> Vec<Option<Knee>> {
        self.conditions.iter().map(|condition| condition.knee).collect()
    }

    /// The limits that fresh runs prove to be enough, in bytes.
    #[must_use]
    pub fn proved(&self) -> Vec<Option<f64>> {
        let holding = |condition: &Condition| {
            condition.proof.as_ref().filter(|proof| proof.holds).map(|proof| proof.bytes)
        };
        self.conditions.iter().map(holding).collect()
    }
}

/// What a server or a program needs in one condition.
#[derive(Debug)]
pub struct Condition {
    subject: String,
    case: String,
    /// What its rate is: answers, runs, or processor time of its own.
    rate: Rate,
    levels: Vec<Level>,
    knee: Option<Knee>,
    proof: Option<Proof>,
}

/// What is counted as its speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rate {
    Answers,
    Runs,
    Computing,
}

/// What was counted at a limit.
#[derive(Clone, Debug)]
struct Level {
    bytes: f64,
    /// Or why there is none: it did not work with so little.
    window: Result<Window, String>,
    is_enough: bool,
}

/// What fresh runs say of a limit: ratios to fresh runs with all memory.
#[derive(Clone, Debug)]
struct Proof {
    bytes: f64,
    rate: Spread,
    p99: Option<Spread>,
    holds: bool,
}

/// About so many limits are tried, and so many more for each time down and up again: for progress.
const STEPS: usize = 16;
const STEPS_OF_ROUND: usize = 4;
/// Fewer pages than this in a window are chance.
const MISSED_MIN: f64 = 16.0;
/// And more is too little only beyond so many times what comes back with all memory.
const MISSED_TIMES: f64 = 2.0;
/// What pages come back after a change of the limit become fewer from window to window; where so large a share of them comes back
/// in the next one, and again in the one after that, they go on.
const GOES_ON_MISSING: f64 = 0.75;
const GOES_ON_WINDOWS: usize = 2;
/// In a window it works where its rate is this share of that with all memory.
const WORKS: f64 = 0.5;
/// So many windows in which it neither works nor misses pages are enough: other programs have the processors.
const IDLE_MAX: usize = 20;
/// By so much answers may be later, and fewer.
const BORNE: f64 = 1.1;
const RATE_BORNE: f64 = 1.0 / BORNE;
/// With all memory the group has grown to its size where it grows by less than this share in a window. One that grows evenly does
/// so after about a hundred windows, and no group is waited for longer.
const GROWN: f64 = 0.01;
const GROWING_MAX: usize = 128;
/// A program goes on that has not ended after so many windows.
const GOES_ON: f64 = 10.0;
/// Limits that are tried in fresh runs, each larger by this than the last; or by much where nothing works with it: to start may take
/// more memory than to go on.
const PROOFS_MAX: usize = 4;
const LARGER: f64 = 1.05;
const MUCH_LARGER: f64 = 1.3;
/// Fresh runs with all memory, and with the limit.
const ORDER: [bool; 4] = [false, true, true, false];

/// Measures how much memory is enough.
///
/// # Errors
/// Nothing could be measured. Where something was, the outcome has it, and what stopped the rest.
pub fn need(options: &NeedOptions, progress: &mut dyn FnMut(Progress)) -> Result<Need, Error> {
    MemoryLimit::supported()?;
    let interrupt = Interrupt::watch();
    let conditions = match &options.of {
        NeedOf::Experiment(experiment) => experiment.description.trials().len(),
        NeedOf::Command(_) => 1,
    };
    let each = STEPS + usize::from(options.rounds) * STEPS_OF_ROUND + 2 * usize::from(options.pairs);
    let mut steps = Steps::new(conditions * each, progress);
    let mut need = Need { title: String::new(), conditions: vec![], stopped: None };
    let ended = match &options.of {
        NeedOf::Experiment(experiment) => {
            of_experiment(options, experiment, &interrupt, &mut steps, &mut need)
        }
        NeedOf::Command(line) => of_command(options, line, &interrupt, &mut steps, &mut need),
    };
    steps.end(&ended);
    need.conditions.retain(|condition| !condition.levels.is_empty());
    match ended {
        Err(error) if need.conditions.is_empty() => Err(error),
        ended => Ok(Need { stopped: ended.err(), ..need }),
    }
}

fn of_experiment(
    options: &NeedOptions,
    experiment: &Options,
    interrupt: &Interrupt,
    steps: &mut Steps<'_>,
    need: &mut Need,
) -> Result<(), Error> {
    let mut experiment = experiment.clone();
    let description = &mut experiment.description;
    description.seconds = options.seconds.unwrap_or(description.seconds);
    description.warm_up = description.warm_up.min(description.seconds / 4.0);
    need.title = description.title.clone();
    let mut trials = description.trials();
    trials.iter_mut().for_each(|trial| trial.memory_bytes = None);
    trials.iter().try_for_each(|trial| check_installed(description, trial))?;
    let started =
        |trial: &Trial| matches!(trial.server, Server::Command(_) | Server::Web(_) | Server::Rtsp(_));
    if !trials.iter().all(started) {
        return Err(Error::Load("the memory of a server can be limited only where forebay starts it".into()));
    }
    let mut bench = Experiment::new(&experiment, interrupt)?;
    bench.given = Given::default();
    for trial in &trials {
        let condition = Condition::new(&trial.subject, trial.case(), Rate::Answers);
        need.conditions.push(condition);
        let condition = need.conditions.last_mut().expect("one was added");
        let first_s = Cell::new(None);
        bench.bench(trial, |bench| {
            let mut start = |bytes: f64| -> Result<Box<dyn Live + '_>, Error> {
                Ok(Box::new(LiveServer::start(bench, trial, &first_s, bytes as u64)?))
            };
            Walk::new(condition, &mut start, steps).go(options)
        })?;
    }
    Ok(())
}

fn of_command(
    options: &NeedOptions,
    line: &[OsString],
    interrupt: &Interrupt,
    steps: &mut Steps<'_>,
    need: &mut Need,
) -> Result<(), Error> {
    let program = line.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    if find_program(&program).is_none() {
        return Err(Error::NoProgram { program });
    }
    let subject = program.rsplit('/').next().unwrap_or_default().to_owned();
    need.title = line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let seconds = options.seconds.unwrap_or(1.0);
    let files = RefCell::new(BTreeSet::new());
    steps.begin(format!("{subject} (whether it ends by itself)"));
    let ends = {
        let mut first =
            LiveProgram::start(line, interrupt, (seconds, false), all_bytes() as u64, BTreeSet::new())?;
        let ends = first.ends_within(Duration::from_secs_f64(GOES_ON * seconds))?;
        files.borrow_mut().extend(first.files());
        ends
    };
    let rate = if ends { Rate::Runs } else { Rate::Computing };
    need.conditions.push(Condition::new(&subject, String::new(), rate));
    let condition = need.conditions.last_mut().expect("one was added");
    let mut start = |bytes: f64| -> Result<Box<dyn Live + '_>, Error> {
        let known = files.borrow().clone();
        Ok(Box::new(LiveProgram::start(line, interrupt, (seconds, ends), bytes as u64, known)?))
    };
    Walk::new(condition, &mut start, steps).go(options)
}

/// All memory of the machine.
fn all_bytes() -> f64 {
    Host::detect().memory_bytes.max(1 << 30) as f64
}

/// How what runs is started with a limit.
type Start<'s, 'l> = &'s mut dyn FnMut(f64) -> Result<Box<dyn Live + 'l>, Error>;

/// A way down and up the limits.
struct Walk<'w, 's, 'l, 'p> {
    condition: &'w mut Condition,
    start: Start<'s, 'l>,
    steps: &'w mut Steps<'p>,
    live: Option<Box<dyn Live + 'l>>,
    /// With all memory.
    all: Option<Window>,
    /// So many windows for counting it takes until all that is needed was touched.
    covering: usize,
}

impl<'w, 's, 'l, 'p> Walk<'w, 's, 'l, 'p> {
    fn new(condition: &'w mut Condition, start: Start<'s, 'l>, steps: &'w mut Steps<'p>) -> Self {
        Self { condition, start, steps, live: None, all: None, covering: 1 }
    }

    fn go(mut self, options: &NeedOptions) -> Result<(), Error> {
        let all = self.with_all()?;
        let found = knee(all.used_bytes, all_bytes(), options.rounds, |bytes| self.is_enough(bytes))?;
        self.condition.knee = found;
        let Some(knee) = found else { return Ok(()) };
        if all.rate <= 0.0 {
            return Ok(());
        }
        let mut candidate = least(knee.high_bytes, |bytes| self.is_borne(bytes, &all))?;
        self.live = None;
        for _ in 0..PROOFS_MAX {
            let proof = self.prove(candidate, options.pairs)?;
            let (holds, works) = (proof.holds, proof.rate.max > 0.0);
            self.condition.proof = Some(proof);
            if holds {
                break;
            }
            candidate *= if works { LARGER } else { MUCH_LARGER };
        }
        Ok(())
    }

    fn doing(&mut self, what: &str) {
        let Condition { subject, case, .. } = &*self.condition;
        let case = if case.is_empty() { String::new() } else { format!(", {case}") };
        self.steps.begin(format!("{subject}{case} ({what})"));
    }

    /// With all memory, once the group has its size.
    fn with_all(&mut self) -> Result<Window, Error> {
        self.doing("with all memory");
        let mut live = (self.start)(all_bytes())?;
        let mut used_bytes = live.window(For::Counting)?.used_bytes;
        for windows in 1..=GROWING_MAX {
            let before = used_bytes;
            used_bytes = live.window(For::Counting)?.used_bytes;
            self.covering = windows;
            if used_bytes <= before * (1.0 + GROWN) {
                break;
            }
        }
        let window = live.window(For::Timing)?;
        self.live = Some(live);
        self.all = Some(window);
        self.condition.levels.push(Level { bytes: window.used_bytes, window: Ok(window), is_enough: true });
        Ok(window)
    }

    fn is_enough(&mut self, bytes: f64) -> Result<bool, Error> {
        Ok(self.level(bytes, For::Counting)?.is_enough)
    }

    fn is_borne(&mut self, bytes: f64, all: &Window) -> Result<bool, Error> {
        Ok(self.level(bytes, For::Timing)?.window.is_ok_and(|with| is_borne(&with, all)))
    }

    /// With a limit.
    fn level(&mut self, bytes: f64, of: For) -> Result<Level, Error> {
        self.doing(&format!("with {}", forebay_quantity::bytes(bytes)));
        let measured = self.settled(bytes, of);
        let level = match measured {
            Ok((window, is_enough)) => Level { bytes, window: Ok(window), is_enough },
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // It was killed, or the kernel cannot take so much from it: the next level begins anew.
            Err(why) => {
                self.live = None;
                Level { bytes, window: Err(why.to_string()), is_enough: false }
            }
        };
        self.condition.levels.push(level.clone());
        Ok(level)
    }

    /// Windows with a limit, until pages come back no more; whether they do not.
    fn settled(&mut self, bytes: f64, of: For) -> Result<(Window, bool), Error> {
        let mut live = match self.live.take() {
            Some(live) => live,
            None => (self.start)(all_bytes())?,
        };
        live.limit(bytes as u64)?;
        let settled = until_enough(&mut *live, of, self.all.as_ref(), self.covering);
        self.live = Some(live);
        settled
    }

    /// Fresh runs with all memory and with the limit, in turn.
    fn prove(&mut self, bytes: f64, pairs: u16) -> Result<Proof, Error> {
        let (mut rates, mut p99s) = (Vec::new(), Vec::new());
        for pair in 0..pairs {
            let order = &ORDER[usize::from(pair % 2) * 2..][..2];
            let mut windows = [None; 2];
            for with in order {
                let limit = if *with { bytes } else { all_bytes() };
                let of = if *with { forebay_quantity::bytes(bytes) } else { "all memory".into() };
                self.doing(&format!("fresh, with {of}, pair {} of {pairs}", pair + 1));
                match (self.start)(limit).and_then(|mut live| {
                    until_enough(&mut *live, For::Timing, self.all.as_ref(), self.covering)
                }) {
                    Ok((window, _)) => windows[usize::from(*with)] = Some(window),
                    Err(error) if *with && !matches!(error, Error::Interrupted) => {}
                    Err(error) => return Err(error),
                }
            }
            let [Some(without), with] = windows else { continue };
            rates.push(with.map_or(0.0, |with| with.rate / without.rate));
            let later = with.and_then(|with| Some(with.p99_s? / without.p99_s?));
            p99s.extend(later);
            // Whatever the other pairs say, the median is no better.
            if 2 * rates.iter().filter(|rate| **rate < RATE_BORNE).count() > usize::from(pairs)
                || 2 * p99s.iter().filter(|p99| **p99 > BORNE).count() > usize::from(pairs)
            {
                break;
            }
        }
        let nothing = || Error::Load("no fresh run could be measured".into());
        let rate = Spread::of(&rates).ok_or_else(nothing)?;
        let p99 = Spread::of(&p99s);
        let holds = rate.median >= RATE_BORNE && p99.as_ref().is_none_or(|p99| p99.median <= BORNE);
        Ok(Proof { bytes, rate, p99, holds })
    }
}

/// Windows until pages come back no more than with all memory, for as long as all of them are touched; whether they do not. A window
/// in which little was done tells nothing: what did not work has missed nothing.
fn until_enough(
    live: &mut dyn Live,
    of: For,
    all: Option<&Window>,
    covering: usize,
) -> Result<(Window, bool), Error> {
    let (covering, idle_max) = match of {
        For::Counting => (covering, IDLE_MAX * live.counts()),
        For::Timing => (covering.div_ceil(live.counts()), IDLE_MAX),
    };
    let (mut short, mut idle, mut clean) = (0, 0, 0);
    let (mut before, mut as_many) = (f64::INFINITY, 0);
    loop {
        let window = live.window(of)?;
        let misses = !is_enough(&window, all);
        as_many = if misses && window.missed >= GOES_ON_MISSING * before { as_many + 1 } else { 0 };
        let goes_on = as_many >= GOES_ON_WINDOWS;
        before = if misses { window.missed } else { f64::INFINITY };
        // While what went at a lower limit comes back, the limit is not reached.
        let fills = window.filled * window.seconds > MISSED_MIN;
        let works = !fills && all.is_none_or(|all| window.rate >= WORKS * all.rate);
        short += usize::from(misses);
        idle += usize::from(!misses && !works);
        clean = if misses || fills { 0 } else { clean + usize::from(works) };
        if clean >= covering || goes_on || short >= live.windows_max() || idle >= idle_max {
            return Ok((window, !misses));
        }
    }
}

/// Whether no more pages come back than by chance, or than with all memory.
fn is_enough(window: &Window, all: Option<&Window>) -> bool {
    let with_all = all.map_or(0.0, |all| MISSED_TIMES * all.missed);
    window.missed * window.seconds <= MISSED_MIN.max(with_all * window.seconds)
}

/// Whether answers are as many and as soon as with all memory, or nearly.
fn is_borne(with: &Window, all: &Window) -> bool {
    let sooner = with.p99_s.zip(all.p99_s).is_none_or(|(with, all)| with <= all * BORNE);
    with.rate * BORNE >= all.rate && sooner
}

impl Condition {
    fn new(subject: &str, case: String, rate: Rate) -> Self {
        Self { subject: subject.to_owned(), case, rate, levels: vec![], knee: None, proof: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(rate: f64, p99_s: f64, missed: f64) -> Window {
        let (filled, seconds, pressure, used_bytes) = (0.0, 0.5, None, 0.0);
        Window { rate, p99_s: Some(p99_s), missed, filled, seconds, pressure, used_bytes }
    }

    #[test]
    fn a_limit_is_enough_where_no_more_comes_back_than_with_all_memory() {
        let all = window(100.0, 0.01, 50.0);
        let enough = |missed| is_enough(&window(100.0, 0.01, missed), Some(&all));
        assert_eq!((enough(99.0), enough(101.0)), (true, false));
        assert!(is_enough(&window(100.0, 0.01, 30.0), None));
        assert!(!is_enough(&window(100.0, 0.01, 33.0), None));
    }

    /// Reads a set of 1 GiB at random, a twentieth of it in a window.
    struct Filling(f64);

    impl Live for Filling {
        fn limit(&mut self, _: u64) -> Result<(), Error> {
            Ok(())
        }

        fn window(&mut self, _: For) -> Result<Window, Error> {
            self.0 += (1024.0 * 1_048_576.0 - self.0) * 0.05;
            Ok(Window { used_bytes: self.0, ..window(100.0, 0.01, 0.0) })
        }

        fn counts(&self) -> usize {
            1
        }
    }

    #[test]
    fn a_set_that_is_read_little_by_little_is_waited_for_until_it_grows_little() {
        let mut condition = Condition::new("set", String::new(), Rate::Computing);
        let mut tell = |_| ();
        let mut steps = Steps::new(1, &mut tell);
        let mut start = |_| -> Result<Box<dyn Live>, Error> { Ok(Box::new(Filling(0.0))) };
        let mut walk = Walk::new(&mut condition, &mut start, &mut steps);
        let all = walk.with_all().unwrap();
        assert!((0.8..1.0).contains(&(all.used_bytes / (1024.0 * 1_048_576.0))), "{all:?}");
        assert!((20..60).contains(&walk.covering), "{}", walk.covering);
    }

    /// Pages that come back in one window after the other, and then none; below 0 are those for which memory has room.
    struct Missing(Vec<f64>);

    impl Live for Missing {
        fn limit(&mut self, _: u64) -> Result<(), Error> {
            Ok(())
        }

        fn window(&mut self, _: For) -> Result<Window, Error> {
            let next = if self.0.is_empty() { 0.0 } else { self.0.remove(0) };
            Ok(Window { filled: (-next).max(0.0), ..window(100.0, 0.01, next.max(0.0)) })
        }

        fn counts(&self) -> usize {
            1
        }
    }

    #[test]
    fn pages_that_come_back_fewer_and_fewer_are_waited_for_and_those_that_go_on_are_not() {
        let settled = |missed: &[f64]| {
            let mut live = Missing(missed.to_vec());
            let (_, is_enough) =
                until_enough(&mut live, For::Counting, Some(&window(100.0, 0.01, 0.0)), 1).unwrap();
            (is_enough, missed.len() - live.0.len())
        };
        assert_eq!(settled(&[9_000.0, 3_000.0, 200.0]), (true, 3));
        assert_eq!(settled(&[9_000.0, 8_000.0, 8_500.0, 8_500.0]), (false, 3));
        assert_eq!(settled(&[9_000.0, 8_000.0, 3_000.0, 0.0]), (true, 4));
        assert_eq!(settled(&[9_000.0, 6_000.0, 4_000.0, 2_500.0, 0.0]), (false, 4));
        // Room is filled before it is known whether it suffices.
        assert_eq!(settled(&[-9_000.0, -900.0, 800.0, 700.0, 750.0]), (false, 5));
        assert_eq!(settled(&[-9_000.0, -900.0, 0.0]), (true, 3));
    }

    #[test]
    fn answers_may_be_a_tenth_later_and_a_tenth_fewer() {
        let all = window(110.0, 0.010, 0.0);
        assert!(is_borne(&window(101.0, 0.0109, 9e9), &all));
        assert!(!is_borne(&window(99.0, 0.010, 0.0), &all));
        assert!(!is_borne(&window(110.0, 0.012, 0.0), &all));
    }
}
