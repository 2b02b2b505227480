//! Requests, responses and interleaved frames of RTSP 1.0 (RFC 2326, sections 4 to 8 and 10.12).

use std::fmt::{self, Display, Write};

/// What a request asks for (RFC 2326, section 10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// Which methods there are.
    Options,
    /// What a presentation consists of.
    Describe,
    /// How a track is to be sent.
    Setup,
    /// Send, from a position if one is given.
    Play,
    /// Stop sending for now.
    Pause,
    /// Stop sending for good.
    Teardown,
    /// A parameter's value, or a sign of life.
    GetParameter,
    /// A parameter's new value.
    SetParameter,
    /// Any other, as it was written.
    Other(String),
}

/// Those that a player needs, as `Public` and `Allow` list them.
pub const METHODS: &str = "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";

impl Method {
    /// Case is forgiven, though the grammar has capitals only.
    pub(crate) fn parse(word: &str) -> Method {
        match word.to_ascii_uppercase().as_str() {
            "OPTIONS" => Method::Options,
            "DESCRIBE" => Method::Describe,
            "SETUP" => Method::Setup,
            "PLAY" => Method::Play,
            "PAUSE" => Method::Pause,
            "TEARDOWN" => Method::Teardown,
            "GET_PARAMETER" => Method::GetParameter,
            "SET_PARAMETER" => Method::SetParameter,
            _ => Method::Other(word.to_owned()),
        }
    }

    /// As it is written on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Options => "OPTIONS",
            Method::Describe => "DESCRIBE",
            Method::Setup => "SETUP",
            Method::Play => "PLAY",
            Method::Pause => "PAUSE",
            Method::Teardown => "TEARDOWN",
            Method::GetParameter => "GET_PARAMETER",
            Method::SetParameter => "SET_PARAMETER",
            Method::Other(word) => word,
        }
    }
}

/// Header fields in the order of their lines. Names are compared without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The values of all fields of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more field, after the others.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// All of another's, after the others.
    pub(crate) fn append(&mut self, mut other: Headers) {
        self.0.append(&mut other.0);
    }

    /// More of the last field, from a line that begins with a space (RFC 2068, section 4.2).
    pub(crate) fn fold(&mut self, more: &str) {
        if let Some((_, value)) = self.0.last_mut() {
            value.push(' ');
            value.push_str(more);
        }
    }
}

/// What a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub method: Method,
    /// Of what, as it was written: a URL or `*`.
    pub url: String,
    /// Its header fields.
    pub headers: Headers,
    /// What follows them.
    pub body: Vec<u8>,
}

impl Request {
    /// The number that its response repeats (RFC 2326, section 12.17). `None` if it is missing or no number.
    pub fn cseq(&self) -> Option<u32> {
        cseq(&self.headers)
    }
}

pub(crate) fn cseq(headers: &Headers) -> Option<u32> {
    headers.get("CSeq")?.trim().parse().ok()
}

/// How a request went (RFC 2326, section 7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their reasons say the same")]
pub enum Status {
    Ok = 200,
    BadRequest = 400,
    Unauthorized = 401,
    Forbidden = 403,
    NotFound = 404,
    MethodNotAllowed = 405,
    NotAcceptable = 406,
    RequestEntityTooLarge = 413,
    RequestUriTooLong = 414,
    UnsupportedMediaType = 415,
    ParameterNotUnderstood = 451,
    NotEnoughBandwidth = 453,
    SessionNotFound = 454,
    MethodNotValidInThisState = 455,
    HeaderFieldNotValidForResource = 456,
    InvalidRange = 457,
    AggregateOperationNotAllowed = 459,
    OnlyAggregateOperationAllowed = 460,
    UnsupportedTransport = 461,
    InternalServerError = 500,
    NotImplemented = 501,
    ServiceUnavailable = 503,
    VersionNotSupported = 505,
    OptionNotSupported = 551,
}

impl Status {
    /// The three digits.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// The words that follow them.
    pub fn reason(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::BadRequest => "Bad Request",
            Status::Unauthorized => "Unauthorized",
            Status::Forbidden => "Forbidden",
            Status::NotFound => "Not Found",
            Status::MethodNotAllowed => "Method Not Allowed",
            Status::NotAcceptable => "Not Acceptable",
            Status::RequestEntityTooLarge => "Request Entity Too Large",
            Status::RequestUriTooLong => "Request-URI Too Large",
            Status::UnsupportedMediaType => "Unsupported Media Type",
            Status::ParameterNotUnderstood => "Parameter Not Understood",
            Status::NotEnoughBandwidth => "Not Enough Bandwidth",
            Status::SessionNotFound => "Session Not Found",
            Status::MethodNotValidInThisState => "Method Not Valid in This State",
            Status::HeaderFieldNotValidForResource => "Header Field Not Valid for Resource",
            Status::InvalidRange => "Invalid Range",
            Status::AggregateOperationNotAllowed => "Aggregate Operation Not Allowed",
            Status::OnlyAggregateOperationAllowed => "Only Aggregate Operation Allowed",
            Status::UnsupportedTransport => "Unsupported Transport",
            Status::InternalServerError => "Internal Server Error",
            Status::NotImplemented => "Not Implemented",
            Status::ServiceUnavailable => "Service Unavailable",
            Status::VersionNotSupported => "RTSP Version Not Supported",
            Status::OptionNotSupported => "Option not supported",
        }
    }
}

impl Display for Status {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {}", self.code(), self.reason())
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// How it went.
    pub status: Status,
    /// Its header fields, but `Content-Length`.
    pub headers: Headers,
    /// What follows them.
    pub body: Vec<u8>,
}

impl Response {
    /// One without fields and body.
    pub fn new(status: Status) -> Response {
        Response { status, headers: Headers::default(), body: Vec::new() }
    }

    /// With one field more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Display) -> Response {
        self.headers.push(name, value.to_string());
        self
    }

    /// As it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("RTSP/1.0 {}\r\n", self.status);
        for (name, value) in &self.headers.0 {
            write!(head, "{name}: {value}\r\n").expect("a string takes everything");
        }
        if !self.body.is_empty() {
            write!(head, "Content-Length: {}\r\n", self.body.len()).expect("a string takes everything");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// What stands before a packet of `bytes` bytes that is sent on the control connection (RFC 2326, section 10.12).
///
/// ```text
///  0        1        2                 4
///  +--------+--------+--------+--------+----
///  |  '$'   |channel |      length     | packet
///  +--------+--------+--------+--------+----
/// ```
pub fn frame_header(channel: u8, bytes: u16) -> [u8; 4] {
    let [high, low] = bytes.to_be_bytes();
    [b'$', channel, high, low]
}
