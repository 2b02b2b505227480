//! A server that answers late, in the process of the test.

use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a late server takes for each answer.
const LATE: Duration = Duration::from_millis(10);

/// Answers each request late, for as long as the test process lives.
pub fn answer_late(mut stream: impl Read + Write) -> io::Result<()> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..length]);
        if request.ends_with(b"\r\n\r\n") {
            thread::sleep(LATE);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            if String::from_utf8_lossy(&request).contains("close") {
                return Ok(());
            }
            request.clear();
        }
    }
}

/// The port of a server that answers each datagram late.
pub fn late_datagrams() -> String {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut question = [0; 256];
        while let Ok((_, from)) = socket.recv_from(&mut question) {
            let socket = Arc::clone(&socket);
            thread::spawn(move || {
                thread::sleep(LATE);
                // Who asked may be gone.
                let _ = socket.send_to(b"ok", from);
            });
        }
    });
    port.to_string()
}

/// The port of a server that answers late.
pub fn late_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(|| answer_late(stream));
        }
    });
    port.to_string()
}
