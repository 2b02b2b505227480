//! Files with changed bytes have playlists and segments, or are refused. The fuzz target `hls_films` runs the same body.

mod film_bodies;

use forebay_testkit::films::{Folder, H264, H265};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// How many changed files are looked at: many more with `FOREBAY_COMPAT_LONG=1`.
fn cases() -> u32 {
    if forebay_testkit::long() { 100_000 } else { 500 }
}

/// Small files of the containers and codecs that browsers get.
fn files(folder: &Folder) -> Vec<Vec<u8>> {
    let sources = [
        ("a.mp4", format!("{H264} -c:a aac -t 1")),
        ("fragmented.mp4", format!("{H264} -c:a aac -t 1 -movflags +frag_keyframe+empty_moov")),
        ("a.mkv", format!("{H264} -c:a libopus -t 1 -fflags +bitexact")),
        ("a.ts", format!("{H264} -c:a ac3 -t 1")),
        ("a.h265", format!("{H265} -an -t 1")),
        ("vp9.mkv", "-an -c:v libvpx-vp9 -deadline realtime -t 1 -fflags +bitexact".to_owned()),
        ("av1.mp4", "-an -c:v libaom-av1 -cpu-used 8 -usage realtime -t 1".to_owned()),
        ("a.mp3", "-vn -c:a libmp3lame -t 1".to_owned()),
    ];
    let read = |(name, options): &(&str, String)| {
        std::fs::read(folder.encode(2, options, name)).expect("a file that ffmpeg made")
    };
    sources.iter().map(read).collect()
}

#[test]
fn files_with_changed_bytes_have_whole_segments_or_none() {
    let test = "files_with_changed_bytes_have_whole_segments_or_none";
    let Some(folder) = Folder::with_pictures(test, "96x64") else { return };
    let files = files(&folder);
    files.iter().for_each(film_bodies::film);
    // Mostly where containers have their tables: at either end.
    let place = prop_oneof![0..600_usize, 0..4000_usize, any::<usize>()];
    let byte = prop_oneof![any::<u8>(), Just(0xFF), Just(0), Just(0x7F), Just(0x80)];
    let change = (place, any::<bool>(), prop::collection::vec(byte, 1..9));
    let changes = prop::collection::vec(change, 1..12);
    let mut runner =
        TestRunner::new(Config { cases: cases(), failure_persistence: None, ..Config::default() });
    let result = runner.run(&(0..files.len(), changes), |(number, changes)| {
        let mut file = files[number].clone();
        for (place, is_from_end, bytes) in changes {
            let place = place % file.len();
            let at = if is_from_end { file.len() - 1 - place } else { place };
            let end = file.len().min(at + bytes.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
        }
        film_bodies::film(&file);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
