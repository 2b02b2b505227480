//! retina, a client in Rust, plays films and gives credentials; it has neither PAUSE nor seeks.

mod support;

use std::thread;
use std::time::Duration;

use forebay_rtsp::authentication::Secret;
use forebay_server::{Settings, User};
use futures::StreamExt;
use retina::client::{Credentials, PlayOptions, Session, SessionOptions, SetupOptions, Transport};
use retina::codec::{CodecItem, FrameFormat, aac};
use support::{Folder, H264, LIMIT, Server, payload, units};

/// As files and players here have it: pictures behind start codes, sound without anything.
const FORMAT: FrameFormat = FrameFormat { aac_framing: aac::Framing::Raw, ..FrameFormat::SIMPLE };

/// After all pictures: long enough for what else there is, on a machine that does much else too.
const REST: Duration = Duration::from_secs(5);

struct Watched {
    /// With their places in the presentation.
    pictures: Vec<(i64, Vec<u8>)>,
    sound: Vec<u8>,
}

/// Plays what has so many pictures.
async fn watch(
    url: &str,
    pictures: usize,
    user: Option<Credentials>,
    transport: Transport,
) -> Result<Watched, retina::Error> {
    let url = url::Url::parse(url).expect("a URL");
    let mut session = Session::describe(url, SessionOptions::default().creds(user)).await?;
    for track in 0..session.streams().len() {
        let options = SetupOptions::default().transport(transport.clone()).frame_format(FORMAT);
        session.setup(track, options).await?;
    }
    let mut demuxed = session.play(PlayOptions::default()).await?.demuxed()?;
    let mut watched = Watched { pictures: Vec::new(), sound: Vec::new() };
    loop {
        // retina sees no end over UDP: when all pictures have come, the film is over when nothing has come for some time.
        let silence = if watched.pictures.len() < pictures { LIMIT } else { REST };
        let Ok(Some(item)) = tokio::time::timeout(silence, demuxed.next()).await else { return Ok(watched) };
        match item? {
            CodecItem::VideoFrame(frame) => {
                assert_eq!(frame.loss(), 0);
                watched.pictures.push((frame.timestamp().elapsed(), frame.data().to_vec()));
            }
            CodecItem::AudioFrame(frame) => {
                assert_eq!(frame.loss(), 0);
                watched.sound.extend(frame.data());
            }
            _ => {}
        }
    }
}

fn over_both(check: impl Fn(&str, Transport) + Sync) {
    thread::scope(|scope| {
        scope.spawn(|| check("tcp", Transport::Tcp(Default::default())));
        scope.spawn(|| check("udp", Transport::Udp(Default::default())));
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_client_in_rust_gets_every_sample_over_tcp_and_udp() {
    let Some(folder) = Folder::new("a_client_in_rust_gets_every_sample_over_tcp_and_udp") else { return };
    let file =
        folder.encode(2, "-c:v libx264 -preset ultrafast -bf 0 -g 12 -pix_fmt yuv420p -c:a aac", "a.mp4");
    let server = Server::start(folder.root());
    let input = format!("-i {}", file.display());
    let (pictures, sound) = (payload(&input, "0:v"), payload(&input, "0:a"));
    over_both(|name, transport| {
        let watched = runtime().block_on(watch(&server.url("a.mp4"), 50, None, transport)).expect("it plays");
        let places: Vec<i64> = watched.pictures.iter().map(|picture| picture.0).collect();
        let expected: Vec<i64> = (0..50).map(|number| 3600 * number).collect();
        assert_eq!(places, expected, "{name}");
        let got: Vec<u8> = watched.pictures.into_iter().flat_map(|picture| picture.1).collect();
        assert!(units(&got) == units(&pictures), "{name}: {} bytes of pictures", got.len());
        // What is there to be decoded only, before the beginning, is not sent of sound.
        let are_all = watched.sound.len() + 300 >= sound.len();
        assert!(are_all && sound.ends_with(&watched.sound), "{name}: {} bytes of sound", watched.sound.len());
    });
}

#[test]
fn a_client_in_rust_says_who_it_is() {
    let Some(folder) = Folder::new("a_client_in_rust_says_who_it_is") else { return };
    folder.encode(1, H264, "a.mp4");
    let ada =
        User { name: "ada".to_owned(), secret: Secret::Password("lovelace".to_owned()), paths: Vec::new() };
    let server = Server::with(Settings { users: vec![ada], ..Settings::new(folder.root().to_owned()) });
    over_both(|name, transport| {
        for (password, is_known) in [(Some("lovelace"), true), (Some("wrong"), false), (None, false)] {
            let who = password
                .map(|password| Credentials { username: "ada".to_owned(), password: password.to_owned() });
            let url = server.url("a.mp4");
            match runtime().block_on(watch(&url, 25, who, transport.clone())) {
                Ok(watched) => {
                    assert!(is_known, "{password:?} over {name}");
                    assert_eq!(watched.pictures.len(), 25, "{name}");
                }
                Err(error) => {
                    assert!(
                        !is_known && error.status_code() == Some(401),
                        "{password:?} over {name}: {error}"
                    );
                }
            }
        }
    });
}
