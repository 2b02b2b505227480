//! What clients say on encrypted connections, however it is cut into records.
#![forbid(unsafe_code)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use forebay_server::Settings;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{Folder, Server};

/// The longest record (RFC 8446, section 5.1), and as long as what the server reads at once.
const RECORD_BYTES: usize = 16 << 10;
const REQUEST_BYTES: usize = 256;

/// A server, and what its clients have to know of it.
fn start(keys: &Folder) -> (Server, ClientConfig) {
    let (tls, certificate) = support::identity(keys);
    let server = Server::with(Settings { tls: Some(tls), ..Settings::new(keys.root().to_owned()) });
    let mut roots = RootCertStore::empty();
    roots.add(certificate.into()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    (server, config.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn what_came_with_a_full_record_is_answered_at_once() {
    let (server, config) = start(&Folder::empty());
    let connection =
        ClientConnection::new(Arc::new(config), "localhost".try_into().expect("a name")).expect("a client");
    let stream = TcpStream::connect(server.addresses[1]).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut client = BufReader::new(StreamOwned::new(connection, stream));
    let answers = |client: &mut BufReader<StreamOwned<ClientConnection, TcpStream>>, count| {
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
