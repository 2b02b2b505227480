//! Clients of ONVIF find cameras, and the addresses of their streams.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_cameras::{Alarm, Changes, Film, Plan, Script, Wanted};
use forebay_media::Media;
use forebay_server::{CameraSettings, FILM_BYTES, Serving, Settings, Stopper};
use rustix::net::{AddressFamily, SocketType};
use support::{Folder, H264, H265, LIMIT, ffmpeg, until};

const ASK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/asks_onvif.py");
const ASK_MEDIA2: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/asks_media2.py");
const PULL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pulls_events.py");

/// Three cameras that end with it.
struct Cameras {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    http: SocketAddr,
    discovery: SocketAddr,
}

impl Cameras {
    fn start(folder: &Folder, script: &str) -> Self {
        Self::start_with(folder, script, None, None)
    }

    fn start_with(
        folder: &Folder,
        script: &str,
        epoch_unix_ns: Option<u64>,
        access_log: Option<PathBuf>,
    ) -> Self {
        let film = folder.encode(1, &format!("{H264} -c:a aac"), "a.mp4");
        Self::play(folder, film, script, epoch_unix_ns, access_log)
    }

    fn play(
        folder: &Folder,
        film: PathBuf,
        script: &str,
        epoch_unix_ns: Option<u64>,
        access_log: Option<PathBuf>,
    ) -> Self {
        let free: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let cameras = CameraSettings {
            films: vec![film],
            count: 3,
            seed: 1,
            epoch_unix_ns,
            script: Script::parse(script).expect("a script"),
            memory_bytes: FILM_BYTES,
            onvif: Some(free),
            discovery: free,
        };
        let settings = Settings {
            cameras: Some(cameras),
            listen: vec![free],
            access_log,
            ..Settings::new(folder.root().to_owned())
        };
        let mut serving = Serving::new(settings).expect("a server");
        let shown = serving.onvif().expect("ONVIF");
        let (http, discovery) = (shown.http, *shown.discovery.as_ref().expect("a socket"));
        let stopper = serving.stopper();
        let thread = std::thread::spawn(move || serving.run().expect("it serves"));
        Self { stopper, thread: Some(thread), http, discovery }
    }

    /// What a request gets: a status, and a body.
    fn post(&self, path: &str, body: &str) -> (String, String) {
        post(TcpStream::connect(self.http).expect("the server listens"), path, body)
    }

    fn ask(&self, path: &str, namespace: &str, operation: &str) -> (String, String) {
        let namespace = format!("http://www.onvif.org/ver10/{namespace}/wsdl");
        self.post(
            path,
            &format!(
                "<e:Envelope xmlns:e=\"http://www.w3.org/2003/05/soap-envelope\"><e:Body>\
                 <o:{operation} xmlns:o=\"{namespace}\"/></e:Body></e:Envelope>"
            ),
        )
    }
}

fn post(mut stream: TcpStream, path: &str, body: &str) -> (String, String) {
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
        .expect("a request");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("text");
    let (head, body) = response.split_once("\r\n\r\n").expect("a response");
    (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
}

impl Drop for Cameras {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            assert!(std::thread::panicking(), "the server has panicked");
        }
    }
}

const USERS: &str = "user = \"ada\"\npassword = \"lovelace\"\n";

/// Python with onvif-zeep, which `scripts/setup test` installs.
fn python(test: &str) -> Option<PathBuf> {
    let python = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("python").join("bin/python");
    let has_onvif = Command::new(&python).args(["-c", "import onvif"]).output();
    if !has_onvif.is_ok_and(|output| output.status.success()) {
        forebay_testkit::skip(test, "onvif-zeep is not installed: run `scripts/setup test`");
        return None;
    }
    Some(python)
}

#[test]
fn a_public_client_finds_cameras_and_plays_them() {
    let test = "a_public_client_finds_cameras_and_plays_them";
    let (Some(python), Some(folder)) = (python(test), Folder::new(test)) else { return };
    let cameras = Cameras::start(&folder, USERS);
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "80"]).arg(python).arg(ASK).env("NO_PROXY", "127.0.0.1");
    command.args(["127.0.0.1", &cameras.http.port().to_string(), "ada", "lovelace"]);
    let output = command.args(["camera-1", "camera-2", "camera-3"]).output().expect("Python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let addresses = String::from_utf8(output.stdout).expect("text");
    let address = addresses.lines().last().expect("three addresses");
    let url = address.replace("rtsp://", "rtsp://ada:lovelace@");
    let output = ffmpeg(&format!("-rtsp_transport tcp -i {url} -t 2 -map 0:v -c copy -f framecrc -"));
    assert!(output.status.success(), "{address}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The messages that a public client pulls: time in milliseconds, source, topic, state and operation.
fn pulled(python: &Path, cameras: &Cameras) -> Vec<(u64, [String; 4])> {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "80"]).arg(python).arg(PULL).env("NO_PROXY", "127.0.0.1");
    command.args(["127.0.0.1", &cameras.http.port().to_string(), "ada", "lovelace", "30"]);
    let output = command.output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = |line: &str| {
        let (time, words) = line.split_once(' ').expect("a time");
        let time_ms = (time.parse::<f64>().expect("a time") * 1e3).round() as u64;
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        (time_ms, <[String; 4]>::try_from(words).expect("four words"))
    };
    String::from_utf8(output.stdout).expect("text").lines().map(line).collect()
}

/// The cameras that a server makes of a film and a script.
fn plan(film: &Path, script: &str, epoch_unix_ns: u64) -> Plan {
    let file = File::open(film).expect("a film");
    let media = Arc::new(Media::read(&file).expect("a film"));
    let film = Film::new(&media, 1_400, FILM_BYTES, |at, into| file.read_exact_at(into, at.start));
    let script = Script::parse(script).expect("a script");
    let wanted = Wanted { cameras: 3, seed: 1, epoch_unix_ns, script };
    Plan::new(&[Arc::new(film.expect("a film"))], &wanted).expect("a plan")
}

#[test]
fn a_public_client_pulls_the_alarms_that_the_seed_has() {
    let test = "a_public_client_pulls_the_alarms_that_the_seed_has";
    let (Some(python), Some(folder)) = (python(test), Folder::new(test)) else { return };
    let script = format!(
        "{USERS}motion = [{{ every = \"2s\", for = \"1s\", cameras = \"2\" }}, {{ for = \"400ms\", in-film = true }}]\n\
         fault = [{{ kind = \"freeze\", every = \"3s\", for = \"1s\" }}, {{ kind = \"night\", from = \"1s\" }}]\n"
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let epoch_unix_ns = (now.as_secs() - 60) * 1_000_000_000;
    let cameras = Cameras::start_with(&folder, &script, Some(epoch_unix_ns), None);
    let (states, changes): (Vec<_>, Vec<_>) =
        pulled(&python, &cameras).into_iter().partition(|(_, words)| words[3] == "Initialized");
    let night = states.iter().filter(|(_, words)| words[1] == "tns1:VideoSource/ImageTooDark/ImagingService");
    assert_eq!((states.len(), night.filter(|(_, words)| words[2] == "true").count()), (9, 3));
    let plan = plan(&folder.path("a.mp4"), &script, epoch_unix_ns);
    let all = plan.cameras().iter().map(|camera| &**camera).collect();
    let mut planned = Changes::new(all, &Alarm::ALL, 0);
    let (from_ms, until_ms) = (changes[0].0, changes.last().expect("changes").0);
    let mut expected = Vec::new();
    while let Some(due_ns) = planned.due_ns() {
        let time_ms = (epoch_unix_ns + due_ns) / 1_000_000;
        if time_ms > until_ms {
            break;
        }
        for change in planned.take().filter(|_| time_ms >= from_ms) {
            let topic = match change.alarm {
                Alarm::Motion => "MotionAlarm",
                Alarm::SignalLoss => "SignalLoss",
                Alarm::ImageTooDark => "ImageTooDark/ImagingService",
            };
            let words = [
                format!("source-camera-{}", change.camera),
                format!("tns1:VideoSource/{topic}"),
                (!change.is_end).to_string(),
                "Changed".to_owned(),
            ];
            expected.push((time_ms, words));
        }
    }
    assert!(expected.len() >= 30, "{} changes", expected.len());
    assert_eq!(changes, expected);
}

#[test]
fn a_public_client_finds_pictures_in_h265_and_plays_them() {
    let test = "a_public_client_finds_pictures_in_h265_and_plays_them";
    let (Some(python), Some(folder)) = (python(test), Folder::new(test)) else { return };
    let packages = python.with_file_name("").join("../onvif-python");
    if !packages.is_dir() {
        forebay_testkit::skip(test, "onvif-python is not installed: run `scripts/setup test`");
        return;
    }
    let film = folder.encode(1, &format!("{H265} -an"), "a.mp4");
    let cameras = Cameras::play(&folder, film, USERS, None, None);
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "80"]).arg(python).arg(ASK_MEDIA2).env("NO_PROXY", "127.0.0.1");
    command.env("PYTHONPATH", packages);
    command.args(["127.0.0.1", &cameras.http.port().to_string(), "ada", "lovelace"]);
    let output = command.args(["camera-1", "camera-2", "camera-3"]).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let addresses = String::from_utf8(output.stdout).expect("text");
    let url = addresses.lines().last().expect("three addresses").replace("rtsp://", "rtsp://ada:lovelace@");
    let output = ffmpeg(&format!("-rtsp_transport tcp -i {url} -t 1 -map 0:v -c copy -f framecrc -"));
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A request for messages, and the response when it comes.
fn pull(cameras: &Cameras, point: &str) -> TcpStream {
    let body = "<a><Body><PullMessages xmlns=\"http://www.onvif.org/ver10/events/wsdl\"><Timeout>PT2M</Timeout>\
                </PullMessages></Body></a>";
    let mut stream = TcpStream::connect(cameras.http).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let length = body.len();
    write!(stream, "POST {point} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}").expect("a request");
    stream
}

fn response(mut stream: TcpStream) -> String {
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("text");
    response
}

/// A request that surely waits: an earlier one, or a later one, has been answered because of it.
fn waiting(cameras: &Cameras, point: &str) -> TcpStream {
    let mut both = vec![pull(cameras, point), pull(cameras, point)];
    both.iter().for_each(|stream| stream.set_nonblocking(true).expect("a socket"));
    let answered = || both.iter().position(|stream| stream.peek(&mut [0]).is_ok());
    until("one of two requests is answered", || answered().is_some());
    let answered = both.swap_remove(answered().expect("one"));
    for stream in [&answered, &both[0]] {
        stream.set_nonblocking(false).expect("a socket");
    }
    let said = response(answered);
    assert!(said.contains("PullMessagesResponse") && !said.contains("NotificationMessage"), "{said}");
    both.remove(0)
}

#[test]
fn requests_that_wait_take_no_connections_and_are_answered_when_there_is_something_to_tell() {
    let test = "requests_that_wait_take_no_connections_and_are_answered_when_there_is_something_to_tell";
    let Some(folder) = Folder::new(test) else { return };
    let cameras = Cameras::start(&folder, "");
    let create = || {
        let (status, said) =
            cameras.ask("/onvif/camera-1/event_service", "events", "CreatePullPointSubscription");
        assert_eq!(status, "200", "{said}");
        let (_, rest) = said.split_once("<wsa:Address>").expect("an address");
        let (address, _) = rest.split_once('<').expect("an address");
        address.strip_prefix(&format!("http://{}", cameras.http)).expect("this server").to_owned()
    };
    // More than one address may have connections.
    let points: Vec<String> = (0..80).map(|_| create()).collect();
    for point in &points {
        let said = response(pull(&cameras, point));
        assert_eq!(said.matches("Initialized").count(), 3, "{said}");
    }
    let all: Vec<TcpStream> = points.iter().map(|point| waiting(&cameras, point)).collect();
    for (number, (point, stream)) in points.iter().zip(all).enumerate() {
        if number % 2 == 0 {
            let body = "<a><Body><Unsubscribe xmlns=\"http://docs.oasis-open.org/wsn/b-2\"/></Body></a>";
            let (status, said) = cameras.post(point, body);
            assert!(status == "200" && said.contains("UnsubscribeResponse"), "{said}");
            let said = response(stream);
            assert!(said.contains("ResourceUnknownFault"), "{said}");
        } else {
            let (status, said) = cameras.ask(point, "events", "SetSynchronizationPoint");
            assert_eq!(status, "200", "{said}");
            let said = response(stream);
            assert_eq!(said.matches("Initialized").count(), 3, "{said}");
        }
    }
}

#[test]
fn each_camera_is_a_device_of_its_own_and_bad_requests_get_a_sentence() {
    let test = "each_camera_is_a_device_of_its_own_and_bad_requests_get_a_sentence";
    let Some(folder) = Folder::new(test) else { return };
    let open = Cameras::start(&folder, "camera = [{ number = 2, name = \"door\" }]");
    let one = "/onvif/door/media_service";
    let (status, profiles) = open.ask(one, "media", "GetProfiles");
    assert_eq!((status.as_str(), profiles.matches("<trt:Profiles ").count()), ("200", 1), "{profiles}");
    let (_, all) = open.ask("/onvif/media_service", "media", "GetProfiles");
    assert_eq!(all.matches("<trt:Profiles ").count(), 3, "{all}");
    let serials = ["/onvif/door/device_service", "/onvif/camera-1/device_service"]
        .map(|path| open.ask(path, "device", "GetDeviceInformation").1);
    assert_ne!(serials[0], serials[1]);
    let deep = format!("{}{}", "<a>".repeat(5_000), "</a>".repeat(5_000));
    for (path, body, words) in [
        (one, "", "an envelope of SOAP is wanted"),
        (one, "<a", "an envelope of SOAP is wanted"),
        (one, "<!DOCTYPE a [<!ENTITY b \"b\">]><a>&b;</a>", "an envelope of SOAP is wanted"),
        (one, &deep, "an envelope of SOAP is wanted"),
        (one, "<a/>", "an operation in the body is wanted"),
        (one, "<a><Body><SetUser xmlns=\"x\"/></Body></a>", "SetUser is not supported"),
        ("/onvif/nowhere/device_service", "<a/>", "there is no camera nowhere"),
    ] {
        let (status, said) = open.post(path, body);
        assert!(status == "400" && said.contains(words), "{body:.40}: {status} {said}");
    }
    let guarded = Cameras::start(&folder, USERS);
    let (status, said) = guarded.ask("/onvif/camera-1/device_service", "device", "GetDeviceInformation");
    assert!(status == "400" && said.contains("ter:NotAuthorized"), "{said}");
    let (status, _) = guarded.ask("/onvif/camera-1/device_service", "device", "GetSystemDateAndTime");
    assert_eq!(status, "200");
}

#[test]
fn a_wrong_password_is_in_the_access_log() {
    let Some(folder) = Folder::new("a_wrong_password_is_in_the_access_log") else { return };
    let access_log = folder.path("access.log");
    let cameras = Cameras::start_with(&folder, USERS, None, Some(access_log.clone()));
    let (status, said) = cameras.post(
        "/onvif/device_service",
        "<a><Header><Security><UsernameToken><Username>eve</Username></UsernameToken></Security></Header>\
         <Body><GetUsers/></Body></a>",
    );
    assert!(status == "400" && said.contains("ter:NotAuthorized"), "{said}");
    until("the line is written", || {
        let log = std::fs::read_to_string(&access_log).unwrap_or_default();
        log.contains("127.0.0.1 - eve [") && log.contains("\"POST /onvif/device_service HTTP/1.1\" 400 0 ")
    });
}

#[test]
fn connections_of_one_address_leave_room_for_others() {
    let Some(folder) = Folder::new("connections_of_one_address_leave_room_for_others") else { return };
    let cameras = Cameras::start(&folder, "");
    let idle: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(cameras.http).expect("the server listens")).collect();
    // One that is over the limit is closed at once: then all before it have been counted.
    let mut last = idle.last().expect("one");
    last.set_read_timeout(Some(LIMIT)).expect("a timeout");
    assert!(!last.read(&mut [0; 1]).is_ok_and(|bytes| bytes > 0));
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let other: SocketAddr = "127.0.0.2:0".parse().expect("an address");
    rustix::net::bind(&socket, &other).expect("an address of this machine");
    rustix::net::connect(&socket, &cameras.http).expect("the server listens");
    let (status, _) =
        post(TcpStream::from(socket), "/onvif/device_service", "<a><Body><GetScopes/></Body></a>");
    assert_eq!(status, "400");
}

#[test]
fn every_camera_answers_a_probe() {
    let Some(folder) = Folder::new("every_camera_answers_a_probe") else { return };
    let cameras = Cameras::start(&folder, "");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let probe = |types: &str| {
        format!(
            "<Envelope xmlns=\"http://www.w3.org/2003/05/soap-envelope\"><Header>\
             <MessageID xmlns=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\">uuid:7</MessageID></Header><Body>\
             <Probe xmlns=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\"><Types>{types}</Types></Probe></Body></Envelope>"
        )
    };
    // What is no probe for cameras gets no answer; the answers to the last one come.
    for text in ["", "<a/>", &probe("dn:Printer"), &probe("dn:NetworkVideoTransmitter")] {
        socket.send_to(text.as_bytes(), cameras.discovery).expect("a probe");
    }
    let mut addresses: Vec<String> = (0..3)
        .map(|_| {
            let mut buffer = [0; 4096];
            let (count, _) = socket.recv_from(&mut buffer).expect("an answer");
            let answer = String::from_utf8_lossy(&buffer[..count]).into_owned();
            assert!(answer.contains("<a:RelatesTo>uuid:7</a:RelatesTo>"), "{answer}");
            let (_, rest) = answer.split_once("<d:XAddrs>").expect("an address");
            rest.split('<').next().expect("an address").to_owned()
        })
        .collect();
    addresses.sort();
    let expected =
        [1, 2, 3].map(|number| format!("http://{}/onvif/camera-{number}/device_service", cameras.http));
    assert_eq!(addresses, expected);
}
