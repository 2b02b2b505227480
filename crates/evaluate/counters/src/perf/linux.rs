//! Events that the kernel counts.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};
use rustix::io::Errno;

use super::event::Event;
use super::{Count, DEVICES, Opened, Opener};

/// Where an event is counted.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On a thread and those that it starts, in other processes too or in its own only.
    Thread {
        /// Its number.
        thread: u32,
        /// In its child processes too.
        children: bool,
    },
    /// Whatever a processor runs.
    Processor(usize),
    /// Whatever of a control group a processor runs.
    Group(Arc<File>, usize),
}

/// The kernel.
pub(crate) struct Linux;

impl Opener for Linux {
    fn open(&self, event: &Event, place: &Place) -> io::Result<Box<dyn Opened>> {
        let mut builder = match event.clone() {
            Event::Hardware(event) => Builder::new(event),
            Event::Cache(event) => Builder::new(event),
            Event::Software(event) => Builder::new(event),
            Event::Raw(code) => Builder::new(perf_event::events::Raw::new(code)),
            Event::Dynamic(event) => Builder::new(event),
            Event::Arm(name) => Builder::new(arm_event(Path::new(DEVICES), name)?),
        };
        builder.enabled(true).include_kernel();
        match place {
            Place::Thread { thread, children } => {
                let thread = i32::try_from(*thread).map_err(|_| Errno::SRCH)?;
                builder.observe_pid(thread).any_cpu().inherit(true).inherit_thread(!children);
            }
            Place::Processor(processor) => {
                builder.any_pid().one_cpu(*processor);
            }
            Place::Group(folder, processor) => {
                builder.observe_cgroup(folder).one_cpu(*processor);
            }
        }
        Ok(Box::new(builder.build()?))
    }
}

impl Opened for Counter {
    fn read(&mut self) -> io::Result<Count> {
        let data = self.read_full()?;
        let time = |time: Option<_>| time.unwrap_or_default();
        Ok(Count {
            value: data.count(),
            enabled: time(data.time_enabled()),
            running: time(data.time_running()),
        })
    }
}

/// An event of the counters of an Arm processor, whose name tells its model.
pub(super) fn arm_event(devices: &Path, name: &str) -> io::Result<Dynamic> {
    let devices = fs::read_dir(devices)?.flatten().map(|device| device.path());
    let mut known =
        devices.filter(|device| device.join("cpus").exists() && device.join("events").join(name).exists());
    let device = known.next().ok_or(Errno::NOENT)?;
    Dynamic::builder(device)?.event(name)?.build().map_err(io::Error::other)
}

/// The processors in a list such as `0-3,8`, empty where there is none.
pub(super) fn processors(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// All places where a machine's or a group's events are counted.
pub(crate) fn places(group: Option<&Path>) -> io::Result<Vec<Place>> {
    let online = processors(&fs::read_to_string("/sys/devices/system/cpu/online")?);
    let folder = group.map(File::open).transpose()?.map(Arc::new);
    let place = |processor| match &folder {
        Some(folder) => Place::Group(Arc::clone(folder), processor),
        None => Place::Processor(processor),
    };
    Ok(online.into_iter().map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_have_ranges() {
        assert_eq!(processors("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(processors("0"), [0]);
        assert_eq!(processors("\n"), [0; 0]);
    }
}
