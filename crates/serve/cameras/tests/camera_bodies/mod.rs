//! What must hold for whatever is asked of cameras, and for any script, for property tests and for fuzzing.
#![allow(dead_code, reason = "each fuzz target and each test uses a part")]

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock, Mutex};

use forebay_cameras::onvif::{self, Answer, Asker, Place, discovery};
use forebay_cameras::{Film, Plan, Script, Timeline, Wanted};
use forebay_media::Media;

const SECOND: u64 = 1_000_000_000;
const UNIX_NS: u64 = 1_700_000_000 * SECOND;
/// What of a timeline is looked at.
const EVENTS_MAX: usize = 300;

/// The longest response: 256 messages, or what a request has of its own.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
const SUBSCRIBE: &str = r#"<Envelope xmlns="http://www.w3.org/2003/05/soap-envelope"><Header><Security><UsernameToken><Username>ada</Username>
<Password Type="x#PasswordText">lovelace</Password></UsernameToken></Security></Header><Body>
<CreatePullPointSubscription xmlns="http://www.onvif.org/ver10/events/wsdl"/></Body></Envelope>"#;

/// Two seconds of sound: AAC, 44.1 kHz, one channel.
pub static FILM: LazyLock<Arc<Film>> = LazyLock::new(|| {
    let mut frame = [0x21; 256];
    frame[..7].copy_from_slice(&[0xFF, 0xF1, 0x50, 0x40, 0x20, 0x1F, 0xFC]);
    let file = frame.repeat(86);
    let media = Arc::new(Media::read(&file).expect("sound"));
    let film = Film::new(&media, 1400, u64::MAX, |at, into| {
        into.copy_from_slice(&file[at.start as usize..at.end as usize]);
        Ok::<_, Infallible>(())
    });
    Arc::new(film.expect("a film"))
});

/// More changes than anybody is told of.
const ALARMS: &str = r#"
fault = [{ kind = "night", every = "2ns", for = "1ns" }, { kind = "drop", every = "1s" }]
motion = [{ from = "500ms", for = "1s", in-film = true }, { every = "3s", for = "1s" }]
"#;

/// Cameras for everybody, and cameras with users.
static PLANS: LazyLock<[Plan; 2]> = LazyLock::new(|| {
    [ALARMS, "user = \"ada\"\npassword = \"lovelace\"\ncamera = [{ number = 2, name = \"door\" }]"].map(
        |script| {
            let script = Script::parse(script).expect("a script");
            plan(script).expect("a plan")
        },
    )
});

fn plan(script: Script) -> Option<Plan> {
    let wanted = Wanted { cameras: 3, seed: 1, epoch_unix_ns: UNIX_NS, script };
    Plan::new(std::slice::from_ref(&*FILM), &wanted).ok()
}

/// A path in the first line, and an envelope after it, get an envelope, whatever they are.
pub fn requests(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (path, envelope) = text.split_once('\n').unwrap_or(("/onvif/device_service", &text));
    let [http, rtsp] = ["192.0.2.1:80", "192.0.2.1:554"].map(str::to_owned);
    let place = Place { http, rtsp, version: "1".to_owned() };
    for plan in &*PLANS {
        let asker = Asker {
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            guesses: &Mutex::default(),
            pull_points: &Mutex::default(),
            now_ns: 5 * SECOND,
            at_ns: 5 * SECOND,
            unix_ns: UNIX_NS + 5 * SECOND,
        };
        // The pull points of all devices are there, so that requests find some.
        for device in ["/onvif/event_service", "/onvif/camera-1/event_service", "/onvif/door/event_service"] {
            onvif::answer(plan, &place, device, SUBSCRIBE, &asker);
        }
        let response = match onvif::answer(plan, &place, path, envelope, &asker) {
            Answer::Ready(response) => response,
            Answer::Later(mut pull) => {
                let mut answer = |at_ns| pull.answer(plan, asker.pull_points, at_ns);
                // None waits for longer than two minutes.
                answer(asker.at_ns).or_else(|| answer(asker.at_ns + 120 * SECOND)).expect("an answer")
            }
        };
        is_envelope(&response.body);
        assert!(response.body.len() < RESPONSE_BYTES_MAX, "{} bytes", response.body.len());
        assert!(matches!(response.status, 200 | 400 | 401 | 500), "{response:?}");
    }
}

/// A probe gets one answer of each camera at most, and each is an envelope.
pub fn probes(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for plan in &*PLANS {
        let answers = discovery::answers(plan, &text, "192.0.2.1:80");
        assert!(answers.len() <= plan.cameras().len());
        answers.iter().for_each(|answer| is_envelope(answer));
    }
}

fn is_envelope(text: &str) {
    let document = roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(document.root_element().tag_name().name(), "Envelope", "{text}");
}

/// A script is refused with a place in it, or makes cameras whose time goes on.
pub fn scripts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let script = match Script::parse(&text) {
        Ok(script) => script,
        Err(error) => {
            assert!((1..=text.split('\n').count()).contains(&error.line) && error.column > 0, "{error}");
            return;
        }
    };
    let Some(plan) = plan(script) else { return };
    for camera in plan.cameras() {
        let mut timeline = Timeline::new(camera.clone());
        timeline.skip_to(SECOND);
        let events = std::iter::from_fn(|| timeline.next(5 * SECOND)).take(EVENTS_MAX);
        let times: Vec<u64> = events.map(|event| event.at_ns).collect();
        assert!(
            times.is_sorted() && times.iter().all(|at_ns| (SECOND..=5 * SECOND).contains(at_ns)),
            "{times:?}"
        );
    }
}
