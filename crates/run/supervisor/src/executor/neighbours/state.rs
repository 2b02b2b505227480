//! What the executor knows of a program's needs: the places in which they lie, and what of these is read ahead.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed},
    },
    time::Duration,
};

use forebay_policy::{
    fork::Ran,
    neighbours::Neighbours as Policy,
    price::{AT_ONCE_HOPED, NEIGHBOURS_TOGETHER, PRICE_ONE},
};
use forebay_profile::Kind;
use forebay_protocol::{
    access_log::{AccessLog, TIME_SHIFT},
    layout::{Header, NO_SLOT, told},
};

use super::{
    Step,
    opens::{Opened, Opens},
    place::{BLOCK_BYTES, BLOCKS_MAX, Member, Next, Part, Place, joined, kind_of},
    siblings::{Entered, First, Siblings},
    taken::Taken,
};
use crate::{
    channel::Channel,
    devices::{limit_of, reads_far_ahead},
    executor::{Done, Wanted},
    ffi,
    profiles::{
        access::{Entry, LogReader},
        files::device_of,
    },
};

/// Places and their members that are remembered, at most.
const PLACES_MAX: usize = 1 << 13;
/// Ranges of files that may grow as the program reads on, at most.
const RANGES_MAX: usize = 16;
const MEMBERS_MAX: usize = 1 << 17;

/// See the module.
pub struct State {
    policy: Policy,
    log: LogReader,
    /// Words of the log, and waits of the program, that have been looked at.
    head: u64,
    waits: u64,
    wait_ticks: u64,
    /// The same at the last look that found something to read.
    found: u64,
    /// Waits that no need is known to have caused yet.
    unexplained: u64,
    /// Requests that the device of the last file serves at once.
    depth: u32,
    /// Folders that programs without an agent open files in.
    opens: Opens,
    places: Vec<Place>,
    /// Where they are, by the paths of folders and files.
    by_path: HashMap<Arc<[u8]>, usize>,
    /// Folders that the program has listed, or may list, with the tree that each is of, and when it was listed.
    folders: HashMap<Arc<[u8]>, Folder>,
    siblings: Siblings,
    /// The last ranges that the program began to read.
    ranges: VecDeque<Range>,
    taken: Vec<Taken>,
    by_member: HashMap<Member, usize>,
    /// Places in which the program needed something since the last choice.
    touched: Vec<usize>,
    ready: VecDeque<Step>,
    jobs: u64,
}

/// A folder of a tree.
struct Folder {
    tree: usize,
    /// When the program listed it.
    listed: Option<u32>,
}

/// A range that is read in sequence.
struct Range {
    /// The place of its record in the log.
    record: u32,
    path: Arc<[u8]>,
    /// The block in which it ended.
    block: u64,
}

impl State {
    /// Of a program that has needed nothing yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            log: LogReader::default(),
            head: 0,
            waits: 0,
            wait_ticks: 0,
            found: 0,
            unexplained: 0,
            depth: AT_ONCE_HOPED,
            opens: Opens::default(),
            places: Vec::new(),
            by_path: HashMap::new(),
            folders: HashMap::new(),
            siblings: Siblings::default(),
            ranges: VecDeque::new(),
            taken: Vec::new(),
            by_member: HashMap::new(),
            touched: Vec::new(),
            ready: VecDeque::new(),
            jobs: 0,
        }
    }

    /// Looks at what the program has waited for and needed since the last look, and chooses what to read ahead of where it is now.
    pub fn look(&mut self, channel: &Channel, is_remote: impl Fn(u64) -> bool) {
        let (header, log) = (channel.header(), channel.access_log());
        let waits = header.neighbours.waits.load(Acquire);
        let ticks = header.neighbours.wait_ticks.load(Relaxed);
        let (more, longer) = (waits.saturating_sub(self.waits), ticks.saturating_sub(self.wait_ticks));
        self.policy.on_waits(more, longer, self.depth);
        (self.waits, self.wait_ticks, self.unexplained) = (waits, ticks, more);
        self.look_at_opens(header, log);
        if more > 0 {
            self.look_at_ranges(header, log);
        }
        let head = log.head.load(Acquire);
        if std::mem::replace(&mut self.head, head) != head {
            self.look_at_log(header, log, is_remote);
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().for_each(|place| self.choose(place));
        if !self.ready.is_empty() {
            self.found = ticks;
        }
        let pause = self.policy.pause(ticks.saturating_sub(self.found));
        let next = if self.ready.is_empty() { ticks.saturating_add(pause) } else { ticks };
        header.neighbours.look_at.store(next, Relaxed);
    }

    fn look_at_log(&mut self, header: &Header, log: &AccessLog, is_remote: impl Fn(u64) -> bool) {
        while let Some(entry) = self.log.next(log) {
            match entry {
                Entry::File { opened, path, identity } if identity.size > 0 && !is_remote(identity.dev) => {
                    self.depth = depth(header, identity.dev);
                    // A file that was opened before the log began is told when it is read.
                    let is_far = reads_far_ahead(header, identity.dev);
                    if let Some(file) = Place::file(path.clone(), identity.size, is_far) {
                        self.add(&path, || file);
                    }
                    if let Some(at) = opened {
                        self.on_opened(header, at, &path);
                    }
                }
                Entry::Needed { at, path, kind: Kind::Read, range } => {
                    let block = range.start / BLOCK_BYTES;
                    self.on_read(header, at, &path, block);
                    if self.by_path.contains_key(&path) {
                        self.ranges.truncate(RANGES_MAX - 1);
                        self.ranges.push_front(Range { record: self.log.last(), path, block });
                    }
                }
                Entry::Needed { at, path, kind: Kind::LookUp, .. } => {
                    self.on_looked_up(header, at, &path, &is_remote);
                }
                Entry::Needed { at, path, kind: Kind::Directory, .. } => {
                    self.on_folder_listed(header, at, &path, &is_remote);
                }
                _ => {}
            }
        }
    }

    /// Looks at what was opened in folders that are watched.
    pub fn look_at_opens(&mut self, header: &Header, log: &AccessLog) {
        let at = now(log);
        for Opened { folder, name } in self.opens.take() {
            let path = joined(&folder, &name);
            let member = |part| self.by_member.get(&Member { path: path.clone(), part }).copied();
            let members = [Part::START, Part::Files, Part::Folders].map(member);
            if members == [None; 3] {
                if let Some(place) = self.by_path.get(&folder) {
                    self.places[*place].on_opened(&name);
                }
                continue;
            }
            // Each job opened it, too.
            let begun = members.iter().flatten().filter(|member| self.taken[**member].begun > 0).count();
            for number in members.into_iter().flatten() {
                let taken = &mut self.taken[number];
                taken.opens += 1;
                if taken.opens as usize <= begun {
                    continue;
                }
                if taken.needed.is_none() {
                    taken.needed = Some(at);
                    taken.write_down(log, at);
                }
                let (place, part) = (taken.place, taken.member.part);
                self.settle(header, number);
                self.touched.push(place);
                if part == Part::START {
                    self.on_entered(header, at, &folder, First { name: name.clone(), part }, |_| true);
                }
            }
        }
    }

    /// Looks at how far the program has come in what it reads in sequence.
    fn look_at_ranges(&mut self, header: &Header, log: &AccessLog) {
        for number in 0..self.ranges.len() {
            let Some(Range { record, path, block }) = self.ranges.get_mut(number) else { return };
            let end = log.end_of(*record).unwrap_or(0).saturating_sub(1) / BLOCK_BYTES;
            let (from, path) = (std::mem::replace(block, end.max(*block)), path.clone());
            for block in (from + 1..=end).take(BLOCKS_MAX as usize) {
                self.on_read(header, now(log), &path, block);
            }
        }
    }

    /// Whether there may be something to do after so many waits of the program.
    pub fn has_ready(&self, waits: u64) -> bool {
        !self.ready.is_empty() || self.waits != waits
    }

    /// Nothing can be done now.
    pub fn clear(&mut self) {
        self.ready.clear();
    }

    /// The number of the next job.
    pub const fn count(&mut self) -> u64 {
        self.jobs += 1;
        self.jobs
    }

    /// The names in the folder of a place are known.
    pub fn on_listed(&mut self, header: &Header, place: usize, mut names: Vec<Box<[u8]>>) {
        let Some(folder) = self.places.get_mut(place) else { return };
        if folder.has_folders() {
            names = self.siblings.not_entered(folder.path(), names);
        }
        folder.on_listed(names);
        let path = folder.path().clone();
        self.watch(header, &path);
        self.choose(place);
    }

    /// Has the kernel tell what is opened in a folder that is in memory, where no agent does.
    fn watch(&mut self, header: &Header, folder: &Arc<[u8]>) {
        if header.neighbours.slot.load(Relaxed) == NO_SLOT {
            self.opens.watch(folder);
            let _ = header.neighbours.opens.compare_exchange(told::NONE, told::SOME, Relaxed, Relaxed);
        }
    }

    /// What was taken has been read, or found in memory.
    pub fn on_done(&mut self, header: &Header, number: usize, done: Done) {
        let Some(taken) = self.taken.get_mut(number) else { return };
        let (place, Member { path, part }) = (taken.place, taken.member.clone());
        taken.identity = done.identity;
        let ticks_per_us = header.ticks_per_second.load(Relaxed) / 1_000_000;
        let ticks = |time: Duration| ticks_per_us.saturating_mul(time.as_nanos() as u64) / 1_000;
        let busy = header.processor_price.load(Relaxed);
        let ran = Ran { ticks: ticks(done.processor), busy, beside: PRICE_ONE.unsigned_abs() };
        self.policy.on_done(taken.paid, ran.cost(), done.waited.is_some());
        if let Some(waited) = done.waited {
            header.neighbours.reads.fetch_add(1, Relaxed);
            header.neighbours.bytes.fetch_add(done.bytes, Relaxed);
            taken.waited = Some(ticks(waited));
            self.settle(header, number);
        } else {
            self.on_idle(place);
        }
        if let Some(names) = done.names {
            self.watch(header, &path);
            if part == Part::Files {
                self.on_sibling_listed(place, path, names);
            } else {
                self.on_folders(place, &path, &names);
            }
            self.choose(place);
        }
    }

    /// What was taken of this place is in memory without that.
    fn on_idle(&mut self, place: usize) {
        if let Some(place) = self.places.get_mut(place) {
            place.worth.on_idle();
        }
    }

    /// What to do next.
    pub fn next(&mut self, log: &AccessLog) -> Option<(Step, Arc<[u8]>, Wanted)> {
        let begun = now(log);
        loop {
            let step = self.ready.pop_front()?;
            match step {
                Step::List(place) => {
                    let place = self.places.get(place)?;
                    let wanted = if place.has_folders() { Wanted::Folders } else { Wanted::Names };
                    return Some((step, place.path().clone(), wanted));
                }
                Step::Read(number) => {
                    let taken = self.taken.get_mut(number)?;
                    let Member { path, part } = taken.member.clone();
                    let wanted = match part {
                        Part::Block(block) => {
                            let offset = block.saturating_mul(BLOCK_BYTES);
                            Wanted::Data { offset, length: BLOCK_BYTES, expected: None }
                        }
                        Part::LookUp => Wanted::LookUp { follow: true },
                        Part::Files => Wanted::Names,
                        Part::Folders => Wanted::Folders,
                    };
                    // The program may have been first. What it has listed, it may not have gone below yet.
                    if taken.needed.is_none() || part == Part::Folders {
                        taken.begun = begun;
                        return Some((step, path, wanted));
                    }
                    let place = taken.place;
                    self.policy.on_spared(taken.paid);
                    self.on_idle(place);
                }
            }
        }
    }

    /// The program opened this file for the first time.
    fn on_opened(&mut self, header: &Header, at: u32, path: &Arc<[u8]>) {
        let Some(end) = path.iter().rposition(|byte| *byte == b'/') else { return };
        let (folder, name): (Arc<[u8]>, _) = (path[..end].into(), &path[end + 1..]);
        if let Some(place) = self.add(&folder, || Place::folder(folder.clone())) {
            self.places[place].on_opened(name);
            self.on_needed(header, at, place, Member { path: path.clone(), part: Part::START });
            self.touched.push(place);
        }
        let first = First { name: name.into(), part: Part::START };
        self.on_entered(header, at, &folder, first, |_| true);
    }

    /// The program looked this path up, and may open it.
    fn on_looked_up(&mut self, header: &Header, at: u32, path: &Arc<[u8]>, is_remote: impl Fn(u64) -> bool) {
        let Some(end) = path.iter().rposition(|byte| *byte == b'/') else { return };
        if let Some(number) = self.by_member.get(&Member { path: path.clone(), part: Part::LookUp }).copied()
        {
            self.on_taken_needed(header, at, number);
        }
        let first = First { name: path[end + 1..].into(), part: Part::LookUp };
        let mut device = None;
        // Of what is opened, the identity tells it.
        let may_read = |above: &[u8]| {
            device = device_of(above).filter(|device| !is_remote(*device));
            device.is_some()
        };
        self.on_entered(header, at, &path[..end].into(), first, may_read);
        self.depth = device.map_or(self.depth, |device| depth(header, device));
    }

    /// The program needed a file in a folder. Other folders beside that one may have the same for it.
    fn on_entered(
        &mut self,
        header: &Header,
        at: u32,
        folder: &Arc<[u8]>,
        first: First,
        may_read: impl FnOnce(&[u8]) -> bool,
    ) {
        let places = &mut self.places;
        let add = |above: Arc<[u8]>| {
            let place = Some(places.len()).filter(|place| *place < PLACES_MAX)?;
            if !may_read(&above) {
                return None;
            }
            places.push(Place::folders(above));
            Some(place)
        };
        let Some(Entered { place, name }) = self.siblings.on_needed(folder, first, add) else { return };
        self.places[place].on_opened(&name);
        self.on_needed(header, at, place, Member { path: folder.clone(), part: Part::Files });
        self.touched.push(place);
    }

    /// The files in a folder beside others are known. The one with the name of what was needed first in the last such folder is read
    /// ahead, if there is one, and all of the same kind otherwise. Where files are only looked up, one is: those of a folder have their
    /// inodes side by side.
    fn on_sibling_listed(&mut self, place: usize, path: Arc<[u8]>, names: Vec<Box<[u8]>>) {
        let above = self.places.get(place).map(Place::path);
        let Some(First { name, part }) = above.and_then(|above| self.siblings.first(above)).cloned() else {
            return;
        };
        let same = names.binary_search(&name).ok();
        let alike = || names.iter().position(|other| kind_of(other) == kind_of(&name));
        match same.or_else(|| alike().filter(|_| part == Part::LookUp)) {
            Some(found) => self.take_one(place, Member { path: joined(&path, &names[found]), part }),
            None if part == Part::LookUp || self.by_path.contains_key(&path) => {}
            None => {
                let Some(number) = self.add(&path, || Place::folder(path.clone())) else { return };
                self.places[number].on_opened(&name);
                self.places[number].on_listed(names);
                self.choose(number);
            }
        }
    }

    /// Has this one read ahead, too.
    fn take_one(&mut self, place: usize, member: Member) {
        if self.by_member.contains_key(&member) || !self.policy.may_pay(1, self.depth) {
            return;
        }
        self.places[place].worth.on_taken();
        let paid = self.policy.pay(self.depth);
        self.begin(Taken::new(member, place, paid));
    }

    /// The program read this block of a file.
    fn on_read(&mut self, header: &Header, at: u32, path: &Arc<[u8]>, block: u64) {
        let Some(place) = self.by_path.get(path).copied() else { return };
        for block in self.places[place].on_read(block) {
            self.on_needed(header, at, place, Member { path: path.clone(), part: Part::Block(block) });
        }
        self.touched.push(place);
    }

    /// The program listed this folder.
    fn on_folder_listed(
        &mut self,
        header: &Header,
        at: u32,
        path: &Arc<[u8]>,
        is_remote: impl Fn(u64) -> bool,
    ) {
        let above = path.iter().rposition(|byte| *byte == b'/').map(|end| &path[..end.max(1)]);
        let known = |path: &[u8]| self.folders.get(path).map(|folder| folder.tree);
        let tree = match known(path).or_else(|| above.and_then(known)) {
            Some(tree) => tree,
            None => {
                let room = self.places.len() < PLACES_MAX;
                let device = room.then(|| device_of(path)).flatten();
                let Some(device) = device.filter(|device| !is_remote(*device)) else { return };
                self.depth = depth(header, device);
                self.places.push(Place::tree(path.clone()));
                self.places.len() - 1
            }
        };
        let folder = self.folders.entry(path.clone()).or_insert(Folder { tree, listed: None });
        if folder.listed.is_some() {
            return;
        }
        folder.listed = Some(at);
        let place = &mut self.places[tree];
        let (was_open, root) = (place.is_open(), place.path().clone());
        place.on_folder_listed();
        let is_open = place.is_open();
        self.on_needed(header, at, tree, Member { path: path.clone(), part: Part::Folders });
        if is_open && !was_open {
            self.places[tree].list_again(root);
        }
        if is_open {
            self.places[tree].list_again(path.clone());
        }
        self.touched.push(tree);
    }

    fn begin(&mut self, taken: Taken) {
        let number = self.taken.len();
        self.by_member.insert(taken.member.clone(), number);
        self.ready.push_back(Step::Read(number));
        self.taken.push(taken);
    }

    /// These folders are in a folder of a tree.
    fn on_folders(&mut self, tree: usize, below: &[u8], names: &[Box<[u8]>]) {
        if self.folders.len() >= MEMBERS_MAX {
            return;
        }
        let Some(place) = self.places.get_mut(tree) else { return };
        for path in place.on_folders(below, names) {
            self.folders.entry(path).or_insert(Folder { tree, listed: None });
        }
    }

    /// The program needed this of a place: it was read ahead, or the program may have waited for it.
    fn on_needed(&mut self, header: &Header, at: u32, place: usize, member: Member) {
        match self.by_member.get(&member).copied() {
            Some(taken) => self.on_taken_needed(header, at, taken),
            None if self.unexplained > 0 => {
                self.unexplained -= 1;
                self.places[place].worth.on_missed();
            }
            None => {}
        }
    }

    fn on_taken_needed(&mut self, header: &Header, at: u32, taken: usize) {
        let _ = self.taken[taken].needed.get_or_insert(at);
        self.settle(header, taken);
    }

    /// Has what is worth it read ahead of a place.
    fn choose(&mut self, place: usize) {
        let Some(at) = self.places.get_mut(place).filter(|place| place.is_open()) else { return };
        let mut room = self.policy.room(&mut at.worth, self.depth);
        if at.is_in_sequence() && !self.policy.may_pay(NEIGHBOURS_TOGETHER, self.depth) {
            return;
        }
        while room > 0 && self.taken.len() < MEMBERS_MAX && self.policy.may_pay(1, self.depth) {
            let Some(at) = self.places.get_mut(place) else { return };
            let Some(next) = at.take() else { return };
            match next {
                Next::List => {
                    self.policy.pay(self.depth);
                    self.ready.push_back(Step::List(place));
                }
                Next::Member(member) if self.by_member.contains_key(&member) => {}
                Next::Member(member) => {
                    room -= 1;
                    at.worth.on_taken();
                    let paid = self.policy.pay(self.depth);
                    let needed = self.folders.get(&member.path).and_then(|folder| folder.listed);
                    self.begin(Taken { needed, ..Taken::new(member, place, paid) });
                }
            }
        }
    }

    /// Pays for what was read and needed, once both are known.
    fn settle(&mut self, header: &Header, taken: usize) {
        let Some(Taken { place, begun, waited: Some(waited), needed: Some(needed), .. }) =
            self.taken.get_mut(taken)
        else {
            return;
        };
        let Some(ahead) = needed.checked_sub(*begun).filter(|ahead| *ahead > 0) else { return };
        // One is paid for once.
        let ahead = (u64::from(ahead) << TIME_SHIFT).min(std::mem::take(waited));
        if ahead > 0
            && let Some(place) = self.places.get_mut(*place)
        {
            header.neighbours.used.fetch_add(1, Relaxed);
            self.policy.on_used(&mut place.worth, ahead, self.depth);
        }
    }

    /// Where the place at this path is, if there is room for it.
    fn add(&mut self, path: &Arc<[u8]>, new: impl FnOnce() -> Place) -> Option<usize> {
        if let Some(place) = self.by_path.get(path) {
            return Some(*place);
        }
        let place = Some(self.places.len()).filter(|place| *place < PLACES_MAX)?;
        self.by_path.insert(path.clone(), place);
        self.places.push(new());
        Some(place)
    }
}

/// Requests that the device serves at once, as far as it is known.
fn depth(header: &Header, device: u64) -> u32 {
    limit_of(header, device.wrapping_add(1)).may_serve_at_once()
}

/// The time of the log.
pub fn now(log: &AccessLog) -> u32 {
    log.time(ffi::ticks())
}
