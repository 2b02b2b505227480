//! Cache misses of a request and of a packet, by simulation of the server, and the kernel's share of its time, which the simulation
//! does not see.
//!
//! Of streaming servers GStreamer's is simulated: `forebay serve` opens files by openat2(2), which Valgrind 3.19 does not know.

use super::{Bench, installed_web_servers};
use crate::Error;

/// That of web servers, and that of streams, whose start alone takes many seconds.
pub(super) fn experiments(quick: bool) -> usize {
    if quick { 1 } else { 2 }
}

impl Bench<'_> {
    pub(super) fn misses(&mut self) -> Result<(), Error> {
        let quick = self.options.quick;
        let (seconds, warm_up) = if quick { (0.3, 0.1) } else { (1.0, 0.5) };
        let head = format!(
            "title = \"Cache misses by simulation\"\nruns = 1\nseconds = {seconds}\nwarm_up = {warm_up}\n"
        );
        let mut servers = installed_web_servers()?;
        if quick {
            servers.truncate(1);
        }
        let web = format!(
            "{head}[web]\nservers = {servers:?}\ndocument = \"10K\"\ndocuments = \"1M\"\nclients = 4\n"
        );
        self.measure(&web, true, "")?;
        if experiments(quick) == 1 {
            return Ok(());
        }
        let streaming = format!(
            "{head}[streaming]\nservers = \"gstreamer\"\nbitrate = [\"56K\", \"300K\"]\n\
             clients = [2, 16]\nmedia = [1, 16]\n"
        );
        self.measure(&streaming, true, "")
    }
}
