//! Pictures and sound are received as they belong together.

mod support;

use std::fs;
use std::path::Path;
use std::thread;

use support::{Client, Folder, H264, Incoming, Server, ffmpeg};

/// A picture of the films here.
const PICTURE_S: f64 = 0.04;

/// Every second one white picture, and a beep as long.
fn film(folder: &Folder) {
    let flash =
        "color=black:size=160x120:rate=25:duration=4,drawbox=color=white:t=fill:enable='eq(mod(n,25),12)'";
    let beep = "aevalsrc='if(between(mod(t,1),0.48,0.52),0.8*sin(2*PI*1000*t),0)':s=48000:d=4";
    let path = folder.path("a.mp4");
    let made = ffmpeg(&format!("-f lavfi -i {flash} -f lavfi -i {beep} {H264} -c:a aac {}", path.display()));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// When it flashes and when it beeps, in seconds, by the receiver's clock.
fn moments(folder: &Folder, name: &str, input: &str) -> [Vec<f64>; 2] {
    let [pictures, sound] = ["pictures", "sound"].map(|kind| folder.path(&format!("{name}.{kind}")));
    let brightness =
        format!("signalstats,metadata=print:key=lavfi.signalstats.YAVG:file={}", pictures.display());
    let loudness = format!(
        "asetnsamples=240,astats=metadata=1:reset=1,ametadata=print:key=lavfi.astats.1.Peak_level:file={}",
        sound.display()
    );
    let output = ffmpeg(&format!(
        "-copyts {input} -map 0:v -vf {brightness} -f null - -map 0:a -af {loudness} -f null -"
    ));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    [risings(&pictures, 128.0), risings(&sound, -20.0)]
}

/// The times at which a value that a filter has printed rises above a limit.
fn risings(printed: &Path, limit: f64) -> Vec<f64> {
    let text = fs::read_to_string(printed).expect("what the filter printed");
    let (mut was_above, mut time, mut risings) = (false, 0.0, Vec::new());
    for line in text.lines() {
        if let Some((_, seconds)) = line.split_once("pts_time:") {
            time = seconds.trim().parse().expect("a time");
        } else if let Some((_, value)) = line.split_once('=') {
            let is_above = value.parse::<f64>().expect("a number") > limit;
            if is_above && !was_above {
                risings.push(time);
            }
            was_above = is_above;
        }
    }
    risings
}

#[test]
fn it_beeps_when_it_flashes() {
    let Some(folder) = Folder::new("it_beeps_when_it_flashes") else { return };
    film(&folder);
    let server = Server::start(folder.root());
    let check = |transport: &str, seek: &str, count: usize| {
        let name = format!("{transport}{}", seek.replace(' ', ""));
        let input = format!("-rtsp_transport {transport} {seek} -i {}", server.url("a.mp4"));
        let [flashes, beeps] = moments(&folder, &name, &input);
        assert_eq!((flashes.len(), beeps.len()), (count, count), "{name}: {flashes:?}, {beeps:?}");
        let together = flashes.iter().zip(&beeps).all(|(flash, beep)| (flash - beep).abs() < PICTURE_S);
        assert!(together, "{name}: {flashes:?}, {beeps:?}");
    };
    thread::scope(|scope| {
        for transport in ["tcp", "udp"] {
            scope.spawn(move || check(transport, "", 4));
            scope.spawn(move || check(transport, "-ss 2", 2));
        }
    });
}

/// What a report says of a track: a time in seconds, and the timestamp then.
struct Report {
    ntp_s: f64,
    timestamp: u32,
}

/// The reports on each track of a presentation of two, to the end.
fn reports_to_the_end(client: &mut Client) -> [Vec<Report>; 2] {
    let mut reports = [Vec::new(), Vec::new()];
    let mut goodbyes = 0;
    while goodbyes < 2 {
        let Some(Incoming::Frame(channel, report)) = client.receive() else { panic!("it breaks off") };
        if channel % 2 == 0 {
            continue;
        }
        assert_eq!(report[1], 200, "a sender report comes first");
        let word = |at: usize| u32::from_be_bytes(report[at..at + 4].try_into().expect("four bytes"));
        let ntp_s = f64::from(word(8)) + f64::from(word(12)) / 4_294_967_296.0;
        reports[usize::from(channel / 2)].push(Report { ntp_s, timestamp: word(16) });
        // A goodbye is the last of a compound packet, and has two words.
        goodbyes += usize::from(report[report.len() - 7] == 203);
    }
    reports
}

#[test]
fn reports_on_both_tracks_tell_the_same_time() {
    let Some(folder) = Folder::new("reports_on_both_tracks_tell_the_same_time") else { return };
    folder.encode(3, &format!("{H264} -c:a aac"), "a.mp4");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    let session = client.set_up("a.mp4", 0, "");
    client.set_up("a.mp4", 1, &session);
    for from in ["0", "1.5"] {
        let headers = format!("Session: {session}\r\nRange: npt={from}-\r\n");
        let response = client.ask("PLAY", "a.mp4", &headers);
        let announced = response.get("RTP-Info").split(',').map(|track| {
            let value = track.split("rtptime=").nth(1).expect("a timestamp");
            value.parse::<u32>().expect("a number")
        });
        let announced: Vec<u32> = announced.collect();
        let reports = reports_to_the_end(&mut client);
        // By each report, the time at which what was asked for is played. The same timestamp is announced for it.
        let mut begins_s = Vec::new();
        for (track, rate) in [(0, 90_000.0), (1, 44_100.0)] {
            assert!(reports[track].len() >= 2, "track {track}: {} reports", reports[track].len());
            for report in &reports[track] {
                let ticks = report.timestamp.wrapping_sub(announced[track]) as i32;
                begins_s.push(report.ntp_s - f64::from(ticks) / rate);
            }
        }
        let apart = begins_s.iter().map(|begin| (begin - begins_s[0]).abs()).fold(0.0, f64::max);
        assert!(apart < 0.001, "from {from}: {begins_s:?}");
    }
}
