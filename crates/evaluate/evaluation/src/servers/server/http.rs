//! What of HTTP/1.1 a client needs that asks for documents (RFC 9112): the answer's head, and where its body ends.

/// The most that the head of an answer may take, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// An address that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// Name or number of the host, and the port.
    pub(super) authority: String,
    /// From the first slash on.
    pub(super) path: String,
}

impl Url {
    /// Of `http://HOST:PORT/PATH`; a sentence where it is something else.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").filter(|rest| !rest.is_empty());
        let rest = rest.ok_or_else(|| {
            format!("'{url}' is no address for clients of forebay; give http://HOST:PORT/PATH")
        })?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let port = if authority.contains(':') { "" } else { ":80" };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { authority: format!("{authority}{port}"), path: path.to_owned() })
    }
}

/// The request for `path`.
pub(super) fn request(authority: &str, path: &str, close: bool) -> Vec<u8> {
    let connection = if close { "Connection: close\r\n" } else { "" };
    format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: forebay\r\n{connection}\r\n")
        .into_bytes()
}

/// An answer that is on its way.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// As long as it is not complete.
    head: Vec<u8>,
    answer: Option<Answer>,
    /// Bytes of the body so far.
    bytes: u64,
}

/// What the head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    length: Option<u64>,
    keeps: bool,
}

/// An answer that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) status: u16,
    /// Of the body.
    pub(super) bytes: u64,
    /// Whether the connection serves another request.
    pub(super) keeps: bool,
}

impl Incoming {
    /// Takes what came; the answer where it is complete now.
    pub(super) fn take(&mut self, came: &[u8]) -> Result<Option<Answered>, String> {
        if self.answer.is_some() {
            self.bytes += came.len() as u64;
        } else {
            self.head.extend_from_slice(came);
            self.read_head()?;
        }
        let complete = self.answer.filter(|answer| answer.length.is_some_and(|length| self.bytes >= length));
        Ok(complete.map(|answer| self.end(answer)))
    }

    /// The other side has closed; the answer where that is how it ends.
    pub(super) fn closed(&mut self) -> Option<Answered> {
        let answer = self.answer.filter(|answer| answer.length.is_none())?;
        Some(Answered { keeps: false, ..self.end(answer) })
    }

    fn end(&mut self, answer: Answer) -> Answered {
        let ended = std::mem::take(self);
        Answered { status: answer.status, bytes: ended.bytes, keeps: answer.keeps }
    }

    fn read_head(&mut self) -> Result<(), String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let parsed =
            response.parse(&self.head).map_err(|error| format!("the answer is no HTTP/1.1: {error}"))?;
        let httparse::Status::Complete(length) = parsed else {
            let fits = self.head.len() <= HEAD_BYTES_MAX;
            return if fits { Ok(()) } else { Err("the head of the answer is longer than 64 KiB".into()) };
        };
        let header = |name: &str| {
            let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| String::from_utf8_lossy(header.value).trim().to_ascii_lowercase())
        };
        if header("transfer-encoding").is_some() {
            return Err(
                "the answer comes in chunks of unknown number, which forebay's clients do not read; use load"
                    .into(),
            );
        }
        let connection = header("connection").unwrap_or_default();
        let keeps = response.version == Some(1) && connection != "close";
        let length_told = header("content-length").and_then(|length| length.parse().ok());
        self.answer = Some(Answer { status: response.code.unwrap_or(0), length: length_told, keeps });
        self.bytes = (self.head.len() - length) as u64;
        self.head.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    #[test]
    fn an_answer_ends_where_its_length_says_however_it_comes() {
        for split in 0..ANSWER.len() {
            let mut incoming = Incoming::default();
            assert_eq!(incoming.take(&ANSWER[..split]), Ok(None), "{split}");
            let answered = incoming.take(&ANSWER[split..]).unwrap();
            assert_eq!(answered, Some(Answered { status: 200, bytes: 5, keeps: true }), "{split}");
        }
    }

    #[test]
    fn an_answer_without_a_length_ends_with_the_connection() {
        let mut incoming = Incoming::default();
        assert_eq!(incoming.take(b"HTTP/1.0 404 Not Found\r\n\r\nno"), Ok(None));
        assert_eq!(incoming.closed(), Some(Answered { status: 404, bytes: 2, keeps: false }));
        assert_eq!(Incoming::default().closed(), None);
    }

    #[test]
    fn what_is_no_answer_is_told() {
        assert!(Incoming::default().take(b"220 smtp ready\r\n").unwrap_err().contains("no HTTP"));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(Incoming::default().take(chunked).unwrap_err().contains("use load"));
    }

    #[test]
    fn addresses_have_a_host_a_port_and_a_path() {
        let url = |authority: &str, path: &str| Ok(Url { authority: authority.into(), path: path.into() });
        assert_eq!(Url::parse("http://127.0.0.1:80/a/b"), url("127.0.0.1:80", "/a/b"));
        assert_eq!(Url::parse("http://localhost"), url("localhost:80", "/"));
        assert!(Url::parse("https://localhost/").unwrap_err().contains("give http://"));
    }
}
