//! A profile, and how it learns from a run.
//!
//! A profile keeps what the last two recorded runs used; what neither of them used is forgotten. Times are those of the
//! latest run that needed something. A profile stays within the limits of its format by forgetting what is needed last.

use std::collections::HashMap;

use crate::format::{self, COMMAND_BYTES_MAX};
use crate::key::{Key, Level};
use crate::need::{Identity, Kind, Kinds, Need};
use crate::path;
use crate::plan::PIECE_PAGES_MAX;
use crate::spans::{self, Span, Touched, Uses, pages_of};

/// What runs of a command needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(crate) key: Key,
    pub(crate) origin: Origin,
    pub(crate) runs: u32,
    pub(crate) last_use_s: u64,
    /// In the order of [`path::order`], each path once.
    pub(crate) entries: Vec<Entry>,
}

/// The command that a profile was recorded from, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub(crate) command: Vec<Vec<u8>>,
    pub(crate) directory: Vec<u8>,
}

/// One path that runs needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Absolute, without `.` and `..`.
    pub path: Vec<u8>,
    /// How the latest run that needed it used it.
    pub kinds: Kinds,
    /// Which runs used it.
    pub uses: Uses,
    /// When the latest run that needed it did so first, in microseconds since its start.
    pub first_us: u32,
    /// The file that `spans` are of; nothing where there are none.
    pub identity: Option<Identity>,
    /// Its parts that runs needed, in the order of the file.
    pub spans: Vec<Span>,
}

impl Origin {
    /// The command line and its working directory, cut off where they are long.
    #[must_use]
    pub fn new(command: &[&[u8]], directory: &[u8]) -> Self {
        let mut room = COMMAND_BYTES_MAX;
        let mut kept = Vec::new();
        for part in command {
            // An empty argument takes room, too, or their number had no limit.
            let Some(most) = room.checked_sub(1) else { break };
            let part = &part[..part.len().min(most)];
            room -= part.len() + 1;
            kept.push(part.to_vec());
        }
        Self { command: kept, directory: directory[..directory.len().min(path::PATH_BYTES_MAX)].to_vec() }
    }

    /// The program and its arguments, as far as they are kept.
    #[must_use]
    pub fn command(&self) -> &[Vec<u8>] {
        &self.command
    }

    /// The working directory.
    #[must_use]
    pub fn directory(&self) -> &[u8] {
        &self.directory
    }
}

impl Profile {
    /// A profile that knows nothing.
    #[must_use]
    pub fn new(key: Key, origin: Origin) -> Self {
        Self { key, origin, runs: 0, last_use_s: 0, entries: Vec::new() }
    }

    /// What it is kept under.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The command of its latest run.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Runs that taught it.
    #[must_use]
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// When it last learned, in seconds since 1970.
    #[must_use]
    pub fn last_use_s(&self) -> u64 {
        self.last_use_s
    }

    /// All that it knows, folders before what is in them.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether a replay fetches what these runs used. A whole command's profile offers all that it keeps. One that several
    /// commands share offers what both of the last two runs used.
    #[must_use]
    pub fn offers(&self, uses: Uses) -> bool {
        self.key.level == Level::Whole || self.runs < 2 || uses.in_both()
    }

    /// With what one more run needed. A run that needed nothing teaches nothing.
    ///
    /// `identity_of` says what a file is now that the run has ended; nothing if it is gone. `now_s` is in seconds since 1970.
    #[must_use]
    pub fn learn<'need>(
        self,
        needs: impl IntoIterator<Item = &'need Need>,
        identity_of: impl Fn(&[u8]) -> Option<Identity>,
        now_s: u64,
    ) -> Self {
        self.learn_seen(true, needs, identity_of, now_s)
    }

    /// As [`Self::learn`]. Of a run of which not all needs were seen (`sees_all`), nothing is forgotten.
    #[must_use]
    pub fn learn_seen<'need>(
        mut self,
        sees_all: bool,
        needs: impl IntoIterator<Item = &'need Need>,
        identity_of: impl Fn(&[u8]) -> Option<Identity>,
        now_s: u64,
    ) -> Self {
        let mut needs: Vec<&Need> = needs.into_iter().filter(|need| path::is_proper(&need.path)).collect();
        if needs.is_empty() {
            return self;
        }
        needs.sort_by_key(|need| need.at_us);
        let mut run: HashMap<&[u8], Seen> = HashMap::new();
        for need in needs {
            run.entry(&need.path).or_insert_with(|| Seen::first(need)).add(need);
        }
        let mut entries = Vec::with_capacity(self.entries.len().max(run.len()));
        for entry in self.entries {
            entries.extend(match run.remove(entry.path.as_slice()) {
                Some(seen) => seen.onto(entry, sees_all, &identity_of),
                None if sees_all => entry.unused(),
                None => Some(entry),
            });
        }
        for (path, seen) in run {
            entries.extend(seen.onto(Entry::unknown(path.to_vec()), sees_all, &identity_of));
        }
        entries.sort_by_cached_key(|entry| path::order(&entry.path));
        self.entries = entries;
        self.runs = self.runs.saturating_add(1);
        self.last_use_s = now_s;
        self.fit();
        self
    }

    /// The same, recorded from another command now.
    #[must_use]
    pub fn recorded_from(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// Forgets as much as the limits of the format ask for: first when exactly parts of files were needed, then what the last
    /// run did not use, then what is needed last.
    pub(crate) fn fit(&mut self) {
        if format::fullness(self) <= 1.0 {
            return;
        }
        for entry in &mut self.entries {
            spans::coarsen(&mut entry.spans, PIECE_PAGES_MAX);
        }
        loop {
            let fullness = format::fullness(self);
            if fullness <= 1.0 {
                return;
            }
            // Items differ in length, so the share that fits is approached from above.
            let items = self.entries.iter().map(|entry| 1 + entry.spans.len()).sum::<usize>();
            self.keep_first((items as f64 / fullness) as usize * 15 / 16);
        }
    }

    /// Keeps that many paths and ranges, those needed first.
    fn keep_first(&mut self, count: usize) {
        let rank = |uses: Uses, first_us: u32| (!uses.in_last(), first_us);
        let mut ranks = Vec::new();
        for (number, entry) in self.entries.iter().enumerate() {
            let spans = entry.spans.iter().map(|span| rank(span.uses, span.first_us));
            // A path ranks before all of its ranges, which need it.
            let own = spans.clone().fold(rank(entry.uses, entry.first_us), Ord::min);
            ranks.push((own, number, None));
            ranks.extend(spans.zip(0..).map(|(rank, at)| (rank, number, Some(at))));
        }
        ranks.sort_unstable();
        ranks.truncate(count);
        let mut kept: Vec<(bool, Vec<bool>)> =
            self.entries.iter().map(|entry| (false, vec![false; entry.spans.len()])).collect();
        for (_, number, span) in ranks {
            kept[number].0 = true;
            if let Some(at) = span {
                kept[number].1[at] = true;
            }
        }
        let entries = std::mem::take(&mut self.entries).into_iter().zip(kept);
        self.entries = entries
            .filter_map(|(mut entry, (is_kept, spans))| {
                let mut spans = spans.into_iter();
                entry.spans.retain(|_| spans.next().unwrap_or_default());
                is_kept.then(|| entry.without_spare_identity())
            })
            .collect();
    }
}

impl Entry {
    fn unknown(path: Vec<u8>) -> Self {
        let kinds = Kinds::default();
        Self { path, kinds, uses: Uses::LAST, first_us: 0, identity: None, spans: Vec::new() }
    }

    /// After a run that did not need it. Nothing where the run before did not, either.
    fn unused(mut self) -> Option<Self> {
        self.uses = self.uses.after(false)?;
        self.spans = spans::overlay(&self.spans, &Touched::default(), true);
        Some(self.without_spare_identity())
    }

    fn without_spare_identity(mut self) -> Self {
        self.identity = self.identity.filter(|_| !self.spans.is_empty());
        self
    }
}

/// How one run used one path.
struct Seen {
    kinds: Kinds,
    first_us: u32,
    touched: Touched,
}

impl Seen {
    fn first(need: &Need) -> Self {
        Self { kinds: Kinds::of(need.kind), first_us: need.at_us, touched: Touched::default() }
    }

    /// Adds a later need. A path that was missing at first is a file that the run itself made, so its data were in memory.
    fn add(&mut self, need: &Need) {
        let was_missing = self.kinds.has(Kind::Missing);
        if was_missing != (need.kind == Kind::Missing) {
            return;
        }
        self.kinds = self.kinds.with(need.kind);
        let pages = match need.kind {
            Kind::Read | Kind::Mapped => pages_of(&need.range),
            // The kernel reads the head of what it executes.
            Kind::Executed => Some(pages_of(&need.range).unwrap_or(0..1)),
            Kind::Directory | Kind::LookUp | Kind::Missing | Kind::Link => None,
        };
        if let Some(pages) = pages {
            self.touched.add(pages, need.at_us);
        }
    }

    /// What is known of the path after this run. Nothing where the file is gone.
    fn onto(
        self,
        before: Entry,
        sees_all: bool,
        identity_of: impl Fn(&[u8]) -> Option<Identity>,
    ) -> Option<Entry> {
        let identity =
            if self.touched.is_empty() { before.identity } else { Some(identity_of(&before.path)?) };
        let is_known = !before.kinds.is_empty();
        let is_same = !self.kinds.has(Kind::Missing)
            && before.identity.zip(identity).is_some_and(|(before, now)| before.is_unchanged(&now));
        // A run that finds a mapped file in memory may see no fault of it.
        let sees_mapped = !before.kinds.has(Kind::Mapped) || self.kinds.has(Kind::Mapped);
        let keeps_mapped = is_same && !sees_mapped;
        let sees_all = sees_all && sees_mapped;
        let mut spans = spans::overlay(if is_same { &before.spans } else { &[] }, &self.touched, sees_all);
        spans::cut_off(&mut spans, identity.map_or(0, |identity| identity.pages()));
        let entry = Entry {
            path: before.path,
            kinds: if keeps_mapped { self.kinds.with(Kind::Mapped) } else { self.kinds },
            uses: if is_known { before.uses.after(true)? } else { Uses::LAST },
            first_us: self.first_us,
            identity,
            spans,
        };
        Some(entry.without_spare_identity())
    }
}
