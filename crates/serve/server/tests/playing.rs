//! Players receive what the files have.

mod support;

use forebay_server::Settings;
use support::{Folder, H264, Incoming, Server, payload};

fn check(server: &Server, folder: &Folder, name: &str, transport: &str) {
    let file = folder.path(name);
    for stream in ["0:v", "0:a"] {
        let expected = payload(&format!("-i {}", file.display()), stream);
        let got = payload(&format!("-rtsp_transport {transport} -i {}", server.url(name)), stream);
        // What is there to be decoded only, before the beginning, is not sent of sound.
        let before = if stream == "0:a" { 300 } else { 0 };
        assert!(expected.len() > 10_000 && got.len() + before >= expected.len(), "{} bytes", got.len());
        assert!(expected.ends_with(&got), "{name} over {transport}, {stream}: {} bytes", got.len());
    }
}

#[test]
fn ffmpeg_gets_every_sample_over_tcp_and_udp() {
    let Some(folder) = Folder::new("ffmpeg_gets_every_sample_over_tcp_and_udp") else { return };
    folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    folder.encode(2, &format!("{H264} -c:a aac"), "b.mkv");
    let server = Server::start(folder.root());
    std::thread::scope(|scope| {
        for name in ["a.mp4", "b.mkv"] {
            for transport in ["tcp", "udp"] {
                let (server, folder) = (&server, &folder);
                scope.spawn(move || check(server, folder, name, transport));
            }
        }
    });
}

#[test]
fn a_transport_stream_comes_as_it_is_where_that_is_asked() {
    let Some(folder) = Folder::new("a_transport_stream_comes_as_it_is_where_that_is_asked") else { return };
    let file = folder.encode(2, &format!("{H264} -c:a aac"), "a.ts");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    let session = client.set_up("a.ts?raw", 0, "");
    client.send("PLAY", "a.ts?raw", &format!("Session: {session}\r\n"));
    let packets = client.packets_to_the_end();
    let got: Vec<u8> = packets.iter().flat_map(|packet| &packet[12..]).copied().collect();
    let expected = std::fs::read(file).expect("the file");
    // It begins where decoding can begin: what describes the service may lie before.
    assert!(expected.ends_with(&got) && got.len() + 5 * 188 >= expected.len(), "{} bytes", got.len());
}

/// The timestamp and the sequence number of an RTP packet.
fn rtp(packet: &[u8]) -> (u32, u16) {
    let timestamp = packet[4..8].try_into().expect("four bytes");
    (u32::from_be_bytes(timestamp), u16::from_be_bytes([packet[2], packet[3]]))
}

/// What a response says of the first packet of a track.
fn announced(info: &str, track: usize) -> (u32, u16) {
    let url = format!("/trackID={track};");
    let entry = info.split(',').find(|entry| entry.contains(&url)).expect("a track");
    let value = |name: &str| {
        let value = entry.split(';').find_map(|part| part.strip_prefix(name)).expect("a value");
        value.parse::<u64>().expect("a number")
    };
    (value("rtptime=") as u32, value("seq=") as u16)
}

#[test]
fn a_seek_lands_on_the_key_frame_and_is_announced() {
    let Some(folder) = Folder::new("a_seek_lands_on_the_key_frame_and_is_announced") else { return };
    folder.encode(4, &format!("{H264} -c:a aac"), "a.mp4");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    let session = client.set_up("a.mp4", 0, "");
    client.set_up("a.mp4", 1, &session);
    let session = format!("Session: {session}\r\n");
    // Key frames are 12 pictures of 40 ms apart.
    for (asked, expected) in [("2.5", "2.4"), ("0.5", "0.48"), ("3.9", "3.84")] {
        let response = client.ask("PLAY", "a.mp4", &format!("{session}Range: npt={asked}-\r\n"));
        assert_eq!(response.status, 200, "{response:?}");
        assert!(response.get("Range").starts_with(&format!("npt={expected}")), "{response:?}");
        let mut firsts = [None; 2];
        while firsts.iter().any(Option::is_none) {
            if let Some(Incoming::Frame(channel, packet)) = client.receive()
                && channel % 2 == 0
            {
                firsts[usize::from(channel / 2)].get_or_insert(rtp(&packet));
            }
        }
        // Before the sound that is heard then comes a tenth of a second for its decoder.
        for (track, clock_rate, early) in [(0, 90_000, 0), (1, 44_100, 4_410)] {
            let (timestamp, sequence) = firsts[track].expect("a packet");
            let (announced_timestamp, announced_sequence) = announced(response.get("RTP-Info"), track);
            assert_eq!(sequence, announced_sequence, "track {track}");
            // The beginning of a sample may lie before.
            let off = early + timestamp.wrapping_sub(announced_timestamp) as i32;
            assert!(off.abs() <= clock_rate / 25, "track {track} begins {off} ticks off");
        }
    }
}

#[test]
fn a_pause_loses_nothing() {
    let Some(folder) = Folder::new("a_pause_loses_nothing") else { return };
    folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    let session = format!("Session: {}\r\n", client.set_up("a.mp4", 0, ""));
    client.send("PLAY", "a.mp4", &session);
    let mut packets = client.packets(20);
    client.send("PAUSE", "a.mp4", &session);
    client.send("PLAY", "a.mp4", &session);
    packets.extend(client.packets_to_the_end());
    let sequences: Vec<u16> = packets.iter().map(|packet| rtp(packet).1).collect();
    assert!(sequences.windows(2).all(|two| two[1] == two[0].wrapping_add(1)), "{sequences:?}");
    // All of it: markers end pictures.
    assert_eq!(packets.iter().filter(|packet| packet[1] & 0x80 != 0).count(), 50);
}

#[test]
fn who_plays_gets_the_memory_of_who_was_stopped() {
    let Some(folder) = Folder::new("who_plays_gets_the_memory_of_who_was_stopped") else { return };
    let film = folder.encode(4, H264, "a.mp4");
    let memory_bytes = std::fs::metadata(film).expect("a film").len() / 2;
    let settings = Settings {
        memory_bytes,
        buffer_bytes: Some(memory_bytes),
        ..Settings::new(folder.root().to_owned())
    };
    let server = Server::with(settings);
    let [mut stopped, mut playing] = [server.connect(), server.connect()];
    let pictures = |packets: &[Vec<u8>]| packets.iter().filter(|packet| packet[1] & 0x80 != 0).count();
    let session = format!("Session: {}\r\n", stopped.set_up("a.mp4", 0, ""));
    stopped.send("PLAY", "a.mp4", &session);
    let mut packets = stopped.packets(50);
    stopped.send("PAUSE", "a.mp4", &session);
    let other = format!("Session: {}\r\n", playing.set_up("a.mp4", 0, ""));
    playing.send("PLAY", "a.mp4", &other);
    assert_eq!(pictures(&playing.packets_to_the_end()), 100);
    // It goes on at a picture that needs no others, which it may have had already.
    stopped.send("PLAY", "a.mp4", &session);
    packets.extend(stopped.packets_to_the_end());
    assert!(pictures(&packets) >= 100, "{}", pictures(&packets));
}

#[test]
fn nothing_outside_of_the_folder_is_served() {
    let folder = Folder::empty();
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::write(outside.path().join("secret.mp4"), "secret").expect("a file");
    std::os::unix::fs::symlink(outside.path(), folder.path("away")).expect("a link");
    std::os::unix::fs::symlink("/etc/passwd", folder.path("passwd.mp4")).expect("a link");
    std::fs::write(folder.path(".hidden.mp4"), "hidden").expect("a file");
    std::fs::write(folder.path("list.m3u"), "../list.mp4\n").expect("a file");
    std::fs::write(folder.path("text.mp4"), "no film").expect("a file");
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path("pipe.mp4"), rustix::fs::Mode::RUSR).expect("a pipe");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    for (path, status) in [
        ("../secret.mp4", 404),
        ("%2e%2e/%2e%2e/etc/passwd", 404),
        ("/etc/passwd", 404),
        ("away/secret.mp4", 403),
        ("passwd.mp4", 403),
        (".hidden.mp4", 404),
        ("list.m3u", 404),
        ("pipe.mp4", 404),
        ("", 404),
        ("text.mp4", 415),
        ("text.mp4?start=x", 400),
    ] {
        assert_eq!(client.ask("DESCRIBE", path, "").status, status, "{path}");
    }
}

#[test]
fn three_small_buffers_give_the_same_as_the_file() {
    let Some(folder) = Folder::new("three_small_buffers_give_the_same_as_the_file") else { return };
    folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    let settings =
        Settings { buffers: 3, buffer_bytes: Some(5_000), ..Settings::new(folder.root().to_owned()) };
    check(&Server::with(settings), &folder, "a.mp4", "tcp");
}

#[test]
fn the_answer_has_the_scale_that_will_be_played() {
    let Some(folder) = Folder::new("the_answer_has_the_scale_that_will_be_played") else { return };
    folder.encode(2, H264, "a.mp4");
    let server = Server::start(folder.root());
    // Backwards nothing is played, and no faster than 64 times (RFC 2326, section 12.34).
    for (asked, played) in [("-1", "1.0"), ("2", "2.0"), ("1000", "64.0"), ("0.0001", "0.015625")] {
        let mut client = server.connect();
        let session = client.set_up("a.mp4", 0, "");
        let response = client.ask("PLAY", "a.mp4", &format!("Session: {session}\r\nScale: {asked}\r\n"));
        assert_eq!((response.status, response.get("Scale")), (200, played), "{response:?}");
    }
}

#[test]
fn what_has_no_pictures_to_leave_out_is_played_whole_at_twice_its_pace() {
    let name = "what_has_no_pictures_to_leave_out_is_played_whole_at_twice_its_pace";
    let Some(folder) = Folder::new(name) else { return };
    // The pictures of a transport stream are between its other packets.
    folder.encode(1, &format!("{H264} -c:a aac"), "a.ts");
    folder.encode(1, "-map 1:a -c:a aac", "a.m4a");
    let server = Server::start(folder.root());
    for film in ["a.ts?raw", "a.m4a"] {
        let [usual, fast] = ["1", "4"].map(|scale| {
            let mut client = server.connect();
            let session = client.set_up(film, 0, "");
            let response = client.ask("PLAY", film, &format!("Session: {session}\r\nScale: {scale}\r\n"));
            assert_eq!(response.status, 200, "{response:?}");
            let bytes: usize = client.packets_to_the_end().iter().map(|packet| packet.len() - 12).sum();
            (response.get("Scale").to_owned(), bytes)
        });
        assert_eq!((&*usual.0, &*fast.0), ("1.0", "2.0"));
        assert!(usual.1 > 1000 && fast.1 == usual.1, "{film}: {usual:?}, {fast:?}");
    }
}
