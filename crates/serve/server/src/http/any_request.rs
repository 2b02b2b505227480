//! What must hold for any bytes that a client sends on a connection of HTTP, for the property test and for fuzzing.

use super::ranges::{Wanted, part};
use super::request::{Received, is_http};
use super::response::Response;
use super::route::Route;

/// They are read, refused or waited for, and a request is the same wherever its bytes are cut.
pub fn bytes(data: &[u8]) {
    let told = is_http(data);
    for end in [data.len() / 3, data.len() / 2, data.len().saturating_sub(1)] {
        let before = is_http(&data[..end]);
        assert!(before.is_none() || before == told, "{end} bytes tell another protocol than all");
    }
    let Ok(Some(received)) = Received::parse(data) else { return };
    assert!(received.head_bytes <= data.len());
    assert_eq!(Received::parse(&data[..received.head_bytes]), Ok(Some(received.clone())));
    assert_eq!(Received::parse(&data[..received.head_bytes - 1]), Ok(None));
    let _ = (Route::of(&received.request.url), received.body_bytes());
    let method = received.request.method.as_str();
    let answer = Response::to_method(method).unwrap_or_else(|| Response::new("text/plain", "ten bytes."));
    let answer = part(&received, &answer).unwrap_or(answer);
    let length = answer.body.len();
    let head = answer.head(None, Some(length as u64), received.keeps_alive);
    assert!(head.ends_with("\r\n\r\n") && !head[..head.len() - 4].contains("\r\n\r\n"), "{head}");
    if let Some(range) = Wanted::of(&received).and_then(|wanted| wanted.of_length(10)) {
        assert!(range.start < range.end && range.end <= 10, "{range:?}");
        assert!(answer.status != 206 || range.end - range.start == length as u64, "{range:?}");
    }
}
