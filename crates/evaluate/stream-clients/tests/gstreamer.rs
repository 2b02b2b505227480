//! Players of GStreamer's RTSP server, built here from `tests/guests/bench/rtsp_server.c`.
#![forbid(unsafe_code)]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use forebay_stream_clients::{Crowd, Order, Outcome, Start, Transport};
use forebay_testkit::skip;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/guests/bench/rtsp_server.c");
const PATIENCE: Duration = Duration::from_secs(60);
const MEDIA_S: u32 = 30;

/// Ends with the test.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(folder: &Path, line: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    shell.status().is_ok_and(|status| status.success())
}

/// `None`, and a word on it, where it is not installed.
fn server(test: &str, folder: &Path) -> Option<Server> {
    let build = format!("cc -O2 -o server {SOURCE} $(pkg-config --cflags --libs gstreamer-rtsp-server-1.0)");
    if !run(folder, &build) {
        skip(test, "GStreamer's RTSP server is not there: install libgstrtspserver-1.0-dev");
        return None;
    }
    let encode = format!(
        "gst-launch-1.0 -q videotestsrc pattern=snow num-buffers={} ! video/x-raw,width=160,height=120,framerate=25/1 \
         ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=300 key-int-max=25 ! h264parse ! mp4mux \
         ! filesink location=0.mp4",
        MEDIA_S * 25
    );
    if !run(folder, &encode) {
        skip(test, "gst-launch-1.0 cannot encode: install gstreamer1.0-plugins-ugly and -bad");
        return None;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut command = Command::new("./server");
    command.args([&address.port().to_string(), "0.mp4"]).current_dir(folder).stderr(Stdio::null());
    let server = Server { child: command.spawn().unwrap(), address };
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < PATIENCE, "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(server)
}

fn order(server: &Server, players: u32, transport: Transport) -> Order {
    Order {
        address: server.address,
        paths: vec!["0".into()],
        links: vec![],
        drifts: vec![],
        players,
        transport,
        ramp_per_second: 50.0,
        start: Start::Anywhere,
        needed_s: 15.0,
        seek_every_s: None,
        stay_s: None,
        late_s: 5.0,
        seed: 7,
    }
}

/// Watches players for some seconds; again and for longer while the machine is too busy for `enough` to happen.
fn watch(order: Order, seconds: f64, enough: impl Fn(&Outcome) -> bool) -> Outcome {
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let mut time = Duration::from_secs_f64(seconds);
    loop {
        let mut crowd = Crowd::new(order.clone()).unwrap();
        let gathered = crowd.gather(&stop).unwrap();
        assert_eq!((gathered.failed, gathered.first_failure), (0, None));
        let outcome = crowd.watch(Duration::from_millis(500), time, &stop).unwrap();
        if enough(&outcome) {
            return outcome;
        }
        assert!(begun.elapsed() < PATIENCE, "{outcome:#?}");
        time *= 2;
    }
}

#[test]
fn a_few_players_have_whole_streams_over_each_transport() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = server("a_few_players_have_whole_streams_over_each_transport", folder.path()) else {
        return;
    };
    for transport in [Transport::Udp, Transport::Tcp] {
        // Three streams of about two seconds.
        let outcome = watch(order(&server, 3, transport), 2.0, |outcome| {
            outcome.played_s >= 3.0 && outcome.lateness.samples >= 75 && outcome.lateness.p50 < 1.0
        });
        assert_eq!((outcome.playing, outcome.streams, outcome.failed), (3, 3, 0), "{outcome:#?}");
        assert_eq!((outcome.duplicates, outcome.start.samples), (0, 3), "{outcome:#?}");
        assert_eq!(outcome.expected, outcome.packets + outcome.lost, "{outcome:#?}");
        // The kernel may drop datagrams where nothing reads them in time.
        let lost_max = if transport == Transport::Tcp { 0 } else { outcome.expected / 20 };
        assert!(outcome.lost <= lost_max, "{outcome:#?}");
    }
}

#[test]
fn players_seek_and_others_come_for_those_who_leave() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = server("players_seek_and_others_come_for_those_who_leave", folder.path()) else {
        return;
    };
    for transport in [Transport::Udp, Transport::Tcp] {
        let restless = Order { seek_every_s: Some(0.5), stay_s: Some(2.0), ..order(&server, 3, transport) };
        let outcome = watch(restless, 4.0, |outcome| {
            let restarts = outcome.start.samples > 3 + outcome.seeks / 2;
            outcome.seeks >= 3 && outcome.streams > 3 && restarts
        });
        assert_eq!(outcome.failed, 0, "{outcome:#?}");
        // A seek makes the server drop a packet that it has numbered and not yet sent.
        assert!(outcome.lost <= outcome.seeks, "{outcome:#?}");
    }
}

#[test]
fn what_the_server_refuses_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = server("what_the_server_refuses_is_told", folder.path()) else { return };
    let nothing = Order { paths: vec!["nothing".into()], ..order(&server, 2, Transport::Tcp) };
    let mut crowd = Crowd::new(nothing).unwrap();
    let gathered = crowd.gather(&AtomicBool::new(false)).unwrap();
    assert_eq!((gathered.playing, gathered.failed), (0, 2));
    assert!(gathered.first_failure.unwrap().contains("answers 404 to DESCRIBE"));
    let gone = Order { address: server.address, ..order(&server, 1, Transport::Udp) };
    drop(server);
    let gathered = Crowd::new(gone).unwrap().gather(&AtomicBool::new(false)).unwrap();
    assert!(gathered.first_failure.unwrap().contains("takes no connection"));
}
