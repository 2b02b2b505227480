//! A request of HTTP, from its bytes (RFC 9112).

use forebay_rtsp::message::{Headers, Method, Request};

/// The most header fields of a request. Browsers send about twenty.
const FIELDS_MAX: usize = 64;
/// The longest head of a request.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// The longest body of a request that is refused: it is skipped, and the connection goes on.
const BODY_BYTES_MAX: u64 = 1 << 20;
/// The longest first line that tells what a client speaks, if its method does not.
const FIRST_LINE_BYTES_MAX: usize = 4 << 10;
/// Methods that RTSP has not (RFC 9110, section 9.3; RFC 5789).
pub(super) const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "TRACE", "PATCH"];

/// A request, and what is to be known for its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Its method, URL and header fields. The method is one that RTSP has not.
    pub request: Request,
    /// How long its head is, in bytes.
    pub head_bytes: usize,
    /// Whether the client can take another response on the connection.
    pub keeps_alive: bool,
    /// Whether the client knows chunks.
    pub is_1_1: bool,
}

/// Why it is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Request,
    /// Of another version of HTTP.
    Version,
    TooLarge,
    /// Requests for something to see have none.
    HasBody,
}

impl Received {
    /// `None` while its head is not all there.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        let head_bytes = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
            Ok(httparse::Status::Partial) if bytes.len() > HEAD_BYTES_MAX => return Err(Malformed::TooLarge),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Malformed::TooLarge),
            Err(httparse::Error::Version) if names_http(first_line(bytes)) => return Err(Malformed::Version),
            Err(_) => return Err(Malformed::Request),
        };
        let mut headers = Headers::default();
        for field in parsed.headers.iter() {
            headers.push(field.name, String::from_utf8_lossy(field.value).trim());
        }
        let is_1_1 = parsed.version == Some(1);
        let has = |word: &str| {
            let mut words = headers.all("Connection").flat_map(|value| value.split(','));
            words.any(|one| one.trim().eq_ignore_ascii_case(word))
        };
        let keeps_alive = if is_1_1 { !has("close") } else { has("keep-alive") };
        let method = Method::Other(parsed.method.unwrap_or_default().to_owned());
        let url = parsed.path.unwrap_or_default().to_owned();
        let request = Request { method, url, headers, body: Vec::new() };
        Ok(Some(Self { request, head_bytes, keeps_alive, is_1_1 }))
    }

    /// Whether the response is to have no body.
    pub fn is_head(&self) -> bool {
        self.request.method.as_str() == "HEAD"
    }

    /// Whether it is for something to see.
    pub fn is_for_content(&self) -> bool {
        matches!(self.request.method.as_str(), "GET" | "HEAD")
    }

    /// How long its body is; `None` if that is not known, or is too much to skip.
    pub fn body_bytes(&self) -> Option<u64> {
        let headers = &self.request.headers;
        if headers.get("Transfer-Encoding").is_some() {
            return None;
        }
        let mut lengths = headers.all("Content-Length");
        let Some(length) = lengths.next() else { return Some(0) };
        let is_plain = length.bytes().all(|byte| byte.is_ascii_digit()) && lengths.all(|one| one == length);
        let bytes = length.parse().ok().filter(|bytes| is_plain && *bytes <= BODY_BYTES_MAX)?;
        // Such a client may leave the body out once it is refused.
        (bytes == 0 || headers.get("Expect").is_none()).then_some(bytes)
    }
}

/// Whether what a client sent first can be HTTP; `None` if more of it has to be known.
pub(crate) fn is_http(first: &[u8]) -> Option<bool> {
    let line = first_line(first);
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    if word.len() < line.len() && METHODS.iter().any(|method| method.as_bytes() == word) {
        return Some(true);
    }
    if !word.trim_ascii_end().iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte)) {
        return Some(false);
    }
    let is_whole = first.trim_ascii_start().len() > line.len();
    match first.len() > FIRST_LINE_BYTES_MAX {
        _ if is_whole => Some(names_http(line)),
        true => Some(false),
        false => None,
    }
}

/// The first line that is not blank, as far as it has come.
fn first_line(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// Whether a line ends with a version of HTTP.
fn names_http(line: &[u8]) -> bool {
    line.trim_ascii_end().rsplit(|byte| *byte == b' ').next().is_some_and(|word| word.starts_with(b"HTTP/"))
}

#[cfg(test)]
mod tests {
    use super::super::any_request;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_keeps_a_connection_is_read() {
        for (text, keeps_alive, is_1_1) in [
            ("GET / HTTP/1.1\r\n\r\n", true, true),
            ("GET / HTTP/1.1\r\nConnection: Upgrade, Close\r\n\r\n", false, true),
            ("GET / HTTP/1.0\r\n\r\n", false, false),
            ("GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n", true, false),
        ] {
            let received = Received::parse(text.as_bytes()).expect("a request").expect("all of it");
            assert_eq!(
                (received.keeps_alive, received.is_1_1, received.head_bytes),
                (keeps_alive, is_1_1, text.len())
            );
        }
        for (text, expected) in [
            ("GET / RTSP/1.0\r\n\r\n", Malformed::Request),
            ("GET /\r\n\r\n", Malformed::Request),
            ("GET / HTTP/2.0\r\n\r\n", Malformed::Version),
            ("PRI * HTTP/2.0\r\n\r\n", Malformed::Version),
        ] {
            assert_eq!(Received::parse(text.as_bytes()), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_body_is_as_long_as_all_readers_find_it_or_unknown() {
        for (fields, expected) in [
            ("", Some(0)),
            ("Content-Length: 7\r\n", Some(7)),
            ("Content-Length: 7\r\nContent-Length: 7\r\n", Some(7)),
            ("Content-Length: 7\r\nContent-Length: 8\r\n", None),
            ("Content-Length: +7\r\n", None),
            ("Content-Length: 1048577\r\n", None),
            ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", None),
            ("Content-Length: 7\r\nExpect: 100-continue\r\n", None),
        ] {
            let text = format!("PUT / HTTP/1.1\r\n{fields}\r\n");
            let received = Received::parse(text.as_bytes()).expect("a request").expect("all of it");
            assert_eq!(received.body_bytes(), expected, "{fields}");
        }
    }

    #[test]
    fn the_first_bytes_tell_http_from_rtsp() {
        for (first, expected) in [
            (&b"GET /"[..], Some(true)),
            (b"\r\nTRACE ", Some(true)),
            (b"GET_PARAMETER", None),
            (b"G", None),
            (b"POST", None),
            (b"OPTIONS * ", None),
            (b"OPTIONS * RTSP/1.0\r\n", Some(false)),
            (b"OPTIONS * HTTP/1.1\r\n", Some(true)),
            (b"LOCK /a%20b HTTP/1.1\n", Some(true)),
            (b"\n\nDESCRIBE rtsp://h/HTTP/1.1 RTSP/1.0\r\n", Some(false)),
            (b"garbage\n", Some(false)),
            (b"$", Some(false)),
            (b"\x16\x03\x01", Some(false)),
            (b"", None),
            (&[b'a'; FIRST_LINE_BYTES_MAX + 1], Some(false)),
        ] {
            assert_eq!(is_http(first), expected, "{first:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_refused_or_waited_for(
            bytes: Vec<u8>,
            fields in "((Range: bytes=|Content-Length: |Connection: )?[ -~]{0,20}\r?\n|[0-9-]{0,9}){0,9}",
        ) {
            any_request::bytes(&bytes);
            any_request::bytes(format!("GET /{fields}\r\n\r\n").as_bytes());
            any_request::bytes(format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes());
            let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
            prop_assert_eq!(Received::parse(&[b"GET /", endless.as_slice()].concat()), Err(Malformed::TooLarge));
        }
    }
}
