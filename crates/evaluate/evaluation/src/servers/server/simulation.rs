//! Cache misses of a request, where no processor counts them: the server under Valgrind's cachegrind, with the sizes of this
//! machine's caches. What it misses without a load is taken off.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::experiments::{Load, Misses, RtspServer, Server, Trial};
use forebay_counters::Reading;
use forebay_counters::simulation::{CacheCounts, Caches};
use forebay_results::Tier;

use super::clients::Window;
use super::measure::{Bench, gather};
use super::target::Target;
use crate::{Error, scratch_folder};

/// How long requests are made, or media play. The simulation does a fiftieth of the work in that time.
const LOADED: Duration = Duration::from_secs(2);
/// Media play for so long in the run whose misses are taken off, so that sessions are set up in both.
const BEGUN: Duration = Duration::from_millis(500);

/// What simulates.
pub(super) fn valgrind() -> Result<OsString, Error> {
    super::find_program("valgrind").ok_or(Error::Missing { program: "valgrind", package: "valgrind" })
}

/// Misses of a request of `trial`; `None` where the server or the load is not forebay's.
pub(super) fn misses(bench: &Bench<'_>, trial: &Trial) -> Result<Option<Misses>, Error> {
    let valgrind = valgrind()?;
    let begun = match (&trial.server, &trial.load) {
        // No other streaming server runs under Valgrind.
        (Server::Rtsp(RtspServer::Gstreamer), Load::Media { .. }) => BEGUN,
        (_, Load::Media { .. }) => return Ok(None),
        _ => Duration::ZERO,
    };
    let Some((loaded, served)) = simulate(bench, trial, &valgrind, LOADED)? else { return Ok(None) };
    let Some((at_rest, served_before)) = simulate(bench, trial, &valgrind, begun)? else { return Ok(None) };
    let requests = served - served_before;
    if requests <= 0.0 {
        return Ok(None);
    }
    let each = |level: &str| (missed(&loaded, level) - missed(&at_rest, level)).max(0.0) / requests;
    Ok(Some(Misses { first: each("first_level"), last: each("last_level"), tier: Tier::Simulated }))
}

/// What missed the caches of a level.
pub(super) fn missed(readings: &[Reading], level: &str) -> f64 {
    let of_level = readings.iter().filter(|reading| {
        reading.counter.name.starts_with(level) && reading.counter.name.ends_with("_misses")
    });
    of_level.map(|reading| reading.value).sum()
}

/// Misses from the server's start to its end, and the requests that it answered, or the packets that it sent, in `time`.
fn simulate(
    bench: &Bench<'_>,
    trial: &Trial,
    valgrind: &OsString,
    time: Duration,
) -> Result<Option<(Vec<Reading>, f64)>, Error> {
    let folder = scratch_folder()?;
    super::web::open(folder.path())?;
    let results = folder.path().join("misses");
    std::fs::create_dir(&results).map_err(Error::file("create", &results))?;
    // The workers of a web server are somebody else.
    super::web::open_to_write(&results)?;
    // A server may be started by a shell, or by a program that becomes it.
    let options = ["--tool=cachegrind", "--cache-sim=yes", "--trace-children=yes"].map(OsString::from);
    let mut wrapper: Vec<OsString> = [valgrind.clone()].into_iter().chain(options).collect();
    wrapper.extend(geometry());
    wrapper.push(format!("--cachegrind-out-file={}/%p", results.display()).into());
    // A limit of memory would be taken up by the simulation.
    let trial = Trial { memory_bytes: None, ..trial.clone() };
    let port = bench.description.port();
    let target = Target::start(&trial, bench, folder.path(), port, &wrapper)?;
    let stop = AtomicBool::new(false);
    let requests = match (target.clients(&trial.load, bench.documents)?, &trial.load) {
        (Some(_), _) if time.is_zero() => 0.0,
        (Some(clients), _) => {
            let begin = Instant::now();
            let answers = clients.run(Window { begin, end: begin + time }, &stop).map_err(Error::Load)?;
            answers.requests as f64
        }
        (None, Load::Media { clients, media, .. }) => {
            let mut viewers = gather(target.address(), *clients, *media).map_err(Error::Load)?;
            let viewed = viewers.watch(Duration::ZERO, time, &stop);
            viewed.map_err(|error| Error::Load(error.to_string()))?.packets as f64
        }
        (None, _) => return Ok(None),
    };
    drop(target);
    Ok(Some((total(&results)?, requests)))
}

/// The options for the caches of this machine; none where the kernel does not tell.
fn geometry() -> Vec<OsString> {
    let options = Caches::of_this_machine().map(|caches| {
        let shapes = [("I1", caches.instructions), ("D1", caches.data), ("LL", caches.last)];
        shapes.map(|(name, cache)| format!("--{name}={}", cache.simulable()).into())
    });
    options.into_iter().flatten().collect()
}

/// Of all processes that wrote results.
fn total(results: &Path) -> Result<Vec<Reading>, Error> {
    let files = std::fs::read_dir(results).map_err(Error::file("read", results))?;
    let mut total = CacheCounts::default();
    for file in files.flatten() {
        let text = std::fs::read_to_string(file.path()).map_err(Error::file("read", &file.path()))?;
        total = total.plus(&CacheCounts::parse(&text).unwrap_or_default());
    }
    Ok(total.readings())
}
