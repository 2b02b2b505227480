//! What a profile keeps of the runs that taught it.

mod support;

use forebay_profile::{Kind, Need, Profile, format};
use support::*;

#[test]
fn a_first_run_is_kept_in_whole_pages_that_the_file_has() {
    let needs = [
        read(5, "/a/data", 100..200),
        read(9, "/a/data", 4000..9000),
        need(3, "/a/data", Kind::LookUp, 0..0),
        read(50_000, "/a/data", 3 * MIB - 1..4 * MIB),
        need(1, "/a", Kind::Directory, 0..0),
    ];
    let profile = empty(WHOLE).learn(&needs, all_of(3 * MIB), 77);
    assert_eq!(paths(&profile), ["/a", "/a/data"]);
    assert_eq!(ranges(&profile)["/a/data"], [(0..12 * KIB, 5), (3 * MIB - 4 * KIB..3 * MIB, 50_000)]);
    assert_eq!((profile.runs(), profile.last_use_s()), (1, 77));
    let [folder, data] = profile.entries() else { panic!("{profile:?}") };
    assert_eq!((folder.identity, data.identity, data.first_us), (None, Some(file(3 * MIB, 1)), 3));
    assert!(data.kinds.has(Kind::Read) && data.kinds.has(Kind::LookUp) && !data.kinds.has(Kind::Mapped));
}

#[test]
fn two_runs_merge_and_the_latest_says_when() {
    let first = empty(WHOLE).learn(&[read(10, "/f", 0..8 * KIB), missing(1, "/gone")], all_of(MIB), 1);
    let second = first.learn(&[read(700, "/f", 4 * KIB..16 * KIB), look_up(2, "/new")], all_of(MIB), 2);
    assert_eq!(paths(&second), ["/f", "/gone", "/new"]);
    let parts = [(0..4 * KIB, 10), (4 * KIB..8 * KIB, 700), (8 * KIB..16 * KIB, 700)];
    assert_eq!(ranges(&second)["/f"], parts);
    assert_eq!(second.entries()[0].first_us, 700);
}

#[test]
fn what_two_runs_in_a_row_did_not_use_is_forgotten() {
    let always = [read(1, "/f", 0..4 * KIB)];
    let once =
        [read(1, "/f", 0..4 * KIB), read(2, "/f", MIB..2 * MIB), missing(3, "/m"), read(4, "/g", 0..1)];
    let learn = |profile: Profile, needs: &[Need]| profile.learn(needs, all_of(4 * MIB), 1);
    let first = learn(empty(WHOLE), &once);
    let second = learn(first.clone(), &always);
    assert_eq!(paths(&second), paths(&first), "one run without use");
    assert_eq!(ranges(&second)["/f"].len(), 2);
    let third = learn(second.clone(), &always);
    assert_eq!(paths(&third), ["/f"]);
    assert_eq!(ranges(&third)["/f"], [(0..4 * KIB, 1)]);
    let again = learn(learn(second, &once), &always);
    assert_eq!(paths(&again), paths(&first), "a use in between");
}

/// It may have found them in memory, where no fault tells of them.
#[test]
fn mapped_pages_stay_while_runs_use_their_file_and_see_no_page_of_it() {
    let faults = [look_up(0, "/lib"), need(1, "/lib", Kind::Mapped, 0..MIB), read(1, "/lib", MIB..MIB + 1)];
    let warm = [look_up(0, "/lib"), read(1, "/lib", 0..1)];
    let first = empty(WHOLE).learn(&faults, all_of(2 * MIB), 1);
    let learn = |profile: Profile, needs: &[Need]| profile.learn(needs, all_of(2 * MIB), 2);
    let later = (0..5).fold(first.clone(), |profile, _| learn(profile, &warm));
    let bytes =
        |profile: &Profile| ranges(profile)["/lib"].iter().map(|(one, _)| one.end - one.start).sum::<u64>();
    assert_eq!(bytes(&later), bytes(&first));
    let fewer = [need(1, "/lib", Kind::Mapped, 0..4 * KIB)];
    assert_eq!(bytes(&learn(learn(later, &fewer), &fewer)), 4 * KIB, "a run that sees its pages");
    let without = [look_up(0, "/other")];
    assert_eq!(paths(&learn(learn(first, &without), &without)), ["/other"], "runs without the file");
}

#[test]
fn a_changed_file_keeps_nothing_of_its_former_ranges() {
    let first = empty(WHOLE).learn(&[read(1, "/f", 0..MIB)], all_of(MIB), 1);
    let second = first.learn(&[read(2, "/f", 0..1)], |_| Some(file(MIB, 2)), 2);
    assert_eq!(ranges(&second)["/f"], [(0..4 * KIB, 2)]);
    assert_eq!(second.entries()[0].identity, Some(file(MIB, 2)));
}

#[test]
fn a_file_that_is_gone_after_the_run_is_not_kept() {
    let profile = empty(WHOLE).learn(&[read(1, "/tmp/f", 0..MIB), look_up(1, "/etc")], |_| None, 1);
    assert_eq!(paths(&profile), ["/etc"]);
}

/// Its data were in memory already.
#[test]
fn a_file_that_the_run_itself_made_was_missing() {
    let needs = [missing(1, "/cache"), read(2, "/cache", 0..MIB)];
    let profile = empty(WHOLE).learn(&needs, all_of(MIB), 1);
    assert!(profile.entries()[0].kinds.has(Kind::Missing));
    assert_eq!(ranges(&profile)["/cache"], []);
    let next = profile.learn(&[read(2, "/cache", 0..MIB)], all_of(MIB), 2);
    assert_eq!(ranges(&next)["/cache"], [(0..MIB, 2)]);
}

#[test]
fn the_head_of_an_executed_file_is_needed() {
    let profile = empty(WHOLE).learn(&[need(0, "/bin/x", Kind::Executed, 0..0)], all_of(MIB), 1);
    assert_eq!(ranges(&profile)["/bin/x"], [(0..4 * KIB, 0)]);
}

#[test]
fn a_run_that_needed_nothing_teaches_nothing() {
    let profile = empty(WHOLE).learn(&[look_up(1, "/a")], |_| None, 1);
    assert_eq!(profile.clone().learn(&[], |_| None, 2), profile);
    let unusable = ["", "a", "/", "/a/../b", "/a/./b", "/a//b", "/a/", "/a\0b"].map(|path| look_up(1, path));
    assert_eq!(profile.clone().learn(&unusable, |_| None, 2), profile);
}

#[test]
fn ranges_that_no_file_can_have_are_left_out() {
    #[expect(clippy::reversed_empty_ranges, reason = "the recorder may be wrong")]
    let needs = [read(1, "/f", 0..u64::MAX), read(1, "/f", 9..3), read(1, "/f", 1 << 63..9 << 60)];
    let profile = empty(WHOLE).learn(&needs, |_| Some(file(u64::MAX, 1)), 1);
    assert_eq!(ranges(&profile)["/f"], []);
}

/// The need of each number.
type Shape = &'static dyn Fn(u32) -> Need;

/// Up to a hundred thousand needs, in each of the shapes that are hardest to keep small.
#[test]
fn a_profile_stays_within_a_mebibyte_and_keeps_what_is_needed_first() {
    let shapes: [(&str, u32, Shape); 4] = [
        ("failed look-ups", 100_000, &|at| {
            missing(at * 10, &format!("/usr/lib/place{}/module{at:07}.so", at % 200))
        }),
        ("files", 100_000, &|at| read(at * 10, &format!("/tree/{}/{}/{at:x}", at % 97, at % 1013), 0..100)),
        ("long names", 20_000, &|at| look_up(at * 10, &format!("/{at:0200}/{at:0200}/{at:0200}"))),
        ("scattered pages", 100_000, &|at| {
            let start = u64::from(at) * 7919 % 100_003 * MIB;
            read(at * 30_000, "/data", start..start + 1)
        }),
    ];
    for (shape, count, need) in shapes {
        let needs: Vec<Need> = (0..count).map(need).collect();
        let profile = empty(WHOLE).learn(&needs, |_| Some(file(1 << 40, 1)), 1);
        let bytes = format::encode(&profile);
        assert!(bytes.len() <= format::BYTES_MAX, "{shape}: {} bytes", bytes.len());
        assert_eq!(format::decode(&bytes), Ok(profile.clone()), "{shape}");
        let items: usize = profile.entries().iter().map(|entry| 1 + entry.spans.len()).sum();
        assert!(
            bytes.len() >= format::BYTES_MAX * 3 / 4 || items >= format::ITEMS_MAX * 3 / 4,
            "{shape}: {items}"
        );
        let last_kept = profile.entries().iter().flat_map(|entry| {
            [entry.first_us].into_iter().chain(entry.spans.iter().map(|span| span.first_us))
        });
        let last_kept = last_kept.max().unwrap();
        let earlier = needs.iter().filter(|need| need.at_us <= last_kept).count();
        assert!(items >= earlier, "{shape}: of {earlier} needs up to the last one kept {items} are there");
    }
}

#[test]
fn what_the_last_run_did_not_use_is_forgotten_first() {
    let of = |letter: &str, time: u32| {
        let path = move |at: u32| look_up(time + at, &format!("/{letter}/{at:05}{:b>100}", ""));
        (0..40_000).map(path).collect::<Vec<_>>()
    };
    let first = empty(WHOLE).learn(&of("a", 0), |_| None, 1);
    let count = first.entries().len();
    let second = first.learn(&of("b", 1_000_000), |_| None, 2);
    let used = second.entries().iter().filter(|entry| entry.path.starts_with(b"/b/")).count();
    assert!(used >= count * 9 / 10 && used >= second.entries().len() * 9 / 10, "{used} of {count}");
}

#[test]
fn ten_thousand_failed_look_ups_are_small() {
    let suffixes = [".cpython-313-x86_64-linux-gnu.so", ".abi3.so", ".so", ".py", ".pyc"];
    let needs: Vec<Need> = (0..10_000)
        .map(|at: u32| {
            let (module, suffix) = (at / 5 % 40, suffixes[at as usize % 5]);
            missing(
                at * 97,
                &format!("/usr/lib/python3/dist-packages/package{}/module{module}{suffix}", at / 200),
            )
        })
        .collect();
    let profile = empty(WHOLE).learn(&needs, |_| None, 1);
    assert_eq!(profile.entries().len(), 10_000);
    let bytes = format::encode(&profile).len();
    assert!(bytes <= 220_000, "{bytes} bytes");
}

#[test]
fn a_run_that_was_seen_in_part_forgets_nothing() {
    let first = empty(WHOLE).learn(&[read(1, "/f", 0..MIB), look_up(2, "/g")], all_of(4 * MIB), 1);
    let seen_in_part =
        |profile: Profile| profile.learn_seen(false, &[read(1, "/f", 2 * MIB..3 * MIB)], all_of(4 * MIB), 2);
    let later = (0..5).fold(first.clone(), |profile, _| seen_in_part(profile));
    let paths =
        |profile: &Profile| profile.entries().iter().map(|entry| entry.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&later), paths(&first));
    let pages = |profile: &Profile| {
        profile
            .entries()
            .iter()
            .flat_map(|entry| &entry.spans)
            .map(|span| span.pages.end - span.pages.start)
            .sum::<u64>()
    };
    assert_eq!(pages(&later), 2 * pages(&first));
}
