//! What other players make of it.

mod support;

use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;

use forebay_server::Settings;
use futures::StreamExt;
use retina::client::{PlayOptions, Session, SessionOptions, SetupOptions, Transport};
use retina::codec::CodecItem;

use support::{Folder, H264, Server, payload, run, units};

#[test]
fn gstreamer_gets_every_picture_over_tcp_and_udp() {
    let name = "gstreamer_gets_every_picture_over_tcp_and_udp";
    let Some(folder) = Folder::new(name) else { return };
    if Command::new("gst-launch-1.0").arg("--version").output().is_err() {
        return forebay_testkit::skip(name, &"GStreamer is not installed: run `scripts/setup test`");
    }
    let file = folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    let server = Server::start(folder.root());
    let expected = payload(&format!("-i {}", file.display()), "0:v");
    for protocol in ["tcp", "udp"] {
        let to = folder.path(protocol);
        let mut command = Command::new("timeout");
        command.args([
            "-k",
            "5",
            "30",
            "gst-launch-1.0",
            "-q",
            "rtspsrc",
            &format!("location={}", server.url("a.mp4")),
        ]);
        command.args([
            &format!("protocols={protocol}"),
            "latency=500",
            "!",
            "application/x-rtp,media=video",
            "!",
        ]);
        command.args([
            "rtph264depay",
            "!",
            "video/x-h264,stream-format=byte-stream,alignment=au",
            "!",
            "filesink",
        ]);
        let output = command.arg(format!("location={}", to.display())).output().expect("GStreamer runs");
        // When a stream is over, rtspsrc pauses, and at times fails to send that: the server sees what comes after, on the same
        // connection. What was received is looked at below all the same.
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || errors.contains("gst_rtspsrc_pause"), "{errors}");
        let got = std::fs::read(to).expect("a stream");
        assert!(units(&got) == units(&expected), "{protocol}: {} bytes, {}", got.len(), expected.len());
    }
}

#[test]
fn clients_of_ipv6_are_served_over_tcp_and_udp() {
    let name = "clients_of_ipv6_are_served_over_tcp_and_udp";
    let Some(folder) = Folder::new(name) else { return };
    if std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return forebay_testkit::skip(name, &"this machine has no IPv6");
    }
    folder.encode(1, H264, "a.mp4");
    let listen = vec![(Ipv6Addr::LOCALHOST, 0).into()];
    let server = Server::of(Settings {
        listen,
        udp_ports: 20_000..=29_999,
        ..Settings::new(folder.root().to_owned())
    });
    for transport in ["tcp", "udp"] {
        let url = server.url("a.mp4");
        let output = run(&format!("-rtsp_transport {transport} -i {url} -map 0:v -c copy -f framecrc -"));
        let frames =
            output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"0,")).count();
        assert_eq!(frames, 25, "{transport}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The pictures of a file as they are decoded, from one of them on.
fn decoded(input: &str) -> Vec<String> {
    let output = run(&format!("{input} -map 0:v -fps_mode passthrough -f framemd5 -"));
    assert!(output.status.success(), "{input}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let hash = |line: &str| line.rsplit(',').next().map(|hash| hash.trim().to_owned());
    text.lines().filter(|line| !line.starts_with('#')).filter_map(hash).collect()
}

#[test]
fn ffmpeg_seeks_and_decodes_the_right_pictures() {
    let Some(folder) = Folder::new("ffmpeg_seeks_and_decodes_the_right_pictures") else { return };
    let file = folder.encode(4, &format!("{H264} -c:a aac"), "a.mp4");
    let server = Server::start(folder.root());
    let all = decoded(&format!("-i {}", file.display()));
    assert_eq!(all.len(), 100);
    let url = server.url("a.mp4");
    let from_key = decoded(&format!("-rtsp_transport tcp -noaccurate_seek -ss 2.5 -i {url}"));
    // It asks for 0.13 s before, because of pictures that are seen before others that are sent before them.
    assert_eq!(from_key, all[48..], "the key frame before is the 49th picture");
    assert_eq!(decoded(&format!("-rtsp_transport tcp -i {url}?start=2.5")), all[60..]);
}

#[test]
fn a_loop_goes_on_without_a_seam() {
    let Some(folder) = Folder::new("a_loop_goes_on_without_a_seam") else { return };
    folder.encode(1, H264, "a.mp4");
    std::fs::write(folder.path("list.m3u"), "#EXTM3U\na.mp4\na.mp4\n").expect("a file");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    for (path, rounds) in [("a.mp4?loop", 3), ("list.m3u?loop", 3)] {
        let session = client.set_up(path, 0, "");
        let response = client.ask("PLAY", path, &format!("Session: {session}\r\nSpeed: 4\r\n"));
        assert_eq!(response.get("Range"), "npt=0.000000-", "{response:?}");
        let mut times = Vec::new();
        while times.len() < 25 * rounds {
            let packets = client.packets(1);
            if packets[0][1] & 0x80 != 0 {
                times.push(u32::from_be_bytes(packets[0][4..8].try_into().expect("four bytes")));
            }
        }
        let first = *times.iter().min_by_key(|time| time.wrapping_sub(times[0]) as i32).expect("a picture");
        let mut ticks: Vec<u32> = times.iter().map(|time| time.wrapping_sub(first)).collect();
        ticks.sort_unstable();
        // Those that are shown later than others that are sent after them are missing at the end.
        let whole = 25 * rounds - 4;
        let expected: Vec<u32> = (0..whole as u32).map(|number| 3600 * number).collect();
        assert_eq!(ticks[..whole], expected, "{path}");
        assert_eq!(client.ask("TEARDOWN", path, &format!("Session: {session}\r\n")).status, 200);
    }
    let described = client.ask("DESCRIBE", "list.m3u", "");
    assert!(described.body.contains("a=range:npt=0.000000-2."), "{}", described.body);
}

/// What a client in Rust gets: pictures with their places in the presentation, and access units of sound.
async fn watch(url: &str, transport: Transport) -> (Vec<(i64, usize)>, usize) {
    let url = url::Url::parse(url).expect("a URL");
    let mut session = Session::describe(url, SessionOptions::default()).await.expect("a description");
    for track in 0..session.streams().len() {
        session.setup(track, SetupOptions::default().transport(transport.clone())).await.expect("a track");
    }
    let mut demuxed =
        session.play(PlayOptions::default()).await.expect("it plays").demuxed().expect("codecs");
    let (mut pictures, mut sounds) = (Vec::new(), 0);
    // It has no end of its own over UDP.
    let patience = Duration::from_secs(3);
    while let Ok(Some(item)) = tokio::time::timeout(patience, demuxed.next()).await {
        match item {
            Ok(CodecItem::VideoFrame(frame)) => {
                assert_eq!(frame.loss(), 0);
                pictures.push((frame.timestamp().elapsed(), frame.data().len()));
            }
            Ok(CodecItem::AudioFrame(frame)) => {
                assert_eq!(frame.loss(), 0);
                sounds += 1;
            }
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    (pictures, sounds)
}

#[test]
fn a_client_in_rust_gets_all_pictures_and_sound() {
    let Some(folder) = Folder::new("a_client_in_rust_gets_all_pictures_and_sound") else { return };
    folder.encode(2, "-c:v libx264 -preset ultrafast -bf 0 -g 12 -pix_fmt yuv420p -c:a aac", "a.mp4");
    let server = Server::start(folder.root());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for transport in [Transport::Tcp(Default::default()), Transport::Udp(Default::default())] {
        let (pictures, sounds) = runtime.block_on(watch(&server.url("a.mp4"), transport));
        assert_eq!(pictures.len(), 50);
        assert!((0..).zip(&pictures).all(|(number, picture)| picture.0 == 3600 * number), "{pictures:?}");
        assert!((85..=88).contains(&sounds), "{sounds}");
    }
}
