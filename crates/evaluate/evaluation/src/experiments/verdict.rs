//! What limits a server, by the evidence.
//!
//! The base is the activity of the server's threads while requests are under way. The threads' waits name a resource; the
//! counters decide what the wait means. A disk that reads again what memory had no room for means too little memory, not a
//! slow disk. A processor that mostly waits for caches is not too slow. All decisions are ratios, so other work on the
//! machine changes them little. Where no evidence has a half of the requests, the verdict is that this is not known.

mod affinity;
mod elsewhere;
#[cfg(test)]
mod tests;
mod words;

use crate::experiments::evidence::MISSED_MIN;
use crate::experiments::{Evidence, Finding, Generator, Limit, Threads, Timeouts};
use forebay_quantity::{number, percent};
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
    /// Whether fewer clients would tell a wait for each other from a wait of each request's own.
    pub(crate) asks_for_fewer_clients: bool,
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
/// Threads compute in turn where this share of the looks finds no second one that does.
const IN_TURN: f64 = 0.85;
/// Processors have nothing to do where so much of one has, on the average.
const IDLE_PROCESSOR: f64 = 0.2;
/// Together threads compute what one thread can where they use so much less than one processor at most.
const ONE_PROCESSOR: f64 = 0.15;
/// Threads wait for no processor, and requests for nothing else, where they do for a smaller share than this.
const QUEUED: f64 = 0.25;
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
/// Caches limit where misses explain this share of the processor time.
const MISSED: f64 = 0.4;
/// Memory delivers no more from this share of its throughput on.
const MEMORY_FULL: f64 = 0.6;
/// More memory limits no more where it makes the server less faster than this.
const FASTER: f64 = 1.2;
/// The first words on a wait without a cause.
const WAITS: &str = "it waits, for what is not known";
/// A wait for a time is a request's where it is no longer than this many times a request.
const TIMER_PER_REQUEST: f64 = 2.0;
/// Half the clients get as many answers, or half as many: below and above this ratio of the rates.
const AS_MANY: f64 = 0.8;
const HALF_AS_MANY: f64 = 0.65;

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
            asks_for_fewer_clients: false,
        };
        if evidence.requests < 1.0 {
            verdict.undecided.push("nothing was answered; look at what the server says".into());
            return verdict;
        }
        verdict.limit = verdict.decide(evidence);
        verdict.evidence.extend(circumstances(evidence));
        verdict
    }

    /// What `evidence` says, where it is known what the server does with more memory under the same load: if that makes it faster,
    /// and spares it pages that were not in memory, then memory limits, whatever it is spent on that they come. What was measured
    /// so needs no estimate of what that takes, and does not believe one; nor need anybody have seen a thread wait for a page.
    #[must_use]
    pub fn knowing(evidence: &Evidence, with_more_memory: &Evidence) -> Self {
        let mut verdict = Self::of(&Evidence { page_back_s: None, ..evidence.clone() });
        let pages = Evidence::missed_per_request;
        let rate = |evidence: &Evidence| evidence.requests / evidence.seconds;
        let faster = rate(with_more_memory) / rate(evidence);
        let spared = pages(evidence) >= MISSED_MIN.max(2.0 * pages(with_more_memory));
        if evidence.requests < 1.0 || !spared {
            return verdict;
        }
        let sentence = format!(
            "with more memory it answers {faster:.1} times as many requests, and {:.1} instead of {:.1} pages for each request \
             were not in memory",
            pages(with_more_memory),
            pages(evidence)
        );
        if faster >= FASTER {
            verdict.evidence.insert(0, sentence);
            verdict.undecided.clear();
            verdict.limit = Limit::VirtualMemory;
        } else {
            verdict.evidence.push(sentence);
        }
        verdict
    }

    /// Whether what a page fault of new memory takes on this machine would tell more of `evidence`.
    #[must_use]
    pub(crate) fn asks_for_new_page(evidence: &Evidence) -> bool {
        words::may_touch_new_memory(evidence)
    }

    /// What `evidence` says, where it is known what the server does with `clients` of its clients, about half of them: as many
    /// answers mean that requests wait for each other, and half as many that each has a wait of its own.
    #[must_use]
    pub fn knowing_fewer_clients(self, evidence: &Evidence, with_fewer: &Evidence) -> Self {
        let (Some(all), Some(fewer)) = (evidence.in_flight, with_fewer.in_flight) else { return self };
        let rate = |evidence: &Evidence| evidence.requests / evidence.seconds;
        let (clients, rates) = (fewer / all, rate(with_fewer) / rate(evidence));
        if !self.asks_for_fewer_clients || !rates.is_finite() || !(0.3..=0.7).contains(&clients) {
            return self;
        }
        let mut verdict = self;
        let sentence = format!(
            "with {fewer:.1} instead of {all:.1} requests under way it answers {} as many",
            percent(rates)
        );
        verdict.evidence.insert(0, sentence);
        if rates >= AS_MANY {
            let sentence = format!(
                "so the requests wait for each other, and no more than {fewer:.1} go on at a time: a lock, a pool of what each of \
                 them needs, or a limiter of their rate"
            );
            verdict.evidence.insert(1, sentence);
            if verdict.limit != Limit::Lock && !evidence.leads.is_empty() {
                // What it asks there may be where they wait for each other.
                verdict.limit = Limit::Undecided;
                let leads = evidence.leads.join(", ");
                let sentence = format!("{WAITS}: it has {leads}, and the requests may wait there as well");
                verdict.undecided.push(sentence);
                return verdict;
            }
            if verdict.limit != Limit::Lock {
                verdict.name = Some("or pool or rate limiter".to_owned());
            }
            verdict.limit = Limit::Lock;
            verdict.undecided.clear();
        } else if rates <= HALF_AS_MANY {
            verdict.evidence.insert(1, "so each request has a wait of its own, beside the others".into());
            if verdict.limit == Limit::Lock {
                verdict.limit = Limit::Undecided;
                verdict.undecided.push(WAITS.to_owned());
            }
        } else {
            verdict.limit = Limit::Undecided;
            verdict.undecided.push("whether requests wait for each other: fewer clients do not tell".into());
        }
        verdict
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
                self.asks_for_fewer_clients =
                    timed && evidence.in_flight.is_some_and(|requests| requests >= 1.5);
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

    /// Whether it waits for processors that other programs have.
    fn is_crowded_out(&mut self, evidence: &Evidence, limit: Limit) {
        let machine_s = evidence.machine_processor_s.unwrap_or(0.0);
        let is_full = machine_s >= MACHINE_FULL * evidence.seconds * evidence.processors;
        if limit == Limit::Processor && is_full && own_share(evidence) < MOST {
            self.name = Some("(which other programs have)".to_owned());
        }
    }

    /// It computes: on all processors, on one, or in turn.
    fn computes(&mut self, evidence: &Evidence, threads: Threads) -> Limit {
        let limit = self.processor_or_caches(evidence);
        if limit == Limit::Processor && self.is_bound(evidence) {
            return limit;
        }
        let (Some(busiest), Some(idle)) = (evidence.busiest_thread, evidence.idle_processors()) else {
            return limit;
        };
        let used = used_processors(evidence).unwrap_or(0.0);
        // What one thread alone used is counted.
        let alone = evidence.threads_at_work.is_some_and(|at_work| at_work < 2.0);
        let busiest = if alone { busiest.max(used.min(1.0)) } else { busiest };
        let has_others =
            evidence.under_way().is_some_and(|requests| requests >= 1.5) && evidence.processors >= 2.0;
        if limit != Limit::Processor || !has_others || idle < IDLE_PROCESSOR || used > 1.0 + IDLE_PROCESSOR {
            return limit;
        }
        if busiest >= THREAD_FULL && busiest >= THREAD_FULL * threads.processor {
            self.evidence.insert(
                0,
                format!(
                    "one thread computed for {} of the time, while {idle:.1} processors were idle",
                    percent(busiest)
                ),
            );
            return Limit::OneThread;
        }
        if in_turn(evidence, threads) {
            // What was only counted can be a chance, which fewer clients tell.
            self.asks_for_fewer_clients = !seen_in_turn(evidence, threads);
            self.evidence.insert(
                0,
                format!(
                    "its threads compute one at a time, in turn, {used:.2} processors' worth in all, while {idle:.1} processors \
                     were idle: a lock"
                ),
            );
            return Limit::Lock;
        }
        limit
    }

    fn processor_or_caches(&mut self, evidence: &Evidence) -> Limit {
        if self.brings_back(evidence) {
            return Limit::VirtualMemory;
        }
        let Some(share) = evidence.miss_share() else {
            self.undecided.push(
                "whether caches or main memory are behind the processor's time: that takes hardware counters, or --simulate for a \
                 server that forebay starts"
                    .into(),
            );
            return Limit::Processor;
        };
        let (misses, ceilings) = (evidence.misses.expect("a share"), evidence.ceilings.expect("a share"));
        let unseen = evidence.unseen_share();
        self.says(format!(
            "cache misses explain {} of its processor time{} ({} of the first level and {} of the last for each request, {})",
            percent(share.min(1.0)),
            if unseen > 0.0 { " outside of the kernel" } else { "" },
            number(misses.first),
            number(misses.last),
            misses.tier
        ));
        if unseen >= MOST {
            self.undecided.push(format!(
                "what caches cost: the kernel takes {} of its processor time, and the simulation does not see the kernel",
                percent(unseen)
            ));
            return Limit::Processor;
        }
        if share * (1.0 - unseen) < MISSED {
            return Limit::Processor;
        }
        const LINE_BYTES: f64 = 64.0;
        let traffic = misses.last * LINE_BYTES * evidence.requests / evidence.seconds;
        let full = traffic / ceilings.memory_bytes_per_s;
        self.says(format!("which is {} of what memory can deliver", percent(full)));
        if full >= MEMORY_FULL { Limit::MainMemory } else { Limit::Cache }
    }

    /// Whether a server that has no processor time left spends so much of it on pages that memory had no room for that it would be
    /// faster by what counts as faster where memory really is more: [`FASTER`] is the only threshold, measured there, foretold here.
    fn brings_back(&mut self, evidence: &Evidence) -> bool {
        let Some(share) = evidence.back_share().filter(|_| evidence.comes_back()) else { return false };
        let again = evidence.refault_share().unwrap_or(0.0);
        let sentence = format!(
            "{:.1} pages for each request come back that memory had no room for, {} of what is read, which takes {} of its \
             processor time",
            evidence.refaults_per_request(),
            percent(again),
            percent(share)
        );
        let decisive = again >= REFAULTED && share >= 1.0 - 1.0 / FASTER;
        self.evidence.insert(if decisive { 0 } else { self.evidence.len() }, sentence);
        decisive
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

/// As many processors as the server used, on the average.
fn used_processors(evidence: &Evidence) -> Option<f64> {
    evidence.processor_s.map(|used_s| used_s / evidence.seconds)
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

/// Whether several threads compute all the time, and never two of them at once.
fn in_turn(evidence: &Evidence, threads: Threads) -> bool {
    seen_in_turn(evidence, threads) || counted_in_turn(evidence, threads)
}

/// By looks.
fn seen_in_turn(evidence: &Evidence, threads: Threads) -> bool {
    evidence.one_at_a_time.is_some_and(|share| share >= IN_TURN)
        && threads.processor >= THREAD_FULL
        && evidence.threads_at_work.is_some_and(|at_work| at_work >= 2.0)
}

/// By counts: together they use one processor, none of them waits for another one, and the requests wait for nothing else. A
/// runtime whose threads look for work hides from looks that only one of them has any.
fn counted_in_turn(evidence: &Evidence, threads: Threads) -> bool {
    let (Some(used_s), Some(waited_s), Some(idle), Some(requests)) = (
        evidence.processor_s,
        evidence.processor_wait_s,
        evidence.idle_processors(),
        evidence.under_way().filter(|requests| *requests >= 1.5),
    ) else {
        return false;
    };
    let used = used_s / evidence.seconds;
    let one_processor = (1.0 - ONE_PROCESSOR..=1.0 + IDLE_PROCESSOR).contains(&used);
    let generator = evidence.generator.map_or(0.0, |generator| generator.share(evidence.seconds));
    let wait_elsewhere = threads.busy() - threads.processor + evidence.elsewhere();
    one_processor
        && idle >= IDLE_PROCESSOR
        && waited_s <= QUEUED * used_s
        && generator < MOST
        && used_s + load_s(evidence) < MOST * requests * evidence.seconds
        && wait_elsewhere < QUEUED * requests
        && evidence.threads_at_work.is_none_or(|at_work| at_work >= 2.0)
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

/// The share of the busy threads that are at page faults of new memory, or wait for the address space meanwhile; 0 where it was not
/// measured what such a fault takes here, or where the faults take less than most of the processor time.
fn renews_memory(evidence: &Evidence, threads: Threads) -> f64 {
    // Where pages come from disks, faults are not all of new memory.
    let is_known = evidence.new_page_s.is_some() && !evidence.misses_memory();
    let measured = new_memory_share(evidence).filter(|_| is_known);
    let Some(of_processor) = measured.filter(|share| *share >= MOST) else { return 0.0 };
    let computing = own_processor(evidence, threads.processor);
    let all = threads.busy() - threads.processor + computing;
    (of_processor * computing + threads.fault + threads.address_space) / all.max(f64::MIN_POSITIVE)
}

/// Threads that run, or wait for a processor, without those that wait for one because of what else the machine does.
fn own_processor(evidence: &Evidence, on_or_for: f64) -> f64 {
    let Some(server_s) = evidence.processor_s.filter(|_| evidence.machine_processor_s.is_some()) else {
        return on_or_for;
    };
    let running = (server_s / evidence.seconds).min(on_or_for);
    // A thread waits for a processor while none is idle that it may use.
    let idle = evidence.idle_processors().filter(|_| affinity::allowed(evidence).is_none());
    let all_in_use = idle.map_or(1.0, |idle| 1.0 - idle / evidence.processors);
    running + (on_or_for - running) * own_share(evidence) * all_in_use
}
