//! What is asked for over HTTP on the port of RTSP: lists of what can be played, pages, playlists and segments.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use forebay_rtsp::authentication::Secret;
use forebay_server::{Settings, User};

use support::{Folder, H264, LIMIT, Server, ffmpeg, frames, until};

/// What a server answers to bytes, until it closes the connection.
fn answer(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("the server closes");
    String::from_utf8_lossy(&response).into_owned()
}

fn get(server: &Server, path: &str) -> String {
    answer(server, &format!("GET {path} HTTP/1.1\r\nHost: films.example:8554\r\nConnection: close\r\n\r\n"))
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").expect("a head").1
}

/// A server of a film and of another one in a subfolder.
fn server(folder: &Folder, change: impl FnOnce(&mut Settings)) -> Server {
    let film = folder.encode(6, &format!("{H264} -c:a aac"), "a.mp4");
    std::fs::create_dir(folder.path("old")).expect("a folder");
    std::fs::copy(&film, folder.path("old/b c.mp4")).expect("a file");
    std::fs::write(folder.path("notes.txt"), "no film").expect("a file");
    let mut settings = Settings::new(folder.root().to_owned());
    change(&mut settings);
    Server::with(settings)
}

#[test]
fn what_can_be_played_is_listed_for_people_programs_and_players() {
    let Some(folder) = Folder::new("what_can_be_played_is_listed_for_people_programs_and_players") else {
        return;
    };
    let server = server(&folder, |_| {});
    let page = get(&server, "/");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(
        page.contains("<a href=\"/a.mp4\">a.mp4</a>") && page.contains("<a href=\"old/\">old/</a>"),
        "{page}"
    );
    assert!(!page.contains("notes.txt"), "{page}");
    assert!(get(&server, "/old/").contains("<a href=\"/old/b%20c.mp4\">b c.mp4</a>"));
    let m3u = get(&server, "/?list=m3u");
    let expected = "#EXTM3U\n#EXTINF:-1,a.mp4\nrtsp://films.example:8554/a.mp4\n\
                    #EXTINF:-1,b c.mp4\nrtsp://films.example:8554/old/b%20c.mp4\n";
    assert_eq!(body(&m3u), expected);
    let list: serde_json::Value = serde_json::from_str(body(&get(&server, "/?list=json"))).expect("JSON");
    assert_eq!(list["files"][1]["hls"], "http://films.example:8554/old/b%20c.mp4/master.m3u8");
    assert_eq!((&list["complete"], list["files"].as_array().map(Vec::len)), (&true.into(), Some(2)));
}

#[test]
fn players_of_hls_play_a_film_whole_and_a_part_of_it() {
    let Some(folder) = Folder::new("players_of_hls_play_a_film_whole_and_a_part_of_it") else { return };
    let server = server(&folder, |_| {});
    let expected = frames(&format!("-i {}", folder.path("a.mp4").display()));
    let url = format!("http://{}/a.mp4/master.m3u8", server.address);
    assert_eq!(frames(&format!("-i {url}")), expected);
    // A key picture every twelve: the last one by then is the 96th.
    assert_eq!(frames(&format!("-i {url}?start=4")), expected[96..]);
    until("memory is given back", || server.metric("forebay_buffer_bytes") == 0);
}

#[test]
fn folders_show_and_play_what_the_asker_may_watch_however_it_is_asked_for() {
    let test = "folders_show_and_play_what_the_asker_may_watch_however_it_is_asked_for";
    let Some(folder) = Folder::new(test) else { return };
    if Command::new("curl").arg("--version").output().is_err() {
        return forebay_testkit::skip(test, "curl is not installed: run `scripts/setup test`");
    }
    let film = folder.encode(1, H264, "a.mp4");
    let served = |name: &str, is_public, users: Option<&[&str]>| {
        std::fs::create_dir(folder.path(name)).expect("a folder");
        std::fs::copy(&film, folder.path(&format!("{name}/{name}.mp4"))).expect("a file");
        // A list leads to no other folder.
        std::fs::write(folder.path(&format!("{name}/out.m3u")), "../home/home.mp4\n").expect("a list");
        forebay_server::Folder {
            name: name.to_owned(),
            path: folder.path(name),
            is_public,
            users: users.map(|users| users.iter().map(|user| (*user).to_owned()).collect()),
        }
    };
    let user = |name: &str| User {
        name: name.to_owned(),
        secret: Secret::Password("lovelace".to_owned()),
        paths: Vec::new(),
    };
    let folders =
        vec![served("films", false, None), served("home", false, Some(&["ada"])), served("open", true, None)];
    let access_log = folder.path("access.log");
    let server = Server::with(Settings {
        users: vec![user("ada"), user("bob")],
        access_log: Some(access_log.clone()),
        ..Settings::of(folders)
    });
    let curl = |who: Option<&str>, path: &str| {
        let mut command = Command::new("curl");
        command.args(["-s", "-m", "60", "-w", "%{http_code}"]);
        if let Some(who) = who {
            command.args(["--digest", "-u", &format!("{who}:lovelace")]);
        }
        let output = command.arg(format!("http://{}{path}", server.address)).output().expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let all = ["films", "home", "open"];
    let askers = [(None, &["open"][..]), (Some("ada"), &all), (Some("bob"), &["films", "open"])];
    for (who, mine) in askers {
        let refused = if who.is_some() { "403" } else { "401" };
        // Clients without a password get the lists of what is for everybody.
        let lists = if who.is_some() {
            ["/?sign-in", "/?list=json&sign-in", "/?list=m3u&sign-in"]
        } else {
            ["/", "/?list=json", "/?list=m3u"]
        };
        for list in lists {
            let said = curl(who, list);
            assert!(said.ends_with("200"), "{who:?} {list}: {said}");
            let shown: Vec<&str> =
                all.into_iter().filter(|name| said.contains(&format!("{name}/"))).collect();
            assert_eq!(shown, mine, "{who:?} {list}: {said}");
            assert_eq!(said.contains("Sign in"), who.is_none() && list == "/", "{said}");
        }
        for name in all {
            let may = mine.contains(&name);
            for path in ["", "/segment_0_0.m4s"] {
                let said = curl(who, &format!("/{name}/{name}.mp4{path}"));
                assert!(said.ends_with(if may { "200" } else { refused }), "{who:?} {name}{path}: {said}");
            }
        }
    }
    let play = &|who: Option<&str>, name: &str, may: bool| {
        let login = who.map_or(String::new(), |who| format!("{who}:lovelace@"));
        let url = format!("rtsp://{login}{}/{name}/{name}.mp4", server.address);
        let output = ffmpeg(&format!("-rtsp_transport tcp -i {url} -map 0:v -c copy -f null -"));
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = if who.is_some() { "403" } else { "401" };
        assert_eq!(output.status.success(), may, "{who:?} {url}: {said}");
        assert!(may || said.contains(refused), "{who:?} {url}: {said}");
    };
    std::thread::scope(|scope| {
        for (who, mine) in askers {
            for name in all {
                scope.spawn(move || play(who, name, mine.contains(&name)));
            }
        }
    });
    assert!(curl(None, "/home/").ends_with("401") && curl(None, "/?sign-in").ends_with("401"));
    for (path, status) in [("open/out.m3u", 404), ("nowhere/a.mp4", 401), ("open/../home/home.mp4", 404)] {
        assert_eq!(server.connect().ask("DESCRIBE", path, "").status, status, "{path}");
    }
    assert!(curl(Some("eve"), "/home/").ends_with("401"));
    until("refused and played ones are in the access log", || {
        let log = std::fs::read_to_string(&access_log).unwrap_or_default();
        let has = |words: &[&str]| log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        has(&[" - bob ", "/home/home.mp4 ", " 403 "])
            && has(&[" - ada ", "/home/home.mp4 ", " 200 "])
            && has(&[" - - ", "/open/open.mp4 ", " 200 "])
            && has(&[" - bob ", "\"GET /home/home.mp4/segment_0_0.m4s HTTP/1.1\" 403 "])
            && has(&[" - eve ", "\"GET /home/ HTTP/1.1\" 401 "])
            && has(&[" - - ", "\"GET /home/home.mp4/segment_0_0.m4s HTTP/1.1\" 401 "])
            && has(&[" - ada ", "\"GET /home/home.mp4/segment_0_0.m4s HTTP/1.1\" 200 "])
    });
}

#[test]
fn users_see_and_play_what_they_may_watch() {
    let Some(folder) = Folder::new("users_see_and_play_what_they_may_watch") else { return };
    let user = |name: &str, paths: &[&str]| User {
        name: name.to_owned(),
        secret: Secret::Password("lovelace".to_owned()),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    let users = vec![user("ada", &["old"]), user("bob", &[])];
    let server = server(&folder, |settings| settings.users = users);
    let curl = |arguments: &[&str], path: &str| {
        let url = format!("http://{}{path}", server.address);
        let output = Command::new("curl")
            .args(["-s", "-m", "60", "-w", "%{http_code}"])
            .args(arguments)
            .arg(url)
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    if Command::new("curl").arg("--version").output().is_err() {
        return forebay_testkit::skip(
            "users_see_and_play_what_they_may_watch",
            "curl is not installed: run `scripts/setup test`",
        );
    }
    for path in ["/", "/a.mp4", "/a.mp4/master.m3u8", "/a.mp4/segment_0_0_1.m4s", "/nothing"] {
        assert!(curl(&[], path).ends_with("401"), "{path}");
        assert!(curl(&["--digest", "-u", "ada:wrong"], path).ends_with("401"), "{path}");
    }
    // Passwords that are wrong make the next one wait.
    until("a password is looked at", || !curl(&["--digest", "-u", "ada:lovelace"], "/").ends_with("429"));
    let list = curl(&["--digest", "-u", "ada:lovelace"], "/?list=m3u");
    assert!(list.contains("/old/b%20c.mp4\n") && !list.contains("/a.mp4\n"), "{list}");
    assert!(curl(&["--digest", "-u", "ada:lovelace"], "/a.mp4/master.m3u8").ends_with("403"));
    assert!(curl(&["--digest", "-u", "bob:lovelace"], "/a.mp4/master.m3u8").ends_with("200"));
    assert!(
        curl(&["--basic", "-u", "bob:lovelace"], "/").ends_with("401"),
        "Basic is for encrypted connections"
    );
}

#[test]
fn what_is_wrong_is_refused_with_a_sentence() {
    let Some(folder) = Folder::new("what_is_wrong_is_refused_with_a_sentence") else { return };
    let server = server(&folder, |_| {});
    folder.encode(1, "-c:v mpeg4 -c:a mp2", "other.mp4");
    for (request, status, part) in [
        ("GET /none.mp4/master.m3u8 HTTP/1.1\r\nConnection: close\r\n\r\n", "404", "no such file"),
        ("GET /notes.txt/master.m3u8 HTTP/1.1\r\nConnection: close\r\n\r\n", "415", "notes.txt"),
        ("GET /other.mp4/master.m3u8 HTTP/1.1\r\nConnection: close\r\n\r\n", "415", "browsers play"),
        ("GET /a.mp4/master.m3u8?loop HTTP/1.1\r\nConnection: close\r\n\r\n", "415", "?loop"),
        ("GET /a.mp4/master.m3u8?start=x HTTP/1.1\r\nConnection: close\r\n\r\n", "400", "number of seconds"),
        ("GET /a.mp4/segment_9_0_1.m4s HTTP/1.1\r\nConnection: close\r\n\r\n", "404", "no such part"),
        ("GET /a.mp4/media_7.m3u8 HTTP/1.1\r\nConnection: close\r\n\r\n", "404", "no such part"),
        ("GET /../etc/passwd HTTP/1.1\r\nConnection: close\r\n\r\n", "404", ""),
        ("GET /.forebay/none HTTP/1.1\r\nConnection: close\r\n\r\n", "404", ""),
        ("POST / HTTP/1.1\r\nConnection: close\r\n\r\n", "405", "Allow: GET, HEAD, OPTIONS\r\n"),
        ("TRACE / HTTP/1.1\r\nConnection: close\r\n\r\n", "405", "Allow: GET, HEAD, OPTIONS\r\n"),
        ("PUT /a.mp4 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "405", "close"),
        ("LOCK /a.mp4 HTTP/1.1\r\nConnection: close\r\n\r\n", "501", "method"),
        ("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "400", "body"),
        ("GET / RTSP/1.0\r\n\r\n", "400", "HTTP/1.1"),
        ("GET / HTTP/2.0\r\n\r\n", "505", "HTTP/1.1"),
        ("OPTIONS * HTTP/3.0\r\n\r\n", "505", "HTTP/1.1"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505", "HTTP/1.1"),
    ] {
        let response = answer(&server, request);
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status} ")) && response.contains(part),
            "{request}: {response}"
        );
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000));
    assert!(answer(&server, &long).starts_with("HTTP/1.1 431 "));
    let fields = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    assert!(answer(&server, &fields).starts_with("HTTP/1.1 431 "));
}

#[test]
fn methods_of_http_get_answers_of_http_and_those_of_rtsp_answers_of_rtsp() {
    let folder = Folder::empty();
    let server = Server::start(folder.root());
    let (options, get) = ("OPTIONS * HTTP/1.1\r\n\r\n", "GET /.forebay/style.css HTTP/1.0\r\n\r\n");
    // What comes after a body that nobody reads is a request.
    let put = format!("PUT /a.mp4 HTTP/1.1\r\nContent-Length: 50000\r\n\r\n{}", "GET / HTTP".repeat(5000));
    let answers = answer(&server, &[options, &put, options, get].concat());
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["204", "405", "204", "200"], "{answers}");
    let (first, _) = answers.split_once("\r\n\r\n").expect("a head");
    assert!(
        first.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n") && !first.contains("\r\nContent-"),
        "{first}"
    );
    for request in
        ["OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n", "\r\nOPTIONS rtsp://h/HTTP/1.1 RTSP/1.0\r\nCSeq: 1\r\n"]
    {
        let all = format!("{request}Connection: close\r\n\r\nno request\r\n\r\n");
        let mut stream = TcpStream::connect(server.address).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        for byte in all.as_bytes() {
            stream.write_all(&[*byte]).expect("the server reads");
        }
        let mut response = [0; 12];
        stream.read_exact(&mut response).expect("an answer");
        assert_eq!(&response, b"RTSP/1.0 200", "{request}");
    }
}

#[test]
fn a_client_that_sends_on_after_its_last_request_gets_the_whole_response() {
    let folder = Folder::empty();
    let server = Server::start(folder.root());
    let style = answer(&server, "GET /.forebay/style.css HTTP/1.0\r\n\r\n");
    let unread = "x".repeat(400_000);
    for (request, end) in [
        ("GET /.forebay/style.css HTTP/1.1\r\nConnection: close\r\n\r\n", body(&style)),
        ("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nConnection: close\r\n\r\n", "\r\n\r\n"),
    ] {
        // What it sends comes in as many pieces as the kernel likes.
        for _ in 0..50 {
            let response = answer(&server, &[request, &*unread].concat());
            assert!(response.contains(" 200 OK\r\n") && response.ends_with(end), "{request}: {response}");
        }
    }
}

#[test]
fn curl_gets_the_ranges_that_it_asks_for() {
    let test = "curl_gets_the_ranges_that_it_asks_for";
    let Some(folder) = Folder::new(test) else { return };
    if Command::new("curl").arg("--version").output().is_err() {
        return forebay_testkit::skip(test, "curl is not installed: run `scripts/setup test`");
    }
    // Segments of several fragments.
    let server = server(&folder, |settings| settings.buffer_bytes = Some(20_000));
    folder.encode(2, &format!("{H264} -c:a aac"), "a.ts");
    let curl = |arguments: &[&str], path: &str| {
        let url = format!("http://{}{path}", server.address);
        let mut command = Command::new("curl");
        command.args(["-s", "-m", "60", "-D", "-"]).args(arguments).arg(url);
        let output = command.output().expect("curl runs").stdout;
        let end = output.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        (String::from_utf8_lossy(&output[..end]).to_lowercase(), output[end..].to_vec())
    };
    for path in [
        "/",
        "/a.mp4",
        "/a.mp4/master.m3u8",
        "/a.mp4/init_0_1.mp4",
        "/a.mp4/segment_0_0_1.m4s",
        "/a.ts/segment_0_0_1.m4s",
    ] {
        let (head, whole) = curl(&[], path);
        let length = whole.len();
        assert!(
            head.contains(" 200 ok\r\n") && head.contains("\r\naccept-ranges: bytes\r\n"),
            "{path}: {head}"
        );
        let tail = format!("-{}", length - 5);
        for (range, expected) in [
            ("0-0", 0..1),
            ("3-41", 3..42),
            (&*format!("{}-{}", length / 2, length * 3), length / 2..length),
            (&*format!("{}-", length - 1), length - 1..length),
            (&*tail, 5..length),
        ] {
            let (head, part) = curl(&["-r", range], path);
            let wanted =
                format!("\r\ncontent-range: bytes {}-{}/{length}\r\n", expected.start, expected.end - 1);
            assert!(head.contains(" 206 ") && head.contains(&wanted), "{path} {range}: {head}");
            assert!(part == whole[expected], "{path} {range}: {} of {length} bytes", part.len());
        }
        let (head, _) = curl(&["-r", &format!("{length}-")], path);
        let wanted = format!("\r\ncontent-range: bytes */{length}\r\n");
        assert!(head.contains(" 416 ") && head.contains(&wanted), "{path}: {head}");
        let (head, several) = curl(&["-r", "0-1,4-5"], path);
        assert!(head.contains(" 200 ") && several == whole, "{path}: {head}");
        let (head, none) = curl(&["-I", "-o", "/dev/null"], path);
        let is_segment = path.contains("segment");
        let length = format!("\r\ncontent-length: {length}\r\n");
        assert!(
            none.is_empty() && head.contains(" 200 ") && head.contains(&length) != is_segment,
            "{path}: {head}"
        );
    }
    let (head, _) = curl(&["-T", &folder.path("a.ts").display().to_string()], "/a.ts");
    assert!(head.contains(" 405 ") && head.contains("\r\nallow: get, head, options\r\n"), "{head}");
    until("memory is given back", || server.metric("forebay_buffer_bytes") == 0);
}

#[test]
fn a_connection_takes_one_request_after_the_other_also_in_pieces() {
    let Some(folder) = Folder::new("a_connection_takes_one_request_after_the_other_also_in_pieces") else {
        return;
    };
    let server = server(&folder, |_| {});
    let one = "HEAD /a.mp4/master.m3u8 HTTP/1.1\r\n\r\n";
    let all = format!("{one}GET /a.mp4/segment_0_0_1.m4s HTTP/1.1\r\n\r\n{one}GET / HTTP/1.0\r\n\r\n");
    let whole = answer(&server, &all);
    assert_eq!(whole.matches("HTTP/1.1 200 OK").count(), 4, "{}", &whole[..500]);
    let mut stream = TcpStream::connect(server.address).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    for byte in all.as_bytes() {
        stream.write_all(&[*byte]).expect("the server reads");
    }
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("the server closes");
    assert_eq!(String::from_utf8_lossy(&response).matches("HTTP/1.1 200 OK").count(), 4);
}

#[test]
fn clients_that_leave_or_do_not_read_leave_no_memory_behind() {
    let Some(folder) = Folder::new("clients_that_leave_or_do_not_read_leave_no_memory_behind") else {
        return;
    };
    let server = server(&folder, |_| {});
    let request = "GET /a.mp4/segment_0_0_1.m4s HTTP/1.1\r\n\r\n";
    let streams: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).expect("the server listens");
            stream.write_all(request.repeat(100).as_bytes()).expect("the server reads");
            stream
        })
        .collect();
    // The server goes on for others meanwhile.
    assert!(get(&server, "/a.mp4/segment_1_0_1.m4s").starts_with("HTTP/1.1 200 OK"));
    drop(streams);
    until("memory is given back", || server.metric("forebay_buffer_bytes") == 0);
    until("connections are gone", || server.metric("forebay_connections") <= 1);
}
