//! Chromium plays films by the server's page: their size is right, their time goes on, they can be sought in, and they end.

mod support;

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use support::recording::Recording;
use support::{Folder, H264, LIMIT, Server, until};

/// A browser without a window, with one page. It ends with the test.
struct Browser {
    process: Child,
    page: WebSocket<TcpStream>,
    last_call: u64,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// `None`, with a word about it, where there is no Chromium.
    fn start(test: &str, url: &str) -> Option<Self> {
        if Command::new("chromium").arg("--version").output().is_err() {
            forebay_testkit::skip(test, "chromium is not installed: run `scripts/setup test`");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let process = Command::new("timeout")
            .args(["-k", "5", "120", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--mute-audio", "--autoplay-policy=no-user-gesture-required", "--no-first-run"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage",
            ])
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg(url)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("timeout runs");
        let (mut port, mut page) = (String::new(), None);
        until("the browser listens", || {
            let told = fs::read_to_string(folder.path().join("DevToolsActivePort")).unwrap_or_default();
            port = told.lines().next().unwrap_or_default().to_owned();
            page = page_of(&port, url);
            page.is_some()
        });
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("the browser listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        let (page, _) = tungstenite::client(page.expect("a page"), stream).expect("a WebSocket");
        Some(Self { process, page, last_call: 0, _folder: folder })
    }

    /// What an expression is in the page.
    fn value(&mut self, expression: &str) -> Value {
        self.last_call += 1;
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let call = json!({ "id": self.last_call, "method": "Runtime.evaluate", "params": parameters });
        self.page.send(Message::text(call.to_string())).expect("the browser reads");
        loop {
            let message = self.page.read().expect("the browser answers");
            let answer: Value =
                serde_json::from_str(message.to_text().unwrap_or_default()).unwrap_or_default();
            if answer["id"] == self.last_call {
                return answer["result"]["result"]["value"].clone();
            }
        }
    }

    fn until(&mut self, expression: &str) {
        let video = "(v => v && [v.currentTime, v.readyState, v.error && v.error.message])(document.querySelector('video'))";
        let begun = std::time::Instant::now();
        while self.value(expression) != true {
            let state = self.value("document.body.innerText");
            assert!(begun.elapsed() < LIMIT, "still not so: {expression}: {state}, {}", self.value(video));
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.page.send(Message::text(json!({ "id": 0, "method": "Browser.close" }).to_string()));
        let _ = self.process.wait();
    }
}

/// Where the page of a URL can be told what to do.
fn page_of(port: &str, url: &str) -> Option<String> {
    let list =
        Command::new("curl").args(["-s", "-m", "10", &format!("http://127.0.0.1:{port}/json/list")]).output();
    let list: Value = serde_json::from_slice(&list.ok()?.stdout).ok()?;
    let page = list.as_array()?.iter().find(|page| page["url"] == url)?;
    page["webSocketDebuggerUrl"].as_str().map(str::to_owned)
}

fn plays(name: &str, options: &str) {
    let test = format!("Chromium plays {name}");
    let Some(folder) = Folder::new(&test) else { return };
    folder.encode(9, options, name);
    let server = Server::start(folder.root());
    let url = format!("http://{}/{name}", server.address);
    let Some(mut browser) = Browser::start(&test, &url) else { return };
    browser.until("film.readyState >= 3");
    assert_eq!(browser.value("[film.videoWidth, film.videoHeight]"), json!([160, 120]));
    let duration = browser.value("film.duration").as_f64().expect("a number");
    assert!((duration - 9.0).abs() < 0.1, "{duration}");
    browser.value("film.play().then(() => true)");
    browser.until("film.currentTime > 1");
    // Chromium decodes no AC-3, and MP3 only outside of MP4.
    let has_sound = !["ac3", "mp3"].iter().any(|codec| options.contains(codec));
    browser.until(&format!("film.webkitAudioDecodedByteCount > 0 === {has_sound}"));
    browser.value("film.currentTime = 7.5");
    browser.until("!film.seeking && film.currentTime > 8");
    browser.until("film.ended");
    let said = if has_sound { "" } else { "This browser does not play the film's sound." };
    assert_eq!(browser.value("document.getElementById('state').textContent"), said);
    // Back to what was played at the beginning.
    browser.value("film.currentTime = 0.5; film.play().then(() => true)");
    browser.until("!film.seeking && film.currentTime > 1");
}

#[test]
fn chromium_plays_h264_and_aac() {
    plays("a.mp4", &format!("{H264} -c:a aac"));
}

#[test]
fn chromium_plays_vp9_and_opus() {
    plays("a.webm", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -c:a libopus");
}

#[test]
fn chromium_plays_pictures_whose_sound_it_does_not_decode() {
    for sound in ["ac3", "libmp3lame"] {
        plays("a.mkv", &format!("{H264} -c:a {sound}"));
    }
}

#[test]
fn chromium_follows_a_recording_to_its_end() {
    let test = "chromium_follows_a_recording_to_its_end";
    let Some(films) = Folder::new(test) else { return };
    let recording = Recording::begin(&films, 24);
    let server = Server::start(recording.beside.root());
    let goes_on = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| recording.write(&goes_on));
        let url = format!("http://{}/a.mp4", server.address);
        until("it is seen to be recorded", || {
            let playlist =
                Command::new("curl").args(["-s", "-m", "10", &format!("{url}/media_0_1.m3u8")]).output();
            let playlist = playlist.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            playlist.is_ok_and(|text| text.contains(":EVENT\n") && !text.contains("#EXT-X-START"))
        });
        let Some(mut browser) = Browser::start(test, &url) else {
            goes_on.store(true, Ordering::Relaxed);
            return;
        };
        browser.until("film.readyState >= 2 && film.duration === Infinity");
        browser.until("document.getElementById('state').textContent === 'The film is being recorded.'");
        // Near the end of what there is, at a key frame.
        let begins = browser.value("film.currentTime").as_f64().expect("a number");
        assert!((4.0..=12.0).contains(&begins), "{begins}");
        browser.value("film.play().then(() => true)");
        goes_on.store(true, Ordering::Relaxed);
        browser.until("film.currentTime > 13");
        browser.until("Math.abs(film.duration - 24) < 0.2");
        browser.until("document.getElementById('state').textContent === ''");
        browser.value("film.currentTime = 2");
        browser.until("!film.seeking && film.currentTime > 2.5");
        browser.value("film.currentTime = 23");
        browser.until("film.ended");
    });
}

#[test]
fn a_page_says_why_a_film_is_not_played() {
    let test = "a_page_says_why_a_film_is_not_played";
    let Some(folder) = Folder::new(test) else { return };
    folder.encode(1, &format!("{H264} -c:a aac"), "a.mp4");
    let server = Server::start(folder.root());
    let url = format!("http://{}/a.mp4?loop", server.address);
    let Some(mut browser) = Browser::start(test, &url) else { return };
    browser.until("document.body.innerText.includes('leave out ?loop')");
}
