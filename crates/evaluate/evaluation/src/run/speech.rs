//! An utterance to recognise: spoken by espeak-ng, and brought to the sampling rate that recognisers expect.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;
use crate::harness::random::Random;

/// Samples in a second that the utterance has.
const RATE_HZ: u32 = 16_000;
const SPEAKING_LIMIT: Duration = Duration::from_secs(120);
/// In words a minute by its own reckoning; without the pauses of connected text they are more.
const SPEED: &str = "150";
const WORDS_A_SENTENCE: usize = 9;

const WORDS: [&str; 64] = [
    "the",
    "a",
    "one",
    "every",
    "this",
    "some",
    "old",
    "young",
    "small",
    "great",
    "quiet",
    "early",
    "river",
    "house",
    "teacher",
    "garden",
    "letter",
    "morning",
    "winter",
    "road",
    "window",
    "market",
    "doctor",
    "story",
    "village",
    "answer",
    "music",
    "question",
    "paper",
    "train",
    "mountain",
    "sister",
    "came",
    "went",
    "found",
    "carried",
    "opened",
    "watched",
    "remembered",
    "followed",
    "wanted",
    "began",
    "called",
    "turned",
    "and",
    "but",
    "because",
    "when",
    "before",
    "under",
    "over",
    "near",
    "with",
    "from",
    "into",
    "after",
    "slowly",
    "again",
    "together",
    "always",
    "today",
    "there",
    "never",
    "almost",
];

/// Writes `words` spoken words as raw 16-bit samples to `path`; the same every time with the same espeak-ng.
pub(crate) fn write(path: &Path, words: usize, interrupt: &Interrupt) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let (text, spoken) = (folder.join("text"), folder.join("spoken.wav"));
    fs::write(&text, sentences(words)).map_err(Error::file("write", &text))?;
    let voice = ["espeak-ng", "-v", "en-us", "-s", SPEED].map(AsRef::as_ref);
    let files = ["-f".as_ref(), text.as_os_str(), "-w".as_ref(), spoken.as_os_str()];
    let speak = Invocation::new(folder, voice.into_iter().chain(files));
    let ran = speak.run(folder, SPEAKING_LIMIT, interrupt)?;
    if !ran.result.status.success() {
        let (command, status) = (speak.to_string(), ran.result.status.to_string());
        return Err(Error::Failed { command, status, stderr: ran.stderr_end });
    }
    let sound = fs::read(&spoken).map_err(Error::file("read", &spoken))?;
    let (rate_hz, samples) = samples_of(&sound).ok_or_else(|| {
        let reason = io::Error::new(io::ErrorKind::InvalidData, "it is no sound of 16 bits a sample");
        Error::file("read", &spoken)(reason)
    })?;
    let raw: Vec<u8> = resample(&samples, rate_hz).into_iter().flat_map(i16::to_le_bytes).collect();
    fs::write(path, raw).map_err(Error::file("write", path))?;
    for used in [&text, &spoken] {
        fs::remove_file(used).map_err(Error::file("remove", used))?;
    }
    Ok(())
}

fn sentences(words: usize) -> String {
    let mut random = Random::new(words as u64);
    let words: Vec<&str> = (0..words).map(|_| *random.pick(&WORDS)).collect();
    words.chunks(WORDS_A_SENTENCE).map(|sentence| sentence.join(" ") + ".\n").collect()
}

/// The rate and the samples of a WAVE file with one channel of 16 bits (RIFF: chunks of a name, a length and data).
fn samples_of(sound: &[u8]) -> Option<(u32, Vec<i16>)> {
    let mut rest = sound.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WAVE")?;
    let mut rate_hz = None;
    loop {
        let (name, length) = (rest.get(..4)?, rest.get(4..8)?);
        // What is written to a pipe does not know its length.
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        let data = rest.get(8..)?;
        let data = &data[..length.min(data.len())];
        match name {
            b"fmt " if data.get(..4)? == [1, 0, 1, 0] && data.get(14..16)? == [16, 0] => {
                rate_hz = Some(u32::from_le_bytes(data.get(4..8)?.try_into().ok()?));
            }
            b"data" => {
                let samples = data.chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]]));
                return Some((rate_hz.filter(|rate| *rate > 0)?, samples.collect()));
            }
            _ => {}
        }
        rest = rest.get(8 + length.next_multiple_of(2)..)?;
    }
}

/// The same sound with [`RATE_HZ`] samples a second, by a low pass with a Hann window.
fn resample(samples: &[i16], rate_hz: u32) -> Vec<i16> {
    const REACH: isize = 16;
    let step = f64::from(rate_hz) / f64::from(RATE_HZ);
    // As a share of the source's rate; above half of the new rate nothing may stay.
    let cutoff = 0.95 / step.max(1.0);
    let count = (samples.len() as f64 / step) as usize;
    let at = |number: usize| {
        let place = number as f64 * step;
        let first = place as isize - REACH + 1;
        let sum: f64 = (first..first + 2 * REACH)
            .filter_map(|near| Some((near, *samples.get(usize::try_from(near).ok()?)?)))
            .map(|(near, sample)| f64::from(sample) * low_pass(place - near as f64, cutoff, REACH as f64))
            .sum();
        sum.round() as i16
    };
    (0..count).map(at).collect()
}

fn low_pass(distance: f64, cutoff: f64, reach: f64) -> f64 {
    let angle = std::f64::consts::PI * distance * cutoff;
    let sinc = if angle == 0.0 { 1.0 } else { angle.sin() / angle };
    let window = 0.5 + 0.5 * (std::f64::consts::PI * distance / reach).cos();
    cutoff * sinc * window
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(rate_hz: u32, samples: &[i16]) -> Vec<u8> {
        let mut sound = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        sound.extend(rate_hz.to_le_bytes());
        sound.extend([0, 0, 0, 0, 2, 0, 16, 0]);
        sound.extend(b"LIST\x03\0\0\0abc\0data\xff\xff\xff\xff");
        sound.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
        sound
    }

    #[test]
    fn samples_are_found_among_other_chunks() {
        assert_eq!(samples_of(&wave(22_050, &[1, -2, 3])), Some((22_050, vec![1, -2, 3])));
        assert_eq!(samples_of(b"RIFF\0\0\0\0WAVEdata\x02\0\0\0aa"), None);
        assert_eq!(samples_of(b"no sound"), None);
    }

    #[test]
    fn a_tone_keeps_its_height_and_strength_at_another_rate() {
        let tone = |rate: f64, count: usize| -> Vec<i16> {
            (0..count)
                .map(|at| (10_000.0 * (at as f64 * 440.0 / rate * std::f64::consts::TAU).sin()) as i16)
                .collect()
        };
        let resampled = resample(&tone(22_050.0, 22_050), 22_050);
        let expected = tone(16_000.0, 16_000);
        assert_eq!(resampled.len(), expected.len());
        let apart = |at: usize| (i32::from(resampled[at]) - i32::from(expected[at])).abs();
        // Not at the ends, where the filter sees nothing.
        assert!((100..15_900).all(|at| apart(at) < 300), "{:?}", (100..15_900).map(apart).max());
    }

    #[test]
    fn a_text_has_the_words_asked_for_and_is_always_the_same() {
        assert_eq!(sentences(150).split_whitespace().count(), 150);
        assert_eq!(sentences(20), sentences(20));
    }
}
