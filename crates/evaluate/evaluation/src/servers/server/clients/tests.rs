//! The clients against servers of every kind of answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring};

use super::super::http::url;
use super::*;
use crate::experiments::Asked;

/// Answers after which the load is stopped.
const ENOUGH: usize = 40;
/// The load is not stopped by time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request, as it arrived.
#[derive(Clone, Debug, Default)]
struct Arrived {
    head: String,
    body: String,
}

/// What a server writes, and whether it closes the connection then.
#[derive(Clone)]
struct Script {
    answer: Vec<u8>,
    closes: bool,
}

/// A server, and what it saw.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    answered: AtomicUsize,
    /// Ends the load.
    stop: AtomicBool,
    /// Ends the server.
    over: AtomicBool,
    first: Mutex<Option<Arrived>>,
}

/// What is asked of which server.
struct Case {
    host: IpAddr,
    scheme: &'static str,
    script: Script,
    asked: Asked,
    number: u16,
    connections: Connections,
}

impl Case {
    fn of(answer: impl Into<Vec<u8>>) -> Self {
        Self {
            host: Ipv4Addr::LOCALHOST.into(),
            scheme: "http",
            script: Script { answer: answer.into(), closes: false },
            asked: Asked::default(),
            number: 1,
            connections: Connections::Kept,
        }
    }

    /// The answers, until the server has given enough of them.
    fn run(self) -> (Result<Answers, String>, Arc<Seen>) {
        let listener = TcpListener::bind((self.host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let config = (self.scheme == "https").then(certified);
        let serving = {
            let (seen, script) = (Arc::clone(&seen), self.script.clone());
            thread::spawn(move || accept(&listener, &seen, &script, config))
        };
        let site = Site::of(&url(&format!("{}://{address}/", self.scheme)).unwrap()).unwrap();
        let close = self.connections == Connections::New;
        let requests = vec![site.request("/path?query", &self.asked, close).unwrap()];
        let clients = Clients {
            site,
            requests,
            number: self.number,
            rate: Rate::Most,
            connections: self.connections,
            load: 0,
        };
        let begin = Instant::now();
        let answers = clients.run(Window { begin, end: begin + PATIENCE }, &seen.stop);
        end(address, &seen, serving);
        (answers, seen)
    }

    /// The bytes of each answer, where all were answers.
    #[track_caller]
    fn bytes_each(self) -> f64 {
        let under_way = usize::from(self.number);
        let (answers, seen) = self.run();
        let answers = answers.unwrap();
        assert_eq!((answers.errors, &answers.first_error), (0, &None));
        assert!(answers.requests as usize >= ENOUGH - under_way, "{}", answers.requests);
        assert_eq!(answers.latency_ns.len(), answers.requests);
        assert!(seen.first.lock().unwrap().is_some());
        answers.bytes as f64 / answers.requests as f64
    }
}

fn end(address: SocketAddr, seen: &Seen, serving: thread::JoinHandle<()>) {
    seen.over.store(true, Ordering::Relaxed);
    let _ = TcpStream::connect(address);
    serving.join().unwrap();
}

fn accept(listener: &TcpListener, seen: &Arc<Seen>, script: &Script, config: Option<Arc<ServerConfig>>) {
    let mut serving = Vec::new();
    for stream in listener.incoming() {
        if seen.over.load(Ordering::Relaxed) {
            break;
        }
        let stream = stream.unwrap();
        seen.connections.fetch_add(1, Ordering::Relaxed);
        let (seen, script, config) = (Arc::clone(seen), script.clone(), config.clone());
        serving.push(thread::spawn(move || match config {
            None => serve(BufReader::new(stream), &seen, &script),
            Some(config) => {
                let connection = ServerConnection::new(config).unwrap();
                serve(BufReader::new(StreamOwned::new(connection, stream)), &seen, &script);
            }
        }));
    }
    serving.into_iter().for_each(|thread| thread.join().unwrap());
}

fn serve<S: Read + Write>(mut stream: BufReader<S>, seen: &Seen, script: &Script) {
    while let Some(arrived) = arrived(&mut stream) {
        seen.first.lock().unwrap().get_or_insert(arrived);
        let answered = seen.answered.fetch_add(1, Ordering::Relaxed) + 1;
        if answered > ENOUGH {
            // A fast client would fail too often before it sees that it is to stop: it gets no answer until it goes.
            while self::arrived(&mut stream).is_some() {}
            return;
        }
        let written = stream.get_mut().write_all(&script.answer).and_then(|()| stream.get_mut().flush());
        if answered >= ENOUGH {
            seen.stop.store(true, Ordering::Relaxed);
        }
        if written.is_err() || script.closes {
            return;
        }
    }
}

fn arrived(stream: &mut impl BufRead) -> Option<Arrived> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(Arrived { head, body: String::from_utf8(body).unwrap() })
}

/// A certificate for another name, signed by itself.
fn certified() -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["elsewhere.example".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    Arc::new(config)
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn every_kind_of_answer_ends_where_the_standard_says() {
    for (answer, bytes) in [
        (HELLO, 5.0),
        ("HTTP/1.1 204 No Content\r\n\r\n", 0.0),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 0.0),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0.0),
        ("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 2\r\n\r\nno", 2.0),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            3.0,
        ),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 0.0),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\n\r\n",
            19.0,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n1\r\na\r\n0\r\nA: b\r\n\r\n",
            1.0,
        ),
    ] {
        let (answers, seen) = Case::of(answer).run();
        let answers = answers.unwrap();
        assert_eq!((answers.errors, &answers.first_error), (0, &None), "{answer}");
        assert!(answers.requests as usize >= ENOUGH - 1, "{answer}");
        assert_eq!(answers.bytes as f64 / answers.requests as f64, bytes, "{answer}");
        assert_eq!(seen.connections.load(Ordering::Relaxed), 1, "{answer}");
    }
}

#[test]
fn an_answer_without_a_length_ends_with_the_connection() {
    for answer in
        ["HTTP/1.0 200 OK\r\n\r\nto the end", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end"]
    {
        let mut case = Case::of(answer);
        case.script.closes = true;
        assert_eq!(case.bytes_each(), 10.0, "{answer}");
    }
}

#[test]
fn large_answers_are_read_to_their_end() {
    let length = 3 << 20;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    let answer: Vec<u8> = head.into_bytes().into_iter().chain(std::iter::repeat_n(b'x', length)).collect();
    assert_eq!(Case::of(answer).bytes_each(), length as f64);
}

#[test]
fn new_connections_serve_one_request_each() {
    let mut case = Case::of(HELLO);
    case.connections = Connections::New;
    let (answers, seen) = case.run();
    let answers = answers.unwrap();
    assert_eq!(answers.errors, 0, "{:?}", answers.first_error);
    let connections = seen.connections.load(Ordering::Relaxed);
    assert!((connections - 1..=connections).contains(&(answers.requests as usize)), "{connections}");
    let first = seen.first.lock().unwrap().clone().unwrap();
    assert!(first.head.contains("connection: close\r\n"), "{first:?}");
}

#[test]
fn a_connection_that_the_server_closed_between_requests_is_no_failure() {
    let mut case = Case::of("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
    case.script.closes = true;
    assert_eq!(case.bytes_each(), 5.0);
}

#[test]
fn requests_have_the_method_the_headers_and_the_body_that_are_asked() {
    let mut case = Case::of(HELLO);
    let headers = [("Content-Type".to_owned(), "application/json".to_owned())].into();
    case.asked = Asked { method: "POST".into(), headers, body: "{\"a\": 1}".into() };
    let (answers, seen) = case.run();
    assert_eq!(answers.unwrap().errors, 0);
    let first = seen.first.lock().unwrap().clone().unwrap();
    assert!(first.head.starts_with("POST /path?query HTTP/1.1\r\n"), "{first:?}");
    for header in ["content-type: application/json\r\n", "content-length: 8\r\n", "host: 127.0.0.1:"] {
        assert!(first.head.contains(header), "{first:?}");
    }
    assert_eq!(first.body, "{\"a\": 1}");
}

#[test]
fn addresses_of_version_6_are_asked() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return forebay_testkit::skip("addresses_of_version_6_are_asked", "no [::1] on this machine");
    }
    let mut case = Case::of(HELLO);
    case.host = Ipv6Addr::LOCALHOST.into();
    assert_eq!(case.bytes_each(), 5.0);
}

#[test]
fn servers_are_asked_over_tls_whatever_their_certificate() {
    for connections in [Connections::Kept, Connections::New] {
        let mut case = Case::of(HELLO);
        (case.scheme, case.connections, case.number) = ("https", connections, 3);
        assert_eq!(case.bytes_each(), 5.0, "{connections:?}");
    }
}

#[test]
fn what_is_refused_or_breaks_is_a_failure_with_its_reason() {
    let not_found = Case::of("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let mut broken = Case::of("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf of it");
    broken.script.closes = true;
    let mut closed = Case::of("");
    closed.script.closes = true;
    for (case, says) in [
        (not_found, "the server answers 404 for /path?query"),
        (broken, "the server closed the connection"),
        (closed, "the server closed the connection"),
    ] {
        let (answers, _) = case.run();
        let answers = answers.unwrap();
        assert_eq!(answers.requests, 0);
        assert!(answers.errors as usize >= ENOUGH - 1, "{}", answers.errors);
        assert_eq!(answers.first_error.as_deref(), Some(says));
        assert_eq!(answers.latency_ns.len(), 0);
    }
}

#[test]
fn another_protocol_ends_the_load() {
    let (answers, _) = Case::of("220 smtp ready\r\n").run();
    assert!(answers.unwrap_err().starts_with("the answer cannot be read as HTTP/1.1"));
}

#[test]
fn a_server_that_is_gone_is_given_up() {
    let gone =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap();
    let site = Site::of(&url(&format!("http://{gone}/")).unwrap()).unwrap();
    let requests = vec![site.request("/", &Asked::default(), false).unwrap()];
    let connections = Connections::Kept;
    let clients = Clients { site, requests, number: 4, rate: Rate::Most, connections, load: 0 };
    let begin = Instant::now();
    let window = Window { begin, end: begin + PATIENCE };
    let error = clients.run(window, &AtomicBool::new(false)).unwrap_err();
    assert!(error.contains("is the server still there?"), "{error}");
}

#[test]
fn all_that_the_schedule_has_is_intended_however_slow_the_server_is() {
    // It takes connections, and answers nothing.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let site = Site::of(&url(&format!("http://{}/", listener.local_addr().unwrap())).unwrap()).unwrap();
    let requests = vec![site.request("/", &Asked::default(), false).unwrap()];
    let (rate, connections) = (Rate::PerSecond(10_000.0), Connections::Kept);
    let begin = Instant::now();
    let window = Window { begin, end: begin + Duration::from_millis(500) };
    let clients = Clients { site, requests, number: 2, rate, connections, load: 0 };
    let answers = clients.run(window, &AtomicBool::new(false)).unwrap();
    assert_eq!((answers.requests, answers.errors), (0, 0));
    let intended = answers.intended.unwrap();
    assert!(intended > 0.0 && intended <= 5001.0, "{intended}");
    assert!(answers.under_way_s > 0.0);
}
