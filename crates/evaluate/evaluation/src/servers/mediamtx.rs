//! MediaMTX, which serves what it is fed: files, each again and again, by ffmpeg. All clients of a path see the same moment.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Error;
use crate::harness::interrupt::Interrupt;
use crate::servers::server::find_program;
use crate::servers::server::process::{Process, free_pair};

const PROGRAM: &str = "mediamtx";
const FEEDER: &str = "ffmpeg";
/// How long ffmpeg may take to publish all files.
const FEED_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Packets of this length it passes on as they are.
const FEED_PACKET_BYTES: &str = "1440";

/// Whether it is on this machine, with what feeds it. No distribution has it.
pub(crate) fn is_there() -> bool {
    [PROGRAM, FEEDER].iter().all(|program| find_program(program).is_some())
}

/// What it needs that may be missing.
pub(crate) fn check() -> Result<(), Error> {
    if find_program(PROGRAM).is_none() {
        return Err(Error::Load(
            "there is no program mediamtx; put that of its project's releases on PATH, or leave it out"
                .into(),
        ));
    }
    match find_program(FEEDER) {
        Some(_) => Ok(()),
        None => Err(Error::Missing { program: FEEDER, package: FEEDER }),
    }
}

/// Its command line, with settings in `folder`.
pub(crate) fn command_line(folder: &Path, address: SocketAddr) -> Result<Vec<OsString>, Error> {
    let settings = folder.join("mediamtx.yml");
    let (rtp, rtcp) = free_pair()?;
    let text = format!(
        "logLevel: warn\nrtspAddress: {address}\nrtpAddress: {rtp}\nrtcpAddress: {rtcp}\n\
         rtmp: no\nhls: no\nwebrtc: no\nsrt: no\npaths:\n  all_others:\n"
    );
    fs::write(&settings, text).map_err(Error::file("write", &settings))?;
    // Settings with a name that a version does not know are an error in a file, and nothing in the environment.
    let mut line: Vec<OsString> = ["env", "MTX_MOQ=no", PROGRAM].map(OsString::from).into();
    line.push(settings.into());
    Ok(line)
}

/// Has ffmpeg publish files, each under its number, and waits until all are there to be played. `check` tells whether the
/// server still runs.
pub(crate) fn feed(
    files: &[PathBuf],
    folder: &Path,
    address: SocketAddr,
    interrupt: &Interrupt,
    mut check: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<Process>, Error> {
    let mut feeds = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let folder = folder.join(format!("feed-{number}"));
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let url = format!("rtsp://{address}/{number}");
        let before = [FEEDER, "-v", "error", "-re", "-stream_loop", "-1", "-i"].map(OsString::from);
        let after =
            ["-c", "copy", "-f", "rtsp", "-rtsp_transport", "tcp", "-pkt_size", FEED_PACKET_BYTES, &url];
        let after = after.map(OsString::from);
        let line: Vec<_> = before.into_iter().chain([file.into()]).chain(after).collect();
        feeds.push(Process::start(&line, &folder, None)?);
    }
    let begun = Instant::now();
    let mut paths: Vec<usize> = (0..files.len()).collect();
    while !paths.is_empty() {
        interrupt.check()?;
        check()?;
        feeds.iter_mut().try_for_each(Process::check)?;
        paths.retain(|path| !describes(address, *path));
        if begun.elapsed() > FEED_LIMIT {
            return Err(Error::Load(format!("ffmpeg could not publish to {address} within {FEED_LIMIT:?}")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(feeds)
}

/// Whether a server has something to play there.
fn describes(address: SocketAddr, path: usize) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let request = format!(
            "DESCRIBE rtsp://{address}/{path} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.ends_with(b"200"))
    };
    ask().unwrap_or(false)
}
