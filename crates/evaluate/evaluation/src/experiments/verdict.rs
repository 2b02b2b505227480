//! What limits a server, by the evidence.
//!
//! The base is the activity of the server's threads while requests are under way. The threads' waits name a resource; the
//! counters decide what the wait means. A disk that reads again what memory had no room for means too little memory, not a
//! slow disk. A processor that mostly waits for caches is not too slow. All decisions are ratios, so other work on the
//! machine changes them little. Where no evidence has a half of the requests, the verdict is that this is not known.

mod affinity;
mod busy_waiting;
mod compared;
mod elsewhere;
mod processor;
#[cfg(test)]
mod tests;
mod words;

use crate::experiments::{Evidence, Fewer, Finding, Generator, Limit, Threads, Timeouts};
use forebay_quantity::percent;
use processor::{in_turn, own_processor, renews_memory, used_processors};
use words::{circumstances, findings, listed, new_memory_share};

/// What limits a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Where the answers are held up.
    pub limit: Limit,
    /// What is called so, where the limit is one of several: the address of a dependency, the name of a disk.
    pub name: Option<String>,
    /// By what it was decided: figures in words, the deciding one first.
    pub evidence: Vec<String>,
    /// What is odd besides.
    pub findings: Vec<Finding>,
    /// What could not be decided, and what it would take.
    pub undecided: Vec<String>,
    /// With how few clients the server should be measured again: with half, where that tells a wait for each other from a wait of
    /// each request's own, or with one, where it tells work from waiting that fills processors.
    pub(crate) asks_for: Option<Fewer>,
}

/// A device is behind a lock where this share of the threads that do not wait for the lock wait for the device.
const HOLDERS_WAIT: f64 = 0.5;
/// And so many do, on the average.
const HOLDERS_MIN: f64 = 0.25;
/// A schedule is kept from this share of its requests on.
const KEPT_UP: f64 = 0.98;
/// A server is held up elsewhere where fewer of the threads that could be busy are, and what has this share of the requests
/// limits.
const MOST: f64 = 0.5;
/// A thread computes all the time from this share of the looks on.
const THREAD_FULL: f64 = 0.75;
/// A quota limits that ran out in this share of its periods.
const THROTTLED: f64 = 0.5;
/// Requests that have waited before a server for so many times what an answer takes are not the next to be taken.
const STARVED: f64 = 4.0;
/// A load generator is at its limit from this share of its time on.
const GENERATOR_FULL: f64 = 0.8;
/// The same, where the server has much to do as well.
const GENERATOR_FULL_TOO: f64 = 0.95;
/// A machine has no processor time left from this share on.
const MACHINE_FULL: f64 = 0.9;
/// A server has nearly nothing else to do from this share of threads on.
const SERVER_FULL: f64 = 0.6;
/// Memory was too small where this share of what came from disks had been there before.
const REFAULTED: f64 = 0.5;
/// From so many requests under way on several are, however few at times.
const SEVERAL: f64 = 1.5;
/// The first words on a wait without a cause.
const WAITS: &str = "it waits, for what is not known";
/// A wait for a time is a request's where it is no longer than this many times a request.
const TIMER_PER_REQUEST: f64 = 2.0;

impl Verdict {
    /// What `evidence` says.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Self {
        let mut verdict = Self {
            limit: Limit::Undecided,
            name: None,
            evidence: vec![],
            findings: findings(evidence),
            undecided: vec![],
            asks_for: None,
        };
        if evidence.requests < 1.0 {
            verdict.undecided.push("nothing was answered; look at what the server says".into());
            return verdict;
        }
        verdict.limit = verdict.decide(evidence);
        if verdict.may_wait_busily(evidence) {
            verdict.asks_for = Some(Fewer::One);
        }
        verdict.evidence.extend(circumstances(evidence));
        verdict
    }

    /// Whether what a page fault of new memory takes on this machine would tell more of `evidence`.
    #[must_use]
    pub(crate) fn asks_for_new_page(evidence: &Evidence) -> bool {
        words::may_touch_new_memory(evidence)
    }

    /// What limits, with its name if it has one.
    #[must_use]
    pub fn limit_with_name(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" {name}"));
        format!("{}{}", self.limit, name.unwrap_or_default())
    }

    /// The verdict in one clause.
    #[must_use]
    pub fn limit_in_words(&self) -> String {
        if self.limit != Limit::Undecided {
            return format!("{} limits", self.limit_with_name());
        }
        let waits = self.undecided.iter().any(|what| what.starts_with(WAITS));
        if waits { WAITS.to_owned() } else { "what limits is not decidable".to_owned() }
    }

    fn decide(&mut self, evidence: &Evidence) -> Limit {
        if let Some(intended) = evidence.intended.filter(|intended| evidence.requests >= KEPT_UP * intended) {
            self.says(format!("{:.0} of {intended:.0} requests were answered in time", evidence.requests));
            return Limit::Nothing;
        }
        if let Some(quota) = evidence.quota.filter(|quota| quota.share >= THROTTLED) {
            self.says(format!(
                "its control group allows it {:.2} processors, which ran out in {} of the periods",
                quota.processors,
                percent(quota.share)
            ));
            return Limit::Quota;
        }
        if let Some(limit) = self.takes_no_more(evidence) {
            return limit;
        }
        let Some(threads) = evidence.threads else {
            return self.decide_without_threads(evidence);
        };
        let in_threads = (evidence.under_way().unwrap_or(0.0) - evidence.elsewhere()).max(0.0);
        let threads = threads.beyond(evidence.threads_at_rest).behind_locks_at_most(in_threads);
        let threads = threads.asleep_at_most(asleep_for_requests(evidence));
        let threads = threads.computing_at_least(used_processors(evidence).unwrap_or(0.0));
        // Where it is not known how many requests are under way, as many as keep the processors busy.
        let could_be = evidence.under_way().unwrap_or(evidence.processors);
        // One of them does what there is to do, even where no look found any at it.
        let at_work = evidence.threads_at_work.map_or(f64::INFINITY, |threads| threads.max(1.0));
        let could_be = could_be.min(at_work).min(threads.number()).max(f64::MIN_POSITIVE);
        let generator = generator_share(evidence);
        // More threads than there are processors cannot run at a time, and no more than one of those that take turns.
        let allowed = affinity::allowed(evidence).unwrap_or(evidence.processors);
        let at_a_time = if in_turn(evidence, threads) { 1.0 } else { could_be.min(allowed) };
        let computing = own_processor(evidence, threads.processor) / at_a_time;
        let busy = (threads.busy() / could_be).max(computing).min(1.0);
        // Behind a ring of requests no thread waits for the disk.
        let at_disk = elsewhere::own_disk(evidence).map_or(0.0, |disk| disk.under_way);
        let elsewhere = evidence.elsewhere().max(at_disk);
        let waits_elsewhere = evidence.under_way().map_or(0.0, |requests| elsewhere / requests);
        if busy < MOST || waits_elsewhere > busy {
            return self.held_up_elsewhere(evidence, threads, (busy, could_be), generator);
        }
        let machine_s = evidence.machine_processor_s.unwrap_or(0.0);
        let own_s = evidence.processor_s.unwrap_or(0.0) + load_s(evidence);
        if let Some(limit) = self.holder_asks_another(evidence, threads) {
            return limit;
        }
        let (limit, share) = match most(evidence, threads) {
            _ if renews_memory(evidence, threads) >= MOST => {
                (Limit::NewMemory, renews_memory(evidence, threads))
            }
            // Whoever waits for another one then waits for its processor time.
            (Limit::Lock, share)
                if takes_more_than_load(evidence, own_s) && threads.lock >= threads.address_space =>
            {
                (Limit::Processor, share)
            }
            most => most,
        };
        let under_way = evidence.in_flight.map(|requests| format!("with {requests:.1} requests under way, "));
        self.says(format!(
            "{}{:.1} of its threads were busy: {}",
            under_way.unwrap_or_default(),
            threads.busy(),
            listed(threads)
        ));
        let full = generator.filter(|share| *share >= GENERATOR_FULL_TOO);
        match limit {
            Limit::Processor | Limit::NewMemory
                if full.is_some()
                    && threads.processor / could_be < SERVER_FULL
                    && !takes_more_than_load(evidence, machine_s) =>
            {
                self.says(format!(
                    "the load generator ran or wanted to for {}",
                    percent(full.unwrap_or_default())
                ));
                Limit::LoadGenerator
            }
            Limit::Processor => {
                let limit = self.computes(evidence, threads);
                self.is_crowded_out(evidence, limit);
                limit
            }
            Limit::NewMemory => {
                self.says(format!(
                    "page faults of new memory take {} of its processor time, {:.0} for each request",
                    percent(new_memory_share(evidence).unwrap_or(0.0)),
                    evidence.minor_faults.unwrap_or(0.0) / evidence.requests
                ));
                limit
            }
            Limit::VirtualMemory | Limit::Disk => {
                self.memory_or_disk(evidence, threads);
                limit
            }
            Limit::Lock if share >= MOST => {
                // Each of those may wait for its time, and for nobody else.
                let timed = evidence.timed_locks >= MOST * (threads.lock + threads.address_space);
                self.asks_for = (timed && has_several(evidence)).then_some(Fewer::Half);
                limit
            }
            Limit::Sleep if share >= MOST => {
                self.sleepers_are_few(evidence, threads);
                limit
            }
            _ if share < MOST => {
                self.undecided.push(format!("{limit} has the largest share, but only {}", percent(share)));
                Limit::Undecided
            }
            _ => limit,
        }
    }

    fn decide_without_threads(&mut self, evidence: &Evidence) -> Limit {
        let used = evidence.processor_s.map(|used_s| used_s / (evidence.seconds * evidence.processors));
        if evidence.in_kernel {
            return self.decide_in_kernel(evidence, used.unwrap_or(0.0));
        }
        self.undecided.push(
            "what its threads waited for: /proc/PID/task cannot be read; run forebay as root, or as its user"
                .into(),
        );
        match used {
            Some(used) if used > SERVER_FULL => self.processor_or_caches(evidence),
            _ => Limit::Undecided,
        }
    }

    fn decide_in_kernel(&mut self, evidence: &Evidence, used: f64) -> Limit {
        self.says(format!(
            "the machine's processors, which the kernel and both ends share, are used for {}",
            percent(used)
        ));
        if used >= MACHINE_FULL {
            return self.processor_or_caches(evidence);
        }
        self.undecided
            .push("what holds the packets up: the processors have time left, and the kernel does not count how long packets wait".into());
        Limit::Undecided
    }

    fn memory_or_disk(&mut self, evidence: &Evidence, threads: Threads) {
        match evidence.refault_share() {
            Some(share) => {
                self.says(format!("{} of what was read from disks had been in memory before", percent(share)))
            }
            None if threads.disk > 0.0 => {
                self.undecided
                    .push("whether memory had had what the disk brought: nobody counts refaults here".into());
            }
            None => {}
        }
    }

    /// Requests that wait until one of the threads that sleep is free.
    fn sleepers_are_few(&mut self, evidence: &Evidence, threads: Threads) {
        let few = evidence.under_way().filter(|requests| threads.asleep <= MOST * requests);
        if let Some(requests) = few {
            self.says(format!(
                "{:.1} requests wait until one of its threads is free: more threads would answer more",
                requests - threads.busy()
            ));
        }
    }

    fn says(&mut self, sentence: String) {
        self.evidence.push(sentence);
    }
}

/// Whether several requests are known to be under way at a time.
fn has_several(evidence: &Evidence) -> bool {
    evidence.in_flight.is_some_and(|requests| requests >= SEVERAL)
}

/// Whether the processors have no time left, of which the server took more than the load.
fn takes_more_than_load(evidence: &Evidence, used_s: f64) -> bool {
    let full = used_s >= MACHINE_FULL * evidence.seconds * evidence.processors;
    full && evidence.processor_s.unwrap_or(0.0) >= load_s(evidence)
}

/// The share of its time that the load generator ran, or wanted to and could not because of server or load.
fn generator_share(evidence: &Evidence) -> Option<f64> {
    let generator = evidence.generator?;
    let queued_s = generator.queued_s * own_share(evidence);
    Some(Generator { queued_s, ..generator }.share(evidence.seconds))
}

/// Whether server and load wait most of the time: then fewer clients tell what they wait for.
fn mostly_waits(evidence: &Evidence, threads: Threads) -> bool {
    let wants = evidence.generator.map_or(0.0, |generator| generator.share(evidence.seconds));
    own_processor(evidence, threads.processor) < MOST && wants < MOST
}

/// The share that server and load have of the processor time that the machine used.
fn own_share(evidence: &Evidence) -> f64 {
    let own_s = evidence.processor_s.map(|server_s| server_s + load_s(evidence));
    let of_all = own_s.zip(evidence.machine_processor_s);
    of_all.map_or(1.0, |(own_s, machine_s)| (own_s / machine_s.max(f64::MIN_POSITIVE)).min(1.0))
}

/// Threads that sleep no longer than requests take: another one sleeps for a purpose of its own.
fn asleep_for_requests(evidence: &Evidence) -> f64 {
    let known = evidence.sleeps.filter(|_| evidence.in_flight.is_some());
    known.map_or(f64::INFINITY, |sleeps| {
        sleeps.within(TIMER_PER_REQUEST * evidence.latency_s(), &Timeouts::default())
    })
}

fn load_s(evidence: &Evidence) -> f64 {
    evidence.generator.map_or(0.0, |generator| generator.processor_s)
}

/// What most of the busy threads did, and their share.
fn most(evidence: &Evidence, threads: Threads) -> (Limit, f64) {
    let refaulted = evidence.refault_share().map(|share| share >= REFAULTED);
    let refaulted = refaulted.filter(|again| !again || evidence.mostly_reads());
    // Swap is read by nobody but those that need a page back.
    let (memory, disk) = match refaulted {
        Some(true) => (threads.fault + threads.disk, 0.0),
        Some(false) if evidence.refaults < evidence.major_faults.map(|faults| faults / 4.0) => {
            (0.0, threads.fault + threads.disk)
        }
        _ => (threads.fault, threads.disk),
    };
    let shares = [
        (Limit::Processor, own_processor(evidence, threads.processor)),
        (Limit::VirtualMemory, memory),
        (Limit::Disk, disk),
        (Limit::Lock, threads.lock + threads.address_space),
        (Limit::Network, threads.send),
        (Limit::Sleep, threads.asleep),
    ];
    let largest = |shares: &[(Limit, f64)]| {
        shares.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1)).expect("some")
    };
    let (limit, most) = largest(&shares);
    // Those that wait for one that waits for a device wait for the device.
    let rest: f64 =
        shares.iter().filter(|(limit, _)| *limit != Limit::Lock).map(|(_, threads)| threads).sum();
    if limit == Limit::Lock && memory + disk >= HOLDERS_WAIT * rest && memory + disk >= HOLDERS_MIN {
        let (device, _) = largest(&shares[1..3]);
        return (device, (memory + disk + threads.lock + threads.address_space) / threads.busy());
    }
    let all: f64 = shares.iter().map(|(_, threads)| threads).sum();
    (limit, most / all.max(f64::MIN_POSITIVE))
}
