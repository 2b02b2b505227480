//! Files that were cut off, and files that somebody has changed: an answer or an error, and no more memory than before.

mod support;

use std::sync::Arc;

use forebay_media::index::SAMPLES_MAX;
use forebay_media::{Error, Media};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use support::{Folder, H264, H265};

/// What all these files may take together, at the most: they have less than 100 kB each.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

fn files(folder: &Folder) -> Vec<(&'static str, Vec<u8>)> {
    let mp4 = folder.encode(&format!("{H264} -c:a aac -t 1"), "late.mp4");
    let sources = [
        ("fragmented.mp4", "-c copy -movflags +frag_keyframe+empty_moov+default_base_moof"),
        ("early.mp4", "-c copy -movflags +faststart"),
        ("a.mov", "-c copy"),
        ("a.mkv", "-c copy"),
        ("a.ts", "-c copy"),
        ("a.h264", "-c copy -bsf:v h264_mp4toannexb"),
        ("a.aac", "-map 0:a -c copy"),
        ("a.mp3", "-map 0:a -c:a libmp3lame"),
    ];
    let made = sources.iter().map(|(name, options)| (*name, folder.convert(&mp4, options, name)));
    let mut files: Vec<_> = made.collect();
    files.push(("late.mp4", mp4.clone()));
    files.push(("a.h265", folder.encode(&format!("{H265} -an -t 1"), "a.h265")));
    files.into_iter().map(|(name, path)| (name, std::fs::read(path).expect("a file"))).collect()
}

/// Opens a file and plays it from the beginning and from the middle. Returns how many samples there are.
fn play(file: &Vec<u8>) -> Result<u64, Error> {
    let media = Arc::new(Media::read(file)?);
    let tracks: Vec<_> = (0..media.tracks().len()).collect();
    let position_ns = media.seek(&tracks, media.duration_ns() / 2);
    for sample in media.plan(&tracks, 0).chain(media.plan(&tracks, position_ns)) {
        assert!(sample.at.start <= sample.at.end && sample.at.end <= file.len() as u64, "{sample:?}");
    }
    let count = media.tracks().iter().map(|track| track.index().count()).sum();
    assert!(count <= SAMPLES_MAX);
    Ok(count)
}

/// The most memory that this process has had.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn files_that_were_cut_off() {
    let Some(folder) = Folder::new("files_that_were_cut_off") else { return };
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
fn files_that_somebody_changed() {
    let Some(folder) = Folder::new("files_that_somebody_changed") else { return };
    let files = files(&folder);
    // Mostly where containers have their tables: at either end.
    let place = prop_oneof![0..600_usize, 0..4000_usize, any::<usize>()];
    let place = (place, any::<bool>()).prop_map(|(at, from_end)| if from_end { usize::MAX - at } else { at });
    let byte = prop_oneof![any::<u8>(), Just(0xFF), Just(0), Just(0x7F), Just(0x80)];
    let change = (place, prop::collection::vec(byte, 1..9));
    let changes = prop::collection::vec(change, 1..12);
    let cases = if std::env::var_os("FOREBAY_PROMISE_LONG").is_some() { 100_000 } else { 500 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
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
        if let Err(error) = play(&file) {
            prop_assert!(!error.to_string().is_empty());
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(peak_bytes() < MEMORY_BYTES_MAX, "{} bytes", peak_bytes());
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
}

#[test]
fn tables_without_end() {
    // A table of four thousand million samples of one byte each, in two hundred bytes.
    let make = |name: &[u8; 4], content: &[u8]| {
        [&(content.len() as u32 + 8).to_be_bytes()[..], name, content].concat()
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let mp3 = make(b".mp3", &[0; 28]);
    let table = [
        make(b"stsd", &[words(&[0, 1]), mp3].concat()),
        make(b"stsz", &words(&[0, 1, u32::MAX])),
        make(b"stts", &words(&[0, 1, u32::MAX, 1])),
        make(b"stsc", &words(&[0, 1, 1, u32::MAX, 1])),
        make(b"stco", &words(&[0, 1, 0])),
    ];
    let media = [
        make(b"mdhd", &words(&[0, 0, 0, 1000, 0, 0])),
        make(b"hdlr", &[&words(&[0, 0])[..], b"soun", &[0; 13]].concat()),
        make(b"minf", &make(b"stbl", &table.concat())),
    ];
    let movie = make(b"moov", &make(b"trak", &make(b"mdia", &media.concat())));
    assert!(matches!(Media::read(&movie), Err(Error::Truncated { .. })));
}
