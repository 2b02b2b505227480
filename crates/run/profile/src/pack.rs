//! A pack: a profile to ship, of what lies below one folder.
//!
//! Its paths are seen from that folder, its root, and its files are known by size and time of change alone. So it serves a copy
//! of the folder on another machine. The format has names and no paths, so no pack can lead out of its root by `..`.

use std::collections::HashMap;

use crate::cost::Costs;
use crate::format::{self, FormatError};
use crate::key::{Key, Level};
use crate::need::{Identity, Kind};
use crate::path::{self, absolute};
use crate::plan::Plan;
use crate::profile::{Entry, Origin, Profile};
use crate::spans::{PAGE_BYTES, Span, Touched, Uses, overlay};

/// The key of all packs.
const KEY: Key = Key { level: Level::Whole, digest: [0; 32] };

/// A profile whose paths begin at a root that is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack(Profile);

impl Pack {
    /// What a replay of `profile` would fetch below `root`. The working directory is left out.
    #[must_use]
    pub fn of(profile: Profile, root: &[u8]) -> Self {
        let root = absolute(b"/", root);
        let command: Vec<&[u8]> = profile.origin.command.iter().map(Vec::as_slice).collect();
        let origin = Origin::new(&command, b"");
        let offers = |uses| profile.offers(uses);
        let packed = |entry: &Entry| {
            let rest =
                if root == b"/" { Some(entry.path.as_slice()) } else { entry.path.strip_prefix(&root[..]) };
            let path = rest.filter(|rest| rest.len() > 1 && rest[0] == b'/')?.to_vec();
            let spans = entry.spans.iter().filter(|span| offers(span.uses));
            let spans: Vec<Span> = spans.map(|span| Span { uses: Uses::LAST, ..span.clone() }).collect();
            let identity = entry.identity.map(|identity| Identity { dev: 0, ino: 0, ..identity });
            let identity = identity.filter(|_| !spans.is_empty());
            offers(entry.uses).then(|| Entry { path, uses: Uses::LAST, identity, spans, ..entry.clone() })
        };
        let entries = profile.entries.iter().filter_map(packed).collect();
        Self::new(origin, profile.runs, profile.last_use_s, entries)
    }

    fn new(origin: Origin, runs: u32, last_use_s: u64, mut entries: Vec<Entry>) -> Self {
        entries.sort_by_cached_key(|entry| path::order(&entry.path));
        let mut profile = Profile { key: KEY, origin, runs, last_use_s, entries };
        profile.fit();
        Self(profile)
    }

    /// What both packs have. Where they differ about a file, `other` is right.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let mut entries: HashMap<Vec<u8>, Entry> = HashMap::new();
        for entry in self.0.entries.into_iter().chain(other.0.entries) {
            let merged = match entries.remove(&entry.path) {
                Some(before) => merged(before, entry),
                None => entry,
            };
            entries.insert(merged.path.clone(), merged);
        }
        let runs = self.0.runs.saturating_add(other.0.runs);
        let last_use_s = self.0.last_use_s.max(other.0.last_use_s);
        Self::new(other.0.origin, runs, last_use_s, entries.into_values().collect())
    }

    /// With at most so many bytes of data, those that are needed first. All look-ups stay.
    #[must_use]
    pub fn cut_off(mut self, bytes_max: u64) -> Self {
        let spans = self.0.entries.iter().flat_map(|entry| &entry.spans);
        let mut needs: Vec<(u32, u64)> =
            spans.map(|span| (span.first_us, (span.pages.end - span.pages.start) * PAGE_BYTES)).collect();
        needs.sort_unstable();
        let mut room = bytes_max;
        let fits = |(_, bytes): &&(u32, u64)| {
            let rest = room.checked_sub(*bytes);
            room = rest.unwrap_or(room);
            rest.is_some()
        };
        let fitting = needs.iter().take_while(fits).count();
        let Some((end_us, _)) = needs.get(fitting).copied() else { return self };
        for entry in &mut self.0.entries {
            entry.spans.retain(|span| span.first_us < end_us);
            entry.identity = entry.identity.filter(|_| !entry.spans.is_empty());
        }
        self
    }

    /// What to fetch below `root`.
    #[must_use]
    pub fn plan(self, root: &[u8]) -> Plan {
        let root = absolute(b"/", root);
        let mut profile = self.0;
        if root != b"/" {
            for entry in &mut profile.entries {
                entry.path = [root.as_slice(), &entry.path].concat();
            }
        }
        Plan::new(profile)
    }

    /// What a cold start pays for what it has, with paths that begin at its root.
    #[must_use]
    pub fn costs(&self) -> Costs {
        Costs::of(&self.0)
    }

    /// What it has, with paths that begin at its root.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.0.entries
    }

    /// The command that it was recorded from.
    #[must_use]
    pub fn command(&self) -> &[Vec<u8>] {
        &self.0.origin.command
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        format::encode_as(&format::PACK_MAGIC, &self.0)
    }

    /// The pack that these bytes are.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let profile = format::decode_as(&format::PACK_MAGIC, bytes)?;
        if is_packed(&profile) { Ok(Self(profile)) } else { Err(FormatError::NotPacked) }
    }
}

/// Whether a profile has nothing of the machine and the runs that it was recorded in.
fn is_packed(profile: &Profile) -> bool {
    let is_plain = |entry: &Entry| {
        entry.uses == Uses::LAST
            && entry.identity.is_none_or(|identity| identity.dev == 0 && identity.ino == 0)
            && entry.spans.iter().all(|span| span.uses == Uses::LAST)
    };
    profile.key == KEY && profile.origin.directory.is_empty() && profile.entries.iter().all(is_plain)
}

/// What two packs know of one path.
fn merged(before: Entry, now: Entry) -> Entry {
    if before.kinds.has(Kind::Missing) != now.kinds.has(Kind::Missing) {
        return now;
    }
    let changed = before.identity.zip(now.identity).is_some_and(|(before, now)| !before.is_unchanged(&now));
    let mut parts: Vec<&Span> = if changed { Vec::new() } else { before.spans.iter().collect() };
    parts.extend(&now.spans);
    parts.sort_by_key(|span| span.first_us);
    let mut touched = Touched::default();
    for span in parts {
        touched.add(span.pages.clone(), span.first_us);
    }
    Entry {
        kinds: before.kinds.and(now.kinds),
        first_us: before.first_us.min(now.first_us),
        identity: now.identity.or(before.identity),
        spans: overlay(&[], &touched, true),
        ..now
    }
}
