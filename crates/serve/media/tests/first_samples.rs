//! Coding that a file does not tell is told by the first sample.

mod support;

use std::sync::Arc;

use forebay_media::Media;
use forebay_rtsp::packetise::{Format, Framing};
use forebay_rtsp::presentation::Codec;

use support::{Folder, H264, H265, folder, open};

/// Channels that have no number, so that a list of them stands in the configuration, or in frames.
const LISTED: &str = "-map 1:a -af aformat=channel_layouts=hexagonal -c:a aac";

#[test]
fn channels_of_aac_that_only_frames_list_are_in_its_description() {
    let Some(folder) = folder("channels_of_aac_that_only_frames_list_are_in_its_description") else { return };
    let plain = folder.encode(1, LISTED, "a.aac");
    // ffmpeg takes the list out of the first frame, too.
    let told = open(&folder.convert(&plain, "-c copy", "told.mp4")).tracks()[0].codec.clone();
    let Codec::Aac { config, channels: 6, .. } = &told else { panic!("{told:?}") };
    assert!(config.len() > 5, "{config:?}");
    for file in [plain.clone(), folder.convert(&plain, "-c copy", "a.ts")] {
        assert_eq!(open(&file).tracks()[0].codec, told, "{}", file.display());
    }
    // Without the list nobody can decode it.
    let mut content = std::fs::read(&plain).expect("a file");
    content[7] = 0;
    let error = Media::read(&content).expect_err("no channels").to_string();
    assert!(error.contains("AAC that does not tell its channels"), "{error}");
}

/// Makes what begins with these bytes behind a place another thing, or nothing.
fn replace(file: &mut [u8], behind: &[u8], old: &[u8], new: impl Fn(&mut [u8])) {
    let find = |bytes: &[u8], wanted: &[u8]| bytes.windows(wanted.len()).position(|some| some == wanted);
    let at = find(file, behind).expect("the place");
    let found = find(&file[at..], old).expect("what is replaced");
    new(&mut file[at + found..]);
}

/// A file of Matroska whose codec is told nothing: space takes the place.
fn untold(mut file: Vec<u8>, codec: &[u8]) -> Vec<u8> {
    replace(&mut file, codec, &[0x63, 0xA2], |element| {
        // The ID is one byte shorter, and the length one byte longer.
        let length = element[2];
        let longer = if length & 0x80 != 0 { [0x40, length & 0x7F] } else { [0x20, length & 0x3F] };
        element[..3].copy_from_slice(&[0xEC, longer[0], longer[1]]);
    });
    file
}

fn pictures(folder: &Folder, options: &str, name: &str) -> Vec<u8> {
    std::fs::read(folder.encode(1, &format!("-map 0:v {options}"), name)).expect("a file")
}

#[test]
fn pictures_of_matroska_tell_what_their_track_does_not() {
    let Some(folder) = folder("pictures_of_matroska_tell_what_their_track_does_not") else { return };
    let h264 = format!("{H264} -x264-params repeat-headers=1");
    let h265 = format!("{H265}:repeat-headers=1");
    for (options, codec, name) in
        [(h264, &b"V_MPEG4/ISO/AVC"[..], "h264.mkv"), (h265, b"V_MPEGH/ISO/HEVC", "h265.mkv")]
    {
        let whole = pictures(&folder, &options, name);
        let told = Arc::new(Media::read(&whole).expect(name));
        let track = &told.tracks()[0];
        let mut file = untold(whole, codec);
        let same = |file: &Vec<u8>, format: Format| {
            let media = Media::read(file).expect(name);
            let one = &media.tracks()[0];
            assert_eq!((&one.codec, one.format), (&track.codec, format));
            assert_eq!(one.index().count(), track.index().count(), "{name}");
        };
        same(&file, track.format);
        // The same with start codes, which are as long as lengths.
        for sample in told.plan(&[0], 0) {
            let mut at = sample.at.start as usize;
            while at < sample.at.end as usize {
                let length = u32::from_be_bytes(file[at..at + 4].try_into().expect("a length"));
                file[at..at + 4].copy_from_slice(&[0, 0, 0, 1]);
                at += 4 + length as usize;
            }
        }
        let format = match track.format {
            Format::H264(_) => Format::H264(Framing::StartCodes),
            _ => Format::H265(Framing::StartCodes),
        };
        same(&file, format);
    }
}

#[test]
fn av1_tells_its_level_where_its_record_is_missing() {
    let Some(folder) = folder("av1_tells_its_level_where_its_record_is_missing") else { return };
    let options = "-frames:v 5 -c:v libaom-av1 -cpu-used 8 -usage realtime -pix_fmt yuv420p";
    let mut mp4 = pictures(&folder, options, "a.mp4");
    let told = Media::read(&mp4).expect("a film").tracks()[0].codec.clone();
    assert!(matches!(told, Codec::Av1 { profile: 0, level: 0..31, .. }), "{told:?}");
    replace(&mut mp4, b"av01", b"av1C", |name| name[..4].copy_from_slice(b"free"));
    let mkv = untold(pictures(&folder, options, "a.mkv"), b"V_AV1");
    for file in [mp4, mkv] {
        assert_eq!(Media::read(&file).expect("a film").tracks()[0].codec, told);
    }
}
