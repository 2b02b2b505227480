//! The tracks of transport streams, against what ffprobe says of every packet and what ffmpeg takes out of them.

mod support;

use std::path::Path;
use std::sync::Arc;

use forebay_media::{Media, Sample, Streams};
use forebay_rtsp::presentation::Codec;
use forebay_testkit::{klv, transport};

use support::{Folder, H264, H265, Probed, folder, open, payload};

/// The samples of a track, as they are sent.
fn sent(file: &[u8], media: &Arc<Media>, track: usize) -> Vec<(Sample, Vec<u8>)> {
    let unpack = |sample: Sample| {
        let mut bytes = file[sample.at.start as usize..sample.at.end as usize].to_vec();
        let count = sample.packing.unpack(&mut bytes);
        bytes.truncate(count);
        (sample, bytes)
    };
    media.plan(&[track], 0).map(unpack).collect()
}

/// How far apart the times of a picture or frame may be: a sample of sound and two ticks of 90 kHz, which are rounded.
const TICKS_NS: i64 = 46_000;

/// Times, key frames and bytes are those of ffmpeg, and so is the number of samples, but for what is told here.
fn check(folder: &Folder, path: &Path, filters: &[&str]) -> Arc<Media> {
    let media = Arc::new(open(path));
    let file = std::fs::read(path).expect("a file");
    let probed = Probed::of(path);
    assert_eq!(media.tracks().len(), probed.streams.len(), "{:?}", media.left_out());
    let mut first_ns = None;
    for (number, filter) in filters.iter().enumerate() {
        let rate = probed.time_base(number).1;
        let packets = probed.packets_of(number);
        let samples = sent(&file, &media, number);
        assert_eq!(samples.len(), packets.len(), "track {number} of {}", path.display());
        for ((sample, _), packet) in samples.iter().zip(&packets) {
            let told_ns = packet.pts.expect("pts") * 1_000_000_000 / rate;
            let offset_ns = *first_ns.get_or_insert(told_ns - sample.presentation_ns);
            let apart_ns = told_ns - sample.presentation_ns - offset_ns;
            assert!(
                apart_ns.abs() <= TICKS_NS,
                "{apart_ns} ns: {sample:?}, {packet:?} of {}",
                path.display()
            );
            assert_eq!(sample.is_sync, packet.is_key(), "{sample:?}, {packet:?} of {}", path.display());
        }
        let got: Vec<u8> = samples.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let expected = payload(folder, path, &format!("0:{number}"), filter);
        assert!(
            got == expected,
            "track {number} of {}: {} of {} bytes",
            path.display(),
            got.len(),
            expected.len()
        );
    }
    media
}

const ADTS: &str = "-bsf:a aac_adtstoasc";

#[test]
fn packets_of_opus_are_sent_without_the_headers_before_them() {
    let Some(folder) = folder("packets_of_opus_are_sent_without_the_headers_before_them") else { return };
    for channels in [1, 2, 6] {
        let film = folder.encode(3, &format!("{H264} -c:a libopus -ac {channels}"), "a.mkv");
        let path = folder.convert(&film, "-c copy", "a.ts");
        let (plain, media) = (open(&film), Arc::new(open(&path)));
        assert_eq!(media.tracks()[1].codec, plain.tracks()[1].codec, "{:?}", media.left_out());
        let samples = sent(&std::fs::read(&path).expect("a file"), &media, 1);
        let expected = payload(&folder, &film, "0:1", "");
        assert!(samples.iter().flat_map(|(_, bytes)| bytes).eq(&expected), "{channels} channels");
        let is_next =
            |two: &[(Sample, Vec<u8>)]| two[1].0.presentation_ns - two[0].0.presentation_ns == 20_000_000;
        assert!(samples.windows(2).all(is_next) && samples.len() > 140, "{} packets", samples.len());
    }
}

#[test]
fn streams_are_tracks() {
    let Some(folder) = folder("streams_are_tracks") else { return };
    let aac = folder.encode(2, &format!("{H264} -c:a aac -metadata:s:a:0 language=fra"), "aac.ts");
    let media = check(&folder, &aac, &["", ADTS]);
    let [pictures, sound] = media.tracks() else { panic!("two tracks") };
    let Codec::H264 { sps, pps } = &pictures.codec else { panic!("{:?}", pictures.codec) };
    assert_eq!((sps.len(), pps.len()), (1, 1));
    assert!(matches!(sound.codec, Codec::Aac { clock_rate: 44_100, channels: 1, .. }));
    assert_eq!(sound.language.as_deref(), Some("fra"));
    for (name, options) in [
        ("mp3.ts", format!("{H265} -c:a libmp3lame")),
        ("ac3.ts", format!("{H264} -c:a ac3 -b:a 192k")),
        ("eac3.ts", format!("{H264} -c:a eac3 -ac 6")),
        // Packets of pictures, sound and clocks in turns, and frames that end amid a packet.
        ("spread.ts", format!("{H264} -c:a mp2 -muxrate 3M -pes_payload_size 0 -pcr_period 5")),
    ] {
        check(&folder, &folder.encode(2, &options, name), &["", ""]);
    }
}

#[test]
fn a_stream_that_begins_amid_a_group_of_pictures_begins_with_the_next() {
    let Some(folder) = folder("a_stream_that_begins_amid_a_group_of_pictures_begins_with_the_next") else {
        return;
    };
    let whole = folder.encode(2, &format!("{H264} -c:a aac"), "whole.ts");
    let file = std::fs::read(&whole).expect("a file");
    let part = folder.path("part.ts");
    std::fs::write(&part, &file[file.len() / 3 / 188 * 188..]).expect("a file");
    let media = Arc::new(open(&part));
    let first = media.plan(&[0], 0).next().expect("a picture");
    assert!(first.is_sync && media.tracks().len() == 2, "{first:?}");
}

#[test]
fn times_go_on_where_the_clock_starts_again_and_where_streams_were_joined() {
    let Some(folder) = folder("times_go_on_where_the_clock_starts_again_and_where_streams_were_joined")
    else {
        return;
    };
    let early = folder.encode(2, &format!("{H264} -c:a aac"), "early.ts");
    // The clock starts again after 95443.7 seconds.
    let late = folder.convert(&early, "-c copy -output_ts_offset 95442.5 -muxdelay 0", "late.ts");
    let durations = [&early, &late].map(|path| open(path).duration_ns());
    assert!(durations[0].abs_diff(durations[1]) < 50_000_000, "{durations:?}");
    let joined = folder.path("joined.ts");
    let later = folder.convert(&early, "-c copy -output_ts_offset 500 -muxdelay 0", "later.ts");
    let both = [std::fs::read(&later).expect("a file"), std::fs::read(&early).expect("a file")].concat();
    std::fs::write(&joined, both).expect("a file");
    let media = Arc::new(open(&joined));
    let twice = durations[0] + durations[1];
    assert!(media.duration_ns().abs_diff(twice) < 200_000_000, "{} of {twice}", media.duration_ns());
    for track in [0, 1] {
        let times: Vec<_> = media.plan(&[track], 0).map(|sample| sample.decode_ns).collect();
        assert!(times.is_sorted() && times.len() > 80);
        assert!(times.windows(2).all(|two| two[1] - two[0] < 200_000_000), "{times:?}");
    }
}

#[test]
fn a_stream_whose_pictures_cannot_be_sent_is_served_as_it_is() {
    let Some(folder) = folder("a_stream_whose_pictures_cannot_be_sent_is_served_as_it_is") else { return };
    let old = folder.encode(2, "-c:v mpeg2video -c:a mp2", "old.ts");
    let whole = folder.encode(2, &format!("{H264} -c:a aac"), "whole.ts");
    let codecs = |media: &Media| media.tracks().iter().map(|track| track.codec.clone()).collect::<Vec<_>>();
    assert_eq!(codecs(&open(&old)), [Codec::MpegTransport]);
    let file = std::fs::File::open(&whole).expect("a file");
    let raw = Media::read_as(&file, Streams::AsTheyAre).expect("a transport stream");
    assert_eq!(codecs(&raw), [Codec::MpegTransport]);
}

#[test]
fn units_of_metadata_are_samples() {
    let units: Vec<_> = (0..20).map(|number| klv::unit(40 * number, number as u8)).collect();
    for has_cells in [false, true] {
        let file = klv::stream(&units, has_cells);
        let media = Arc::new(Media::read(&file).expect("a stream"));
        assert_eq!(media.tracks()[0].codec, Codec::Klv);
        let samples = sent(&file, &media, 0);
        assert_eq!(samples.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), units);
        let times: Vec<_> = samples.iter().map(|(sample, _)| sample.presentation_ns).collect();
        assert_eq!(times, (0..20).map(|number| number * 100_000_000).collect::<Vec<_>>());
    }
}

const MAP_PID: u16 = 0x100;
const PICTURES_PID: u16 = 0x101;
const H264_TYPE: u8 = 0x1B;
const H265_TYPE: u8 = 0x24;

/// Pictures that ffmpeg encodes, as another transport stream has them.
fn encoded(folder: &Folder, options: &str, name: &str) -> Vec<(Sample, Vec<u8>)> {
    let path = folder.encode(2, &format!("{options} -an"), name);
    let file = std::fs::read(&path).expect("a file");
    sent(&file, &Arc::new(open(&path)), 0)
}

/// Of a sample, on a clock of 90 kHz: when it is seen, and when it is decoded.
fn ticks(sample: &Sample) -> (u64, u64) {
    let ticks = |ns: i64| (90_000 + (ns * 9 + 50_000).div_euclid(100_000)) as u64;
    (ticks(sample.presentation_ns), ticks(sample.decode_ns))
}

/// The samples are these, with their times, but for rounding.
fn assert_same(file: &Vec<u8>, expected: &[(Sample, Vec<u8>)], what: &str) {
    let media = Arc::new(Media::read(file).expect("a stream"));
    assert_eq!(media.tracks().len(), 1, "{what}");
    let got = sent(file, &media, 0);
    assert_eq!(got.len(), expected.len(), "{what}");
    for (number, ((sample, bytes), (other, other_bytes))) in got.iter().zip(expected).enumerate() {
        assert!(bytes == other_bytes, "{what}: picture {number}");
        assert_eq!(sample.is_sync, other.is_sync, "{what}: picture {number}");
        let apart = |one: i64, other: i64| (one - other).abs();
        let times =
            [apart(sample.decode_ns, other.decode_ns), apart(sample.presentation_ns, other.presentation_ns)];
        assert!(times.iter().all(|ns| *ns <= TICKS_NS), "{what}: picture {number}, {sample:?}, {other:?}");
    }
}

#[test]
fn a_packet_of_several_pictures_is_as_many_samples() {
    let Some(folder) = folder("a_packet_of_several_pictures_is_as_many_samples") else { return };
    for (kind, options, name) in [(H264_TYPE, H264, "h264.ts"), (H265_TYPE, H265, "h265.ts")] {
        let pictures = encoded(&folder, options, name);
        let content =
            |some: &[(Sample, Vec<u8>)]| some.iter().flat_map(|one| one.1.clone()).collect::<Vec<_>>();
        for count in [1, 2, 3, 5, 12, 20] {
            let mut file = transport::tables(MAP_PID, &[(kind, PICTURES_PID)]);
            for some in pictures.chunks(count) {
                file.extend(transport::pictures(PICTURES_PID, Some(ticks(&some[0].0)), &content(some)));
            }
            assert_same(&file, &pictures, &format!("{count} a packet, {name}"));
            // Packets that end amid a picture, with the time of the first one that begins in each.
            let mut file = transport::tables(MAP_PID, &[(kind, PICTURES_PID)]);
            let mut bytes = Vec::new();
            let mut told = None;
            for (sample, content) in &pictures {
                told = told.or(Some(ticks(sample)));
                bytes.extend(content);
                while bytes.len() > 1_000 * count {
                    let part: Vec<u8> = bytes.drain(..1_000 * count).collect();
                    file.extend(transport::pictures(PICTURES_PID, told.take(), &part));
                }
            }
            file.extend(transport::pictures(PICTURES_PID, told, &bytes));
            assert_same(&file, &pictures, &format!("{count} kB a packet, {name}"));
        }
    }
}

#[test]
fn streams_go_on_in_the_packets_that_a_new_map_tells_of() {
    let Some(folder) = folder("streams_go_on_in_the_packets_that_a_new_map_tells_of") else { return };
    let first = folder.encode(2, &format!("{H264} -c:a aac"), "first.ts");
    let bytes_of = |path: &Path| {
        let (file, media) = (std::fs::read(path).expect("a file"), Arc::new(open(path)));
        let of = |track| sent(&file, &media, track).into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
        (file.clone(), [of(0), of(1)])
    };
    let (file, samples) = bytes_of(&first);
    for (number, options) in [
        // Streams in other packets; the map, too; streams in each other's packets.
        "-mpegts_start_pid 0x200",
        "-mpegts_start_pid 0x200 -mpegts_pmt_start_pid 0x1100",
        "-streamid 0:257 -streamid 1:256",
    ]
    .iter()
    .enumerate()
    {
        let options = format!("-c copy -output_ts_offset 2 {options}");
        let (other, more) = bytes_of(&folder.convert(&first, &options, &format!("{number}.ts")));
        let joined = [file.clone(), other].concat();
        let media = Arc::new(Media::read(&joined).expect("a stream"));
        assert_eq!(media.tracks().len(), 2, "{options}");
        for track in [0, 1] {
            let got: Vec<_> = sent(&joined, &media, track).into_iter().map(|(_, bytes)| bytes).collect();
            let expected = [samples[track].clone(), more[track].clone()].concat();
            assert_eq!(got.len(), expected.len(), "track {track}, {options}");
            assert!(got == expected, "track {track}, {options}");
        }
        assert!(media.duration_ns().abs_diff(4_000_000_000) < 200_000_000, "{}", media.duration_ns());
    }
}

#[test]
fn sound_whose_channels_change_goes_on_where_its_frames_tell_them_and_is_named_else() {
    let test = "sound_whose_channels_change_goes_on_where_its_frames_tell_them_and_is_named_else";
    let Some(folder) = folder(test) else { return };
    for codec in ["ac3", "aac"] {
        let parts = [2, 6].map(|channels| {
            let options = format!("{H264} -c:a {codec} -ac {channels} -output_ts_offset {channels}");
            std::fs::read(folder.encode(2, &options, "part.ts")).expect("a file")
        });
        let counts = parts.each_ref().map(|part| {
            let media = Arc::new(Media::read(part).expect("a stream"));
            sent(part, &media, 1).len()
        });
        let joined = parts.concat();
        let media = Arc::new(Media::read(&joined).expect("a stream"));
        let (count, left_out) = (sent(&joined, &media, 1).len(), media.left_out());
        if codec == "ac3" {
            assert_eq!((count, left_out), (counts[0] + counts[1], &[][..]));
        } else {
            let expected = ["frames of AAC that are coded otherwise than the first ones"];
            assert!(left_out == expected && count.abs_diff(counts[0]) <= 1, "{count}, {left_out:?}");
        }
    }
}

#[test]
fn sound_in_latm_is_left_out_by_name_beside_pictures_and_alone_is_served_as_it_is() {
    let test = "sound_in_latm_is_left_out_by_name_beside_pictures_and_alone_is_served_as_it_is";
    let Some(folder) = folder(test) else { return };
    let film = open(&folder.encode(1, &format!("{H264} -c:a aac -mpegts_flags +latm"), "film.ts"));
    let codecs: Vec<&Codec> = film.tracks().iter().map(|track| &track.codec).collect();
    assert!(matches!(codecs[..], [Codec::H264 { .. }]), "{codecs:?}");
    assert_eq!(film.left_out(), ["AAC in LATM, which is no codec that can be served"]);
    let sound = open(&folder.encode(1, "-vn -c:a aac -mpegts_flags +latm", "sound.ts"));
    let codecs: Vec<&Codec> = sound.tracks().iter().map(|track| &track.codec).collect();
    assert_eq!(codecs, [&Codec::MpegTransport]);
}
