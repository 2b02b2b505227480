//! What must hold for playlists and segments of any file, for a property test and for fuzzing.

use std::io;
use std::sync::Arc;

use forebay_hls::{Film, Piece, Reload, Segment};
use forebay_media::Media;
use forebay_media::index::Cursor;
use forebay_streaming::buffer::{Buffer, Scratch};
use forebay_streaming::playlist::Playlist;
use forebay_streaming::pool::Pool;

/// How many segments of a film are made, and how many fragments of a segment.
const FEW: usize = 20;

/// Small, so that segments have several fragments.
const BUFFER_BYTES: usize = 4_000;

/// A file is refused, or has playlists, and segments whose fragments are as long as they say.
pub fn film(file: &Vec<u8>) {
    let Ok(media) = Media::read(file) else { return };
    let media = Arc::new(media);
    let Some(playlist) =
        Playlist::new(vec![media.clone().into()], false).and_then(|list| list.within(0, None))
    else {
        return;
    };
    let first_sample = |track: usize| {
        let entry = media.tracks()[track].index().next(&mut Cursor::default())?;
        let sample = file.get(entry.at as usize..)?.get(..entry.bytes as usize)?;
        Some(sample.to_vec())
    };
    let Ok(film) = Film::new(&Arc::new(playlist), first_sample) else { return };
    assert!(film.master("").starts_with("#EXTM3U"));
    let tracks: Vec<usize> = film.pictures().into_iter().chain(film.sounds()).map(|one| one.number).collect();
    for tracks in tracks.iter().map(std::slice::from_ref).chain([&tracks[..]]) {
        if let Some(text) = film.media(tracks, "", Reload::default()) {
            assert!(text.starts_with("#EXTM3U") && text.ends_with('\n'));
        }
        let Some(init) = film.init(tracks) else { continue };
        assert!(!init.is_empty());
        let count = film.durations_ns().count();
        for number in (0..count).take(FEW).chain((0..count).rev().take(1)) {
            if let Some(segment) = film.segment(tracks, number) {
                segment_holds(&film, file, tracks, segment);
            }
        }
    }
}

fn segment_holds(film: &Film, file: &[u8], tracks: &[usize], segment: Segment) {
    let (mut pool, mut scratch) = (Pool::new(64 << 20), Scratch::default());
    let (ends, mut rest) = (segment.end_decodes(), segment.peekable());
    for sequence in 1..FEW as u32 {
        if rest.peek().is_none() {
            return;
        }
        let mut buffer = Buffer::gather(&mut rest, BUFFER_BYTES, BUFFER_BYTES, &mut scratch);
        if !pool.lend(&mut buffer) {
            return;
        }
        let read = |_, mut offset, targets: Vec<&mut [u8]>| {
            targets.into_iter().try_for_each(|target| {
                let from = file.get(offset as usize..).and_then(|from| from.get(..target.len()));
                offset += target.len() as u64;
                target.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
                io::Result::Ok(())
            })
        };
        buffer.read(&mut Vec::new(), read).expect("samples lie within the file");
        let next = Segment::next_decodes(&rest, &ends);
        let parts = buffer.into_parts();
        if let Some(fragment) = film.fragment(tracks, sequence, &parts, &next) {
            let pieces = fragment.pieces.iter().map(|piece| match piece {
                Piece::Own(at) => fragment.own[at.clone()].len(),
                Piece::Part(part, at) => parts[*part].bytes()[at.clone()].len(),
            });
            assert_eq!(pieces.sum::<usize>(), fragment.bytes);
        }
        parts.into_iter().for_each(|part| pool.give_back(part));
    }
}
