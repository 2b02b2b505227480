//! What clients say on encrypted connections, however it is cut into records, and what they get there.
#![forbid(unsafe_code)]

mod support;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use forebay_server::Settings;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{Client, Folder, LIMIT, Server, until};

/// The longest record (RFC 8446, section 5.1), and as long as what the server reads at once.
const RECORD_BYTES: usize = 16 << 10;
const REQUEST_BYTES: usize = 256;
/// Pictures of many packets.
const LARGE: &str = "-map 0:v -c:v libx264 -preset ultrafast -qp 1 -g 12 -pix_fmt yuv420p -s 640x480";

/// A server, and what its clients have to know of it.
fn start(keys: &Folder, settings: Settings) -> (Server, Arc<ClientConfig>) {
    let (tls, certificate) = support::identity(keys);
    let server = Server::with(Settings { tls: Some(tls), ..settings });
    let mut roots = RootCertStore::empty();
    roots.add(certificate.into()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
    (server, Arc::new(config))
}

/// An encrypted connection whose records are counted.
type Counted = StreamOwned<ClientConnection, Records>;

/// Counts the records that come on a connection.
struct Records {
    stream: TcpStream,
    head: Vec<u8>,
    /// What of the present one is still to come.
    rest: usize,
    count: usize,
}

fn connect(server: &Server, config: Arc<ClientConfig>) -> Counted {
    let connection = ClientConnection::new(config, "localhost".try_into().expect("a name"));
    let stream = TcpStream::connect(server.addresses[1]).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    StreamOwned::new(connection.expect("a client"), Records { stream, head: Vec::new(), rest: 0, count: 0 })
}

impl Read for Records {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        for byte in &buffer[..count] {
            if self.rest > 0 {
                self.rest -= 1;
                continue;
            }
            self.head.push(*byte);
            if let [_, _, _, high, low] = self.head[..] {
                self.rest = usize::from(u16::from_be_bytes([high, low]));
                self.count += 1;
                self.head.clear();
            }
        }
        Ok(count)
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[test]
fn a_client_that_is_slow_gets_every_byte_in_few_records() {
    let Some(films) = Folder::new("a_client_that_is_slow_gets_every_byte_in_few_records") else { return };
    let film = films.encode(2, LARGE, "a.ts");
    // However late they are, no pictures are left out.
    let settings = Settings { late: Duration::from_secs(3600), ..Settings::new(films.root().to_owned()) };
    let (server, config) = start(&Folder::empty(), settings);
    let mut client = Client::over(connect(&server, config), server.addresses[1]);
    let session = client.set_up("a.ts?raw", 0, "");
    client.send("PLAY", "a.ts?raw", &format!("Session: {session}\r\nSpeed: 16\r\n"));
    until("the client has not taken all that was sent", || server.metric("forebay_backlog_bytes") > 0);
    let packets = client.packets_to_the_end();
    let got: Vec<u8> = packets.iter().flat_map(|packet| &packet[12..]).copied().collect();
    let expected = std::fs::read(film).expect("the file");
    assert!(expected.ends_with(&got) && got.len() + 5 * 188 >= expected.len(), "{} bytes", got.len());
    // A picture takes as few as can be, and not some for each packet.
    let records = client.carrier().sock.count;
    assert!(records < packets.len(), "{records} records of {} packets", packets.len());
}

#[test]
fn what_came_with_a_full_record_is_answered_at_once() {
    let keys = Folder::empty();
    let (server, config) = start(&keys, Settings::new(keys.root().to_owned()));
    let mut client = BufReader::new(connect(&server, config));
    let answers = |client: &mut BufReader<Counted>, count| {
        let mut line = String::new();
        for number in 0..count {
            while !line.starts_with("RTSP/1.0 200") {
                line.clear();
                client.read_line(&mut line).unwrap_or_else(|error| panic!("answer {number}: {error}"));
            }
            line.clear();
        }
    };
    let mut request = "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nX: ".to_owned();
    request += &"x".repeat(REQUEST_BYTES - request.len() - 4);
    request += "\r\n\r\n";
    client.get_mut().write_all(request.as_bytes()).expect("the server reads");
    answers(&mut client, 1);

    // Five records, of which the server reads the fourth with what there is of the fifth.
    let full = request.repeat(RECORD_BYTES / REQUEST_BYTES);
    let StreamOwned { conn, sock } = client.get_mut();
    let mut wire = Vec::new();
    for record in [&request, &full, &request, &full, &request] {
        conn.writer().write_all(record.as_bytes()).expect("a record");
        while conn.wants_write() {
            conn.write_tls(&mut wire).expect("memory");
        }
    }
    sock.write_all(&wire).expect("the server reads");
    answers(&mut client, 3 + 2 * RECORD_BYTES / REQUEST_BYTES);
}
