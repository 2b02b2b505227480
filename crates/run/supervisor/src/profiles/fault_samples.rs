//! Pages that a run waited for, in any program and thread.
//!
//! The kernel samples the addresses of major faults. Its records of mappings tell which file an address is of. What a file is,
//! is looked up while the program runs: a file system may be unmounted as soon as the program has ended. What the program has touched
//! before its faults are sampled is in its page table.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    ops::Range,
    os::fd::OwnedFd,
    sync::Arc,
};

use super::files::{Files, Mounts};
use crate::{
    ffi::{FaultEvents, Ring},
    storms::Touched,
};

/// A range of a file that a process waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub at_ns: u64,
    /// The file, as the process's kernel calls it.
    pub path: Arc<[u8]>,
    /// Bytes; empty for a program that was executed.
    pub range: Range<u64>,
}

/// What the kernel reads for one fault, before and behind the page, by default.
const READ_AROUND_BYTES: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// Faults that are kept, at most.
const FAULTS_MAX: usize = 100_000;
/// Files whose names are kept, at most.
const FILES_MAX: usize = 100_000;
/// Name that speculators give themselves.
const SPECULATOR: &[u8] = b"forebay:spec";

/// Collects the records of the kernel.
pub struct FaultSamples {
    rings: Vec<Ring>,
    /// Events that live as long as their descriptors.
    _kept: Vec<OwnedFd>,
    bytes: Vec<u8>,
    records: Records,
    files: Files,
}

impl FaultSamples {
    /// Collects from these events on.
    ///
    /// # Errors
    /// The kernel refuses memory for their records.
    pub fn new(events: FaultEvents) -> std::io::Result<Self> {
        let (rings, kept) = events.into_rings()?;
        let (records, files) = (Records::default(), Files::default());
        Ok(Self { rings, _kept: kept, bytes: Vec::new(), records, files })
    }

    /// Takes note of the program that has begun in a process before its faults were watched, of its mappings, and of what it has touched
    /// of them.
    pub fn begin_with(&mut self, process: u32, at_ns: u64) {
        let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
        let executed =
            program(&process.to_string()).filter(|executed| Some(executed) != program("self").as_ref());
        if executed.is_none() {
            return;
        }
        let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        let mut record = |event| self.records.waiting.push(Record { at_ns, process, event });
        record(Event::Executes);
        let mappings = maps.split(|byte| *byte == b'\n').filter_map(mapping);
        let mappings: Vec<_> =
            mappings.map(|(addresses, offset, path)| Event::Maps { addresses, offset, path }).collect();
        let touched = Touched::of(process);
        let pages = |addresses: &Range<u64>| touched.as_ref().map(|all| all.within(addresses.clone()));
        let mut faults = Vec::new();
        for event in &mappings {
            if let Event::Maps { addresses, .. } = event {
                // One fault brings what is read around it.
                let apart = READ_AROUND_BYTES / PAGE;
                let mut next = 0;
                for page in pages(addresses).into_iter().flatten() {
                    if page >= next && faults.len() < FAULTS_MAX {
                        faults.push(Event::Fault { address: page * PAGE });
                        next = page + apart;
                    }
                }
            }
        }
        mappings.into_iter().chain(faults).for_each(record);
    }

    /// Takes what the kernel has written since the last look. Whether there were faults.
    pub fn look(&mut self) -> bool {
        self.records.has_faults = false;
        for ring in &self.rings {
            self.bytes.clear();
            ring.take(&mut self.bytes);
            self.records.parse(&self.bytes);
        }
        self.records.digest_older();
        self.records.used.drain(..).for_each(|path| self.files.look(&path));
        self.records.has_faults
    }

    /// The faults that are known.
    pub fn so_far(&self) -> impl Iterator<Item = &Fault> {
        let records = &self.records;
        let is_own = |(process, _): &&(u32, Fault)| !records.speculators.contains(process);
        records.faults.iter().filter(is_own).map(|(_, fault)| fault)
    }

    /// The faults, in no order. Beside a program that may have ended, no file system is looked at that may be unmounted.
    #[must_use]
    pub fn finish(mut self, is_beside: bool) -> Found {
        let _ = self.look();
        let mut found = self.records.finish();
        let mounts = (is_beside && !found.used.is_empty()).then(Mounts::now);
        let stays = |path: &Arc<[u8]>| mounts.as_ref().is_none_or(|mounts| !mounts.are_above(path));
        found.used.drain(..).filter(stays).for_each(|path| self.files.look(&path));
        Found { files: self.files, ..found }
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Pages that were waited for.
    pub faults: Vec<Fault>,
    /// Programs that were executed.
    pub executed: Vec<Fault>,
    /// Records that the kernel had no room for.
    pub lost: u64,
    /// What of the files is known.
    pub files: Files,
    /// Files that have been used and not been looked up.
    used: Vec<Arc<[u8]>>,
}

/// What a record says.
enum Event {
    Fork { parent: u32 },
    Exit,
    Executes,
    BecomesSpeculator,
    Maps { addresses: Range<u64>, offset: u64, path: Arc<[u8]> },
    Fault { address: u64 },
}

/// A record: when, of which process.
struct Record {
    at_ns: u64,
    process: u32,
    event: Event,
}

/// A mapping of a file: where it ends, and the offset of its first byte.
#[derive(Clone)]
struct Mapping {
    end: u64,
    offset: u64,
    path: Arc<[u8]>,
}

/// A process's mappings by their first addresses. Children begin with those of their parent.
#[derive(Clone, Default)]
struct Process {
    mappings: Arc<BTreeMap<u64, Mapping>>,
    /// It has a new program, of which no mapping is known yet: the first will be of its file.
    is_new: bool,
}

/// Records in the order of their times. Each processor has a ring of its own, so only what is older than all rings were at the
/// last look is complete.
#[derive(Default)]
struct Records {
    waiting: Vec<Record>,
    /// The newest record at the last look.
    newest_ns: u64,
    files: HashMap<Vec<u8>, Arc<[u8]>>,
    processes: HashMap<u32, Process>,
    speculators: HashSet<u32>,
    faults: Vec<(u32, Fault)>,
    executed: Vec<Fault>,
    /// Files of new faults and programs.
    used: Vec<Arc<[u8]>>,
    lost: u64,
    /// Whether there was a fault since the last look.
    has_faults: bool,
}

impl Records {
    fn parse(&mut self, mut bytes: &[u8]) {
        while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
            let [a, b, c, d, e, f, g, h] = *head;
            let kind = u32::from_le_bytes([a, b, c, d]);
            let misc = u16::from_le_bytes([e, f]);
            let Some(length) = usize::from(u16::from_le_bytes([g, h])).checked_sub(head.len()) else {
                return;
            };
            let Some((body, next)) = rest.split_at_checked(length) else { return };
            if let Some(record) = self.record(kind, misc, body) {
                self.waiting.push(record);
            }
            bytes = next;
        }
    }

    /// A record of the kernel's (perf_event_open(2)). All but samples have process, thread and time at their end.
    fn record(&mut self, kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
        const LOST: u32 = 2;
        const COMM: u32 = 3;
        const EXIT: u32 = 4;
        const FORK: u32 = 7;
        const SAMPLE: u32 = 9;
        const MMAP2: u32 = 10;
        const COMM_EXEC: u16 = 1 << 13;
        let end = body.len().checked_sub(16)?;
        let at_ns = if kind == SAMPLE { word(body, 8)? } else { word(body, end + 8)? };
        let process = half(body, 0)?;
        let event = match kind {
            LOST => {
                self.lost = self.lost.saturating_add(word(body, 8)?);
                return None;
            }
            COMM if misc & COMM_EXEC != 0 => Event::Executes,
            COMM if text(body.get(8..end)?) == SPECULATOR => Event::BecomesSpeculator,
            EXIT if half(body, 8)? == process => Event::Exit,
            FORK if half(body, 4)? != process => Event::Fork { parent: half(body, 4)? },
            SAMPLE => {
                self.has_faults = true;
                Event::Fault { address: word(body, 16)? }
            }
            MMAP2 => {
                let (start, length) = (word(body, 8)?, word(body, 16)?);
                let path = self.file(text(body.get(64..end)?))?;
                Event::Maps { addresses: start..start.checked_add(length)?, offset: word(body, 24)?, path }
            }
            _ => return None,
        };
        Some(Record { at_ns, process, event })
    }

    /// The one copy of a file's path. What has no path covers the mapping that was there, too.
    fn file(&mut self, path: &[u8]) -> Option<Arc<[u8]>> {
        if let Some(known) = self.files.get(path) {
            return Some(Arc::clone(known));
        }
        if self.files.len() >= FILES_MAX {
            return None;
        }
        let shared: Arc<[u8]> = path.into();
        self.files.insert(path.to_vec(), Arc::clone(&shared));
        Some(shared)
    }

    /// Digests what is older than the last look.
    fn digest_older(&mut self) {
        let before = self.newest_ns;
        self.newest_ns = self.waiting.iter().map(|record| record.at_ns).max().unwrap_or(0).max(before);
        self.waiting.sort_by_key(|record| record.at_ns);
        let older = self.waiting.partition_point(|record| record.at_ns <= before);
        let digested: Vec<Record> = self.waiting.drain(..older).collect();
        digested.into_iter().for_each(|record| self.digest(record));
    }

    fn digest(&mut self, Record { at_ns, process, event }: Record) {
        match event {
            Event::Fork { parent } => {
                let of_parent = self.processes.get(&parent).cloned().unwrap_or_default();
                self.processes.insert(process, of_parent);
                self.speculators.remove(&process);
            }
            Event::Exit => {
                self.processes.remove(&process);
            }
            Event::Executes => {
                self.processes.insert(process, Process { is_new: true, ..Process::default() });
            }
            Event::BecomesSpeculator => {
                self.speculators.insert(process);
                self.faults.retain(|(of, _)| *of != process);
            }
            Event::Maps { addresses, offset, path } => {
                let state = self.processes.entry(process).or_default();
                if state.is_new && is_file(&path) && self.executed.len() < FAULTS_MAX {
                    self.used.push(Arc::clone(&path));
                    self.executed.push(Fault { at_ns, path: Arc::clone(&path), range: 0..0 });
                    state.is_new = false;
                }
                state.map(addresses, offset, path);
            }
            Event::Fault { address } => {
                let is_kept = self.faults.len() < FAULTS_MAX && !self.speculators.contains(&process);
                if let Some(state) = self.processes.get(&process).filter(|_| is_kept)
                    && let Some((path, range)) = state.read_around(address)
                {
                    self.used.push(Arc::clone(&path));
                    self.faults.push((process, Fault { at_ns, path, range }));
                }
            }
        }
    }

    fn finish(mut self) -> Found {
        self.newest_ns = u64::MAX;
        self.digest_older();
        let faults = self.faults.into_iter().map(|(_, fault)| fault).collect();
        Found { faults, executed: self.executed, lost: self.lost, files: Files::default(), used: self.used }
    }
}

impl Process {
    fn map(&mut self, addresses: Range<u64>, offset: u64, path: Arc<[u8]>) {
        let mappings = Arc::make_mut(&mut self.mappings);
        // What was there is covered: all of a mapping, or its beginning, middle or end.
        let covered: Vec<u64> = mappings
            .range(..addresses.end)
            .rev()
            .take_while(|(_, mapping)| mapping.end > addresses.start)
            .map(|(start, _)| *start)
            .collect();
        for start in covered {
            let Some(old) = mappings.remove(&start) else { continue };
            if old.end > addresses.end {
                let behind =
                    Mapping { offset: old.offset.saturating_add(addresses.end - start), ..old.clone() };
                mappings.insert(addresses.end, behind);
            }
            if start < addresses.start {
                mappings.insert(start, Mapping { end: addresses.start, ..old });
            }
        }
        mappings.insert(addresses.start, Mapping { end: addresses.end, offset, path });
    }

    /// What of a file the kernel reads for a fault at this address.
    fn read_around(&self, address: u64) -> Option<(Arc<[u8]>, Range<u64>)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        if address >= mapping.end || !is_file(&mapping.path) {
            return None;
        }
        let page = address / PAGE * PAGE;
        let first = page.saturating_sub(READ_AROUND_BYTES).max(*start);
        let last = page.saturating_add(READ_AROUND_BYTES).min(mapping.end);
        let offset = |address: u64| mapping.offset.saturating_add(address - start);
        Some((Arc::clone(&mapping.path), offset(first)..offset(last)))
    }
}

/// A line of `/proc/PID/maps` that is of a file.
fn mapping(line: &[u8]) -> Option<(Range<u64>, u64, Arc<[u8]>)> {
    let (head, path) = line.split_at_checked(line.iter().position(|byte| *byte == b'/')?)?;
    let mut words = str::from_utf8(head).ok()?.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?..number(end)?, number(words.nth(1)?)?, path.into()))
}

/// Memory without a file has names such as `//anon`, `[stack]`.
fn is_file(name: &[u8]) -> bool {
    name.starts_with(b"/") && !name.starts_with(b"//")
}

fn half(body: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?))
}

fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?))
}

/// Up to the terminator.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIBRARY: &[u8] = b"/lib/library";

    fn maps(addresses: Range<u64>, offset: u64, path: &[u8]) -> Event {
        Event::Maps { addresses, offset, path: path.into() }
    }

    /// What is found when events come in this order, each of the process with this number.
    fn found(events: Vec<(u32, Event)>) -> Found {
        let mut records = Records::default();
        for (at_ns, (process, event)) in (1..).zip(events) {
            records.waiting.push(Record { at_ns, process, event });
        }
        records.finish()
    }

    fn ranges(found: &Found) -> Vec<Range<u64>> {
        found.faults.iter().map(|fault| fault.range.clone()).collect()
    }

    #[test]
    fn a_fault_is_of_the_file_that_is_mapped_there_and_of_what_is_read_around_it() {
        let found = found(vec![
            (1, maps(0x10_0000..0x20_0000, 0x3000, LIBRARY)),
            (1, Event::Fault { address: 0x10_0123 }),
            (1, Event::Fault { address: 0x18_0fff }),
            (1, Event::Fault { address: 0x20_0000 }),
        ]);
        let middle = 0x3000 + 0x8_0000 - READ_AROUND_BYTES..0x3000 + 0x8_0000 + READ_AROUND_BYTES;
        assert_eq!(ranges(&found), [0x3000..0x3000 + READ_AROUND_BYTES, middle]);
        assert_eq!(&*found.faults[0].path, LIBRARY);
    }

    #[test]
    fn a_mapping_covers_what_was_there() {
        let found = found(vec![
            (1, maps(0x10_0000..0x40_0000, 0, LIBRARY)),
            (1, maps(0x20_0000..0x30_0000, 0, b"//anon")),
            (1, Event::Fault { address: 0x10_0000 }),
            (1, Event::Fault { address: 0x20_0000 }),
            (1, Event::Fault { address: 0x30_0000 }),
        ]);
        assert_eq!(ranges(&found), [0..READ_AROUND_BYTES, 0x20_0000..0x20_0000 + READ_AROUND_BYTES]);
    }

    #[test]
    fn children_have_the_mappings_of_their_parent_until_they_execute() {
        let found = found(vec![
            (1, maps(0..0x1000, 0, LIBRARY)),
            (2, Event::Fork { parent: 1 }),
            (2, Event::Fault { address: 0 }),
            (2, Event::Executes),
            (2, Event::Fault { address: 0 }),
            (2, maps(0..0x1000, 0x5000, b"/bin/program")),
            (2, Event::Fault { address: 0 }),
            (1, Event::Fault { address: 0 }),
        ]);
        assert_eq!(ranges(&found), [0..0x1000, 0x5000..0x6000, 0..0x1000]);
        assert_eq!(found.executed.len(), 1);
        assert_eq!(&*found.executed[0].path, b"/bin/program");
    }

    #[test]
    fn what_speculators_wait_for_is_not_found() {
        let found = found(vec![
            (1, maps(0..0x1000, 0, LIBRARY)),
            (2, Event::Fork { parent: 1 }),
            (2, Event::Fault { address: 0 }),
            (2, Event::BecomesSpeculator),
            (2, Event::Fault { address: 0 }),
        ]);
        assert!(found.faults.is_empty());
    }

    #[test]
    fn a_line_of_a_list_of_mappings_is_read() {
        let line = b"7f0010000000-7f0010021000 r-xp 00003000 fd:00 1234      /lib/a library";
        let (addresses, offset, path) = mapping(line).unwrap();
        assert_eq!((addresses, offset), (0x7f00_1000_0000..0x7f00_1002_1000, 0x3000));
        assert_eq!(&*path, b"/lib/a library");
        assert!(mapping(b"7ffc0000-7ffd0000 rw-p 00000000 00:00 0   [stack]").is_none());
    }

    #[test]
    fn records_of_several_processors_are_put_in_order() {
        let mut records = Records::default();
        let path: Arc<[u8]> = LIBRARY.into();
        let fault = Record { at_ns: 9, process: 1, event: Event::Fault { address: 0 } };
        records.waiting.push(fault);
        records.digest_older();
        let event = Event::Maps { addresses: 0..0x1000, offset: 0, path };
        records.waiting.push(Record { at_ns: 8, process: 1, event });
        assert_eq!(ranges(&records.finish()).first(), Some(&(0..0x1000)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0..12u8) {
            let mut records = Records::default();
            let mut record = bytes;
            if record.len() >= 8 {
                let length = (record.len() as u16).to_le_bytes();
                record[..8].copy_from_slice(&[kind, 0, 0, 0, 0, 0x20, length[0], length[1]]);
            }
            records.parse(&record);
            let _ = records.finish();
        }
    }
}
