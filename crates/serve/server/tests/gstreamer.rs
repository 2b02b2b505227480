//! GStreamer's rtspsrc plays, seeks, pauses, and gives credentials.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use forebay_rtsp::authentication::Secret;
use forebay_server::{Settings, User};
use forebay_testkit::klv;

use support::{Folder, H264, H265, Server, ffmpeg, in_some_play, payload, units, units_h265, until};

const PLAYER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gstreamer.py");
/// The interpreter of the distribution, for which its bindings are installed.
const PYTHON: &str = "/usr/bin/python3";
const PROTOCOLS: [&str; 2] = ["tcp", "udp"];

/// A player in a process of its own.
struct Player {
    child: Child,
    commands: ChildStdin,
    lines: BufReader<ChildStdout>,
    pictures: Vec<Vec<u8>>,
    /// Where in the film they are.
    places_ns: Vec<u64>,
    sound: Vec<u8>,
    units: Vec<Vec<u8>>,
}

impl Player {
    fn play(url: &str, protocol: &str) -> Self {
        Self::start(&[protocol, url])
    }

    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new("timeout")
            .args(["-k", "5", "60", PYTHON, PLAYER])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Python runs");
        let commands = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self {
            child,
            commands,
            lines,
            pictures: Vec::new(),
            places_ns: Vec::new(),
            sound: Vec::new(),
            units: Vec::new(),
        }
    }

    /// Tells it what to do, and waits until it has done so.
    fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("the player listens");
        while self.next_line().expect("the player goes on") != format!("done {command}") {}
    }

    /// The next line, of which it keeps what is media.
    fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        let line = line.trim_end().to_owned();
        if let [kind, place, content] = line.split(' ').collect::<Vec<_>>()[..] {
            match kind {
                "video" => {
                    self.pictures.push(bytes(content));
                    self.places_ns.push(place.parse().expect("a place"));
                }
                "audio" => self.sound.extend(bytes(content)),
                "application" => self.units.push(bytes(content)),
                _ => {}
            }
        }
        (!line.is_empty()).then_some(line)
    }

    fn watch_until_pictures(&mut self, count: usize) {
        while self.pictures.len() < count && self.next_line().is_some() {}
    }

    /// To the end. What the player says if anything was wrong.
    fn watch_to_the_end(&mut self) -> Result<(), String> {
        while self.next_line().is_some() {}
        let mut said = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        let status = self.child.wait().expect("a child");
        // Python goes on after an error in what GStreamer calls.
        if status.success() && !said.contains("Traceback") { Ok(()) } else { Err(said) }
    }
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// `None`, with a word about it, where there is no GStreamer, or Python does not know it.
fn folder(test: &str) -> Option<Folder> {
    let probe = "import gi; gi.require_version('Gst', '1.0'); from gi.repository import Gst; Gst.init(None); \
                 assert Gst.ElementFactory.find('rtspsrc') and Gst.ElementFactory.find('rtph265depay')";
    let has_gstreamer =
        Command::new(PYTHON).args(["-c", probe]).output().is_ok_and(|output| output.status.success());
    if !has_gstreamer {
        forebay_testkit::skip(test, "GStreamer for Python is not installed: run `scripts/setup test`");
        return None;
    }
    Folder::new(test)
}

/// Runs the same over both transports at once.
fn over_both(check: impl Fn(&'static str) + Sync) {
    thread::scope(|scope| {
        let check = &check;
        for protocol in PROTOCOLS {
            scope.spawn(move || in_some_play(|| check(protocol)));
        }
    });
}

#[test]
fn gstreamer_gets_every_sample_over_tcp_and_udp() {
    let Some(folder) = folder("gstreamer_gets_every_sample_over_tcp_and_udp") else { return };
    let server = Server::start(folder.root());
    let films = [
        ("h264-aac.mp4", format!("{H264} -c:a aac")),
        ("h265-opus.mkv", format!("{H265} -c:a libopus")),
        ("h264-mp3.mov", format!("{H264} -c:a libmp3lame")),
        ("a.ts", format!("{H264} -c:a aac")),
    ];
    thread::scope(|scope| {
        for (name, options) in &films {
            let (folder, server) = (&folder, &server);
            scope.spawn(move || {
                folder.encode(2, options, name);
                over_both(|protocol| check(folder, server, name, protocol));
            });
        }
    });
}

fn check(folder: &Folder, server: &Server, name: &str, protocol: &str) {
    let what = format!("{name} over {protocol}");
    let query = if name.ends_with(".ts") { "?raw" } else { "" };
    let mut player = Player::play(&server.url(&format!("{name}{query}")), protocol);
    let ended = player.watch_to_the_end();
    assert!(ended.is_ok(), "{what}: after {} pictures, {ended:?}", player.pictures.len());
    let got = player.pictures.concat();
    let file = folder.path(name);
    if name.ends_with(".ts") {
        let expected = std::fs::read(file).expect("a film");
        // What describes the service may lie before the first picture that can be decoded alone.
        assert!(
            expected.ends_with(&got) && got.len() + 5 * 188 >= expected.len(),
            "{what}: {} bytes",
            got.len()
        );
        return;
    }
    let input = format!("-i {}", file.display());
    let is_same = if name.starts_with("h264") {
        units(&got) == units(&payload(&input, "0:v"))
    } else {
        let pictures = ffmpeg(&format!("{input} -map 0:v -c copy -bsf:v hevc_mp4toannexb -f data -")).stdout;
        units_h265(&got) == units_h265(&pictures)
    };
    assert!(is_same, "{what}: {} bytes of pictures", got.len());
    assert_eq!(player.pictures.len(), 50, "{what}");
    let sound = payload(&input, "0:a");
    // What is there to be decoded only, before the beginning, is not sent of sound.
    let are_all = player.sound.len() + 300 >= sound.len();
    assert!(
        are_all && sound.ends_with(&player.sound),
        "{what}: {} of {} bytes",
        player.sound.len(),
        sound.len()
    );
}

#[test]
fn gstreamer_gets_codecs_with_payload_formats_of_their_own() {
    let test = "gstreamer_gets_codecs_with_payload_formats_of_their_own";
    let Some(folder) = folder(test) else { return };
    let server = Server::start(folder.root());
    let (vp8, vp9) = ("-c:v libvpx -deadline realtime", "-c:v libvpx-vp9 -deadline realtime");
    let films = [
        ("vp8-vorbis.webm", format!("{vp8} -c:a libvorbis")),
        ("vp9-opus.webm", format!("{vp9} -c:a libopus -ac 6")),
        ("mpeg4-ac3.mkv", "-c:v mpeg4 -c:a ac3".to_owned()),
        ("l16.mov", "-map 1:a -c:a pcm_s16be -ac 2".to_owned()),
        ("l24.mov", "-map 1:a -c:a pcm_s24be -ac 2".to_owned()),
    ];
    thread::scope(|scope| {
        for (name, options) in &films {
            let (folder, server) = (&folder, &server);
            scope.spawn(move || {
                folder.encode(2, options, name);
                over_both(|protocol| check_bytes(folder, server, name, protocol));
            });
        }
    });
}

#[test]
fn gstreamer_gets_units_of_metadata() {
    let Some(folder) = folder("gstreamer_gets_units_of_metadata") else { return };
    let units: Vec<_> = (0..20).map(|number| klv::unit(200 * number, number as u8)).collect();
    let _ = folder.put("klv.ts", klv::stream(&units, false));
    let server = Server::start(folder.root());
    over_both(|protocol| {
        let mut player = Player::play(&server.url("klv.ts"), protocol);
        player.watch_to_the_end().expect("it plays to the end");
        assert!(player.units == units, "{protocol}: {} of 20 units", player.units.len());
    });
}

/// Compares what comes with what ffmpeg takes out of the file.
fn check_bytes(folder: &Folder, server: &Server, name: &str, protocol: &str) {
    let what = format!("{name} over {protocol}");
    let mut player = Player::play(&server.url(name), protocol);
    let ended = player.watch_to_the_end();
    assert!(ended.is_ok(), "{what}: {ended:?}");
    let copied = |kind: &str| {
        let options = format!("-i {} -map 0:{kind}? -c copy -f data -", folder.path(name).display());
        ffmpeg(&options).stdout
    };
    // The player puts headers of Vorbis before it. What is there to be decoded only, before the beginning, is not sent.
    let (sound, got) = (copied("a"), &player.sound);
    let alike = sound.iter().rev().zip(got.iter().rev()).take_while(|(one, other)| one == other).count();
    let has_headers = name.contains("vorbis");
    assert!(alike + 700 >= sound.len(), "{what}: {alike} of {} bytes of sound", sound.len());
    assert!(has_headers || alike == got.len(), "{what}: {alike} of {} bytes of sound", got.len());
    if !player.pictures.is_empty() || !name.ends_with(".mov") {
        let (pictures, got) = (copied("v"), player.pictures.concat());
        assert!(got == pictures, "{what}: {} of {} bytes of pictures", got.len(), pictures.len());
    }
}

/// A film of five seconds, with a key picture every 0.48 s, and its pictures in the order of sending.
fn long_film(folder: &Folder) -> Vec<u8> {
    let file = folder.encode(5, &format!("{H264} -c:a aac"), "a.mp4");
    payload(&format!("-i {}", file.display()), "0:v")
}

#[test]
fn gstreamer_seeks_to_the_key_picture_before() {
    let Some(folder) = folder("gstreamer_seeks_to_the_key_picture_before") else { return };
    let film = long_film(&folder);
    let film = units(&film);
    let server = Server::start(folder.root());
    over_both(|protocol| {
        let mut player = Player::play(&server.url("a.mp4"), protocol);
        player.watch_until_pictures(20);
        player.tell("seek 4");
        player.watch_to_the_end().expect("it plays to the end");
        let got = player.pictures.concat();
        let got = units(&got);
        // The key picture before is the 97th, at 3.84 s.
        let (before, after) = got.split_at(got.len() - 29);
        assert!(after == &film[film.len() - 29..], "{protocol}: another picture than the 97th is the first");
        assert!(before.len() < 96 && film.starts_with(before), "{protocol}: {} before", before.len());
        let places = &player.places_ns[player.places_ns.len() - 29..];
        assert!(places.iter().all(|place| (3_800_000_000..5_300_000_000).contains(place)), "{places:?}");
    });
}

#[test]
fn gstreamer_pauses_and_goes_on_where_it_was() {
    let Some(folder) = folder("gstreamer_pauses_and_goes_on_where_it_was") else { return };
    let film = long_film(&folder);
    over_both(|protocol| {
        let server = Server::start(folder.root());
        let mut player = Player::play(&server.url("a.mp4"), protocol);
        player.watch_until_pictures(20);
        player.tell("pause");
        // The player has stopped, and sends its request afterwards.
        until("the server stops", || server.metric("forebay_sessions_playing") == 0);
        let sent = server.metric("forebay_packets_total");
        assert!(player.pictures.len() < 125, "{protocol}: the film has ended before the pause");
        player.tell("play");
        player.watch_to_the_end().expect("it plays to the end");
        assert!(server.metric("forebay_packets_total") > sent, "{protocol}: it had ended before");
        let got = player.pictures.concat();
        assert!(units(&got) == units(&film), "{protocol}: {} of 125 pictures", player.pictures.len());
    });
}

/// GStreamer's jitter buffer discards the first pictures after a seek by the clock, whose time it cannot tell.
#[test]
fn gstreamer_replays_a_recording_either_way() {
    let Some(folder) = folder("gstreamer_replays_a_recording_either_way") else { return };
    let told = "-metadata creation_time=2021-06-15T12:00:00Z";
    let file = folder.encode(4, &format!("{H264} -c:a aac {told}"), "a.mp4");
    let film = payload(&format!("-i {}", file.display()), "0:v");
    // One slice is a picture here.
    let film: Vec<&[u8]> = units(&film).into_iter().filter(|unit| unit[0] & 0x1F <= 5).collect();
    let server = Server::start(folder.root());
    let url = server.url("a.mp4");
    let ns = |seconds: u64| ((1_623_758_400 + 2_208_988_800 + seconds) * 1_000_000_000).to_string();
    let backwards: Vec<usize> =
        (0..9).rev().flat_map(|group| 12 * group..(12 * group + 12).min(100)).collect();
    let keys = (0..9).rev().map(|group| 12 * group).collect();
    thread::scope(|scope| {
        for (rate, frames, pace, expected, least) in [
            ("1", "all", "free", (0..100).collect(), 90),
            ("-1", "all", "paced", backwards, 90),
            ("-8", "key", "free", keys, 7),
        ] {
            let (film, url, start, stop) = (&film, &url, ns(0), ns(4));
            scope.spawn(move || {
                let mut player = Player::start(&["tcp", url, rate, &start, &stop, frames, pace]);
                player.watch_to_the_end().unwrap_or_else(|said| panic!("{rate}: {said}"));
                let number =
                    |picture: &Vec<u8>| film.iter().position(|unit| units(picture).last() == Some(unit));
                let got: Vec<usize> = player.pictures.iter().filter_map(number).collect();
                assert_eq!(got.len(), player.pictures.len(), "{rate}: pictures that are not in the film");
                let mut rest = expected.iter();
                assert!(got.iter().all(|one| rest.any(|next: &usize| next == one)), "{rate}: {got:?}");
                assert!(got.len() >= least, "{rate}: {got:?}");
                // Now and then it takes the time of a later packet, which has none, for that of the first one.
                let start: u64 = start.parse().expect("a number");
                let is_exact = |(number, place): &(&usize, &u64)| {
                    *number % 12 == 0 && (*place + 500_000 - start) / 1_000_000 == 40 * **number as u64
                };
                let exact = got.iter().zip(&player.places_ns).filter(is_exact).count();
                assert!(exact >= 5, "{rate}: {got:?} {:?}", player.places_ns);
            });
        }
    });
}

#[test]
fn gstreamer_gives_credentials() {
    let Some(folder) = folder("gstreamer_gives_credentials") else { return };
    folder.encode(1, H264, "a.mp4");
    let ada =
        User { name: "ada".to_owned(), secret: Secret::Password("lovelace".to_owned()), paths: Vec::new() };
    let server = Server::with(Settings { users: vec![ada], ..Settings::new(folder.root().to_owned()) });
    over_both(|protocol| {
        for (who, is_known) in [("ada:lovelace@", true), ("ada:wrong@", false), ("", false)] {
            let mut player = Player::play(&format!("rtsp://{who}{}/a.mp4", server.address), protocol);
            match player.watch_to_the_end() {
                Ok(()) => assert!(is_known, "{who} over {protocol}"),
                Err(said) => {
                    assert!(!is_known && said.contains("Unauthorized"), "{who} over {protocol}: {said}")
                }
            }
            assert_eq!(player.pictures.len(), if is_known { 25 } else { 0 }, "{who} over {protocol}");
        }
    });
}
