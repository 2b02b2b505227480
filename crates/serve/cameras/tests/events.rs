//! Alarms follow from the plan, and clients of ONVIF pull them.

mod asking;
mod camera_bodies;

use forebay_cameras::onvif::{Answer, Pull};
use forebay_cameras::{Alarm, Camera, Change, Changes};

use asking::{Cameras, SECOND, UNIX_NS};

const CLIENT: &str = "192.0.2.7";
const EVENTS: &str = "/onvif/camera-1/event_service";
const POINT: &str = "/onvif/camera-1/pullpoint-1";

/// Faults that overlap, and motion by the clock and by the film.
const BUSY: &str = r#"
fault = [
  { kind = "freeze", every = "11s", for = "2s" },
  { kind = "freeze", every = "7s", for = "3s" },
  { kind = "drop", every = "2500ms" },
  { kind = "night", every = "20s", for = "4s" },
  { kind = "night", from = "31s", for = "30s" },
]
motion = [
  { every = "9s", for = "1s" },
  { from = "500ms", for = "250ms", in-film = true },
]
"#;

/// What happens at known times before the first camera.
const KNOWN: &str = r#"
fault = [
  { kind = "freeze", from = "10s", for = "2s", cameras = "1" },
  { kind = "night", from = "11s", for = "30s", cameras = "1" },
  { kind = "drop", from = "15s", cameras = "1" },
]
motion = [{ from = "12s", for = "1s", cameras = "1" }]
"#;

fn changes(camera: &Camera, alarms: &[Alarm], from_ns: u64, until_ns: u64) -> Vec<Change> {
    let mut all = Changes::new(vec![camera], alarms, from_ns);
    let mut taken = Vec::new();
    while all.due_ns().is_some_and(|due_ns| due_ns < until_ns) {
        taken.extend(all.take());
    }
    taken
}

#[test]
fn changes_are_the_same_wherever_one_begins_and_are_what_the_plan_has() {
    let cameras = Cameras::new(BUSY);
    for camera in cameras.plan.cameras() {
        let until_ns = 60 * SECOND;
        let all = changes(camera, &Alarm::ALL, 0, until_ns);
        assert!(all.is_sorted() && all.len() > 80, "{} changes", all.len());
        for from_ns in (0..50).map(|step| step * 1_137_000_000) {
            let expected: Vec<Change> =
                all.iter().filter(|change| change.at_ns >= from_ns).copied().collect();
            assert_eq!(changes(camera, &Alarm::ALL, from_ns, until_ns), expected, "from {from_ns}");
        }
        for alarm in Alarm::ALL {
            // Without those that take no time, they turn the alarm on and off.
            let own = all.iter().filter(|change| change.alarm == alarm);
            let mut turns: Vec<(u64, bool)> = own.map(|change| (change.at_ns, !change.is_end)).collect();
            while let Some(at) = turns.windows(2).position(|pair| pair[0].0 == pair[1].0) {
                assert_eq!((alarm, turns[at].1, turns[at + 1].1), (Alarm::SignalLoss, true, false));
                turns.drain(at..at + 2);
            }
            for at_ns in (0..until_ns).step_by(10_000_000) {
                let last = turns.iter().rfind(|turn| turn.0 <= at_ns);
                assert_eq!(
                    camera.has_alarm(alarm, at_ns),
                    last.is_some_and(|turn| turn.1),
                    "{alarm:?} {at_ns}"
                );
            }
        }
    }
    let [one, other] = [0, 1].map(|place: usize| {
        let camera: &Camera = &cameras.plan.cameras()[place];
        changes(camera, &[Alarm::ImageTooDark], 0, 31 * SECOND)[0].at_ns
    });
    assert_ne!(one, other, "each camera has its own times");
}

#[test]
fn motion_of_the_film_comes_when_a_camera_shows_it() {
    let cameras = Cameras::new("motion = [{ from = \"500ms\", for = \"250ms\", in-film = true }]");
    // 86 frames of 1024 samples.
    let round_s = 86.0 * 1024.0 / 44_100.0;
    for camera in cameras.plan.cameras() {
        let seen = changes(camera, &[Alarm::Motion], 0, 3_600 * SECOND);
        assert!((3_600..3_610).contains(&seen.len()), "{} changes", seen.len());
        for change in seen {
            let played_s = change.at_ns as f64 / 1e9 * (1.0 + camera.drift as f64 / 1e9);
            let position_s = (camera.phase_ns as f64 / 1e9 + played_s).rem_euclid(round_s);
            let expected_s = if change.is_end { 0.75 } else { 0.5 };
            assert!((position_s - expected_s).abs() < 0.001, "{position_s} {change:?}");
        }
    }
    let never = Cameras::new("motion = [{ from = \"2s\", in-film = true }]");
    assert!(changes(&never.plan.cameras()[0], &[Alarm::Motion], 0, 60 * SECOND).is_empty());
}

/// An operation of the Event service, or of notifications.
fn operation(name: &str, inner: &str) -> String {
    let namespace = match name {
        "Renew" | "Unsubscribe" => "http://docs.oasis-open.org/wsn/b-2",
        _ => "http://www.onvif.org/ver10/events/wsdl",
    };
    format!("<{name} xmlns=\"{namespace}\">{inner}</{name}>")
}

impl Cameras {
    fn event(&self, path: &str, name: &str, inner: &str, at_ns: u64) -> String {
        self.respond(path, &operation(name, inner), "", CLIENT, at_ns).body
    }

    fn wait(&self, path: &str, inner: &str, at_ns: u64) -> Pull {
        match self.post(path, &operation("PullMessages", inner), "", CLIENT, at_ns) {
            Answer::Later(pull) => pull,
            Answer::Ready(response) => panic!("{}", response.body),
        }
    }

    /// What is told at a time, if anything is.
    fn told(&self, pull: &mut Pull, at_ns: u64) -> Option<Vec<(String, bool, bool)>> {
        let response = pull.answer(&self.plan, &self.pull_points, at_ns)?;
        assert_eq!(response.status, 200, "{}", response.body);
        Some(messages(&response.body))
    }

    fn pull(&self, inner: &str, at_ns: u64) -> Option<Vec<(String, bool, bool)>> {
        self.told(&mut self.wait(POINT, inner, at_ns), at_ns)
    }
}

/// The messages of a response: the topic below its root, whether it is on, and whether it is told as it becomes.
fn messages(body: &str) -> Vec<(String, bool, bool)> {
    let document = roxmltree::Document::parse(body).expect("XML");
    let all = document.descendants().filter(|node| node.tag_name().name() == "NotificationMessage");
    all.map(|message| {
        let of = |name: &str| {
            message.descendants().rfind(|node| node.tag_name().name() == name).expect("an element")
        };
        assert!(
            of("Source").first_element_child().expect("an item").attribute("Value")
                == Some("source-camera-1")
        );
        let topic =
            of("Topic").text().and_then(|topic| topic.strip_prefix("tns1:VideoSource/")).expect("a topic");
        let is_on = of("SimpleItem").attribute("Value") == Some("true");
        (topic.to_owned(), is_on, of("Message").attribute("PropertyOperation") == Some("Changed"))
    })
    .collect()
}

fn changed(topic: &str, is_on: bool) -> (String, bool, bool) {
    (topic.to_owned(), is_on, true)
}

const MOTION: &str = "MotionAlarm";
const LOSS: &str = "SignalLoss";
const DARK: &str = "ImageTooDark/ImagingService";

#[test]
fn a_pull_point_tells_how_it_is_and_then_each_change_at_its_time() {
    let cameras = Cameras::new(KNOWN);
    let created = cameras.event(EVENTS, "CreatePullPointSubscription", "", SECOND);
    assert!(created.contains("<wsa:Address>http://192.0.2.1:80/onvif/camera-1/pullpoint-1<"), "{created}");
    let states = [MOTION, LOSS, DARK].map(|topic| (topic.to_owned(), false, false));
    assert_eq!(cameras.pull("", SECOND).expect("states"), states);
    let mut pull = cameras.wait(POINT, "<Timeout>PT1M</Timeout>", SECOND);
    assert_eq!((cameras.told(&mut pull, SECOND), pull.due_ns()), (None, 10 * SECOND));
    assert_eq!(cameras.told(&mut pull, 10 * SECOND - 1), None);
    assert_eq!(cameras.told(&mut pull, 10 * SECOND).expect("a change"), [changed(LOSS, true)]);
    // Two at a time, what happens at once among them.
    let limited = || cameras.pull("<MessageLimit>2</MessageLimit>", 16 * SECOND);
    for expected in [
        [changed(DARK, true), changed(MOTION, true)],
        [changed(LOSS, false), changed(MOTION, false)],
        [changed(LOSS, true), changed(LOSS, false)],
    ] {
        assert_eq!(limited().expect("changes"), expected);
    }
    let mut pull = cameras.wait(POINT, "<Timeout>PT5S</Timeout>", 16 * SECOND);
    assert_eq!((cameras.told(&mut pull, 16 * SECOND), pull.due_ns()), (None, 21 * SECOND));
    assert_eq!(cameras.told(&mut pull, 21 * SECOND).expect("its time is up"), []);
}

#[test]
fn a_message_has_its_time_by_the_clock_of_the_camera() {
    let cameras = Cameras::new(KNOWN);
    let filter = "<Filter><TopicExpression xmlns=\"http://docs.oasis-open.org/wsn/b-2\">tns1:VideoSource/MotionAlarm\
                  </TopicExpression></Filter>";
    cameras.event(EVENTS, "CreatePullPointSubscription", filter, SECOND);
    assert_eq!(cameras.pull("", SECOND).expect("a state").len(), 1);
    let mut pull = cameras.wait(POINT, "", 12 * SECOND);
    let told = pull.answer(&cameras.plan, &cameras.pull_points, 12 * SECOND).expect("motion").body;
    let camera = &cameras.plan.cameras()[0];
    let played_ns = 12 * (SECOND as i64 + camera.drift);
    let unix_ns = UNIX_NS.saturating_add_signed(camera.offset_ns + played_ns);
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(unix_ns);
    let expected = format!("UtcTime=\"{}\"", humantime::format_rfc3339_millis(time));
    assert!(told.contains(&expected), "{expected}: {told}");
}

#[test]
fn a_waiting_request_is_told_when_states_are_asked_for_and_when_its_pull_point_ends() {
    let cameras = Cameras::new("");
    cameras.event(EVENTS, "CreatePullPointSubscription", "", 0);
    assert_eq!(cameras.pull("", 0).expect("states").len(), 3);
    let mut pull = cameras.wait(POINT, "<Timeout>PT2H</Timeout>", 0);
    assert_eq!((cameras.told(&mut pull, 0), pull.due_ns()), (None, 120 * SECOND));
    let ask = |name| cameras.respond(POINT, &operation(name, ""), "", CLIENT, SECOND).stirs;
    assert_eq!((ask("Renew"), ask("SetSynchronizationPoint")), (None, Some(1)));
    assert_eq!(cameras.told(&mut pull, SECOND).expect("states").len(), 3);
    let mut pull = cameras.wait(POINT, "", SECOND);
    assert_eq!((cameras.told(&mut pull, SECOND), ask("Unsubscribe")), (None, Some(1)));
    let told = pull.answer(&cameras.plan, &cameras.pull_points, SECOND).expect("an answer");
    assert!(told.status == 400 && told.body.contains("ResourceUnknownFault"), "{}", told.body);
}

#[test]
fn pull_points_end_in_time_and_belong_to_their_device_and_user() {
    let cameras = Cameras::new("");
    let lasts = "<InitialTerminationTime>PT10S</InitialTerminationTime>";
    cameras.event(EVENTS, "CreatePullPointSubscription", lasts, 0);
    let renew =
        |path: &str, at_ns| cameras.event(path, "Renew", "<TerminationTime>PT10S</TerminationTime>", at_ns);
    assert!(renew(POINT, 9 * SECOND).contains("<wsnt:RenewResponse>"));
    for path in ["/onvif/camera-2/pullpoint-1", "/onvif/pullpoint-1", "/onvif/camera-1/pullpoint-2", EVENTS] {
        assert!(renew(path, 9 * SECOND).contains("ResourceUnknownFault"), "{path}");
    }
    // A client that waits needs not renew.
    cameras.wait(POINT, "<Timeout>PT1M</Timeout>", 18 * SECOND);
    assert!(renew(POINT, 137 * SECOND).contains("<wsnt:RenewResponse>"));
    assert!(renew(POINT, 147 * SECOND).contains("ResourceUnknownFault"));

    let cameras = Cameras::new(
        "user = \"ada\"\npassword = \"lovelace\"\n[[camera]]\nnumber = 2\nuser = \"eve\"\npassword = \"apple\"\n",
    );
    let token = |user: &str, password: &str| {
        format!(
            "<Security><UsernameToken><Username>{user}</Username><Password Type=\"x#PasswordText\">{password}</Password>\
             </UsernameToken></Security>"
        )
    };
    let (ada, eve) = (token("ada", "lovelace"), token("eve", "apple"));
    let ask = |path: &str, name: &str, header: &str| {
        cameras.respond(path, &operation(name, ""), header, CLIENT, 0).body
    };
    let all = "/onvif/event_service";
    assert!(ask(all, "CreatePullPointSubscription", "").contains("NotAuthorized"));
    assert!(ask(all, "CreatePullPointSubscription", &ada).contains("/onvif/pullpoint-1<"));
    assert!(ask("/onvif/pullpoint-1", "Unsubscribe", &eve).contains("ResourceUnknownFault"));
    let Answer::Later(mut pull) =
        cameras.post("/onvif/pullpoint-1", &operation("PullMessages", ""), &ada, CLIENT, 0)
    else {
        panic!("it is answered at once");
    };
    // Only of the camera that the user may watch.
    assert_eq!(cameras.told(&mut pull, 0).expect("states").len(), 3);
    assert!(ask("/onvif/pullpoint-1", "Unsubscribe", &ada).contains("UnsubscribeResponse"));
}

#[test]
fn one_address_has_its_share_of_pull_points_and_those_that_end_make_room() {
    let cameras = Cameras::new("");
    let create = |from: &str, at_ns| {
        let body = operation("CreatePullPointSubscription", "");
        cameras.respond(EVENTS, &body, "", from, at_ns).body
    };
    let has_room = |from: &str, at_ns| !create(from, at_ns).contains("SubscribeCreationFailedFault");
    assert!((0..1_024).all(|_| has_room(CLIENT, 0)));
    assert!(!has_room(CLIENT, 0) && has_room("192.0.2.8", 0));
    assert!((9..12).all(|host| (0..1_024).filter(|_| has_room(&format!("192.0.2.{host}"), 0)).count() > 0));
    assert!(!has_room("192.0.2.99", 0), "all together are too many");
    assert!(has_room(CLIENT, 60 * SECOND));
}

#[test]
fn bad_requests_for_events_get_a_sentence() {
    let cameras = Cameras::new("");
    cameras.event(EVENTS, "CreatePullPointSubscription", "", 0);
    let filter =
        |what: &str| format!("<Filter xmlns:n=\"http://docs.oasis-open.org/wsn/b-2\">{what}</Filter>");
    let topic = |attributes: &str, topic: &str| {
        filter(&format!("<n:TopicExpression {attributes}>{topic}</n:TopicExpression>"))
    };
    for (path, name, inner, words) in [
        (
            EVENTS,
            "CreatePullPointSubscription",
            topic("", "tns1:RuleEngine//."),
            "wsnt:TopicNotSupportedFault",
        ),
        (
            EVENTS,
            "CreatePullPointSubscription",
            topic("Dialect=\"x\"", ""),
            "TopicExpressionDialectUnknownFault",
        ),
        (EVENTS, "CreatePullPointSubscription", filter("<n:MessageContent/>"), "wsnt:InvalidFilterFault"),
        (
            EVENTS,
            "CreatePullPointSubscription",
            "<InitialTerminationTime>2001-01-01T00:00:00Z</InitialTerminationTime>".to_owned(),
            "wsnt:UnacceptableInitialTerminationTimeFault",
        ),
        (
            POINT,
            "Renew",
            "<TerminationTime>soon</TerminationTime>".to_owned(),
            "UnacceptableTerminationTimeFault",
        ),
        (POINT, "PullMessages", "<Timeout>1h</Timeout>".to_owned(), "such as PT10S"),
        (POINT, "PullMessages", "<MessageLimit>0</MessageLimit>".to_owned(), "a number above 0"),
        (EVENTS, "Subscribe", String::new(), "the operation Subscribe is not supported"),
    ] {
        let said = cameras.event(path, name, &inner, 0);
        assert!(said.contains(words), "{name}: {said}");
    }
    let topics = cameras.event(EVENTS, "GetEventProperties", "", 0);
    let expected =
        "<ImageTooDark><ImagingService wstop:topic=\"true\"><tt:MessageDescription IsProperty=\"true\">";
    assert!(topics.contains(expected), "{topics}");
}
