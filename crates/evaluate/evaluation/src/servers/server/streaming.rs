//! Servers of media: GStreamer's, built here from a few lines of C, `forebay serve`, and MediaMTX. All have the same media, by
//! number.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::experiments::RtspServer;

use super::web::Documents;
use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;
use crate::servers::mediamtx;

const SERVER_SOURCE: &str = include_str!("../../../../../../tests/guests/bench/rtsp_server.c");
const SERVER: &str = "rtsp_server";
/// Before the files, for those that have sound.
pub(crate) const WITH_SOUND: &str = "--sound";
/// How long building or encoding may take.
const LIMIT: Duration = Duration::from_secs(300);
pub(super) const FRAMES_PER_SECOND: f64 = 25.0;
/// Frames of a medium beyond what is measured of it.
const SPARE_S: f64 = 10.0;

/// What the experiment needs that may be missing.
pub(crate) fn check() -> Result<(), Error> {
    let needed = [("gst-launch-1.0", "gstreamer1.0-tools"), ("cc", "gcc"), ("pkg-config", "pkgconf")];
    let missing = needed.into_iter().find(|(program, _)| super::find_program(program).is_none());
    missing.map_or(Ok(()), |(program, package)| Err(Error::Missing { program, package }))
}

/// Builds the server in `folder`, and encodes files for it that play for `seconds`.
pub(super) fn prepare(
    folder: &Path,
    bits_per_second: u64,
    media: u16,
    seconds: f64,
    interrupt: &Interrupt,
) -> Result<Documents, Error> {
    build(folder, interrupt)?;
    // Noise takes whatever bits it is given, if the picture is large enough.
    let (width, height) = match bits_per_second {
        0..100_000 => (160, 120),
        100_000..1_000_000 => (320, 240),
        _ => (640, 480),
    };
    let frames = (seconds + SPARE_S) * FRAMES_PER_SECOND;
    let encode = format!(
        "gst-launch-1.0 -q videotestsrc pattern=snow num-buffers={frames:.0} \
         ! video/x-raw,width={width},height={height},framerate={FRAMES_PER_SECOND}/1 \
         ! x264enc tune=zerolatency speed-preset=ultrafast pass=cbr bitrate={} key-int-max=50 \
         ! h264parse ! mp4mux ! filesink location=0",
        bits_per_second.div_ceil(1000)
    );
    run(
        folder,
        &["sh", "-c", &encode],
        "gstreamer1.0-plugins-base, gstreamer1.0-plugins-good, gstreamer1.0-plugins-bad and gstreamer1.0-plugins-ugly",
        interrupt,
    )?;
    let first = folder.join("0");
    let mut paths = vec![first.clone()];
    for number in 1..media {
        let copy = folder.join(number.to_string());
        fs::copy(&first, &copy).map_err(Error::file("write", &copy))?;
        paths.push(copy);
    }
    let paths = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    Ok(Documents { folder: folder.to_owned(), paths })
}

/// Builds the server in `folder`, if it is not there yet: `PORT FILE...` has it serve each file by its number.
pub(crate) fn build(folder: &Path, interrupt: &Interrupt) -> Result<PathBuf, Error> {
    fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    let server = folder.join(SERVER);
    if !server.exists() {
        let source = server.with_extension("c");
        fs::write(&source, SERVER_SOURCE).map_err(Error::file("write", &source))?;
        let build =
            format!("cc -O2 -o {SERVER} {SERVER}.c $(pkg-config --cflags --libs gstreamer-rtsp-server-1.0)");
        run(folder, &["sh", "-c", &build], "libgstrtspserver-1.0-dev", interrupt)?;
    }
    Ok(server)
}

/// The server's command line, with what it needs in `folder`.
pub(super) fn command_line(
    server: RtspServer,
    media: &Documents,
    address: SocketAddr,
    folder: &Path,
    forebay: &Path,
) -> Result<Vec<OsString>, Error> {
    Ok(match server {
        RtspServer::Forebay => {
            let listen = format!("--listen={address}");
            vec![forebay.into(), "serve".into(), listen.into(), media.folder.clone().into()]
        }
        RtspServer::Gstreamer => {
            let program = media.folder.join(SERVER).into_os_string();
            let files = media.paths.iter().map(Into::into);
            [program, address.port().to_string().into()].into_iter().chain(files).collect()
        }
        RtspServer::Mediamtx => mediamtx::command_line(folder, address)?,
    })
}

fn run(
    folder: &Path,
    line: &[impl AsRef<OsStr>],
    packages: &str,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let invocation = Invocation::new(folder, line);
    let ran = invocation.run(folder, LIMIT, interrupt)?;
    if ran.result.status.success() {
        return Ok(());
    }
    let (command, status) = (invocation.to_string(), ran.result.status.to_string());
    let stderr = format!("{} (it needs {packages})", ran.stderr_end);
    Err(Error::Failed { command, status, stderr })
}
