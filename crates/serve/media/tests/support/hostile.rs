//! Small files of each kind, for tests that damage them.

use super::{Folder, H264, H265};

/// One file of each kind, with its name.
pub fn files(folder: &Folder) -> Vec<(&'static str, Vec<u8>)> {
    let mp4 = folder.encode(2, &format!("{H264} -c:a aac -t 1"), "late.mp4");
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
        ("a.flv", "-c copy"),
        ("a.avi", "-c:v mpeg4 -g 12 -bf 2 -c:a pcm_s16le"),
        ("a.ogg", "-map 0:a -c:a libopus -page_duration 1 -fflags +bitexact"),
    ];
    let made = sources.iter().map(|(name, options)| (*name, folder.convert(&mp4, options, name)));
    let mut files: Vec<_> = made.collect();
    files.push(("late.mp4", mp4.clone()));
    files.push(("a.h265", folder.encode(2, &format!("{H265} -an -t 1"), "a.h265")));
    files.into_iter().map(|(name, path)| (name, std::fs::read(path).expect("a file"))).collect()
}

/// Files of what readers have code for beside that: fragments with offsets of their own, clusters without a length, sound
/// alone, fields, other codecs, tags.
pub fn more_files(folder: &Folder) -> Vec<(&'static str, Vec<u8>)> {
    let h264 = |more: &str| format!("{H264} -an -t 1 {more}");
    let sources = [
        ("old.mp4", format!("{H264} -c:a aac -t 1 -movflags +frag_keyframe+separate_moof")),
        ("h265.mp4", format!("{H265} -c:a libopus -t 1")),
        ("mp3.mov", "-vn -c:a libmp3lame -t 1".to_owned()),
        ("live.mkv", format!("{H264} -c:a aac -t 1 -live 1 -fflags +bitexact")),
        ("h265.mkv", format!("{H265} -c:a libopus -t 1 -fflags +bitexact")),
        ("mp3.mkv", "-vn -c:a libmp3lame -t 1 -fflags +bitexact".to_owned()),
        ("sound.ts", "-vn -c:a aac -t 1".to_owned()),
        ("baseline.h264", h264("-bf 0")),
        ("interlaced.h264", h264("-flags +ildct+ilme -preset veryfast")),
        ("tagged.aac", "-vn -c:a aac -t 1 -write_id3v2 1".to_owned()),
        ("layer2.mp2", "-vn -c:a mp2 -t 1".to_owned()),
        ("vp8.mkv", "-c:v libvpx -deadline realtime -c:a libvorbis -t 1 -fflags +bitexact".to_owned()),
        ("vp9.mkv", "-an -c:v libvpx-vp9 -deadline realtime -t 1 -fflags +bitexact".to_owned()),
        ("mpeg4.mp4", "-c:v mpeg4 -c:a ac3 -t 1".to_owned()),
        ("jpeg.mkv", "-c:v mjpeg -huffman default -c:a pcm_s16le -t 1 -fflags +bitexact".to_owned()),
        ("plain.mov", "-vn -c:a pcm_s24le -t 1".to_owned()),
        ("av1.mp4", "-an -c:v libaom-av1 -cpu-used 8 -usage realtime -t 1".to_owned()),
        ("ac3.ts", format!("{H264} -c:a ac3 -t 1")),
        ("jpeg.avi", "-c:v mjpeg -huffman default -c:a libmp3lame -t 1".to_owned()),
        ("plain.wav", "-vn -c:a pcm_s16le -t 1".to_owned()),
        ("large.wav", "-vn -c:a pcm_s24le -rf64 always -t 1".to_owned()),
        ("vorbis.ogg", "-vn -c:a libvorbis -t 1 -fflags +bitexact".to_owned()),
        ("mp3.flv", format!("{H264} -c:a libmp3lame -t 1")),
    ];
    let read = |(name, options): (&'static str, String)| {
        (name, std::fs::read(folder.encode(2, &options, name)).expect("a file"))
    };
    let mut files: Vec<_> = sources.into_iter().map(read).collect();
    // A chain: one that is coded otherwise stands between two that are alike.
    let [vorbis, opus] = ["-c:a libvorbis -t 0.5", "-c:a libopus -t 0.2"]
        .map(|options| read(("link.ogg", format!("-vn {options} -fflags +bitexact"))).1);
    files.push(("chain.ogg", [&vorbis[..], &opus, &vorbis].concat()));
    folder.put("a.srt", "1\n00:00:00,100 --> 00:00:00,500\nOne\n\n2\n00:00:00,600 --> 00:00:00,900\nTwo\n\n");
    let input = format!("-f srt -i {} -map 1:a -map 2 -c:a aac -t 1", folder.path("a.srt").display());
    files.push(read(("text.mp4", format!("{input} -c:s mov_text"))));
    files.push(read(("text.mkv", format!("{input} -c:s subrip -fflags +bitexact"))));
    files
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

/// A box of MP4.
pub fn make(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes()[..], name, content].concat()
}

/// Numbers as its boxes have them.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
