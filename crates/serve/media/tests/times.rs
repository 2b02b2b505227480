//! Samples have the times that their file means, also where it says so in unusual ways.

mod support;

use std::path::Path;
use std::sync::Arc;

use forebay_media::Media;
use forebay_media::index::Entry;

use support::matroska;
use support::{H264, Probed, bytes_of, entries, folder, open, payload};

const SECOND_NS: u64 = 1_000_000_000;

/// A Matroska file with frames of sound in laced blocks, without a default duration.
fn laced(frames: &[&[u8]], per_block: usize, frame_ms: usize) -> Vec<u8> {
    matroska::sound(b"A_OPUS", &[], frames, per_block, frame_ms)
}

#[test]
fn frames_that_share_a_block_come_one_after_the_other() {
    let frames: Vec<Vec<u8>> = (0..83_usize).map(|number| vec![number as u8; 20 + number % 7]).collect();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let media = Media::read(&laced(&frames, 8, 20)).expect("sound");
    let times: Vec<i64> = entries(&media, 0).iter().map(|one| one.presentation).collect();
    // The last block, which has no next one, lasts as the ones before.
    assert_eq!(times, (0..83).map(|number| 20 * number).collect::<Vec<i64>>());
}

fn times_ns(media: &Arc<Media>, track: usize) -> Vec<i64> {
    let mut times: Vec<i64> = media.plan(&[track], 0).map(|one| one.presentation_ns).collect();
    times.sort_unstable();
    times
}

/// Writes a film's edit lists anew: how long each segment lasts and where in the media it begins, in milliseconds.
fn with_edits(file: &Path, edits: &[(u32, i32)]) -> Vec<u8> {
    let mut content = std::fs::read(file).expect("a film");
    let at = content.windows(4).position(|name| name == b"elst").expect("an edit list");
    let old = u32::from_be_bytes(content[at - 4..at].try_into().expect("four bytes")) as usize;
    let rate = u32::from_be_bytes({
        let header = content.windows(4).position(|name| name == b"mdhd").expect("a header");
        content[header + 16..header + 20].try_into().expect("four bytes")
    });
    let first = i32::from_be_bytes(content[at + 16..at + 20].try_into().expect("four bytes"));
    let mut list = vec![0; 4];
    list.extend((edits.len() as u32).to_be_bytes());
    for (lasts_ms, from_ms) in edits {
        let from =
            if *from_ms < 0 { -1 } else { first + (i64::from(*from_ms) * i64::from(rate) / 1000) as i32 };
        list.extend(lasts_ms.to_be_bytes());
        list.extend(from.to_be_bytes());
        list.extend([0, 1, 0, 0]);
    }
    let grown = (list.len() + 8) as i64 - old as i64;
    content.splice(
        at - 4..at - 4 + old,
        [&((list.len() + 8) as u32).to_be_bytes()[..], b"elst", &list].concat(),
    );
    for name in [b"moov", b"trak", b"edts"] {
        // The first track is the one with pictures.
        let at = content.windows(4).position(|one| one == name).expect("a box");
        let size = u32::from_be_bytes(content[at - 4..at].try_into().expect("four bytes"));
        content[at - 4..at].copy_from_slice(&((i64::from(size) + grown) as u32).to_be_bytes());
    }
    content
}

#[test]
fn what_an_edit_list_cuts_away_is_not_sent() {
    let Some(folder) = folder("what_an_edit_list_cuts_away_is_not_sent") else { return };
    let film = folder.encode(4, "-map 0:v -c:v libx264 -preset ultrafast -g 10 -pix_fmt yuv420p", "a.mp4");
    let media = Arc::new(Media::read(&with_edits(&film, &[(2000, 0)])).expect("a film"));
    assert_eq!((times_ns(&media, 0).len(), media.duration_ns()), (50, 2 * SECOND_NS));
    let media = Arc::new(Media::read(&with_edits(&film, &[(2000, 2000)])).expect("a film"));
    assert_eq!(
        (times_ns(&media, 0).len(), times_ns(&media, 0)[0], media.duration_ns()),
        (50, 0, 2 * SECOND_NS)
    );
    // Two parts in another order, with a pause before and between.
    let edits = [(500, -1), (400, 2000), (1000, -1), (400, 0)];
    let media = Arc::new(Media::read(&with_edits(&film, &edits)).expect("a film"));
    let times = times_ns(&media, 0);
    assert_eq!((times.len(), media.duration_ns()), (20, 1_800_000_000));
    assert_eq!((times[0], times[9], times[10]), (0, 360_000_000, 1_400_000_000));
}

#[test]
fn all_that_an_edit_list_shows_is_sent_with_what_it_needs() {
    let Some(folder) = folder("all_that_an_edit_list_shows_is_sent_with_what_it_needs") else { return };
    let film = folder.encode(4, "-map 0:v -c:v libx264 -bf 3 -g 25 -pix_fmt yuv420p", "a.mp4");
    for name in ["cut.mp4", "cut.mov"] {
        let cut = format!("-ss 1.3 -i {} -map 1:v -c copy", film.display());
        let cut = folder.convert(&film, &cut, name);
        let media = Arc::new(open(&cut));
        let all: Vec<(u64, u64)> = entries(&media, 0).iter().map(|one| (one.at, one.bytes.into())).collect();
        let probed = Probed::of(&cut);
        let packets = probed.packets_of(0);
        // What precedes the key frame before the beginning is not in the file.
        assert_eq!(all, packets.iter().map(|one| (one.at(), one.bytes())).collect::<Vec<_>>(), "{name}");
        let (numerator, denominator) = probed.time_base(0);
        let milliseconds = |ticks: i64| 1000 * ticks * numerator / denominator;
        let mut shown: Vec<i64> = packets.iter().filter_map(|one| Some(milliseconds(one.pts?))).collect();
        shown.retain(|time| *time >= 0);
        shown.sort_unstable();
        let times: Vec<i64> = times_ns(&media, 0).iter().map(|time| time / 1_000_000).collect();
        let before = times.len() - shown.len();
        assert!(times[..before].iter().all(|time| *time == 0) && before > 3, "{name}: {times:?}");
        // The part begins amid a picture, which ffmpeg does not show.
        let late = times[before] - shown[0];
        shown.iter_mut().for_each(|time| *time += late);
        assert!(times[before..] == shown && shown.len() > 60 && (0..40).contains(&late), "{name}: {times:?}");
        assert!(media.plan(&[0], 0).all(|one| one.decode_ns >= 0 && one.decode_ns <= one.presentation_ns));
    }
}

/// The same film with delays from decoding to presentation that are all less, in tables without a sign.
fn with_negative_delays(file: &Path, name: &[u8; 4], first: usize, step: usize, less: u32) -> Vec<u8> {
    let mut content = std::fs::read(file).expect("a film");
    let mut from = 0;
    while let Some(at) = content[from..].windows(4).position(|four| four == name).map(|at| from + at) {
        let count = u32::from_be_bytes(content[at + 8..at + 12].try_into().expect("four bytes"));
        for place in (0..count as usize).map(|number| at + first + number * step) {
            let delay = u32::from_be_bytes(content[place..place + 4].try_into().expect("four bytes"));
            content[place..place + 4].copy_from_slice(&delay.wrapping_sub(less).to_be_bytes());
        }
        content[at + 4] = 0;
        from = at + 4;
    }
    content
}

#[test]
fn pictures_may_be_seen_before_they_are_decoded_in_tables_of_any_version() {
    let Some(folder) = folder("pictures_may_be_seen_before_they_are_decoded_in_tables_of_any_version") else {
        return;
    };
    let film = folder.encode(2, "-map 0:v -c:v libx264 -bf 3 -g 25 -pix_fmt yuv420p", "a.mp4");
    let flags = "-c copy -use_editlist 0 -movflags";
    let whole = folder.convert(&film, &format!("{flags} +faststart"), "whole.mp4");
    // Each sample of a run has its length and its delay.
    let parts = folder.convert(&film, &format!("{flags} +frag_keyframe+empty_moov"), "parts.mp4");
    for (file, name, first, step) in [(whole, b"ctts", 16, 8), (parts, b"trun", 24, 8)] {
        let (plain, less) = (open(&file), 2 * 512);
        let content = with_negative_delays(&file, name, first, step, less);
        let media = Media::read(&content).expect("a film");
        let times = |media: &Media| -> Vec<i64> {
            let first = entries(media, 0)[0].presentation;
            entries(media, 0).iter().map(|one| one.presentation - first).collect()
        };
        assert_eq!(times(&media), times(&plain));
        assert_eq!(media.duration_ns(), plain.duration_ns());
    }
}

#[test]
fn sound_before_the_first_picture_is_sent() {
    let Some(folder) = folder("sound_before_the_first_picture_is_sent") else { return };
    let film = folder.encode(6, &format!("{H264} -c:a aac"), "a.mp4");
    let late = format!("-itsoffset 2 -i {} -map 1:v -map 0:a -c copy", film.display());
    for name in ["late.mp4", "late.mkv"] {
        let late = folder.convert(&film, &late, name);
        let media = Arc::new(open(&late));
        assert_eq!(media.seek(&[0, 1], 0), 0, "{name}");
        let samples = |track| media.plan(&[0, 1], 0).filter(|one| one.track == track).count();
        let probed = Probed::of(&late);
        let (got, expected) = ([0, 1].map(samples), [0, 1].map(|stream| probed.packets_of(stream).len()));
        // What sound begins with is there to be decoded only.
        assert!(got[0] == expected[0] && got[1] + 1 >= expected[1], "{name}: {got:?} of {expected:?}");
        assert!(
            media.duration_ns().abs_diff(8 * SECOND_NS) < SECOND_NS / 10,
            "{name}: {}",
            media.duration_ns()
        );
    }
}

#[test]
fn clocks_that_start_again_after_33_bits_go_on() {
    let Some(folder) = folder("clocks_that_start_again_after_33_bits_go_on") else { return };
    let film = folder.encode(6, &format!("{H264} -c:a aac"), "a.mp4");
    // The clock starts again after 95,443.7 seconds.
    let wrapped = folder.convert(&film, "-c copy -output_ts_offset 95441", "wrapped.ts");
    let media = Arc::new(open(&wrapped));
    let duration_ns = media.duration_ns();
    assert!((5 * SECOND_NS..8 * SECOND_NS).contains(&duration_ns), "{duration_ns}");
    let tracks: Vec<usize> = (0..media.tracks().len()).collect();
    let times: Vec<i64> = media.plan(&tracks, 0).map(|one| one.decode_ns).collect();
    assert!(times.is_sorted() && times.last().is_some_and(|last| *last as u64 <= duration_ns), "{times:?}");
}

#[test]
fn two_pictures_of_a_chunk_of_avi_are_two_samples_also_after_a_seek() {
    let Some(folder) = folder("two_pictures_of_a_chunk_of_avi_are_two_samples_also_after_a_seek") else {
        return;
    };
    let film = folder.encode(4, "-map 0:v -c:v libxvid -bf 2 -g 20 -q:v 6", "packed.avi");
    let content = std::fs::read(&film).expect("a film");
    let pictures = |bytes: &[u8]| bytes.windows(4).filter(|four| four == b"\0\0\x01\xB6").count();
    let packed = Probed::of(&film).packets.iter().filter(|one| one.bytes() < 20).count();
    assert!(packed > 10, "{packed} chunks that stand for others");
    let media = Arc::new(open(&film));
    let step_ns = SECOND_NS as i64 / 25;
    let (mut sent, mut times) = (Vec::new(), times_ns(&media, 0));
    for one in media.plan(&[0], 0) {
        let sample = &content[one.at.start as usize..one.at.end as usize];
        // The film ends before a chunk that makes up for the last second picture.
        let is_at_end = one.decode_ns >= 4 * SECOND_NS as i64 - 4 * step_ns;
        assert!(pictures(sample) == 1 || is_at_end, "{one:?}");
        sent.extend_from_slice(sample);
    }
    // The filter takes the mark of such streams out of the first one, and leaves a second picture out at the end.
    let unpacked = payload(&folder, &film, "0:v", "-bsf:v mpeg4_unpack_bframes");
    let differing = sent.iter().zip(&unpacked).filter(|(one, other)| one != other).count();
    let missing = sent.len().checked_sub(unpacked.len());
    assert!(
        missing.is_some_and(|bytes| bytes < 2000) && differing <= 8,
        "{differing}, {missing:?} of {}",
        sent.len()
    );
    times.iter_mut().for_each(|time| *time = (*time + step_ns / 2) / step_ns);
    // Chunks without pictures follow the first one: the encoder was late.
    assert_eq!(times[1..], (times[1]..times[0] + 100).collect::<Vec<_>>());
    let after = media.seek(&[0], 2 * SECOND_NS);
    let first = media.plan(&[0], after).next().expect("a picture");
    assert!(
        after > 0 && first.is_sync && pictures(&content[first.at.start as usize..first.at.end as usize]) == 1
    );
}

#[test]
fn time_passes_with_chunks_of_avi_that_have_no_picture() {
    let Some(folder) = folder("time_passes_with_chunks_of_avi_that_have_no_picture") else { return };
    // Every fifth picture is left out, and so is all of the third second. What ffmpeg writes there are chunks without bytes.
    let select = "-vf select='mod(n\\,5)*not(between(t\\,2\\,3))' -fps_mode vfr";
    for (codec, off_max) in [("-c:v mpeg4", 0), ("-c:v mjpeg -huffman default", 0), ("-c:v mpeg4 -bf 2", 1)] {
        let film = folder.encode(5, &format!("-map 0:v {select} {codec} -g 10"), "gaps.avi");
        let media = Arc::new(open(&film));
        let probed = Probed::of(&film);
        let step_ns = SECOND_NS as i64 / 25;
        let mut expected: Vec<i64> =
            probed.packets_of(0).iter().map(|one| one.dts.expect("a time")).collect();
        expected.sort_unstable();
        let mut got: Vec<i64> =
            media.plan(&[0], 0).map(|one| (one.decode_ns + step_ns / 2) / step_ns).collect();
        got.sort_unstable();
        assert!(expected.len() < 90 && expected.last().is_some_and(|last| *last > 115), "{expected:?}");
        let (first, other) = (expected[0], got[0]);
        let since = |all: &[i64], first: i64| all.iter().map(|one| one - first).collect::<Vec<_>>();
        let (got, expected) = (since(&got, other), since(&expected, first));
        // Where pictures are reordered, it is not known which of them a gap is before.
        let is_near = got.iter().zip(&expected).all(|(one, other)| one.abs_diff(*other) <= off_max);
        assert!(is_near && got.len() == expected.len(), "{codec}: {got:?} {expected:?}");
    }
}

#[test]
fn short_recordings_that_were_joined_come_one_after_the_other() {
    let Some(folder) = folder("short_recordings_that_were_joined_come_one_after_the_other") else { return };
    for (name, options, header) in [
        ("a.ts", "", 0),
        ("a.flv", "-flvflags no_duration_filesize", 13),
        ("a.mkv", "-live 1 -seekable 0", 0),
    ] {
        let film = folder.encode(3, &format!("{H264} -g 12 -c:a aac {options}"), name);
        let content = std::fs::read(&film).expect("a film");
        let joined = [&content[..], &content[header..], &content[header..]].concat();
        let (one, joined) = (open(&film), Arc::new(Media::read(&joined).expect("a film")));
        let apart_ns = joined.duration_ns().abs_diff(3 * one.duration_ns());
        assert!(apart_ns < SECOND_NS / 3, "{name}: {} of {}", joined.duration_ns(), one.duration_ns());
        for track in [0, 1] {
            let times: Vec<_> = joined.plan(&[track], 0).map(|sample| sample.decode_ns).collect();
            assert!(times.is_sorted() && times.windows(2).all(|two| two[1] - two[0] < 300_000_000), "{name}");
            assert_eq!(times.len(), 3 * entries(&one, track).len(), "{name}");
        }
    }
}

#[test]
fn segments_of_one_cluster_come_one_after_the_other() {
    let Some(folder) = folder("segments_of_one_cluster_come_one_after_the_other") else { return };
    let film = folder.encode(2, "-map 1:a -c:a aac", "one.mkv");
    let content = std::fs::read(&film).expect("a film");
    let joined = Arc::new(Media::read(&content.repeat(3)).expect("a film"));
    let times: Vec<_> = joined.plan(&[0], 0).map(|sample| sample.decode_ns).collect();
    assert_eq!(times.len(), 3 * entries(&open(&film), 0).len());
    assert!(times.windows(2).all(|two| two[0] < two[1] && two[1] - two[0] < 100_000_000), "{times:?}");
}

#[test]
fn a_tag_of_flash_video_with_a_wrong_time_holds_up_no_others() {
    let Some(folder) = folder("a_tag_of_flash_video_with_a_wrong_time_holds_up_no_others") else { return };
    let film = folder.encode(3, &format!("{H264} -c:a aac"), "a.flv");
    let mut content = std::fs::read(&film).expect("a film");
    let (mut at, whole) = (13, open(&film));
    for _ in 0..40 {
        let [_, a, b, c, ..] = content[at..] else { panic!("a tag") };
        at += 15 + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
    }
    content[at + 4] += 9;
    let media = Arc::new(Media::read(&content).expect("a film"));
    let apart_ns = media.duration_ns().abs_diff(whole.duration_ns());
    assert!(apart_ns < SECOND_NS / 10, "{} of {}", media.duration_ns(), whole.duration_ns());
}

#[test]
fn another_segment_of_matroska_with_other_tracks_is_named() {
    let Some(folder) = folder("another_segment_of_matroska_with_other_tracks_is_named") else { return };
    let one = folder.encode(2, &format!("{H264} -c:a aac"), "one.mkv");
    let other = folder.encode(2, "-map 1:a -c:a aac -ac 2", "other.mkv");
    let joined = [&one, &other, &one].map(|path| std::fs::read(path).expect("a film")).concat();
    let media = Media::read(&joined).expect("a film");
    assert_eq!(media.left_out(), ["a segment with other tracks than the first one"]);
    assert_eq!(entries(&media, 0).len(), 2 * entries(&open(&one), 0).len());
}

#[test]
fn elements_of_matroska_that_are_not_known_are_passed_over() {
    let element = [&[0x4F, 0xFE, 0x83, 1, 2, 3][..], &[0x1F, 0xFF, 0xFF, 0xF1, 0x81, 7]].concat();
    let frames: Vec<Vec<u8>> = (0..20_usize).map(|number| vec![number as u8; 20]).collect();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let whole = laced(&frames, 2, 20);
    // Before the tracks, and between two blocks; the lengths of what they are in have eight bytes.
    for (id, above) in [
        (&[0x16, 0x54, 0xAE, 0x6B, 1][..], &[&[0x18, 0x53, 0x80, 0x67][..]][..]),
        (&[0xA3, 1], &[&[0x18, 0x53, 0x80, 0x67], &[0x1F, 0x43, 0xB6, 0x75]]),
    ] {
        let mut content = whole.clone();
        let find = |content: &[u8], id: &[u8]| content.windows(id.len()).rposition(|some| some == id);
        let at = find(&content, id).expect("an element");
        content.splice(at..at, element.iter().copied());
        for id in above {
            let at = find(&content, id).expect("an element") + id.len();
            let bytes = u64::from_be_bytes(content[at..at + 8].try_into().expect("a length"));
            content[at..at + 8].copy_from_slice(&(bytes + element.len() as u64).to_be_bytes());
        }
        let media = Media::read(&content).expect("sound");
        assert_eq!(entries(&media, 0).len(), 20);
    }
}

#[test]
fn a_stream_of_avi_begins_when_its_header_says() {
    let Some(folder) = folder("a_stream_of_avi_begins_when_its_header_says") else { return };
    let film = folder.encode(2, "-c:v mjpeg -huffman default -c:a pcm_s16le", "late.avi");
    for (name, track) in [(b"vids", 0), (b"auds", 1)] {
        let mut content = std::fs::read(&film).expect("a film");
        let at = content.windows(4).position(|four| four == name).expect("a stream");
        let number = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().expect("four bytes"));
        let second = number(at + 24) / number(at + 20);
        content[at + 28..at + 32].copy_from_slice(&second.to_le_bytes());
        let media = Arc::new(Media::read(&content).expect("a film"));
        assert_eq!((times_ns(&media, track)[0], times_ns(&media, 1 - track)[0]), (SECOND_NS as i64, 0));
    }
}

#[test]
fn fragmented_recordings_that_were_joined_go_on() {
    let Some(folder) = folder("fragmented_recordings_that_were_joined_go_on") else { return };
    let whole = folder.encode(2, &format!("{H264} -c:a aac"), "whole.mp4");
    // The second one has no places of its own, and places by its beginning.
    for flags in ["+frag_keyframe+empty_moov+default_base_moof", "+frag_keyframe+empty_moov"] {
        let one = folder.convert(&whole, &format!("-c copy -movflags {flags}"), "one.mp4");
        let bytes = std::fs::read(&one).expect("a file");
        let twice = folder.path("twice.mp4");
        std::fs::write(&twice, [&bytes[..], &bytes].concat()).expect("a file");
        let (first, both) = (open(&one), open(&twice));
        assert!(both.left_out().is_empty() && both.tracks().len() == 2, "{both:?}");
        for track in [0, 1] {
            let (once, all) = (entries(&first, track), entries(&both, track));
            let expected = bytes_of(&one, &once);
            assert!(bytes_of(&twice, &all) == [&expected[..], &expected].concat(), "track {track}");
            // Each as it is alone, the second one right after the first one.
            let base = both.tracks()[track].time_base();
            let times = |entries: &[Entry]| -> Vec<i64> {
                entries.iter().map(|entry| base.nanoseconds(entry.decode - entries[0].decode)).collect()
            };
            let (before, after) = all.split_at(once.len());
            for half in [before, after] {
                let mut pairs = times(half).into_iter().zip(times(&once));
                assert!(pairs.all(|(one, other)| one.abs_diff(other) < 100_000), "track {track}: {half:?}");
            }
            let [last, next] = [before.last(), after.first()].map(|entry| entry.expect("a sample").decode);
            assert!(
                (1..200_000_000).contains(&base.nanoseconds(next - last)),
                "track {track}: {last}, {next}"
            );
        }
    }
    // One that is coded otherwise is named.
    let other = folder.encode(2, "-c:v mpeg4 -movflags +frag_keyframe+empty_moov -c:a aac", "other.mp4");
    let one = folder.path("one.mp4");
    let joined = [std::fs::read(&one).expect("a file"), std::fs::read(other).expect("a file")].concat();
    let media = Media::read(&joined).expect("a film");
    let expected = ["samples of a recording that was joined to this one and is unlike it"];
    assert_eq!(media.left_out(), expected);
    assert_eq!(entries(&media, 0).len(), entries(&open(&one), 0).len());
}
