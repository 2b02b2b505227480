//! Recordings of Ogg that follow each other in a file: those that are coded alike are one track.

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use forebay_media::Media;
use support::{Folder, entries, folder, open};

/// A file of files, one after the other.
fn chained(folder: &Folder, files: &[&PathBuf], name: &str) -> Arc<Media> {
    let read = |file: &&PathBuf| std::fs::read(file).expect("a file");
    let path = folder.path(name);
    std::fs::write(&path, files.iter().flat_map(read).collect::<Vec<u8>>()).expect("a file");
    Arc::new(open(&path))
}

/// What is sent of a file, sample by sample.
fn sent(path: &PathBuf, media: &Arc<Media>) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).expect("a file");
    let unpacked = media.plan(&[0], 0).map(|sample| {
        let mut bytes = file[sample.at.start as usize..sample.at.end as usize].to_vec();
        let count = sample.packing.unpack(&mut bytes);
        bytes.truncate(count);
        bytes
    });
    unpacked.collect()
}

#[test]
fn recordings_that_are_coded_alike_are_played_as_one() {
    let Some(folder) = folder("recordings_that_are_coded_alike_are_played_as_one") else { return };
    for (codec, more, rate) in [("libopus", "-ac 2", 48_000), ("libvorbis", "-ac 2 -q:a 4", 44_100)] {
        let part = |seconds: u32, title: &str| {
            // Others of the same title are other files: each has a number of its own for its stream.
            let options = format!("-vn -c:a {codec} {more} -metadata title={title} -serial_offset {seconds}");
            folder.encode(seconds, &options, &format!("{codec}-{title}.ogg"))
        };
        let files = [part(2, "one"), part(1, "two"), part(3, "three")];
        let alone = files.each_ref().map(|file| Arc::new(open(file)));
        let name = format!("{codec}.ogg");
        let media = chained(&folder, &files.each_ref(), &name);
        assert_eq!((media.tracks().len(), media.left_out()), (1, &[][..]));
        let expected: Vec<_> = files.iter().zip(&alone).flat_map(|(file, media)| sent(file, media)).collect();
        assert!(sent(&folder.path(&name), &media) == expected, "{codec}: other packets");
        // What is heard first of each is heard when the one before has ended.
        let all = entries(&media, 0);
        let (mut first, mut end) = (0, 0);
        for one in &alone {
            let own = entries(one, 0);
            let lead = if codec == "libvorbis" && first > 0 { own[1].presentation } else { 0 };
            let times = all[first..first + own.len()].iter().map(|entry| entry.presentation);
            let latest = all[..first].last().map_or(i64::MIN, |entry| entry.presentation);
            let expected = own.iter().map(|entry| (end - lead + entry.presentation).max(latest));
            assert!(times.eq(expected), "{codec}: other times from sample {first} on");
            (first, end) = (first + own.len(), end - lead + one.tracks()[0].index().end());
        }
        assert_eq!(media.tracks()[0].index().end(), end);
        assert!((end - 6 * rate).abs() < rate / 20, "{codec}: {end}");
    }
}

#[test]
fn a_recording_that_is_coded_otherwise_is_left_out_by_name_and_others_play_on() {
    let test = "a_recording_that_is_coded_otherwise_is_left_out_by_name_and_others_play_on";
    let Some(folder) = folder(test) else { return };
    let part = |options: &str, name: &str| folder.encode(1, &format!("-vn {options}"), name);
    let vorbis = part("-c:a libvorbis -ac 2", "vorbis.ogg");
    let one = part("-c:a libvorbis -ac 1", "one.ogg");
    let opus = part("-c:a libopus -ac 2", "opus.ogg");
    let alone = Arc::new(open(&vorbis));
    let media = chained(&folder, &[&vorbis, &one, &opus, &vorbis], "chain.ogg");
    let phrase = "2 of its 4 recordings, as recording 2 is Vorbis of 1 channels at 44100 Hz and coded otherwise \
                  than the first: encode all alike to play all";
    assert_eq!(media.left_out(), [phrase]);
    assert_eq!(
        sent(&folder.path("chain.ogg"), &media),
        [sent(&vorbis, &alone), sent(&vorbis, &alone)].concat()
    );
    let media = chained(&folder, &[&opus, &vorbis], "other.ogg");
    assert_eq!(sent(&folder.path("other.ogg"), &media), sent(&opus, &Arc::new(open(&opus))));
    assert!(media.left_out()[0].starts_with("1 of its 2 recordings, as recording 2 is Vorbis of 2 channels"));
    // What is known of a chain can be kept.
    let bytes = std::fs::metadata(folder.path("chain.ogg")).expect("a file").len();
    let media = open(&folder.path("chain.ogg"));
    let again = Media::from_bytes(&media.to_bytes(), bytes).expect("what was kept");
    assert_eq!(again.to_bytes(), media.to_bytes());
}
