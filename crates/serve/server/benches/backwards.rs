//! What it takes the server to replay an hour of film backwards, beside the same hour forwards, in turn. Prints processor time of the
//! server and the ratio of both: `cargo bench -p forebay-server --bench backwards`.

#[path = "../tests/process/mod.rs"]
mod process;
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use process::Process;
use support::{Client, Folder, H264, Incoming, LIMIT};

const ROUNDS: usize = 7;
/// What is encoded; the rest repeats it.
const ENCODED_S: u32 = 20;
/// The type of a goodbye, which ends the last report of a track (RFC 3550, section 6.6).
const GOODBYE: u8 = 203;
const GOODBYE_BYTES: usize = 8;
const TRACKS: usize = 2;

const FORWARDS: &str = "Range: clock=20210615T120000Z-\r\n";
const BACKWARDS: &str = "Range: clock=20210615T130100Z-20210615T120000Z\r\nScale: -1.0\r\n";

fn main() {
    let (film, beside) = (Folder::with_pictures("backwards", "640x360"), Folder::empty());
    let Some(film) = film else { return };
    let short = film.encode(ENCODED_S, &format!("{H264} -b:v 1M -c:a aac"), "short.mp4");
    let hour = film.path("hour.mp4");
    let line = "-c copy -t 3600 -metadata creation_time=2021-06-15T12:00:00Z";
    let made = support::ffmpeg(&format!("-stream_loop -1 -i {} {line} {}", short.display(), hour.display()));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let server = Process::start(film.root(), &beside, LIMIT);
    // The first one reads the file into memory.
    replay(&server, FORWARDS);
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        // Which one is first makes no difference then.
        let is_forwards_first = round % 2 == 0;
        let [first, second] = if is_forwards_first { [FORWARDS, BACKWARDS] } else { [BACKWARDS, FORWARDS] };
        let (first, second) = (replay(&server, first), replay(&server, second));
        let (forwards, backwards) = if is_forwards_first { (first, second) } else { (second, first) };
        assert!(backwards.packets >= forwards.packets, "a replay backwards has all that one forwards has");
        let ratio = backwards.busy.as_secs_f64() / forwards.busy.as_secs_f64();
        println!(
            "forwards {:.2} s for {} packets, backwards {:.2} s for {}: {ratio:.2} times",
            forwards.busy.as_secs_f64(),
            forwards.packets,
            backwards.busy.as_secs_f64(),
            backwards.packets
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median {:.2}, {:.2} to {:.2}", ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1]);
}

struct Replayed {
    busy: Duration,
    packets: u64,
}

/// Has all of it sent as fast as it is taken.
fn replay(server: &Process, range: &str) -> Replayed {
    let mut client = server.connect();
    let session = client.set_up("hour.mp4", 0, "");
    let session = client.set_up("hour.mp4", 1, &session);
    let before = server.busy();
    let headers = format!("Session: {session}\r\nRequire: onvif-replay\r\nRate-Control: no\r\n{range}");
    client.send("PLAY", "hour.mp4", &headers);
    let packets = packets_to_the_end(&mut client);
    Replayed { busy: server.busy() - before, packets }
}

fn packets_to_the_end(client: &mut Client) -> u64 {
    let (mut packets, mut goodbyes) = (0, 0);
    while goodbyes < TRACKS {
        match client.receive().expect("the connection goes on") {
            Incoming::Response(response) => assert_eq!(response.status, 200, "{response:?}"),
            Incoming::Frame(channel, _) if channel % 2 == 0 => packets += 1,
            Incoming::Frame(_, report) => {
                let kind = report.len().checked_sub(GOODBYE_BYTES - 1).map(|at| report[at]);
                goodbyes += usize::from(kind == Some(GOODBYE));
            }
        }
    }
    packets
}
