//! Options of `forebay serve --cameras`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use forebay_server::config::address;
use forebay_server::{CameraSettings, DISCOVERY_PORT, FILM_BYTES, epoch, read_script};

/// Cameras that play films.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cameras")]
pub struct Cameras {
    /// Play films as N cameras, at rtsp://HOST:8554/camera-1 to camera-N; each DIR is a film then
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub cameras: Option<u32>,
    /// The same seed makes the same packets at the same times
    #[arg(long, value_name = "S", default_value_t = 1, requires = "cameras")]
    pub seed: u64,
    /// Begin the time of all cameras here, such as 2026-11-26T20:00:00Z [default: the start of the server]
    #[arg(long, value_name = "TIME", value_parser = epoch, requires = "cameras")]
    pub epoch: Option<u64>,
    /// Read names, users and faults of cameras from a TOML file
    #[arg(long, value_name = "FILE", requires = "cameras")]
    pub script: Option<PathBuf>,
    /// Give this percentage of the cameras a fault by the seed, of any kind
    #[arg(long, value_name = "PERCENT", value_parser = percentage, requires = "cameras")]
    pub faults: Option<f64>,
    /// Answer ONVIF clients here, such as at 8000, and their search for cameras (WS-Discovery)
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "cameras")]
    pub onvif: Option<SocketAddr>,
    /// Print a line for each camera, and exit without serving
    #[arg(long, requires = "cameras")]
    pub list_cameras: bool,
}

fn percentage(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "a number from 0 to 100 is wanted, such as 10".to_owned())
}

impl Cameras {
    /// The settings of cameras, if there are any. Films may take `memory` bytes.
    pub fn settings(
        &self,
        films: &[PathBuf],
        memory: Option<u64>,
    ) -> forebay_server::Result<Option<CameraSettings>> {
        let Some(count) = self.cameras else { return Ok(None) };
        let mut script = self.script.as_deref().map(read_script).transpose()?.unwrap_or_default();
        if let Some(percent) = self.faults {
            script = script.with_usual_faults(percent / 100.0);
        }
        Ok(Some(CameraSettings {
            films: films.to_vec(),
            count,
            seed: self.seed,
            epoch_unix_ns: self.epoch,
            script,
            memory_bytes: memory.unwrap_or(FILM_BYTES),
            onvif: self.onvif,
            discovery: (Ipv4Addr::UNSPECIFIED, DISCOVERY_PORT).into(),
        }))
    }
}
