//! Films that are watched over HTTP while they are being recorded: playlists that grow, parts that are sent as soon as they are written,
//! and the end.
#![forbid(unsafe_code)]

mod support;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use support::recording::Recording;
use support::{Folder, LIMIT, Server, frames, until};

/// A client that keeps its connection.
struct Client(BufReader<TcpStream>);

impl Client {
    fn of(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, path: &str) {
        write!(self.0.get_mut(), "GET /a.mp4/{path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("the server reads");
    }

    /// The status and the body of a response.
    fn response(&mut self) -> (u16, Vec<u8>) {
        let mut line = || {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("the server answers");
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut length = None;
        loop {
            let field = line().to_ascii_lowercase();
            if field.is_empty() {
                break;
            }
            let told = field.strip_prefix("content-length: ").and_then(|length| length.parse().ok());
            length = length.or(told);
        }
        let mut body = vec![0; length.unwrap_or(0)];
        self.0.read_exact(&mut body).expect("all of it");
        while length.is_none() {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a chunk");
            let mut chunk = vec![0; usize::from_str_radix(line.trim_end(), 16).expect("its length") + 2];
            self.0.read_exact(&mut chunk).expect("all of it");
            body.extend(&chunk[..chunk.len() - 2]);
            if chunk.len() == 2 {
                break;
            }
        }
        (status, body)
    }

    fn get(&mut self, path: &str) -> (u16, Vec<u8>) {
        self.ask(path);
        self.response()
    }

    fn playlist(&mut self, query: &str) -> String {
        let (status, body) = self.get(&format!("media_0_1.m3u8{query}"));
        let text = String::from_utf8(body).expect("text");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// Once it is known that the film is being recorded.
    fn playlist_of_recording(&mut self) -> String {
        let mut playlist = String::new();
        until("it is seen to be recorded", || {
            playlist = self.playlist("");
            playlist.contains("#EXT-X-PLAYLIST-TYPE:EVENT\n") && !playlist.contains("#EXT-X-START")
        });
        playlist
    }

    fn has_no_response(&mut self) -> bool {
        let stream = self.0.get_mut();
        stream.set_nonblocking(true).expect("a mode");
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).expect("a mode");
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

/// The part that comes next: its URL, its segment as playlists count, and its number.
fn hinted(playlist: &str) -> (String, usize, usize) {
    let hint = playlist.lines().find_map(|line| line.strip_prefix("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\""));
    let url = hint.unwrap_or_else(|| panic!("a hint: {playlist}")).trim_end_matches('"').to_owned();
    let mut numbers = url.split('_').skip(1).map(|number| number.parse().expect("a number"));
    let first = playlist.lines().find_map(|line| line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:"));
    let first: usize = first.and_then(|number| number.parse().ok()).expect("a number");
    let [segment, part] = [numbers.next(), numbers.next()].map(|number| number.expect("a number"));
    (url, segment + first, part)
}

#[test]
fn what_is_asked_for_before_it_is_recorded_is_sent_as_soon_as_it_is() {
    let test = "what_is_asked_for_before_it_is_recorded_is_sent_as_soon_as_it_is";
    let Some(films) = Folder::new(test) else { return };
    let recording = Recording::begin(&films, 12);
    let server = Server::start(recording.beside.root());
    let goes_on = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| recording.write(&goes_on));
        let mut client = Client::of(&server);
        let first = client.playlist_of_recording();
        let (url, segment, part) = hinted(&first);
        let later = |url: &str| {
            let (before, rest) = url.split_once(&format!("_{part}_")).expect("a part");
            format!("{before}_{}_{rest}", part + 1)
        };
        let [mut reload, mut preload] = [Client::of(&server), Client::of(&server)];
        reload.ask(&format!("media_0_1.m3u8?_HLS_msn={segment}&_HLS_part={part}"));
        preload.ask(&url);
        // What there is already is sent at once, and what is far away is refused.
        let again = client.playlist(&format!("?_HLS_msn={}&_HLS_part=0&_HLS_skip=YES", segment - 1));
        assert_eq!(hinted(&again), (url.clone(), segment, part));
        assert_eq!(client.get("media_0_1.m3u8?_HLS_msn=99").0, 400);
        assert_eq!(client.get("media_0_1.m3u8?_HLS_part=1").0, 404);
        assert_eq!(client.get(&later(&url)).0, 404);
        assert_eq!(client.get("segment_77_0_1.m4s").0, 404);
        assert!(reload.has_no_response() && preload.has_no_response(), "they wait");
        goes_on.store(true, Ordering::Relaxed);
        let (status, body) = reload.response();
        let body = String::from_utf8(body).expect("text");
        assert_eq!(status, 200, "{body}");
        assert!(body.contains(&format!("#EXT-X-PART:DURATION=1.000000,URI=\"{url}\"")), "{body}");
        let (status, body) = preload.response();
        assert_eq!((status, body.get(4..8)), (200, Some(&b"moof"[..])));
        // It is the same when it is asked for again.
        assert_eq!(client.get(&url), (200, body));
        let mut last = String::new();
        until("the recording ends", || {
            last = client.playlist("");
            last.contains("#EXT-X-ENDLIST")
        });
        // A player that asked for what does not come gets the end.
        assert_eq!(client.playlist("?_HLS_msn=77"), last);
        let names = |text: &str| {
            text.lines().filter(|line| line.starts_with("segment_")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(names(&last).starts_with(&names(&first)) && names(&last).len() > names(&first).len());
    });
    until("memory is given back", || server.metric("forebay_buffer_bytes") == 0);
}

#[test]
fn a_client_that_leaves_while_it_waits_leaves_nothing_behind() {
    let Some(films) = Folder::new("a_client_that_leaves_while_it_waits_leaves_nothing_behind") else {
        return;
    };
    let recording = Recording::begin(&films, 12);
    let server = Server::start(recording.beside.root());
    let goes_on = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| recording.write(&goes_on));
        let mut client = Client::of(&server);
        let (_, segment, _) = hinted(&client.playlist_of_recording());
        let before = server.metric("forebay_connections");
        let mut others: Vec<Client> = (0..20).map(|_| Client::of(&server)).collect();
        others.iter_mut().for_each(|other| other.ask(&format!("media_0_1.m3u8?_HLS_msn={segment}")));
        until("they have come", || server.metric("forebay_connections") >= before + 20);
        assert!(others.iter_mut().all(Client::has_no_response), "they wait");
        drop(others);
        until("they are gone", || server.metric("forebay_connections") <= before);
        goes_on.store(true, Ordering::Relaxed);
        until("the recording ends", || client.playlist("").contains("#EXT-X-ENDLIST"));
    });
}

#[test]
fn a_player_that_begins_amid_a_recording_gets_all_of_it() {
    let Some(films) = Folder::new("a_player_that_begins_amid_a_recording_gets_all_of_it") else { return };
    let recording = Recording::begin(&films, 12);
    let server = Server::start(recording.beside.root());
    let goes_on = AtomicBool::new(false);
    let played = thread::scope(|scope| {
        scope.spawn(|| recording.write(&goes_on));
        let mut client = Client::of(&server);
        client.playlist_of_recording();
        goes_on.store(true, Ordering::Relaxed);
        frames(&format!("-live_start_index 0 -i http://{}/a.mp4/master.m3u8", server.address))
    });
    assert_eq!(played, frames(&format!("-i {}", films.path("whole.mp4").display())));
}
