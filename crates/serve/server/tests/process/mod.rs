//! The server in a process of its own (the example `serve`), so that what it has can be counted from outside.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Client, Folder, until};

pub use crate::support::LIMIT;

/// It is killed when this is dropped.
pub struct Process {
    child: Child,
    said: Option<JoinHandle<String>>,
    stdin: ChildStdin,
    /// The lines of its stdout.
    lines: Mutex<Receiver<String>>,
    pub rtsp: SocketAddr,
    pub encrypted: SocketAddr,
    pub status: SocketAddr,
}

/// What a process has.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// What it has allocated.
    pub allocated_kib: u64,
    /// Memory that is there and of no file.
    pub resident_kib: u64,
    pub descriptors: usize,
    pub threads: usize,
}

/// What the server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauges {
    /// With the one that asked.
    pub connections: u64,
    pub sessions: u64,
    pub buffer_bytes: u64,
}

impl Gauges {
    pub const IDLE: Self = Self { connections: 1, sessions: 0, buffer_bytes: 0 };
}

impl Process {
    /// Serves a folder on free ports of the loopback. Keys and settings lie in another one.
    pub fn start(folder: &Path, beside: &Folder, session_timeout: Duration) -> Self {
        Self::start_with(folder, beside, session_timeout, "")
    }

    /// The same with more settings, a line each.
    pub fn start_with(folder: &Path, beside: &Folder, session_timeout: Duration, more: &str) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        fs::write(beside.path("cert.pem"), made.cert.pem()).expect("a file");
        fs::write(beside.path("key.pem"), made.signing_key.serialize_pem()).expect("a file");
        let free = "\"127.0.0.1:0\"";
        let settings = format!(
            "folder = {folder:?}\nlisten = [{free}]\nstatus = {free}\nudp-ports = \"20000-29999\"\n{more}\
             [tls]\nlisten = [{free}]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n"
        );
        fs::write(beside.path("settings.toml"), settings).expect("a file");
        let program = forebay_testkit::artifacts::example("forebay-server", "serve").expect("an example");
        let mut child = Command::new(program)
            .arg(beside.path("settings.toml"))
            .arg(session_timeout.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut stderr = child.stderr.take().expect("a pipe");
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            stderr.read_to_end(&mut said).expect("what it says");
            String::from_utf8(said).expect("text")
        });
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, lines) = channel();
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        // From here on it is killed whatever happens.
        let mut process = Self {
            child,
            said: Some(said),
            stdin,
            lines: lines.into(),
            rtsp: unknown,
            encrypted: unknown,
            status: unknown,
        };
        let line = process.line();
        let addresses: Vec<SocketAddr> =
            line.split_whitespace().map(|address| address.parse().expect("an address")).collect();
        let [rtsp, encrypted, status] = addresses[..] else { panic!("it has not started: {line}") };
        (process.rtsp, process.encrypted, process.status) = (rtsp, encrypted, status);
        process
    }

    fn line(&self) -> String {
        self.lines.lock().expect("no reader fails").recv_timeout(LIMIT).expect("a line in time")
    }

    pub fn connect(&self) -> Client {
        Client::to(self.rtsp).expect("the server listens")
    }

    /// What the status page's port answers.
    pub fn http(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.status).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        write!(stream, "GET {path} HTTP/1.1\r\n\r\n").expect("the server reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("text");
        response
    }

    pub fn gauges(&self) -> Gauges {
        let metrics = self.http("/metrics");
        let value = |name: &str| {
            let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
        };
        Gauges {
            connections: value("forebay_connections"),
            sessions: value("forebay_sessions"),
            buffer_bytes: value("forebay_buffer_bytes"),
        }
    }

    pub fn footprint(&self) -> Footprint {
        // The thread that answers is the last one to start.
        writeln!(&self.stdin).expect("it reads");
        let allocated_bytes: u64 = self.line().parse().expect("a number");
        let of = |what| format!("/proc/{}/{what}", self.child.id());
        let status = fs::read_to_string(of("status")).expect("it runs");
        let value = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
            value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {status}"))
        };
        Footprint {
            allocated_kib: allocated_bytes >> 10,
            resident_kib: value("RssAnon:"),
            descriptors: fs::read_dir(of("fd")).expect("it runs").count(),
            threads: value("Threads:") as usize,
        }
    }

    /// The number that the next descriptor will have. Descriptors that were inherited may have higher ones.
    pub fn free_descriptor(&self) -> u64 {
        let taken = fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs").flatten();
        let taken: Vec<u64> = taken.filter_map(|one| one.file_name().to_str()?.parse().ok()).collect();
        (0..).find(|number| !taken.contains(number)).expect("a number")
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    /// How long its threads have been on a processor.
    pub fn busy(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let fields = stat.rsplit(") ").next().expect("fields").split(' ');
        // proc_pid_stat(5), fields 14 and 15, in hundredths of a second.
        let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(10 * ticks)
    }

    /// Waits for its end; its status, and what it has said.
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut status = None;
        until("the process ends", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        (status.expect("a status"), self.said())
    }

    fn said(&mut self) -> String {
        self.said.take().map_or_else(String::new, |said| said.join().expect("text"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            // What matters is at the end, or is no line of the log.
            let matters =
                |(number, line): &(usize, &&str)| number + 30 > lines.len() || !line.starts_with("forebay: ");
            lines.iter().enumerate().filter(matters).for_each(|(_, line)| eprintln!("server: {line}"));
        }
    }
}
