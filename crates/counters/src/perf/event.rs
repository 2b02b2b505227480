//! Which events tell of which quantity.

use std::borrow::Cow;

use forebay_meter::Tier;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Dynamic, Hardware, Software};

use super::linux::Place;
use crate::error::Refused;
use crate::readings::{Counter, Kind};

pub(super) const CYCLES: Hardware = Hardware::CPU_CYCLES;
pub(super) const INSTRUCTIONS: Hardware = Hardware::INSTRUCTIONS;

/// An event as the kernel takes it.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Hardware(Hardware),
    Cache(Cache),
    Software(Software),
    /// By the number of the processor's maker: `(unit mask << 8) | event`, and more.
    Raw(u64),
    /// As `/sys/bus/event_source/devices` describes it.
    Dynamic(Dynamic),
    /// By its name among the events of the Arm processor's counters.
    Arm(&'static str),
}

/// An event and where it is counted.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) event: Event,
    pub(crate) place: Place,
}

/// What is to be known, and the ways to know it, best first. The parts of a way add up.
pub(crate) struct Quantity {
    pub(crate) counter: Counter,
    /// What one event is, in the counter's unit.
    pub(crate) scale: f64,
    pub(crate) alternatives: Vec<Vec<Part>>,
}

impl Quantity {
    pub(super) fn new(
        name: &'static str,
        unit: &'static str,
        tier: Tier,
        scale: f64,
        alternatives: Vec<Vec<Part>>,
    ) -> Self {
        let counter = Counter { name: Cow::Borrowed(name), unit, tier, kind: Kind::Total };
        Self { counter, scale, alternatives }
    }

    /// That it cannot be had.
    pub(crate) fn refused(&self, why: &str, remedy: &str) -> Refused {
        let Counter { name, tier, .. } = &self.counter;
        Refused { counter: name.to_string(), tier: *tier, why: why.to_owned(), remedy: remedy.to_owned() }
    }
}

fn everywhere(event: &Event, places: &[Place]) -> Vec<Part> {
    places.iter().map(|place| Part { event: event.clone(), place: place.clone() }).collect()
}

/// What the processor counts in all of `places`; `vendor` is what `/proc/cpuinfo` calls the maker.
///
/// The generic names come first. AMD's processors from Zen 3 lack that for the last level of cache: there data that a load had
/// filled from memory is taken. Intel's from Skylake lack stalled cycles: there cycles without an execution are. (In the kernel's
/// tools/perf/pmu-events: `ls_dmnd_fills_from_sys.mem_io_local` with `_remote`, and `cycle_activity.stalls_total`.)
pub(crate) fn hardware(places: &[Place], vendor: &str) -> Vec<Quantity> {
    let cache = |which, result| Event::Cache(Cache { which, operation: CacheOp::READ, result });
    let accesses = |which| cache(which, CacheResult::ACCESS);
    let misses = |which| cache(which, CacheResult::MISS);
    let of_maker = |maker: &str, code| (vendor == maker).then_some(Event::Raw(code));
    let list: [(&'static str, Event, Option<Event>, Option<&'static str>); 13] = [
        ("cycles", Event::Hardware(CYCLES), None, None),
        ("instructions", Event::Hardware(INSTRUCTIONS), None, None),
        ("cache_references", Event::Hardware(Hardware::CACHE_REFERENCES), None, None),
        ("cache_misses", Event::Hardware(Hardware::CACHE_MISSES), None, None),
        ("first_level_cache_loads", accesses(CacheId::L1D), None, Some("l1d_cache_rd")),
        ("first_level_cache_load_misses", misses(CacheId::L1D), None, Some("l1d_cache_refill_rd")),
        ("last_level_cache_loads", accesses(CacheId::LL), None, Some("ll_cache_rd")),
        (
            "last_level_cache_load_misses",
            misses(CacheId::LL),
            of_maker("AuthenticAMD", 0x4843),
            Some("ll_cache_miss_rd"),
        ),
        ("data_tlb_loads", accesses(CacheId::DTLB), None, Some("l1d_tlb")),
        ("data_tlb_load_misses", misses(CacheId::DTLB), None, Some("l1d_tlb_refill")),
        (
            "stalled_cycles_frontend",
            Event::Hardware(Hardware::STALLED_CYCLES_FRONTEND),
            None,
            Some("stall_frontend"),
        ),
        (
            "stalled_cycles_backend",
            Event::Hardware(Hardware::STALLED_CYCLES_BACKEND),
            None,
            Some("stall_backend"),
        ),
        ("stalled_cycles", Event::Arm("stall"), of_maker("GenuineIntel", 0x0400_04a3), None),
    ];
    let quantity = |(name, generic, makers, arm): (_, _, Option<Event>, Option<_>)| {
        let events = [Some(generic), makers, arm.map(Event::Arm)].into_iter().flatten();
        let alternatives = events.map(|event| everywhere(&event, places)).collect();
        Quantity::new(name, "1", Tier::Hardware, 1.0, alternatives)
    };
    list.into_iter().map(quantity).collect()
}

/// What the kernel counts as perf events, more finely than in `/proc`, in all of `places`.
pub(crate) fn software(places: &[Place]) -> Vec<Quantity> {
    let quantity = |name, unit, scale, event| {
        Quantity::new(name, unit, Tier::Software, scale, vec![everywhere(&Event::Software(event), places)])
    };
    vec![
        quantity("task_time", "s", 1e-9, Software::TASK_CLOCK),
        quantity("context_switches", "1", 1.0, Software::CONTEXT_SWITCHES),
        quantity("processor_migrations", "1", 1.0, Software::CPU_MIGRATIONS),
    ]
}
