//! Requests for a part of a body (RFC 9110, section 14): one range of bytes. Several ranges get the whole, and so does a range that a
//! validator comes with, since responses have none.

use std::ops::Range;

use super::request::Received;
use super::response::Response;

/// A range, before it is known how long the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// From this byte up to that one, which is part of it, or to the end.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Last(u64),
}

impl Wanted {
    /// What a request asks for; `None` for the whole.
    pub fn of(received: &Received) -> Option<Self> {
        let headers = &received.request.headers;
        let is_plain = received.request.method.as_str() == "GET" && headers.get("If-Range").is_none();
        let mut ranges = headers.all("Range").filter(|_| is_plain);
        let range = ranges.next().filter(|_| ranges.next().is_none())?;
        let (unit, range) = range.split_once('=')?;
        let (first, last) = range.trim().split_once('-').filter(|_| unit.eq_ignore_ascii_case("bytes"))?;
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            // More digits than that are beyond the end of everything.
            true if !text.is_empty() => Some(text.parse().unwrap_or(u64::MAX)),
            _ => None,
        };
        match (number(first), number(last)) {
            (Some(first), None) if last.is_empty() => Some(Self::From(first, None)),
            (Some(first), Some(last)) if first <= last => Some(Self::From(first, Some(last))),
            (None, Some(count)) if first.is_empty() => Some(Self::Last(count)),
            _ => None,
        }
    }

    /// Which bytes of so many; `None` without any.
    pub fn of_length(self, length: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From(first, last) => first..last.map_or(length, |last| last.saturating_add(1).min(length)),
            Self::Last(count) => length.saturating_sub(count)..length,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// A part of a response's body, if that is what a request wants.
pub(super) fn part(received: &Received, whole: &Response) -> Option<Response> {
    let wanted = Wanted::of(received).filter(|_| whole.status == 200)?;
    let length = whole.body.len() as u64;
    let Some(range) = wanted.of_length(length) else { return Some(Response::unsatisfiable(length)) };
    let body = &whole.body[range.start as usize..range.end as usize];
    let part = Response { fields: whole.fields.clone(), ..Response::new(whole.kind, body) };
    Some(part.of_range(&range, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_a_part_of_the_body_or_not_in_it() {
        for (fields, expected) in [
            ("", Some((200, "0123456789", ""))),
            ("Range: bytes=2-4", Some((206, "234", "bytes 2-4/10"))),
            ("range: Bytes=2-", Some((206, "23456789", "bytes 2-9/10"))),
            ("Range: bytes=8-99999999999999999999999", Some((206, "89", "bytes 8-9/10"))),
            ("Range: bytes=-3", Some((206, "789", "bytes 7-9/10"))),
            ("Range: bytes=-30", Some((206, "0123456789", "bytes 0-9/10"))),
            ("Range: bytes=10-", None),
            ("Range: bytes=99999999999999999999999-", None),
            ("Range: bytes=-0", None),
            ("Range: bytes=4-2", Some((200, "0123456789", ""))),
            ("Range: bytes=0-1,4-5", Some((200, "0123456789", ""))),
            ("Range: bytes=0-1\r\nRange: bytes=4-5", Some((200, "0123456789", ""))),
            ("Range: bytes=+2-4", Some((200, "0123456789", ""))),
            ("Range: bytes=-", Some((200, "0123456789", ""))),
            ("Range: pages=1-2", Some((200, "0123456789", ""))),
            ("Range: bytes=2-4\r\nIf-Range: \"x\"", Some((200, "0123456789", ""))),
        ] {
            let request = format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
            let received = Received::parse(request.as_bytes()).expect("a request").expect("all of it");
            let whole = Response::new("text/plain", "0123456789");
            let got = part(&received, &whole).unwrap_or(whole);
            let (status, body, range) = expected.unwrap_or((416, "", "bytes */10"));
            assert_eq!(got.status, status, "{fields}");
            assert!(status == 416 || got.body == body.as_bytes(), "{fields}: {got:?}");
            let field = got.fields.iter().find(|(name, _)| *name == "Content-Range");
            assert_eq!(field.map_or("", |(_, value)| value), range, "{fields}");
        }
    }
}
