//! Recordings are played from a time of day.

mod support;

use support::{Folder, H264, Server};

#[test]
fn a_recording_is_played_from_the_time_that_was_asked_for() {
    let Some(folder) = Folder::new("a_recording_is_played_from_the_time_that_was_asked_for") else { return };
    let told = "-metadata creation_time=2021-06-15T12:00:00Z";
    folder.encode(4, &format!("{H264} {told}"), "a.mp4");
    folder.encode(4, &format!("{H264} -an {told}"), "b.mkv");
    folder.encode(1, H264, "untold.mp4");
    let server = Server::start(folder.root());
    // Key frames are 12 pictures of 40 ms apart. What a client takes for the beginning is as late in the day as in the film.
    for (name, asked, expected) in [
        ("a.mp4", "clock=20210615T120002.5Z-", "clock=20210615T120002.400000Z-20210615T120004."),
        ("b.mkv", "clock=20210615T120002.5Z-", "clock=20210615T120002.400000Z-20210615T120004."),
        ("a.mp4?start=2", "clock=20210615T120002.5Z-", "clock=20210615T120002.400000Z-20210615T120004."),
        ("a.mp4", "npt=2.5-", "npt=2.400000-4."),
    ] {
        let mut client = server.connect();
        let session = client.set_up(name, 0, "");
        let headers = format!("Session: {session}\r\nRange: {asked}\r\n");
        let response = client.ask("PLAY", name, &headers);
        assert_eq!(response.status, 200, "{name}: {response:?}");
        assert!(response.get("Range").starts_with(expected), "{name}: {response:?}");
    }
    for (name, asked, status) in [
        ("a.mp4", "clock=20210615T120005Z-", 457),
        ("a.mp4?loop", "clock=20210615T120002Z-", 456),
        ("untold.mp4", "clock=20210615T120000Z-", 456),
    ] {
        let mut client = server.connect();
        let session = client.set_up(name, 0, "");
        let headers = format!("Session: {session}\r\nRange: {asked}\r\n");
        assert_eq!(client.ask("PLAY", name, &headers).status, status, "{name}");
    }
}
