//! Hosts that are processes: the example `sharing`, with a rendezvous table.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_launch::{Table, environment};
use rustix::io::{FdFlags, fcntl_setfd};

/// For whatever takes a second or two when nothing is wrong, on a machine that does much else.
pub const LIMIT: Duration = Duration::from_secs(60);

/// One of several processes.
pub struct Process {
    pub child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

/// The hosts of a job. They are killed when this is dropped.
pub struct Job(pub Vec<Process>);

/// Hosts that are started at the same time would inherit each other's sockets.
static STARTING: Mutex<()> = Mutex::new(());

/// The example, which cargo builds with the tests.
pub fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.with_file_name("examples").join(name)
}

impl Job {
    /// Starts as many hosts as there are commands; `change` does as it likes with each.
    pub fn start(hosts: u16, arguments: &[&str], change: impl Fn(u16, &mut Command)) -> Self {
        let commands = (0..hosts).map(|_| {
            let mut command = Command::new(example("sharing"));
            command.args(arguments).stdin(Stdio::null());
            command
        });
        Self::of(commands.collect(), change)
    }

    /// Starts these.
    pub fn of(commands: Vec<Command>, change: impl Fn(u16, &mut Command)) -> Self {
        Self::through(commands, change, |_, socket| socket)
    }

    /// Starts these, each with the socket that `way` gives it for its way to the table.
    pub fn through(
        commands: Vec<Command>,
        change: impl Fn(u16, &mut Command),
        way: impl Fn(u16, UnixStream) -> UnixStream,
    ) -> Self {
        let _turn = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let hosts = commands.len() as u16;
        let (table, sockets) = Table::new(hosts).unwrap();
        let start = |(rank, (mut command, socket)): (usize, (Command, UnixStream))| {
            let rank = rank as u16;
            let socket = way(rank, socket);
            fcntl_setfd(&socket, FdFlags::empty()).unwrap();
            command
                .env(environment::SOCKET, socket.as_raw_fd().to_string())
                .env(environment::RANK, rank.to_string())
                .env(environment::HOSTS, hosts.to_string())
                .env("RUST_BACKTRACE", "0")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            change(rank, &mut command);
            let mut child = command.spawn().unwrap();
            fcntl_setfd(&socket, FdFlags::CLOEXEC).unwrap();
            let stdout = lines(child.stdout.take().unwrap());
            let stderr = lines(child.stderr.take().unwrap());
            Process { child, stdout, stderr }
        };
        let job = Self(commands.into_iter().zip(sockets).enumerate().map(start).collect());
        thread::spawn(|| table.serve());
        job
    }

    /// Starts these, which wait for a line on standard input, in two networks that have a link with each other.
    pub fn linked(mut commands: Vec<Command>, change: impl Fn(u16, &mut Command)) -> Self {
        for command in &mut commands {
            command.stdin(Stdio::piped());
        }
        let mut job = Self::of(commands, change);
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        let pids = [0, 1].map(|host| job.0[host].child.id().to_string());
        let deadline = Instant::now() + LIMIT;
        while pids.iter().any(|pid| network(pid) == network("self")) {
            assert!(Instant::now() < deadline, "no network of its own");
            thread::sleep(Duration::from_millis(5));
        }
        let [one, other] = &pids;
        run(&[
            "ip", "link", "add", "veth0", "netns", one, "type", "veth", "peer", "name", "veth0", "netns",
            other,
        ]);
        for host in [0, 1] {
            job.in_network(
                host,
                &["ip", "address", "add", &format!("10.77.0.{}/24", host + 1), "dev", "veth0"],
            );
            job.in_network(host, &["ip", "link", "set", "veth0", "up"]);
        }
        job.0
            .iter_mut()
            .for_each(|process| process.child.stdin.as_ref().unwrap().write_all(b"go\n").unwrap());
        job
    }

    /// Runs a command in the network of a host.
    pub fn in_network(&self, host: usize, command: &[&str]) {
        let pid = self.0[host].child.id().to_string();
        run(&[&["nsenter", "--target", &pid, "--net"], command].concat());
    }

    /// The next line that a host writes to standard output.
    pub fn told(&mut self, host: usize) -> String {
        let told = self.0[host].stdout.recv_timeout(LIMIT);
        told.unwrap_or_else(|_| panic!("host {host} writes no line: {:?}", self.end(host)))
    }

    /// Waits for the end of a host: its status, and what it wrote to standard output and error.
    pub fn end(&mut self, host: usize) -> (Option<i32>, String, String) {
        self.end_within(host, LIMIT)
    }

    fn end_within(&mut self, host: usize, limit: Duration) -> (Option<i32>, String, String) {
        let process = &mut self.0[host];
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = process.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "host {host} does not end");
            thread::sleep(Duration::from_millis(5));
        };
        let rest = |lines: &Receiver<String>| lines.iter().collect::<Vec<_>>().join("\n");
        (status.code(), rest(&process.stdout), rest(&process.stderr))
    }

    /// Whether no host has ended, and their processes.
    pub fn pids(&mut self) -> Option<Vec<u32>> {
        let running = self.0.iter_mut().all(|process| process.child.try_wait().unwrap().is_none());
        running.then(|| self.0.iter().map(|process| process.child.id()).collect())
    }

    /// All end well.
    pub fn end_well(self) {
        self.end_well_within(LIMIT);
    }

    /// The same, each in so much time.
    pub fn end_well_within(mut self, limit: Duration) {
        for host in 0..self.0.len() {
            let (status, stdout, stderr) = self.end_within(host, limit);
            assert_eq!((status, &*stderr), (Some(0), ""), "host {host}: {stdout}");
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for Process { child, .. } in &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A TCP socket of a process.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    pub address: SocketAddr,
    pub listens: bool,
}

/// Those of these processes, whatever state they are in (proc_net(5)).
pub fn ports(pids: &[u32]) -> Vec<Port> {
    let inode = |link: PathBuf| {
        let link = fs::read_link(link).ok()?.to_string_lossy().into_owned();
        Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    let folders = pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
    let sockets: HashSet<String> = folders.flatten().filter_map(|entry| inode(entry.ok()?.path())).collect();
    let text = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (address, port) = words.get(1)?.split_once(':')?;
        let address = u32::from_str_radix(address, 16).ok()?.to_le_bytes();
        let address = SocketAddr::from((address, u16::from_str_radix(port, 16).ok()?));
        sockets.contains(*words.get(9)?).then_some(Port { address, listens: words[3] == "0A" })
    };
    text.lines().skip(1).filter_map(port).collect()
}

/// What is written to a pipe, line by line.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

fn run(command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).status().unwrap();
    assert!(status.success(), "{command:?}");
}
