//! A server that is started for a run, and ended after it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_linux::kernel_text::ProcessStat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, getsid, kill_process, kill_process_group,
    pidfd_open, set_child_subreaper, waitid,
};

use crate::Error;
use crate::error::quoted;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;

/// How long a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a server may take to end before it is killed.
const END_LIMIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long is waited for what was killed.
const BURY_LIMIT: Duration = Duration::from_secs(5);
/// Joins a control group, if there is one to join, and becomes the program, which ends with forebay however that ends.
const JOIN_AND_RUN: &str = r#"[ -z "$0" ] || echo 0 > "$0" || exit
exec $(command -v setpriv > /dev/null && echo setpriv --pdeathsig TERM) "$@""#;
/// How much of what it says a message quotes, in bytes.
const QUOTED: usize = 2000;
/// So often is looked for processes that are left, at most.
const LEFT_LOOKS_MAX: usize = 100;
/// The variable that tells which process of forebay's something was started by.
const MARK: &str = "FOREBAY_STARTED";
static MARKS: AtomicU64 = AtomicU64::new(0);
/// So many processes are there that did not end yet.
static PRESENT: AtomicUsize = AtomicUsize::new(0);
/// A port that is free at one address, or the next one, may be somebody's.
const PORT_TRIES: usize = 20;

/// A process, with all that it starts, that ends with this.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    command: String,
    said: PathBuf,
    /// In the environment of all that it starts.
    mark: String,
}

impl Process {
    /// Starts it in `folder`, in a process group of its own and, where there is one, in a control group.
    pub(crate) fn start(arguments: &[OsString], folder: &Path, join: Option<&Path>) -> Result<Self, Error> {
        Self::start_in(arguments, folder, &folder.join("said"), join)
    }

    /// Starts it in `folder`; what it says goes to the file `said`.
    pub(crate) fn start_in(
        arguments: &[OsString],
        folder: &Path,
        said: &Path,
        join: Option<&Path>,
    ) -> Result<Self, Error> {
        let shown = Invocation::new(folder, arguments).to_string();
        let said = said.to_owned();
        let log = fs::File::create(&said).map_err(Error::file("write", &said))?;
        let log_again = log.try_clone().map_err(Error::file("write", &said))?;
        let mut command = Command::new("sh");
        command.args([
            OsStr::new("-c"),
            OsStr::new(JOIN_AND_RUN),
            join.map_or(OsStr::new(""), Path::as_os_str),
        ]);
        command.args(arguments).current_dir(folder).process_group(0);
        let number = MARKS.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{number}", std::process::id());
        command.env(MARK, &value);
        command.stdin(Stdio::null()).stdout(log).stderr(log_again);
        // What leaves its parent, as a daemon does, becomes a child of forebay's. A kernel that cannot do so makes it init's.
        let _ = set_child_subreaper(Some(getpid()));
        let child = command.spawn().map_err(|source| Error::Start { command: shown.clone(), source })?;
        PRESENT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { child, command: shown, said, mark: format!("{MARK}={value}") })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it takes connections at one of `addresses`, and gives that one.
    pub(crate) fn wait_for(
        &mut self,
        addresses: &[SocketAddr],
        interrupt: &Interrupt,
    ) -> Result<SocketAddr, Error> {
        let begun = Instant::now();
        let answers =
            |address: &&SocketAddr| TcpStream::connect_timeout(address, Duration::from_secs(1)).is_ok();
        loop {
            if let Some(address) = addresses.iter().find(answers) {
                // Somebody else may have answered.
                return self.check().map(|()| *address);
            }
            interrupt.check()?;
            self.check()?;
            if begun.elapsed() > START_LIMIT {
                let (command, stderr) = (self.command.clone(), self.words());
                return Err(Error::Unready {
                    command,
                    addresses: addresses.to_vec(),
                    limit: START_LIMIT,
                    stderr,
                });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until `ready` succeeds, which runs in `folder` again and again.
    pub(crate) fn wait_until(
        &mut self,
        ready: &[OsString],
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let (begun, said) = (Instant::now(), folder.join("ready"));
        let mut asking = Self::start_in(ready, folder, &said, None)?;
        loop {
            interrupt.check()?;
            self.check()?;
            match asking.has_ended() {
                Ok(true) => return Ok(()),
                Err(Error::Failed { .. }) => {
                    std::thread::sleep(LOOK_EVERY);
                    asking = Self::start_in(ready, folder, &said, None)?;
                }
                Err(error) => return Err(error),
                Ok(false) => std::thread::sleep(LOOK_EVERY),
            }
            if begun.elapsed() > START_LIMIT {
                let (command, said) = (&asking.command, quoted(&asking.words()));
                let why = format!("within {START_LIMIT:?} {command} did not succeed{said}");
                return Err(Error::Load(why));
            }
        }
    }

    /// An error where it has ended.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        if self.has_ended()? {
            return Err(Error::Background { command: self.command.clone(), said: self.words() });
        }
        Ok(())
    }

    /// Whether it has done what it was started for; an error where it ended otherwise.
    pub(crate) fn has_ended(&mut self) -> Result<bool, Error> {
        match self.ended() {
            Ok(None) => Ok(false),
            Ok(Some(status)) if status.success() => Ok(true),
            Ok(Some(status)) => Err(Error::Failed {
                command: self.command.clone(),
                status: status.to_string(),
                stderr: self.words(),
            }),
            Err(source) => Err(Error::Start { command: self.command.clone(), source }),
        }
    }

    /// All that it said.
    pub(crate) fn said(&self) -> Result<String, Error> {
        let bytes = fs::read(&self.said).map_err(Error::file("read", &self.said))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The end of what it said.
    pub(crate) fn words(&self) -> String {
        let bytes = fs::read(&self.said).unwrap_or_default();
        let end = &bytes[bytes.len().saturating_sub(QUOTED)..];
        String::from_utf8_lossy(end).trim().to_owned()
    }

    /// How it has ended, if it has; with it ends what it leaves in its group. As long as the child is not reaped, the number of its
    /// group cannot be anybody else's.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let group = Pid::from_child(&self.child);
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(group), look) {
            Ok(None) => return Ok(None),
            Ok(Some(_)) => {
                let _ = kill_process_group(group, Signal::KILL);
            }
            // It was reaped, and its status is kept.
            Err(_) => {}
        }
        self.child.try_wait()
    }

    /// Ends the group in order, or by force.
    fn end(&mut self) {
        if !matches!(self.ended(), Ok(None)) {
            return;
        }
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::TERM);
        if let Ok(ended) = pidfd_open(group, PidfdFlags::empty()) {
            let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&END_LIMIT));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// What may be left in a group of processes that left their server's, as a daemon does: it ends with this.
#[derive(Debug)]
pub(crate) struct LeftBehind(PathBuf);

impl LeftBehind {
    /// Of the group with this file of processes.
    pub(crate) fn of(processes: PathBuf) -> Self {
        Self(processes)
    }
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        kill_all(|| {
            let processes = fs::read_to_string(&self.0).unwrap_or_default();
            processes.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
        });
    }
}

/// A daemon has left the group, and without a control group its environment tells whose it is. A daemon that has overwritten its
/// environment ends with the last process: nothing tells it from a daemon of a server that still runs.
impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        bury_group(Pid::from_child(&self.child));
        kill_all(|| marked(&self.mark));
        if PRESENT.fetch_sub(1, Ordering::Relaxed) == 1 {
            kill_all(adopted);
        }
    }
}

/// Kills what is found, again and again: one may start another one meanwhile.
fn kill_all(find: impl Fn() -> Vec<Pid>) {
    for _ in 0..LEFT_LOOKS_MAX {
        let left = find();
        if left.is_empty() {
            return;
        }
        for process in &left {
            let _ = kill_process(*process, Signal::KILL);
        }
        left.into_iter().for_each(bury);
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until a process that was killed is gone, and takes its status if it is a child.
fn bury(process: Pid) {
    if let Ok(ended) = pidfd_open(process, PidfdFlags::empty()) {
        let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&END_LIMIT));
    }
    let _ = waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}

/// Takes the status of those in a group that was killed which have become children since their parent ended.
fn bury_group(group: Pid) {
    let (begun, look) = (Instant::now(), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    while begun.elapsed() < BURY_LIMIT {
        match waitid(WaitId::Pgid(Some(group)), look) {
            Ok(Some(_)) => {}
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(_) => return,
        }
    }
}

/// Children that left a server: in a session of their own, and of another program than forebay, whose own helpers may be there too.
fn adopted() -> Vec<Pid> {
    let program = |process: Pid| fs::read_link(format!("/proc/{process}/exe")).ok();
    let (parent, session, own) = (getpid(), getsid(None).ok(), program(getpid()));
    let is_child = |process: Pid| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok();
        let stat = stat.and_then(|text| ProcessStat::parse(&text));
        stat.is_some_and(|stat| Pid::from_raw(stat.parent as i32) == Some(parent))
    };
    let has_left = |process: Pid| getsid(Some(process)).ok() != session;
    // One that has ended has no program.
    let is_other = |process: Pid| program(process).is_some_and(|program| Some(program) != own);
    processes().filter(|one| is_child(*one) && has_left(*one) && is_other(*one)).collect()
}

/// Processes with this in their environment, as far as that may be seen; one that has ended has none.
fn marked(mark: &str) -> Vec<Pid> {
    let has_mark = |process: &Pid| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    processes().filter(has_mark).collect()
}

fn processes() -> impl Iterator<Item = Pid> {
    forebay_linux::processes().filter_map(|process| Pid::from_raw(process.try_into().ok()?))
}

/// A port of the loopback that nobody listens on.
pub(crate) fn free_port() -> Result<u16, Error> {
    free_port_of(&[Ipv4Addr::LOCALHOST.into()])
}

/// A port that nobody listens on at any of `hosts` that are addresses of this machine.
pub(crate) fn free_port_of(hosts: &[IpAddr]) -> Result<u16, Error> {
    let free = || {
        let bound = hosts.iter().find_map(|host| bind(*host, 0).transpose());
        let bound = bound.unwrap_or_else(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let port = bound.local_addr()?.port();
        drop(bound);
        hosts.iter().try_for_each(|host| bind(*host, port).map(|_| ())).map(|()| port)
    };
    let mut tries = (0..PORT_TRIES).map(|_| free());
    let found = tries.find_map(Result::ok);
    found.map_or_else(|| free().map_err(|source| Error::NoPort { source }), Ok)
}

/// Listens there; `None` where the host is none of this machine's, or the port is for root and a server that is given the right.
fn bind(host: IpAddr, port: u16) -> io::Result<Option<TcpListener>> {
    match TcpListener::bind((host, port)) {
        Ok(listener) => Ok(Some(listener)),
        Err(error)
            if [io::ErrorKind::AddrNotAvailable, io::ErrorKind::PermissionDenied].contains(&error.kind()) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Two ports for datagrams that nobody has, an even one and the next (RFC 3550, section 11), on the loopback.
pub(crate) fn free_pair() -> Result<(SocketAddr, SocketAddr), Error> {
    let bind = |port| UdpSocket::bind(("127.0.0.1", port));
    let pair = || {
        let first = bind(0)?.local_addr()?;
        let even = SocketAddr::new(first.ip(), first.port() & !1);
        let odd = SocketAddr::new(even.ip(), even.port() | 1);
        bind(even.port()).and(bind(odd.port())).map(|_| (even, odd))
    };
    let mut tries = (0..PORT_TRIES).map(|_| pair());
    let found = tries.find_map(Result::ok);
    found.map_or_else(|| pair().map_err(|source| Error::NoPort { source }), Ok)
}

/// An error where somebody listens at one of `hosts` already.
pub(crate) fn check_free(port: u16, hosts: &[IpAddr]) -> Result<(), Error> {
    let taken = hosts.iter().find_map(|host| bind(*host, port).err());
    taken.map_or(Ok(()), |source| Err(Error::PortTaken { port, source }))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn start(script: &str, folder: &Path) -> Process {
        Process::start(&["sh", "-c", script].map(OsString::from), folder, None).unwrap()
    }

    #[test]
    fn a_server_that_ends_instead_of_answering_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start("echo no such option >&2; exit 3", folder.path());
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let error = process.wait_for(&[address], &Interrupt::watch()).unwrap_err().to_string();
        assert!(error.contains("no such option") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_server_that_ends_without_a_word_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start("exit 3", folder.path());
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let error = process.wait_for(&[address], &Interrupt::watch()).unwrap_err().to_string();
        assert!(error.ends_with("ended with exit status: 3 and said nothing"), "{error}");
    }

    /// The process whose number the script writes into the file `child`.
    fn child_of(folder: &Path) -> u32 {
        let (child, begun) = (folder.join("child"), Instant::now());
        loop {
            let written = fs::read_to_string(&child).unwrap_or_default();
            if let Some(number) = written.strip_suffix('\n') {
                return number.parse().unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "no child was started");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn assert_gone(child: u32) {
        // It is buried as well.
        let gone = || !Path::new(&format!("/proc/{child}")).exists();
        let begun = Instant::now();
        // Servers of other tests may be there until then.
        while !gone() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{child} is still there");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn children_end_with_their_server() {
        let folder = tempfile::tempdir().unwrap();
        let process = start("sleep 300 & echo $! > child; wait", folder.path());
        let child = child_of(folder.path());
        drop(process);
        assert_gone(child);
    }

    #[test]
    fn a_daemon_ends_with_what_started_it() {
        let folder = tempfile::tempdir().unwrap();
        let process = start("setsid sh -c 'echo $$ > child; exec sleep 300' & wait", folder.path());
        let child = child_of(folder.path());
        drop(process);
        assert_gone(child);
    }

    #[test]
    fn a_daemon_without_its_environment_ends_with_the_last_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let process = start("env -i setsid sh -c 'echo $$ > child; exec sleep 300' & wait", folder.path());
        let child = child_of(folder.path());
        drop(process);
        assert_gone(child);
    }

    #[test]
    fn children_end_with_a_server_that_ends_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start("sleep 300 & echo $! > child; exit 3", folder.path());
        let child = child_of(folder.path());
        let begun = Instant::now();
        while process.check().is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the server goes on");
            std::thread::sleep(LOOK_EVERY);
        }
        drop(process);
        assert_gone(child);
    }

    #[test]
    fn ports_for_datagrams_are_side_by_side() {
        for _ in 0..50 {
            let (even, odd) = free_pair().unwrap();
            assert_eq!((even.port() % 2, odd.port()), (0, even.port() + 1));
            assert!(even.ip().is_loopback() && odd.ip().is_loopback());
        }
    }

    #[test]
    fn a_port_that_is_taken_is_told() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let here = [Ipv4Addr::LOCALHOST.into()];
        let error = check_free(port, &here).unwrap_err().to_string();
        assert!(error.contains(&port.to_string()), "{error}");
        drop(listener);
        check_free(port, &here).unwrap();
    }

    #[test]
    fn a_server_is_waited_for_where_it_listens() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start("exec sleep 300", folder.path());
        let hosts: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let Ok(listener) = TcpListener::bind((hosts[1], free_port_of(&hosts).unwrap())) else {
            return forebay_testkit::skip("a_server_is_waited_for_where_it_listens", "there is no IPv6");
        };
        let address = listener.local_addr().unwrap();
        assert!(
            check_free(address.port(), &hosts).is_err() && check_free(address.port(), &hosts[..1]).is_ok()
        );
        let addresses = hosts.map(|host| SocketAddr::new(host, address.port()));
        assert_eq!(process.wait_for(&addresses, &Interrupt::watch()).unwrap(), address);
    }
}
