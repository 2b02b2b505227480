//! A flood of datagrams on the ports for reports does not keep the server from reading clients' reports.
#![forbid(unsafe_code)]

mod support;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_server::Settings;
use support::{Folder, H264, Server, until};

#[test]
fn reports_are_read_in_a_flood_of_other_datagrams() {
    let Some(films) = Folder::new("reports_are_read_in_a_flood_of_other_datagrams") else { return };
    films.encode(30, H264, "a.mp4");
    let session_timeout = Duration::from_secs(2);
    let server = Server::with(Settings { session_timeout, ..Settings::new(films.root().to_owned()) });
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (rtp, rtcp, stranger) = (bind(), bind(), bind());
    let [to, reports] = [&rtp, &rtcp].map(|socket| socket.local_addr().expect("an address").port());
    let mut client = server.connect();
    let transport = format!("Transport: RTP/AVP;unicast;client_port={to}-{reports}\r\n");
    let response = client.ask("SETUP", "a.mp4/trackID=0", &transport);
    let session = response.get("Session").split(';').next().expect("a session").to_owned();
    let ports = response.get("Transport").split("server_port=").nth(1).expect("ports").split(';').next();
    let (_, port) = ports.and_then(|ports| ports.split_once('-')).expect("two ports");
    let port: u16 = port.parse().expect("a port");
    client.ask("PLAY", "a.mp4", &format!("Session: {session}\r\n"));
    rtp.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");

    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                (0..50).for_each(|number| {
                    _ = stranger.send_to(b"rubbish", ("127.0.0.1", port - number % 2));
                });
                thread::sleep(Duration::from_millis(5));
            }
        });
        let begun = Instant::now();
        let mut packet = [0; 2000];
        while begun.elapsed() < 3 * session_timeout && rtp.recv(&mut packet).is_ok() {
            // An empty receiver report (RFC 3550, section 6.4.2).
            rtcp.send_to(&[0x80, 201, 0, 1, 1, 2, 3, 4], ("127.0.0.1", port)).expect("the server is there");
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(begun.elapsed() >= 3 * session_timeout, "packets have ended after {:?}", begun.elapsed());
    });
    // Without reports the session ends, flood or no flood.
    until("the session ends", || server.metric("forebay_sessions") == 0);
}
