//! Where the descriptors of a server lead: to its clients, to other servers, to files and timers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use forebay_linux::{
    Connection, ConnectionState, Protocol, connections, kernel_text, named, processes, socket_of, unix_peers,
};
use rustix::net::sockopt::socket_type;
use rustix::net::{SocketAddrAny, SocketAddrUnix, SocketType, getpeername, getsockname};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::experiments::{Call, Sockets};

/// A process that the server started is no further from it than this.
const GENERATIONS_MAX: usize = 16;

/// Descriptors and sockets of the server, as of the last look.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Sockets of the server.
    own: BTreeSet<u32>,
    /// Sockets that were looked for among the server's, whether it has them or not.
    known: BTreeSet<u32>,
    /// Processes with timer descriptors, and those.
    timers: BTreeMap<u32, Vec<u64>>,
    listed: Vec<Connection>,
    /// Ports that the server listens on.
    ports: BTreeSet<u16>,
    /// Names of what sockets without a TCP connection lead to; `None` before anything asked for them.
    names: Option<HashMap<u32, String>>,
    /// What the server was connected to without TCP, and by how many sockets at most; to be looked at again after each list.
    leads: BTreeMap<String, usize>,
    leads_due: bool,
    /// The server's processes, as of the last list.
    processes: BTreeSet<u32>,
    /// Names of who is at the other ends of its pipes; `None` for the server itself.
    pipes: HashMap<String, Option<String>>,
    pub(super) sockets: Sockets,
    /// Connections that accept queues of the server's network had no room for, as of the first look and of the last.
    overflows: Option<(u64, u64)>,
    /// Whether the kernel lists connections, and the descriptors may be seen.
    hidden: bool,
}

/// What a descriptor leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lead {
    /// To a client, or to one that may come.
    Client,
    /// To another server, by its TCP connection.
    Server,
    /// To another program, by this name.
    Named(String),
    /// To a file.
    File,
    /// To nothing that tells what is waited for.
    Unknown,
}

impl Lead {
    pub(super) fn call(&self) -> Call {
        match self {
            Self::Server | Self::Named(_) => Call::Other,
            Self::File => Call::File,
            Self::Client | Self::Unknown => Call::Unknown,
        }
    }
}

impl Ends {
    /// These are the server's, and names of others may have changed.
    pub(super) fn belong_to(&mut self, processes: &[u32]) {
        self.processes = processes.iter().copied().collect();
        self.names = None;
        self.leads_due = true;
    }

    /// Looks at all connections `at` so many seconds, and at the descriptors of the server where one is not known yet.
    pub(super) fn look(&mut self, at: f64) {
        let Ok(listed) = connections(Protocol::Tcp) else {
            self.hidden = true;
            return;
        };
        self.listed = listed;
        let is_new = |one: &Connection| one.inode != 0 && !self.known.contains(&one.inode);
        if self.leads_due || self.listed.iter().any(is_new) {
            self.list();
        }
        if std::mem::take(&mut self.leads_due) {
            self.note_leads();
        }
        let listening =
            |one: &&Connection| one.state == ConnectionState::Listening && self.own.contains(&one.inode);
        self.ports = self.listed.iter().filter(listening).map(|one| one.local.port()).collect();
        let own = &self.own;
        self.sockets.add(at, &self.listed, |inode| own.contains(&inode));
        // That of the process would be of another network where this thread has entered the server's.
        let netstat = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
        if let Some(now) = kernel_text::accept_overflows(&netstat) {
            self.overflows = Some((self.overflows.map_or(now, |(first, _)| first), now));
        }
    }

    /// Adds what the server is connected to just now without TCP.
    fn note_leads(&mut self) {
        let own = std::mem::take(&mut self.own);
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for (_, name) in self.names().iter().filter(|(inode, _)| own.contains(inode)) {
            *found.entry(name.clone()).or_default() += 1;
        }
        self.own = own;
        for (name, number) in found {
            let most = self.leads.entry(name).or_default();
            *most = number.max(*most);
        }
    }

    fn list(&mut self) {
        self.own.clear();
        self.timers.clear();
        for &process in &self.processes {
            let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else {
                // One that has ended has none.
                self.hidden |= fs::exists(format!("/proc/{process}/fd")).unwrap_or(true);
                continue;
            };
            for descriptor in descriptors.flatten() {
                let Ok(link) = fs::read_link(descriptor.path()) else { continue };
                let Some(link) = link.to_str() else { continue };
                if let Some(inode) = socket_of(link) {
                    self.own.insert(inode);
                } else if link == "anon_inode:[timerfd]" {
                    let name = descriptor.file_name();
                    let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
                    self.timers.entry(process).or_default().extend(number);
                }
            }
        }
        self.known.clear();
        self.known.extend(self.listed.iter().map(|one| one.inode));
        self.known.extend(&self.own);
    }

    /// Where a descriptor of a process leads.
    pub(super) fn lead(&mut self, process: u32, descriptor: u64) -> Lead {
        let path = PathBuf::from(format!("/proc/{process}/fd/{descriptor}"));
        let Ok(link) = fs::read_link(&path) else { return Lead::Unknown };
        let link = link.to_string_lossy();
        if let Some(inode) = socket_of(&link) {
            return self.lead_of_socket(inode).unwrap_or_else(|| self.lead_of_peer(process, descriptor));
        }
        if link.starts_with("pipe:") {
            let own = &self.processes;
            let name = self.pipes.entry(link.to_string()).or_insert_with(|| other_end(&link, own));
            return name.clone().map_or(Lead::Unknown, Lead::Named);
        }
        match fs::metadata(&path).map(|metadata| metadata.file_type()) {
            Ok(kind) if kind.is_file() => Lead::File,
            Ok(kind) if kind.is_fifo() => Lead::Named(link.into_owned()),
            _ => Lead::Unknown,
        }
    }

    /// `None` of a socket that is younger than the lists, or whose other end has no name.
    fn lead_of_socket(&mut self, inode: u32) -> Option<Lead> {
        if let Some(one) = self.listed.iter().find(|one| one.inode == inode) {
            let is_client = one.state == ConnectionState::Listening || self.ports.contains(&one.local.port());
            return Some(if is_client { Lead::Client } else { Lead::Server });
        }
        self.names().get(&inode).cloned().map(Lead::Named)
    }

    /// By the socket itself, which is opened once more for that.
    fn lead_of_peer(&self, process: u32, descriptor: u64) -> Lead {
        let Some((kind, local_port, peer)) = peer(process, descriptor) else { return Lead::Unknown };
        match SocketAddr::try_from(peer.clone()) {
            Ok(remote) if kind == SocketType::DGRAM => Lead::Named(datagrams_to(remote)),
            Ok(_) if local_port.is_some_and(|port| self.ports.contains(&port)) => Lead::Client,
            Ok(_) => Lead::Server,
            Err(_) => SocketAddrUnix::try_from(peer)
                .ok()
                .and_then(|unix| unix_name(&unix))
                .map_or(Lead::Unknown, Lead::Named),
        }
    }

    fn names(&mut self) -> &HashMap<u32, String> {
        self.names.get_or_insert_with(|| {
            let unix = unix_peers().unwrap_or_default();
            let unix = unix.into_iter().map(|(inode, path)| (inode, path.display().to_string()));
            let datagrams = connections(Protocol::Udp).unwrap_or_default();
            unix.chain(datagrams.into_iter().map(|one| (one.inode, datagrams_to(one.remote)))).collect()
        })
    }

    /// The timer descriptors of a process.
    pub(super) fn timers(&self, process: u32) -> &[u64] {
        self.timers.get(&process).map_or(&[], Vec::as_slice)
    }

    /// What may hold requests up and tells no more, in words: what the server is connected to without TCP, and overflows.
    pub(super) fn leads(&mut self) -> Vec<String> {
        let overflows = self.overflows.map_or(0, |(first, last)| last.saturating_sub(first));
        let word = |(name, number): (String, usize)| match number {
            1 => format!("a connection to {name}"),
            _ => format!("{number} connections to {name}"),
        };
        let overflows = (overflows > 0).then(|| {
            format!("{overflows} connections for which an accept queue of its network had no room at first")
        });
        std::mem::take(&mut self.leads).into_iter().map(word).chain(overflows).collect()
    }

    /// Whether all could be seen.
    pub(super) fn is_complete(&self) -> bool {
        !self.hidden
    }
}

/// The kind of a socket that a process has, its own port, and the address of its other end.
fn peer(process: u32, descriptor: u64) -> Option<(SocketType, Option<u16>, SocketAddrAny)> {
    let process = pidfd_open(Pid::from_raw(i32::try_from(process).ok()?)?, PidfdFlags::empty()).ok()?;
    let socket = pidfd_getfd(process, i32::try_from(descriptor).ok()?, PidfdGetfdFlags::empty()).ok()?;
    let local = getsockname(&socket).ok().and_then(|local| SocketAddr::try_from(local).ok());
    Some((socket_type(&socket).ok()?, local.map(|local| local.port()), getpeername(&socket).ok()??))
}

fn datagrams_to(remote: SocketAddr) -> String {
    format!("{remote} (UDP)")
}

/// The name of a socket in the file system, or with @ of one that is in none.
fn unix_name(address: &SocketAddrUnix) -> Option<String> {
    let path = address.path_bytes().map(|path| String::from_utf8_lossy(path).into_owned());
    path.or_else(|| Some(format!("@{}", String::from_utf8_lossy(address.abstract_name()?))))
}

/// Who has a pipe that the server has too; `None` where that is nobody but the server.
fn other_end(pipe: &str, own: &BTreeSet<u32>) -> Option<String> {
    let mut unseen = false;
    for process in processes().filter(|process| !descends(*process, own)) {
        let descriptors = match fs::read_dir(format!("/proc/{process}/fd")) {
            Ok(descriptors) => descriptors,
            Err(error) => {
                unseen |= error.kind() == io::ErrorKind::PermissionDenied;
                continue;
            }
        };
        let is_pipe = |path: PathBuf| fs::read_link(path).is_ok_and(|link| link.as_os_str() == pipe);
        if descriptors.flatten().any(|descriptor| is_pipe(descriptor.path())) {
            return Some(format!("{} at the other end of a pipe", named(process)));
        }
    }
    unseen.then(|| "a process at the other end of a pipe".to_owned())
}

/// Whether a process is one of these, or one that they started.
fn descends(process: u32, own: &BTreeSet<u32>) -> bool {
    let parent = |process: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        kernel_text::ProcessStat::parse(&text).map(|stat| stat.parent)
    };
    std::iter::successors(Some(process), parent).take(GENERATIONS_MAX).any(|one| own.contains(&one))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    #[test]
    fn descriptors_lead_to_clients_servers_names_and_files() {
        let process = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (listener, elsewhere) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), UnixListener::bind(&path).unwrap());
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let asking = UnixStream::connect(&path).unwrap();
        let _answering = elsewhere.accept().unwrap();
        let nowhere = format!("forebay-{process}");
        let abstract_name = UnixAddr::from_abstract_name(&nowhere).unwrap();
        let _hidden = UnixListener::bind_addr(&abstract_name).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"x").unwrap();
        let (pipe, _writer) = std::io::pipe().unwrap();
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let to_other = other.stdin.take().unwrap();

        let mut ends = Ends::default();
        ends.belong_to(&[process]);
        ends.look(0.0);
        let mut lead = |of: &dyn AsRawFd| ends.lead(process, of.as_raw_fd() as u64);
        assert_eq!(lead(&listener), Lead::Client);
        assert_eq!(lead(&accepted), Lead::Client);
        assert_eq!(lead(&client), Lead::Server);
        assert_eq!(lead(&asking), Lead::Named(path.display().to_string()));
        assert_eq!(lead(&file), Lead::File);
        // Both ends are the server's own, or those of a process that it started.
        assert_eq!((lead(&pipe), lead(&to_other)), (Lead::Unknown, Lead::Unknown));
        let link = fs::read_link(format!("/proc/{process}/fd/{}", to_other.as_raw_fd())).unwrap();
        let name = other_end(link.to_str().unwrap(), &BTreeSet::new()).unwrap();
        assert!(name.ends_with(" at the other end of a pipe"), "{name}");
        other.kill().unwrap();
        other.wait().unwrap();
        // These are younger than all lists.
        let asking_too = UnixStream::connect_addr(&abstract_name).unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.connect("127.0.0.1:9").unwrap();
        let young = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (taken, _) = listener.accept().unwrap();
        let mut lead = |of: &dyn AsRawFd| ends.lead(process, of.as_raw_fd() as u64);
        assert_eq!(lead(&asking_too), Lead::Named(format!("@{nowhere}")));
        assert_eq!(lead(&datagrams), Lead::Named("127.0.0.1:9 (UDP)".into()));
        assert_eq!((lead(&young), lead(&taken)), (Lead::Server, Lead::Client));
        assert!(ends.is_complete());
        let words = format!("a connection to {}", path.display());
        assert!(ends.leads().contains(&words), "{words}");
    }

    #[test]
    fn connections_that_find_no_room_in_an_accept_queue_are_a_lead() {
        let mut ends = Ends::default();
        ends.look(0.0);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let _waiting = TcpStream::connect(address).unwrap();
        assert!(TcpStream::connect_timeout(&address, Duration::from_millis(10)).is_err());
        ends.look(1.0);
        let leads = ends.leads();
        assert!(leads.iter().any(|lead| lead.contains("had no room")), "{leads:?}");
    }
}
