//! A request of HTTP, from its bytes (RFC 9112).

use forebay_rtsp::message::{Headers, Method, Request};

/// The most header fields of a request. Browsers send about twenty.
const FIELDS_MAX: usize = 64;
/// The longest head of a request.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;

/// A request, and what is to be known for its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
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
pub(super) enum Malformed {
    Request,
    TooLarge,
    /// Only requests to tunnels have one.
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

    /// A request for something to see has no body, so that no two readers disagree where the next one begins.
    pub fn without_body(self) -> Result<Self, Malformed> {
        let headers = &self.request.headers;
        let has_length = headers.all("Content-Length").any(|length| length != "0");
        if has_length || headers.get("Transfer-Encoding").is_some() {
            return Err(Malformed::HasBody);
        }
        Ok(self)
    }
}

/// Whether what a client sent first can be HTTP; `None` if more of it has to be known.
pub(crate) fn is_http(first: &[u8]) -> Option<bool> {
    const METHODS: [&[u8]; 3] = [b"GET ", b"HEAD ", b"POST "];
    if METHODS.iter().any(|method| first.starts_with(method)) {
        return Some(true);
    }
    METHODS.iter().all(|method| !method.starts_with(first)).then_some(false)
}

#[cfg(test)]
mod tests {
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
        let with_body = Received::parse(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx").expect("a request");
        assert_eq!(with_body.expect("all of it").without_body(), Err(Malformed::HasBody));
        assert_eq!(Received::parse(b"GET / RTSP/1.0\r\n\r\n"), Err(Malformed::Request));
    }

    #[test]
    fn the_first_bytes_tell_http_from_rtsp() {
        for (first, expected) in [
            (&b"GET /"[..], Some(true)),
            (b"GET_PARAMETER", Some(false)),
            (b"G", None),
            (b"POST", None),
            (b"OPTIONS", Some(false)),
            (b"$", Some(false)),
        ] {
            assert_eq!(is_http(first), expected, "{first:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_refused_or_waited_for(bytes: Vec<u8>, fields in "[ -~\r\n]{0,300}") {
            let _ = Received::parse(&bytes);
            let _ = Received::parse(format!("GET /{fields}\r\n\r\n").as_bytes());
            let endless = vec![b'a'; HEAD_BYTES_MAX + 1];
            prop_assert_eq!(Received::parse(&[b"GET /", endless.as_slice()].concat()), Err(Malformed::TooLarge));
        }
    }
}
