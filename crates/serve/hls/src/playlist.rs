//! Playlists (RFC 8216): the master playlist names the tracks that are played together, a media playlist names their segments.
//!
//! ```text
//!   master.m3u8 --> media_0_1.m3u8 --> init_0_1.mp4, segment_0_0_1.m4s, segment_1_0_1.m4s, ...
//!                         tracks 0 and 1       segment 0 of tracks 0 and 1
//! ```

use std::fmt::Write;

use crate::film::{Film, FilmTrack};

const SECOND_NS: f64 = 1e9;
/// What a client is to have room for beside the mean rate: a segment may have so many times as much.
const PEAK: u64 = 2;

impl Film {
    /// The master playlist. `query` follows the question mark in each of its URLs.
    pub fn master(&self, query: &str) -> String {
        let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n");
        let sounds: Vec<&FilmTrack> = self.sounds().collect();
        let pictures = self.pictures();
        let first = sounds.first().copied();
        let together: Vec<&FilmTrack> = pictures.into_iter().chain(first).collect();
        let has_choice = pictures.is_some() && sounds.len() > 1;
        if has_choice {
            for (place, sound) in sounds.iter().enumerate() {
                write_sound(&mut text, place, sound, query);
            }
        }
        let codecs: Vec<&str> = together.iter().map(|track| track.shape.codec.as_str()).collect();
        let mean = self.bits_per_second(&together).max(1);
        // Into memory, which does not fail.
        let _ = write!(
            text,
            "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={mean},CODECS=\"{}\"",
            mean.saturating_mul(PEAK),
            codecs.join(",")
        );
        if let Some((width, height)) = pictures.and_then(|track| track.shape.size) {
            let _ = write!(text, ",RESOLUTION={width}x{height}");
        }
        if has_choice {
            text.push_str(",AUDIO=\"sound\"");
        }
        let numbers: Vec<usize> = together.iter().map(|track| track.number).collect();
        let _ = writeln!(text, "\nmedia_{}.m3u8{}", joined(&numbers), after_mark(query));
        text
    }

    /// The media playlist of tracks that are sent together; `None` if browsers do not play these.
    pub fn media(&self, tracks: &[usize], query: &str) -> Option<String> {
        self.chosen(tracks)?;
        let (numbers, query) = (joined(tracks), after_mark(query));
        let longest_ns = self.durations_ns().max().unwrap_or_default();
        let target = (longest_ns as f64 / SECOND_NS).ceil();
        let mut text = format!(
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{target}\n#EXT-X-PLAYLIST-TYPE:VOD\n\
             #EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init_{numbers}.mp4{query}\"\n"
        );
        for (number, ns) in self.durations_ns().enumerate() {
            let seconds = ns as f64 / SECOND_NS;
            let _ = write!(text, "#EXTINF:{seconds:.6},\nsegment_{number}_{numbers}.m4s{query}\n");
        }
        text.push_str("#EXT-X-ENDLIST\n");
        Some(text)
    }
}

/// One of several tracks of sound. The first one is sent with the pictures.
fn write_sound(text: &mut String, place: usize, sound: &FilmTrack, query: &str) {
    let is_word = |language: &&str| language.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let language = sound.language.as_deref().filter(is_word).filter(|language| !language.is_empty());
    let name =
        language.map_or(format!("sound {}", place + 1), |language| format!("{language} {}", place + 1));
    let _ = write!(text, "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"{name}\",AUTOSELECT=YES");
    if let Some(language) = language {
        let _ = write!(text, ",LANGUAGE=\"{language}\"");
    }
    let _ = match place {
        0 => writeln!(text, ",DEFAULT=YES"),
        _ => writeln!(text, ",DEFAULT=NO,URI=\"media_{}.m3u8{}\"", sound.number, after_mark(query)),
    };
}

fn joined(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join("_")
}

/// Signs that would end a URL in a playlist are left out: no parameter of the server has them.
fn after_mark(query: &str) -> String {
    let is_plain = |sign: &char| sign.is_ascii_graphic() && !['"', '#', '<', '>'].contains(sign);
    let query: String = query.chars().filter(is_plain).collect();
    if query.is_empty() { query } else { format!("?{query}") }
}
