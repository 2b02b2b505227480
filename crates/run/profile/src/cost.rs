//! What a cold start pays for what a profile knows: requests that a program alone makes one after the other.
//!
//! A request is one look-up, one listing, one link, or one piece of data of at most [`REQUEST_BYTES`].

use std::collections::HashMap;

use crate::need::Kind;
use crate::path::split;
use crate::profile::{Entry, Profile};
use crate::spans::PAGE_BYTES;

/// What the kernel reads ahead at a time, as a rule.
pub const REQUEST_BYTES: u64 = 128 << 10;

/// A price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Requests.
    pub requests: u64,
    /// Data.
    pub bytes: u64,
}

/// What costs how much: each list with the dearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Everything.
    pub total: Cost,
    /// Paths.
    pub paths: u64,
    /// Names in the longest path: look-ups that cannot be made at the same time.
    pub depth: u64,
    /// By how it is used. Data counts as executed, mapped or read, whichever of the file comes first.
    pub kinds: Vec<(Kind, Cost)>,
    /// By the folder that a path lies in.
    pub folders: Vec<(Vec<u8>, Cost)>,
    /// By path, of files with data alone.
    pub files: Vec<(Vec<u8>, Cost)>,
}

impl Costs {
    /// Of what a replay of the profile would fetch.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let mut costs = Self::default();
        let mut kinds: HashMap<Kind, Cost> = HashMap::new();
        let mut folders: HashMap<&[u8], Cost> = HashMap::new();
        for entry in profile.entries().iter().filter(|entry| profile.offers(entry.uses)) {
            let mut own = Cost::default();
            for (kind, cost) in parts(profile, entry) {
                own.add(cost);
                kinds.entry(kind).or_default().add(cost);
            }
            costs.total.add(own);
            costs.paths += 1;
            let depth = entry.path.iter().filter(|byte| **byte == b'/').count();
            costs.depth = costs.depth.max(depth as u64);
            folders.entry(split(&entry.path).0).or_default().add(own);
            if own.bytes > 0 {
                costs.files.push((entry.path.clone(), own));
            }
        }
        costs.kinds = kinds.into_iter().collect();
        let named = |(folder, cost): (&[u8], Cost)| {
            (if folder.is_empty() { b"/".to_vec() } else { folder.to_vec() }, cost)
        };
        costs.folders = folders.into_iter().map(named).collect();
        dearest_first(&mut costs.kinds, |cost| (cost.requests, cost.bytes));
        dearest_first(&mut costs.folders, |cost| (cost.requests, cost.bytes));
        dearest_first(&mut costs.files, |cost| (cost.bytes, cost.requests));
        costs
    }
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// What one path costs, by kind.
fn parts(profile: &Profile, entry: &Entry) -> impl Iterator<Item = (Kind, Cost)> {
    let one = Cost { requests: 1, bytes: 0 };
    let name = match entry.kinds {
        kinds if kinds.has(Kind::Directory) => Kind::Directory,
        kinds if kinds.has(Kind::Missing) => Kind::Missing,
        kinds if kinds.has(Kind::Link) => Kind::Link,
        _ => Kind::LookUp,
    };
    let spans = entry.spans.iter().filter(|span| profile.offers(span.uses));
    let mut data = Cost::default();
    for span in spans {
        let size = entry.identity.map_or(0, |identity| identity.size);
        let bytes = (span.pages.end * PAGE_BYTES).min(size).saturating_sub(span.pages.start * PAGE_BYTES);
        data.add(Cost { requests: bytes.div_ceil(REQUEST_BYTES), bytes });
    }
    let user = [Kind::Executed, Kind::Mapped].into_iter().find(|kind| entry.kinds.has(*kind));
    let data = (data.requests > 0).then_some((user.unwrap_or(Kind::Read), data));
    [(name, one)].into_iter().chain(data)
}

fn dearest_first<T: Ord, K: Ord>(list: &mut [(T, Cost)], price: impl Fn(&Cost) -> K) {
    list.sort_by(|(left, left_cost), (right, right_cost)| {
        price(right_cost).cmp(&price(left_cost)).then_with(|| left.cmp(right))
    });
}
