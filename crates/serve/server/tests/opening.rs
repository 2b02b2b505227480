//! Files are opened for those who wait for them and not at the cost of others, and are not read twice for the same answer.
#![forbid(unsafe_code)]

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use forebay_server::Settings;
use support::{Folder, H264, Server, until};

/// A raw film with so many bytes of nothing behind its last picture: all of it has to be read to know its pictures.
fn long(films: &Folder, name: &str, bytes: u64) {
    films.encode(1, &format!("-map 0:v {H264}"), name);
    let file = OpenOptions::new().write(true).open(films.path(name)).expect("a film");
    file.set_len(bytes).expect("a longer film");
}

#[test]
fn a_small_film_is_opened_at_once_while_many_long_ones_are_read() {
    let Some(films) = Folder::new("a_small_film_is_opened_at_once_while_many_long_ones_are_read") else {
        return;
    };
    films.encode(1, H264, "small.mp4");
    let names: Vec<String> = (0..6).map(|number| format!("long{number}.h264")).collect();
    names.iter().for_each(|name| long(&films, name, 512 << 20));
    let server = Server::start(films.root());
    let mut waiting: Vec<_> = names
        .iter()
        .map(|name| {
            let mut client = server.connect();
            client.send("DESCRIBE", name, "");
            client
        })
        .collect();
    assert_eq!(server.connect().ask("DESCRIBE", "small.mp4", "").status, 200);
    let last = waiting.last_mut().expect("a client");
    last.stream().set_nonblocking(true).expect("a socket");
    assert!(last.try_receive().is_err(), "the long ones were read before the small one was answered");
}

#[test]
fn one_index_does_for_all_who_ask_for_a_file() {
    let Some(films) = Folder::new("one_index_does_for_all_who_ask_for_a_file") else { return };
    long(&films, "long.h264", 64 << 20);
    let server = Server::start(films.root());
    let paths = ["long.h264", "long.h264?loop", "long.h264?end=0.5", "long.h264"];
    let mut clients: Vec<_> = paths
        .iter()
        .map(|path| {
            let mut client = server.connect();
            client.send("DESCRIBE", path, "");
            client
        })
        .collect();
    assert!(clients.iter_mut().all(|client| client.response().status == 200));
}

#[test]
fn a_server_that_starts_again_finds_the_indices_of_large_files() {
    let Some(films) = Folder::new("a_server_that_starts_again_finds_the_indices_of_large_files") else {
        return;
    };
    let beside = Folder::empty();
    long(&films, "long.h264", 16 << 20);
    let settings =
        || Settings { cache: Some(beside.path("cache")), ..Settings::new(films.root().to_owned()) };
    let described = |server: &Server| server.connect().ask("DESCRIBE", "long.h264", "");
    let first = described(&Server::with(settings()));
    assert_eq!(first.status, 200);
    // What is in the file now is no film. Its size and time are as before.
    let path = films.path("long.h264");
    let (bytes, time) = (fs::metadata(&path).expect("a file").len(), modified(&path));
    let file = File::create(&path).expect("a file");
    file.set_len(bytes).expect("a long file");
    file.set_modified(time).expect("a time");
    assert_eq!(described(&Server::with(settings())).body, first.body);
    assert_eq!(described(&Server::start(films.root())).status, 415, "without the cache");
    // Another time is another file.
    file.set_modified(time + std::time::Duration::from_secs(1)).expect("a time");
    assert_eq!(described(&Server::with(settings())).status, 415);
}

fn modified(path: &Path) -> std::time::SystemTime {
    fs::metadata(path).expect("a file").modified().expect("a time")
}

#[test]
fn a_file_that_was_touched_is_played_on() {
    let Some(films) = Folder::new("a_file_that_was_touched_is_played_on") else { return };
    films.encode(8, H264, "a.mp4");
    films.encode(8, H264, "a.ts");
    let settings = Settings { buffer_bytes: Some(20_000), ..Settings::new(films.root().to_owned()) };
    let server = Server::with(settings);
    for name in ["a.mp4", "a.ts"] {
        let mut client = server.connect();
        let session = client.set_up(name, 0, "");
        client.send("PLAY", name, &format!("Session: {session}\r\nSpeed: 2\r\n"));
        client.packets(10);
        let file = OpenOptions::new().append(true).open(films.path(name)).expect("a file");
        file.set_modified(std::time::SystemTime::now()).expect("a time");
        // A session whose file was changed ends early, and with it the answer to this.
        client.packets_to_the_end();
        let answer = client.ask("GET_PARAMETER", name, &format!("Session: {session}\r\n"));
        assert_eq!(answer.status, 200, "{name}");
    }
}

#[test]
fn playlists_are_read_as_people_write_them() {
    let Some(films) = Folder::new("playlists_are_read_as_people_write_them") else { return };
    films.encode(1, H264, "a.mp4");
    fs::create_dir(films.path("lists")).expect("a folder");
    for name in ["b c.mp4", "caf\u{e9}.mp4"] {
        fs::copy(films.path("a.mp4"), films.path(name)).expect("a copy");
    }
    let absolute = films.path("a.mp4").canonicalize().expect("a path").display().to_string();
    let server = Server::start(films.root());
    for (number, (text, status)) in [
        (b"./../a.mp4\n../b%20c.mp4\r\n".to_vec(), 200),
        (b"\xEF\xBB\xBF#EXTM3U\n../a.mp4".to_vec(), 200),
        (format!("{absolute}\nfile://{absolute}\n").into_bytes(), 200),
        (b"..\\a.mp4\n../caf\xE9.mp4\n".to_vec(), 200),
        (b"/etc/passwd\n".to_vec(), 404),
        (b"../../a.mp4\n".to_vec(), 404),
        (b"no.mp4\n".to_vec(), 404),
        (b"# nothing\n".to_vec(), 415),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("lists/{number}.m3u");
        File::create(films.path(&name)).and_then(|mut file| file.write_all(&text)).expect("a playlist");
        let got = server.connect().ask("DESCRIBE", &name, "").status;
        assert_eq!(got, status, "{}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn names_have_any_bytes_and_links_lead_out_where_that_is_allowed() {
    use std::os::unix::ffi::OsStrExt;
    let Some(films) = Folder::new("names_have_any_bytes_and_links_lead_out_where_that_is_allowed") else {
        return;
    };
    let elsewhere = Folder::empty();
    let film = films.encode(1, H264, "a.mp4");
    for name in [&b"caf\xE9.mp4"[..], b"line\nbreak?.mp4"] {
        fs::copy(&film, films.root().join(std::ffi::OsStr::from_bytes(name))).expect("a copy");
    }
    fs::copy(&film, elsewhere.path("b.mp4")).expect("a copy");
    std::os::unix::fs::symlink(elsewhere.root(), films.path("disk")).expect("a link");
    let plain = Server::start(films.root());
    let follow_links = true;
    let following = Server::with(Settings { follow_links, ..Settings::new(films.root().to_owned()) });
    for (server, path, status) in [
        (&plain, "caf%E9.mp4", 200),
        (&plain, "line%0Abreak%3F.mp4", 200),
        (&plain, "disk/b.mp4", 403),
        (&following, "disk/b.mp4", 200),
        (&following, "disk/../a.mp4", 404),
    ] {
        assert_eq!(server.connect().ask("DESCRIBE", path, "").status, status, "{path}");
    }
}

#[test]
fn the_access_log_has_a_line_for_each_session() {
    let Some(films) = Folder::new("the_access_log_has_a_line_for_each_session") else { return };
    let beside = Folder::empty();
    let film = films.encode(1, H264, "a.mp4");
    fs::rename(film, films.path("a b.mp4")).expect("another name");
    let path = beside.path("access.log");
    let settings = Settings { access_log: Some(path.clone()), ..Settings::new(films.root().to_owned()) };
    let server = Server::with(settings);
    let mut client = server.connect();
    assert_eq!(client.ask("DESCRIBE", "no.mp4", "").status, 404);
    let session = client.set_up("a%20b.mp4", 0, "");
    client.send("PLAY", "a%20b.mp4", &format!("Session: {session}\r\n"));
    let packets = client.packets_to_the_end().len();
    client.send("TEARDOWN", "a%20b.mp4", &format!("Session: {session}\r\n"));
    let lines = || fs::read_to_string(&path).unwrap_or_default();
    until("both lines are written", || lines().lines().count() == 2);
    let lines = lines();
    let (refused, played) = lines.split_once('\n').expect("two lines");
    assert!(
        refused.starts_with("127.0.0.1 - - [") && refused.contains("\"DESCRIBE /no.mp4 RTSP/1.0\" 404 0 "),
        "{refused}"
    );
    assert!(played.contains("\"PLAY /a%20b.mp4 RTSP/1.0\" 200 "), "{played}");
    assert!(
        played.contains(" transport=TCP duration=")
            && played.contains(&format!(" packets={packets} dropped=0 ")),
        "{played}"
    );
}
