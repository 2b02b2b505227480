//! What cameras send: the same again for the same seed, wherever a timeline is entered, with the faults that were planned.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use forebay_cameras::{Departure, Event, Film, Plan, Script, Timeline, Wanted, What};
use forebay_media::Media;
use forebay_testkit::films::{Folder, H264};

const SECOND: u64 = 1_000_000_000;
/// Small packets, so that pictures have many.
const PACKET_BYTES: usize = 300;

/// All kinds of faults in every camera.
const ALL_FAULTS: &str = r#"
fault = [
  { kind = "loss", chance = 0.02 },
  { kind = "bursts", length = 5, distance = 200 },
  { kind = "reorder", chance = 0.05, by = "30ms" },
  { kind = "jitter", by = "150ms" },
  { kind = "freeze", every = "11s", for = "2s" },
  { kind = "missing-key-frames", chance = 0.3 },
  { kind = "timestamps", by = "-2s", every = "9s", for = "3s" },
  { kind = "drop", every = "7s" },
  { kind = "night", every = "20s", for = "4s" },
]
"#;

/// Three seconds of pictures and sound.
fn film(folder: &Folder) -> Arc<Film> {
    let path = folder.encode(3, &format!("{H264} -b:v 400k -c:a aac"), "a.mp4");
    let file = File::open(path).expect("a film");
    let media = Arc::new(Media::read(&file).expect("a film"));
    let film = Film::new(&media, PACKET_BYTES, u64::MAX, |at, into| file.read_exact_at(into, at.start));
    Arc::new(film.expect("a film"))
}

fn plan(film: &Arc<Film>, cameras: u32, seed: u64, script: &str) -> Plan {
    let script = Script::parse(script).unwrap_or_else(|error| panic!("{error}"));
    let wanted = Wanted { cameras, seed, epoch_unix_ns: 1_700_000_000 * SECOND, script };
    Plan::new(std::slice::from_ref(film), &wanted).expect("a plan")
}

/// What the first camera of a plan sends from one time to another.
fn events(plan: &Plan, from_ns: u64, until_ns: u64) -> Vec<Event> {
    let mut timeline = Timeline::new(plan.cameras()[0].clone());
    timeline.skip_to(from_ns);
    std::iter::from_fn(|| timeline.next(until_ns)).collect()
}

fn departures(events: &[Event]) -> Vec<(u64, &Departure)> {
    let all = events.iter().filter_map(|event| match &event.what {
        What::Packets(departure) => Some((event.at_ns, departure)),
        _ => None,
    });
    all.collect()
}

/// The numbers of a track's packets in the order of sending.
fn sequences(events: &[Event], track: usize) -> Vec<u16> {
    let of_track = departures(events).into_iter().filter(|(_, one)| one.track == track);
    of_track
        .flat_map(|(_, one)| one.packets.iter().map(|packet| packet.sequence).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_timeline_is_the_same_wherever_it_is_entered() {
    let Some(folder) = Folder::new("a_timeline_is_the_same_wherever_it_is_entered") else { return };
    let film = film(&folder);
    let jitter = "fault = [{ kind = \"jitter\", by = \"400ms\" }, { kind = \"drop\", every = \"5s\" }]";
    for (script, seed) in [("", 1), (jitter, 2), (ALL_FAULTS, 3), (ALL_FAULTS, 4)] {
        let plan = plan(&film, 1, seed, script);
        let all = events(&plan, 0, 60 * SECOND);
        let is_in_order = all.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns);
        assert!(is_in_order && all.len() > 500, "{script}: {} events", all.len());
        for step in 0..40 {
            let from_ns = step * 1_437_000_000;
            let expected: Vec<&Event> = all.iter().filter(|event| event.at_ns >= from_ns).collect();
            let got = events(&plan, from_ns, 60 * SECOND);
            let first = got.iter().zip(&expected).position(|(one, other)| one != *other);
            assert_eq!(first, None, "{script}, from {from_ns}");
            assert_eq!(got.len(), expected.len(), "{script}, from {from_ns}");
        }
    }
}

#[test]
fn a_timeline_that_stood_still_goes_on_as_one_that_ran() {
    let Some(folder) = Folder::new("a_timeline_that_stood_still_goes_on_as_one_that_ran") else { return };
    let film = film(&folder);
    for script in ["", ALL_FAULTS] {
        let plan = plan(&film, 1, 5, script);
        let mut timeline = Timeline::new(plan.cameras()[0].clone());
        for from_ns in [0, 13 * SECOND, 13 * SECOND + 1, 29 * SECOND] {
            timeline.skip_to(from_ns);
            let until_ns = from_ns + SECOND;
            let got: Vec<Event> = std::iter::from_fn(|| timeline.next(until_ns)).collect();
            let from_ns = if from_ns == 13 * SECOND + 1 { 14 * SECOND + 1 } else { from_ns };
            assert_eq!(got, events(&plan, from_ns, until_ns), "{script}, from {from_ns}");
        }
    }
}

#[test]
fn one_seed_has_one_plan_and_another_seed_has_another() {
    let Some(folder) = Folder::new("one_seed_has_one_plan_and_another_seed_has_another") else { return };
    let film = film(&folder);
    let [one, again, other] = [7, 7, 8].map(|seed| plan(&film, 3, seed, ALL_FAULTS));
    let all = |plan: &Plan| events(plan, 0, 20 * SECOND);
    assert_eq!(all(&one), all(&again));
    assert_ne!(all(&one), all(&other));
    let ssrcs = |plan: &Plan| -> Vec<_> {
        plan.cameras().iter().flat_map(|camera| [camera.ssrc(0), camera.ssrc(1)]).collect()
    };
    let mut distinct = [ssrcs(&one), ssrcs(&other)].concat();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 12);
    let phases: Vec<u64> = one.cameras().iter().map(|camera| camera.phase_ns).collect();
    assert!(phases[0] != phases[1] && phases[1] != phases[2], "{phases:?}");
}

#[test]
fn without_faults_the_film_goes_on_for_ever_without_a_gap() {
    let Some(folder) = Folder::new("without_faults_the_film_goes_on_for_ever_without_a_gap") else { return };
    let film = film(&folder);
    let plan = plan(&film, 1, 1, "");
    let all = events(&plan, 0, 30 * SECOND);
    for track in 0..2 {
        let sequences = sequences(&all, track);
        let follow = |pair: &[u16]| pair[1] == pair[0].wrapping_add(1);
        assert!(sequences.windows(2).all(follow) && sequences.len() > 700, "{} packets", sequences.len());
    }
    // Pictures are evenly spaced on their clock, from one round to the next.
    let mut times: Vec<u32> = departures(&all)
        .into_iter()
        .filter(|(_, one)| one.track == 0 && one.begins)
        .map(|(_, one)| one.timestamp)
        .collect();
    let first = times[0];
    times.iter_mut().for_each(|time| *time = time.wrapping_sub(first).wrapping_add(90_000));
    times.sort_unstable();
    // Those at the ends may lack neighbours that are seen between them.
    let inner = &times[5..times.len() - 5];
    let steps: Vec<u32> = inner.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let odd = steps.iter().filter(|step| **step != 3600).count();
    // A round is as long as its sound, which does not end with the last picture.
    assert!(odd <= 11, "{steps:?}");
}

#[test]
fn reports_tell_a_clock_that_runs_away() {
    let Some(folder) = Folder::new("reports_tell_a_clock_that_runs_away") else { return };
    let film = film(&folder);
    for seed in 0..5 {
        let plan = plan(&film, 1, seed, "");
        let camera = &plan.cameras()[0];
        let all = events(&plan, 0, 1000 * SECOND);
        let reports: Vec<_> = all
            .iter()
            .filter_map(|event| match event.what {
                What::Report { track: 0, sent } => Some((event.at_ns, sent)),
                _ => None,
            })
            .collect();
        assert_eq!(reports.len(), 500);
        let (first, last) = (reports[0], reports[499]);
        let elapsed_ns = (last.0 - first.0) as f64;
        let shown_ns = (last.1.unix_ns - first.1.unix_ns) as f64;
        let drift = (shown_ns / elapsed_ns - 1.0) * 1e9;
        assert!((drift - camera.drift as f64).abs() < 1.0, "{drift} of {}", camera.drift);
        // The RTP clock is that clock.
        let ticks = f64::from(last.1.timestamp.wrapping_sub(first.1.timestamp));
        assert!((ticks - shown_ns * 90_000.0 / 1e9).abs() < 2.0, "{ticks}");
        let sent = departures(&all).into_iter().filter(|(at_ns, one)| one.track == 0 && *at_ns < last.0);
        let sent: usize = sent.map(|(_, one)| one.packets.len()).sum();
        assert!(sent.abs_diff(last.1.packets as usize) < 200, "{sent} packets, {} reported", last.1.packets);
    }
}

/// What the first camera sends in a minute with one fault.
fn with_fault(film: &Arc<Film>, fault: &str) -> Vec<Event> {
    events(&plan(film, 1, 3, &format!("[[fault]]\n{fault}")), 0, 60 * SECOND)
}

#[test]
fn each_fault_does_what_it_is_called() {
    let Some(folder) = Folder::new("each_fault_does_what_it_is_called") else { return };
    let film = film(&folder);
    let whole = with_fault(&film, "kind = \"drop\"\nfrom = \"59s\"");
    let in_order = |sequences: &[u16]| sequences.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1));
    let count = sequences(&whole, 0).len() as f64;

    let lost = 1.0 - sequences(&with_fault(&film, "kind = \"loss\"\nchance = 0.1"), 0).len() as f64 / count;
    assert!((lost - 0.1).abs() < 0.02, "{lost}");
    let burst = with_fault(&film, "kind = \"bursts\"\nlength = 10\ndistance = 100");
    let burst = sequences(&burst, 0);
    let gaps = burst.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) - 1).filter(|gap| *gap > 0);
    assert!(
        gaps.clone().count() > 20 && gaps.clone().all(|gap| gap == 10 || gap == 20),
        "{:?}",
        gaps.collect::<Vec<_>>()
    );

    let mut late = sequences(&with_fault(&film, "kind = \"reorder\"\nchance = 0.1\nby = \"20ms\""), 0);
    assert!(!in_order(&late), "they are in order");
    assert_eq!(late.len() as f64, count, "none is lost");
    let first = sequences(&whole, 0)[0];
    late.sort_by_key(|sequence| sequence.wrapping_sub(first));
    assert!(in_order(&late));

    let jitter = with_fault(&film, "kind = \"jitter\"\nby = \"200ms\"");
    assert!(in_order(&sequences(&jitter, 0)));
    let begins = |events: &[Event]| -> Vec<u64> {
        departures(events)
            .into_iter()
            .filter(|(_, one)| one.begins && one.track == 0)
            .map(|one| one.0)
            .collect()
    };
    let delays: Vec<u64> = begins(&jitter).iter().zip(begins(&whole)).map(|(late, due)| late - due).collect();
    assert!(
        delays.iter().all(|delay| *delay <= 200_000_000) && delays.iter().any(|delay| *delay > 100_000_000)
    );

    let frozen = with_fault(&film, "kind = \"freeze\"\nfrom = \"10s\"\nfor = \"5s\"");
    let is_in = |event: &&Event| (10 * SECOND + 40_000_000..15 * SECOND).contains(&event.at_ns);
    assert_eq!(frozen.iter().filter(is_in).count(), 0);
    assert!(in_order(&sequences(&frozen, 0)), "the camera has numbered nothing meanwhile");

    let night = with_fault(&film, "kind = \"night\"\nfrom = \"10s\"\nfor = \"20s\"");
    let dark: Vec<_> = departures(&night)
        .into_iter()
        .filter(|(at, one)| (10 * SECOND + 40_000_000..30 * SECOND).contains(at) && one.track == 0)
        .collect();
    assert!(!dark.is_empty() && dark.iter().all(|(_, one)| one.is_sync));
    assert!(in_order(&sequences(&night, 0)));

    let missing = with_fault(&film, "kind = \"missing-key-frames\"\nchance = 1.0");
    assert!(departures(&missing).into_iter().all(|(_, one)| one.track == 1 || !one.is_sync));
    assert!(in_order(&sequences(&missing, 0)));

    let wrong = with_fault(&film, "kind = \"timestamps\"\nby = \"-2s\"\nfrom = \"10s\"");
    let pairs = departures(&wrong).into_iter().zip(departures(&whole)).filter(|(one, _)| one.1.track == 0);
    for ((at_ns, one), (_, other)) in pairs.filter(|(one, _)| one.0.abs_diff(10 * SECOND) > 50_000_000) {
        let expected = if at_ns < 10 * SECOND { 0 } else { 180_000 };
        assert_eq!(other.timestamp.wrapping_sub(one.timestamp), expected, "at {at_ns}");
    }

    let dropped = with_fault(&film, "kind = \"drop\"\nfrom = \"5s\"\nevery = \"20s\"\ntogether = true");
    let at: Vec<u64> =
        dropped.iter().filter(|one| one.what == What::Drop).map(|one| one.at_ns / SECOND).collect();
    assert_eq!(at, [5, 25, 45]);

    let refusing = plan(&film, 1, 3, "[[fault]]\nkind = \"refuse\"\nfrom = \"5s\"\nfor = \"1s\"");
    assert_eq!([4, 5, 6].map(|at| refusing.cameras()[0].refuses(at * SECOND)), [false, true, false]);
}

#[test]
fn a_script_chooses_cameras_by_number_and_by_share() {
    let Some(folder) = Folder::new("a_script_chooses_cameras_by_number_and_by_share") else { return };
    let film = film(&folder);
    let script = r#"
user = "admin"
password = "x"
camera = [{ number = 2, name = "door" }, { number = 3, user = "guard", password = "y" }]
fault = [{ kind = "night", cameras = "2-3,900" }, { kind = "loss", chance = 0.1, share = 0.3 }]
"#;
    let plan = plan(&film, 1000, 1, script);
    let with = |kind: &str| -> Vec<u32> {
        let has = |camera: &&Arc<forebay_cameras::Camera>| camera.faults().any(|one| one == kind);
        plan.cameras().iter().filter(has).map(|camera| camera.number).collect()
    };
    assert_eq!(with("night"), [2, 3, 900]);
    assert!((250..350).contains(&with("loss").len()), "{}", with("loss").len());
    assert_eq!(
        (plan.place("door"), plan.place("camera-2"), plan.place("camera-4")),
        (Some(1), None, Some(3))
    );
    let wanted = |share| Wanted {
        cameras: 1000,
        seed: 1,
        epoch_unix_ns: 0,
        script: Script::default().with_usual_faults(share),
    };
    for (share, expected) in [(1.0, 1000..1001), (0.1, 70..130)] {
        let usual = Plan::new(std::slice::from_ref(&film), &wanted(share)).expect("a plan");
        let counts = usual.cameras().iter().map(|camera| camera.faults().count());
        assert!(
            counts.clone().all(|count| count <= 1) && expected.contains(&counts.sum::<usize>()),
            "{share}"
        );
    }
    let logins = plan.logins().expect("logins");
    let users: Vec<_> = logins.iter().map(|(login, names)| (login.user.as_str(), names.len())).collect();
    assert_eq!(users, [("admin", 999), ("guard", 1)]);
    let refused = |script: &str| {
        let script = Script::parse(script).expect("a script");
        let wanted = Wanted { cameras: 2, seed: 1, epoch_unix_ns: 0, script };
        Plan::new(std::slice::from_ref(&film), &wanted).err().expect("no plan").to_string()
    };
    assert!(refused("camera = [{ number = 3 }]").contains("camera 3"));
    assert!(refused("camera = [{ number = 1, name = \"camera-2\" }]").contains("called camera-2"));
    let two = "camera = [{ number = 1, user = \"a\", password = \"x\" }, { number = 2, user = \"a\", password = \"y\" }]";
    assert!(refused(two).contains("two passwords"));
}
