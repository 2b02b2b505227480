//! Files that were cut off or changed are played or refused, within bounds of memory and time. The fuzz target
//! `media_files` runs the same body.

mod file_bodies;
mod mutation;
mod support;

use std::sync::Arc;
use std::time::Duration;

use file_bodies::{MEMORY_BYTES_MAX, peak_bytes, play};
use forebay_media::{Error, Media};
use mutation::{Choices, Kind};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use support::hostile::{files, fragment, more_files, table};
use support::{H264, folder};

/// The longest that reading a file of less than 300 kB may take a processor. It takes milliseconds.
const READ_TIME_MAX: Duration = Duration::from_secs(10);

/// How long this thread has had a processor (proc_pid_schedstat in the kernel's documentation of its scheduler).
fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the thread's times");
    let nanoseconds = told.split_whitespace().next().and_then(|time| time.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a time"))
}

/// How many changed files a test reads: many more with `FOREBAY_COMPAT_LONG=1`.
fn cases(usually: u32) -> u32 {
    if forebay_testkit::long() { 100_000 } else { usually }
}

#[test]
fn files_that_were_cut_off() {
    let Some(folder) = folder("files_that_were_cut_off") else { return };
    for (name, whole) in files(&folder) {
        let all = play(&whole).expect(name);
        let mut before = 0;
        for bytes in (0..whole.len()).step_by(1 << 10) {
            let result = play(&whole[..bytes].to_vec());
            match (name, &result) {
                ("late.mp4" | "a.mov", result) if bytes > 1 << 10 => {
                    let error = result.as_ref().expect_err("no tables").to_string();
                    assert!(error.contains("is complete: copy it again"), "{name}: {error}");
                }
                ("early.mp4", Err(Error::Truncated { .. } | Error::UnknownKind)) => {}
                ("early.mp4", other) => panic!("{other:?}"),
                // What is there of all others is played.
                (_, Ok(count)) => {
                    assert!((before..=all).contains(count), "{name}: {count} of {all}, after {before}");
                    before = *count;
                }
                (_, Err(_)) => {
                    assert!(bytes < whole.len() / 2, "{name}, {bytes} of {}: {result:?}", whole.len())
                }
            }
        }
    }
    assert!(peak_bytes() < MEMORY_BYTES_MAX, "{} bytes", peak_bytes());
}

#[test]
fn files_with_changed_bytes() {
    let Some(folder) = folder("files_with_changed_bytes") else { return };
    let files = files(&folder);
    // Mostly where containers have their tables: at either end.
    let place = prop_oneof![0..600_usize, 0..4000_usize, any::<usize>()];
    let place = (place, any::<bool>()).prop_map(|(at, from_end)| if from_end { usize::MAX - at } else { at });
    let byte = prop_oneof![any::<u8>(), Just(0xFF), Just(0), Just(0x7F), Just(0x80)];
    let change = (place, prop::collection::vec(byte, 1..9));
    let changes = prop::collection::vec(change, 1..12);
    let mut runner =
        TestRunner::new(Config { cases: cases(500), failure_persistence: None, ..Config::default() });
    let result = runner.run(&(0..files.len(), changes), |(number, changes)| {
        let mut file = files[number].1.clone();
        for (place, bytes) in changes {
            let at = if place > usize::MAX / 2 {
                file.len() - 1 - (usize::MAX - place) % file.len()
            } else {
                place % file.len()
            };
            let end = file.len().min(at + bytes.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
        }
        let _ = play(&file);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(peak_bytes() < MEMORY_BYTES_MAX, "{} bytes", peak_bytes());
}

#[test]
fn files_whose_blocks_were_changed() {
    let Some(folder) = folder("files_whose_blocks_were_changed") else { return };
    let mut all = files(&folder);
    all.extend(more_files(&folder));
    // Samples without bytes: a small file can have any number of them.
    all.push(("fragment.mp4", fragment(1 << 12)));
    let corpora = Kind::ALL.map(|kind| {
        let of_kind = all.iter().filter(|(name, _)| kind.has(name)).map(|(_, file)| file.clone());
        (kind, of_kind.collect::<Vec<_>>())
    });
    let mut runner =
        TestRunner::new(Config { cases: cases(1000), failure_persistence: None, ..Config::default() });
    // The seed makes the file again; a smaller seed makes no smaller file.
    let result = runner.run(&(0..corpora.len(), any::<u64>().no_shrink()), |(number, seed)| {
        let (kind, corpus) = &corpora[number];
        let file = Choices::new(seed).changed(*kind, corpus);
        let begun = processor_time();
        let _ = play(&file);
        let time = processor_time() - begun;
        prop_assert!(time < READ_TIME_MAX, "{kind:?}: {time:?}");
        prop_assert!(peak_bytes() < MEMORY_BYTES_MAX, "{kind:?}: {} bytes", peak_bytes());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn boxes_in_boxes_in_boxes() {
    // As deep as a file of a megabyte can be.
    for name in [b"moov", b"trak", b"stsd", b"wave"] {
        let mut file = Vec::new();
        for left in (0..1_u32 << 17).rev() {
            file.extend((left * 8 + 8).to_be_bytes());
            file.extend(if left == (1 << 17) - 1 { b"moov" } else { name });
        }
        assert!(Media::read(&file).is_err());
    }
    // Segments whose sizes are not known, each in the one before.
    let mut file = vec![0x1A, 0x45, 0xDF, 0xA3, 0x80];
    file.extend([0x18, 0x53, 0x80, 0x67, 0xFF].repeat(1 << 17));
    assert!(Media::read(&file).is_err());
}

#[test]
fn tables_without_end() {
    assert!(matches!(Media::read(&table(u32::MAX, 1)), Err(Error::Truncated { .. })));
    for file in [fragment(u32::MAX), fragment(1 << 24)] {
        assert!(matches!(Media::read(&file), Err(Error::TooLarge { .. })));
    }
    assert!(peak_bytes() < MEMORY_BYTES_MAX, "{} bytes", peak_bytes());
}

#[test]
fn what_was_stored_of_a_file_comes_back_and_does_no_harm_if_it_was_changed() {
    let Some(folder) = folder("what_was_stored_of_a_file_comes_back_and_does_no_harm_if_it_was_changed")
    else {
        return;
    };
    for (name, file) in files(&folder) {
        let media = Media::read(&file).expect(name);
        let stored = media.to_bytes();
        let again = Media::from_bytes(&stored, file.len() as u64).expect(name);
        assert_eq!(format!("{again:?}"), format!("{media:?}"), "{name}");
        assert!(
            Media::from_bytes(&stored, file.len() as u64 / 2).is_none(),
            "{name}: samples lie in the file"
        );
        for at in (0..stored.len()).step_by(1 + stored.len() / 600) {
            for mask in [1, 0x80, 0xFF] {
                let mut changed = stored.clone();
                changed[at] ^= mask;
                if let Some(media) = Media::from_bytes(&changed, file.len() as u64) {
                    let within = |one: &forebay_media::Sample| one.at.end <= file.len() as u64;
                    let tracks: Vec<usize> = (0..media.tracks().len()).collect();
                    assert!(
                        Arc::new(media).plan(&tracks, 0).take(500).all(|one| within(&one)),
                        "{name} at {at}"
                    );
                }
            }
            assert!(Media::from_bytes(&stored[..at], file.len() as u64).is_none(), "{name} up to {at}");
        }
    }
}

#[test]
fn what_comes_after_damage_is_found_again() {
    let Some(folder) = folder("what_comes_after_damage_is_found_again") else { return };
    for (name, options) in [
        ("a.mkv", format!("{H264} -g 10 -c:a aac -cluster_time_limit 500")),
        ("a.flv", format!("{H264} -g 10 -c:a aac")),
        ("a.avi", "-c:v mpeg4 -g 10 -c:a libmp3lame".to_owned()),
        ("a.opus", "-vn -c:a libopus -page_duration 200000".to_owned()),
        ("a.ts", format!("{H264} -g 10 -c:a aac")),
    ] {
        let whole = std::fs::read(folder.encode(6, &options, name)).expect("a file");
        let contents = |file: &Vec<u8>| -> Vec<Vec<u8>> {
            let media = Arc::new(Media::read(file).expect(name));
            let plan = media.plan(&[0], 0);
            plan.map(|one| file[one.at.start as usize..one.at.end as usize].to_vec()).collect()
        };
        let all = contents(&whole);
        let middle = whole.len() / 2;
        let missing = [&whole[..middle], &whole[middle + 777..]].concat();
        let overwritten = [&whole[..middle], &[0x55; 1200][..], &whole[middle + 1200..]].concat();
        for damaged in [missing, overwritten] {
            let left = contents(&damaged);
            assert!(left.len() * 5 >= all.len() * 4, "{name}: {} of {}", left.len(), all.len());
            assert!(
                left.iter().rev().zip(all.iter().rev()).take(all.len() / 5).all(|(one, other)| one == other)
            );
        }
    }
}

#[test]
fn a_page_of_ogg_with_another_checksum_is_left_out_and_all_others_keep_their_times() {
    let test = "a_page_of_ogg_with_another_checksum_is_left_out_and_all_others_keep_their_times";
    let Some(folder) = folder(test) else { return };
    for (name, options) in
        [("a.opus", "-c:a libopus -page_duration 200000"), ("a.ogg", "-c:a libvorbis -page_duration 200000")]
    {
        let whole = std::fs::read(folder.encode(4, &format!("-vn {options}"), name)).expect("a file");
        let samples = |file: &Vec<u8>| {
            let media = Arc::new(Media::read(file).expect(name));
            let all = media.plan(&[0], 0);
            let content =
                |one: &forebay_media::Sample| file[one.at.start as usize..one.at.end as usize].to_vec();
            all.map(|one| (one.presentation_ns, content(&one))).collect::<Vec<_>>()
        };
        let all = samples(&whole);
        let pages: Vec<usize> = (0..whole.len() - 4)
            .filter(|at| whole[*at..].starts_with(b"OggS\0"))
            .chain([whole.len()])
            .collect();
        // One amid the file, two that follow each other, and the one before the last.
        for damaged in [vec![10], vec![7, 8], vec![pages.len() - 3]] {
            let mut file = whole.clone();
            damaged.iter().for_each(|page| file[pages[page + 1] - 9] ^= 0x10);
            let left = samples(&file);
            let is_damaged = |content: &Vec<u8>| {
                damaged.iter().any(|page| {
                    file[pages[*page]..pages[page + 1]].windows(content.len()).any(|one| one == content)
                })
            };
            assert!(
                left.len() < all.len() && left.len() * 5 > all.len() * 3,
                "{name}: {} of {}",
                left.len(),
                all.len()
            );
            assert!(!left.iter().any(|(_, content)| is_damaged(content)), "{name}, {damaged:?}");
            for (time_ns, content) in &left {
                let (expected_ns, _) =
                    all.iter().find(|(_, one)| one == content).expect("a packet of the file");
                // The first block of Vorbis after a gap has no sound, so how long it lasts is not known.
                let off_ns = time_ns.abs_diff(*expected_ns);
                assert!(off_ns < 50_000_000, "{name}, {damaged:?}: {off_ns} ns off at {expected_ns}");
            }
        }
    }
}
