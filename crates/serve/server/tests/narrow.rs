//! Clients behind a link with a small MTU, and clients that are unreachable. Each test runs itself again in a network
//! namespace of its own.
#![forbid(unsafe_code)]

mod support;

use std::env;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_server::Settings;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use support::{Client, Folder, LIMIT, Server, until};

/// What the loopback takes of packets to [`NARROW`], in bytes.
const NARROW_BYTES: &str = "1000";
const NARROW: &str = "127.0.0.2";
const WIDE: &str = "127.0.0.1";
/// Pictures of many packets.
const LARGE: &str = "-map 0:v -c:v libx264 -preset ultrafast -qp 10 -g 12 -pix_fmt yuv420p -s 320x240";
const IS_INSIDE: &str = "FOREBAY_TEST_IS_INSIDE";

/// Runs a test of this file once more, alone in a network; `false` if this is that run already.
fn runs_inside(test: &str) -> bool {
    if env::var_os(IS_INSIDE).is_some() {
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        forebay_testkit::skip(test, "network namespaces need root");
        return true;
    }
    let script = format!(
        "ip link set lo up && ip route replace local {NARROW} dev lo table local mtu {NARROW_BYTES} && exec \"$@\""
    );
    let program = env::current_exe().expect("this program");
    let status = Command::new("timeout")
        .args(["-k", "5", "120", "unshare", "--net", "sh", "-c", &script, "sh"])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(IS_INSIDE, "1")
        .status()
        .expect("a network");
    assert!(status.success());
    true
}

/// A client on `ip`.
fn client_on(server: &Server, ip: &str) -> Client {
    let tcp = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&tcp, &SocketAddr::new(ip.parse().expect("an address"), 0)).expect("an address");
    connect(&tcp, &server.address).expect("the server listens");
    Client::on(TcpStream::from(tcp), server.address).expect("a connection")
}

/// The numbers of the packets that a client on `ip` gets of a film, over UDP.
fn play(server: &Server, ip: &str) -> Vec<u16> {
    let at = |port| SocketAddr::new(ip.parse().expect("an address"), port);
    let mut client = client_on(server, ip);
    let (rtp, rtcp) = (0..100)
        .find_map(|_| {
            let rtp = UdpSocket::bind(at(0)).ok()?;
            let next = rtp.local_addr().ok()?.port().checked_add(1)?;
            Some((rtp, UdpSocket::bind(at(next)).ok()?))
        })
        .expect("two ports");
    let port = rtp.local_addr().expect("an address").port();
    let transport = format!("Transport: RTP/AVP;unicast;client_port={port}-{}\r\n", port + 1);
    let response = client.ask("SETUP", "a.mp4/trackID=0", &transport);
    let session = response.get("Session").split(';').next().expect("a session").to_owned();
    client.ask("PLAY", "a.mp4", &format!("Session: {session}\r\n"));
    rtp.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    rtcp.set_nonblocking(true).expect("a socket");
    let (mut numbers, mut has_ended, begun) = (Vec::new(), false, Instant::now());
    let mut packet = [0; 2000];
    while !has_ended {
        assert!(begun.elapsed() < LIMIT, "no goodbye comes to {ip}");
        if rtp.recv(&mut packet).is_ok() {
            numbers.push(u16::from_be_bytes([packet[2], packet[3]]));
            continue;
        }
        while let Ok(count) = rtcp.recv(&mut packet) {
            // A goodbye ends a compound packet; its type is 203.
            has_ended |= packet[count - 7] == 203;
        }
    }
    numbers
}

#[test]
fn a_client_behind_a_narrow_way_gets_all_and_others_are_sent_to_as_before() {
    const TEST: &str = "a_client_behind_a_narrow_way_gets_all_and_others_are_sent_to_as_before";
    let Some(films) = Folder::new(TEST) else { return };
    if runs_inside(TEST) || !forebay_server::divides_datagrams() {
        return;
    }
    films.encode(2, LARGE, "a.mp4");
    let server = Server::start(films.root());
    for ip in [NARROW, WIDE] {
        let before = server.metric("forebay_udp_messages_total");
        let numbers = play(&server, ip);
        assert!(numbers.len() > 200, "{} packets to {ip}", numbers.len());
        assert!(numbers.windows(2).all(|two| two[1] == two[0].wrapping_add(1)), "to {ip}");
        let messages = server.metric("forebay_udp_messages_total") - before;
        assert_eq!(messages < numbers.len() as u64 / 2, ip == WIDE, "{messages} messages to {ip}");
    }
    assert_eq!(server.metric("forebay_udp_messages_lost_total"), 0);
}

#[test]
fn a_client_that_cannot_be_reached_any_more_is_given_up() {
    const TEST: &str = "a_client_that_cannot_be_reached_any_more_is_given_up";
    const AWAY: &str = "192.0.2.1";
    let Some(films) = Folder::new(TEST) else { return };
    if runs_inside(TEST) {
        return;
    }
    let address = |action| {
        let arguments = ["address", action, "192.0.2.1/32", "dev", "lo"];
        assert!(Command::new("ip").args(arguments).status().expect("a command").success());
    };
    address("add");
    films.encode(2, LARGE, "a.mp4");
    // Sessions end by themselves long after the patience of this test, and connections never.
    let session_timeout = 10 * LIMIT;
    let server = Server::with(Settings { session_timeout, ..Settings::new(films.root().to_owned()) });
    let mut client = client_on(&server, AWAY);
    let session = client.set_up("a.mp4?loop", 0, "");
    client.send("PLAY", "a.mp4?loop", &format!("Session: {session}\r\n"));
    client.packets(10);
    address("del");
    let begun = Instant::now();
    // The connection that asks for the number is the other one.
    until("the connection is given up", || server.metric("forebay_connections") == 1);
    assert!(begun.elapsed() >= Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!((server.metric("forebay_sessions"), server.metric("forebay_backlog_bytes")), (0, 0));
}

/// Runs a program that sets up the network of this test.
fn set_up(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status().expect("a command");
    assert!(status.success(), "{program} {arguments}");
}

#[test]
fn large_key_frames_come_whole_over_a_link_that_takes_a_while_for_each() {
    const TEST: &str = "large_key_frames_come_whole_over_a_link_that_takes_a_while_for_each";
    const SECONDS: u32 = 6;
    let Some(films) = Folder::new(TEST) else { return };
    if runs_inside(TEST) {
        return;
    }
    let options =
        "-map 0:v -vf noise=alls=60 -c:v libx264 -preset ultrafast -qp 12 -g 50 -pix_fmt yuv420p -s 640x480";
    let film = films.encode(SECONDS, options, "a.mp4");
    // A little more than the film takes on average; a key frame takes many times as long as a picture lasts.
    let bytes = std::fs::metadata(film).expect("a film").len();
    let bits_per_second = bytes * 8 / u64::from(SECONDS) * 3 / 2;
    set_up("ip", "link set lo mtu 1500");
    set_up("tc", &format!("qdisc add dev lo root tbf rate {bits_per_second}bit burst 64kb latency 300ms"));
    let server = Server::start(films.root());
    let mut client = client_on(&server, WIDE);
    let session = client.set_up("a.mp4", 0, "");
    client.send("PLAY", "a.mp4", &format!("Session: {session}\r\n"));
    let packets = client.packets_to_the_end();
    let marks: Vec<usize> = (0..packets.len()).filter(|at| packets[*at][1] & 0x80 != 0).collect();
    let longest =
        marks.windows(2).map(|two| packets[two[0] + 1..=two[1]].iter().map(Vec::len).sum::<usize>()).max();
    assert!(longest.is_some_and(|bytes| bytes > 256 << 10), "{longest:?} bytes in the largest picture");
    assert_eq!(marks.len(), 25 * SECONDS as usize);
    assert_eq!(server.metric("forebay_samples_dropped_total"), 0);
}
