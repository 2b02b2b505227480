//! What comes of the bytes that clients send.

use forebay_rtsp::message::{Method, Request, Status};
use forebay_rtsp::reader::{Limits, Malformed, Reader, Received};
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    line_bytes_max: 100,
    head_bytes_max: 400,
    fields_max: 4,
    body_bytes_max: 20,
    frame_bytes_max: 10,
};

fn read(bytes: &[u8]) -> Vec<Result<Received, Malformed>> {
    read_in_pieces([bytes])
}

fn read_in_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Result<Received, Malformed>> {
    let mut reader = Reader::new(LIMITS);
    let mut all = Vec::new();
    for piece in pieces {
        reader.push(piece);
        all.extend(&mut reader);
    }
    all
}

fn requests(bytes: &[u8]) -> Vec<Request> {
    let requests = read(bytes).into_iter().filter_map(|received| match received {
        Ok(Received::Request(request)) => Some(request),
        _ => None,
    });
    requests.collect()
}

fn malformed(status: Status, cseq: Option<u32>, is_fatal: bool) -> Vec<Result<Received, Malformed>> {
    vec![Err(Malformed { status, cseq, is_fatal })]
}

#[test]
fn pipelined_requests_and_the_frames_between_them_come_in_order() {
    let mut bytes = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".to_vec();
    bytes.extend(b"$\x01\x00\x03abc$\x00\x00\x00");
    bytes.extend(b"SET_PARAMETER rtsp://h/a RTSP/1.0\r\nCSeq: 2\r\nContent-Length: 5\r\n\r\n$a\r\n\r");
    bytes.extend(b"PLAY rtsp://h/a RTSP/1.0\r\nCSeq: 3\r\n\r\n");
    let all = read(&bytes);
    assert_eq!(all.len(), 5, "{all:?}");
    assert!(matches!(&all[0], Ok(Received::Request(one)) if one.method == Method::Options && one.url == "*"));
    assert_eq!(all[1], Ok(Received::Frame { channel: 1, packet: b"abc".to_vec() }));
    assert_eq!(all[2], Ok(Received::Frame { channel: 0, packet: vec![] }));
    assert!(matches!(&all[3], Ok(Received::Request(one)) if one.body == b"$a\r\n\r"));
    assert!(matches!(&all[4], Ok(Received::Request(one)) if one.cseq() == Some(3)));
}

#[test]
fn careless_clients_are_understood() {
    for text in [
        "DESCRIBE rtsp://h/my film RTSP/1.0\r\nCSeq: 7\r\nAccept: x\r\n\r\n",
        "DESCRIBE rtsp://h/my film RTSP/1.0\nCSeq:7\nAccept:x\n\n",
        "\r\n\r\n  describe  rtsp://h/my film   rtsp/1.0  \r\ncseq :  7 \r\nno field\r\nACCEPT: x\r\n\r\n",
        "DESCRIBE\trtsp://h/my film\tRTSP/1.0\r\nCSeq:\r\n 7\r\nAccept:\r\n\tx\r\n\r\n",
    ] {
        let all = requests(text.as_bytes());
        assert_eq!(all.len(), 1, "{text:?}");
        assert_eq!(all[0].method, Method::Describe, "{text:?}");
        assert_eq!(all[0].url, "rtsp://h/my film", "{text:?}");
        assert_eq!(all[0].cseq(), Some(7), "{text:?}");
        assert_eq!(all[0].headers.get("accept").map(str::trim), Some("x"), "{text:?}");
    }
}

#[test]
fn what_is_no_request_is_answered_and_the_next_one_is_read() {
    for (text, status, cseq) in [
        ("OPTIONS * RTSP/2.0\r\nCSeq: 4\r\n\r\n", Status::VersionNotSupported, Some(4)),
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", Status::VersionNotSupported, None),
        ("OPTIONS *\r\nCSeq: 4\r\n\r\n", Status::BadRequest, Some(4)),
        ("OPTIONS\r\nCSeq: 4\r\n\r\n", Status::BadRequest, Some(4)),
        ("OPT(IONS * RTSP/1.0\r\nCSeq: x\r\n\r\n", Status::BadRequest, None),
        ("OPTIONS rtsp://h/\ra RTSP/1.0\r\nCSeq: 4\r\n\r\n", Status::BadRequest, Some(4)),
        ("OPTIONS rtsp://h/\0 RTSP/1.0\r\nCSeq: 4\r\n\r\n", Status::BadRequest, Some(4)),
    ] {
        let all = read(format!("{text}PLAY * RTSP/1.0\r\n\r\n").as_bytes());
        assert_eq!(all[..1], malformed(status, cseq, false), "{text:?}");
        assert!(matches!(&all[1..], [Ok(Received::Request(one))] if one.method == Method::Play), "{text:?}");
    }
}

#[test]
fn what_is_too_large_ends_the_connection() {
    let line = |bytes: usize| format!("OPTIONS {} RTSP/1.0\r\n", "x".repeat(bytes));
    let fields = |count: usize| format!("OPTIONS * RTSP/1.0\r\n{}\r\n", "a:b\r\n".repeat(count));
    let body = |length: &str| format!("OPTIONS * RTSP/1.0\r\nContent-Length: {length}\r\n\r\n");
    for (text, status) in [
        (line(100), Status::RequestUriTooLong),
        ("x".repeat(101), Status::RequestUriTooLong),
        (line(10) + &"y".repeat(101), Status::RequestEntityTooLarge),
        (fields(5), Status::RequestEntityTooLarge),
        (line(10) + &"no field\r\n".repeat(50), Status::RequestEntityTooLarge),
        (body("21"), Status::RequestEntityTooLarge),
        (body("-1"), Status::BadRequest),
        (body("1\r\nContent-Length: 2"), Status::BadRequest),
        (body("99999999999999999999999"), Status::BadRequest),
    ] {
        let all = read(format!("{text}OPTIONS * RTSP/1.0\r\n\r\n").as_bytes());
        assert_eq!(all, malformed(status, None, true), "{text:?}");
    }
    assert_eq!(requests(fields(4).as_bytes()).len(), 1);
    assert_eq!(requests((body("20") + &"z".repeat(20)).as_bytes()).len(), 1);
}

#[test]
fn a_frame_that_is_too_long_and_a_response_are_passed_over() {
    let mut bytes = b"$\x00\x00\x0b".to_vec();
    bytes.extend([b'$'; 11]);
    bytes.extend(b"RTSP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc$\x02\x00\x0a0123456789");
    assert_eq!(read(&bytes), [Ok(Received::Frame { channel: 2, packet: b"0123456789".to_vec() })]);
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"PLAY rtsp://h/a RTSP/1.0\r\nCSeq: 3\r\n\r\n".to_vec()),
        Just(b"SETUP * RTSP/1.0\nContent-Length: 4\n\nbody".to_vec()),
        Just(b"RTSP/1.0 200 OK\r\n\r\n".to_vec()),
        Just(b"OPTIONS x\r\n\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        (any::<u8>(), 0..14u8).prop_map(|(channel, bytes)| {
            let mut frame = vec![b'$', channel, 0, bytes];
            frame.extend(std::iter::repeat_n(b'x', bytes.into()));
            frame
        }),
        prop::collection::vec(any::<u8>(), 0..20),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn where_the_bytes_are_cut_makes_no_difference(
        pieces in prop::collection::vec(piece(), 0..8),
        cuts in prop::collection::vec(1..30usize, 1..20),
    ) {
        let bytes = pieces.concat();
        let mut cut = Vec::new();
        let mut rest = &bytes[..];
        for length in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*length).min(rest.len()));
            cut.push(piece);
            rest = after;
        }
        prop_assert_eq!(read_in_pieces(cut), read(&bytes));
    }

    #[test]
    fn no_bytes_make_it_hold_more_than_its_limits(bytes in prop::collection::vec(piece(), 0..40)) {
        let mut reader = Reader::new(LIMITS);
        for byte in bytes.concat() {
            reader.push(&[byte]);
            while reader.next().is_some() {}
            prop_assert!(reader.pending_bytes() <= LIMITS.head_bytes_max + LIMITS.line_bytes_max);
        }
    }
}
