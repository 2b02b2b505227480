//! Servers with a known cause of their speed each, in C, Python and Go and with nginx as a proxy: the verdict names it.
//!
//! `cargo test -p forebay-evaluation --test planted_causes -- --nocapture | grep planted:` lists each cause, and what was said.
#![forbid(unsafe_code)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_evaluation::Profile;
use forebay_evaluation::servers::server::{Finding, Limit, Verdict};
use forebay_lab::{SlowDevice, SlowDisk};
use forebay_testkit::{artifacts, guests, skip};
use support::late::{answer_late, late_datagrams, late_server};
use support::{Planted, assert_named, assert_told, is_crowded, turn};

/// Sources of the servers that no C compiler makes.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/guests/evaluate");
/// Where `scripts/setup` unpacks nginx, if no package manager installed it.
const UNPACKED_NGINX: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/tools/nginx/usr/sbin/nginx");

/// What is said of Python's server with this cause.
fn python<'a>(cause: &'a str, place: &'a str) -> impl Fn(u32) -> (Verdict, String) + 'a {
    move |attempt| {
        let program = format!("{SOURCES}/planted.py");
        let server = ["python3", &program, cause, "{port}", place];
        Planted { name: cause, server: &server, settings: &[], simulate: false }.run(attempt)
    }
}

/// The server in Go; `None`, and said, where Go is not installed.
fn go_server(test: &str) -> Option<PathBuf> {
    let server = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planted-go");
    let unfinished = server.with_extension(std::process::id().to_string());
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&unfinished)
        .arg(format!("{SOURCES}/planted.go"))
        .env("GOFLAGS", "-p=1")
        .output();
    match built {
        Ok(built) => {
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            fs::rename(unfinished, &server).unwrap();
            Some(server)
        }
        Err(_) => {
            skip(test, "go is not installed: run `scripts/setup test`");
            None
        }
    }
}

/// What is said of a program's server with this cause.
fn program<'a>(program: &'a Path, cause: &'a str, place: &'a str) -> impl Fn(u32) -> (Verdict, String) + 'a {
    move |attempt| {
        let server = [program.to_str().unwrap(), cause, "{port}", place];
        Planted { name: cause, server: &server, settings: &[], simulate: false }.run(attempt)
    }
}

#[track_caller]
fn assert_late(port: &str, diagnose: impl Fn(u32) -> (Verdict, String)) {
    let named = |verdict: &Verdict| verdict.name.as_deref() == Some(&format!("127.0.0.1:{port}"));
    assert_named(Limit::Dependency, diagnose, named);
}

#[test]
fn a_sleep_in_an_event_loop_is_a_sleep() {
    let _turn = turn();
    assert_named(Limit::Sleep, python("sleep", ""), |verdict| verdict.undecided.is_empty());
}

#[test]
fn a_lock_in_an_event_loop_is_a_lock() {
    let _turn = turn();
    assert_named(Limit::Lock, python("lock", ""), |verdict| verdict.undecided.is_empty());
}

#[test]
fn an_event_loop_that_blocks_is_asleep() {
    let _turn = turn();
    assert_named(Limit::Sleep, python("block", ""), |_| true);
}

#[test]
fn an_event_loop_that_computes_is_one_thread() {
    let _turn = turn();
    assert_named(Limit::OneThread, python("compute", ""), |_| true);
}

#[test]
fn an_event_loop_that_asks_a_late_server_names_that() {
    let _turn = turn();
    let port = late_server();
    assert_late(&port, python("ask", &port));
}

#[test]
fn two_workers_that_wait_for_a_late_server_are_all_taken() {
    let _turn = turn();
    let port = late_server();
    let named = |verdict: &Verdict| verdict.evidence.iter().any(|reason| reason.contains(&port));
    assert_named(Limit::Workers, python("pool", &port), named);
}

#[test]
fn a_late_server_that_cannot_be_looked_at_is_no_limit_but_a_lead() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(|| answer_late(stream));
        }
    });
    let path = path.to_str().unwrap();
    let lead = |verdict: &Verdict| verdict.undecided.iter().any(|what| what.contains(path));
    assert_named(Limit::Undecided, python("ask-unix", path), lead);
}

#[test]
fn a_limiter_of_the_rate_is_one_of_what_it_may_be() {
    let _turn = turn();
    let named = |verdict: &Verdict| verdict.name.as_ref().is_some_and(|name| name.contains("rate limiter"));
    assert_named(Limit::Lock, python("rate", ""), named);
}

#[test]
fn threads_that_each_wait_for_a_time_of_their_own_are_behind_no_lock() {
    let _turn = turn();
    let server = guests::build("planted");
    let own = |verdict: &Verdict| verdict.evidence.iter().any(|reason| reason.contains("a wait of its own"));
    assert_named(Limit::Undecided, program(&server, "timed", ""), own);
}

#[test]
fn a_late_server_that_is_asked_by_a_datagram_from_a_new_socket_is_named() {
    let _turn = turn();
    let (server, port) = (guests::build("planted"), late_datagrams());
    let named = |verdict: &Verdict| verdict.name.as_deref() == Some(&format!("127.0.0.1:{port} (UDP)"));
    assert_named(Limit::Dependency, program(&server, "datagram", &port), named);
}

#[test]
fn a_late_server_whose_name_is_in_no_file_system_is_named() {
    let _turn = turn();
    let hidden = format!("forebay-late-{}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&hidden).unwrap()).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(|| answer_late(stream));
        }
    });
    let server = guests::build("planted");
    let named = |verdict: &Verdict| verdict.name.as_deref() == Some(&format!("@{hidden}"));
    assert_named(Limit::Dependency, program(&server, "hidden", &hidden), named);
}

#[test]
fn pages_that_are_written_through_to_a_slow_disk_wait_for_the_disk() {
    let _turn = turn();
    if let Err(why) = SlowDevice::supported() {
        return skip("pages_that_are_written_through_to_a_slow_disk_wait_for_the_disk", &why);
    }
    let server = guests::build("planted");
    let disk = SlowDisk::start(Profile::Ssd1Ms, 64 << 20).unwrap();
    let file = disk.mount_point().join("log");
    assert_named(Limit::Disk, program(&server, "sync", file.to_str().unwrap()), |_| true);
}

#[test]
fn a_lock_between_goroutines_that_sleep_is_a_lock() {
    let _turn = turn();
    let Some(server) = go_server("a_lock_between_goroutines_that_sleep_is_a_lock") else { return };
    assert_named(Limit::Lock, program(&server, "lock", ""), |_| true);
}

#[test]
fn goroutines_that_sleep_are_asleep() {
    let _turn = turn();
    let Some(server) = go_server("goroutines_that_sleep_are_asleep") else { return };
    assert_named(Limit::Sleep, program(&server, "sleep", ""), |_| true);
}

#[test]
fn goroutines_that_ask_a_late_server_name_that() {
    let _turn = turn();
    let Some(server) = go_server("goroutines_that_ask_a_late_server_name_that") else { return };
    let port = late_server();
    assert_late(&port, program(&server, "ask", &port));
}

/// A command line of nginx with this in its server section, in a folder of its own; `None`, and said, where nginx is missing.
fn nginx(test: &str, folder: &Path, section: &str) -> Option<[String; 4]> {
    let nginx = ["/usr/sbin/nginx", UNPACKED_NGINX].map(Path::new);
    let Some(nginx) = nginx.into_iter().find(|program| program.is_file()) else {
        skip(test, "nginx is not installed: run `scripts/setup test`");
        return None;
    };
    let place = folder.to_str().unwrap();
    // The port is known when the server is started.
    let configuration = format!(
        "daemon off; worker_processes 1; pid {place}/pid; error_log {place}/errors;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; proxy_temp_path {place}; client_body_temp_path {place}; fastcgi_temp_path {place};\n\
         uwsgi_temp_path {place}; scgi_temp_path {place};\n\
         server {{ listen 127.0.0.1:PORT; keepalive_requests 1000000; {section} }} }}\n"
    );
    fs::write(folder.join("template"), configuration).unwrap();
    let script =
        format!("sed s/PORT/$0/ {place}/template > {place}/conf && exec {} -c {place}/conf", nginx.display());
    Some(["sh".into(), "-c".into(), script, "{port}".into()])
}

#[test]
fn a_proxy_of_a_late_server_names_that() {
    let _turn = turn();
    let (port, folder) = (late_server(), tempfile::tempdir().unwrap());
    let section = format!("location / {{ proxy_pass http://127.0.0.1:{port}; }}");
    let Some(server) = nginx("a_proxy_of_a_late_server_names_that", folder.path(), &section) else { return };
    let server = server.each_ref().map(String::as_str);
    assert_late(&port, |attempt| {
        Planted { name: "proxy", server: &server, settings: &[], simulate: false }.run(attempt)
    });
}

/// So often servers run with nothing planted, in turn.
const RUNS_WITH_NOTHING: usize = 20;

#[test]
fn servers_with_nothing_planted_that_keep_their_schedule_are_accused_of_nothing() {
    let _turn = turn();
    let test = "servers_with_nothing_planted_that_keep_their_schedule_are_accused_of_nothing";
    let folder = tempfile::tempdir().unwrap();
    let python = ["python3".into(), format!("{SOURCES}/planted.py"), "nothing".into(), "{port}".into()];
    let simple =
        |program: &Path| ["env".into(), program.to_str().unwrap().into(), "nothing".into(), "{port}".into()];
    let servers = [
        Some(("C", simple(&guests::build("planted")))),
        Some(("Python", python)),
        go_server(test).map(|server| ("Go", simple(&server))),
        nginx(test, folder.path(), "return 200 ok;").map(|server| ("nginx", server)),
    ];
    let mut accused = Vec::new();
    for (language, server) in servers.iter().flatten().cycle().take(RUNS_WITH_NOTHING) {
        let server = server.each_ref().map(String::as_str);
        let planted = Planted { name: "nothing", server: &server, settings: &["rate=200"], simulate: false };
        let (verdict, table) = planted.run(1);
        println!("planted: nothing in {language}; said: {}", verdict.limit_in_words());
        // Where other programs take the processors, those may limit it.
        let is_right = match verdict.limit {
            Limit::Nothing => true,
            Limit::Processor | Limit::LoadGenerator | Limit::Undecided => is_crowded(&verdict),
            _ => false,
        };
        if !is_right || !verdict.findings.is_empty() {
            accused.push(format!("{server:?}: {verdict:?}\n{table}"));
        }
    }
    assert!(accused.is_empty(), "{}", accused.join("\n"));
}

#[test]
fn goroutines_that_compute_in_turn_use_one_threads_worth_beside_an_idle_processor() {
    let _turn = turn();
    let test = "goroutines_that_compute_in_turn_use_one_threads_worth_beside_an_idle_processor";
    let Some(server) = go_server(test) else { return };
    // The runtime may leave all of it to one thread.
    let in_turn = |verdict: &Verdict| matches!(verdict.limit, Limit::Lock | Limit::OneThread);
    assert_told("one at a time", program(&server, "compute-in-turn", ""), in_turn);
}

#[test]
fn threads_that_give_memory_back_for_each_request_are_limited_by_new_memory() {
    let _turn = turn();
    let server = guests::build("planted");
    let new_memory = |verdict: &Verdict| matches!(verdict.findings[..], [Finding::NewMemory { .. }]);
    assert_named(Limit::NewMemory, program(&server, "unmap", ""), new_memory);
}

/// Whether the verdict is that the processors are full of waiting.
fn waits_busily(verdict: &Verdict) -> bool {
    verdict.limit_with_name() == "lock (busy waiting)" && verdict.undecided.is_empty()
}

#[test]
fn threads_that_yield_until_one_that_sleeps_is_done_are_behind_a_lock() {
    let _turn = turn();
    let server = guests::build("planted");
    assert_named(Limit::Lock, program(&server, "yield", ""), waits_busily);
}

#[test]
fn threads_that_spin_for_one_that_computes_are_behind_a_lock() {
    let _turn = turn();
    let server = guests::build("planted");
    assert_named(Limit::Lock, program(&server, "spin", ""), waits_busily);
}

#[test]
fn goroutines_that_yield_until_one_that_sleeps_is_done_are_behind_a_lock() {
    let _turn = turn();
    let test = "goroutines_that_yield_until_one_that_sleeps_is_done_are_behind_a_lock";
    let Some(server) = go_server(test) else { return };
    assert_named(Limit::Lock, program(&server, "yield", ""), waits_busily);
}

#[test]
fn threads_that_compute_in_a_tight_loop_are_limited_by_the_processor() {
    let _turn = turn();
    let server = guests::build("planted");
    let works = |verdict: &Verdict| {
        let compared = verdict.evidence[0].starts_with("with one client it answers");
        compared && !verdict.undecided.iter().any(|what| what.contains("waiting"))
    };
    assert_named(Limit::Processor, program(&server, "compute", ""), works);
}

#[test]
fn a_lock_beside_hundreds_of_idle_threads_is_a_lock() {
    let _turn = turn();
    let server = guests::build("planted");
    assert_named(Limit::Lock, program(&server, "many", ""), |_| true);
}

#[test]
fn connections_that_a_busy_worker_never_takes_are_told() {
    let _turn = turn();
    let server = guests::build("planted");
    assert_named(Limit::Workers, program(&server, "serial", ""), |_| true);
}

#[test]
fn connections_that_are_accepted_too_slowly_fill_the_accept_queue() {
    let _turn = turn();
    let server = guests::build("planted");
    let server = [server.to_str().unwrap(), "accept", "{port}"];
    let new = &["connections=new"];
    let diagnose =
        |attempt| Planted { name: "accept", server: &server, settings: new, simulate: false }.run(attempt);
    let slow = |verdict: &Verdict| verdict.evidence.iter().any(|reason| reason.contains("too slowly"));
    assert_named(Limit::AcceptQueue, diagnose, slow);
}

/// How long packets take each way over a link, in milliseconds.
const LINK_MS: &str = "5";
/// The server's address and port at the end of a link.
const AT_THE_END: &str = "10.77.0.2:8080";

/// What is said of a server at the end of a link, in a network of the test's own.
fn behind_link(attempt: u32) -> (Verdict, String) {
    let link = format!("{SOURCES}/link.py");
    let mut link = Command::new("python3")
        .args([link.as_str(), LINK_MS, guests::build("planted").to_str().unwrap(), "small", "8080"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(link.stdout.as_mut().unwrap()).read_line(&mut pid).unwrap();
    let begun = Instant::now();
    while let Err(error) = TcpStream::connect(AT_THE_END) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{error}");
        thread::sleep(Duration::from_millis(10));
    }
    let said = Planted::attached("link", pid.trim(), &format!("http://{AT_THE_END}/"), attempt);
    drop(link.stdin.take());
    link.wait().unwrap();
    said
}

/// Whether this process is in another network than what started it.
fn has_own_network() -> bool {
    let network = |process: u32| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
    network(std::process::id()) != network(std::os::unix::process::parent_id())
}

#[test]
fn a_link_that_takes_its_time_is_the_networks_latency() {
    let _turn = turn();
    if has_own_network() {
        let named = |verdict: &Verdict| verdict.name.as_deref() == Some("(latency of the link)");
        return assert_named(Limit::Network, behind_link, named);
    }
    let test = "a_link_that_takes_its_time_is_the_networks_latency";
    let link = format!("{SOURCES}/link.py");
    let mut trial = Command::new("unshare");
    let trial = trial.args(["--net", "python3", &link, LINK_MS, "true"]).stdin(Stdio::null());
    if !trial.output().is_ok_and(|ran| ran.status.success()) {
        return skip(test, "no link can be made: it needs root, unshare, ip and /dev/net/tun");
    }
    let ran = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    said.lines().filter(|line| line.contains("planted:")).for_each(|line| println!("{line}"));
}

#[test]
fn a_server_that_is_tied_to_one_of_several_processors_is_told_so() {
    let _turn = turn();
    let test = "a_server_that_is_tied_to_one_of_several_processors_is_told_so";
    if thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        return skip(test, "this machine has one processor");
    }
    if Command::new("taskset").arg("-V").output().is_err() {
        return skip(test, "taskset is not installed");
    }
    let server = artifacts::example("forebay-evaluation", "faulty_server").unwrap();
    let first = "exec taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[,-].*//') $1 busy-loop $2";
    let server = ["sh", "-c", first, "sh", server.to_str().unwrap(), "{port}"];
    let diagnose =
        |attempt| Planted { name: "tied", server: &server, settings: &[], simulate: false }.run(attempt);
    let named =
        |verdict: &Verdict| verdict.name.as_ref().is_some_and(|name| name.contains("it may use 1 of"));
    assert_named(Limit::Processor, diagnose, named);
}

#[test]
fn threads_behind_one_that_logs_to_a_full_pipe_wait_for_the_pipe() {
    let _turn = turn();
    let server = guests::build("planted");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    // Both ends, so that neither ends.
    let mut reader = fs::File::options().read(true).write(true).open(&path).unwrap();
    thread::spawn(move || {
        let mut page = [0; 4096];
        while reader.read_exact(&mut page).is_ok() {
            thread::sleep(Duration::from_millis(3));
        }
    });
    let path = path.to_str().unwrap();
    let named = |verdict: &Verdict| verdict.limit_with_name().ends_with(path);
    let named_so =
        |verdict: &Verdict| matches!(verdict.limit, Limit::Dependency | Limit::Workers) && named(verdict);
    assert_told("the pipe", program(&server, "log", path), named_so);
}

#[test]
fn programs_that_answer_and_sleep_are_asleep_and_wait_for_no_disk() {
    let _turn = turn();
    let server = guests::build("planted");
    assert_named(Limit::Sleep, program(&server, "child", ""), |_| true);
}

#[test]
fn a_slow_disk_behind_a_ring_of_requests_is_the_disk() {
    let _turn = turn();
    if let Err(why) = SlowDevice::supported() {
        return skip("a_slow_disk_behind_a_ring_of_requests_is_the_disk", &why);
    }
    let server = guests::build("planted");
    let disk = SlowDisk::start(Profile::Ssd1Ms, 64 << 20).unwrap();
    let file = disk.mount_point().join("data");
    disk.fill(|_| fs::write(&file, vec![7; 32 << 20])).unwrap().unwrap();
    let named = |verdict: &Verdict| verdict.name.as_ref().is_some_and(|name| name.starts_with("loop"));
    assert_named(Limit::Disk, program(&server, "ring", file.to_str().unwrap()), named);
}

#[test]
fn a_quota_of_processor_time_is_named() {
    let _turn = turn();
    let Some(group) = Group::with_quota() else {
        return skip("a_quota_of_processor_time_is_named", "no control group can be made");
    };
    let server = artifacts::example("forebay-evaluation", "faulty_server").unwrap();
    let script =
        format!("echo $$ > {}/cgroup.procs && exec {} busy-loop $0", group.0.display(), server.display());
    let server = ["sh", "-c", &script, "{port}"];
    let diagnose =
        |attempt| Planted { name: "quota", server: &server, settings: &[], simulate: false }.run(attempt);
    assert_named(Limit::Quota, diagnose, |_| true);
}

/// A control group that may use a fifth of a processor.
struct Group(PathBuf);

impl Group {
    fn with_quota() -> Option<Self> {
        let name = format!("forebay-quota-{}", std::process::id());
        let old = Path::new("/sys/fs/cgroup/cpu").join(&name);
        if fs::create_dir(&old).is_ok() {
            let group = Self(old);
            fs::write(group.0.join("cpu.cfs_quota_us"), "20000").ok()?;
            return Some(group);
        }
        let group = Self(Path::new("/sys/fs/cgroup").join(&name));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join("cpu.max"), "20000 100000").ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes have ended, and may not have gone yet.
        let begun = Instant::now();
        while fs::remove_dir(&self.0).is_err() && begun.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_bounded_cache_that_is_full_soon_is_no_leak() {
    let _turn = turn();
    let server = guests::build("planted");
    let grows =
        |verdict: &Verdict| verdict.findings.iter().any(|found| matches!(found, Finding::Growth { .. }));
    let (verdict, table) = program(&server, "cache", "")(2);
    assert!(!grows(&verdict), "{table}");
}

#[test]
fn small_answers_have_no_small_buffers() {
    let _turn = turn();
    let server = guests::build("planted");
    let (verdict, table) = program(&server, "small", "")(1);
    assert!(verdict.findings.is_empty(), "{table}");
}
