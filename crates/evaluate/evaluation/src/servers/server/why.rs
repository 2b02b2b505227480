//! Why a server is as fast as it is, by experiment: known doses of one resource at a time are taken away.
//!
//! Each dose is measured in the order without, with, with, without, so that what drifts drifts for both.

mod doses;
mod told;

use std::time::Duration;

use super::measure::Given;
use super::run::Run;
use super::{Experiment, Options, check_installed};
use crate::experiments::{Doses, Resource, Server, Speed, Trial, Verdict};
use crate::harness::interrupt::Interrupt;
use crate::harness::progress::Steps;
use crate::{Error, Progress};

/// Without and with the dose, in this order in each round.
const ORDER: [bool; 4] = [false, true, true, false];

/// What is asked besides the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Each measures every dose twice, and twice without it.
    pub rounds: u16,
    /// Doses of these alone; of all where there is none.
    pub only: Vec<Resource>,
}

/// What the experiment says of all conditions.
#[derive(Debug)]
pub struct Why {
    /// What it was about.
    pub title: String,
    /// One for each combination of levels.
    pub answers: Vec<Answer>,
    /// Why not all of it was measured.
    pub stopped: Option<Error>,
    /// Processor time of servers that ran already, in seconds.
    attached_s: f64,
}

/// What it says of one condition.
#[derive(Debug)]
pub struct Answer {
    trial: Trial,
    /// Address of the server that it asks, where that is given.
    dependency: Option<String>,
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
    /// What it is called in the table.
    name: String,
    /// What it is called in results: those of several runs name it alike.
    metric: String,
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
pub fn why(options: &Options, asked: &Asked, progress: &mut dyn FnMut(Progress)) -> Result<Why, Error> {
    let interrupt = Interrupt::watch();
    let trials = options.description.trials();
    trials.iter().try_for_each(|trial| check_installed(&options.description, trial))?;
    let mut experiment = Experiment::new(options, &interrupt)?;
    let mut steps = Steps::new(trials.len(), progress);
    let mut answers = Vec::new();
    let mut stopped = None;
    for trial in trials {
        let answer = experiment.first_answer(trial, asked, &mut steps).and_then(|mut answer| {
            let measured = experiment.rounds(&mut answer, asked.rounds, &mut steps);
            answers.push(answer);
            measured
        });
        stopped = answer.err();
        if stopped.is_some() {
            break;
        }
    }
    steps.end(&stopped.as_ref().map_or(Ok(()), Err));
    match stopped {
        Some(error) if answers.is_empty() => Err(error),
        stopped => {
            let (title, attached_s) = (options.description.title.clone(), experiment.attached_s);
            Ok(Why { title, answers, stopped, attached_s })
        }
    }
}

impl Experiment<'_> {
    /// What counting says, and which doses there are.
    fn first_answer(&mut self, trial: Trial, asked: &Asked, steps: &mut Steps<'_>) -> Result<Answer, Error> {
        steps.begin(format!("{}, {} (all of everything)", trial.subject, trial.case()));
        let dependency = self.description.dependency().map(str::to_owned);
        self.given =
            Given { dependency_later: dependency.as_ref().map(|_| Duration::ZERO), ..Given::default() };
        let run = self.bench(&trial, |bench| bench.measure(&trial))?;
        if run.evidence.requests < 1.0 {
            let trouble = run.trouble.unwrap_or_else(|| "look at what the server says".into());
            return Err(Error::Load(format!("nothing was answered; {trouble}")));
        }
        let fewer = self.with_fewer_clients(&trial, run.asks_for(), steps)?;
        let counted = run.knowing_fewer_clients(run.verdict.clone(), fewer.as_ref());
        let mut answer = Answer { counted, dependency, doses: vec![], refused: vec![], trial: trial.clone() };
        if matches!(trial.server, Server::Command(_) | Server::Web(_) | Server::Rtsp(_)) {
            self.allowed_doses(&mut answer, &run, &asked.only)?;
        } else {
            answer.refused.push("all doses: forebay did not start the server".into());
        }
        Ok(answer)
    }

    fn rounds(&mut self, answer: &mut Answer, rounds: u16, steps: &mut Steps<'_>) -> Result<(), Error> {
        let name = format!("{}, {}", answer.trial.subject, answer.trial.case());
        for round in 1..=rounds {
            for dose in answer.doses.iter_mut().filter(|dose| dose.ended_by.is_none()) {
                let doing = format!("{name} ({}, round {round} of {rounds})", dose.name);
                self.round(dose, &answer.trial, &doing, steps)?;
            }
        }
        for dose in &answer.doses {
            let ended = dose.ended_by.as_ref();
            answer
                .refused
                .extend(ended.map(|why| format!("{}: the server does not bear it ({why})", dose.name)));
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
                Ok(run) => speeds.push(speed(&run)),
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

/// How fast a run was; packets of media have no latency, and a lateness in its place.
fn speed(run: &Run) -> Speed {
    Speed {
        answers: run.figure("transactions").unwrap_or(0.0),
        p99_s: run.figure("latency_p99").or_else(|| run.figure("lateness_p99")),
    }
}
