//! The sources that a target is measured by.

use std::fs;
use std::path::Path;

use forebay_linux::kernel_text;

use crate::error::{Error, Refused};
use crate::files::{Files, NamedFiles, nobodys};
use crate::group::Group;
use crate::machine::Machine;
use crate::perf::{self, Linux, PerfEvents, Place};
use crate::processes::{Processes, Scope, threads};
use crate::sheet::Source;
use crate::target::{Options, Target};

/// All that counts what `target` does. Adds what is refused before the first sample to `refused`.
///
/// # Errors
/// There is no such target.
pub(crate) fn sources(
    target: &Target,
    options: &Options,
    refused: &mut Vec<Refused>,
) -> Result<Vec<Box<dyn Source>>, Error> {
    let open = options.files == Files::Open;
    let processes = |scope| Ok::<_, Error>(Box::new(Processes::new(scope, open)?));
    let (from_files, places): (Box<dyn Source>, Vec<Place>) = match target {
        Target::Machine => (Box::new(Machine::new()?), perf::places(None).unwrap_or_default()),
        Target::Process(pid) => (processes(Scope::One(*pid))?, on_threads(*pid, false)),
        Target::Tree(pid) => (processes(Scope::Tree(*pid))?, on_threads(*pid, true)),
        Target::Cgroup(path) => {
            let group = Group::new(path, open)?;
            let places = group.perf_folder().map(|folder| perf::places(Some(folder)).unwrap_or_default());
            (Box::new(group), places.unwrap_or_default())
        }
    };
    let mut quantities = Vec::new();
    if options.hardware {
        quantities = perf::hardware(&places, &processor_maker());
    }
    // Of the machine `/proc/stat` tells as much.
    if options.kernel_events && *target != Target::Machine {
        quantities.extend(perf::software(&places));
    }
    if places.is_empty() {
        let why = "there is no hierarchy of control groups for perf events";
        let remedy = "mount one with: mount -t cgroup -o perf_event perf_event FOLDER";
        refused.extend(quantities.drain(..).map(|quantity| quantity.refused(why, remedy)));
    }
    if options.hardware {
        let traffic = perf::memory_traffic(Path::new(perf::DEVICES));
        if *target == Target::Machine {
            quantities.extend(traffic);
        } else {
            let why = "the memory's controllers do not tell for whom they work";
            let remedy = "count the whole machine's";
            refused.extend(traffic.into_iter().map(|quantity| quantity.refused(why, remedy)));
        }
    }
    let mut sources = vec![from_files];
    match &options.files {
        Files::Under(paths) => sources.push(Box::new(NamedFiles::new(paths)?)),
        Files::Open if *target == Target::Machine => refused.push(nobodys()),
        Files::Open | Files::None => {}
    }
    sources.push(Box::new(PerfEvents::open(&Linux, quantities, refused)));
    Ok(sources)
}

/// Events on each thread that there is, inherited by those that come.
fn on_threads(pid: u32, children: bool) -> Vec<Place> {
    threads(pid, children).into_iter().map(|thread| Place::Thread { thread, children }).collect()
}

/// What `/proc/cpuinfo` calls the processor's maker; empty where it does not say, as on Arm.
fn processor_maker() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    kernel_text::field(&text, "vendor_id").unwrap_or_default().into()
}
