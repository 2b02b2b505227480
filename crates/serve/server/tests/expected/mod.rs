//! Films as their files have them, and whether that is what comes.

use std::fs;

use fastrand::Rng;

use crate::churn::{Arrival, Player};
use crate::process::Process;
use crate::support::{Folder, payload, units};

/// What of sound lies before the beginning, to be decoded only, and is not sent; in bytes.
const SOUND_BEFORE_MAX: usize = 300;
/// What of a transport stream lies before the first picture that can be decoded alone.
const STREAM_BEFORE_MAX: usize = 5 * 188;

pub struct Expected {
    /// NAL units of `film.mp4`, without those that its description has.
    pictures: Vec<Vec<u8>>,
    sound: Vec<u8>,
    /// `film.ts`.
    stream: Vec<u8>,
}

impl Expected {
    pub fn of(films: &Folder) -> Self {
        let input = format!("-i {}", films.path("film.mp4").display());
        Self {
            pictures: units(&payload(&input, "0:v")).into_iter().map(<[u8]>::to_vec).collect(),
            sound: payload(&input, "0:a"),
            stream: fs::read(films.path("film.ts")).expect("a film"),
        }
    }

    /// Watches a film from beginning to end over TCP. Not a byte may be missing, more, or elsewhere.
    pub fn compare(&self, server: &Process, rng: &mut Rng) {
        let speed = format!("Speed: {}\r\n", [1, 2, 4][rng.usize(0..3)]);
        let size = ["", "Blocksize: 300\r\n"][rng.usize(0..2)];
        if rng.bool() {
            let [stream, none] = watch(server, "film.ts?raw", 1, size, &speed);
            assert!(none.is_empty());
            let got: Vec<u8> = stream.iter().flatten().copied().collect();
            let are_all = got.len() + STREAM_BEFORE_MAX >= self.stream.len();
            assert!(are_all && self.stream.ends_with(&got), "{} of {} bytes", got.len(), self.stream.len());
            return;
        }
        let [pictures, sound] = watch(server, "film.mp4", 2, size, &speed);
        let pictures = units_of(&pictures);
        let sound = sound_of(&sound);
        assert!(pictures == self.pictures, "{} of {} units", pictures.len(), self.pictures.len());
        let are_all = sound.len() + SOUND_BEFORE_MAX >= self.sound.len();
        assert!(are_all && self.sound.ends_with(&sound), "{} of {} bytes", sound.len(), self.sound.len());
    }
}

/// How often a client that was kept from its processor for longer than a session lasts tries again.
const TRIES: usize = 20;

/// The payloads of all packets of each track.
fn watch(server: &Process, film: &str, tracks: usize, size: &str, speed: &str) -> [Vec<Vec<u8>>; 2] {
    let tried = (0..TRIES).find_map(|_| {
        let mut player = Player::new(server.connect(), film);
        for track in 0..tracks {
            let response = player.set_up(track, size).expect("an answer");
            if response.status == 454 {
                return None;
            }
            assert_eq!(response.status, 200, "{response:?}");
        }
        let response = player.ask("PLAY", speed).expect("an answer");
        if response.status == 454 {
            return None;
        }
        assert_eq!(response.status, 200, "{response:?}");
        let mut payloads = [Vec::new(), Vec::new()];
        loop {
            match player.receive().expect("something comes in time") {
                Arrival::Packet(track, packet) => payloads[track].push(packet[12..].to_vec()),
                Arrival::Report { is_goodbye: false } => {}
                Arrival::Report { is_goodbye: true } => return Some(payloads),
                other => panic!("{film} breaks off: {other:?}"),
            }
        }
    });
    tried.expect("sessions end too early")
}

/// NAL units in packets (RFC 6184, section 5): one, several small ones, or a part of one.
fn units_of(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut units: Vec<Vec<u8>> = Vec::new();
    for packet in packets {
        match packet[0] & 0x1F {
            24 => {
                let mut rest = &packet[1..];
                while let [high, low, after @ ..] = rest {
                    let (unit, next) = after.split_at(u16::from_be_bytes([*high, *low]).into());
                    units.push(unit.to_vec());
                    rest = next;
                }
            }
            28 if packet[1] & 0x80 != 0 => {
                let head = packet[0] & 0xE0 | packet[1] & 0x1F;
                units.push([&[head], &packet[2..]].concat());
            }
            28 => units.last_mut().expect("a part before this").extend(&packet[2..]),
            _ => units.push(packet.clone()),
        }
    }
    units.retain(|unit| !(7..=9).contains(&(unit[0] & 0x1F)));
    units
}

/// Access units of AAC in packets (RFC 3640, section 3.3.6), one after the other.
fn sound_of(packets: &[Vec<u8>]) -> Vec<u8> {
    let units = packets.iter().flat_map(|packet| {
        let heads = usize::from(u16::from_be_bytes([packet[0], packet[1]])) / 8;
        let sizes = packet[2..2 + heads].chunks(2);
        let bytes: usize = sizes.map(|head| usize::from(u16::from_be_bytes([head[0], head[1]]) >> 3)).sum();
        assert_eq!(bytes, packet.len() - 2 - heads, "a packet whose heads are of something else");
        &packet[2 + heads..]
    });
    units.copied().collect()
}
