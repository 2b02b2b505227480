//! What must hold for any bytes, for property tests and for fuzzing.

use forebay_profile::format::{BYTES_MAX, ITEMS_MAX, MAGIC, PACK_MAGIC, VERSION, decode, encode};
use forebay_profile::{Act, Identity, Kind, Need, Pack, Plan, Profile, path};

/// Longest piece of a file that a plan fetches at once.
const PIECE_BYTES_MAX: u64 = 16 << 20;

/// Reads any bytes, as they are and as the body of a profile with a right head.
pub fn bytes(data: &[u8]) {
    let whole = decode(data);
    if let Ok(profile) = whole {
        profile_holds(profile);
    }
    if let Ok(profile) = decode(&with_head(&MAGIC, data)) {
        profile_holds(profile);
    }
    for pack in [Pack::decode(data), Pack::decode(&with_head(&PACK_MAGIC, data))].into_iter().flatten() {
        pack_holds(&pack);
    }
}

/// A body behind the head that belongs to it.
pub fn with_head(magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(crc32fast::hash(body).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// What holds for each profile that is read: its rules, the way there and back, its plan, and one more run.
pub fn profile_holds(profile: Profile) {
    assert_eq!(decode(&encode(&profile)).as_ref(), Ok(&profile));
    let entries = profile.entries();
    assert!(entries.iter().map(|entry| 1 + entry.spans.len()).sum::<usize>() <= ITEMS_MAX);
    assert!(entries.is_sorted_by(|left, right| path::order(&left.path) < path::order(&right.path)));
    for entry in entries {
        assert!(path::is_proper(&entry.path));
        assert!(entry.spans.is_sorted_by(|left, right| left.pages.end <= right.pages.start));
        assert!(entry.spans.iter().all(|span| span.pages.start < span.pages.end));
    }
    plan_holds(&profile);
    let last = entries.last().map_or(b"/a".to_vec(), |entry| entry.path.clone());
    let need = |path, range| Need { at_us: 1, path, kind: Kind::Read, range };
    let needs = [need(last, 0..1 << 20), need(b"/b/c".to_vec(), 1..2)];
    let identity = Identity { dev: 1, ino: 1, size: 1 << 19, mtime_ns: -1 };
    let learned = profile.learn(&needs, |_| Some(identity), u64::MAX);
    let bytes = encode(&learned);
    assert!(bytes.len() <= BYTES_MAX);
    assert_eq!(decode(&bytes), Ok(learned));
}

/// What holds for each pack that is read: the way there and back, its steps below a root, its costs, and merging it.
pub fn pack_holds(pack: &Pack) {
    assert_eq!(Pack::decode(&pack.encode()).as_ref(), Ok(pack));
    let steps = pack.clone().plan(b"/root").take(10 * ITEMS_MAX);
    assert!(
        steps.into_iter().all(|step| step.path.starts_with(b"/root/") && path::is_proper(&step.path[5..]))
    );
    let costs = pack.costs();
    assert_eq!(costs.paths as usize, pack.entries().len());
    assert_eq!(costs.kinds.iter().map(|(_, cost)| cost.requests).sum::<u64>(), costs.total.requests);
    let cut = pack.clone().merge(pack.clone()).cut_off(costs.total.bytes / 2);
    assert_eq!(Pack::decode(&cut.encode()), Ok(cut));
}

fn plan_holds(profile: &Profile) {
    let plan = Plan::new(profile.clone());
    // A hostile profile may name large files that it does not need much of; a plan still has few steps for each.
    for step in plan.take(10 * ITEMS_MAX) {
        if let Act::Data { identity, range, .. } = &step.act {
            assert!(range.start < range.end && range.end <= identity.size);
            assert!(range.end - range.start <= PIECE_BYTES_MAX);
        }
    }
}
