//! Films: noise of an exact rate, or what people have, with sound, B-frames, large key frames and a rate that varies.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::media::Container;
use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;

/// How long encoding may take.
const LIMIT: Duration = Duration::from_secs(300);
pub(super) const FRAMES_PER_SECOND: u32 = 25;
/// What is encoded of noise; the rest repeats it.
const NOISE_S: u32 = 10;
/// What is encoded of a real film at most.
const REAL_S: u32 = 60;
/// Different real films; each is there in each container.
const REAL_FILMS: u32 = 3;
/// From one key frame of a real film to the next.
const KEY_EVERY_S: u32 = 10;
/// A key frame has what plays in this time, and this at most.
const KEY_S: f64 = 2.0;
const KEY_BYTES_MAX: f64 = 1e6;
/// What moves takes so much of a picture that has as many bits between its key frames as in one, from measurements of x264.
const MOVING_PART: f64 = 0.0042;
/// Sound takes a fifth, and this at most, in bits a second.
const SOUND_BITS_MAX: u64 = 128_000;

/// What clients play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Films {
    /// One film of a constant rate, without sound, in a container that the server reads.
    Made,
    /// Several with all that is hard about those that people have, in three containers.
    Real,
}

forebay_names::names! { "kind of films": Films {
    Made = "made",
    Real = "real",
} }

impl Films {
    /// How many different files there are for clients that play one: in how many containers.
    pub(super) fn files_min(self) -> u32 {
        match self {
            Self::Made => 1,
            Self::Real => Container::ALL.len() as u32,
        }
    }
}

/// A film that others are copies of, in one container.
#[derive(Clone, Debug)]
pub(super) struct Clip {
    pub(super) path: PathBuf,
    pub(super) container: Container,
    pub(super) bytes: u64,
}

/// All films of a rate.
#[derive(Clone, Debug)]
pub(super) struct Clips {
    pub(super) films: Films,
    pub(super) bits_per_second: u64,
    pub(super) length_s: u32,
    /// Film by film, and each in all containers.
    clips: Vec<Clip>,
    containers: usize,
}

impl Clips {
    /// Encodes them. Noise is made for these containers, real films for all.
    pub(super) fn encode(
        films: Films,
        bits_per_second: u64,
        length_s: u32,
        containers: &[Container],
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let containers = if films == Films::Real { &Container::ALL } else { containers };
        let numbers = if films == Films::Real { REAL_FILMS } else { 1 };
        let mut clips = Vec::new();
        for film in 0..numbers {
            let short = format!("{bits_per_second}-{film}-short.mp4");
            let line = match films {
                Films::Made => noise(bits_per_second, &short),
                Films::Real => real(film, bits_per_second, length_s.min(REAL_S), &short),
            };
            Invocation::new(folder, line).succeed(folder, LIMIT, interrupt)?;
            for container in containers {
                let path = folder.join(format!("{bits_per_second}-{film}.{}", container.extension()));
                repeat(&short, *container, length_s, &path, folder, interrupt)?;
                let bytes = fs::metadata(&path).map_err(Error::file("read", &path))?.len();
                clips.push(Clip { path, container: *container, bytes });
            }
        }
        Ok(Self { films, bits_per_second, length_s, clips, containers: containers.len() })
    }

    /// What file `number` has: the film in each container, or a real film in one of them, which is another one for the next.
    pub(super) fn of(&self, number: u32) -> &[Clip] {
        match self.films {
            Films::Made => &self.clips,
            Films::Real => {
                let number = number as usize;
                let film = number / self.containers * self.containers % self.clips.len();
                std::slice::from_ref(&self.clips[film + number % self.containers])
            }
        }
    }

    /// Bytes of so many files.
    pub(super) fn bytes(&self, files: u32) -> u64 {
        (0..files).flat_map(|number| self.of(number)).map(|clip| clip.bytes).sum()
    }
}

/// Noise takes whatever bits it is given if the picture is large enough.
fn noise(bits_per_second: u64, short: &str) -> Vec<String> {
    let size = match bits_per_second {
        0..250_000 => "160x120",
        250_000..1_500_000 => "320x240",
        _ => "640x480",
    };
    let (rate, buffer) = (bits_per_second, bits_per_second / 5);
    let line = format!(
        "ffmpeg -v error -y -f lavfi -i color=c=gray:s={size}:r={FRAMES_PER_SECOND},noise=alls=100:allf=t,format=yuv420p \
         -t {NOISE_S} -c:v libx264 -preset ultrafast -tune zerolatency -b:v {rate} -minrate {rate} -maxrate {rate} \
         -bufsize {buffer} -g 50 {short}"
    );
    words(&line)
}

/// A still picture of noise takes bits for key frames alone, and a part of it that moves and changes takes them for all frames.
/// It is there in scenes, between which nothing moves. The encoder gives both the quality that the rate allows.
fn real(film: u32, bits_per_second: u64, length_s: u32, short: &str) -> Vec<String> {
    let (width, height) = match bits_per_second {
        0..100_000 => (160, 120),
        100_000..500_000 => (320, 240),
        500_000..1_500_000 => (640, 480),
        _ => (1280, 720),
    };
    let sound = (bits_per_second / 5).min(SOUND_BITS_MAX);
    let rate = bits_per_second - sound;
    let key_part = (KEY_S * rate as f64).min(KEY_BYTES_MAX * 8.0) / (f64::from(KEY_EVERY_S) * rate as f64);
    let side = (MOVING_PART * (1.0 - key_part) / key_part).sqrt().min(1.0);
    // Pictures have an even number of columns and lines.
    let part = |of: u32| ((f64::from(of) * side / 2.0).round() as u32).max(1) * 2;
    let (moving_width, moving_height) = (part(width), part(height));
    let key_frames = KEY_EVERY_S * FRAMES_PER_SECOND;
    let (scene_s, pause_s, speed) = (4 + film, 3, 20 + 10 * film);
    let (still, moving, hiss) = (100 + film, 200 + film, 300 + film);
    let line = format!(
        "ffmpeg -v error -y \
         -f lavfi -i color=c=gray:s={width}x{height}:r={FRAMES_PER_SECOND},noise=alls=60:allf=u:all_seed={still},format=yuv420p \
         -f lavfi -i color=c=gray:s={moving_width}x{moving_height}:r={FRAMES_PER_SECOND},noise=alls=60:allf=t:all_seed={moving},format=yuv420p \
         -f lavfi -i anoisesrc=r=48000:a=0.3:seed={hiss} \
         -filter_complex [0][1]overlay=x='mod(t*{speed},W-w)':y=H/3:enable='lt(mod(t,{}),{scene_s})' \
         -t {length_s} -c:v libx264 -preset veryfast -b:v {rate} -g {key_frames} -keyint_min {key_frames} -sc_threshold 0 -bf 3 -mbtree 0 \
         -c:a aac -b:a {sound} -ac 2 {short}",
        scene_s + pause_s
    );
    words(&line)
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Puts a film into a container again and again, until it is long enough.
fn repeat(
    short: &str,
    container: Container,
    length_s: u32,
    path: &Path,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let mut line = words(&format!("ffmpeg -v error -y -stream_loop -1 -i {short} -c copy -t {length_s}"));
    line.extend(container.options().iter().map(|word| (*word).to_owned()));
    line.push(path.to_string_lossy().into_owned());
    Invocation::new(folder, line).succeed(folder, LIMIT, interrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clips(films: Films, numbers: u32, containers: &[Container]) -> Clips {
        let each = (0..numbers).flat_map(|film| {
            let clip = move |container: &Container| Clip {
                path: format!("{film}.{}", container.extension()).into(),
                container: *container,
                bytes: 10,
            };
            containers.iter().map(clip)
        });
        let clips = each.collect();
        Clips { films, bits_per_second: 1, length_s: 1, clips, containers: containers.len() }
    }

    fn names(clips: &Clips, number: u32) -> Vec<String> {
        clips.of(number).iter().map(|clip| clip.path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_made_film_is_there_in_each_container_and_real_ones_take_turns() {
        let made = clips(Films::Made, 1, &[Container::Mp4, Container::Matroska]);
        assert_eq!((names(&made, 7), made.bytes(3)), (vec!["0.mp4".into(), "0.mkv".into()], 60));
        let real = clips(Films::Real, 3, &Container::ALL);
        let in_turn: Vec<String> = (0..10).flat_map(|number| names(&real, number)).collect();
        let expected =
            ["0.mp4", "0.mkv", "0.ts", "1.mp4", "1.mkv", "1.ts", "2.mp4", "2.mkv", "2.ts", "0.mp4"];
        assert_eq!((in_turn, real.bytes(10)), (expected.map(String::from).to_vec(), 100));
    }
}
