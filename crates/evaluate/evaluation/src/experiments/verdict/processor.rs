//! Servers that compute: on all processors, on one, or in turn; and what that time goes into.

use forebay_quantity::{number, percent};

use super::compared::FASTER;
use super::words::new_memory_share;
use super::{MACHINE_FULL, MOST, REFAULTED, SEVERAL, THREAD_FULL, Verdict, affinity, load_s, own_share};
use crate::experiments::{Evidence, Fewer, Limit, Threads};

/// Threads compute in turn where this share of the looks finds no second one that does.
const IN_TURN: f64 = 0.85;
/// Processors have nothing to do where so much of one has, on the average.
pub(super) const IDLE_PROCESSOR: f64 = 0.2;
/// Together threads compute what one thread can where they use so much less than one processor at most.
const ONE_PROCESSOR: f64 = 0.15;
/// Threads wait for no processor, and requests for nothing else, where they do for a smaller share than this.
pub(super) const QUEUED: f64 = 0.25;
/// Caches limit where misses explain this share of the processor time.
const MISSED: f64 = 0.4;
/// Memory delivers no more from this share of its throughput on.
const MEMORY_FULL: f64 = 0.6;

impl Verdict {
    /// Whether it waits for processors that other programs have.
    pub(super) fn is_crowded_out(&mut self, evidence: &Evidence, limit: Limit) {
        let machine_s = evidence.machine_processor_s.unwrap_or(0.0);
        let is_full = machine_s >= MACHINE_FULL * evidence.seconds * evidence.processors;
        if limit == Limit::Processor && is_full && own_share(evidence) < MOST {
            self.name = Some("(which other programs have)".to_owned());
        }
    }

    /// It computes: on all processors, on one, or in turn.
    pub(super) fn computes(&mut self, evidence: &Evidence, threads: Threads) -> Limit {
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
            evidence.under_way().is_some_and(|requests| requests >= SEVERAL) && evidence.processors >= 2.0;
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
            self.asks_for = (!seen_in_turn(evidence, threads)).then_some(Fewer::Half);
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

    pub(super) fn processor_or_caches(&mut self, evidence: &Evidence) -> Limit {
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
}

/// As many processors as the server used, on the average.
pub(super) fn used_processors(evidence: &Evidence) -> Option<f64> {
    evidence.processor_s.map(|used_s| used_s / evidence.seconds)
}

/// Whether several threads compute all the time, and never two of them at once.
pub(super) fn in_turn(evidence: &Evidence, threads: Threads) -> bool {
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
        evidence.under_way().filter(|requests| *requests >= SEVERAL),
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

/// The share of the busy threads that are at page faults of new memory, or wait for the address space meanwhile; 0 where it was not
/// measured what such a fault takes here, or where the faults take less than most of the processor time.
pub(super) fn renews_memory(evidence: &Evidence, threads: Threads) -> f64 {
    // Where pages come from disks, faults are not all of new memory.
    let is_known = evidence.new_page_s.is_some() && !evidence.misses_memory();
    let measured = new_memory_share(evidence).filter(|_| is_known);
    let Some(of_processor) = measured.filter(|share| *share >= MOST) else { return 0.0 };
    let computing = own_processor(evidence, threads.processor);
    let all = threads.busy() - threads.processor + computing;
    (of_processor * computing + threads.fault + threads.address_space) / all.max(f64::MIN_POSITIVE)
}

/// Threads that run, or wait for a processor, without those that wait for one because of what else the machine does.
pub(super) fn own_processor(evidence: &Evidence, on_or_for: f64) -> f64 {
    let Some(server_s) = evidence.processor_s.filter(|_| evidence.machine_processor_s.is_some()) else {
        return on_or_for;
    };
    let running = (server_s / evidence.seconds).min(on_or_for);
    // A thread waits for a processor while none is idle that it may use.
    let idle = evidence.idle_processors().filter(|_| affinity::allowed(evidence).is_none());
    let all_in_use = idle.map_or(1.0, |idle| 1.0 - idle / evidence.processors);
    running + (on_or_for - running) * own_share(evidence) * all_in_use
}
