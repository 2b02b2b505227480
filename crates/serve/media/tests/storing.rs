//! What is known of a file can be written down and is the same when it is read again.

mod support;

use forebay_media::{Media, Streams};

use support::{H264, folder, sparse};

#[test]
fn what_is_known_of_any_file_is_the_same_after_it_was_stored() {
    let Some(folder) = folder("what_is_known_of_any_file_is_the_same_after_it_was_stored") else { return };
    let sound = "-map 1:a -c:a";
    let mut files = Vec::new();
    for (name, options) in [
        ("a.mp4", format!("{H264} -c:a aac")),
        ("a.ts", format!("{H264} -c:a ac3")),
        ("a.webm", "-c:v libvpx -deadline realtime -c:a libvorbis".to_owned()),
        ("opus.mkv", format!("{sound} libopus -ac 6")),
        ("le.mov", format!("{sound} pcm_s24le -ac 2")),
        ("be.mkv", format!("{sound} pcm_s16be")),
        ("law.mov", format!("{sound} pcm_mulaw -ar 8000 -ac 1")),
        ("mpeg4.mov", "-c:v mpeg4 -c:a libmp3lame".to_owned()),
    ] {
        files.push((name, std::fs::read(folder.encode(1, &options, name)).expect("a file")));
    }
    let stream = files.iter().find(|(name, _)| *name == "a.ts").expect("a stream").1.clone();
    // Packets begin at another distance after the middle.
    let middle = stream.len() / 2 / 188 * 188;
    files.push(("joined.ts", [&stream[..middle], &[0x55; 100], &stream[middle..]].concat()));
    files.push(("a.m2ts", sparse(&stream, 4, 192)));
    for (name, file) in files {
        for streams in [Streams::AsTracks, Streams::AsTheyAre] {
            let media = Media::read_as(&file, streams).unwrap_or_else(|error| panic!("{name}: {error}"));
            let stored = media.to_bytes();
            let again = Media::from_bytes(&stored, file.len() as u64);
            assert_eq!(format!("{:?}", again.as_ref()), format!("{:?}", Some(&media)), "{name}");
            assert!(Media::from_bytes(&stored, file.len() as u64 / 2).is_none(), "{name}, cut off");
            assert!(Media::from_bytes(&stored[1..], file.len() as u64).is_none(), "{name}, another version");
        }
    }
}
