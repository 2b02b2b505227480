//! Films that are being recorded: what a playlist has told stays true while the file grows, and parts have what segments have.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use forebay_hls::{Film, Presence, Reload, Segment};
use forebay_media::{Growing, Media, ReadAt, Reading, Stage, Streams};
use forebay_streaming::playlist::Playlist;
use forebay_testkit::films::{Folder, H264};

/// A file of which only the beginning has been written.
struct Written<'a> {
    whole: &'a [u8],
    bytes: Cell<usize>,
}

impl ReadAt for Written<'_> {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.get() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let there = &self.whole[..self.bytes.get()];
        let rest = usize::try_from(offset).ok().and_then(|offset| there.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A sample, as it is told from others: its track, where it is, and when it is decoded.
type Told = (u8, u64, i64);

fn told(samples: Segment) -> Vec<Told> {
    samples.map(|planned| (planned.sender, planned.at.start, planned.decode_ns)).collect()
}

fn media(film: &Film, tracks: &[usize]) -> String {
    film.media(tracks, "", Reload::default()).expect("a playlist")
}

/// The parts that a playlist names, and the segments.
fn named<'a>(playlist: &'a str, kind: &str) -> Vec<&'a str> {
    let names = playlist.split(['"', '\n']).filter(|name| name.starts_with(kind));
    names.collect()
}

/// Segment and part of a name.
fn numbers(name: &str) -> (usize, usize) {
    let mut numbers = name.split('_').skip(1).map(|number| number.parse().expect("a number"));
    (numbers.next().expect("a segment"), numbers.next().expect("a part"))
}

/// Follows a recording from its first samples to its end, piece by piece.
fn follow(name: &str, options: &str, tracks: &[usize]) {
    let test = format!("recording {name}");
    let Some(folder) = Folder::new(&test) else { return };
    let whole = std::fs::read(folder.encode(14, options, name)).expect("a film");
    let file = Written { whole: &whole, bytes: Cell::new(0) };
    let (mut reading, mut growing, mut film) = (None, None::<Arc<Growing>>, None::<Film>);
    let mut parts = BTreeMap::new();
    let mut playlist = String::new();
    for bytes in (0..whole.len()).step_by(whole.len() / 97).skip(1).chain([whole.len()]) {
        file.bytes.set(bytes);
        if reading.is_none() {
            reading = Reading::begin(&file, Streams::default()).ok().filter(Reading::is_in_parts);
        }
        let Some(reading) = &mut reading else { continue };
        reading.go_on(&file, u64::MAX / 2).expect("a film");
        let Some(found) = reading.so_far(&file).expect("a film").map(Arc::new) else { continue };
        match &growing {
            Some(growing) => growing.put(found, Stage::Following),
            None => growing = Some(Arc::new(Growing::new(found, Stage::Following, None))),
        }
        let next = match (&film, &growing) {
            (Some(film), _) => film.grown().expect("there is more of it"),
            (None, Some(growing)) => {
                let playlist =
                    Arc::new(Playlist::new(vec![growing.clone().into()], false).expect("a playlist"));
                Film::new(&playlist, |_| None).expect("a film")
            }
            (None, None) => continue,
        };
        assert!(next.may_grow() && next.grown().is_none());
        let longer = media(&next, tracks);
        let (before, now) = (named(&playlist, "segment_"), named(&longer, "segment_"));
        assert!(now.starts_with(&before), "{name}: {now:?} after {before:?}");
        for part in named(&longer, "part_") {
            let (segment, number) = numbers(part);
            let samples = || next.part(tracks, segment, number).map(told);
            // The last one is told of ahead.
            let Some(now) = samples() else {
                assert_eq!(next.presence(segment, Some(number)), Presence::Next, "{name}: {part}");
                assert!(longer.contains(&format!("PRELOAD-HINT:TYPE=PART,URI=\"{part}\"")), "{longer}");
                continue;
            };
            assert_eq!(next.presence(segment, Some(number)), Presence::There);
            let first = parts.entry((segment, number)).or_insert_with(|| now.clone());
            assert_eq!(*first, now, "{name}: {part} is what it was");
        }
        (playlist, film) = (longer, Some(next));
    }
    let (growing, film) = (growing.expect("an index"), film.expect("a film"));
    let whole_media = Arc::new(reading.expect("it is read").end(&file).expect("a film"));
    growing.put(whole_media.clone(), Stage::Over);
    let film = film.grown().expect("its end is known");
    assert!(!film.may_grow() && film.grown().is_none());
    // It is what it would be if it had been there from the beginning.
    let at_once = Arc::new(Playlist::new(vec![whole_media.into()], false).expect("a playlist"));
    let at_once = Film::new(&at_once, |_| None).expect("a film");
    assert_eq!(media(&film, tracks), media(&at_once, tracks));
    let count = film.durations_ns().count();
    assert!(count >= 3 && parts.len() > 10, "{name}: {count} segments, {} parts were told", parts.len());
    for segment in 0..count {
        let mut of_parts = Vec::new();
        for number in 0.. {
            let Some(samples) = film.part(tracks, segment, number).map(told) else { break };
            if let Some(first) = parts.get(&(segment, number)) {
                assert_eq!(*first, samples, "{name}: part {number} of segment {segment} at the end");
            }
            of_parts.extend(samples);
        }
        let samples = told(at_once.segment(tracks, segment).expect("a segment"));
        assert_eq!(of_parts, samples, "{name}: segment {segment} in parts");
    }
}

#[test]
fn a_recorded_transport_stream_keeps_what_was_told() {
    follow("a.ts", &format!("{H264} -c:a aac"), &[0, 1]);
}

#[test]
fn recorded_fragments_keep_what_was_told() {
    let fragments = "-movflags frag_keyframe+empty_moov+default_base_moof";
    follow("a.mp4", &format!("{H264} -c:a aac {fragments}"), &[0, 1]);
}

#[test]
fn recorded_matroska_keeps_what_was_told() {
    follow("a.mkv", &format!("{H264} -c:a aac -live 1 -cluster_time_limit 400"), &[0, 1]);
}

#[test]
fn recorded_pictures_with_rare_key_frames_keep_what_was_told() {
    follow("a.mkv", "-c:v libx264 -bf 3 -g 85 -keyint_min 85 -live 1 -cluster_time_limit 200", &[0]);
}

#[test]
fn what_is_far_away_is_not_waited_for_and_what_is_far_behind_is_skipped() {
    let Some(folder) = Folder::new("what_is_far_away_is_not_waited_for_and_what_is_far_behind_is_skipped")
    else {
        return;
    };
    let path = folder.encode(90, &format!("{H264} -live 1"), "a.mkv");
    let growing = Growing::new(Arc::new(Media::open(&path).expect("a film")), Stage::Following, None);
    let growing = Arc::new(growing);
    let playlist = Arc::new(Playlist::new(vec![growing.clone().into()], false).expect("a playlist"));
    let film = Film::new(&playlist, |_| None).expect("a film");
    let all = media(&film, &[0]);
    // It was only written a moment ago.
    assert!(all.contains("#EXT-X-START:TIME-OFFSET=0,PRECISE=YES\n"), "{all}");
    growing.set_recorded();
    let all = media(&film, &[0]);
    assert!(!all.contains("#EXT-X-START") && !all.contains("#EXT-X-ENDLIST"), "{all}");
    let count = film.durations_ns().count();
    let parts = named(&all, &format!("part_{count}_")).len() - 1;
    for (segment, part, expected) in [
        (0, None, Presence::There),
        (count - 1, Some(9), Presence::There),
        (count, None, Presence::Next),
        (count, Some(parts), Presence::Next),
        (count, Some(parts + 1), Presence::Missing),
        (count + 1, None, Presence::Next),
        (count + 1, Some(0), Presence::Next),
        (count + 1, Some(1), Presence::Missing),
        (count + 2, None, Presence::Missing),
        (usize::MAX, None, Presence::Missing),
    ] {
        assert_eq!(film.presence(segment, part), expected, "{segment} {part:?}");
        // The first segment of a playlist has number 1.
        let reload = Reload { sequence: Some(segment.saturating_add(1)), part, skips: false };
        assert_eq!(film.presence_in_playlist(reload), expected, "{segment} {part:?}");
    }
    assert!(film.part(&[0], usize::MAX, 0).is_none() && film.part(&[0], 0, usize::MAX).is_none());
    let rest = film.media(&[0], "", Reload { skips: true, ..Reload::default() }).expect("a playlist");
    let skipped = rest.lines().find_map(|line| line.strip_prefix("#EXT-X-SKIP:SKIPPED-SEGMENTS="));
    let skipped: usize = skipped.and_then(|number| number.parse().ok()).expect("some are skipped");
    // Six times the target duration is left.
    let left: f64 = film.durations_ns().skip(skipped).map(|ns| ns as f64 / 1e9).sum();
    assert!((43.0..=48.0).contains(&left), "{left} s");
    assert_eq!(named(&all, "segment_")[skipped..], named(&rest, "segment_"));
    let near = named(&rest, "part_").first().map(|name| numbers(name).0).expect("parts");
    assert!(near > skipped && near < count, "only segments near the end have parts: {near}");
}
