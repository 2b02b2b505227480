//! Why a server is as fast as it is, by experiment: known doses of one resource at a time are taken away.
//!
//! Each dose is measured in the order without, with, with, without, so that what drifts drifts for both.

use std::fmt::Write as _;
use std::time::Duration;

use forebay_lab::MemoryLimit;
use forebay_quantity::{bytes, number, percent};
use forebay_results::{Row, Spread, Statement, StatementKind};

use super::measure::{DEPENDENCY_ANSWERS, Given, MEMORY_USED, Run};
use super::processors::ProcessorGroup;
use super::{Experiment, Options, check_installed};
use crate::experiments::{Doses, Elasticity, Resource, Server, Trial, Verdict, binding};
use crate::harness::interrupt::Interrupt;
use crate::harness::progress::Steps;
use crate::harness::table::render;
use crate::{Error, Progress};

/// What is taken away of processors and of memory.
const TAKEN: [f64; 2] = [0.2, 0.4];
/// By what a dependency is made later.
const LATER: f64 = 0.5;
/// Without and with the dose, in this order in each round.
const ORDER: [bool; 4] = [false, true, true, false];

/// What the experiment says of all conditions.
#[derive(Debug)]
pub struct Why {
    /// What it was about.
    pub title: String,
    /// One for each combination of levels.
    pub answers: Vec<Answer>,
    /// Why not all of it was measured.
    pub stopped: Option<Error>,
}

/// What it says of one condition.
#[derive(Debug)]
pub struct Answer {
    trial: Trial,
    /// What counting says, of the first run.
    counted: Verdict,
    doses: Vec<Dose>,
    /// Doses that this machine, or this experiment, does not allow.
    refused: Vec<String>,
}

/// A dose, and what came of it.
#[derive(Debug)]
struct Dose {
    measured: Doses,
    /// Of how much, in words.
    of: String,
    trial: Trial,
    without: Given,
    with: Given,
    /// Why it is measured no more: the server ended.
    ended_by: Option<String>,
}

/// Measures each condition in so many rounds.
///
/// # Errors
/// Nothing could be measured. Where something was, the outcome has it, and what stopped the rest.
pub fn why(options: &Options, rounds: u16, progress: &mut dyn FnMut(Progress)) -> Result<Why, Error> {
    let interrupt = Interrupt::watch();
    let trials = options.description.trials();
    trials.iter().try_for_each(check_installed)?;
    let mut experiment = Experiment::new(options, &interrupt)?;
    let mut steps = Steps::new(trials.len(), progress);
    let mut answers = Vec::new();
    let mut stopped = None;
    for trial in trials {
        let answer = experiment.first_answer(trial, &mut steps).and_then(|mut answer| {
            let measured = experiment.doses(&mut answer, rounds, &mut steps);
            answers.push(answer);
            measured
        });
        stopped = answer.err();
        if stopped.is_some() {
            break;
        }
    }
    steps.end();
    match stopped {
        Some(error) if answers.is_empty() => Err(error),
        stopped => Ok(Why { title: options.description.title.clone(), answers, stopped }),
    }
}

impl Experiment<'_> {
    /// What counting says, and which doses there are.
    fn first_answer(&mut self, trial: Trial, steps: &mut Steps<'_>) -> Result<Answer, Error> {
        steps.begin(format!("{}, {} (all of everything)", trial.subject, trial.case()));
        let dependency = self.description.dependency().map(str::to_owned);
        self.given =
            Given { processors: None, dependency_later: dependency.as_ref().map(|_| Duration::ZERO) };
        let run = self.bench(&trial, |bench| bench.measure(&trial))?;
        if run.evidence.requests < 1.0 {
            let trouble = run.trouble.unwrap_or_else(|| "look at what the server says".into());
            return Err(Error::Load(format!("nothing was answered; {trouble}")));
        }
        let mut answer =
            Answer { counted: run.verdict.clone(), doses: vec![], refused: vec![], trial: trial.clone() };
        if !matches!(trial.server, Server::Command(_) | Server::Web(_) | Server::Rtsp(_)) {
            answer.refused.push("all doses: forebay did not start the server".into());
            return Ok(answer);
        }
        answer.add_processors(&run, self.given);
        answer.add_memory(&run, self.given);
        answer.add_dependency(&run, dependency, self.given);
        Ok(answer)
    }

    fn doses(&mut self, answer: &mut Answer, rounds: u16, steps: &mut Steps<'_>) -> Result<(), Error> {
        let name = format!("{}, {}", answer.trial.subject, answer.trial.case());
        for round in 1..=rounds {
            for dose in answer.doses.iter_mut().filter(|dose| dose.ended_by.is_none()) {
                let doing = format!("{name} ({}, round {round} of {rounds})", dose.name());
                self.round(dose, &answer.trial, &doing, steps)?;
            }
        }
        for dose in &answer.doses {
            let ended = dose.ended_by.as_ref();
            answer
                .refused
                .extend(ended.map(|why| format!("{}: the server does not bear it ({why})", dose.name())));
        }
        Ok(())
    }

    /// Measures a dose twice, and twice without it.
    fn round(
        &mut self,
        dose: &mut Dose,
        all: &Trial,
        doing: &str,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error> {
        let mut speeds = Vec::new();
        for with in ORDER {
            steps.add(doing);
            self.given = if with { dose.with } else { dose.without };
            let trial = if with { &dose.trial } else { all };
            match self.bench(trial, |bench| bench.measure(trial)) {
                Ok(run) => speeds.push(run.figure("transactions").unwrap_or(0.0)),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // A server with too little memory may be killed, and one with too little time may not answer.
                Err(error) if with => {
                    dose.ended_by = Some(error.to_string());
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        dose.measured.pairs.extend([(speeds[0], speeds[1]), (speeds[3], speeds[2])]);
        Ok(())
    }
}

impl Answer {
    /// Processors: what load and others leave to the server.
    fn add_processors(&mut self, run: &Run, without: Given) {
        let evidence = &run.evidence;
        if let Err(why) = ProcessorGroup::supported() {
            self.refused.push(format!("less processor time: {why}"));
            return;
        }
        let (Some(used_s), Some(machine_s)) = (evidence.processor_s, evidence.machine_processor_s) else {
            self.refused.push("less processor time: the server's is not counted".into());
            return;
        };
        let used = used_s / evidence.seconds;
        let there = (evidence.processors - (machine_s - used_s) / evidence.seconds).max(used);
        for dose in TAKEN {
            self.doses.push(Dose {
                measured: Doses { resource: Resource::Processor, dose, pairs: vec![] },
                of: format!("of {} processors, of which it used {}", number(there), number(used)),
                trial: self.trial.clone(),
                without,
                with: Given { processors: Some(there * (1.0 - dose)), ..without },
                ended_by: None,
            });
        }
    }

    /// Memory: what the server's group used, with its page cache.
    fn add_memory(&mut self, run: &Run, without: Given) {
        if let Err(error) = MemoryLimit::supported() {
            self.refused.push(format!("less memory: {error}"));
            return;
        }
        let Some(used) = run.figure(MEMORY_USED).filter(|used| *used > 0.0) else {
            self.refused.push("less memory: what the server uses is not counted".into());
            return;
        };
        for dose in TAKEN {
            let left = (used * (1.0 - dose)) as u64;
            self.doses.push(Dose {
                measured: Doses { resource: Resource::Memory, dose, pairs: vec![] },
                of: format!("of {}", bytes(used)),
                trial: Trial { memory_bytes: Some(left), ..self.trial.clone() },
                without,
                with: without,
                ended_by: None,
            });
        }
    }

    /// A dependency: the time that it takes for an answer.
    fn add_dependency(&mut self, run: &Run, dependency: Option<String>, without: Given) {
        let Some(dependency) = dependency else {
            let why = "a later dependency: the experiment has no dependency = \"HOST:PORT\" with {dependency} in its server";
            self.refused.push(why.into());
            return;
        };
        let Some(answers_s) = run.figure(DEPENDENCY_ANSWERS) else {
            self.refused.push(format!(
                "a later dependency: {dependency} was not asked; use {{dependency}} in the server"
            ));
            return;
        };
        self.doses.push(Dose {
            measured: Doses { resource: Resource::Dependency(dependency), dose: LATER, pairs: vec![] },
            of: format!("after {}", forebay_quantity::seconds(answers_s)),
            trial: self.trial.clone(),
            without,
            with: Given { dependency_later: Some(Duration::from_secs_f64(answers_s * LATER)), ..without },
            ended_by: None,
        });
    }

    fn elasticities(&self) -> Vec<(Resource, Elasticity)> {
        let each = self.doses.iter();
        each.filter_map(|dose| Some((dose.measured.resource.clone(), dose.measured.elasticity()?))).collect()
    }

    /// What binds, with what a tenth more of it would bring.
    fn conclusion(&self) -> String {
        let all = self.elasticities();
        match binding(&all) {
            Some((resource, elasticity)) => {
                let more = match resource {
                    Resource::Dependency(_) => "a tenth more speed of it",
                    _ => "a tenth more of it",
                };
                let brings = percent(elasticity.with_a_tenth_more());
                format!("{} binds: {more} would bring about {brings} more answers", named(resource))
            }
            None if all.iter().all(|(_, elasticity)| elasticity.is_free()) && !all.is_empty() => {
                "none of the doses has a part in its speed: what binds is another resource".into()
            }
            None => {
                "which resource binds is not decided: the intervals are too wide; measure more rounds".into()
            }
        }
    }
}

impl Dose {
    fn name(&self) -> String {
        let Doses { resource, dose, .. } = &self.measured;
        match resource {
            Resource::Processor => format!("processors -{}", percent(*dose)),
            Resource::Memory => format!("memory -{}", percent(*dose)),
            Resource::Dependency(name) => format!("{name} +{}", percent(*dose)),
        }
    }
}

fn named(resource: &Resource) -> String {
    match resource {
        Resource::Processor => "processor time".into(),
        Resource::Memory => "memory".into(),
        Resource::Dependency(name) => format!("dependency {name}"),
    }
}

impl Why {
    /// Elasticities, and what follows.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for answer in &self.answers {
            let rows = answer.doses.iter().filter_map(|dose| {
                let Elasticity { median, low, high, confidence } = dose.measured.elasticity()?;
                let interval = format!("{low:.2} to {high:.2} ({})", percent(confidence));
                let pairs = dose.measured.pairs.len().to_string();
                Some(vec![dose.name(), dose.of.clone(), format!("{median:.2}"), interval, pairs])
            });
            let table = render(&["dose", "of", "elasticity", "interval", "pairs"], rows);
            let _ = writeln!(text, "\n{}, {}:\n\n{table}\n", answer.trial.subject, answer.trial.case());
            let _ = writeln!(text, "By experiment: {}.", answer.conclusion());
            let _ = writeln!(text, "By counting: {}.", answer.counted.limit_in_words());
            for refused in &answer.refused {
                let _ = writeln!(text, "  - not measured: {refused}");
            }
        }
        if let Some(stopped) = &self.stopped {
            let _ = writeln!(text, "\nNot all of it was measured: {stopped}");
        }
        text.trim_end().to_owned()
    }

    /// Results by the schema: the median with the interval as its extremes.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let row = |answer: &Answer, dose: &Dose| {
            let Elasticity { median, low, high, .. } = dose.measured.elasticity()?;
            let runs = dose.measured.pairs.len() as u32;
            let spread = Spread { median, min: low, max: high, runs, values: vec![] };
            let metric = format!("elasticity/{}", dose.name());
            Some(Row::of(&answer.trial.subject, answer.trial.case(), metric, "1", spread))
        };
        let of_answer =
            |answer: &Answer| answer.doses.iter().filter_map(|dose| row(answer, dose)).collect::<Vec<_>>();
        self.answers.iter().flat_map(of_answer).collect()
    }

    /// What follows, in words.
    #[must_use]
    pub fn statements(&self) -> Vec<Statement> {
        let of_answer = |answer: &Answer| {
            let says = |kind, text: String| Statement {
                subject: answer.trial.subject.clone(),
                case: answer.trial.case(),
                kind,
                text,
            };
            let mut all = vec![
                says(StatementKind::Limit, answer.conclusion()),
                says(StatementKind::Reason, format!("by counting: {}", answer.counted.limit_in_words())),
            ];
            let refused = answer.refused.iter();
            all.extend(refused.map(|text| says(StatementKind::Undecided, text.clone())));
            all
        };
        self.answers.iter().flat_map(of_answer).collect()
    }
}
