//! Sentences about what was measured.

use forebay_quantity::percent;

use super::load_s;
use crate::experiments::{Evidence, Finding, Threads};

/// Calls are small below this.
const SMALL_CALL_BYTES: f64 = 512.0;
/// And many for each request from here on.
const MANY_CALLS: f64 = 32.0;
/// The kernel takes most of the processor time from this share on.
const SYSTEM_MOST: f64 = 0.5;
/// A page fault takes no less than this on any machine: entering the kernel, and clearing a page.
const FAULT_S: f64 = 0.25e-6;
/// Page faults are worth a word from this share of the processor time on.
const FAULTS_SHARE: f64 = 0.15;
/// Failures are a circumstance from this share of the requests on.
const FAILED_SHARE: f64 = 0.05;
/// What they take is worth a measurement where it is this share even on a fast machine.
const FAULTS_SHARE_MEASURED: f64 = 0.02;

pub(super) fn listed(threads: Threads) -> String {
    let named = [
        (threads.processor, "on or for a processor"),
        (threads.fault, "for pages"),
        (threads.disk, "for files"),
        (threads.lock, "for each other"),
        (threads.address_space, "for the address space, which mmap and munmap lock"),
        (threads.send, "to send"),
        (threads.asleep, "asleep"),
    ];
    let told = named.iter().filter(|(threads, _)| *threads >= 0.05);
    told.map(|(threads, what)| format!("{threads:.1} {what}")).collect::<Vec<_>>().join(", ")
}

/// Whether it should be measured what a page fault of new memory takes on this machine.
pub(super) fn may_touch_new_memory(evidence: &Evidence) -> bool {
    let known = evidence.minor_faults.zip(evidence.processor_s);
    evidence.new_page_s.is_none()
        && known.is_some_and(|(faults, processor_s)| faults * FAULT_S >= FAULTS_SHARE_MEASURED * processor_s)
}

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let growth = evidence.growth_per_request().map(|bytes_per_request| Finding::Growth { bytes_per_request });
    let system = evidence.system_s.zip(evidence.processor_s).map(|(system, all)| system / all);
    let in_kernel = system.is_some_and(|share| share >= SYSTEM_MOST);
    let small = evidence.call_bytes.zip(evidence.calls).map(|(bytes, calls)| Finding::SmallCalls {
        calls_per_request: calls / (evidence.requests + evidence.failed).max(1.0),
        bytes_per_call: bytes / calls.max(1.0),
    });
    let small = small.filter(|found| match found {
        Finding::SmallCalls { calls_per_request, bytes_per_call } => {
            in_kernel && *calls_per_request >= MANY_CALLS && *bytes_per_call < SMALL_CALL_BYTES
        }
        _ => false,
    });
    let new_memory = evidence.minor_faults.zip(new_memory_share(evidence));
    let new_memory = new_memory.map(|(faults, share)| Finding::NewMemory {
        faults_per_request: faults / (evidence.requests + evidence.failed).max(1.0),
        share,
    });
    let new_memory = new_memory
        .filter(|found| matches!(found, Finding::NewMemory { share, .. } if *share >= FAULTS_SHARE && growth.is_none()));
    growth.into_iter().chain(small).chain(new_memory).collect()
}

/// The share of the processor time that page faults of new memory take: by what one takes here, no more than the kernel took.
pub(super) fn new_memory_share(evidence: &Evidence) -> Option<f64> {
    let (faults, processor_s) = evidence.minor_faults.zip(evidence.processor_s)?;
    let share = |seconds: f64| (seconds / processor_s.max(f64::MIN_POSITIVE)).min(1.0);
    Some(match evidence.new_page_s {
        Some(page_s) => share(faults * page_s).min(evidence.system_s.map_or(1.0, share)),
        None => share(faults * FAULT_S),
    })
}

/// What belongs to every verdict.
pub(super) fn circumstances(evidence: &Evidence) -> Vec<String> {
    let all_s = evidence.seconds * evidence.processors;
    let mut told = Vec::new();
    let asked = evidence.requests + evidence.failed;
    if evidence.failed >= FAILED_SHARE * asked {
        told.push(format!(
            "{} of the requests failed, which cost the server something too",
            percent(evidence.failed / asked)
        ));
    }
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
