//! What limits a server, by the evidence.
//!
//! The base is the activity of the server's threads while requests are under way. The threads' waits name a resource; the
//! counters decide what the wait means. A disk that reads again what memory had no room for means too little memory, not a
//! slow disk. A processor that mostly waits for caches is not too slow. All decisions are ratios, so other work on the
//! machine changes them little.

use crate::experiments::evidence::REFAULTS_MIN;
use crate::experiments::{Evidence, Finding, Limit, Threads};
use forebay_quantity::percent;

/// What limits a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Where the answers are held up.
    pub limit: Limit,
    /// By what it was decided: figures in words, the deciding one first.
    pub evidence: Vec<String>,
    /// What is odd besides.
    pub findings: Vec<Finding>,
    /// What could not be decided, and what it would take.
    pub undecided: Vec<String>,
}

/// A device is behind a lock where this share of the threads that do not wait for the lock wait for the device.
const HOLDERS_WAIT: f64 = 0.5;
/// And so many do, on the average.
const HOLDERS_MIN: f64 = 0.25;
/// A schedule is kept from this share of its requests on.
const KEPT_UP: f64 = 0.98;
/// A server is held up elsewhere where fewer of the threads that could be busy are.
const BUSY_MIN: f64 = 0.25;
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
/// Calls are small below this.
const SMALL_CALL_BYTES: f64 = 512.0;
/// The kernel takes most of the processor time from this share on.
const SYSTEM_MOST: f64 = 0.5;

impl Verdict {
    /// What `evidence` says.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Self {
        let mut verdict = Self {
            limit: Limit::Undecided,
            evidence: vec![],
            findings: findings(evidence),
            undecided: vec![],
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
    /// and what memory has no room for comes back, then memory limits, whatever it is spent on that it does come back. What was
    /// measured so needs no estimate of what that takes, and does not believe one.
    #[must_use]
    pub fn knowing(evidence: &Evidence, with_more_memory: &Evidence) -> Self {
        let mut verdict = Self::of(&Evidence { page_back_s: None, ..evidence.clone() });
        let pages = Evidence::refaults_per_request;
        let rate = |evidence: &Evidence| evidence.requests / evidence.seconds;
        let faster = rate(with_more_memory) / rate(evidence);
        let comes_back = pages(evidence) >= REFAULTS_MIN.max(2.0 * pages(with_more_memory));
        if evidence.requests < 1.0 || !comes_back {
            return verdict;
        }
        let sentence = format!(
            "with more memory it answers {faster:.1} times as many requests, and {:.1} pages for each request come back that \
             memory had no room for",
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

    fn decide(&mut self, evidence: &Evidence) -> Limit {
        if let Some(intended) = evidence.intended.filter(|intended| evidence.requests >= KEPT_UP * intended) {
            self.says(format!("{:.0} of {intended:.0} requests were answered in time", evidence.requests));
            return Limit::Nothing;
        }
        let Some(threads) = evidence.threads else {
            return self.decide_without_threads(evidence);
        };
        let threads =
            threads.beyond(evidence.threads_at_rest).behind_locks_at_most(evidence.in_flight.unwrap_or(0.0));
        // Where nobody knows how many requests are under way, as many as keep the processors busy.
        let could_be = evidence.in_flight.unwrap_or(evidence.processors).min(threads.number());
        let could_be = could_be.max(f64::MIN_POSITIVE);
        let generator = evidence.generator.map(|generator| generator.share(evidence.seconds));
        let busy = threads.busy() / could_be;
        if busy < BUSY_MIN {
            return self.held_up_elsewhere(evidence, busy, generator);
        }
        let machine_s = evidence.machine_processor_s.unwrap_or(0.0);
        let own_s = evidence.processor_s.unwrap_or(0.0) + load_s(evidence);
        let (limit, share) = match most(evidence, threads) {
            // Whoever waits for another one then waits for its processor time.
            (Limit::Lock, share) if takes_more_than_load(evidence, own_s) => (Limit::Processor, share),
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
            Limit::Processor
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
            Limit::Processor => self.processor_or_caches(evidence),
            Limit::VirtualMemory | Limit::Disk => {
                self.memory_or_disk(evidence, threads);
                limit
            }
            _ => {
                if share < 0.5 {
                    self.undecided
                        .push(format!("{limit} has the largest share, but only {}", percent(share)));
                }
                limit
            }
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
            Some(used) if used > 1.0 - BUSY_MIN => self.processor_or_caches(evidence),
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
            .push("what holds the packets up: the processors have time left, and nobody counts how long packets wait".into());
        Limit::Undecided
    }

    fn held_up_elsewhere(&mut self, evidence: &Evidence, busy: f64, generator: Option<f64>) -> Limit {
        let under_way =
            evidence.in_flight.map(|requests| format!("{requests:.1} requests were under way, but "));
        self.says(format!(
            "{}those of its threads that could be busy were idle for {}",
            under_way.unwrap_or_default(),
            percent(1.0 - busy)
        ));
        let machine_s = evidence.machine_processor_s.unwrap_or(0.0);
        match generator {
            Some(share) if share >= GENERATOR_FULL && takes_more_than_load(evidence, machine_s) => {
                self.says(
                    "the server and the load together had all of the machine's processors, the server more"
                        .into(),
                );
                self.processor_or_caches(evidence)
            }
            Some(share) if share >= GENERATOR_FULL => {
                self.says(format!("the load generator ran or wanted to for {}", percent(share)));
                Limit::LoadGenerator
            }
            Some(share) if evidence.in_flight.is_some() => {
                self.says(format!("the load generator ran or wanted to for {} only", percent(share)));
                Limit::Network
            }
            Some(_) => {
                self.undecided
                    .push("whether the server's own pace or the network holds it up: both look idle".into());
                Limit::Undecided
            }
            None => {
                self.undecided
                    .push("whether the network or the load holds it up: the load is not forebay's".into());
                Limit::Undecided
            }
        }
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
        self.says(format!(
            "cache misses explain {} of its processor time ({:.0} of the first level and {:.0} of the last for each request, {})",
            percent(share.min(1.0)),
            misses.first,
            misses.last,
            misses.tier
        ));
        if share < MISSED {
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

    fn says(&mut self, sentence: String) {
        self.evidence.push(sentence);
    }
}

/// Whether the processors have no time left, of which the server took more than the load.
fn takes_more_than_load(evidence: &Evidence, used_s: f64) -> bool {
    let full = used_s >= MACHINE_FULL * evidence.seconds * evidence.processors;
    full && evidence.processor_s.unwrap_or(0.0) >= load_s(evidence)
}

fn load_s(evidence: &Evidence) -> f64 {
    evidence.generator.map_or(0.0, |generator| generator.processor_s)
}

/// What most of the busy threads did, and their share.
fn most(evidence: &Evidence, threads: Threads) -> (Limit, f64) {
    let refaulted = evidence.refault_share().map(|share| share >= REFAULTED);
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
        (Limit::Lock, threads.lock),
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
        return (device, (memory + disk + threads.lock) / threads.busy());
    }
    (limit, most / threads.busy())
}

/// Threads that run, or wait for a processor, without those that wait for one because of what else the machine does.
fn own_processor(evidence: &Evidence, on_or_for: f64) -> f64 {
    let (Some(server_s), Some(machine_s)) = (evidence.processor_s, evidence.machine_processor_s) else {
        return on_or_for;
    };
    let running = (server_s / evidence.seconds).min(on_or_for);
    let own = ((server_s + load_s(evidence)) / machine_s.max(f64::MIN_POSITIVE)).min(1.0);
    running + (on_or_for - running) * own
}

fn listed(threads: Threads) -> String {
    let named = [
        (threads.processor, "on or for a processor"),
        (threads.fault, "for pages"),
        (threads.disk, "for files"),
        (threads.lock, "for each other"),
        (threads.send, "to send"),
        (threads.asleep, "asleep"),
    ];
    let told = named.iter().filter(|(threads, _)| *threads >= 0.05);
    told.map(|(threads, what)| format!("{threads:.1} {what}")).collect::<Vec<_>>().join(", ")
}

fn findings(evidence: &Evidence) -> Vec<Finding> {
    let growth = evidence.growth_per_request().map(|bytes_per_request| Finding::Growth { bytes_per_request });
    let bytes_per_call = evidence.call_bytes.zip(evidence.calls).map(|(bytes, calls)| bytes / calls);
    let system = evidence.system_s.zip(evidence.processor_s).map(|(system, all)| system / all);
    let small = bytes_per_call
        .filter(|bytes| *bytes < SMALL_CALL_BYTES && system.is_some_and(|share| share >= SYSTEM_MOST))
        .map(|bytes_per_call| Finding::SmallCalls { bytes_per_call });
    growth.into_iter().chain(small).collect()
}

/// What belongs to every verdict.
fn circumstances(evidence: &Evidence) -> Vec<String> {
    let all_s = evidence.seconds * evidence.processors;
    let mut told = Vec::new();
    if let Some(used_s) = evidence.processor_s.filter(|_| !evidence.in_kernel) {
        let others = evidence.machine_processor_s.map(|machine_s| {
            let generator_s = load_s(evidence);
            let rest = (machine_s - used_s - generator_s).max(0.0);
            format!(", the load {}, others {}", percent(generator_s / all_s), percent(rest / all_s))
        });
        told.push(format!(
            "of the machine's processors the server used {}{}",
            percent(used_s / all_s),
            others.unwrap_or_default()
        ));
    }
    if let Some(pressure_s) =
        evidence.memory_pressure_s.filter(|pressure_s| *pressure_s > 0.01 * evidence.seconds)
    {
        told.push(format!(
            "tasks waited for memory for {} of the time",
            percent(pressure_s / evidence.seconds)
        ));
    }
    told
}

#[cfg(test)]
mod tests {
    use forebay_results::Tier;

    use super::*;
    use crate::experiments::{Ceilings, Generator, Misses};

    /// Eight clients, ten seconds, two processors; the rest is what the server's threads do.
    fn evidence(threads: Threads) -> Evidence {
        Evidence {
            seconds: 10.0,
            processors: 2.0,
            requests: 10_000.0,
            bytes: 1e8,
            in_flight: Some(8.0),
            generator: Some(Generator { threads: 1.0, processor_s: 2.0, queued_s: 0.0 }),
            threads: Some(threads),
            processor_s: Some(10.0),
            system_s: Some(1.0),
            major_faults: Some(0.0),
            ..Evidence::default()
        }
    }

    fn limit(threads: Threads) -> Limit {
        Verdict::of(&evidence(threads)).limit
    }

    const NONE: Threads =
        Threads { processor: 0.0, fault: 0.0, disk: 0.0, lock: 0.0, send: 0.0, asleep: 0.0, idle: 8.0 };

    #[test]
    fn what_most_threads_wait_for_is_the_limit() {
        assert_eq!(limit(Threads { processor: 4.0, ..NONE }), Limit::Processor);
        assert_eq!(limit(Threads { fault: 6.0, processor: 1.0, ..NONE }), Limit::VirtualMemory);
        assert_eq!(limit(Threads { disk: 6.0, processor: 1.0, ..NONE }), Limit::Disk);
        assert_eq!(limit(Threads { lock: 7.0, asleep: 1.0, ..NONE }), Limit::Lock);
        assert_eq!(limit(Threads { send: 6.0, ..NONE }), Limit::Network);
        assert_eq!(limit(Threads { asleep: 6.0, ..NONE }), Limit::Sleep);
    }

    #[test]
    fn an_idle_server_with_requests_under_way_is_held_up_elsewhere() {
        let idle = evidence(Threads { processor: 0.2, ..NONE });
        assert_eq!(Verdict::of(&idle).limit, Limit::Network);
        let busy = Some(Generator { threads: 1.0, processor_s: 6.0, queued_s: 3.0 });
        assert_eq!(Verdict::of(&Evidence { generator: busy, ..idle.clone() }).limit, Limit::LoadGenerator);
        let full = Evidence { generator: busy, machine_processor_s: Some(19.0), ..idle.clone() };
        assert_eq!(Verdict::of(&full).limit, Limit::Processor);
        let verdict = Verdict::of(&Evidence { generator: None, ..idle });
        assert_eq!((verdict.limit, verdict.undecided.len()), (Limit::Undecided, 1));
    }

    #[test]
    fn threads_of_a_pool_that_wait_for_work_wait_for_no_lock() {
        let threads = Threads { lock: 48.0, processor: 2.0, ..NONE };
        let threads_at_rest = Threads { lock: 50.0, ..NONE };
        let evidence = Evidence { threads_at_rest, ..evidence(threads) };
        assert_eq!(Verdict::of(&evidence).limit, Limit::Processor);
    }

    #[test]
    fn threads_that_share_processors_without_time_left_wait_for_them_first() {
        let threads = Threads { lock: 5.0, processor: 2.0, ..NONE };
        assert_eq!(limit(threads), Limit::Lock);
        let full = Evidence { processor_s: Some(17.0), ..evidence(threads) };
        assert_eq!(Verdict::of(&full).limit, Limit::Processor);
    }

    #[test]
    fn a_disk_that_brings_back_what_memory_had_is_too_little_memory() {
        let waiting = evidence(Threads { disk: 6.0, ..NONE });
        let again = Evidence { refaults: Some(900.0), disk_read_bytes: Some(4_096_000.0), ..waiting.clone() };
        assert_eq!(Verdict::of(&again).limit, Limit::VirtualMemory);
        let first = Evidence { refaults: Some(100.0), disk_read_bytes: Some(4_096_000.0), ..waiting };
        assert_eq!(Verdict::of(&first).limit, Limit::Disk);
    }

    #[test]
    fn no_more_threads_wait_for_a_lock_than_requests_are_under_way() {
        let many = evidence(Threads { lock: 28.0, processor: 0.1, ..NONE });
        assert_eq!(Verdict::of(&many).limit, Limit::Lock);
        // Of streams nobody knows: what looks like a lock may be a wait for the next frame.
        assert_eq!(Verdict::of(&Evidence { in_flight: None, ..many }).limit, Limit::Undecided);
    }

    #[test]
    fn those_that_wait_for_one_that_waits_for_memory_wait_for_memory() {
        assert_eq!(limit(Threads { lock: 7.0, fault: 0.9, processor: 0.1, ..NONE }), Limit::VirtualMemory);
        assert_eq!(limit(Threads { lock: 7.0, disk: 0.9, processor: 0.1, ..NONE }), Limit::Disk);
        assert_eq!(limit(Threads { lock: 7.0, processor: 0.9, disk: 0.1, ..NONE }), Limit::Lock);
    }

    #[test]
    fn what_else_the_machine_does_is_no_limit_of_the_server() {
        let queued = evidence(Threads { fault: 3.0, processor: 4.0, ..NONE });
        assert_eq!(Verdict::of(&queued).limit, Limit::Processor);
        let others = Evidence { processor_s: Some(1.0), machine_processor_s: Some(20.0), ..queued };
        assert_eq!(Verdict::of(&others).limit, Limit::VirtualMemory);
    }

    #[test]
    fn more_memory_that_makes_it_faster_shows_that_memory_limits() {
        let computing = evidence(Threads { processor: 4.0, ..NONE });
        let short = Evidence { refaults: Some(20_000.0), requests: 5_000.0, ..computing.clone() };
        let with_more = Verdict::knowing(&short, &computing);
        assert_eq!(with_more.limit, Limit::VirtualMemory, "{with_more:?}");
        let hardly_faster = Evidence { requests: 5_500.0, ..computing.clone() };
        assert_eq!(Verdict::knowing(&short, &hardly_faster).limit, Limit::Processor);
        // What does not come back has nothing to do with memory.
        let never_back = Evidence { refaults: Some(10.0), ..short };
        assert_eq!(Verdict::knowing(&never_back, &computing).limit, Limit::Processor);
        // Nobody is any number of times as fast as one that answers nothing.
        let nothing = Evidence { requests: 0.0, ..never_back };
        assert_eq!(Verdict::knowing(&nothing, &computing).limit, Limit::Undecided);
    }

    #[test]
    fn an_estimate_is_not_believed_where_the_difference_was_measured() {
        // By the estimate bringing pages back takes all of the processor time.
        let computing = evidence(Threads { processor: 4.0, ..NONE });
        let short = Evidence {
            refaults: Some(20_000.0),
            page_back_s: Some(1e-3),
            disk_read_bytes: Some(20_000.0 * 4096.0),
            ..computing.clone()
        };
        assert_eq!(Verdict::of(&short).limit, Limit::VirtualMemory);
        assert_eq!(Verdict::knowing(&short, &computing).limit, Limit::Processor);
    }

    /// Apache with documents of 10 KiB to 16 clients, of which 24 and 16 MiB of memory have room for a part.
    #[test]
    fn every_run_of_a_server_that_thrashes_on_a_fast_disk_lacks_memory() {
        let run = |requests, processor_s, read_bytes, page_back_us, threads: Threads| Evidence {
            seconds: 3.0,
            processors: 2.0,
            requests,
            bytes: requests * 10_240.0,
            in_flight: Some(15.8),
            generator: Some(Generator { threads: 1.0, processor_s: 0.4, queued_s: 2.2 }),
            threads: Some(threads),
            threads_at_rest: Threads { lock: 64.0, idle: 5.0, ..NONE },
            processor_s: Some(processor_s),
            machine_processor_s: Some(5.95),
            refaults: Some(requests * 0.3),
            disk_read_bytes: Some(read_bytes * requests),
            served_of_bytes: Some(67_112_960.0),
            page_back_s: Some(page_back_us * 1e-6),
            ..Evidence::default()
        };
        let on_processors = |processor, disk| Threads { processor, disk, lock: 54.0, idle: 4.5, ..NONE };
        let with_all =
            Evidence { page_back_s: None, ..run(66_066.0, 3.6, 1.0, 0.0, on_processors(6.0, 0.0)) };
        let short = [
            run(33_465.0, 3.73, 9_369.0, 9.6, on_processors(6.5, 1.5)),
            run(36_834.0, 3.68, 9_339.0, 7.5, on_processors(8.0, 0.75)),
            run(39_558.0, 3.85, 9_356.0, 12.7, on_processors(6.0, 0.0)),
            run(38_832.0, 3.50, 9_393.0, 7.6, on_processors(22.0, 0.0)),
            run(30_981.0, 3.02, 10_697.0, 10.0, on_processors(7.33, 5.33)),
            run(27_198.0, 2.81, 10_551.0, 8.3, on_processors(11.0, 0.5)),
        ];
        let by_themselves = short.iter().filter(|run| Verdict::of(run).limit == Limit::VirtualMemory).count();
        assert!(by_themselves < short.len(), "an estimate would do");
        for run in &short {
            let verdict = Verdict::knowing(run, &with_all);
            assert_eq!(verdict.limit, Limit::VirtualMemory, "{verdict:?}");
            assert!(verdict.evidence[0].starts_with("with more memory it answers"), "{verdict:?}");
        }
        assert_eq!(Verdict::of(&with_all).limit, Limit::Processor);
    }

    #[test]
    fn a_processor_that_is_busy_bringing_pages_back_lacks_memory() {
        let computing = evidence(Threads { processor: 4.0, ..NONE });
        // 20,000 pages at 100 us are 2 of the 10 seconds: without them it would be 1.25 times as fast.
        let short = Evidence {
            refaults: Some(20_000.0),
            page_back_s: Some(100e-6),
            disk_read_bytes: Some(20_000.0 * 4096.0),
            ..computing
        };
        assert_eq!(Verdict::of(&short).limit, Limit::VirtualMemory, "{:?}", Verdict::of(&short));
        let others = [
            // Faster by 1.11 only.
            Evidence { page_back_s: Some(50e-6), ..short.clone() },
            Evidence { page_back_s: None, ..short.clone() },
            // Most was never in memory: more memory would change little.
            Evidence { disk_read_bytes: Some(60_000.0 * 4096.0), ..short.clone() },
            Evidence { refaults: Some(900.0), ..short },
        ];
        for other in others {
            assert_eq!(Verdict::of(&other).limit, Limit::Processor, "{other:?}");
        }
    }

    #[test]
    fn pages_of_files_that_memory_never_had_are_the_disks() {
        let faults = evidence(Threads { fault: 6.0, ..NONE });
        let first = Evidence {
            refaults: Some(0.0),
            major_faults: Some(1_000.0),
            disk_read_bytes: Some(4_096_000.0),
            ..faults
        };
        assert_eq!(Verdict::of(&first).limit, Limit::Disk);
    }

    #[test]
    fn caches_and_memory_are_told_from_the_processor_by_misses_only() {
        let computing = evidence(Threads { processor: 4.0, ..NONE });
        assert_eq!(Verdict::of(&computing).undecided.len(), 1);
        let ceilings = Some(Ceilings { cache_s: 10e-9, memory_s: 100e-9, memory_bytes_per_s: 10e9 });
        let with = |first, last, requests| {
            let misses = Some(Misses { first, last, tier: Tier::Simulated });
            Verdict::of(&Evidence { misses, ceilings, requests, ..computing.clone() })
        };
        // A request takes 1 ms of processor time; 5,000 misses of memory are half of that.
        assert_eq!(with(5_000.0, 5_000.0, 10_000.0).limit, Limit::Cache);
        assert_eq!(with(5_000.0, 0.0, 10_000.0).limit, Limit::Processor);
        assert!(with(5_000.0, 0.0, 10_000.0).undecided.is_empty());
        // A hundred thousand lines for each of ten thousand requests in ten seconds are 6.4 GB/s.
        assert_eq!(with(100_000.0, 100_000.0, 10_000.0).limit, Limit::MainMemory);
    }

    #[test]
    fn a_schedule_that_is_kept_has_no_limit() {
        let kept = Evidence { intended: Some(10_050.0), ..evidence(Threads { processor: 4.0, ..NONE }) };
        assert_eq!(Verdict::of(&kept).limit, Limit::Nothing);
        assert_ne!(Verdict::of(&Evidence { intended: Some(20_000.0), ..kept }).limit, Limit::Nothing);
    }

    #[test]
    fn growth_and_small_calls_are_found_beside_the_limit() {
        let held_bytes = [10.0, 30.0, 50.0].map(|mebibytes| mebibytes * 1_048_576.0).to_vec();
        let odd = Evidence {
            held_bytes,
            system_s: Some(8.0),
            calls: Some(1e6),
            call_bytes: Some(32e6),
            ..evidence(Threads { processor: 4.0, ..NONE })
        };
        let found = Verdict::of(&odd).findings;
        assert!(matches!(found[..], [Finding::Growth { .. }, Finding::SmallCalls { .. }]), "{found:?}");
        assert!(found[0].to_string().contains("4194 B"), "{}", found[0]);
    }

    #[test]
    fn nothing_is_decided_where_nothing_was_answered_or_nothing_can_be_seen() {
        let nothing = Evidence { requests: 0.0, ..evidence(NONE) };
        assert_eq!(Verdict::of(&nothing).limit, Limit::Undecided);
        let blind = Evidence { threads: None, processor_s: Some(1.0), ..evidence(NONE) };
        let verdict = Verdict::of(&blind);
        assert_eq!((verdict.limit, verdict.undecided.len()), (Limit::Undecided, 1));
        let computing = Evidence { processor_s: Some(19.0), ..blind };
        assert_eq!(Verdict::of(&computing).limit, Limit::Processor);
        let kernel = Evidence { in_kernel: true, ..computing };
        assert_eq!(Verdict::of(&kernel).limit, Limit::Processor);
        let with_time = Evidence { processor_s: Some(10.0), ..kernel };
        assert_eq!(Verdict::of(&with_time).limit, Limit::Undecided);
    }
}
