//! Files of each kind, against what ffprobe says of every packet and what ffmpeg takes out of them.

mod support;

use std::path::Path;
use std::sync::Arc;

use forebay_media::index::Entry;
use forebay_media::{Media, TimeBase};
use forebay_rtsp::packetise::{Format, Framing};
use forebay_rtsp::presentation::Codec;

use support::{Folder, H264, H265, Packet, Probed, bytes_of, entries, folder, open, payload};

/// Times and lengths of all samples are those of ffprobe's packets, tick by tick, and their bytes those of ffmpeg.
fn check(folder: &Folder, file: &Path, has_decode_times: bool, has_positions: bool) -> Media {
    let media = open(file);
    let probed = Probed::of(file);
    assert_eq!(media.tracks().len(), probed.streams.len(), "{:?}", media.left_out());
    // What begins late begins at 0.
    let ns = |packet: &Packet| {
        let (numerator, denominator) = probed.time_base(packet.stream_index);
        Some(packet.pts? * 1_000_000_000 * numerator / denominator)
    };
    let late_ns = probed.packets.iter().filter_map(ns).min().unwrap_or_default().max(0);
    for (number, track) in media.tracks().iter().enumerate() {
        let late = track.time_base().ticks(late_ns);
        let (numerator, denominator) = probed.time_base(number);
        let packets = probed.packets_of(number);
        let entries = entries(&media, number);
        assert_eq!(entries.len(), packets.len());
        for (entry, packet) in entries.iter().zip(&packets) {
            let what = format!("{entry:?}, {packet:?} of {}", file.display());
            assert_eq!(Some(entry.presentation + late), packet.pts, "{what}");
            assert!(entry.decode <= entry.presentation, "{what}");
            if has_decode_times {
                assert_eq!(Some(entry.decode + late), packet.dts, "{what}");
            }
            if has_positions {
                assert_eq!(entry.at, packet.at(), "{what}");
            }
            assert_eq!(u64::from(entry.bytes), packet.bytes(), "{what}");
            assert_eq!(entry.is_sync, packet.is_key(), "{what}");
        }
        assert!(entries.is_sorted_by_key(|entry| entry.decode));
        assert_eq!(track.time_base().on_clock(denominator, 1), numerator, "{:?}", track.time_base());
        let payload = payload(folder, file, &format!("0:{number}"), "");
        assert!(bytes_of(file, &entries) == payload, "stream {number} of {}", file.display());
    }
    let difference = media.duration_ns().abs_diff(probed.duration_ns());
    assert!(difference <= 50_000_000, "{} against {}", media.duration_ns(), probed.duration_ns());
    media
}

fn assert_h264(codec: &Codec) {
    let Codec::H264 { sps, pps } = codec else { panic!("{codec:?}") };
    assert_eq!((sps.len(), pps.len()), (1, 1));
    assert_eq!((sps[0][0] & 0x1F, pps[0][0] & 0x1F), (7, 8));
}

fn assert_h265(codec: &Codec) {
    let Codec::H265 { vps, sps, pps } = codec else { panic!("{codec:?}") };
    let kinds = [vps, sps, pps].map(|sets| sets.iter().map(|set| set[0] >> 1).collect::<Vec<_>>());
    assert_eq!(kinds, [[32], [33], [34]]);
}

#[test]
fn the_time_of_a_recording_is_known_where_its_file_tells_it() {
    let Some(folder) = folder("the_time_of_a_recording_is_known_where_its_file_tells_it") else {
        return;
    };
    for (told, expected) in
        [("-metadata creation_time=2021-06-15T12:00:00Z", Some(1_623_758_400_000_000_000)), ("", None)]
    {
        for name in ["a.mp4", "b.mkv"] {
            let file = folder.encode(2, &format!("{H264} {told}"), name);
            assert_eq!(open(&file).presentation(String::new(), 1).recorded_ns, expected, "{name} {told}");
        }
    }
}

#[test]
fn mp4_with_its_tables_at_either_end() {
    let Some(folder) = folder("mp4_with_its_tables_at_either_end") else { return };
    let late = folder.encode(2, &format!("{H264} -c:a aac -metadata:s:a:0 language=fra"), "late.mp4");
    let media = check(&folder, &late, true, true);
    let [video, audio] = media.tracks() else { panic!("two tracks") };
    assert_h264(&video.codec);
    assert_eq!(video.format, Format::H264(Framing::Lengths(4)));
    assert_eq!((video.language.as_deref(), audio.language.as_deref()), (None, Some("fra")));
    let Codec::Aac { config, clock_rate: 44_100, channels: 1 } = &audio.codec else {
        panic!("{:?}", audio.codec)
    };
    assert_eq!(config[..2], [0x12, 0x08]);
    let early = folder.convert(&late, "-c copy -movflags +faststart", "early.mp4");
    check(&folder, &early, true, true);
}

#[test]
fn mov_and_other_codecs() {
    let Some(folder) = folder("mov_and_other_codecs") else { return };
    let mov = folder.encode(2, &format!("{H264} -c:a aac"), "a.mov");
    let media = check(&folder, &mov, true, true);
    assert!(matches!(media.tracks()[1].codec, Codec::Aac { clock_rate: 44_100, .. }));
    let hevc = folder.encode(2, &format!("{H265} -tag:v hvc1 -c:a libopus -ac 2 -b:a 32k"), "hevc.mp4");
    let media = check(&folder, &hevc, true, true);
    assert_h265(&media.tracks()[0].codec);
    assert_eq!(media.tracks()[1].codec, Codec::Opus { channels: 2 });
    let mp3 = folder.encode(2, &format!("{H264} -c:a libmp3lame"), "mp3.mp4");
    assert_eq!(check(&folder, &mp3, true, true).tracks()[1].codec, Codec::MpegAudio);
    let mp2 = folder.encode(2, &format!("{H264} -c:a mp2"), "mp2.mov");
    assert_eq!(check(&folder, &mp2, true, true).tracks()[1].codec, Codec::MpegAudio);
}

#[test]
fn fragmented_mp4() {
    let Some(folder) = folder("fragmented_mp4") else { return };
    let whole = folder.encode(2, &format!("{H264} -c:a aac"), "whole.mp4");
    for (name, flags) in [
        ("moof.mp4", "+frag_keyframe+empty_moov+default_base_moof"),
        ("absolute.mp4", "+frag_keyframe+empty_moov"),
        ("late.mp4", "+frag_keyframe+delay_moov"),
    ] {
        let fragmented = folder.convert(&whole, &format!("-c copy -movflags {flags}"), name);
        check(&folder, &fragmented, true, true);
    }
    // A track that is left out comes first in each fragment, and places are not told.
    let flags = "-strict -2 -movflags frag_keyframe+empty_moov+omit_tfhd_offset";
    let options = format!("-map 1:a -map 0:v -c:a flac {H264} -g 12 {flags}");
    let behind = folder.encode(2, &options, "behind.mp4");
    let media = open(&behind);
    assert_eq!((media.tracks().len(), media.left_out().len()), (1, 1), "{media:?}");
    assert!(bytes_of(&behind, &entries(&media, 0)) == payload(&folder, &behind, "0:1", ""));
}

#[test]
fn sound_of_fragments_is_sent_whatever_is_told_of_its_frames() {
    let Some(folder) = folder("sound_of_fragments_is_sent_whatever_is_told_of_its_frames") else { return };
    let options = "-map 1:a -c:a aac -frag_duration 500000 -movflags empty_moov+default_base_moof";
    let mut file = std::fs::read(folder.encode(2, options, "a.mp4")).expect("a file");
    let sent = |file: &Vec<u8>| Arc::new(Media::read(file).expect("sound")).plan(&[0], 0).count();
    let all = sent(&file);
    // The frames of the first fragment need others, as its header says.
    let header = file.windows(4).position(|name| name == b"tfhd").expect("a fragment");
    let flags = file[header..].windows(4).position(|flags| flags == [2, 0, 0, 0]).expect("flags");
    file[header + flags..][..4].copy_from_slice(&[1, 1, 0, 0]);
    assert_eq!(sent(&file), all);
}

#[test]
fn matroska_and_webm() {
    let Some(folder) = folder("matroska_and_webm") else { return };
    let h264 = folder.encode(2, &format!("{H264} -c:a aac -metadata:s:a:0 language=fra"), "h264.mkv");
    let media = check(&folder, &h264, false, false);
    assert_h264(&media.tracks()[0].codec);
    assert!(matches!(media.tracks()[1].codec, Codec::Aac { clock_rate: 44_100, channels: 1, .. }));
    assert_eq!(media.tracks()[1].language.as_deref(), Some("fra"));
    let h265 = folder.encode(2, &format!("{H265} -c:a libmp3lame"), "h265.mkv");
    assert_h265(&check(&folder, &h265, false, false).tracks()[0].codec);
    let webm = folder.encode(2, "-map 1:a -c:a libopus -ac 2 -b:a 32k", "a.webm");
    assert_eq!(check(&folder, &webm, false, false).tracks()[0].codec, Codec::Opus { channels: 2 });
}

#[test]
fn codecs_of_the_web_and_of_discs() {
    let Some(folder) = folder("codecs_of_the_web_and_of_discs") else { return };
    let codecs = |media: &Media| media.tracks().iter().map(|track| track.codec.clone()).collect::<Vec<_>>();
    let vp8 = "-c:v libvpx -deadline realtime -g 12";
    let webm = folder.encode(2, &format!("{vp8} -c:a libvorbis"), "vp8.webm");
    let media = check(&folder, &webm, false, false);
    let [Codec::Vp8, Codec::Vorbis { configuration, clock_rate: 44_100, channels: 1 }] = &codecs(&media)[..]
    else {
        panic!("{:?}", codecs(&media))
    };
    assert!(configuration.len() > 3000);
    let vp9 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 12";
    let deep = folder.encode(2, &format!("{vp9} -an -pix_fmt yuv420p10le"), "vp9.webm");
    assert_eq!(codecs(&check(&folder, &deep, false, false)), [Codec::Vp9 { profile: 2 }]);
    let flat = folder.encode(2, &format!("{vp9} -an"), "vp9.mp4");
    assert_eq!(codecs(&check(&folder, &flat, true, true)), [Codec::Vp9 { profile: 0 }]);
    let av1 = "-c:v libaom-av1 -usage realtime -cpu-used 8 -g 12 -an";
    for name in ["av1.mp4", "av1.mkv"] {
        let file = folder.encode(1, av1, name);
        let media = check(&folder, &file, name.ends_with("mp4"), name.ends_with("mp4"));
        assert!(matches!(codecs(&media)[..], [Codec::Av1 { profile: 0, tier: 0, .. }]), "{media:?}");
    }
    let old = folder.encode(2, "-c:v mpeg4 -g 12 -c:a ac3", "mpeg4.mp4");
    let media = check(&folder, &old, true, true);
    let [Codec::Mpeg4 { config }, Codec::Ac3 { clock_rate: 44_100, channels: 1 }] = &codecs(&media)[..]
    else {
        panic!("{:?}", codecs(&media))
    };
    assert!(config.starts_with(&[0, 0, 1, 0xB0]));
    let more = folder.encode(2, "-c:v mjpeg -huffman default -c:a eac3 -ac 6", "eac3.mkv");
    let media = check(&folder, &more, false, false);
    assert_eq!(codecs(&media), [Codec::Jpeg, Codec::Eac3 { clock_rate: 44_100, channels: 6 }]);
    let flat = folder.encode(2, "-vn -c:a eac3 -ac 2", "eac3.mp4");
    let media = check(&folder, &flat, true, true);
    assert_eq!(codecs(&media), [Codec::Eac3 { clock_rate: 44_100, channels: 2 }]);
    let wide = folder.encode(2, "-vn -c:a libopus -ac 6", "opus.mkv");
    let Codec::MultiOpus(streams) = &codecs(&check(&folder, &wide, false, false))[0] else {
        panic!("six channels")
    };
    assert_eq!((streams.streams, streams.coupled, streams.mapping.len()), (4, 2, 6));
}

#[test]
fn matroska_that_was_written_to_a_pipe() {
    let Some(folder) = folder("matroska_that_was_written_to_a_pipe") else { return };
    let whole = folder.encode(2, &format!("{H264} -c:a aac"), "whole.mkv");
    let live = folder.convert(&whole, "-c copy -f matroska -seekable 0 -live 1", "live.mkv");
    let (whole, live) = (open(&whole), open(&live));
    for track in [0, 1] {
        let times = |media| {
            entries(media, track).iter().map(|one| (one.presentation, one.is_sync)).collect::<Vec<_>>()
        };
        assert_eq!(times(&whole), times(&live));
    }
}

#[test]
fn raw_h264_and_h265() {
    let Some(folder) = folder("raw_h264_and_h265") else { return };
    for (encoder, name, filter) in
        [(H264, "a.h264", "h264_mp4toannexb"), (H265, "a.h265", "hevc_mp4toannexb")]
    {
        let mp4 = folder.encode(2, &format!("{encoder} -an"), "a.mp4");
        let raw = folder.convert(&mp4, &format!("-c copy -bsf:v {filter}"), name);
        let media = open(&raw);
        let packets = Probed::of(&raw).packets;
        let track = &media.tracks()[0];
        let entries = entries(&media, 0);
        // Whose the first zero of a start code is they see differently.
        let content = std::fs::read(&raw).expect("a file");
        let start =
            |at: u64| at + content[at as usize..].iter().take_while(|byte| **byte == 0).count() as u64;
        let told = entries.iter().map(|one| (start(one.at), one.is_sync));
        let expected = packets.iter().map(|one| (start(one.at()), one.is_key()));
        assert_eq!(told.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert!(bytes_of(&raw, &entries) == content);
        // The order that the container had, and nothing decoded later than it is presented.
        let original = Probed::of(&mp4);
        let ticks = original.time_base(0).1 / 25;
        let times: Vec<_> = original.packets.iter().map(|one| one.pts.expect("pts") / ticks).collect();
        assert_eq!(entries.iter().map(|one| one.presentation).collect::<Vec<_>>(), times);
        let first = entries[0].decode;
        assert!(
            (first..).zip(&entries).all(|(decode, one)| one.decode == decode && decode <= one.presentation)
        );
        assert_eq!(media.duration_ns(), 2_000_000_000);
        match &track.codec {
            codec @ Codec::H264 { .. } => assert_h264(codec),
            codec => assert_h265(codec),
        }
        assert!(matches!(
            track.format,
            Format::H264(Framing::StartCodes) | Format::H265(Framing::StartCodes)
        ));
    }
}

#[test]
fn raw_pictures_last_as_long_as_they_say() {
    let Some(folder) = folder("raw_pictures_last_as_long_as_they_say") else { return };
    for (encoder, name) in [(H264, "a.h264"), (H265, "a.h265")] {
        let raw = folder.encode(2, &format!("{encoder} -an -r 30000/1001"), name);
        let picture_ns = open(&raw).tracks()[0].time_base().nanoseconds(1);
        assert_eq!(picture_ns, 33_366_667, "{name}");
    }
}

#[test]
fn flash_video() {
    let Some(folder) = folder("flash_video") else { return };
    let old = folder.encode(2, &format!("{H264} -c:a aac"), "h264.flv");
    let media = check(&folder, &old, true, false);
    assert_h264(&media.tracks()[0].codec);
    assert!(matches!(media.tracks()[1].codec, Codec::Aac { clock_rate: 44_100, channels: 1, .. }));
    // The same with the codec by its name.
    let named = folder.path("named.flv");
    std::fs::write(&named, with_names(&std::fs::read(&old).expect("a file"))).expect("a file");
    let samples = |file: &Path, media: &Media| {
        let times = |one: &Entry| (one.decode, one.presentation, one.is_sync);
        let all = entries(media, 0);
        (all.iter().map(times).collect::<Vec<_>>(), bytes_of(file, &all))
    };
    let again = open(&named);
    assert_eq!(again.tracks()[0].codec, media.tracks()[0].codec);
    assert!(samples(&named, &again) == samples(&old, &media));
    let sound = folder.encode(2, &format!("{H264} -c:a libmp3lame"), "mp3.flv");
    assert_eq!(check(&folder, &sound, true, false).tracks()[1].codec, Codec::MpegAudio);
    let plain = folder.encode(2, "-vn -c:a pcm_alaw -ar 8000 -ac 1", "alaw.flv");
    assert!(matches!(check(&folder, &plain, true, false).tracks()[0].codec, Codec::Pcm { .. }));
    let left = folder.encode(2, "-c:v flv1 -c:a aac", "flv1.flv");
    assert_eq!(open(&left).left_out(), ["pictures of FLV's codec 2"]);
}

#[test]
fn pictures_and_sound_of_avi() {
    let Some(folder) = folder("pictures_and_sound_of_avi") else { return };
    let codecs = |media: &Media| media.tracks().iter().map(|track| track.codec.clone()).collect::<Vec<_>>();
    let old = folder.encode(2, "-c:v mpeg4 -g 12 -c:a libmp3lame", "mpeg4.avi");
    let media = check(&folder, &old, true, false);
    let [Codec::Mpeg4 { config }, Codec::MpegAudio] = &codecs(&media)[..] else { panic!("{media:?}") };
    assert!(config.starts_with(&[0, 0, 1, 0xB0]));
    // Pictures that others are made from come before those.
    for (name, options) in
        [("mpeg4", "-c:v mpeg4 -g 12 -bf 2 -an".to_owned()), ("h264", format!("{H264} -g 12 -bf 3 -an"))]
    {
        let told = Probed::of(&folder.encode(2, &options, &format!("{name}.mp4")));
        let between = folder.convert(&folder.path(&format!("{name}.mp4")), "-c copy", &format!("{name}.avi"));
        let pictures = entries(&open(&between), 0);
        // ffmpeg puts chunks without a picture in between where pictures are decoded before they are seen.
        let ranks = |times: Vec<i64>| {
            let mut sorted = times.clone();
            sorted.sort_unstable();
            times.iter().map(|time| sorted.binary_search(time)).collect::<Vec<_>>()
        };
        let times = |packet: &Packet| packet.pts.expect("a time");
        let own = pictures.iter().map(|one| one.presentation).collect();
        assert_eq!(ranks(own), ranks(told.packets.iter().map(times).collect()), "{name}");
        let keys: Vec<bool> = told.packets.iter().map(Packet::is_key).collect();
        assert_eq!(pictures.iter().map(|one| one.is_sync).collect::<Vec<_>>(), keys, "{name}");
        assert!(pictures.is_sorted_by_key(|one| one.decode));
        assert!(bytes_of(&between, &pictures) == payload(&folder, &between, "0:0", ""), "{name}");
    }
    let jpeg = folder.encode(2, "-c:v mjpeg -huffman default -c:a pcm_s16le -ac 2", "jpeg.avi");
    let media = open(&jpeg);
    let [Codec::Jpeg, Codec::Pcm { clock_rate: 44_100, channels: 2, .. }] = &codecs(&media)[..] else {
        panic!("{media:?}")
    };
    for (number, stream) in ["0:0", "0:1"].into_iter().enumerate() {
        assert!(bytes_of(&jpeg, &entries(&media, number)) == payload(&folder, &jpeg, stream, ""));
        assert_eq!(media.tracks()[number].end_ns(), 2_000_000_000);
    }
    let mixed = folder.encode(2, &format!("{H264} -c:a ac3 -ac 2"), "mixed.avi");
    let media = open(&mixed);
    let [Codec::H264 { .. }, Codec::Ac3 { clock_rate: 44_100, channels: 2 }] = &codecs(&media)[..] else {
        panic!("{media:?}")
    };
    assert!(bytes_of(&mixed, &entries(&media, 1)) == payload(&folder, &mixed, "0:1", ""));
    let left = folder.encode(1, "-c:v huffyuv -an", "left.avi");
    let error = Media::open(&left).expect_err("no codec that can be served").to_string();
    assert!(error.contains("HFYU, which is no codec that can be served in AVI"), "{error}");
}

/// An FLV file whose tags of H.264 name it as Enhanced RTMP does; what has no reordering has no field for it.
fn with_names(file: &[u8]) -> Vec<u8> {
    let (mut named, mut at) = (file[..13].to_vec(), 13);
    while let Some(header) = file.get(at..at + 11) {
        let bytes = usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]);
        let data = &file[at + 11..at + 11 + bytes];
        let data = match data {
            [first, what, a, b, c, rest @ ..] if header[0] == 9 => {
                let delay = [*a, *b, *c];
                let what = if *what == 1 && delay == [0; 3] { 3 } else { *what };
                let head = [&[0x80 | first & 0x70 | what][..], b"avc1"].concat();
                [&head[..], if what == 1 { &delay } else { &[] }, rest].concat()
            }
            _ => data.to_vec(),
        };
        named.push(header[0]);
        named.extend(&(data.len() as u32).to_be_bytes()[1..]);
        named.extend(&header[4..]);
        named.extend(&data);
        named.extend((data.len() as u32 + 11).to_be_bytes());
        at += 11 + bytes + 4;
    }
    named
}

/// What is sent of a file's first track.
fn sent(file: &Path, media: &Arc<Media>) -> Vec<u8> {
    let content = std::fs::read(file).expect("the file");
    let unpacked = |sample: forebay_media::Sample| {
        let mut bytes = content[sample.at.start as usize..sample.at.end as usize].to_vec();
        let count = sample.packing.unpack(&mut bytes);
        bytes.truncate(count);
        bytes
    };
    media.plan(&[0], 0).flat_map(unpacked).collect()
}

/// What ffmpeg takes out of a track, and what is sent of it; and when samples are due, by both.
fn check_sound(folder: &Folder, file: &Path) -> Media {
    let media = Arc::new(open(file));
    let probed = Probed::of(file);
    let (sent, expected) = (sent(file, &media), payload(folder, file, "0:0", ""));
    assert!(sent == expected, "{} against {} bytes", sent.len(), expected.len());
    let told = entries(&media, 0).iter().map(|one| one.presentation).collect::<Vec<_>>();
    let packets: Vec<_> = probed.packets_of(0).iter().map(|packet| packet.pts.expect("a time")).collect();
    // Vorbis begins with a packet that gives no sound: at 0, or before.
    let since_first = |times: &[i64]| times.iter().map(|time| time - times[0]).collect::<Vec<_>>();
    assert_eq!(since_first(&told), since_first(&packets), "{}", file.display());
    let difference = media.duration_ns().abs_diff(probed.duration_ns());
    assert!(difference <= 10_000_000, "{} against {}", media.duration_ns(), probed.duration_ns());
    Arc::into_inner(media).expect("the only one")
}

#[test]
fn opus_and_vorbis_in_ogg_with_packets_that_go_on_in_other_pages() {
    let Some(folder) = folder("opus_and_vorbis_in_ogg_with_packets_that_go_on_in_other_pages") else {
        return;
    };
    let opus = folder.encode(4, "-vn -c:a libopus -ac 2 -b:a 96k", "opus.ogg");
    assert_eq!(check_sound(&folder, &opus).tracks()[0].codec, Codec::Opus { channels: 2 });
    let vorbis = folder.encode(4, "-vn -c:a libvorbis -ac 2 -q:a 9", "vorbis.ogg");
    let media = check_sound(&folder, &vorbis);
    assert!(matches!(media.tracks()[0].codec, Codec::Vorbis { clock_rate: 44_100, channels: 2, .. }));
    // A page of a few segments at the most, so that packets are in several, with pages of another stream between them.
    let content = std::fs::read(&vorbis).expect("a file");
    let small = folder.path("small.ogg");
    std::fs::write(&small, in_small_pages(&content)).expect("a file");
    let again = Arc::new(open(&small));
    assert!(sent(&small, &again) == payload(&folder, &vorbis, "0:0", ""));
    let times = |media: &Media| entries(media, 0).iter().map(|one| one.presentation).collect::<Vec<_>>();
    assert_eq!(times(&again), times(&media));
    assert_eq!(again.left_out(), ["a stream of another kind, which is no codec that can be served in Ogg"]);
}

/// The same packets in pages of two segments, with a page of another stream after each.
fn in_small_pages(file: &[u8]) -> Vec<u8> {
    let (mut small, mut at, mut number) = (Vec::new(), 0, 0_u32);
    let mut page = |flags: u8, granule: &[u8], serial: u32, number: u32, segments: &[&[u8]]| {
        let begin = small.len();
        small.extend(
            [b"OggS\0", &[flags][..], granule, &serial.to_le_bytes(), &number.to_le_bytes()].concat(),
        );
        small.extend([0, 0, 0, 0, segments.len() as u8]);
        small.extend(segments.iter().map(|segment| segment.len() as u8));
        small.extend(segments.concat());
        let sum = small[begin..].iter().fold(0, |sum: u32, byte| {
            let shift = |sum: u32, _| if sum >> 31 == 1 { sum << 1 ^ 0x04C1_1DB7 } else { sum << 1 };
            (0..8).fold(sum ^ u32::from(*byte) << 24, shift)
        });
        small[begin + 22..begin + 26].copy_from_slice(&sum.to_le_bytes());
    };
    let (mut is_amid, mut others) = (false, 0);
    while let Some(header) = file.get(at..at + 27) {
        let segments = usize::from(header[26]);
        let lacing = &file[at + 27..at + 27 + segments];
        let mut content = at + 27 + segments;
        let all: Vec<&[u8]> = lacing
            .iter()
            .map(|bytes| {
                content += usize::from(*bytes);
                &file[content - usize::from(*bytes)..content]
            })
            .collect();
        let pairs = all.chunks(2).collect::<Vec<_>>();
        for (place, pair) in pairs.iter().enumerate() {
            let is_last = place + 1 == pairs.len();
            let ends_packet = pair.iter().any(|segment| segment.len() < 255);
            // Only the last page of what was one has its time, and only a page in which a packet ends has any.
            let granule = if is_last { &header[6..14] } else { &[0xFF; 8] };
            let flags = header[5] & 2 | u8::from(is_amid) | if is_last { header[5] & 4 } else { 0 };
            page(flags, granule, 7, number, pair);
            number += 1;
            is_amid = if ends_packet { pair.last().is_some_and(|last| last.len() == 255) } else { true };
            if number > 1 {
                page(if others == 0 { 2 } else { 0 }, &[0; 8], 8, others, &[b"none of this"]);
                others += 1;
            }
        }
        at = content;
    }
    small
}

#[test]
fn sound_of_wav_as_long_as_it_is() {
    let Some(folder) = folder("sound_of_wav_as_long_as_it_is") else { return };
    for (name, options, rate, channels) in [
        ("a.wav", "-c:a pcm_s16le -ac 2", 44_100, 2),
        ("b.wav", "-c:a pcm_s24le -ar 48000 -ac 6", 48_000, 6),
        ("c.wav", "-c:a pcm_s16le -rf64 always", 44_100, 1),
        ("d.wav", "-c:a pcm_mulaw -ar 8000", 8_000, 1),
    ] {
        let file = folder.encode(2, &format!("-vn {options}"), name);
        let media = open(&file);
        let Codec::Pcm { clock_rate, channels: told, .. } = media.tracks()[0].codec else {
            panic!("{:?}", media.tracks()[0].codec)
        };
        assert_eq!((clock_rate, told, media.duration_ns()), (rate, channels, 2_000_000_000), "{name}");
        assert!(bytes_of(&file, &entries(&media, 0)) == payload(&folder, &file, "0:0", ""), "{name}");
    }
    // A writer that was cut off, or wrote into a pipe, has not told how long it is.
    let mut content = std::fs::read(folder.path("a.wav")).expect("a file");
    let at = content.windows(4).position(|name| name == b"data").expect("sound") + 4;
    for bytes in [[0; 4], [0xFF; 4]] {
        content[at..at + 4].copy_from_slice(&bytes);
        assert_eq!(Media::read(&content).expect("sound").duration_ns(), 2_000_000_000);
    }
    let float = folder.encode(1, "-vn -c:a pcm_f32le", "float.wav");
    let error = Media::open(float).expect_err("no payload format").to_string();
    assert!(error.contains("floating point"), "{error}");
}

#[test]
fn aac_and_mp3_without_container() {
    let Some(folder) = folder("aac_and_mp3_without_container") else { return };
    let aac = folder.encode(2, "-map 1:a -c:a aac -ac 2", "a.aac");
    let media = Arc::new(open(&aac));
    let frames: Vec<_> = media.plan(&[0], 0).collect();
    assert!(bytes_of(&aac, &entries(&media, 0)) == payload(&folder, &aac, "0:0", "-bsf:a aac_adtstoasc"));
    let times: Vec<_> = frames.iter().map(|one| one.timestamp).collect();
    assert_eq!(times, (0..frames.len() as i64).map(|number| 1024 * number).collect::<Vec<_>>());
    let Codec::Aac { config, clock_rate: 44_100, channels: 2 } = &media.tracks()[0].codec else { panic!() };
    assert_eq!(config[..], [0x12, 0x10]);

    let mp3 = folder.encode(2, "-map 1:a -c:a libmp3lame -id3v2_version 4", "a.mp3");
    let media = Arc::new(open(&mp3));
    let frames: Vec<_> = media.plan(&[0], 0).collect();
    let packets = Probed::of(&mp3).packets;
    let places = |one: &Packet| (one.at(), one.at() + one.bytes());
    assert_eq!(
        frames.iter().map(|one| (one.at.start, one.at.end)).collect::<Vec<_>>(),
        packets.iter().map(places).collect::<Vec<_>>()
    );
    let base = TimeBase::per_second(44_100).expect("a rate");
    for (number, frame) in (0..).zip(&frames) {
        assert_eq!(frame.presentation_ns, base.nanoseconds(1152 * number));
    }
}

#[test]
fn tags_and_damage_between_frames_of_sound_are_passed_over() {
    let Some(folder) = folder("tags_and_damage_between_frames_of_sound_are_passed_over") else { return };
    // What they say looks like headers of frames, and would be more damage than a file may have.
    let looks_so = [0xFF, 0xFB, 0x90, 0x64].repeat(300_000);
    let bytes = looks_so.len();
    let seven_bits = [21, 14, 7, 0].map(|shift| (bytes >> shift) as u8 & 0x7F);
    let id3 = [&b"ID3\x04\0\0"[..], &seven_bits, &looks_so].concat();
    let ape = |flags: u8| {
        let size = (bytes as u32 + 32).to_le_bytes();
        [&b"APETAGEX\xD0\x07\0\0"[..], &size, &[1, 0, 0, 0, 0, 0, 0, flags], &[0; 8]].concat()
    };
    let ape = [ape(0xA0), looks_so.clone(), ape(0x80)].concat();
    let id3_1 = [&b"TAG"[..], &[0xFF, 0xFB, 0x90, 0x64].repeat(32)[..125]].concat();
    let damage = [&[1, 0xFF, 0xFB, 0x90, 0x64, 0xFF, 0xF1, 0x50, 0x40][..], &[1; 3000]].concat();
    for (name, options) in
        [("a.mp3", "-c:a libmp3lame -id3v2_version 0 -write_xing 0"), ("a.aac", "-c:a aac")]
    {
        let one = folder.encode(2, &format!("-map 1:a {options}"), name);
        let content = std::fs::read(&one).expect("sound");
        let frames = entries(&open(&one), 0);
        let joints = [[&ape[..], &id3_1].concat(), [&id3_1[..], &id3].concat(), damage.clone()];
        for joint in &joints {
            let joined = [&content, joint, &content, &ape, &id3_1].map(Vec::as_slice).concat();
            let media = Media::read(&joined).expect("sound");
            let places = entries(&media, 0).iter().map(|one| one.at).collect::<Vec<_>>();
            let behind = (content.len() + joint.len()) as u64;
            let both = frames.iter().map(|one| one.at).chain(frames.iter().map(|one| behind + one.at));
            assert_eq!(places, both.collect::<Vec<_>>(), "{name}");
        }
    }
}

#[test]
fn what_cannot_be_served_is_named() {
    let Some(folder) = folder("what_cannot_be_served_is_named") else { return };
    let mixed = folder.encode(2, "-c:v mpeg2video -c:a aac", "mixed.mp4");
    let media = open(&mixed);
    assert_eq!(media.tracks().len(), 1);
    assert_eq!(media.left_out().len(), 1);
    let mixed = folder.encode(2, "-c:v mpeg2video -c:a flac", "mixed.mkv");
    let error = Media::open(&mixed).expect_err("nothing to serve").to_string();
    assert!(error.contains("V_MPEG2") && error.contains("A_FLAC"), "{error}");
    let key = "0123456789abcdef0123456789abcdef";
    let options = format!(
        "{H264} -c:a aac -encryption_scheme cenc-aes-ctr -encryption_key {key} -encryption_kid {key}"
    );
    let encrypted = folder.encode(2, &options, "encrypted.mp4");
    // ffmpeg writes encrypted samples under the names of plain ones; others do not.
    let mut content = std::fs::read(&encrypted).expect("a file");
    for (name, hidden) in [(b"avc1", b"encv"), (b"mp4a", b"enca")] {
        while let Some(at) = content.windows(4).rposition(|window| window == name) {
            content[at..at + 4].copy_from_slice(hidden);
        }
    }
    let error = Media::read(&content).expect_err("encrypted").to_string();
    assert!(error.contains("encrypted"), "{error}");
    let text = b"a file of text that is no media file, and long enough to be looked at".to_vec();
    let error = Media::read(&text).expect_err("no media").to_string();
    assert!(error.contains("no media file"), "{error}");
}
