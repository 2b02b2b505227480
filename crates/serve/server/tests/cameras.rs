//! Viewers of cameras get what the plan says, to the packet.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_cameras::{Film, Plan, Script, Timeline, Wanted, What};
use forebay_media::Media;
use forebay_server::{CameraSettings, FILM_BYTES, Settings};
use support::{Client, Folder, H264, Incoming, LIMIT, Server, ffmpeg, until};

const SECOND: u64 = 1_000_000_000;

fn film(folder: &Folder) -> PathBuf {
    folder.encode(3, &format!("{H264} -b:v 2M -c:a aac"), "a.mp4")
}

/// A minute ago, in whole seconds.
fn epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    (now.as_secs() - 60) * SECOND
}

fn cameras(film: &Path, count: u32, seed: u64, epoch: u64, script: &str) -> CameraSettings {
    CameraSettings {
        films: vec![film.to_owned()],
        count,
        seed,
        epoch_unix_ns: Some(epoch),
        script: Script::parse(script).expect("a script"),
        memory_bytes: FILM_BYTES,
        onvif: None,
        discovery: "127.0.0.1:0".parse().expect("an address"),
    }
}

fn serve(folder: &Folder, cameras: CameraSettings) -> Server {
    Server::with(Settings { cameras: Some(cameras), ..Settings::new(folder.root().to_owned()) })
}

/// The plan that a server has of these cameras.
fn plan(cameras: &CameraSettings) -> Plan {
    let file = File::open(&cameras.films[0]).expect("a film");
    let media = Arc::new(Media::read(&file).expect("a film"));
    let packet_bytes = Settings::new(PathBuf::new()).packet_bytes;
    let film = Film::new(&media, packet_bytes, FILM_BYTES, |at, into| file.read_exact_at(into, at.start));
    let wanted = Wanted {
        cameras: cameras.count,
        seed: cameras.seed,
        epoch_unix_ns: cameras.epoch_unix_ns.expect("an epoch"),
        script: cameras.script.clone(),
    };
    Plan::new(&[Arc::new(film.expect("a film"))], &wanted).expect("a plan")
}

/// A client that plays the pictures of a camera on its connection.
fn watch(server: &Server, camera: &str) -> Client {
    let mut client = server.connect();
    let session = client.set_up(camera, 0, "");
    let response = client.ask("PLAY", camera, &format!("Session: {session}\r\nRange: npt=0-\r\n"));
    assert_eq!(response.status, 200, "{response:?}");
    client
}

fn sequence(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[2], packet[3]])
}

/// The packets of both that have the same numbers; of each first those that the other one has too.
fn shared<'a>(one: &'a [Vec<u8>], other: &'a [Vec<u8>]) -> (&'a [Vec<u8>], &'a [Vec<u8>]) {
    let from = |packets: &'a [Vec<u8>], first: &[u8]| {
        packets.iter().position(|packet| sequence(packet) == sequence(first)).map(|at| &packets[at..])
    };
    let (one, other) = match (from(one, &other[0]), from(other, &one[0])) {
        (Some(one), _) => (one, other),
        (None, Some(other)) => (one, other),
        (None, None) => panic!("none of the packets are of both"),
    };
    let count = one.len().min(other.len());
    (&one[..count], &other[..count])
}

#[test]
fn two_servers_with_one_seed_send_the_same_packets() {
    let Some(folder) = Folder::new("two_servers_with_one_seed_send_the_same_packets") else { return };
    let (film, epoch) = (film(&folder), epoch());
    let faults = "fault = [{ kind = \"loss\", chance = 0.05 }, { kind = \"jitter\", by = \"50ms\" }]";
    let [one, again, other] = [4, 4, 5].map(|seed| serve(&folder, cameras(&film, 3, seed, epoch, faults)));
    let mut clients = [&one, &again, &other].map(|server| watch(server, "camera-2"));
    let [one, again, other] = [0, 1, 2].map(|number| {
        // So many that what the first two get has much in common, however late one of them was.
        clients[number].packets(if number < 2 { 500 } else { 10 })
    });
    let (one, again) = shared(&one, &again);
    assert!(one.len() > 100, "{} packets in common", one.len());
    assert_eq!(one, again);
    assert_ne!(one[0][8..12], other[0][8..12], "another seed has other sources");
}

#[test]
fn each_planted_loss_is_found_to_the_packet() {
    let Some(folder) = Folder::new("each_planted_loss_is_found_to_the_packet") else { return };
    let script = r#"
fault = [
  { kind = "loss", chance = 0.03 },
  { kind = "bursts", length = 12, distance = 150 },
  { kind = "reorder", chance = 0.02, by = "30ms" },
]
"#;
    let settings = cameras(&film(&folder), 2, 9, epoch(), script);
    let server = serve(&folder, settings.clone());
    let received: Vec<u16> =
        watch(&server, "camera-1").packets(500).iter().map(|one| sequence(one)).collect();
    let plan = plan(&settings);
    let mut timeline = Timeline::new(plan.cameras()[0].clone());
    // The server was entered after the epoch, and the film takes less than ten minutes.
    let events = std::iter::from_fn(|| timeline.next(600 * SECOND));
    let pictures = events.filter_map(|event| match event.what {
        What::Packets(departure) if departure.track == 0 => Some(departure),
        _ => None,
    });
    // A viewer begins with a key frame.
    let mut waits = true;
    let sent: Vec<u16> = pictures
        .skip_while(|one| {
            waits &= !(one.begins
                && one.is_sync
                && one.packets.iter().any(|packet| packet.sequence == received[0]));
            waits
        })
        .flat_map(|one| one.packets.into_iter().map(|packet| packet.sequence))
        .take(received.len())
        .collect();
    assert_eq!(received, sent, "what was received is what was planned");
    let span = usize::from(
        sent.iter().map(|one| one.wrapping_sub(sent[0])).filter(|one| *one < 0x8000).max().unwrap_or(0),
    ) + 1;
    let missing = span - received.len();
    assert!((20..300).contains(&missing), "{missing} packets are missing");
}

#[test]
fn all_viewers_of_a_camera_get_the_same_from_a_key_frame_on() {
    let Some(folder) = Folder::new("all_viewers_of_a_camera_get_the_same_from_a_key_frame_on") else {
        return;
    };
    let server = serve(&folder, cameras(&film(&folder), 1, 1, epoch(), ""));
    let mut clients = [watch(&server, "camera-1"), watch(&server, "camera-1")];
    let mut described = server.connect();
    let description = described.ask("DESCRIBE", "camera-1", "Accept: application/sdp\r\n").body;
    assert!(description.contains("m=video") && description.contains("m=audio"), "{description}");
    assert_eq!(server.metric("forebay_sessions_playing"), 2);
    let [one, other] = [0, 1].map(|number: usize| clients[number].packets(400));
    // A key picture is divided (FU-A), and its unit's type is 5; other units may come before it.
    let is_key =
        |packet: &Vec<u8>| packet[12] & 0x1F == 5 || packet[12] & 0x1F == 28 && packet[13] & 0x1F == 5;
    for packets in [&one, &other] {
        let of_first = packets.iter().take_while(|packet| packet[4..8] == packets[0][4..8]);
        assert!(of_first.clone().any(is_key), "the first picture is no key frame");
    }
    let (one, other) = shared(&one, &other);
    assert!(one.len() > 100, "{} packets in common", one.len());
    assert_eq!(one, other);
    drop(clients);
    until("the viewers are gone", || server.metric("forebay_sessions") == 0);
}

#[test]
fn a_camera_drops_connections_and_refuses_users_when_its_script_says_so() {
    let name = "a_camera_drops_connections_and_refuses_users_when_its_script_says_so";
    let Some(folder) = Folder::new(name) else { return };
    let script = r#"
user = "ada"
password = "lovelace"
fault = [{ kind = "drop", cameras = "1", every = "1s" }, { kind = "refuse", cameras = "2" }]
"#;
    let settings = cameras(&film(&folder), 3, 1, epoch(), script);
    let server = serve(&folder, settings);
    let mut client = server.connect();
    assert_eq!(client.ask("DESCRIBE", "camera-3", "").status, 401, "it has no password");
    let url = |camera: &str| format!("rtsp://ada:lovelace@{}/{camera}", server.address);
    let play = |camera: &str, seconds: u32| {
        ffmpeg(&format!("-rtsp_transport tcp -i {} -t {seconds} -map 0:v -c copy -f framecrc -", url(camera)))
    };
    let frames = |output: &std::process::Output| {
        output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"0,")).count()
    };
    let whole = play("camera-3", 3);
    assert!(whole.status.success() && frames(&whole) >= 49, "{}", String::from_utf8_lossy(&whole.stderr));
    let refused = play("camera-2", 2);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("401"));
    let dropped = play("camera-1", 60);
    assert!(frames(&dropped) < 60 * 25, "{} frames", frames(&dropped));
}

#[test]
fn a_camera_is_received_over_udp_with_reports_and_a_name() {
    let Some(folder) = Folder::new("a_camera_is_received_over_udp_with_reports_and_a_name") else { return };
    let server = serve(&folder, cameras(&film(&folder), 1, 1, epoch(), ""));
    let url = server.url("camera-1");
    let output = ffmpeg(&format!("-rtsp_transport udp -i {url} -t 2 -map 0:v -c copy -f framecrc -"));
    let frames = output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"0,")).count();
    assert!(frames >= 25, "{frames} frames: {}", String::from_utf8_lossy(&output.stderr));
    let mut client = watch(&server, "camera-1");
    client.stream().set_read_timeout(Some(LIMIT.max(Duration::from_secs(1)))).expect("a timeout");
    let report = loop {
        match client.receive() {
            Some(Incoming::Frame(1, report)) => break report,
            Some(_) => {}
            None => panic!("the connection has ended"),
        }
    };
    assert_eq!(report[1], 200, "a sender report");
    assert!(report.windows(8).any(|name| name == b"camera-1"), "{report:?}");
}
