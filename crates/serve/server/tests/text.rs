//! Subtitles come as text where a URL asks for them, and receivers of repeated text take it.

mod support;

use std::process::Command;

use support::{Folder, H264, Incoming, Server};

const SUBTITLES: &str = "1\n00:00:00,200 --> 00:00:00,700\nOne line\n\n\
                         2\n00:00:01,000 --> 00:00:02,500\nZwei Zeilen:\n\u{4e8c}\u{884c}\n\n\
                         3\n00:00:02,900 --> 00:00:03,000\nthree\n\n";
const SAID: &str = "One line\u{2028}Zwei Zeilen:\u{2028}\u{4e8c}\u{884c}\u{2028}three\u{2028}";

fn folder(test: &str) -> Option<Folder> {
    let folder = Folder::new(test)?;
    folder.put("a.srt", SUBTITLES);
    Some(folder)
}

/// Options for the subtitles as a third input.
fn subtitles(folder: &Folder, codec: &str) -> String {
    format!("-f srt -i {} -c:s {codec} -map 2", folder.path("a.srt").display())
}

#[test]
fn subtitles_come_as_text_at_their_times() {
    let Some(folder) = folder("subtitles_come_as_text_at_their_times") else { return };
    for (name, codec) in [("a.mp4", "mov_text"), ("a.mkv", "subrip")] {
        folder.encode(4, &format!("{} -map 0:v -map 1:a {H264} -c:a aac", subtitles(&folder, codec)), name);
    }
    let server = Server::start(folder.root());
    for name in ["a.mp4", "a.mkv"] {
        assert!(!server.connect().ask("DESCRIBE", name, "").body.contains("m=text"), "{name}: nobody asked");
        let path = format!("{name}?text");
        let mut client = server.connect();
        let described = client.ask("DESCRIBE", &path, "").body;
        let medias: Vec<&str> = described.split("m=").skip(1).collect();
        let text = medias.iter().position(|media| media.starts_with("text 0 RTP/AVP ")).expect("text");
        assert!(medias[text].contains(" t140/1000\r\n"), "{described}");
        let video = medias.iter().position(|media| media.starts_with("video")).expect("pictures");
        let session = client.set_up(&path, text, "");
        client.set_up(&path, video, &session);
        let response = client.ask("PLAY", &path, &format!("Session: {session}\r\n"));
        let announced =
            response.get("RTP-Info").split(',').find(|entry| entry.contains(&format!("trackID={text}")));
        let start =
            announced.and_then(|entry| entry.split("rtptime=").nth(1)?.parse::<u32>().ok()).expect("a time");
        let (mut said, mut times) = (String::new(), Vec::new());
        loop {
            match client.receive().expect("it goes on") {
                Incoming::Frame(channel, packet) if channel == 2 * text as u8 => {
                    let timestamp = u32::from_be_bytes(packet[4..8].try_into().expect("four bytes"));
                    times.push(timestamp.wrapping_sub(start));
                    said += std::str::from_utf8(&packet[12..]).expect("text");
                }
                Incoming::Frame(channel, report) if channel % 2 == 1 && report[report.len() - 7] == 203 => {
                    break;
                }
                _ => {}
            }
        }
        assert_eq!(said, SAID, "{name}");
        // Matroska counts from the first sound that only a decoder needs.
        assert_eq!(times.len(), 3, "{name}: {times:?}");
        assert!(
            times.iter().zip([200, 1000, 2900]).all(|(at, ms)| (ms..ms + 30).contains(at)),
            "{name}: {times:?}"
        );
    }
}

#[test]
fn gstreamer_takes_text_that_is_repeated() {
    let test = "gstreamer_takes_text_that_is_repeated";
    let Some(folder) = folder(test) else { return };
    let knows = |element| {
        let inspected = Command::new("gst-inspect-1.0").arg(element).output();
        inspected.is_ok_and(|output| output.status.success())
    };
    if !["rtspsrc", "rtpreddec", "rtpstreampay"].into_iter().all(knows) {
        return forebay_testkit::skip(test, "GStreamer is not installed: run `scripts/setup test`");
    }
    folder.encode(4, &subtitles(&folder, "subrip"), "text.mkv");
    let server = Server::start(folder.root());
    for protocol in ["tcp", "udp"] {
        let out = folder.path(protocol);
        let pipeline = format!(
            "rtspsrc location={} protocols={protocol} latency=100 ! application/x-rtp,media=text,encoding-name=RED \
             ! rtpreddec pt=96 ! rtpstreampay ! filesink location={}",
            server.url("text.mkv?text=red"),
            out.display()
        );
        let mut gstreamer = Command::new("timeout");
        gstreamer
            .args(["60", "gst-launch-1.0", "-q", "-e"])
            .args(pipeline.split(' ').filter(|word| !word.is_empty()));
        let output = gstreamer.output().expect("it runs");
        // Its status does not tell: it may fail to say goodbye when the server has gone first.
        let errors = String::from_utf8_lossy(&output.stderr);
        // Packets behind their lengths (RFC 4571).
        let (received, mut said) = (std::fs::read(&out).unwrap_or_default(), Vec::new());
        let mut rest = &received[..];
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let (packet, after) = after.split_at(u16::from_be_bytes(*length).into());
            said.extend(&packet[12..]);
            rest = after;
        }
        assert_eq!(String::from_utf8(said).expect("text"), SAID, "{protocol}: {errors}");
    }
}
