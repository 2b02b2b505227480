//! The server of a run: started with what it needs, or one that runs already.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::experiments::{Asked, Attached, Connections, Load, RtspServer, Server, Trial};
use forebay_counters as counters;
use forebay_lab::{MemoryLimit, cold};
use forebay_linux::kernel_text::ProcessStat;
use forebay_results::Host;
use rustix::param::clock_ticks_per_second;

use super::clients::Clients;
use super::files;
use super::http::{self, Site};
use super::measure::Bench;
use super::observer::Scope;
use super::owner;
use super::process::{LeftBehind, Process, check_free, free_port_of};
use super::processors::ProcessorGroup;
use super::proxy::Proxy;
use super::takers::Taker;
use super::web::{self, Documents};
use crate::Error;
use crate::servers::mediamtx;

/// Where control groups are looked for, by their name within a hierarchy.
const HIERARCHIES: [&str; 4] =
    ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"];

/// In place of a port that is not known yet.
const PORT: u16 = 80;

/// A server, ready for its load. Dropped, it ends, if it was started.
#[derive(Debug)]
pub(super) struct Target {
    /// What it is fed by, which is not counted.
    feeds: Vec<Process>,
    /// The processes go before their group.
    process: Option<Process>,
    _processors: Option<ProcessorGroup>,
    _left: Option<LeftBehind>,
    _taker: Option<Taker>,
    group: Option<MemoryLimit>,
    /// What its dependency is behind.
    proxy: Option<Proxy>,
    pub(super) scope: Scope,
    port: u16,
    /// So many loads it had.
    loads: AtomicU64,
}

impl Target {
    /// Starts it in `folder`, behind `wrapper`, a program that runs it and its arguments.
    pub(super) fn start(
        trial: &Trial,
        bench: &Bench<'_>,
        folder: &Path,
        port: Option<u16>,
        wrapper: &[OsString],
    ) -> Result<Self, Error> {
        if let Server::Attached(attached) = &trial.server {
            return Ok(Self {
                feeds: Vec::new(),
                process: None,
                _processors: None,
                _left: None,
                _taker: None,
                group: None,
                proxy: None,
                scope: scope_of(attached)?,
                port: port.unwrap_or(0),
                loads: AtomicU64::new(0),
            });
        }
        let hosts = hosts_of(&trial.load)?;
        let port = match port.or(port_of(&trial.load)) {
            None => free_port_of(&hosts)?,
            Some(port) => check_free(port, &hosts).map(|()| port)?,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let dependency = bench.description.dependency().map(resolved).transpose()?;
        let later = dependency.zip(bench.given.dependency_later);
        let proxy = later.map(|(dependency, later)| Proxy::start(dependency, later)).transpose()?;
        let dependency = proxy.as_ref().map(Proxy::address).or(dependency);
        let line = command_line(trial, bench, folder, address, dependency)?;
        let line: Vec<OsString> = wrapper.iter().cloned().chain(line).collect();
        let group = group_for(trial)?;
        if let (Some(documents), Some(_)) = (bench.documents, trial.memory_bytes) {
            // What is in memory already would not count as the server's.
            let program = (trial.server == Server::Rtsp(RtspServer::Forebay)).then_some(bench.forebay);
            let program = program.filter(|program| program.is_file());
            let files: Vec<&Path> = [documents.folder.as_path()].into_iter().chain(program).collect();
            cold::evict(&files, cold::Extent::Data)?;
        }
        let join = group.as_ref().map(MemoryLimit::processes_file);
        let left = join.clone().map(LeftBehind::of);
        let mut process = Process::start(&line, folder, join.as_deref())?;
        let addresses: Vec<_> = hosts.iter().map(|host| SocketAddr::new(*host, port)).collect();
        process.wait_for(&addresses, bench.interrupt)?;
        if let Some(ready) = bench.description.ready() {
            let line: Vec<OsString> = ready.iter().map(|word| with_port(word, port).into()).collect();
            process.wait_until(&line, folder, bench.interrupt)?;
        }
        let feeds = match (&trial.server, bench.documents) {
            (Server::Rtsp(RtspServer::Mediamtx), Some(media)) => {
                let files: Vec<_> = media.paths.iter().map(PathBuf::from).collect();
                mediamtx::feed(&files, folder, address, bench.interrupt, || process.check())?
            }
            _ => Vec::new(),
        };
        let scope = Scope::Tree(process.id());
        if trial.memory_bytes.is_some() {
            files::make_cold(&scope);
        }
        let folder = group.as_ref().map(MemoryLimit::folder);
        let processors = bench.given.processors;
        let processors =
            processors.map(|number| ProcessorGroup::start(&scope, folder, number)).transpose()?;
        let files = bench.documents.map(|documents| documents.folder.as_path());
        let _taker = Taker::start(&bench.given, files)?;
        Ok(Self {
            scope,
            feeds,
            process: Some(process),
            _processors: processors,
            _left: left,
            _taker,
            group,
            proxy,
            port,
            loads: AtomicU64::new(0),
        })
    }

    /// What is counted of it: its processes, and the group where that tells more.
    pub(super) fn counted(&self) -> (counters::Target, Option<counters::Target>) {
        let group = self.group.as_ref().map(|group| counters::Target::Cgroup(group.folder().to_owned()));
        match &self.scope {
            Scope::Tree(process) => (counters::Target::Tree(*process), group),
            Scope::Cgroup(folder) => {
                let target = counters::Target::Cgroup(folder.clone());
                (target.clone(), Some(target))
            }
        }
    }

    /// The clients of forebay's own that the load asks for; `None` where it is somebody else's.
    pub(super) fn clients(
        &self,
        load: &Load,
        documents: Option<&Documents>,
    ) -> Result<Option<Clients>, Error> {
        let (url, paths, asked, number, rate, connections) = match load {
            Load::Documents { clients, rate, connections, .. } => {
                let paths = documents.map(|documents| documents.paths.clone()).unwrap_or_default();
                let url = format!("http://127.0.0.1:{}/", self.port);
                (url, Some(paths), &Asked::default(), *clients, *rate, *connections)
            }
            Load::Address { url, asked, clients, rate, connections } => {
                (self.with_port(url), None, asked, *clients, *rate, *connections)
            }
            Load::Command { .. } | Load::Media { .. } | Load::Messages { .. } => return Ok(None),
        };
        let url = http::url(&url).map_err(Error::Load)?;
        let site = Site::of(&url).map_err(Error::Load)?;
        owner::check(&self.scope, site.address())?;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let paths = paths.unwrap_or_else(|| vec![path.to_owned()]);
        let close = connections == Connections::New;
        let requests = paths.iter().map(|path| site.request(path, asked, close));
        let requests = requests.collect::<Result<_, _>>().map_err(Error::Load)?;
        let load = self.loads.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Clients { site, requests, number, rate, connections, load }))
    }

    /// How long its dependency takes for an answer without what it is made later by; `None` where that is not measured.
    pub(super) fn dependency_answers_after_s(&self) -> Option<f64> {
        self.proxy.as_ref().and_then(Proxy::answers_after_s)
    }

    /// The group that limits its memory.
    pub(super) fn group(&self) -> Option<&MemoryLimit> {
        self.group.as_ref()
    }

    /// What the server takes for its dependency, where that is behind a proxy.
    pub(super) fn proxy_address(&self) -> Option<SocketAddr> {
        self.proxy.as_ref().map(Proxy::address)
    }

    /// Where a server that forebay started listens.
    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(super) fn with_port(&self, word: &str) -> String {
        with_port(word, self.port)
    }

    /// An error where it has ended.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        if let Some(group) = &self.group {
            let killed = group.kills()?;
            if killed > 0 {
                return Err(Error::Load(format!(
                    "the kernel killed {killed} of its processes for want of memory"
                )));
            }
        }
        self.feeds.iter_mut().try_for_each(Process::check)?;
        self.process.as_mut().map_or(Ok(()), Process::check)
    }
}

fn command_line(
    trial: &Trial,
    bench: &Bench<'_>,
    folder: &Path,
    address: SocketAddr,
    dependency: Option<SocketAddr>,
) -> Result<Vec<OsString>, Error> {
    let (documents, port) = (bench.documents, address.port());
    match (&trial.server, &trial.load) {
        (Server::Web(server), Load::Documents { clients, .. }) => {
            let documents = documents.map_or(folder, |documents| documents.folder.as_path());
            web::configure(*server, folder, documents, port, *clients)
        }
        (Server::Rtsp(server), Load::Media { .. }) => {
            let media = documents.expect("media are made before");
            super::streaming::command_line(*server, media, address, folder, bench.forebay)
        }
        (Server::Command(line), _) => {
            let filled = |word: &String| {
                let word = with_port(word, port);
                let word = match documents {
                    Some(files) => word.replace("{files}", &files.folder.to_string_lossy()),
                    None => word,
                };
                let Some(dependency) = dependency else { return word };
                let word = word.replace("{dependency}", &dependency.to_string());
                word.replace("{dependency_port}", &dependency.port().to_string())
            };
            Ok(line.iter().map(|word| filled(word).into()).collect())
        }
        _ => unreachable!("a description has no other pairs"),
    }
}

/// Where a server listens that is asked for an address: at one of these. A load of somebody else's asks at the loopback.
fn hosts_of(load: &Load) -> Result<Vec<IpAddr>, Error> {
    let Load::Address { url, .. } = load else { return Ok(vec![Ipv4Addr::LOCALHOST.into()]) };
    let url = http::url(&with_port(url, PORT)).map_err(Error::Load)?;
    let found = http::addresses(&url).map_err(Error::Load)?;
    let hosts: BTreeSet<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    Ok(hosts.into_iter().collect())
}

/// The port of an address that leaves forebay no choice.
fn port_of(load: &Load) -> Option<u16> {
    match load {
        Load::Address { url, .. } if !url.contains("{port}") => {
            http::url(url).ok().map(|url| http::port(&url))
        }
        _ => None,
    }
}

fn with_port(word: &str, port: u16) -> String {
    word.replace("{port}", &port.to_string())
}

fn resolved(address: &str) -> Result<SocketAddr, Error> {
    let mut found = address.to_socket_addrs().into_iter().flatten();
    let unknown = || Error::Load(format!("dependency = \"{address}\" is no address; give HOST:PORT"));
    found.next().ok_or_else(unknown)
}

/// A group for each run: nothing is left of what an earlier one was charged for. It also counts what the server alone
/// has lost of its memory. Without root there is none, which is an error only where memory is to be limited.
fn group_for(trial: &Trial) -> Result<Option<MemoryLimit>, Error> {
    match trial.memory_bytes {
        Some(bytes) => Ok(Some(MemoryLimit::start(bytes)?)),
        None => Ok(MemoryLimit::start(Host::detect().memory_bytes.max(1 << 30)).ok()),
    }
}

fn scope_of(attached: &Attached) -> Result<Scope, Error> {
    match attached {
        Attached::Process(process) if Path::new(&format!("/proc/{process}")).is_dir() => {
            Ok(Scope::Tree(*process))
        }
        Attached::Process(process) => Err(Error::NoProcess { process: *process }),
        Attached::Cgroup(folder) => group_named(folder).map(Scope::Cgroup),
        Attached::Unit(unit) => {
            let shown =
                Command::new("systemctl").args(["show", "--property=ControlGroup", "--value", unit]).output();
            let shown = shown.map_err(|source| Error::Start { command: "systemctl show".into(), source })?;
            let name = String::from_utf8_lossy(&shown.stdout).trim().to_owned();
            if name.is_empty() {
                return Err(Error::NoUnit { unit: unit.clone() });
            }
            group_named(Path::new(&name)).map(Scope::Cgroup)
        }
    }
}

/// Processor time that a server which runs already has used, in seconds; 0 of one that forebay starts, which is a child.
pub(super) fn attached_s(server: &Server) -> f64 {
    let Server::Attached(attached) = server else { return 0.0 };
    let processes = scope_of(attached).map(|scope| scope.processes()).unwrap_or_default();
    let ticks = processes.into_iter().filter_map(|process| {
        let stat = ProcessStat::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?;
        Some([stat.own, stat.reaped].iter().map(|usage| usage.user + usage.system).sum::<u64>())
    });
    ticks.sum::<u64>() as f64 / clock_ticks_per_second() as f64
}

fn group_named(name: &Path) -> Result<PathBuf, Error> {
    let within = name.strip_prefix("/").unwrap_or(name);
    let places = HIERARCHIES.iter().map(|hierarchy| Path::new(hierarchy).join(within));
    let mut groups = [name.to_owned()].into_iter().chain(places);
    let found = groups.find(|group| fs::exists(group.join("cgroup.procs")).unwrap_or(false));
    found.ok_or_else(|| Error::NoGroup { group: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::process::Child;
    use std::time::{Duration, Instant};

    use crate::experiments::Rate;

    use super::*;

    #[test]
    fn what_a_server_that_runs_already_computes_is_told_and_of_a_child_nothing() {
        struct Busy(Child);
        impl Drop for Busy {
            fn drop(&mut self) {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }
        let busy = Busy(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
        let attached = Server::Attached(Attached::Process(busy.0.id()));
        let begun = Instant::now();
        while attached_s(&attached) < 0.05 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it computes, and nothing is told");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(attached_s(&Server::Command(vec!["sh".into()])), 0.0);
    }

    #[test]
    fn a_server_listens_where_its_url_says() {
        let of = |url: &str| {
            let (url, connections) = (url.to_owned(), Connections::Kept);
            let load =
                Load::Address { url, asked: Asked::default(), clients: 1, rate: Rate::Most, connections };
            (hosts_of(&load).unwrap(), port_of(&load))
        };
        let here = |host: &str| vec![host.parse::<IpAddr>().unwrap()];
        assert_eq!(of("http://127.0.0.1:{port}/"), (here("127.0.0.1"), None));
        assert_eq!(of("http://[::1]:{port}/"), (here("::1"), None));
        assert_eq!(of("http://127.0.0.2:8080/"), (here("127.0.0.2"), Some(8080)));
        assert_eq!(of("https://127.0.0.1/"), (here("127.0.0.1"), Some(443)));
    }
}
