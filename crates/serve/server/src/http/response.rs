//! Responses of HTTP (RFC 9112).

use std::fmt::Write;
use std::ops::Range;

use super::ranges;
use super::request::{METHODS, Malformed, Received};

/// A response, before it is known on which connection it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub status: u16,
    /// Header fields beside those that every response has.
    pub fields: Vec<(&'static str, String)>,
    pub kind: &'static str,
    pub body: Vec<u8>,
}

const HTML: &str = "text/html; charset=utf-8";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";
pub(super) const M3U: &str = "audio/x-mpegurl";
pub(super) const PLAYLIST: &str = "application/vnd.apple.mpegurl";
pub(super) const MP4: &str = "video/mp4";
impl Response {
    pub fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, fields: Vec::new(), kind, body: body.into() }
    }

    /// A page, which may load only what its policy says (Content Security Policy Level 3).
    pub fn page(policy: &str, body: String) -> Self {
        Self::new(HTML, body).with("Content-Security-Policy", policy)
    }

    /// A refusal, with a sentence.
    pub fn refusal(status: u16, sentence: &str) -> Self {
        Self { status, ..Self::new(TEXT, format!("{sentence}\n")) }
    }

    /// What is answered to a method, whatever its URL; `None` if that depends on the URL.
    pub fn to_method(method: &str) -> Option<Self> {
        let refusal = match method {
            "GET" | "HEAD" => return None,
            "OPTIONS" => Self { status: 204, ..Self::new(TEXT, "") },
            _ if METHODS.contains(&method) => Self::refusal(405, "the server takes GET, HEAD and OPTIONS"),
            _ => Self::refusal(501, "the server does not know this method"),
        };
        Some(refusal.with("Allow", "GET, HEAD, OPTIONS"))
    }

    /// What is answered to something else than a request.
    pub fn to_malformed(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Request => Self::refusal(400, "this is no request of HTTP/1.1"),
            Malformed::Version => Self::refusal(505, "the server speaks HTTP/1.1"),
            Malformed::TooLarge => Self::refusal(431, "the request has too many or too long header fields"),
            Malformed::HasBody => Self::refusal(400, "requests have no body here"),
        }
    }

    /// No byte of a body is in the range that is wanted.
    pub fn unsatisfiable(length: u64) -> Self {
        let refusal = Self::refusal(416, &format!("there are {length} bytes"));
        refusal.with("Content-Range", format!("bytes */{length}"))
    }

    /// These bytes of so many.
    pub fn of_range(self, range: &Range<u64>, length: u64) -> Self {
        let Range { start, end } = range;
        Self { status: 206, ..self }.with("Content-Range", format!("bytes {start}-{}/{length}", end - 1))
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }

    /// What comes before the body. Without a length, its end is told otherwise.
    pub fn head(&self, date: Option<&str>, length: Option<u64>, keeps_alive: bool) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        // Into memory, which does not fail.
        if let Some(date) = date {
            let _ = write!(head, "Date: {date}\r\n");
        }
        let has_body = self.status != 204;
        if has_body {
            let _ = write!(head, "Content-Type: {}\r\n", self.kind);
        }
        head.push_str("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
        for (name, value) in &self.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let Some(length) = length.filter(|_| has_body) {
            let _ = write!(head, "Content-Length: {length}\r\n");
            if self.status == 200 {
                head.push_str("Accept-Ranges: bytes\r\n");
            }
        }
        head.push_str(if keeps_alive {
            "Connection: keep-alive\r\n\r\n"
        } else {
            "Connection: close\r\n\r\n"
        });
        head
    }

    /// All of it, or without its body.
    pub fn bytes(&self, is_head: bool, keeps_alive: bool) -> Vec<u8> {
        let mut bytes = self.head(None, Some(self.body.len() as u64), keeps_alive).into_bytes();
        if !is_head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

/// What is answered where a connection has one request, to whose URL `answer` responds; `None` while the request is not all there.
pub(crate) fn answer_once(bytes: &[u8], answer: impl FnOnce(&str) -> Response) -> Option<Vec<u8>> {
    let received = match Received::parse(bytes) {
        Ok(received) => received?,
        Err(malformed) => return Some(Response::to_malformed(malformed).bytes(false, false)),
    };
    let Received { request, .. } = &received;
    let whole = Response::to_method(request.method.as_str()).unwrap_or_else(|| answer(&request.url));
    let part = ranges::part(&received, &whole);
    Some(part.as_ref().unwrap_or(&whole).bytes(received.is_head(), false))
}

fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Other",
    }
}
