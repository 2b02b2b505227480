//! Reports of clients are read, shown on the status page, and keep sessions alive.

mod support;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use forebay_server::Settings;
use support::{Folder, Server, until};

/// A frame of AAC with its header (ADTS): 44.1 kHz, one channel, 1024 bytes.
const FRAME: [u8; 1024] = {
    let mut frame = [0x21; 1024];
    let header = [0xFF, 0xF1, 0x50, 0x40, 0x80, 0x1F, 0xFC];
    frame.split_at_mut(header.len()).0.copy_from_slice(&header);
    frame
};

const SOUND: &str = "a.aac?loop";

/// How long a client may be silent.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A server with sound that never ends.
fn served(folder: &Folder) -> Server {
    std::fs::write(folder.path("a.aac"), FRAME.repeat(100)).expect("a file");
    Server::with(Settings { session_timeout: TIMEOUT, ..Settings::new(folder.root().to_owned()) })
}

/// A receiver's report (RFC 3550, section 6.4.2): a quarter was lost, the jitter is ten milliseconds.
fn report(ssrc: u32) -> Vec<u8> {
    let mut packet = vec![0x81, 201, 0, 7, 0, 0, 0, 5];
    packet.extend(ssrc.to_be_bytes());
    packet.extend([64, 0, 0, 9, 0, 0, 1, 0]);
    packet.extend(441u32.to_be_bytes());
    packet.extend([0; 8]);
    packet
}

/// The same, and that the receiver leaves (section 6.6).
fn goodbye(ssrc: u32) -> Vec<u8> {
    [report(ssrc).as_slice(), &[0x81, 203, 0, 1, 0, 0, 0, 5]].concat()
}

/// The source that a response to SETUP names.
fn ssrc(transport: &str) -> u32 {
    let ssrc = transport.split(';').find_map(|part| part.strip_prefix("ssrc=")).expect("a source");
    u32::from_str_radix(ssrc, 16).expect("a number")
}

fn shows(server: &Server, line: &str) -> bool {
    server.metrics().lines().any(|one| one == line)
}

#[test]
fn a_client_lives_while_it_reports_and_not_by_goodbyes_and_rubbish() {
    let folder = Folder::empty();
    let server = served(&folder);
    let rtcp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = rtcp.local_addr().expect("an address").port();
    let mut client = server.connect();
    for farewell in [goodbye as fn(u32) -> Vec<u8>, |_| b"rubbish, and no report".to_vec()] {
        let transport = format!("Transport: RTP/AVP;unicast;client_port={}-{port}\r\n", port ^ 1);
        let response = client.ask("SETUP", &format!("{SOUND}/trackID=0"), &transport);
        let session = response.get("Session").split(';').next().expect("a session").to_owned();
        let (transport, ssrc) = (response.get("Transport"), ssrc(response.get("Transport")));
        let to = transport.split("server_port=").nth(1).and_then(|ports| ports.split([';', '-']).nth(1));
        let to = ("127.0.0.1", to.and_then(|port| port.parse().ok()).expect("a port"));
        let played = client.ask("PLAY", SOUND, &format!("Session: {session}\r\n"));
        assert_eq!(played.status, 200, "{played:?}");
        let begun = Instant::now();
        until("it has lived for twice its time", || {
            rtcp.send_to(&report(ssrc), to).expect("it is sent");
            assert!(shows(&server, "forebay_sessions 1"), "its reports do not keep it");
            begun.elapsed() > 2 * TIMEOUT
        });
        for line in [
            "forebay_sessions 1",
            "forebay_reception_lost_ratio{quantile=\"0.99\"} 0.25",
            "forebay_reception_jitter_seconds{quantile=\"0.5\"} 0.01",
        ] {
            assert!(shows(&server, line), "{line}: {}", server.metrics());
        }
        assert!(server.http("/").contains("<td>25 %<td>10.0 ms<td>"), "{}", server.http("/"));
        until("it ends in spite of its farewells", || {
            rtcp.send_to(&farewell(ssrc), to).expect("it is sent");
            shows(&server, "forebay_sessions 0")
        });
    }
}

#[test]
fn reports_on_the_connection_are_read_and_those_about_other_sources_are_ignored() {
    use std::io::Write;
    let folder = Folder::empty();
    let server = served(&folder);
    let mut client = server.connect();
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let response = client.ask("SETUP", &format!("{SOUND}/trackID=0"), transport);
    let session = response.get("Session").split(';').next().expect("a session").to_owned();
    let ssrc = ssrc(response.get("Transport"));
    client.ask("PLAY", SOUND, &format!("Session: {session}\r\n"));
    for packet in [report(ssrc), report(ssrc ^ 1), b"rubbish".to_vec()] {
        let head = [b'$', 1, 0, packet.len() as u8];
        client.stream().write_all(&[&head, packet.as_slice()].concat()).expect("the server reads");
    }
    let options = client.ask("OPTIONS", "*", "");
    assert_eq!(options.status, 200);
    assert!(shows(&server, "forebay_receptions_total 1"), "{}", server.metrics());
    assert!(shows(&server, "forebay_reception_lost_ratio{quantile=\"1\"} 0.25"), "{}", server.metrics());
}
