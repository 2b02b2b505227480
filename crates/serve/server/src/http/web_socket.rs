//! RTSP over WebSocket (RFC 6455), as the ONVIF Streaming Specification has it: the subprotocol is `rtsp.onvif.org`, and each
//! message of RTSP or packet with its head is one binary message.

use std::io::{Cursor, IoSlice};

use forebay_rtsp::server::ConnectionId;
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::State;
use super::request::Received;
use super::response::Response;
use crate::event_loop::Serving;

const PROTOCOL: &str = "rtsp.onvif.org";
/// The longest payload of a control frame (section 5.5).
const CONTROL_BYTES_MAX: usize = 125;
/// What stands before a packet of RTSP (RFC 2326, section 10.12).
const PACKET_HEAD_BYTES: usize = 4;

/// What comes on a WebSocket, frame by frame.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The head of a frame that is not all there, or the payload of a control frame.
    held: Vec<u8>,
    frame: Option<Frame>,
}

#[derive(Debug)]
struct Frame {
    opcode: OpCode,
    mask: [u8; 4],
    /// How much of its payload is still to come, and how much has come.
    left: u64,
    at: usize,
}

/// What a client sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// Bytes of RTSP.
    Rtsp(Vec<u8>),
    Ping(Vec<u8>),
    Close,
}

/// What is no WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Frames {
    /// Takes some of the bytes, and returns what they are; `None` if all are taken.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Incoming>, Broken> {
        loop {
            let Some(frame) = &mut self.frame else {
                if !self.read_head(bytes)? {
                    return Ok(None);
                }
                continue;
            };
            let count = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
            let (own, rest) = bytes.split_at(count);
            *bytes = rest;
            let unmasked = own.iter().zip(frame.at..).map(|(byte, at)| byte ^ frame.mask[at % 4]);
            let payload: Vec<u8> = unmasked.collect();
            (frame.left, frame.at) = (frame.left - count as u64, frame.at + count);
            let (is_over, opcode) = (frame.left == 0, frame.opcode);
            if is_over {
                self.frame = None;
            }
            match opcode {
                OpCode::Data(_) if !payload.is_empty() => return Ok(Some(Incoming::Rtsp(payload))),
                OpCode::Data(_) => {}
                OpCode::Control(_) => self.held.extend(payload),
            }
            if !is_over {
                return Ok(None);
            }
            match opcode {
                OpCode::Control(Control::Ping) => {
                    return Ok(Some(Incoming::Ping(std::mem::take(&mut self.held))));
                }
                OpCode::Control(Control::Close) => return Ok(Some(Incoming::Close)),
                _ => self.held.clear(),
            }
        }
    }

    /// Reads the head of the next frame; returns whether it is all there.
    fn read_head(&mut self, bytes: &mut &[u8]) -> Result<bool, Broken> {
        while let Some((first, rest)) = bytes.split_first() {
            self.held.push(*first);
            *bytes = rest;
            let parsed = FrameHeader::parse(&mut Cursor::new(&self.held)).map_err(|_| Broken)?;
            let Some((header, length)) = parsed else { continue };
            let mask = header.mask.ok_or(Broken)?;
            let is_control = matches!(header.opcode, OpCode::Control(_));
            if header.rsv1 || header.rsv2 || header.rsv3 || (is_control && length > CONTROL_BYTES_MAX as u64)
            {
                return Err(Broken);
            }
            self.held.clear();
            self.frame = Some(Frame { opcode: header.opcode, mask, left: length, at: 0 });
            return Ok(true);
        }
        Ok(false)
    }
}

/// A frame with these bytes.
fn frame(opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { opcode, is_final: true, ..FrameHeader::default() };
    let mut bytes = Vec::with_capacity(payload.len() + 10);
    // Into memory, which does not fail.
    let _ = header.format(payload.len() as u64, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// A response, or packets with their heads: a message each.
pub(crate) fn framed(slices: &[IoSlice<'_>]) -> Vec<u8> {
    let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
    let (mut rest, mut framed) = (all.as_slice(), Vec::with_capacity(all.len() + all.len() / 64 + 16));
    while !rest.is_empty() {
        let bytes = match rest {
            [b'$', _, high, low, ..] => PACKET_HEAD_BYTES + usize::from(u16::from_be_bytes([*high, *low])),
            _ => rest.len(),
        };
        let (message, after) = rest.split_at(bytes.min(rest.len()));
        framed.extend(frame(OpCode::Data(Data::Binary), message));
        rest = after;
    }
    framed
}

impl Received {
    /// Whether it asks for a WebSocket.
    pub(super) fn wants_web_socket(&self) -> bool {
        let headers = &self.request.headers;
        let upgrades = headers.get("Upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"));
        upgrades && self.request.method.as_str() == "GET"
    }
}

impl Serving {
    /// A connection becomes a WebSocket that speaks RTSP.
    pub(super) fn begin_web_socket(&mut self, id: ConnectionId, received: &Received) {
        let headers = &received.request.headers;
        let mut protocols = headers.all("Sec-WebSocket-Protocol").flat_map(|all| all.split(','));
        let speaks_rtsp = protocols.any(|protocol| protocol.trim() == PROTOCOL);
        let key = headers.get("Sec-WebSocket-Key").filter(|key| !key.is_empty());
        let is_known = headers.get("Sec-WebSocket-Version") == Some("13");
        let (Some(key), true, true) = (key, speaks_rtsp, is_known) else {
            let sentence = "a WebSocket here has version 13 and the subprotocol rtsp.onvif.org";
            return self.respond(
                id,
                received,
                &Response::refusal(400, sentence).with("Sec-WebSocket-Version", 13),
            );
        };
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n",
            derive_accept_key(key.as_bytes())
        );
        let rest = self.web.connections.get_mut(&id).map(|talk| std::mem::take(&mut talk.bytes));
        self.set_state(id, State::WebSocket(Frames::default()));
        self.begin_rtsp(id, head.as_bytes());
        if let Some(connection) = self.connections.get_mut(id) {
            connection.is_web_socket = true;
        }
        self.web_socket_received(id, &rest.unwrap_or_default());
    }

    /// Bytes have come on a WebSocket.
    pub(super) fn web_socket_received(&mut self, id: ConnectionId, mut bytes: &[u8]) {
        loop {
            let Some(talk) = self.web.connections.get_mut(&id) else { return };
            let State::WebSocket(frames) = &mut talk.state else { return };
            match frames.next(&mut bytes) {
                Ok(None) => return,
                Ok(Some(Incoming::Rtsp(bytes))) => self.speak_rtsp(id, &bytes),
                Ok(Some(Incoming::Ping(payload))) => {
                    if let Some(connection) = self.connections.get_mut(id) {
                        connection.send_as_it_is(&frame(OpCode::Control(Control::Pong), &payload));
                    }
                }
                Ok(Some(Incoming::Close)) => {
                    if let Some(connection) = self.connections.get_mut(id) {
                        connection.send_as_it_is(&frame(OpCode::Control(Control::Close), &[]));
                    }
                    let actions = self.server.disconnected(id);
                    self.act(actions, id);
                    if let Some(connection) = self.connections.get_mut(id) {
                        connection.is_closing = true;
                    }
                    return;
                }
                Err(Broken) => return self.break_off(id),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As a client sends it.
    fn masked(opcode: OpCode, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let header = FrameHeader { opcode, is_final: true, mask: Some(mask), ..FrameHeader::default() };
        let mut bytes = Vec::new();
        header.format(payload.len() as u64, &mut bytes).expect("memory");
        bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        bytes
    }

    #[test]
    fn packets_and_responses_are_a_message_each() {
        let packets = [b"$\0\0\x02ab".as_slice(), b"$\x01\0\0"];
        let slices =
            [IoSlice::new(&packets[0][..4]), IoSlice::new(&packets[0][4..]), IoSlice::new(packets[1])];
        assert_eq!(framed(&slices), b"\x82\x06$\0\0\x02ab\x82\x04$\x01\0\0");
        assert_eq!(framed(&[IoSlice::new(b"RTSP")]), b"\x82\x04RTSP");
        // What is cut off is sent as it is.
        assert_eq!(framed(&[IoSlice::new(b"$\0\xFF\xFFa")]), b"\x82\x05$\0\xFF\xFFa");
    }

    #[test]
    fn frames_without_masks_and_long_control_frames_are_refused() {
        let long = masked(OpCode::Control(Control::Ping), &[0; 126], [0; 4]);
        for wrong in [frame(OpCode::Data(Data::Binary), b"a"), long, vec![0xF2, 0x80, 0, 0, 0, 0]] {
            assert_eq!(Frames::default().next(&mut wrong.as_slice()), Err(Broken), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn what_clients_send_comes_out_however_it_is_cut(
            messages in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..300), any::<[u8; 4]>()), 0..6),
            cut in 1..50usize,
        ) {
            let (mut sent, mut rtsp, mut pings) = (Vec::new(), Vec::new(), Vec::new());
            for (is_ping, payload, mask) in messages {
                if is_ping {
                    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
                    sent.extend(masked(OpCode::Control(Control::Ping), payload, mask));
                    pings.push(payload.to_vec());
                } else {
                    sent.extend(masked(OpCode::Data(Data::Binary), &payload, mask));
                    rtsp.extend(payload);
                }
            }
            let mut frames = Frames::default();
            let (mut found, mut found_pings) = (Vec::new(), Vec::new());
            for mut piece in sent.chunks(cut) {
                while let Some(one) = frames.next(&mut piece).expect("frames") {
                    match one {
                        Incoming::Rtsp(bytes) => found.extend(bytes),
                        Incoming::Ping(payload) => found_pings.push(payload),
                        Incoming::Close => prop_assert!(false),
                    }
                }
            }
            prop_assert_eq!((found, found_pings), (rtsp, pings));
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes: Vec<u8>) {
            let (mut frames, mut rest) = (Frames::default(), bytes.as_slice());
            while let Ok(Some(_)) = frames.next(&mut rest) {}
        }
    }
}
