//! Films, the files that they are of, and how they are sent.

use forebay_rtsp::packetise::{Format, Framing};
use forebay_streaming::buffer::Buffer;
use forebay_streaming::program::Planned;
use forebay_streaming::stream::Setup;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;

/// Pictures of 25 a second, every 25th of which is large and needs no others; sound in between.
pub fn film(seconds: u64, picture_bytes: u64) -> Vec<Planned> {
    film_of(seconds, 5 * picture_bytes, picture_bytes)
}

/// The same, with key frames and other pictures of these sizes.
pub fn film_of(seconds: u64, key_bytes: u64, other_bytes: u64) -> Vec<Planned> {
    let mut at = 0;
    let mut samples = Vec::new();
    for number in 0..25 * seconds {
        let is_sync = number % 25 == 0;
        let bytes = if is_sync { key_bytes } else { other_bytes };
        for (sender, bytes, rate) in [(0, bytes, 90_000), (1, 200, 48_000)] {
            samples.push(Planned {
                file: 0,
                sender,
                at: at..at + bytes,
                decode_ns: (number * 40 * MS) as i64,
                ticks: (number * rate / 25) as u32,
                packing: Default::default(),
                is_sync: is_sync || sender == 1,
                edges: Default::default(),
            });
            at += bytes;
        }
    }
    samples
}

/// The file that a film is of: pictures of one NAL unit.
pub fn file(film: &[Planned]) -> Vec<u8> {
    let mut bytes = vec![0; film.last().map_or(0, |last| last.at.end as usize)];
    for picture in film.iter().filter(|one| one.sender == 0) {
        let [a, b, c, d] = ((picture.at.end - picture.at.start) as u32 - 4).to_be_bytes();
        bytes[picture.at.start as usize..][..5].copy_from_slice(&[a, b, c, d, 0x65]);
    }
    bytes
}

/// Does what a buffer wants read.
pub fn read(buffer: &mut Buffer, file: &[u8]) {
    let read = |_, offset: u64, targets: Vec<&mut [u8]>| {
        let mut rest = &file[offset as usize..];
        for target in targets {
            let (bytes, after) = rest.split_at(target.len());
            target.copy_from_slice(bytes);
            rest = after;
        }
        Ok::<(), ()>(())
    };
    buffer.read(&mut Vec::new(), read).expect("it is read");
}

pub fn setup(track: usize, is_paced: bool) -> Setup {
    let is_video = track == 0;
    Setup {
        track,
        format: if is_video { Format::H264(Framing::Lengths(4)) } else { Format::Opus },
        payload_type: 96 + track as u8,
        clock_rate: if is_video { 90_000 } else { 48_000 },
        ssrc: track as u32,
        sequence: 65_530,
        timestamp: u32::MAX - 10,
        packet_bytes_max: 1400,
        is_video,
        needs_sync: is_video,
        is_paced,
        is_bundled: false,
    }
}
