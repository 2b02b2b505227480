//! What a client sends, from its bytes: requests, and interleaved frames between them.
//!
//! Not all clients keep to the grammar (RFC 2326, section 15). The reader accepts lines that end in a bare line feed, missing or
//! additional spaces, and the wrong case. It also accepts spaces within a URL, blank lines between messages, and lines of a
//! header that are no field. It refuses what could make two readers disagree on where a message ends.

use memchr::memchr;

use crate::message::{Headers, Method, Request, Status, cseq};

/// How much of a client's is held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest line of a head, in bytes.
    pub line_bytes_max: usize,
    /// The longest head, in bytes.
    pub head_bytes_max: usize,
    /// The most header fields of a message.
    pub fields_max: usize,
    /// The longest body, in bytes.
    pub body_bytes_max: usize,
    /// The longest interleaved frame; longer ones are skipped. Clients send reports, of a few hundred bytes.
    pub frame_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes_max: 4096,
            head_bytes_max: 16 << 10,
            fields_max: 64,
            body_bytes_max: 16 << 10,
            frame_bytes_max: 4096,
        }
    }
}

/// One thing that a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A request.
    Request(Request),
    /// A packet on one of the channels of the connection.
    Frame {
        /// Which.
        channel: u8,
        /// The packet.
        packet: Vec<u8>,
    },
}

/// A message that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What to answer.
    pub status: Status,
    /// Whose answer it is, if that could be read.
    pub cseq: Option<u32>,
    /// The beginning of the next message is unknown: the connection has to be closed.
    pub is_fatal: bool,
}

/// Bytes in, messages out.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    limits: Limits,
    buffer: Vec<u8>,
    /// What of the buffer has been used.
    used: usize,
    /// Where the line begins whose end has not come yet, from `used`.
    line: usize,
    /// What is still to come of a frame that is skipped.
    skip: usize,
    /// The message whose body has not all come yet.
    head: Option<Head>,
    is_broken: bool,
}

#[derive(Clone, Debug)]
struct Head {
    /// The request; `None` for a response.
    message: Result<Option<Request>, Malformed>,
    body_bytes: usize,
}

impl Reader {
    /// A reader that holds no more than `limits` and what came with the last bytes.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// More bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if self.is_broken {
            return;
        }
        if self.is_at_end() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// How many bytes wait to be read, or to be complete.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.used
    }

    fn is_at_end(&self) -> bool {
        self.used == self.buffer.len()
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let taken = self.buffer[self.used..self.used + bytes].to_vec();
        self.used += bytes;
        self.line = 0;
        if self.is_at_end() {
            self.release();
        }
        taken
    }

    /// Thousands of connections are quiet most of the time.
    fn release(&mut self) {
        self.buffer = Vec::new();
        self.used = 0;
        self.line = 0;
    }

    fn skip_blank(&mut self) {
        if self.line == 0 {
            let rest = &self.buffer[self.used..];
            self.used += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if self.is_at_end() {
                self.release();
            }
        }
    }

    /// `None`: not all there yet. `Some(None)`: too long, so it will be skipped.
    fn frame(&mut self) -> Option<Option<Received>> {
        let [_, channel, high, low, ..] = self.buffer[self.used..] else { return None };
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        if bytes > self.limits.frame_bytes_max {
            self.skip = 4 + bytes;
            return Some(None);
        }
        if self.pending_bytes() < 4 + bytes {
            return None;
        }
        let packet = self.take(4 + bytes).split_off(4);
        Some(Some(Received::Frame { channel, packet }))
    }

    /// The head up to its blank line and the length of the body, or why the connection cannot go on.
    fn read_head(&mut self) -> Option<Result<Head, Status>> {
        let limits = self.limits;
        loop {
            let pending = &self.buffer[self.used..];
            let rest = &pending[self.line..];
            let newline = memchr(b'\n', rest);
            let line_bytes = newline.unwrap_or(rest.len());
            if line_bytes > limits.line_bytes_max {
                let is_first = self.line == 0;
                let status = if is_first { Status::RequestUriTooLong } else { Status::RequestEntityTooLarge };
                return Some(Err(status));
            }
            if self.line + line_bytes > limits.head_bytes_max {
                return Some(Err(Status::RequestEntityTooLarge));
            }
            let is_blank = matches!(&rest[..newline?], b"" | b"\r");
            self.line += line_bytes + 1;
            if is_blank {
                break;
            }
        }
        let head = self.take(self.line);
        Some(parse_head(&head, &limits))
    }
}

impl Iterator for Reader {
    type Item = Result<Received, Malformed>;

    /// The next message or frame; `None` until more bytes come. After a fatal error there is none.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_broken {
            if self.skip > 0 {
                let skipped = self.skip.min(self.pending_bytes());
                self.take(skipped);
                self.skip -= skipped;
            }
            if self.head.is_none() {
                self.skip_blank();
                if self.buffer.get(self.used) == Some(&b'$') {
                    match self.frame()? {
                        Some(frame) => return Some(Ok(frame)),
                        None => continue,
                    }
                }
                match self.read_head()? {
                    Ok(head) => self.head = Some(head),
                    Err(status) => {
                        self.is_broken = true;
                        self.release();
                        return Some(Err(Malformed { status, cseq: None, is_fatal: true }));
                    }
                }
            }
            let pending_bytes = self.pending_bytes();
            let Head { message, body_bytes } = self.head.take_if(|head| head.body_bytes <= pending_bytes)?;
            let body = self.take(body_bytes);
            match message {
                Ok(Some(request)) => return Some(Ok(Received::Request(Request { body, ..request }))),
                // A response: we ask nothing, so it answers nothing.
                Ok(None) => {}
                Err(malformed) => return Some(Err(malformed)),
            }
        }
        None
    }
}

/// Of a whole head, or why the connection cannot go on.
fn parse_head(head: &[u8], limits: &Limits) -> Result<Head, Status> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let mut headers = Headers::default();
    for line in lines.filter(|line| !line.is_empty()) {
        if line.starts_with([' ', '\t']) {
            headers.fold(line.trim());
        } else if let Some((name, value)) = line.split_once(':') {
            headers.push(name.trim(), value.trim());
        }
        if headers.len() > limits.fields_max {
            return Err(Status::RequestEntityTooLarge);
        }
    }
    let body_bytes = match headers.get("Content-Length") {
        Some(length) => length.parse::<usize>().map_err(|_| Status::BadRequest)?,
        None => 0,
    };
    if headers.all("Content-Length").any(|length| length.parse() != Ok(body_bytes)) {
        return Err(Status::BadRequest);
    }
    if body_bytes > limits.body_bytes_max {
        return Err(Status::RequestEntityTooLarge);
    }
    if starts_with_version(first) {
        return Ok(Head { message: Ok(None), body_bytes });
    }
    // Parts of requests are repeated in responses: there, such a byte would end a line.
    let has_control = |line: &str| line.contains(|sign: char| sign.is_control() && sign != '\t');
    let message = match request_line(first) {
        Ok(_) if head.lines().any(has_control) => Err(Status::BadRequest),
        line => line,
    };
    let message = match message {
        Ok((method, url)) => Ok(Some(Request { method, url, headers, body: Vec::new() })),
        Err(status) => Err(Malformed { status, cseq: cseq(&headers), is_fatal: false }),
    };
    Ok(Head { message, body_bytes })
}

fn starts_with_version(line: &str) -> bool {
    line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("RTSP/"))
}

/// Method, URL and version (RFC 2326, section 6.1). The URL is all between the first and the last space.
fn request_line(line: &str) -> Result<(Method, String), Status> {
    let (method, rest) = line.trim().split_once([' ', '\t']).ok_or(Status::BadRequest)?;
    let (url, version) = rest.trim().rsplit_once([' ', '\t']).ok_or(Status::BadRequest)?;
    let is_token =
        method.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if !is_token || url.trim().is_empty() {
        return Err(Status::BadRequest);
    }
    if !version.eq_ignore_ascii_case("RTSP/1.0") {
        return Err(if version.contains('/') { Status::VersionNotSupported } else { Status::BadRequest });
    }
    Ok((Method::parse(method), url.trim().to_owned()))
}
