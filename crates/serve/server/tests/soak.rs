//! The server under random clients for a while: some play, some vanish, some send rubbish, and files change. A well-behaved
//! client gets its film all the time. When the others are gone, so is what the server had allocated for them.
//!
//! `FOREBAY_COMPAT_LONG=1`: for half an hour. `FOREBAY_SOAK_SEED=N` repeats what clients choose, though not when.
#![forbid(unsafe_code)]

mod churn;
mod expected;
mod process;
mod support;

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::process::abort;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use churn::{Counts, FICKLE, Player, Stage, rng};
use expected::Expected;
use fastrand::Rng;
use process::{Footprint, Gauges, LIMIT, Process};
use rustix::process::Signal;
use support::{Folder, H264, until};

/// Clients at a time, beside the one that behaves.
const THREADS: u64 = 12;
/// What the server may have allocated in the end beyond what it had after a while: indices are kept for a time.
const GROWTH_KIB: u64 = 4 << 10;
/// What it may have open beyond what it had before anybody came: two sockets for packets, and a few more.
const GROWTH_FILES: usize = 2 + 2;
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
/// How often it is told how things are.
const NEWS: Duration = Duration::from_secs(60);

#[test]
fn clients_come_and_go_and_nothing_of_them_stays() {
    let Some(films) = Folder::new("clients_come_and_go_and_nothing_of_them_stays") else { return };
    let is_long = forebay_testkit::long();
    let seed = env::var("FOREBAY_SOAK_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seed = seed.unwrap_or(if is_long { u64::from(std::process::id()) } else { 1 });
    let parts = if is_long { [300, 1500] } else { [2, 5] };
    eprintln!("seed {seed}, {parts:?} seconds");
    let beside = Folder::empty();
    make_films(&films, &beside);
    let expected = Expected::of(&films);
    let _deadline = Deadline::new(Duration::from_secs(parts.iter().sum()) + 8 * LIMIT);

    let server = Process::start(films.root(), &beside, SESSION_TIMEOUT);
    let at_first = server.footprint();
    let soak = Soak { films: &films, beside: &beside, expected: &expected, server: &server, at_first };
    let mut counts = Counts::default();
    let [early, late] = [0, 1].map(|part| {
        counts =
            soak.press(seed, part, Duration::from_secs(parts[part as usize]), std::mem::take(&mut counts));
        // The server sweeps every ten seconds, which is long for a short test.
        let has = soak.until_no_client_is_left(is_long || part == 1);
        soak.tell("everybody has left", &counts);
        assert_eq!(has.threads, at_first.threads, "a thread has ended");
        has
    });
    assert!(
        late.allocated_kib <= early.allocated_kib + GROWTH_KIB,
        "{early:?} early on, {late:?} in the end"
    );
    let Counts { clients, packets, abandoned, expired, refused, closed } = counts;
    // The last ones take longer than a short test.
    let counts = [clients, packets, abandoned, refused, expired, closed].map(AtomicU64::into_inner);
    let have_come = if is_long { &counts[..] } else { &counts[..4] };
    assert!(have_come.iter().all(|count| *count > 0), "some clients have never come: {counts:?}");
    ends_well(server, &expected, seed);
}

struct Soak<'a> {
    films: &'a Folder,
    /// What is not served.
    beside: &'a Folder,
    expected: &'a Expected,
    server: &'a Process,
    /// Before anybody came.
    at_first: Footprint,
}

impl Soak<'_> {
    /// Has clients come and go, files change, and films be watched.
    fn press(&self, seed: u64, part: u64, time: Duration, counts: Counts) -> Counts {
        let stage =
            Stage { server: self.server, session_timeout: SESSION_TIMEOUT, is_over: false.into(), counts };
        let seed = seed ^ part << 32;
        let films_seen = thread::scope(|scope| {
            let (soak, stage) = (self, &stage);
            for number in 0..THREADS {
                scope.spawn(move || {
                    let _over = Over(stage);
                    stage.come_and_go(seed, number);
                });
            }
            scope.spawn(move || {
                let _over = Over(stage);
                soak.change_files(stage, &mut rng(seed, THREADS, 0));
            });
            let watcher = scope.spawn(move || {
                let _over = Over(stage);
                let mut rng = rng(seed, THREADS + 1, 0);
                let mut seen = 0;
                while !stage.is_over.load(Relaxed) {
                    soak.expected.compare(soak.server, &mut rng);
                    seen += 1;
                }
                seen
            });
            let (begun, mut told) = (Instant::now(), Instant::now());
            while begun.elapsed() < time && !stage.is_over.load(Relaxed) {
                thread::sleep(Duration::from_millis(50));
                if told.elapsed() > NEWS {
                    told = Instant::now();
                    soak.tell("under way", &stage.counts);
                }
            }
            stage.is_over.store(true, Relaxed);
            watcher.join().unwrap_or(0)
        });
        assert!(films_seen > 0, "no film was seen to its end");
        eprintln!("{films_seen} films were the same as their files from beginning to end");
        stage.counts
    }

    fn change_files(&self, stage: &Stage, rng: &mut Rng) {
        while !stage.is_over.load(Relaxed) {
            thread::sleep(Duration::from_millis(rng.u64(10..400)));
            let name = FICKLE[rng.usize(0..FICKLE.len())];
            let done = self.change(name, rng);
            // It may not be there.
            assert!(
                done.as_ref().err().is_none_or(|error| error.kind() == io::ErrorKind::NotFound),
                "{done:?}"
            );
            if rng.u8(0..20) == 0 {
                stage.server.signal(Signal::HUP);
            }
        }
    }

    fn change(&self, name: &str, rng: &mut Rng) -> io::Result<()> {
        let path = self.films.path(name);
        let sources: Vec<_> = if name.ends_with(".m3u") {
            ["list.m3u", "other.m3u"].map(|list| self.beside.path(list)).into()
        } else {
            let ending = name.rsplit('.').next().unwrap_or_default();
            vec![self.films.path(&format!("film.{ending}")), self.beside.path(&format!("other.{ending}"))]
        };
        let source = &sources[rng.usize(0..sources.len())];
        let length = |rng: &mut Rng, file: &File| Ok::<_, io::Error>(rng.u64(0..=file.metadata()?.len()));
        match rng.u8(0..8) {
            // Replaced as a whole, which is most of what happens, so that there is something to watch.
            0..3 => {
                let new = self.beside.path("new");
                fs::copy(source, &new)?;
                fs::rename(new, path)
            }
            // Written anew in place.
            3 => fs::copy(source, path).map(drop),
            // Cut.
            4 => {
                let file = File::options().write(true).open(path)?;
                file.set_len(length(rng, &file)?)
            }
            // Spoilt somewhere.
            5 => {
                let file = File::options().write(true).open(path)?;
                let at = length(rng, &file)?;
                let rubbish: Vec<u8> = (0..rng.usize(1..2000)).map(|_| rng.u8(..)).collect();
                file.write_all_at(&rubbish, at)
            }
            6 => fs::remove_file(path),
            // As short as it gets.
            _ => fs::write(path, &b"\0\0\0\x18ftypmp42"[..rng.usize(0..12)]),
        }
    }

    /// Waits for sessions to expire, and for files to be closed.
    fn until_no_client_is_left(&self, with_files: bool) -> Footprint {
        let files_max = self.at_first.descriptors + GROWTH_FILES;
        let what = format!("no client is left, and files are closed, at first {:?}", self.at_first);
        let mut has = self.server.footprint();
        until(&what, || {
            has = self.server.footprint();
            self.server.gauges() == Gauges::IDLE && (!with_files || has.descriptors <= files_max)
        });
        has
    }

    fn tell(&self, what: &str, counts: &Counts) {
        eprintln!("{what}: {:?}, {:?}, {counts:?}", self.server.footprint(), self.server.gauges());
    }
}

/// The server still answers, says goodbye to clients, and has printed nothing but log lines.
fn ends_well(server: Process, expected: &Expected, seed: u64) {
    expected.compare(&server, &mut Rng::with_seed(seed));
    let mut player = Player::new(server.connect(), "film.mp4?loop");
    assert_eq!(player.set_up(0, "").expect("an answer").status, 200);
    assert_eq!(player.ask("PLAY", "").expect("an answer").status, 200);
    server.signal(Signal::TERM);
    player.packets(usize::MAX).expect("a goodbye");
    let (status, said) = server.end();
    assert!(status.success(), "{status}: {said}");
    let strange: Vec<&str> = said.lines().filter(|line| !line.starts_with("forebay: ")).collect();
    assert!(strange.is_empty(), "{strange:#?}");
    eprintln!("it has said {} lines", said.lines().count());
}

fn make_films(films: &Folder, beside: &Folder) {
    let film = format!("{H264} -c:a aac");
    for name in ["film.mp4", "film.ts", "film.mkv"] {
        films.encode(2, &film, name);
    }
    films.encode(
        2,
        "-map 0:v -c:v libx264 -preset ultrafast -qp 1 -g 12 -pix_fmt yuv420p -s 320x240",
        "large.mp4",
    );
    for ending in ["mp4", "ts", "mkv"] {
        beside.encode(1, &film, &format!("other.{ending}"));
        fs::copy(films.path(&format!("film.{ending}")), films.path(&format!("fickle.{ending}")))
            .expect("a film");
    }
    fs::write(beside.path("list.m3u"), "fickle.mp4\nfilm.mp4\n").expect("a file");
    fs::write(beside.path("other.m3u"), "#EXTM3U\nfilm.mp4\nfilm.mp4\nmissing.mp4\n").expect("a file");
    fs::copy(beside.path("list.m3u"), films.path("fickle.m3u")).expect("a file");
    fs::write(films.path("text.mp4"), "no film").expect("a file");
    symlink("/etc/passwd", films.path("passwd.mp4")).expect("a link");
}

/// Stops all other threads when one fails.
struct Over<'a>(&'a Stage<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_over.store(true, Relaxed);
        }
    }
}

/// While it lives, the test has so much time: then the process is aborted, since its threads cannot be. The server ends with it.
struct Deadline(#[expect(dead_code, reason = "its end is what tells")] Sender<()>);

impl Deadline {
    fn new(time: Duration) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            if receiver.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                eprintln!("the soak has not ended within {time:?}");
                abort();
            }
        });
        Self(sender)
    }
}
