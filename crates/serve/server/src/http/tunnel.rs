//! RTSP within HTTP, as players use it where only HTTP passes: responses and packets on a GET, requests in base64 on a POST.
//!
//! ```text
//!   GET,  x-sessioncookie: C  -->            the connection that RTSP is spoken on
//!                             <-- responses, packets
//!   POST, x-sessioncookie: C  --> base64 --> its requests
//! ```
//!
//! The RTSP within authenticates its user, so a tunnel needs no password of its own.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use forebay_rtsp::server::ConnectionId;

use super::request::Received;
use super::response::Response;
use super::{State, Web};
use crate::clock;
use crate::event_loop::Serving;

const KIND: &str = "application/x-rtsp-tunnelled";
/// The longest cookie.
const COOKIE_BYTES_MAX: usize = 256;
/// What may wait for a client that sends requests and takes no responses.
const BACKLOG_BYTES_MAX: usize = 1 << 20;

/// What two connections of a tunnel have in common: the client's address and its cookie.
pub(super) type Cookie = (IpAddr, String);

/// Base64 that comes in pieces. A client encodes each request by itself, so padding may stand anywhere.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    quad: Vec<u8>,
}

impl Decoder {
    /// The bytes that are complete; `None` for what is no base64.
    pub fn decode(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(text.len());
        for sign in text.iter().filter(|sign| !sign.is_ascii_whitespace()) {
            self.quad.push(*sign);
            if self.quad.len() == 4 {
                BASE64_STANDARD.decode_vec(&self.quad, &mut bytes).ok()?;
                self.quad.clear();
            }
        }
        Some(bytes)
    }
}

impl Received {
    /// The cookie of a request for a tunnel.
    pub(super) fn cookie(&self, client: IpAddr) -> Option<Cookie> {
        let cookie = self.request.headers.get("x-sessioncookie")?;
        let is_half = matches!(self.request.method.as_str(), "GET" | "POST");
        (is_half && cookie.len() <= COOKIE_BYTES_MAX).then(|| (client, cookie.to_owned()))
    }
}

impl Web {
    /// The connection of RTSP that a cookie stands for.
    fn tunnel(&self, cookie: &Cookie) -> Option<ConnectionId> {
        self.tunnels.get(cookie).copied()
    }
}

impl Serving {
    /// A connection becomes one half of a tunnel.
    pub(super) fn begin_tunnel(&mut self, id: ConnectionId, received: &Received, cookie: Cookie) {
        if received.request.method.as_str() == "POST" {
            match self.web.tunnel(&cookie) {
                Some(out) => {
                    let rest = self.web.connections.get_mut(&id).map(|talk| std::mem::take(&mut talk.bytes));
                    self.set_state(id, State::TunnelIn { out, decoder: Decoder::default() });
                    self.tunnel_received(id, &rest.unwrap_or_default());
                }
                None => {
                    self.respond(id, received, &Response::refusal(404, "the GET of this tunnel is missing"))
                }
            }
            return;
        }
        if self.web.tunnel(&cookie).is_some() {
            let response = Response::refusal(400, "another tunnel has this x-sessioncookie");
            return self.respond(id, received, &response);
        }
        let head = Response::new(KIND, "").with("Pragma", "no-cache").head(None, None, false);
        // Old players know no later version.
        let head = head.replacen("HTTP/1.1", "HTTP/1.0", 1);
        self.web.tunnels.insert(cookie.clone(), id);
        self.set_state(id, State::TunnelOut { cookie });
        self.begin_rtsp(id, head.as_bytes());
    }

    /// RTSP is spoken on a connection from now on, after these bytes.
    pub(super) fn begin_rtsp(&mut self, id: ConnectionId, head: &[u8]) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.send(head);
        let (client, host) = (connection.client.ip(), connection.host.ip());
        self.server.connected(id, client, host, connection.is_encrypted(), clock::now_ns());
    }

    /// Bytes have come on the POST of a tunnel.
    pub(super) fn tunnel_received(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(talk) = self.web.connections.get_mut(&id) else { return };
        let State::TunnelIn { out, decoder } = &mut talk.state else { return };
        let (out, decoded) = (*out, decoder.decode(bytes));
        let backlog_bytes = self.connections.get(out).map(|one| one.backlog_bytes());
        match (decoded, backlog_bytes) {
            (Some(decoded), Some(waiting)) if waiting <= BACKLOG_BYTES_MAX => {
                self.speak_rtsp(out, &decoded);
                self.tend(out);
            }
            _ => {
                self.break_off(out);
                self.tend(out);
                self.break_off(id);
            }
        }
    }

    /// What a client says in RTSP within HTTP.
    pub(super) fn speak_rtsp(&mut self, id: ConnectionId, bytes: &[u8]) {
        let now_ns = clock::now_ns();
        self.set_date(now_ns);
        let actions = self.server.received(id, bytes, now_ns);
        self.act(actions, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_come_out_however_they_are_encoded_and_cut(
            requests in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            cut in 1..9usize,
        ) {
            let encode = |request: &Vec<u8>| BASE64_STANDARD.encode(request) + "\r\n";
            let text: String = requests.iter().map(encode).collect();
            let mut decoder = Decoder::default();
            let decode = |piece: &[u8]| decoder.decode(piece).expect("base64");
            let decoded: Vec<u8> = text.as_bytes().chunks(cut).flat_map(decode).collect();
            prop_assert_eq!(decoded, requests.concat());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = Decoder::default().decode(&bytes);
        }
    }
}
