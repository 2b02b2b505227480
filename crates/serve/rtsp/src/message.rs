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
    pub(crate) fn parse(word: &str) -> Self {
        match word.to_ascii_uppercase().as_str() {
            "OPTIONS" => Self::Options,
            "DESCRIBE" => Self::Describe,
            "SETUP" => Self::Setup,
            "PLAY" => Self::Play,
            "PAUSE" => Self::Pause,
            "TEARDOWN" => Self::Teardown,
            "GET_PARAMETER" => Self::GetParameter,
            "SET_PARAMETER" => Self::SetParameter,
            _ => Self::Other(word.to_owned()),
        }
    }

    /// As it is written on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Options => "OPTIONS",
            Self::Describe => "DESCRIBE",
            Self::Setup => "SETUP",
            Self::Play => "PLAY",
            Self::Pause => "PAUSE",
            Self::Teardown => "TEARDOWN",
            Self::GetParameter => "GET_PARAMETER",
            Self::SetParameter => "SET_PARAMETER",
            Self::Other(word) => word,
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
    pub(crate) fn append(&mut self, mut other: Self) {
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
            Self::Ok => "OK",
            Self::BadRequest => "Bad Request",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::NotAcceptable => "Not Acceptable",
            Self::RequestEntityTooLarge => "Request Entity Too Large",
            Self::RequestUriTooLong => "Request-URI Too Large",
            Self::UnsupportedMediaType => "Unsupported Media Type",
            Self::ParameterNotUnderstood => "Parameter Not Understood",
            Self::NotEnoughBandwidth => "Not Enough Bandwidth",
            Self::SessionNotFound => "Session Not Found",
            Self::MethodNotValidInThisState => "Method Not Valid in This State",
            Self::HeaderFieldNotValidForResource => "Header Field Not Valid for Resource",
            Self::InvalidRange => "Invalid Range",
            Self::AggregateOperationNotAllowed => "Aggregate Operation Not Allowed",
            Self::OnlyAggregateOperationAllowed => "Only Aggregate Operation Allowed",
            Self::UnsupportedTransport => "Unsupported Transport",
            Self::InternalServerError => "Internal Server Error",
            Self::NotImplemented => "Not Implemented",
            Self::ServiceUnavailable => "Service Unavailable",
            Self::VersionNotSupported => "RTSP Version Not Supported",
            Self::OptionNotSupported => "Option not supported",
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
    pub fn new(status: Status) -> Self {
        Self { status, headers: Headers::default(), body: Vec::new() }
    }

    /// With one field more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Display) -> Self {
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
