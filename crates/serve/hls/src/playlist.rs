//! Playlists (RFC 8216, and draft-pantos-hls-rfc8216bis for films that are being recorded): the master playlist names the tracks that
//! are played together, a media playlist names their segments.
//!
//! ```text
//!   master.m3u8 --> media_0_1.m3u8 --> init_0_1.mp4, segment_0_0_1.m4s, segment_1_0_1.m4s, ...
//!                         tracks 0 and 1       segment 0 of tracks 0 and 1
//!                    while it is recorded  --> part_7_0_0_1.m4s, part_7_1_0_1.m4s, ...: of segment 7, which has no end yet
//! ```

use std::fmt::Write;

use forebay_rtsp::range::SECOND_NS;

use crate::film::{Film, FilmTrack, PART_MAX_NS, Presence};

/// The least target duration of a film that is being recorded, in seconds: segments of most films are shorter.
const RECORDED_TARGET: u64 = 8;
/// The number of the first segment in playlists: hls.js 1.7 does not go on to the second one after one with number 0 that has parts.
const FIRST_SEQUENCE: usize = 1;
/// How many target durations before the end a segment is told with its parts, and may be skipped.
const PARTS_TARGETS: u64 = 3;
const SKIP_TARGETS: u64 = 6;
/// How many parts before the end a player plays.
const HOLD_PARTS: u64 = 3;
/// What a client is to have room for beside the mean rate: a segment may have so many times as much.
const PEAK: u64 = 2;

/// How a playlist is asked for again (RFC 8216bis, 6.2.5): with this segment, or this part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reload {
    /// The number that playlists give to the segment.
    pub sequence: Option<usize>,
    /// Number of its part.
    pub part: Option<usize>,
    /// Whether the client still has what lies far behind.
    pub skips: bool,
}

impl Film {
    /// The master playlist. `query` follows the question mark in each of its URLs.
    pub fn master(&self, query: &str) -> String {
        let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n");
        let (some, all): (Vec<&FilmTrack>, Vec<&FilmTrack>) =
            self.sounds().partition(|sound| sound.shape.is_for_some());
        // A browser that does not play a sound would not play the film.
        let is_for_some = all.is_empty() && !some.is_empty();
        let sounds = if is_for_some { some } else { all };
        let pictures = self.pictures();
        let first = sounds.first().copied();
        let has_choice = pictures.is_some() && sounds.len() > 1;
        if has_choice {
            for (place, sound) in sounds.iter().enumerate() {
                write_sound(&mut text, place, sound, query);
            }
        }
        let together: Vec<&FilmTrack> = pictures.into_iter().chain(first).collect();
        self.write_variant(&mut text, &together, has_choice, query);
        if is_for_some && let Some(pictures) = pictures {
            self.write_variant(&mut text, &[pictures], false, query);
        }
        text
    }

    /// Writes what is played together: pictures and sound, or one of them.
    fn write_variant(&self, text: &mut String, together: &[&FilmTrack], has_choice: bool, query: &str) {
        let codecs: Vec<&str> = together.iter().map(|track| track.shape.codec.as_str()).collect();
        let mean = self.bits_per_second(together).max(1);
        // Into memory, which does not fail.
        let _ = write!(
            text,
            "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={mean},CODECS=\"{}\"",
            mean.saturating_mul(PEAK),
            codecs.join(",")
        );
        if let Some((width, height)) = together.iter().find_map(|track| track.shape.size) {
            let _ = write!(text, ",RESOLUTION={width}x{height}");
        }
        if has_choice {
            text.push_str(",AUDIO=\"sound\"");
        }
        let numbers: Vec<usize> = together.iter().map(|track| track.number).collect();
        let _ = writeln!(text, "\nmedia_{}.m3u8{}", joined(&numbers), after_mark(query));
    }

    /// The media playlist of tracks that are sent together; `None` if browsers do not play these.
    pub fn media(&self, tracks: &[usize], query: &str, reload: Reload) -> Option<String> {
        self.chosen(tracks)?;
        let (numbers, query) = (joined(tracks), after_mark(query));
        let longest_ns = self.durations_ns().max().unwrap_or_default();
        let mut target = longest_ns.div_ceil(SECOND_NS);
        let mut text = String::from("#EXTM3U\n");
        let (mut skipped, mut in_parts) = (0, usize::MAX);
        if self.may_grow() {
            // A target may not change, and how far key frames will be apart is not known.
            target = target.max(RECORDED_TARGET);
            let until = target * SKIP_TARGETS;
            let is_near = |number: usize, seconds: u64| self.until_cut_ns(number) < seconds * SECOND_NS;
            let first_near = |seconds| (0..self.segments()).find(|number| is_near(*number, seconds));
            in_parts = first_near(target * PARTS_TARGETS).unwrap_or(self.segments());
            skipped = if reload.skips { first_near(until).unwrap_or(self.segments()) } else { 0 };
            let part = seconds(PART_MAX_NS);
            let _ = write!(
                text,
                "#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:{target}\n#EXT-X-PLAYLIST-TYPE:EVENT\n\
                 #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL={until},PART-HOLD-BACK={}\n\
                 #EXT-X-PART-INF:PART-TARGET={part}\n",
                seconds(PART_MAX_NS * HOLD_PARTS)
            );
            // A file that was only written a moment ago is played from its beginning.
            if !self.playlist().is_recorded() {
                text.push_str("#EXT-X-START:TIME-OFFSET=0,PRECISE=YES\n");
            }
        } else {
            let _ =
                write!(text, "#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{target}\n#EXT-X-PLAYLIST-TYPE:VOD\n");
        }
        let _ = write!(
            text,
            "#EXT-X-MEDIA-SEQUENCE:{FIRST_SEQUENCE}\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init_{numbers}.mp4{query}\"\n"
        );
        if skipped > 0 {
            let _ = writeln!(text, "#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}");
        }
        for (number, ns) in self.durations_ns().enumerate().skip(skipped) {
            if number >= in_parts {
                self.write_parts(&mut text, number, &numbers, &query);
            }
            let seconds = seconds(ns);
            let _ = write!(text, "#EXTINF:{seconds},\nsegment_{number}_{numbers}.m4s{query}\n");
        }
        if self.may_grow() {
            let open = self.segments();
            let next = self.write_parts(&mut text, open, &numbers, &query);
            let _ = writeln!(
                text,
                "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"part_{open}_{next}_{numbers}.m4s{query}\""
            );
        } else {
            text.push_str("#EXT-X-ENDLIST\n");
        }
        Some(text)
    }

    /// Whether the playlist has what a client waits for.
    pub fn presence_in_playlist(&self, reload: Reload) -> Presence {
        let segment = reload.sequence.and_then(|sequence| sequence.checked_sub(FIRST_SEQUENCE));
        segment.map_or(Presence::There, |segment| self.presence(segment, reload.part))
    }

    /// Writes the parts of a segment, and returns how many these are.
    fn write_parts(&self, text: &mut String, segment: usize, numbers: &str, query: &str) -> usize {
        let parts = self.parts(segment);
        for part in 0..parts {
            let independent = if part == 0 { ",INDEPENDENT=YES" } else { "" };
            let _ = writeln!(
                text,
                "#EXT-X-PART:DURATION={},URI=\"part_{segment}_{part}_{numbers}.m4s{query}\"{independent}",
                seconds(self.part_ns(segment, part))
            );
        }
        parts
    }
}

/// A time in seconds, as playlists have it.
fn seconds(ns: u64) -> String {
    format!("{:.6}", ns as f64 / SECOND_NS as f64)
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
