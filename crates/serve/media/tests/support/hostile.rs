//! Small files of each kind, for tests that damage them, and what holds of every file however it was damaged.

use std::net::Ipv4Addr;
use std::sync::Arc;

use forebay_media::index::{Cursor, Index, SAMPLES_MAX};
use forebay_media::{Error, Media};
use forebay_rtsp::sdp;

use super::{Folder, H264, H265};

/// What a process may take that reads such files: each has less than 300 kB.
pub const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// How much is played where not everything is.
const FEW: usize = 200;

/// One file of each kind, with its name.
pub fn files(folder: &Folder) -> Vec<(&'static str, Vec<u8>)> {
    let mp4 = folder.encode(&format!("{H264} -c:a aac -t 1"), "late.mp4");
    let sources = [
        ("fragmented.mp4", "-c copy -movflags +frag_keyframe+empty_moov+default_base_moof"),
        ("early.mp4", "-c copy -movflags +faststart"),
        ("a.mov", "-c copy"),
        // Without the random number that each Matroska file has else.
        ("a.mkv", "-c copy -fflags +bitexact"),
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

/// An MP4 file of less than 300 bytes whose table tells of so many samples, of so many bytes each.
pub fn table(samples: u32, bytes: u32) -> Vec<u8> {
    let mp3 = make(b".mp3", &[0; 28]);
    let table = [
        make(b"stsd", &[words(&[0, 1]), mp3].concat()),
        make(b"stsz", &words(&[0, bytes, samples])),
        make(b"stts", &words(&[0, 1, u32::MAX, 1])),
        make(b"stsc", &words(&[0, 1, 1, u32::MAX, 1])),
        make(b"stco", &words(&[0, 1, 0])),
    ];
    let media = [
        make(b"mdhd", &words(&[0, 0, 0, 1000, 0, 0])),
        make(b"hdlr", &[&words(&[0, 0])[..], b"soun", &[0; 13]].concat()),
        make(b"minf", &make(b"stbl", &table.concat())),
    ];
    make(b"moov", &make(b"trak", &make(b"mdia", &media.concat())))
}

/// The same with a fragment instead, whose samples have no bytes: any number of them takes none.
pub fn fragment(samples: u32) -> Vec<u8> {
    const HAS_DEFAULT_SIZE: u32 = 0x10;
    let run = [make(b"tfhd", &words(&[HAS_DEFAULT_SIZE, 0, 0])), make(b"trun", &words(&[0, samples]))];
    [table(0, 1), make(b"moof", &make(b"traf", &run.concat()))].concat()
}

fn make(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes()[..], name, content].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Opens a file, describes it, and plays it from several places. Returns how many samples there are.
pub fn play(file: &Vec<u8>) -> Result<u64, Error> {
    let media = Arc::new(Media::read(file).inspect_err(|error| assert!(!error.to_string().is_empty()))?);
    let count = media.tracks().iter().map(|track| track.index().count()).sum();
    assert!(count <= SAMPLES_MAX);
    media.tracks().iter().for_each(|track| check(track.index()));
    let description = sdp::describe(&media.presentation("film".to_owned(), 1), Ipv4Addr::LOCALHOST.into());
    assert!(!description.is_empty());

    let tracks: Vec<_> = (0..media.tracks().len()).collect();
    let duration_ns = media.duration_ns();
    let places = [
        (0, usize::MAX),
        (duration_ns / 2, usize::MAX),
        (duration_ns / 3, FEW),
        (duration_ns, FEW),
        (u64::MAX, FEW),
    ];
    for (wanted_ns, samples_max) in places {
        let position_ns = media.seek(&tracks, wanted_ns);
        let mut has_begun = vec![false; tracks.len()];
        for sample in media.plan(&tracks, position_ns).take(samples_max) {
            assert!(sample.at.start <= sample.at.end && sample.at.end <= file.len() as u64, "{sample:?}");
            let is_first = !std::mem::replace(&mut has_begun[sample.track], true);
            let has_sync = || media.tracks()[sample.track].index().has_sync();
            assert!(!is_first || sample.is_sync || !has_sync(), "{sample:?} at {position_ns}");
        }
    }
    Ok(count)
}

/// What an index says of all samples is what they say one by one.
fn check(index: &Index) {
    let (mut count, mut bytes) = (0, 0);
    for entry in index.entries_from(Cursor::default()) {
        assert!((index.begin()..=index.end()).contains(&entry.presentation), "{entry:?}");
        assert!(entry.decode <= entry.presentation, "{entry:?}");
        count += 1;
        bytes += u64::from(entry.bytes);
    }
    assert_eq!((count, bytes), (index.count(), index.payload_bytes()));
}

/// The most memory that this process has had.
pub fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
