//! The kernel's forwarding: network namespaces with one in the middle, and iperf3 from end to end.
//!
//! A namespace lives as long as the process that was started in it, and that ends with forebay, however that ends.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::experiments::RouterLayout;
use serde_json::Value;

use super::process::Process;
use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;

/// No command that sets a network up takes longer.
const SETUP_LIMIT: Duration = Duration::from_secs(20);
/// How long iperf3 may take beyond its time.
const LATE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PORT: u16 = 5201;

/// What the experiment needs that may be missing.
pub(super) fn check() -> Result<(), Error> {
    for (program, package) in
        [("iperf3", "iperf3"), ("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux")]
    {
        if super::find_program(program).is_none() {
            return Err(Error::Missing { program, package });
        }
    }
    let root = rustix::process::geteuid().is_root();
    root.then_some(())
        .ok_or_else(|| Error::Load("network namespaces need root; run the command with sudo".into()))
}

/// Ends and a router between them. Dropped, all of it is gone.
pub(super) struct Network<'a> {
    folder: &'a Path,
    interrupt: &'a Interrupt,
    router: Process,
    ends: Vec<Process>,
    servers: Vec<Process>,
    layout: RouterLayout,
}

/// A load that is under way.
pub(super) struct Sending {
    senders: Vec<Process>,
    until: Instant,
}

impl<'a> Network<'a> {
    pub(super) fn start(
        layout: RouterLayout,
        folder: &'a Path,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Error> {
        let senders = if layout == RouterLayout::ManyToOne { 3 } else { 1 };
        let namespace = |name: String| start(&folder.join(name), &["unshare", "--net", "sleep", "infinity"]);
        let mut network = Self {
            folder,
            interrupt,
            router: namespace("router".into())?,
            ends: (0..=senders).map(|end| namespace(format!("end{end}"))).collect::<Result<_, _>>()?,
            servers: vec![],
            layout,
        };
        network.wait_for_namespaces()?;
        let router = network.router.id();
        network.inside(router, "echo 1 > /proc/sys/net/ipv4/ip_forward")?;
        for (number, end) in network.ends.iter().map(Process::id).enumerate() {
            network.outside(&format!(
                "ip link add eth0 netns {end} type veth peer name to{number} netns {router}"
            ))?;
            network.inside(
                end,
                &format!(
                    "ip address add 10.77.{number}.2/24 dev eth0 && ip link set lo up && ip link set eth0 up && \
                     ip route add default via 10.77.{number}.1"
                ),
            )?;
            network.inside(
                router,
                &format!("ip address add 10.77.{number}.1/24 dev to{number} && ip link set to{number} up"),
            )?;
        }
        for sender in 1..=senders as u16 {
            let line = format!(
                "exec nsenter --net=/proc/{}/ns/net iperf3 -s -p {}",
                network.receiver(),
                PORT + sender
            );
            network.servers.push(start(&folder.join(format!("server{sender}")), &["sh", "-c", &line])?);
        }
        network.wait_for_servers()?;
        Ok(network)
    }

    /// Sends messages of `bytes` for some time.
    pub(super) fn send(&self, bytes: u64, warm_up: f64, seconds: f64) -> Result<Sending, Error> {
        let both = if self.layout == RouterLayout::FullDuplex { "--bidir" } else { "" };
        let senders = self.ends.iter().enumerate().skip(1).map(|(number, end)| {
            let line = format!(
                "exec nsenter --net=/proc/{}/ns/net iperf3 -J -c 10.77.0.2 -p {} -l {bytes} -t {} -O {} {both}",
                end.id(),
                PORT + number as u16,
                seconds.ceil(),
                warm_up.ceil()
            );
            start(&self.folder.join(format!("sender{number}")), &["sh", "-c", &line])
        });
        let until = Instant::now() + Duration::from_secs_f64(seconds + warm_up) + LATE;
        Ok(Sending { senders: senders.collect::<Result<_, _>>()?, until })
    }

    /// Bits that arrive in a second, from all senders.
    pub(super) fn received(&self, mut sending: Sending) -> Result<f64, Error> {
        let mut bits_per_s = 0.0;
        for sender in &mut sending.senders {
            while !sender.has_ended()? {
                self.interrupt.check()?;
                if Instant::now() > sending.until {
                    return Err(Error::Load("iperf3 does not end".into()));
                }
                std::thread::sleep(LOOK_EVERY);
            }
            let report = sender.said()?;
            bits_per_s += bits_per_second(&report)
                .ok_or_else(|| Error::Load(format!("iperf3 tells nothing of what arrived: {report}")))?;
        }
        Ok(bits_per_s)
    }

    fn receiver(&self) -> u32 {
        self.ends[0].id()
    }

    /// Until each process has left this namespace for one of its own.
    fn wait_for_namespaces(&mut self) -> Result<(), Error> {
        let here = fs::read_link("/proc/self/ns/net").ok();
        let begun = Instant::now();
        for process in self.ends.iter_mut().chain([&mut self.router]) {
            let namespace = |id| fs::read_link(format!("/proc/{id}/ns/net")).ok();
            while namespace(process.id()) == here {
                self.interrupt.check()?;
                process.check()?;
                if begun.elapsed() > SETUP_LIMIT {
                    return Err(Error::Load("no network namespaces can be had".into()));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// Until each of them listens.
    fn wait_for_servers(&mut self) -> Result<(), Error> {
        let receiver = self.receiver();
        let begun = Instant::now();
        for (number, server) in self.servers.iter_mut().enumerate() {
            let port = PORT + 1 + number as u16;
            let table = |name| fs::read_to_string(format!("/proc/{receiver}/net/{name}")).unwrap_or_default();
            while !["tcp", "tcp6"].iter().any(|name| listens(&table(name), port)) {
                self.interrupt.check()?;
                server.check()?;
                if begun.elapsed() > SETUP_LIMIT {
                    return Err(Error::Load("iperf3 does not listen".into()));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    fn inside(&self, process: u32, line: &str) -> Result<(), Error> {
        let namespace = format!("--net=/proc/{process}/ns/net");
        self.command(&["nsenter", &namespace, "sh", "-c", line])
    }

    fn outside(&self, line: &str) -> Result<(), Error> {
        self.command(&["sh", "-c", line])
    }

    fn command(&self, line: &[&str]) -> Result<(), Error> {
        let invocation = Invocation::new(self.folder, line);
        let ran = invocation.run(self.folder, SETUP_LIMIT, self.interrupt)?;
        if ran.result.status.success() {
            return Ok(());
        }
        let (command, status) = (invocation.to_string(), ran.result.status.to_string());
        Err(Error::Failed { command, status, stderr: ran.stderr_end })
    }
}

fn start(folder: &Path, line: &[&str]) -> Result<Process, Error> {
    fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    let line: Vec<OsString> = line.iter().map(OsString::from).collect();
    Process::start(&line, folder, None)
}

/// Whether a socket of the table (proc_net(5)) listens on the port.
fn listens(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let local = format!(":{port:04X}");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1).is_some_and(|address| address.ends_with(&local)) && fields.get(3) == Some(&LISTEN)
    })
}

/// What arrived, both ways together, by the report of iperf3.
fn bits_per_second(report: &str) -> Option<f64> {
    let report: Value = serde_json::from_str(report).ok()?;
    let arrived = |sum: &str| report["end"][sum]["bits_per_second"].as_f64();
    Some(arrived("sum_received")? + arrived("sum_received_bidir_reverse").unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_listens_is_found_by_its_port() {
        let table = "  sl  local_address rem_address   st\n   0: 00000000:1452 00000000:0000 0A 0:0\n   1: 0100007F:1453 0100007F:9 01 0:0\n";
        assert!(listens(table, 5202) && !listens(table, 5203));
    }

    #[test]
    fn what_arrives_both_ways_is_added() {
        let report = r#"{"end": {"sum_received": {"bits_per_second": 5e8}, "sum_received_bidir_reverse": {"bits_per_second": 3e8}}}"#;
        assert_eq!(bits_per_second(report), Some(8e8));
        assert_eq!(bits_per_second(r#"{"end": {"sum_received": {"bits_per_second": 5e8}}}"#), Some(5e8));
        assert_eq!(bits_per_second(r#"{"error": "unable to connect"}"#), None);
    }
}
