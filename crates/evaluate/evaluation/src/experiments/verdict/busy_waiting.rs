//! Processors that are filled by waiting: spin locks, sched_yield(2) in a loop, computations that others make void, polls.
//!
//! From outside that looks like work. But work costs each request the same processor time, however many clients there are. The
//! requests of a single client wait for no others, and what those take is work.

use forebay_quantity::percent;

use super::compared::{AS_MANY, Compared};
use super::processor::used_processors;
use super::{MOST, THREAD_FULL, Verdict, WAITS, has_several};
use crate::experiments::{Evidence, Limit};

/// Requests wait that take so many times the processor time of one alone, while they are answered no faster. Caches, memory and
/// cores that processors share cost less, and leave more answers.
const DEARER: f64 = 3.0;
/// Requests wait, however fast they are answered, that take so many times as much for each processor: twice as much as processors
/// that share everything.
const DEARER_FOR_EACH_PROCESSOR: f64 = 2.0;
/// Some of what they take may be waiting from here on.
const DEARER_MAYBE: f64 = 1.5;
/// Fewer answers tell nothing of what each of them takes.
const ANSWERS_MIN: f64 = 5.0;
/// Answers grow with the clients where one gets no more than so many times its share of them.
const IN_PROPORTION: f64 = 1.3;
/// Work cannot grow so, where there are so many times as many clients as processors that it used.
const CLIENTS_FOR_EACH_PROCESSOR: f64 = 2.0;
/// And where so many times the processor time goes into an answer to one client.
const DEARER_ALONE: f64 = 2.0;

impl Verdict {
    /// Whether the processor time that seems to limit may be waiting, which one client would tell.
    pub(super) fn may_wait_busily(&self, evidence: &Evidence) -> bool {
        // Where other programs leave little of the processors, less than most of them may be the limit by what was counted.
        let may_compute = matches!(self.limit, Limit::Sleep | Limit::Undecided)
            && self.asks_for.is_none()
            && evidence.threads.is_some_and(|threads| threads.processor >= (MOST * threads.busy()).max(1.0));
        let has_others = evidence.threads_at_work.is_none_or(|at_work| at_work >= 2.0)
            || evidence.threads_at_rest.processor >= MOST
            || waits_for_another(evidence, MOST).is_some();
        (self.is_of_processors() || may_compute) && has_several(evidence) && has_others
    }

    fn is_of_processors(&self) -> bool {
        matches!(self.limit, Limit::Processor | Limit::OneThread | Limit::Quota)
    }

    /// What one client tells of a server that computes with all of them.
    pub(super) fn knowing_one_client(
        mut self,
        evidence: &Evidence,
        with_one: &Evidence,
        compared: Compared,
    ) -> Self {
        let Some(costs) = Costs::of(evidence, with_one, compared) else { return self };
        self.evidence.insert(
            0,
            format!(
                "with one client it answers {} as many requests, and each takes {} of the processor time",
                percent(compared.rates),
                percent(costs.alone)
            ),
        );
        let polled = waits_for_another(with_one, THREAD_FULL).filter(|_| computing(with_one) >= THREAD_FULL);
        if costs.polls() {
            self.says_next(format!(
                "before the load it computed for {} of that already: it looks for work without a pause",
                percent(costs.at_rest_share)
            ));
        }
        if let Some(name) = polled {
            // What computes for the only request cannot wait for another server meanwhile.
            self.says_next(format!("it computes while that one waits for {name}: it asks again and again"));
            self.waits_for(Limit::Dependency, Some(name));
        } else if costs.wait_apart() {
            self.says_next("so each request has a wait of its own, and is computed for meanwhile".into());
            self.waits_for(Limit::Undecided, None);
            self.undecided.push(WAITS.to_owned());
        } else if costs.polls() && self.is_of_processors() {
            self.may_be_waiting(costs.at_rest_share, "it computed as much before the load");
        } else if costs.wait_for_each_other() {
            let sentence = "so the processors are full of requests that wait for each other without sleeping: a spin lock, \
                            sched_yield in a loop, or computations that others make void";
            self.says_next(sentence.to_owned());
            self.waits_for(Limit::Lock, Some("(busy waiting)".to_owned()));
        } else if costs.dearer() >= DEARER_MAYBE && self.is_of_processors() {
            let why = "with one client a request takes so much less; or else requests take caches or a core from each other";
            self.may_be_waiting(1.0 - costs.alone, why);
        }
        self
    }

    /// Not the processor limits, but this.
    fn waits_for(&mut self, limit: Limit, name: Option<String>) {
        (self.limit, self.name) = (limit, name);
        self.undecided.clear();
    }

    fn may_be_waiting(&mut self, share: f64, why: &str) {
        let share = percent(share);
        self.name.get_or_insert(format!("(of which {share} may be waiting)"));
        self.undecided.push(format!("whether {share} of its processor time are work or waiting: {why}"));
    }

    /// Behind the sentence that was said first.
    fn says_next(&mut self, sentence: String) {
        let place = self.evidence.len().min(1);
        self.evidence.insert(place, sentence);
    }
}

/// What requests take of the processors, with all clients and with one.
struct Costs {
    compared: Compared,
    /// Processor time of a request with one client, for each second with all.
    alone: f64,
    /// Processors that the server used.
    used: f64,
    /// Threads that computed before the load, for each one that did so under it.
    at_rest_share: f64,
    /// And those that did so with one client.
    computing_alone: f64,
    processors: f64,
}

impl Costs {
    fn of(evidence: &Evidence, with_one: &Evidence, compared: Compared) -> Option<Self> {
        let used = used_processors(evidence)?;
        let at_rest = evidence.threads_at_rest.processor.min(with_one.threads_at_rest.processor);
        let share = |threads: f64| threads / computing(evidence).max(f64::MIN_POSITIVE);
        Some(Self {
            compared,
            alone: each_s(with_one)? / each_s(evidence)?.max(f64::MIN_POSITIVE),
            used,
            at_rest_share: share(at_rest).min(1.0),
            computing_alone: share(computing(with_one)),
            processors: evidence.processors.max(2.0),
        })
    }

    fn dearer(&self) -> f64 {
        1.0 / self.alone.max(f64::MIN_POSITIVE)
    }

    /// Whether the server computes as much without anything to do.
    fn polls(&self) -> bool {
        self.at_rest_share >= MOST && self.computing_alone >= THREAD_FULL
    }

    fn wait_apart(&self) -> bool {
        let Compared { all, fewer, rates } = self.compared;
        let in_proportion = rates <= IN_PROPORTION * fewer / all;
        in_proportion && all >= CLIENTS_FOR_EACH_PROCESSOR * self.used && self.alone >= DEARER_ALONE
    }

    fn wait_for_each_other(&self) -> bool {
        (self.dearer() >= DEARER && self.compared.rates >= AS_MANY)
            || self.dearer() >= DEARER_FOR_EACH_PROCESSOR * self.processors
    }
}

/// Processor time of a request, in seconds.
fn each_s(evidence: &Evidence) -> Option<f64> {
    let answered = evidence.requests + evidence.failed;
    evidence.processor_s.filter(|_| answered >= ANSWERS_MIN).map(|all_s| all_s / answered)
}

/// Threads on a processor, or waiting for one.
fn computing(evidence: &Evidence) -> f64 {
    evidence.threads.map_or(0.0, |threads| threads.processor)
}

/// The server that so many requests wait for.
fn waits_for_another(evidence: &Evidence, requests: f64) -> Option<String> {
    evidence.late_dependencies().filter(|asked| asked.waiting >= requests).map(|asked| asked.name)
}
