//! Films of each container and codec that browsers play: what their segments decode to is what the files decode to.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use forebay_hls::{Film, Piece, Segment, Unplayable};
use forebay_media::Media;
use forebay_media::index::Cursor;
use forebay_streaming::buffer::{Buffer, Part, Scratch};
use forebay_streaming::playlist::Playlist;
use forebay_streaming::pool::Pool;
use forebay_testkit::films::{Folder, H264, H265, ffmpeg};

/// Small, so that segments have several fragments.
const BUFFER_BYTES: usize = 40_000;

fn film(media: &Arc<Media>, file: &File, start_ns: u64) -> Film {
    let playlist =
        Playlist::new(vec![media.clone().into()], false).and_then(|list| list.within(start_ns, None));
    let first_sample = |track: usize| {
        let entry = media.tracks()[track].index().next(&mut Cursor::default())?;
        let mut sample = vec![0; entry.bytes as usize];
        file.read_exact_at(&mut sample, entry.at).ok()?;
        Some(sample)
    };
    Film::new(&Arc::new(playlist.expect("a playlist")), first_sample).expect("a film")
}

fn slice<'a>(piece: &Piece, own: &'a [u8], parts: &'a [Part]) -> &'a [u8] {
    match piece {
        Piece::Own(at) => &own[at.clone()],
        Piece::Part(part, at) => &parts[*part].bytes()[at.clone()],
    }
}

/// A segment as it is sent.
fn bytes_of(film: &Film, file: &File, tracks: &[usize], segment: Segment) -> Vec<u8> {
    let (mut pool, mut scratch) = (Pool::new(64 << 20), Scratch::default());
    let (ends, mut rest, mut bytes) = (segment.end_decodes(), segment.peekable(), Vec::new());
    for sequence in 1.. {
        if rest.peek().is_none() {
            break;
        }
        let mut buffer = Buffer::gather(&mut rest, BUFFER_BYTES, BUFFER_BYTES, &mut scratch);
        assert!(pool.lend(&mut buffer), "there is memory");
        let read = |_, mut offset, targets: Vec<&mut [u8]>| {
            targets.into_iter().try_for_each(|target| {
                let at = offset;
                offset += target.len() as u64;
                file.read_exact_at(target, at)
            })
        };
        buffer.read(&mut Vec::new(), read).expect("the file is there");
        let next = Segment::next_decodes(&rest, &ends);
        let parts = buffer.into_parts();
        let fragment = film.fragment(tracks, sequence, &parts, &next).expect("samples");
        let before = bytes.len();
        for piece in &fragment.pieces {
            bytes.extend_from_slice(slice(piece, &fragment.own, &parts));
        }
        assert_eq!(bytes.len() - before, fragment.bytes);
        let all = &bytes[before..];
        for cut in [0..1, 1..all.len() / 2, all.len() / 3..all.len(), all.len()..all.len(), 0..all.len() * 2]
        {
            let mut some = fragment.clone();
            some.cut(cut.clone());
            let left = some.pieces.iter().flat_map(|piece| slice(piece, &some.own, &parts).iter().copied());
            let expected = &all[cut.start..cut.end.min(all.len())];
            assert!(left.eq(expected.iter().copied()) && some.bytes == expected.len(), "{cut:?}");
        }
        parts.into_iter().for_each(|part| pool.give_back(part));
    }
    bytes
}

/// All segments after their initialization segment.
fn whole(film: &Film, file: &File, tracks: &[usize]) -> Vec<u8> {
    let mut bytes = film.init(tracks).expect("an initialization segment");
    for number in 0..film.durations_ns().count() {
        bytes.extend(bytes_of(film, file, tracks, film.segment(tracks, number).expect("a segment")));
    }
    bytes
}

/// What a stream decodes to: when each frame is seen or heard, in milliseconds, and what it is.
fn decoded(path: &Path, stream: &str) -> Vec<(i64, String)> {
    let options = format!("-i {} -map {stream} -f framemd5 -", path.display());
    let output = ffmpeg(&options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let base = text.lines().find_map(|line| line.strip_prefix("#tb 0: 1/")).expect("a time base");
    let base: i64 = base.parse().expect("a number");
    let frame = |line: &str| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let ticks: i64 = fields[2].parse().expect("a time");
        (ticks * 1000 / base, fields[5].to_owned())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(frame).collect()
}

/// What the packets of sound are, in their order.
fn packets_of_sound(path: &Path, is_adts: bool) -> Vec<String> {
    let filter = if is_adts { "-bsf:a aac_adtstoasc" } else { "" };
    let output = ffmpeg(&format!("-i {} -map 0:a -c copy {filter} -f framemd5 -", path.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let hash = |line: &str| line.split(',').nth(5).map(|hash| hash.trim().to_owned());
    text.lines().filter(|line| !line.starts_with('#')).filter_map(hash).collect()
}

fn check(name: &str, options: &str) {
    let test = format!("segments of {name}");
    let Some(folder) = Folder::new(&test) else { return };
    let path = folder.encode(9, options, name);
    let media = Arc::new(Media::open(&path).expect("a file"));
    let file = File::open(&path).expect("a file");
    let film = film(&media, &file, 0);
    assert!(film.durations_ns().count() >= 2, "{name} has several segments");
    let tracks: Vec<usize> =
        film.pictures().into_iter().chain(film.sounds()).map(|track| track.number).collect();
    let copy = folder.path("copy.mp4");
    std::fs::write(&copy, whole(&film, &file, &tracks)).expect("a file");
    let mut shift = None;
    for stream in ["0:v", "0:a"] {
        let (expected, found) = (decoded(&path, stream), decoded(&copy, stream));
        // Containers round times, ffmpeg those of pictures to 40 ms, and transport streams do not begin at 0. Sound is where it was
        // beside the pictures.
        let shift = *shift.get_or_insert(expected[0].0 - found[0].0);
        let is_elsewhere =
            |one: &(i64, String), other: &(i64, String), most: i64| (one.0 - shift - other.0).abs() > most;
        // Players cut the silence before the beginning as their container tells.
        let most = if stream == "0:v" { 0 } else { 2 };
        let missing = expected.len().abs_diff(found.len());
        assert!(missing <= most, "{name}: {} of {} frames of {stream}", found.len(), expected.len());
        let ends = (expected.last().expect("a frame"), found.last().expect("a frame"));
        assert!(!is_elsewhere(ends.0, ends.1, 45), "{name}: {stream} ends at {ends:?}");
        if stream == "0:v" {
            let mut pairs = expected.iter().zip(&found);
            assert!(!pairs.any(|(one, other)| is_elsewhere(one, other, 2)), "{name}: {expected:?} {found:?}");
            assert!(expected.iter().map(|one| &one.1).eq(found.iter().map(|one| &one.1)), "{name}: pictures");
        }
    }
    let is_adts = name.ends_with(".ts") && options.contains("aac");
    let (expected, found) = (packets_of_sound(&path, is_adts), packets_of_sound(&copy, false));
    // What is only there to begin decoding need not be sent.
    assert!(expected.ends_with(&found) && expected.len() - found.len() <= 2, "{name}: packets of sound");
    let probe = Command::new("ffprobe")
        .args(["-v", "error", "-show_entries", "stream=width,height,codec_name", "-of", "csv=p=0"])
        .arg(&copy)
        .output()
        .expect("ffprobe runs");
    let size = film.pictures().and_then(|track| track.shape.size).expect("pictures have a size");
    let told = String::from_utf8_lossy(&probe.stdout).into_owned();
    assert!(told.contains(&format!("{},{}", size.0, size.1)), "{name}: {told}");
}

#[test]
fn h264_and_aac_of_mp4_decode_to_the_same() {
    check("a.mp4", &format!("{H264} -c:a aac"));
}

#[test]
fn h264_and_aac_of_a_transport_stream_decode_to_the_same() {
    check("a.ts", &format!("{H264} -c:a aac"));
}

#[test]
fn h265_of_matroska_decodes_to_the_same() {
    check("a.mkv", &format!("{H265} -c:a libopus"));
}

#[test]
fn vp9_and_opus_decode_to_the_same() {
    check("a.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -c:a libopus");
}

#[test]
fn av1_decodes_to_the_same() {
    check("a.webm", "-c:v libsvtav1 -preset 12 -g 50 -c:a libopus");
}

#[test]
fn mp3_of_matroska_avi_and_a_transport_stream_decodes_to_the_same() {
    for name in ["a.mkv", "a.ts", "a.avi"] {
        check(name, &format!("{H264} -bf 0 -c:a libmp3lame"));
    }
}

#[test]
fn ac3_and_eac3_decode_to_the_same() {
    check("a.ts", &format!("{H264} -c:a ac3"));
    check("a.mkv", &format!("{H264} -c:a eac3"));
}

#[test]
fn sound_that_not_all_browsers_play_can_be_left_out() {
    let Some(folder) = Folder::new("sound_that_not_all_browsers_play_can_be_left_out") else { return };
    let master = |options: &str, name| {
        let path = folder.encode(1, options, name);
        let media = Arc::new(Media::open(&path).expect("a file"));
        film(&media, &File::open(&path).expect("a file"), 0).master("")
    };
    let of_ac3 = master(&format!("{H264} -c:a ac3"), "a.mkv");
    let variants: Vec<&str> = of_ac3.split("#EXT-X-STREAM-INF:").skip(1).collect();
    assert!(variants[0].contains(",ac-3\"") && variants[0].ends_with("media_0_1.m3u8\n"), "{of_ac3}");
    assert!(variants[1].ends_with("media_0.m3u8\n") && variants.len() == 2, "{of_ac3}");
    let of_both = master(&format!("-map 0:v -map 1:a -map 1:a {H264} -c:a:0 ac3 -c:a:1 aac"), "b.mkv");
    assert!(!of_both.contains("ac-3") && of_both.ends_with("media_0_2.m3u8\n"), "{of_both}");
    let alone = master("-vn -c:a libmp3lame", "c.mka");
    assert!(alone.contains("CODECS=\"mp4a.6B\"") && alone.ends_with("media_0.m3u8\n"), "{alone}");
}

#[test]
fn a_film_that_starts_later_has_its_first_picture_at_its_beginning() {
    let Some(folder) = Folder::new("a_film_that_starts_later_has_its_first_picture_at_its_beginning") else {
        return;
    };
    let path = folder.encode(9, &format!("{H264} -c:a aac"), "a.mp4");
    let media = Arc::new(Media::open(&path).expect("a file"));
    let film = film(&media, &File::open(&path).expect("a file"), 3_000_000_000);
    let copy = folder.path("copy.mp4");
    std::fs::write(&copy, whole(&film, &File::open(&path).expect("a file"), &[0, 1])).expect("a file");
    let (all, later) = (decoded(&path, "0:v"), decoded(&copy, "0:v"));
    // The key frame at or before the third second.
    assert_eq!(later.len(), all.len() - 72);
    assert_eq!((later[0].0, &later[0].1), (0, &all[72].1));
}

#[test]
fn films_that_browsers_cannot_play_are_refused() {
    let Some(folder) = Folder::new("films_that_browsers_cannot_play_are_refused") else { return };
    let play = |path: &Path, is_endless| {
        let media = Arc::new(Media::open(path).expect("a file"));
        let playlist = Arc::new(Playlist::new(vec![media.into()], is_endless).expect("a playlist"));
        Film::new(&playlist, |_| None).map(|film| film.durations_ns().count())
    };
    let other = folder.encode(1, "-c:v mpeg4 -c:a mp2", "a.mp4");
    assert_eq!(play(&other, false), Err(Unplayable::Codecs));
    let film = folder.encode(1, &format!("{H264} -c:a aac"), "b.mp4");
    assert_eq!(play(&film, true), Err(Unplayable::Endless));
    assert_eq!(play(&film, false), Ok(1));
}
