//! Profiles to ship.

mod support;

use forebay_profile::format::{self, FormatError};
use forebay_profile::{Act, Cost, Identity, Kind, Level, Need, Pack, Step};
use support::*;

fn pack(needs: &[Need]) -> Pack {
    Pack::of(empty(WHOLE).learn(needs, all_of(8 * MIB), 1), b"/app")
}

fn steps(pack: Pack, root: &str) -> Vec<Step> {
    pack.plan(root.as_bytes()).collect()
}

fn paths(steps: &[Step]) -> Vec<String> {
    steps.iter().map(|step| String::from_utf8_lossy(&step.path).into_owned()).collect()
}

fn bytes(pack: &Pack) -> u64 {
    pack.clone().plan(b"/").bytes()
}

#[test]
fn a_pack_serves_a_copy_elsewhere() {
    let needs = [
        read(2, "/app/lib/x", 0..MIB),
        missing(1, "/app/lib/y"),
        look_up(1, "/app"),
        read(1, "/lib/libc.so", 0..1),
        read(1, "/apple", 0..1),
    ];
    let shipped = Pack::decode(&pack(&needs).encode()).unwrap();
    let steps = steps(shipped, "/srv/copy/");
    assert_eq!(paths(&steps), ["/srv/copy/lib/x", "/srv/copy/lib/y", "/srv/copy/lib/x"]);
    let copy = Identity { dev: 7, ino: 8, ..file(8 * MIB, 1) };
    assert_eq!(steps[2].act.usable(Some(&copy)), Some(0..MIB));
    let Act::Data { identity, .. } = steps[2].act else { panic!("{steps:?}") };
    assert_eq!((identity.dev, identity.ino), (0, 0), "a pack tells nothing of the machine");
}

#[test]
fn the_root_of_all_keeps_paths_as_they_are() {
    let profile = empty(WHOLE).learn(&[read(1, "/lib/x", 0..1)], all_of(MIB), 1);
    assert_eq!(paths(&steps(Pack::of(profile, b"/"), "/")), ["/lib/x", "/lib/x"]);
}

#[test]
fn a_pack_has_what_a_replay_would_fetch() {
    let run = |own: &str| [read(1, "/app/both", 0..1), read(2, own, 0..1), look_up(3, "/app")];
    let general = empty(PROGRAM).learn(&run("/app/a"), all_of(MIB), 1).learn(&run("/app/b"), all_of(MIB), 2);
    assert_eq!(paths(&steps(Pack::of(general, b"/app"), "/r")), ["/r/both", "/r/both"]);
}

#[test]
fn packs_merge_and_the_latter_is_right() {
    let first = pack(&[read(5, "/app/f", 0..MIB), missing(1, "/app/later"), look_up(1, "/app/g")]);
    let second = pack(&[read(3, "/app/f", MIB..2 * MIB), read(1, "/app/later", 0..1), look_up(1, "/app/h")]);
    let merged = first.clone().merge(second.clone());
    assert_eq!(Pack::decode(&merged.encode()).as_ref(), Ok(&merged));
    let names: Vec<_> = merged.entries().iter().map(|entry| String::from_utf8_lossy(&entry.path)).collect();
    assert_eq!(names, ["/f", "/g", "/h", "/later"]);
    assert!(!merged.entries()[3].kinds.has(Kind::Missing));
    assert_eq!((bytes(&merged), merged.entries()[0].first_us), (2 * MIB + 4 * KIB, 3));

    let changed = empty(WHOLE).learn(&[read(1, "/app/f", 0..1)], |_| Some(file(MIB, 2)), 1);
    let merged = first.merge(Pack::of(changed, b"/app"));
    assert_eq!(merged.entries()[0].identity.unwrap().mtime_ns, 2);
    assert_eq!(bytes(&merged), 4 * KIB, "ranges of the former file are gone");
}

#[test]
fn a_pack_is_cut_off_at_what_is_needed_last() {
    let needs: Vec<Need> = (0..8).map(|at| read(at * 50_000, &format!("/app/{at}"), 0..MIB)).collect();
    let pack = pack(&needs);
    assert_eq!(bytes(&pack), 8 * MIB);
    for (max, left) in [(0, 0), (MIB - 1, 0), (3 * MIB, 3), (4 * MIB - 1, 3), (100 * MIB, 8)] {
        let cut = pack.clone().cut_off(max);
        assert_eq!(bytes(&cut), left * MIB);
        assert_eq!(cut.entries().len(), 8, "all look-ups stay");
        assert_eq!(Pack::decode(&cut.encode()), Ok(cut));
    }
}

#[test]
fn a_profile_is_no_pack_and_a_pack_no_profile() {
    let profile = empty(WHOLE).learn(&[look_up(1, "/app/a")], |_| None, 1);
    assert_eq!(Pack::decode(&format::encode(&profile)), Err(FormatError::OtherKind));
    assert_eq!(format::decode(&Pack::of(profile, b"/app").encode()), Err(FormatError::OtherKind));
}

#[test]
fn what_tells_of_the_machine_is_no_pack() {
    let profile = empty(WHOLE).learn(&[read(1, "/app/a", 0..1)], all_of(MIB), 1);
    let mut bytes = format::encode(&profile);
    bytes[..8].copy_from_slice(&format::PACK_MAGIC);
    assert_eq!(Pack::decode(&bytes), Err(FormatError::NotPacked));
}

#[test]
fn a_cold_start_pays_for_each_path_and_each_piece_of_data() {
    let needs = [
        read(1, "/app/long", 0..MIB),
        need(1, "/app/lib/x", Kind::Mapped, 0..4 * KIB),
        need(1, "/app/lib/x", Kind::Mapped, 512 * KIB..516 * KIB),
        need(1, "/app/lib", Kind::Directory, 0..0),
        missing(1, "/app/y"),
    ];
    let costs = pack(&needs).costs();
    let cost = |requests, bytes| Cost { requests, bytes };
    assert_eq!((costs.paths, costs.depth, costs.total), (4, 2, cost(14, MIB + 8 * KIB)));
    let of = |kind| costs.kinds.iter().find(|(other, _)| *other == kind).map(|(_, cost)| *cost);
    assert_eq!(of(Kind::Read), Some(cost(8, MIB)));
    assert_eq!(of(Kind::Mapped), Some(cost(2, 8 * KIB)));
    assert_eq!((of(Kind::Directory), of(Kind::Missing)), (Some(cost(1, 0)), Some(cost(1, 0))));
    assert_eq!(costs.folders, [(b"/".to_vec(), cost(11, MIB)), (b"/lib".to_vec(), cost(3, 8 * KIB))]);
    assert_eq!(costs.files[0].0, b"/long");
}

#[test]
fn a_general_profile_is_known_by_the_words_that_its_runs_share() {
    let command: Vec<Vec<u8>> = ["git", "-v", "status", "-s"].map(|word| word.as_bytes().to_vec()).into();
    assert_eq!(Level::Program.common(&command).len(), 1);
    assert_eq!(Level::Subject.common(&command).len(), 3);
    assert_eq!(Level::Whole.common(&command).len(), 4);
    assert!(Level::Program.common(&[]).is_empty());
    assert_eq!(Level::Subject.common(&command[..2]).len(), 2);
}
