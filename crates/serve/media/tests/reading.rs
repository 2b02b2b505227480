//! Files that are read part by part, and files that grow while they are read. Each index has the samples of the one before and
//! more, and the last index has all.

mod support;

use forebay_media::index::Entry;
use forebay_media::{Media, Reading, Streams};

use support::{H264, entries, folder};

/// Where and how long samples are, and when they are presented.
fn samples(media: &Media, track: usize) -> Vec<(u64, u32, i64, bool)> {
    let sample = |one: Entry| (one.at, one.bytes, one.presentation, one.is_sync);
    entries(media, track).into_iter().map(sample).collect()
}

#[test]
fn an_index_grows_with_its_file_and_has_all_samples_in_the_end() {
    let Some(folder) = folder("an_index_grows_with_its_file_and_has_all_samples_in_the_end") else { return };
    for (name, options) in [
        ("a.ts", format!("{H264} -c:a aac")),
        ("sound.ts", "-vn -c:a aac".to_owned()),
        ("a.mkv", format!("{H264} -c:a aac")),
        ("live.mkv", format!("{H264} -c:a aac -live 1")),
        ("a.mp4", format!("{H264} -c:a aac -g 5 -movflags frag_keyframe+empty_moov+default_base_moof")),
    ] {
        let whole = std::fs::read(folder.encode(6, &options, name)).expect("a file");
        let all = Media::read(&whole).expect(name);
        // The file grows by parts of any length, which end amid packets, elements and boxes.
        for part in [whole.len(), 997 * 17, 31_337] {
            // Nothing of it is there.
            let mut reading = Reading::begin(&Vec::new(), Streams::AsTracks).expect(name);
            let mut before: Vec<Vec<_>> = vec![Vec::new(); all.tracks().len()];
            let mut longer = 0;
            for end in (part..whole.len() + part).step_by(part) {
                let file = whole[..end.min(whole.len())].to_vec();
                // Files that are whole are read in parts all the same.
                while !reading.go_on(&file, 10_000).expect(name) {}
                let Some(media) = reading.so_far(&file).expect(name) else { continue };
                assert_eq!(media.tracks().len(), all.tracks().len(), "{name}");
                for (track, before) in before.iter_mut().enumerate() {
                    let now = samples(&media, track);
                    assert!(now.starts_with(before), "{name}, track {track}: {end} of {}", whole.len());
                    longer += usize::from(now.len() > before.len());
                    *before = now;
                }
            }
            assert!(part == whole.len() || longer > 2, "{name}: it grew {longer} times");
            let last = reading.end(&whole).expect(name);
            for (track, before) in before.iter().enumerate() {
                let got = samples(&last, track);
                assert!(got.starts_with(before), "{name}, track {track}");
                assert_eq!(got, samples(&all, track), "{name}, track {track}");
            }
            assert_eq!(last.duration_ns(), all.duration_ns(), "{name}");
        }
    }
}

#[test]
fn a_recording_that_has_only_just_begun_is_waited_for() {
    let Some(folder) = folder("a_recording_that_has_only_just_begun_is_waited_for") else { return };
    for (name, options) in [
        ("a.ts", format!("{H264} -c:a aac")),
        ("a.m2ts", format!("{H264} -c:a aac -f mpegts -mpegts_m2ts_mode 1")),
        ("live.mkv", format!("{H264} -c:a aac -live 1")),
        ("a.mp4", format!("{H264} -c:a aac -g 5 -movflags frag_keyframe+empty_moov+default_base_moof")),
    ] {
        let whole = std::fs::read(folder.encode(2, &options, name)).expect("a file");
        let all = Media::read(&whole).expect(name);
        for bytes in [0, 1, 7, 23, 100, 188, 192, 300, 376, 377, 500, 600, 752, 1000, 1200] {
            let begun = whole[..bytes].to_vec();
            let mut reading = Reading::begin(&begun, Streams::AsTracks).expect(name);
            assert!(reading.go_on(&begun, u64::MAX).expect(name), "{name}: {bytes} bytes");
            assert!(
                reading.is_in_parts() && !reading.is_closed(&begun).expect(name),
                "{name}: {bytes} bytes"
            );
            assert!(reading.so_far(&begun).expect(name).is_none(), "{name}: {bytes} bytes");
            while !reading.go_on(&whole, 10_000).expect(name) {}
            let last = reading.end(&whole).expect(name);
            assert_eq!(last.tracks().len(), 2, "{name}: {bytes} bytes");
            for track in 0..2 {
                assert_eq!(samples(&last, track), samples(&all, track), "{name}: {bytes} bytes");
            }
        }
    }
    // What cannot be such a recording is refused at once.
    for begun in [b"a text that is longer than what any kind of file begins with".to_vec(), vec![0; 500]] {
        assert!(Reading::begin(&begun, Streams::AsTracks).is_err());
    }
}

#[test]
fn a_file_says_how_long_it_is_before_all_of_it_has_been_read() {
    let Some(folder) = folder("a_file_says_how_long_it_is_before_all_of_it_has_been_read") else { return };
    for name in ["a.ts", "a.m2ts", "a.mkv"] {
        let file = std::fs::read(folder.encode(20, &format!("{H264} -c:a aac"), name)).expect("a file");
        let mut reading = Reading::begin(&file, Streams::AsTracks).expect(name);
        reading.go_on(&file, 10_000).expect(name);
        let told_ns = reading.told_ns(&file).expect(name).expect("a duration");
        let duration_ns = Media::read(&file).expect(name).duration_ns();
        assert!(told_ns.abs_diff(duration_ns) < 200_000_000, "{name}: {told_ns} of {duration_ns}");
    }
}

#[test]
fn a_file_says_whether_it_is_complete() {
    let Some(folder) = folder("a_file_says_whether_it_is_complete") else { return };
    let fragments = format!("{H264} -g 5 -movflags frag_keyframe+empty_moov+default_base_moof");
    for (name, options, is_closed) in [
        ("a.mp4", H264, true),
        ("fragments.mp4", &fragments, true),
        ("a.mkv", H264, true),
        ("live.mkv", &format!("{H264} -live 1"), false),
        ("a.ts", H264, false),
        ("a.h264", &format!("{H264} -map 0:v"), true),
    ] {
        let file = std::fs::read(folder.encode(2, options, name)).expect("a file");
        for (bytes, is_closed) in [(file.len(), is_closed), (file.len() - 1, is_closed && name == "a.h264")] {
            let part = file[..bytes].to_vec();
            let mut reading = Reading::begin(&part, Streams::AsTracks).expect(name);
            if reading.go_on(&part, u64::MAX).is_ok() && name != "a.mp4" {
                assert_eq!(reading.is_closed(&part).expect(name), is_closed, "{name}: {bytes} bytes");
            }
        }
    }
}
