//! RTSP within HTTP (ffmpeg, GStreamer) and over WebSocket gives what RTSP gives.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use forebay_rtsp::authentication::Secret;
use forebay_server::{Settings, User};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};

use support::{Folder, H264, LIMIT, Server, ffmpeg, payload, units, until};

#[test]
fn ffmpeg_gets_every_picture_within_http_and_says_who_it_is() {
    let Some(folder) = Folder::new("ffmpeg_gets_every_picture_within_http_and_says_who_it_is") else {
        return;
    };
    let film = folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    let secret = Secret::Password("lovelace".to_owned());
    let ada = User { name: "ada".to_owned(), secret, paths: Vec::new() };
    let server = Server::with(Settings { users: vec![ada], ..Settings::new(folder.root().to_owned()) });
    let expected = payload(&format!("-i {}", film.display()), "0:v");
    let url = |who: &str| format!("-rtsp_transport http -i rtsp://{who}{}/a.mp4", server.address);
    let got = payload(&url("ada:lovelace@"), "0:v");
    assert!(units(&got) == units(&expected), "{} of {} bytes", got.len(), expected.len());
    let refused = ffmpeg(&format!("{} -map 0:v -c copy -f null -", url("ada:wrong@")));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("401"), "{said}");
    until("tunnels are gone", || server.metric("forebay_connections") <= 1);
}

#[test]
fn gstreamer_gets_every_picture_within_http() {
    let test = "gstreamer_gets_every_picture_within_http";
    if Command::new("gst-launch-1.0").arg("--version").output().is_err() {
        return forebay_testkit::skip(test, "gst-launch-1.0 is not installed: run `scripts/setup test`");
    }
    let Some(folder) = Folder::new(test) else { return };
    folder.encode(2, H264, "a.mp4");
    // On a machine that does much else the player may be later than a viewer would like.
    let server = Server::with(Settings { late: LIMIT, ..Settings::new(folder.root().to_owned()) });
    let got = folder.path("got.h264");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60", "gst-launch-1.0", "-q", "rtspsrc", "protocols=tcp+http"]);
    command.arg(format!("location=rtsph://{}/a.mp4", server.address));
    command.args([
        "!",
        "rtph264depay",
        "!",
        "video/x-h264,stream-format=byte-stream,alignment=au",
        "!",
        "filesink",
    ]);
    let output = command.arg(format!("location={}", got.display())).output().expect("timeout runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let got = std::fs::read(&got).unwrap_or_default();
    let film = folder.path("a.mp4");
    let expected = payload(&format!("-i {}", film.display()), "0:v");
    assert!(units(&got) == units(&expected), "{} of {} bytes: {said}", got.len(), expected.len());
}

/// A client of RTSP over WebSocket.
fn open(server: &Server, protocol: &'static str) -> Result<WebSocket<TcpStream>, String> {
    let stream = TcpStream::connect(server.address).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let mut request = format!("ws://{}/a.mp4", server.address).into_client_request().expect("a request");
    request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static(protocol));
    tungstenite::client(request, stream).map(|(socket, _)| socket).map_err(|error| error.to_string())
}

fn ask(socket: &mut WebSocket<TcpStream>, request: &str) -> String {
    socket.send(Message::binary(request.replace('\n', "\r\n").into_bytes())).expect("the server reads");
    loop {
        let message = socket.read().expect("the server answers").into_data();
        if message.starts_with(b"RTSP/1.0") {
            return String::from_utf8_lossy(&message).into_owned();
        }
    }
}

#[test]
fn a_film_is_played_over_a_web_socket_with_a_message_for_each_packet() {
    let Some(folder) = Folder::new("a_film_is_played_over_a_web_socket_with_a_message_for_each_packet")
    else {
        return;
    };
    folder.encode(1, H264, "a.mp4");
    let server = Server::start(folder.root());
    let mut socket = open(&server, "rtsp.onvif.org").expect("a WebSocket");
    let described = ask(&mut socket, "DESCRIBE rtsp://h/a.mp4 RTSP/1.0\nCSeq: 1\n\n");
    assert!(described.starts_with("RTSP/1.0 200") && described.contains("m=video"), "{described}");
    let set_up = ask(
        &mut socket,
        "SETUP rtsp://h/a.mp4/trackID=0 RTSP/1.0\nCSeq: 2\nTransport: RTP/AVP/TCP;interleaved=0-1\n\n",
    );
    let session =
        set_up.split("Session: ").nth(1).and_then(|rest| rest.split([';', '\r']).next()).expect("one");
    socket.send(Message::Ping(b"alive".to_vec().into())).expect("the server reads");
    let play = format!("PLAY rtsp://h/a.mp4 RTSP/1.0\r\nCSeq: 3\r\nSession: {session}\r\n\r\n");
    socket.send(Message::binary(play.into_bytes())).expect("the server reads");
    let (mut pictures, mut has_pong, mut has_answer) = (0, false, false);
    // Each picture ends with a packet that has the marker.
    while pictures < 25 || !has_pong {
        match socket.read().expect("packets come") {
            Message::Binary(message) if message.starts_with(b"$") => {
                let length = u16::from_be_bytes([message[2], message[3]]);
                assert_eq!(message.len(), 4 + usize::from(length), "one packet is one message");
                pictures += usize::from(message[1] == 0 && message[5] & 0x80 != 0);
            }
            Message::Binary(message) => has_answer |= message.starts_with(b"RTSP/1.0 200"),
            Message::Pong(payload) => has_pong |= payload == b"alive"[..],
            other => panic!("{other:?}"),
        }
    }
    assert!(has_answer);
    socket.close(None).expect("the server reads");
    until("the session is gone", || server.metric("forebay_sessions") == 0);
}

#[test]
fn what_is_no_tunnel_is_refused_and_harms_no_other() {
    let Some(folder) = Folder::new("what_is_no_tunnel_is_refused_and_harms_no_other") else { return };
    folder.encode(1, H264, "a.mp4");
    let server = Server::start(folder.root());
    assert!(open(&server, "chat").is_err_and(|error| error.contains("400")));
    let tunnel = |method: &str, cookie: &str, more: &[u8]| {
        let mut stream = TcpStream::connect(server.address).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        let head =
            format!("{method} /a.mp4 HTTP/1.0\r\nx-sessioncookie: {cookie}\r\nContent-Length: 32767\r\n\r\n");
        stream.write_all(&[head.as_bytes(), more].concat()).expect("the server reads");
        stream
    };
    let to_end = |mut stream: TcpStream| {
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    };
    assert!(to_end(tunnel("POST", "alone", b"")).starts_with("HTTP/1.1 404 "));
    let mut first = tunnel("GET", "one", b"");
    let mut begin = [0; 15];
    first.read_exact(&mut begin).expect("a response");
    assert_eq!(&begin, b"HTTP/1.0 200 OK");
    assert!(to_end(tunnel("GET", "one", b"")).starts_with("HTTP/1.1 400 "));
    // Requests of two connections with one cookie reach the same tunnel.
    for _ in 0..2 {
        let _post = tunnel("POST", "one", b"T1BUSU9OUyAqIFJUU1AvMS4wDQpDU2VxOiAxDQoNCg==");
        let mut said = String::new();
        while !said.contains("Public: ") {
            let mut some = [0; 500];
            let count = first.read(&mut some).expect("a response");
            assert!(count > 0, "{said}");
            said += &String::from_utf8_lossy(&some[..count]);
        }
    }
    // What is no base64 ends both.
    let post = tunnel("POST", "one", b"????????");
    assert_eq!(to_end(post), "");
    to_end(first);
    until("all are gone", || server.metric("forebay_connections") <= 1);
}
