//! What a request is about: the path of a presentation, and one of its tracks.

use percent_encoding::percent_decode_str;

/// The last part of a track's URL, before its number.
const TRACK: &str = "trackID=";

/// A request's URL, `rtsp://host:port/path/trackID=1?query` (RFC 2326, section 3.2), taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The path with its percent signs decoded, without a slash at its beginning or end; not yet safe to open. Bytes that are no
    /// UTF-8 are escaped as [`text_of`] does.
    pub path: String,
    /// What follows the question mark, as it was written.
    pub query: String,
    /// Which track of the presentation, if it is about one only.
    pub track: Option<usize>,
}

impl Target {
    /// Also of a URL without host, as some clients send. `None` if it decodes to a zero byte.
    pub fn parse(url: &str) -> Option<Self> {
        let (path, query) = split_host(url).split_once('?').unwrap_or((split_host(url), ""));
        // Clients add a track's name to the base of the presentation, be there a query in it or not.
        let (query, query_track) = split_track(query);
        let (path, path_track) = split_track(path);
        let path: Vec<u8> = percent_decode_str(path.trim_matches('/')).collect();
        if path.contains(&0) {
            return None;
        }
        let query = query.trim_end_matches('/').to_owned();
        Some(Self { path: text_of(&path), query, track: path_track.or(query_track) })
    }

    /// Whether both are of the same presentation.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.path == other.path && self.query == other.query
    }
}

/// Stands for the byte 0 in texts that are no UTF-8; the other bytes follow (a private use of Unicode).
const ESCAPE: u32 = 0xF700;

fn is_escape(sign: char) -> bool {
    (ESCAPE + 0x80..ESCAPE + 0x100).contains(&u32::from(sign))
}

/// A name as text. A byte that is no UTF-8 becomes a sign of its own, so that [`bytes_of`] gives back the name.
pub fn text_of(name: &[u8]) -> String {
    let mut text = String::new();
    let escape = |byte: &u8| char::from_u32(ESCAPE + u32::from(*byte)).unwrap_or(char::REPLACEMENT_CHARACTER);
    for chunk in name.utf8_chunks() {
        for sign in chunk.valid().chars() {
            // A name may have these signs itself: then their bytes are escaped.
            if is_escape(sign) {
                text.extend(sign.encode_utf8(&mut [0; 4]).as_bytes().iter().map(escape));
            } else {
                text.push(sign);
            }
        }
        text.extend(chunk.invalid().iter().map(escape));
    }
    text
}

/// The name that a text stands for.
pub fn bytes_of(text: &str) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    for sign in text.chars() {
        if is_escape(sign) {
            name.push((u32::from(sign) - ESCAPE) as u8);
        } else {
            name.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    name
}

/// How a track is called within its presentation.
pub fn track_name(track: usize) -> String {
    format!("{TRACK}{track}")
}

/// Without scheme and host.
fn split_host(url: &str) -> &str {
    match url.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            rest.find(['/', '?']).map_or("", |end| &rest[end..])
        }
        _ => url,
    }
}

fn split_track(part: &str) -> (&str, Option<usize>) {
    let whole = part.trim_end_matches('/');
    let (before, last) = whole.rsplit_once('/').unwrap_or(("", whole));
    let number = last
        .get(..TRACK.len())
        .filter(|start| start.eq_ignore_ascii_case(TRACK))
        .map(|_| &last[TRACK.len()..]);
    match number.and_then(|number| number.parse().ok()) {
        Some(track) => (before, Some(track)),
        None => (part, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str, query: &str, track: Option<usize>) -> Option<Target> {
        Some(Target { path: path.to_owned(), query: query.to_owned(), track })
    }

    #[test]
    fn a_url_is_taken_apart_however_clients_put_it_together() {
        for (url, expected) in [
            ("rtsp://host:8554/films/a%20b.mp4", target("films/a b.mp4", "", None)),
            ("RTSPS://[::1]:322/a.mp4/", target("a.mp4", "", None)),
            ("rtsp://host/a.mp4/trackID=1", target("a.mp4", "", Some(1))),
            ("rtsp://host/a.mp4/trackid=1/", target("a.mp4", "", Some(1))),
            ("rtsp://host/a.mp4?loop=1", target("a.mp4", "loop=1", None)),
            ("rtsp://host/a.mp4?loop=1/trackID=0", target("a.mp4", "loop=1", Some(0))),
            ("rtsp://host/a.mp4/trackID=2?loop=1", target("a.mp4", "loop=1", Some(2))),
            ("rtsp://host/a.mp4?loop=1/", target("a.mp4", "loop=1", None)),
            ("/a.mp4/trackID=0", target("a.mp4", "", Some(0))),
            ("a.mp4", target("a.mp4", "", None)),
            ("rtsp://host", target("", "", None)),
            ("*", target("*", "", None)),
            ("rtsp://host/a/trackID=one", target("a/trackID=one", "", None)),
            ("rtsp://host/%ff", target("\u{F7FF}", "", None)),
            ("rtsp://host/a%0Ab", target("a\nb", "", None)),
            ("rtsp://host/a%00b", None),
        ] {
            assert_eq!(Target::parse(url), expected, "{url}");
        }
    }

    proptest::proptest! {
        #[test]
        fn names_of_any_bytes_come_back_from_their_texts(name: Vec<u8>, text in "[\u{F770}-\u{F810}a]{0,9}") {
            proptest::prop_assert_eq!(bytes_of(&text_of(&name)), name);
            proptest::prop_assert_eq!(bytes_of(&text_of(text.as_bytes())), text.as_bytes());
        }
    }
}
