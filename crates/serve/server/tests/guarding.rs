//! Authentication, limits by address, and requests of clients that try to harm other clients.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use forebay_rtsp::authentication::Secret;
use forebay_server::{Settings, User};

use support::{Folder, H264, Incoming, LIMIT, Server, ffmpeg, until};

fn user(name: &str, paths: &[&str]) -> User {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    User { name: name.to_owned(), secret: Secret::Password("lovelace".to_owned()), paths }
}

#[test]
fn those_who_know_the_password_may_watch_what_is_theirs() {
    let Some(folder) = Folder::new("those_who_know_the_password_may_watch_what_is_theirs") else { return };
    folder.encode(1, H264, "a.mp4");
    let users = vec![user("ada", &[]), user("bob", &["other"])];
    let server = Server::with(Settings { users, ..Settings::new(folder.root().to_owned()) });
    for (who, succeeds) in [
        ("ada:lovelace@", true),
        ("ada:wrong@", false),
        ("bob:lovelace@", false),
        ("eve:lovelace@", false),
        ("", false),
    ] {
        let url = format!("rtsp://{who}{}/a.mp4", server.address);
        let output = ffmpeg(&format!("-rtsp_transport tcp -i {url} -map 0:v -c copy -f null -"));
        assert_eq!(output.status.success(), succeeds, "{who}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let refused = server.connect().ask("DESCRIBE", "a.mp4", "");
    assert_eq!(refused.status, 401);
    assert!(!refused.headers.iter().any(|(_, value)| value.starts_with("Basic")), "{refused:?}");
}

#[test]
fn encrypted_connections_carry_films() {
    let Some(folder) = Folder::new("encrypted_connections_carry_films") else { return };
    folder.encode(1, H264, "a.mp4");
    let keys = Folder::empty();
    let (tls, _) = support::identity(&keys);
    let server = Server::with(Settings { tls: Some(tls.clone()), ..Settings::new(folder.root().to_owned()) });
    let output = ffmpeg(&format!("-i rtsps://{}/a.mp4 -map 0:v -c copy -f framecrc -", server.addresses[1]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let frames = output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"0,")).count();
    assert_eq!(frames, 25, "{said}");

    // A key of another certificate is refused before any client connects.
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    std::fs::write(keys.path("key.pem"), other.signing_key.serialize_pem()).expect("a file");
    let error = forebay_server::Serving::check(&Settings {
        tls: Some(tls),
        ..Settings::new(folder.root().to_owned())
    });
    assert!(
        error
            .expect_err("it is another one")
            .to_string()
            .contains("cert.pem: it cannot be used with the key")
    );
}

#[test]
fn packets_go_to_nobody_who_has_not_asked() {
    let Some(folder) = Folder::new("packets_go_to_nobody_who_has_not_asked") else { return };
    folder.encode(1, H264, "a.mp4");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    for (transport, status) in [
        ("RTP/AVP;unicast;destination=192.0.2.1;client_port=5000-5001", 403),
        ("RTP/AVP;multicast;destination=192.0.2.1;port=5000-5001", 403),
        ("RTP/AVP;unicast;destination=127.0.0.1;client_port=5000-5001", 200),
    ] {
        let response = client.ask("SETUP", "a.mp4/trackID=0", &format!("Transport: {transport}\r\n"));
        assert_eq!(response.status, status, "{transport}");
    }
}

#[test]
fn too_much_of_anything_is_refused() {
    let folder = Folder::empty();
    let settings =
        Settings { connections_max: 3, request_bytes: 2000, ..Settings::new(folder.root().to_owned()) };
    let server = Server::with(settings);
    let mut client = server.connect();
    assert_eq!(client.ask("OPTIONS", "*", "").status, 200);
    assert_eq!(client.ask("OPTIONS", "*", &format!("X: {}\r\n", "x".repeat(4000))).status, 413);
    let mut others: Vec<TcpStream> =
        (0..5).map(|_| TcpStream::connect(server.address).expect("a connection")).collect();
    // Those that are too many are closed at once.
    let last = others.last_mut().expect("a connection");
    last.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    assert!(matches!(last.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn who_takes_no_responses_is_not_heard_any_more() {
    let folder = Folder::empty();
    let server = Server::start(folder.root());
    let stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    let requests = "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".repeat(1000);
    let written = (0..4000).find(|_| (&stream).write_all(requests.as_bytes()).is_err());
    assert!(written.is_some(), "the server has taken 140 MB of requests");
    assert_eq!(server.connect().ask("OPTIONS", "*", "").status, 200);
}

#[test]
fn a_client_that_does_not_read_harms_nobody_but_itself() {
    let Some(folder) = Folder::new("a_client_that_does_not_read_harms_nobody_but_itself") else { return };
    folder.encode(
        4,
        "-map 0:v -c:v libx264 -preset ultrafast -qp 1 -g 12 -pix_fmt yuv420p -s 640x480",
        "large.mp4",
    );
    folder.encode(3, "-map 0:v -c:v libx264 -preset ultrafast -g 12 -pix_fmt yuv420p", "a.mp4");
    let server = Server::start(folder.root());
    // Sixteen times as fast, so that no kernel has room for what is not read.
    let mut slow = server.connect();
    let session = format!("Session: {}\r\nSpeed: 16\r\n", slow.set_up("large.mp4?loop", 0, ""));
    slow.send("PLAY", "large.mp4?loop", &session);
    let mut client = server.connect();
    let session = client.set_up("a.mp4", 0, "");
    client.send("PLAY", "a.mp4", &format!("Session: {session}\r\n"));
    let marks = client.packets_to_the_end().iter().filter(|packet| packet[1] & 0x80 != 0).count();
    assert_eq!(marks, 75);
    // What the slow one gets in the end is whole: frames are not cut, and no packet is missing.
    let packets = slow.packets(2000);
    let sequences: Vec<u16> =
        packets.iter().map(|packet| u16::from_be_bytes([packet[2], packet[3]])).collect();
    assert!(sequences.windows(2).all(|two| two[1] == two[0].wrapping_add(1)));
    let status = server.metrics();
    let dropped =
        status.lines().find_map(|line| line.strip_prefix("forebay_samples_dropped_total ")).expect("a line");
    assert!(dropped.parse::<u64>().expect("a number") > 0, "{status}");
}

#[test]
fn a_file_that_is_cut_ends_its_sessions_and_no_others() {
    let Some(folder) = Folder::new("a_file_that_is_cut_ends_its_sessions_and_no_others") else { return };
    folder.encode(3, H264, "a.mp4");
    let cut = folder.encode(20, H264, "b.mp4");
    let settings = Settings { buffer_bytes: Some(20_000), ..Settings::new(folder.root().to_owned()) };
    let server = Server::with(settings);
    let mut clients: Vec<_> = ["a.mp4", "b.mp4"]
        .into_iter()
        .map(|name| {
            let mut client = server.connect();
            let session = client.set_up(name, 0, "");
            client.send("PLAY", name, &format!("Session: {session}\r\n"));
            client
        })
        .collect();
    clients[1].packets(10);
    std::fs::OpenOptions::new()
        .write(true)
        .open(cut)
        .expect("the file")
        .set_len(5000)
        .expect("a shorter file");
    let of_cut = clients[1].packets_to_the_end();
    assert!(of_cut.len() < 300, "{} packets", of_cut.len());
    let marks = clients[0].packets_to_the_end().iter().filter(|packet| packet[1] & 0x80 != 0).count();
    assert_eq!(marks, 75);
}

#[test]
fn the_status_page_shows_names_as_they_are_and_metrics_add_up() {
    let Some(folder) = Folder::new("the_status_page_shows_names_as_they_are_and_metrics_add_up") else {
        return;
    };
    folder.encode(1, H264, "<b>.mp4");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    let session = client.set_up("%3Cb%3E.mp4", 0, "");
    client.send("PLAY", "%3Cb%3E.mp4", &format!("Session: {session}\r\n"));
    let packets = client.packets_to_the_end();
    assert!(server.http("/").contains("<td>&lt;b&gt;.mp4<td>"));
    let metrics = server.metrics();
    for line in [format!("forebay_packets_total {}", packets.len()), "forebay_sessions 1".to_owned()] {
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    }
    let total: usize = packets.iter().map(Vec::len).sum();
    assert!(metrics.lines().any(|one| one == format!("forebay_bytes_total {total}")), "{metrics}");
    assert!(server.http("/elsewhere").starts_with("HTTP/1.1 404"));
}

#[test]
fn clients_are_told_when_the_server_ends() {
    let Some(folder) = Folder::new("clients_are_told_when_the_server_ends") else { return };
    folder.encode(20, H264, "a.mp4");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    let session = client.set_up("a.mp4", 0, "");
    client.send("PLAY", "a.mp4", &format!("Session: {session}\r\n"));
    client.packets(5);
    drop(server);
    client.packets_to_the_end();
    assert!(client.receive().is_none());
}

#[test]
fn rtp_over_udp_comes_from_the_announced_port_and_only_while_the_client_lives() {
    let name = "rtp_over_udp_comes_from_the_announced_port_and_only_while_the_client_lives";
    let Some(folder) = Folder::new(name) else { return };
    folder.encode(2, H264, "a.mp4");
    let timeout = Duration::from_secs(2);
    let server =
        Server::with(Settings { session_timeout: timeout, ..Settings::new(folder.root().to_owned()) });
    let (rtp, rtcp) = (0..100)
        .find_map(|_| {
            let rtp = UdpSocket::bind("127.0.0.1:0").ok()?;
            let next = rtp.local_addr().ok()?.port().checked_add(1)?;
            Some((rtp, UdpSocket::bind(("127.0.0.1", next)).ok()?))
        })
        .expect("two ports");
    for socket in [&rtp, &rtcp] {
        socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
    }
    let ports = rtp.local_addr().expect("an address").port();
    let mut client = server.connect();
    let transport = format!("Transport: RTP/AVP;unicast;client_port={ports}-{}\r\n", ports + 1);
    let response = client.ask("SETUP", "a.mp4?loop/trackID=0", &transport);
    let session = response.get("Session").split(';').next().expect("a session").to_owned();
    let announced =
        response.get("Transport").split("server_port=").nth(1).and_then(|rest| rest.split('-').next());
    let announced: u16 = announced.expect("a port").parse().expect("a port");
    client.ask("PLAY", "a.mp4?loop", &format!("Session: {session}\r\n"));
    let mut buffer = [0; 2000];
    let (_, from) = rtp.recv_from(&mut buffer).expect("a packet");
    assert_eq!(from.port(), announced);
    let (_, from) = rtcp.recv_from(&mut buffer).expect("a report");
    assert_eq!(from.port(), announced + 1);
    // The client is silent, so packets end. The film does not.
    until("the session ends", || server.metric("forebay_sessions") == 0);
}

#[test]
fn rubbish_ends_a_connection_and_nothing_else() {
    let Some(folder) = Folder::new("rubbish_ends_a_connection_and_nothing_else") else { return };
    folder.encode(1, H264, "a.mp4");
    let server = Server::start(folder.root());
    for rubbish in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET / HTTP/1.1\r\n\r\n", &[b'$'; 70_000], &[0; 70_000]]
    {
        let mut stream = TcpStream::connect(server.address).expect("a connection");
        // It may be closed while this is written.
        let _ = stream.write_all(rubbish);
    }
    let mut client = server.connect();
    let session = client.set_up("a.mp4", 0, "");
    client.send("PLAY", "a.mp4", &format!("Session: {session}\r\n"));
    assert!(matches!(client.receive(), Some(Incoming::Response(response)) if response.status == 200));
}

#[test]
fn a_group_gets_what_one_client_asked_for() {
    let Some(folder) = Folder::new("a_group_gets_what_one_client_asked_for") else { return };
    folder.encode(1, H264, "a.mp4");
    let multicast = Some(Ipv4Addr::new(239, 255, 42, 0));
    let server = Server::with(Settings { multicast, ..Settings::new(folder.root().to_owned()) });
    let mut client = server.connect();
    let response = client.ask("SETUP", "a.mp4/trackID=0", "Transport: RTP/AVP;multicast\r\n");
    let transport = response.get("Transport");
    let value = |name: &str| transport.split(';').find_map(|part| part.strip_prefix(name)).expect("a value");
    let group: Ipv4Addr = value("destination=").parse().expect("a group");
    let port = value("port=").split('-').next().and_then(|port| port.parse().ok()).expect("a port");
    assert!(group.octets().starts_with(&[239, 255, 42]), "{transport}");
    assert_eq!(value("ttl="), "1");
    let listener = UdpSocket::bind((group, port)).expect("a port");
    if let Err(error) = listener.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST) {
        return forebay_testkit::skip("a_group_gets_what_one_client_asked_for", &error);
    }
    listener.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let session = response.get("Session").split(';').next().expect("a session").to_owned();
    assert_eq!(client.ask("PLAY", "a.mp4", &format!("Session: {session}\r\n")).status, 200);
    let mut marks = 0;
    while marks < 25 {
        let mut packet = [0; 2000];
        let count = listener.recv(&mut packet).expect("a packet");
        assert!(count > 12);
        marks += u32::from(packet[1] & 0x80 != 0);
    }
    // Only servers with multicast groups send to groups.
    let other = Server::start(folder.root());
    assert_eq!(
        other.connect().ask("SETUP", "a.mp4/trackID=0", "Transport: RTP/AVP;multicast\r\n").status,
        461
    );
}
