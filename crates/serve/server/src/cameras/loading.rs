//! Reads films and scripts, and makes the plan of cameras.

use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use forebay_cameras::{Film, Plan, Script, Wanted};
use forebay_media::Media;

use super::{CameraSettings, Cameras};
use crate::clock;
use crate::error::{Error, Result};

/// A time of day, in nanoseconds since 1970.
pub fn epoch(text: &str) -> std::result::Result<u64, String> {
    let time = humantime::parse_rfc3339_weak(text).ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let ns = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
    ns.ok_or_else(|| "a time in UTC is wanted, such as 2026-11-26T20:00:00Z".to_owned())
}

/// What a file says.
pub fn read_script(path: &Path) -> Result<Script> {
    let unreadable = |source| Error::Config {
        path: path.to_owned(),
        at: None,
        why: format!("it cannot be read: {source}"),
    };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    Script::parse(&text).map_err(|error| Error::Script { path: path.to_owned(), error })
}

/// The cameras, a line each: name, user, film, phase, clock, faults.
pub fn list(settings: &CameraSettings, packet_bytes: usize) -> Result<String> {
    let (plan, _) = plan(settings, packet_bytes)?;
    let mut text = String::new();
    for camera in plan.cameras() {
        let film = &settings.films[(camera.number as usize - 1) % settings.films.len()];
        let user = camera.login.as_ref().map_or("-", |login| &login.user);
        let faults: Vec<&str> = camera.faults().collect();
        let faults = if faults.is_empty() { "-".to_owned() } else { faults.join(",") };
        let (phase_s, drift_ppm) = (camera.phase_ns as f64 / 1e9, camera.drift as f64 / 1e3);
        // Into memory, which does not fail.
        let _ = writeln!(
            text,
            "{} user={user} film={} phase={phase_s:.3}s clock={:+.3}s drift={drift_ppm:+.1}ppm faults={faults}",
            camera.name,
            film.display(),
            camera.offset_ns as f64 / 1e9,
        );
    }
    Ok(text)
}

impl Cameras {
    /// Reads the films; what the operator should know of them comes as sentences.
    pub fn load(settings: &CameraSettings, packet_bytes: usize) -> Result<(Self, Vec<String>)> {
        let now_unix_ns = clock::unix_ns();
        let epoch_unix_ns = settings.epoch_unix_ns.unwrap_or(now_unix_ns);
        if epoch_unix_ns > now_unix_ns {
            return Err(Error::Cameras { why: "--epoch is to come: name a time in the past".to_owned() });
        }
        let settings = CameraSettings { epoch_unix_ns: Some(epoch_unix_ns), ..settings.clone() };
        let (plan, remarks) = plan(&settings, packet_bytes)?;
        Ok((Self::new(plan, epoch_unix_ns), remarks))
    }
}

fn plan(settings: &CameraSettings, packet_bytes: usize) -> Result<(Plan, Vec<String>)> {
    if settings.films.is_empty() {
        return Err(Error::Cameras { why: "--cameras needs a film to play: name one or more".to_owned() });
    }
    let (mut films, mut remarks) = (Vec::new(), Vec::new());
    let mut left_bytes = settings.memory_bytes;
    for path in &settings.films {
        let film = film(path, packet_bytes, left_bytes, &mut remarks)?;
        left_bytes = left_bytes.saturating_sub(film.buffer().len() as u64);
        films.push(Arc::new(film));
    }
    let wanted = Wanted {
        cameras: settings.count,
        seed: settings.seed,
        epoch_unix_ns: settings.epoch_unix_ns.unwrap_or(0),
        script: settings.script.clone(),
    };
    let plan = Plan::new(&films, &wanted).map_err(|error| Error::Cameras { why: error.to_string() })?;
    Ok((plan, remarks))
}

fn film(path: &Path, packet_bytes: usize, bytes_max: u64, remarks: &mut Vec<String>) -> Result<Film> {
    let refuse = |why: String| Error::Film { path: path.to_owned(), why };
    let file = File::open(path).map_err(|error| refuse(format!("it cannot be read: {error}")))?;
    let media = Arc::new(Media::read(&file).map_err(|error| refuse(error.to_string()))?);
    let film = Film::new(&media, packet_bytes, bytes_max, |at, into| file.read_exact_at(into, at.start))
        .map_err(|error| refuse(error.to_string()))?;
    if !media.left_out().is_empty() {
        remarks.push(format!("{}: not all of it is served: {}", path.display(), media.left_out().join(", ")));
    }
    if film.damaged() > 0 {
        remarks.push(format!(
            "{}: {} samples are left out: the file is damaged",
            path.display(),
            film.damaged()
        ));
    }
    Ok(film)
}
