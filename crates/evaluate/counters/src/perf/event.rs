//! Which events tell of which quantity.

use std::borrow::Cow;

use forebay_results::Tier;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Dynamic, Hardware, Software};

use super::linux::Place;
use crate::error::Refused;
use crate::readings::{Counter, Kind};

pub(super) const CYCLES: Hardware = Hardware::CPU_CYCLES;
pub(super) const SWITCHES: Software = Software::CONTEXT_SWITCHES;
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
        ("first_level_cache_loads", accesses(CacheId::L1D), None, Some("l1d_cache")),
        ("first_level_cache_load_misses", misses(CacheId::L1D), None, Some("l1d_cache_refill")),
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
        quantity("context_switches", "1", 1.0, SWITCHES),
        quantity("processor_migrations", "1", 1.0, Software::CPU_MIGRATIONS),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use perf_event_open_sys::bindings::perf_event_attr;

    use super::*;
    use crate::perf::linux::arm_event;

    /// Kind and number, as perf_event_open(2) takes them.
    fn encoded(event: impl perf_event::events::Event) -> (u32, u64) {
        let mut attributes = perf_event_attr::default();
        event.update_attrs(&mut attributes);
        (attributes.type_, attributes.config)
    }

    /// Of each quantity what is asked for on a processor of this maker, first to last, but for the events that are found by name.
    fn asked(vendor: &str) -> Vec<(String, Vec<(u32, u64)>)> {
        let quantities = hardware(&[Place::Processor(0)], vendor);
        let code = |part: &Part| match part.event.clone() {
            Event::Hardware(event) => Some(encoded(event)),
            Event::Cache(event) => Some(encoded(event)),
            Event::Raw(code) => Some(encoded(perf_event::events::Raw::new(code))),
            Event::Software(_) | Event::Dynamic(_) | Event::Arm(_) => None,
        };
        let codes = |one: &Quantity| one.alternatives.iter().flatten().filter_map(code).collect();
        quantities.iter().map(|one| (one.counter.name.to_string(), codes(one))).collect()
    }

    /// Of `uapi/linux/perf_event.h`: hardware events are of kind 0, caches' of kind 3 by `cache | operation << 8 | result << 16`, and
    /// a maker's own of kind 4.
    #[test]
    fn events_are_encoded_as_the_kernel_and_the_makers_say() {
        let generic = [
            ("cycles", (0, 0)),
            ("instructions", (0, 1)),
            ("cache_references", (0, 2)),
            ("cache_misses", (0, 3)),
            ("first_level_cache_loads", (3, 0)),
            ("first_level_cache_load_misses", (3, 0x1_0000)),
            ("last_level_cache_loads", (3, 2)),
            ("last_level_cache_load_misses", (3, 0x1_0002)),
            ("data_tlb_loads", (3, 3)),
            ("data_tlb_load_misses", (3, 0x1_0003)),
            ("stalled_cycles_frontend", (0, 7)),
            ("stalled_cycles_backend", (0, 8)),
        ];
        // Intel's cycle_activity.stalls_total: event 0xa3, unit mask 4, counter mask 4. AMD's ls_dmnd_fills_from_sys: event 0x43, from
        // memory of this node (8) and of others (0x40).
        let makers = [
            ("GenuineIntel", "stalled_cycles", (4, 0x0400_04a3)),
            ("AuthenticAMD", "last_level_cache_load_misses", (4, 0x4843)),
        ];
        for vendor in ["GenuineIntel", "AuthenticAMD", ""] {
            let mut expected: Vec<(String, Vec<(u32, u64)>)> =
                generic.iter().map(|(name, code)| ((*name).to_owned(), vec![*code])).collect();
            expected.push(("stalled_cycles".to_owned(), vec![]));
            for (_, name, code) in makers.iter().filter(|(maker, ..)| *maker == vendor) {
                expected.iter_mut().find(|(known, _)| known == name).unwrap().1.push(*code);
            }
            assert_eq!(asked(vendor), expected, "{vendor}");
        }
    }

    /// The names are those of the kernel's `drivers/perf/arm_pmuv3.c`, the numbers those of the Arm Architecture Reference Manual.
    #[test]
    fn arm_s_events_are_found_by_their_names() {
        let known = [
            ("l1d_cache_refill", 0x03),
            ("l1d_cache", 0x04),
            ("l1d_tlb_refill", 0x05),
            ("l1d_tlb", 0x25),
            ("stall_frontend", 0x23),
            ("stall_backend", 0x24),
            ("ll_cache_rd", 0x36),
            ("ll_cache_miss_rd", 0x37),
            ("stall", 0x3c),
        ];
        let devices = std::env::temp_dir().join(format!("forebay-arm-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = devices.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // A device that counts nothing of a processor has no list of those.
        write("smmuv3_pmcg_0/events/l1d_tlb", "event=0x1\n");
        write("armv8_pmuv3_0/type", "8\n");
        write("armv8_pmuv3_0/cpus", "0-3\n");
        write("armv8_pmuv3_0/format/event", "config:0-15\n");
        for (name, number) in known {
            write(&format!("armv8_pmuv3_0/events/{name}"), &format!("event={number:#06x}\n"));
        }
        let quantities = hardware(&[Place::Processor(0)], "");
        let parts = quantities.iter().flat_map(|one| one.alternatives.iter().flatten());
        let mut asked: Vec<&str> = parts
            .filter_map(|part| if let Event::Arm(name) = &part.event { Some(*name) } else { None })
            .collect();
        let found: Vec<(u32, u64)> =
            known.map(|(name, _)| encoded(arm_event(&devices, name).unwrap())).into();
        let missing = arm_event(&devices, "bus_access").map(|_| ());
        let nowhere = arm_event(Path::new("/no/such"), "stall").map(|_| ());
        fs::remove_dir_all(&devices).unwrap();
        assert_eq!(found, known.map(|(_, number)| (8, number)));
        assert!(missing.is_err() && nowhere.is_err());
        let mut names = known.map(|(name, _)| name);
        asked.sort_unstable();
        names.sort_unstable();
        assert_eq!(asked, names);
    }
}
