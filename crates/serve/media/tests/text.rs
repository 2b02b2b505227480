//! Subtitles as text: what the file has, at its times, and repeats that have nothing of their own.

mod support;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use forebay_media::{Media, Streams};
use support::{H264, folder, open};

const SUBTITLES: &str = "1\n00:00:00,500 --> 00:00:01,000\nOne line\n\n\
                         2\n00:00:01,200 --> 00:00:03,000\nZwei Zeilen:\n\u{4e8c}\u{884c}\n\n\
                         3\n00:00:03,400 --> 00:00:03,900\nthree\n\n";

/// When and what the text track of a file has, in milliseconds; nothing where it repeats.
fn texts(path: &Path, generations: u8) -> Vec<(i64, String)> {
    let file = File::open(path).expect("a file");
    let media = Arc::new(Media::read_as(&file, Streams::WithText { generations }).expect("a film"));
    let number = media.tracks().iter().position(|track| track.codec.is_text()).expect("a text track");
    let content = std::fs::read(path).expect("a file");
    let text = |sample: forebay_media::Sample| {
        let mut bytes = content[sample.at.start as usize..sample.at.end as usize].to_vec();
        let count = sample.packing.unpack(&mut bytes);
        assert!(sample.is_sync || count == 0, "{sample:?}");
        (sample.presentation_ns / 1_000_000, String::from_utf8_lossy(&bytes[..count]).into_owned())
    };
    media.plan(&[number], 0).map(text).collect()
}

#[test]
fn subtitles_are_texts_at_their_times_where_they_are_asked_for() {
    let Some(folder) = folder("subtitles_are_texts_at_their_times_where_they_are_asked_for") else { return };
    folder.put("a.srt", SUBTITLES);
    let input = format!("-f srt -i {} -map 0:v -map 1:a -map 2", folder.path("a.srt").display());
    let expected = [(0, "One line"), (700, "Zwei Zeilen:\n\u{4e8c}\u{884c}"), (2900, "three")];
    for (name, codec) in [("a.mp4", "mov_text"), ("a.mkv", "subrip")] {
        let path = folder.encode(5, &format!("{input} {H264} -c:a aac -c:s {codec}"), name);
        let plain = texts(&path, 0);
        let said: Vec<_> = plain.iter().filter(|(_, text)| !text.is_empty()).collect();
        // The sound of a file may begin before its pictures, and Matroska counts from there.
        let first = said[0].0;
        assert!((500..530).contains(&first), "{name}: {said:?}");
        let told: Vec<_> = said.iter().map(|(ms, text)| (*ms - first, text.replace('\r', ""))).collect();
        let told: Vec<_> = told.iter().map(|(ms, text)| (*ms, text.trim_end())).collect();
        assert_eq!(told, expected, "{name}");
        let repeated = texts(&path, 2);
        let is_there = |ms: i64, after: i64| {
            repeated.iter().any(|(at, text)| *at == first + ms + after && text.is_empty())
        };
        // The next text or its end comes 500 ms after the first one.
        assert!(is_there(0, 300) && is_there(700, 300) && is_there(700, 600), "{name}: {repeated:?}");
        let all_said: Vec<_> = repeated.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        let plain_said: Vec<_> = plain.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        assert_eq!(all_said, plain_said, "{name}");
        // Others do not get them.
        let media = open(&path);
        let [phrase] = media.left_out() else { panic!("{name}: {:?}", media.left_out()) };
        assert!(
            media.tracks().len() == 2 && phrase.ends_with("where the URL ends with ?text"),
            "{name}: {phrase}"
        );
        // The text that is read at a time is the last one that has come.
        let file = File::open(&path).expect("a file");
        let media = Media::read_as(&file, Streams::WithText { generations: 2 }).expect("a film");
        let media = Arc::new(media);
        let one = media.plan(&[2], 2_500_000_000).next().expect("a text");
        assert_eq!((one.presentation_ns / 1_000_000, one.is_sync), (first + 700, true), "{name}");
    }
}
