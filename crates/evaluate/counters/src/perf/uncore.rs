//! What went between processor and memory, by the counters of the memory's controllers.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_results::Tier;
use perf_event::events::Dynamic;

use super::event::{Event, Part, Quantity};
use super::linux::{Place, processors};

/// What one event of AMD's controllers moves: a line of cache.
const LINE_BYTES: f64 = 64.0;

/// Where the kernel describes what can count.
pub(crate) const DEVICES: &str = "/sys/bus/event_source/devices";

/// Bytes read from and written to memory by the whole machine, by all controllers that `devices` describes: Intel's, which
/// name their events and what one is, and AMD's, which do not (event 0x0a, reads 1, writes 2, in the kernel's
/// tools/perf/pmu-events as `umc_cas_cmd`).
pub(crate) fn memory_traffic(devices: &Path) -> Vec<Quantity> {
    let mut controllers: Vec<PathBuf> =
        fs::read_dir(devices).into_iter().flatten().flatten().map(|device| device.path()).collect();
    controllers.sort();
    let directions = [
        ("memory_read_bytes", &["cas_count_read", "data_read", "data_reads"][..], 1),
        ("memory_written_bytes", &["cas_count_write", "data_write", "data_writes"], 2),
    ];
    directions
        .into_iter()
        .map(|(name, names, direction)| {
            let found = controllers.iter().flat_map(|device| of_controller(device, names, direction));
            let found: Vec<(Part, f64)> = found.collect();
            // All controllers of a machine are alike.
            let scale = found.first().map_or(1.0, |(_, scale)| *scale);
            let parts: Vec<Part> = found.into_iter().map(|(part, _)| part).collect();
            Quantity::new(
                name,
                "B",
                Tier::Hardware,
                scale,
                if parts.is_empty() { vec![] } else { vec![parts] },
            )
        })
        .collect()
}

/// The parts that one controller has, and the bytes of one event.
fn of_controller(device: &Path, names: &[&str], direction: u64) -> Vec<(Part, f64)> {
    let name = device.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let described = if name.starts_with("uncore_imc") {
        names.iter().find_map(|name| intel(device, name))
    } else if name.starts_with("amd_umc") {
        amd(device, direction).map(|event| (event, LINE_BYTES))
    } else {
        None
    };
    let Some((event, bytes)) = described else { return Vec::new() };
    let on = processors(&fs::read_to_string(device.join("cpumask")).unwrap_or_default());
    let part = |processor| Part { event: Event::Dynamic(event), place: Place::Processor(processor) };
    on.into_iter().map(|processor| (part(processor), bytes)).collect()
}

fn intel(device: &Path, name: &str) -> Option<(Dynamic, f64)> {
    let mut builder = Dynamic::builder(device).ok()?;
    builder.event(name).ok()?;
    let unit_bytes = match builder.unit().ok()??.as_str() {
        "MiB" => 1_048_576.0,
        "Bytes" => 1.0,
        _ => return None,
    };
    Some((builder.build().ok()?, builder.scale().ok()?? * unit_bytes))
}

fn amd(device: &Path, direction: u64) -> Option<Dynamic> {
    let mut builder = Dynamic::builder(device).ok()?;
    builder.field("event", 0x0a).ok()?.field("rdwrmask", direction).ok()?;
    builder.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a device as the kernel describes it.
    fn describe(device: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = device.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn all_controllers_of_both_makers_are_found_with_what_an_event_is() {
        let devices = std::env::temp_dir().join(format!("forebay-devices-{}", std::process::id()));
        for number in 0..2 {
            let files = [
                ("type", "19\n"),
                ("cpumask", "0,18\n"),
                ("format/event", "config:0-7\n"),
                ("format/umask", "config:8-15\n"),
                ("events/cas_count_read", "event=0x04,umask=0x03\n"),
                ("events/cas_count_read.scale", "6.103515625e-5\n"),
                ("events/cas_count_read.unit", "MiB\n"),
            ];
            describe(&devices.join(format!("uncore_imc_{number}")), &files);
        }
        describe(&devices.join("uncore_cha_0"), &[("type", "20\n"), ("cpumask", "0\n")]);
        let intel = memory_traffic(&devices);
        fs::remove_dir_all(&devices).unwrap();
        let umc = [
            ("type", "21\n"),
            ("cpumask", "0\n"),
            ("format/event", "config:0-7\n"),
            ("format/rdwrmask", "config:8-9\n"),
        ];
        describe(&devices.join("amd_umc_0"), &umc);
        let amd = memory_traffic(&devices);
        fs::remove_dir_all(&devices).unwrap();

        let told = |quantities: &[Quantity]| {
            let one =
                |one: &Quantity| (one.counter.name.to_string(), one.scale, one.alternatives.concat().len());
            quantities.iter().map(one).collect::<Vec<_>>()
        };
        let (read, written) = ("memory_read_bytes".to_owned(), "memory_written_bytes".to_owned());
        assert_eq!(told(&intel), [(read.clone(), 64.0, 4), (written.clone(), 1.0, 0)]);
        assert_eq!(told(&amd), [(read, 64.0, 1), (written, 64.0, 1)]);
        assert!(format!("{:?}", amd[1].alternatives).contains("config: 522"), "{:?}", amd[1].alternatives);
    }
}
