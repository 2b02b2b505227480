//! Clients of ONVIF find cameras, and the addresses of their streams.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;

use forebay_cameras::Script;
use forebay_server::{CameraSettings, FILM_BYTES, Serving, Settings, Stopper};
use rustix::net::{AddressFamily, SocketType};
use support::{Folder, H264, LIMIT, ffmpeg, until};

const ASK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/asks_onvif.py");

/// Three cameras that end with it.
struct Cameras {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    http: SocketAddr,
    discovery: SocketAddr,
}

impl Cameras {
    fn start(folder: &Folder, script: &str) -> Self {
        Self::start_with(folder, script, None)
    }

    fn start_with(folder: &Folder, script: &str, access_log: Option<PathBuf>) -> Self {
        let free: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let cameras = CameraSettings {
            films: vec![folder.encode(1, &format!("{H264} -c:a aac"), "a.mp4")],
            count: 3,
            seed: 1,
            epoch_unix_ns: None,
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
    let cameras = Cameras::start_with(&folder, USERS, Some(access_log.clone()));
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
