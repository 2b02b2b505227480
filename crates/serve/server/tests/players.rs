//! Players other than GStreamer, live555 and retina receive films.

mod support;

use std::net::Ipv6Addr;

use forebay_server::Settings;
use support::{Folder, H264, Server, ffmpeg};

#[test]
fn clients_of_ipv6_are_served_over_tcp_and_udp() {
    let name = "clients_of_ipv6_are_served_over_tcp_and_udp";
    let Some(folder) = Folder::new(name) else { return };
    if std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return forebay_testkit::skip(name, "this machine has no IPv6");
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
        let output = ffmpeg(&format!("-rtsp_transport {transport} -i {url} -map 0:v -c copy -f framecrc -"));
        let frames =
            output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"0,")).count();
        assert_eq!(frames, 25, "{transport}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The pictures of a file as they are decoded, from one of them on.
fn decoded(input: &str) -> Vec<String> {
    let output = ffmpeg(&format!("{input} -map 0:v -fps_mode passthrough -f framemd5 -"));
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
