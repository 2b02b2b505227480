//! The server tells clients that it ends, and its operator how it is.
#![forbid(unsafe_code)]

mod support;

use std::net::UdpSocket;
use std::time::Duration;

use support::{Folder, H264, Server};

#[test]
fn clients_of_udp_are_told_when_the_server_ends() {
    let Some(films) = Folder::new("clients_of_udp_are_told_when_the_server_ends") else { return };
    films.encode(2, H264, "a.mp4");
    let server = Server::start(films.root());
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (rtp, rtcp) = (bind(), bind());
    let [to, reports] = [&rtp, &rtcp].map(|socket| socket.local_addr().expect("an address").port());
    let mut client = server.connect();
    let transport = format!("Transport: RTP/AVP;unicast;client_port={to}-{reports}\r\n");
    let response = client.ask("SETUP", "a.mp4?loop/trackID=0", &transport);
    let session = response.get("Session").split(';').next().expect("a session").to_owned();
    client.ask("PLAY", "a.mp4?loop", &format!("Session: {session}\r\n"));
    for socket in [&rtp, &rtcp] {
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    }
    let mut packet = [0; 2000];
    rtp.recv(&mut packet).expect("a packet");
    let ssrc: [u8; 4] = packet[8..12].try_into().expect("a source");
    // The film has no end.
    drop(server);
    let bye = std::iter::repeat_with(|| {
        let count = rtcp.recv(&mut packet).expect("a goodbye");
        packet[..count].to_vec()
    })
    // A goodbye of one source ends a compound packet (RFC 3550, section 6.6).
    .find(|report| report[report.len() - 8..report.len() - 4] == [0x81, 203, 0, 1]);
    assert!(bye.expect("a goodbye").ends_with(&ssrc));
}

#[test]
fn metrics_have_lateness_throughput_and_buffers_as_prometheus_reads_them() {
    let name = "metrics_have_lateness_throughput_and_buffers_as_prometheus_reads_them";
    let Some(films) = Folder::new(name) else { return };
    films.encode(4, H264, "a.mp4");
    let server = Server::start(films.root());
    let mut client = server.connect();
    let session = client.set_up("a.mp4", 0, "");
    client.send("PLAY", "a.mp4", &format!("Session: {session}\r\n"));
    let packets = client.packets(20);
    let metrics = server.metrics();
    let value = |name: &str| {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
    };
    for (name, kind) in [
        ("lateness_seconds", "histogram"),
        ("packets_total", "counter"),
        ("bytes_total", "counter"),
        ("buffer_bytes", "gauge"),
        ("backlog_bytes", "gauge"),
    ] {
        assert_eq!(metrics.matches(&format!("# TYPE forebay_{name} {kind}\n")).count(), 1, "{metrics}");
        assert_eq!(metrics.matches(&format!("# HELP forebay_{name} ")).count(), 1, "{metrics}");
    }
    // What has been received was sent, and counted before that was asked.
    assert!(value("forebay_packets_total") >= packets.len() as f64);
    assert!(value("forebay_bytes_total") >= packets.iter().map(Vec::len).sum::<usize>() as f64);
    assert!(value("forebay_buffer_bytes") > 0.0);

    let buckets: Vec<(f64, f64)> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("forebay_lateness_seconds_bucket{le=\"")?.split_once("\"} "))
        .map(|(bound, count)| (bound.parse().expect("a bound"), count.parse().expect("a count")))
        .collect();
    assert!(buckets.len() > 10, "{metrics}");
    assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1), "{metrics}");
    let count = value("forebay_lateness_seconds_count");
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)));
    assert!(count > 0.0 && value("forebay_lateness_seconds_sum") >= 0.0);
}
