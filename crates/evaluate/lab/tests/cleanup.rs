//! Nothing of a rig stays, however its owner ends: no mount, no loop device, no process, no folder.
//!
//! The owners are this program again, run for the test `owner` alone.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_lab::{Error, MemoryLimit, Profile, SlowDevice, SlowDisk, SlowSwap};
use forebay_testkit::{skip, with_default_signals};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const BYTES: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// How the owner shall end, and what it shall own: `LAYER END`.
const ROLE: &str = "RIG_OWNER_ROLE";
/// In front of what the owner prints, to tell it from what the test harness prints.
const MARK: &str = "rig:";

/// The cleanup process, the folder and the device of a rig.
struct Traces {
    cleanup: u32,
    folder: Option<PathBuf>,
    device: Option<PathBuf>,
}

impl Traces {
    fn of_disk(disk: &SlowDisk) -> Self {
        Self {
            cleanup: disk.cleanup_pid(),
            folder: Some(disk.mount_point().to_owned()),
            device: disk.device().map(|device| device.path().to_owned()),
        }
    }

    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let path = |field: &str| (field != "-").then(|| PathBuf::from(field));
        Self { cleanup: fields[0].parse().unwrap(), folder: path(fields[1]), device: path(fields[2]) }
    }

    /// What is still there.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        if is_running(self.cleanup) {
            left.push(format!("process {}", self.cleanup));
        }
        if let Some(folder) = &self.folder {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            if mounts.lines().any(|line| line.contains(folder.to_str().unwrap())) {
                left.push(format!("mount {}", folder.display()));
            }
            let rig = folder.ancestors().find(|folder| name_of(folder).starts_with("forebay-rig.")).unwrap();
            if rig.exists() {
                left.push(format!("folder {}", rig.display()));
            }
        }
        if let Some(device) = &self.device {
            // The device itself may by now be another rig's.
            let name = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop/backing_file");
            if name.exists() && !is_of_another_rig(device, self.cleanup) {
                left.push(format!("image under {}", device.display()));
            }
            if is_swap(device) && !is_of_another_rig(device, self.cleanup) {
                left.push(format!("swap on {}", device.display()));
            }
        }
        left
    }

    fn assert_gone_within(&self, patience: Duration) {
        let start = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                println!("all gone after {:.3} s", start.elapsed().as_secs_f64());
                return;
            }
            assert!(start.elapsed() < patience, "left after {patience:?}: {left:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn is_swap(device: &Path) -> bool {
    let swaps = fs::read_to_string("/proc/swaps").unwrap();
    swaps.lines().any(|line| line.split_whitespace().next() == device.to_str())
}

/// The file that the rig of this process swaps to.
fn swap_file_of(owner: u32) -> PathBuf {
    let swaps = fs::read_to_string("/proc/swaps").unwrap();
    let mut files = swaps.lines().filter_map(|line| line.split_whitespace().next());
    files.find(|file| file.contains(&format!("forebay-rig.{owner}."))).expect("it is swapped to").into()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_running(pid: u32) -> bool {
    // A zombie runs no more; its parent is a test that has not waited for it yet.
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

/// Whether a cleanup process other than `cleanup` has the device open.
fn is_of_another_rig(device: &Path, cleanup: u32) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != cleanup).any(|pid| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target == device))
    })
}

/// Says why and returns false where there can be no rig.
fn can_have_a_rig(test: &str) -> bool {
    SlowDevice::supported().inspect_err(|error| skip(test, error)).is_ok()
}

/// Starts an owner in a process group of its own and waits until it has its rig.
fn start_owner(role: &str) -> (Child, Traces) {
    let mut owner = with_default_signals(std::env::current_exe().unwrap())
        .args(["--exact", "owner", "--nocapture"])
        .env(ROLE, role)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find_map(|line| line.split_once(MARK).map(|(_, rest)| rest.to_owned()));
    (owner, Traces::parse(&line.expect("the owner says what it has")))
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn owner() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (layer, end) = role.split_once(' ').unwrap();
    let rig: Box<dyn std::any::Any> = match layer {
        "swap-file" => {
            let swap = SlowSwap::start(Profile::Local, BYTES).unwrap();
            let file = swap_file_of(std::process::id());
            println!("{MARK} {} {} {}", swap.cleanup_pid(), file.parent().unwrap().display(), file.display());
            Box::new(swap)
        }
        "swap" => {
            let swap = SlowSwap::start(Profile::Ssd1Ms, BYTES).unwrap();
            println!("{MARK} {} - {}", swap.cleanup_pid(), swap.device().unwrap().path().display());
            Box::new(swap)
        }
        "memory" => {
            let limit = MemoryLimit::start(BYTES).unwrap();
            println!("{MARK} {} {} -", limit.cleanup_pid(), limit.folder().display());
            Box::new(limit)
        }
        profile => {
            let disk = SlowDisk::start(profile.parse().unwrap(), BYTES).unwrap();
            fs::write(disk.mount_point().join("data"), vec![7; 1 << 20]).unwrap();
            let device = disk.device().map_or(Path::new("-"), |device| device.path());
            println!("{MARK} {} {} {}", disk.cleanup_pid(), disk.mount_point().display(), device.display());
            Box::new(disk)
        }
    };
    match end {
        "return" => drop(rig),
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "panic" => panic!("as told"),
        _ => loop {
            std::thread::park();
        },
    }
}

#[test]
fn nothing_is_left_after_drop() {
    let mut disks = vec![SlowDisk::start(Profile::Local, BYTES).unwrap()];
    if can_have_a_rig("the slow disk's part of nothing_is_left_after_drop") {
        disks.push(SlowDisk::start(Profile::Ssd1Ms, BYTES).unwrap());
    }
    for disk in disks {
        fs::write(disk.mount_point().join("data"), vec![7; 1 << 20]).unwrap();
        let traces = Traces::of_disk(&disk);
        assert!(!traces.left().is_empty());
        drop(disk);
        assert_eq!(traces.left(), [""; 0]);
    }
}

#[test]
fn nothing_is_left_after_a_panic() {
    if !can_have_a_rig("nothing_is_left_after_a_panic") {
        return;
    }
    let (sender, traces) = std::sync::mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let disk = SlowDisk::start(Profile::Ssd1Ms, BYTES).unwrap();
        sender.send(Traces::of_disk(&disk)).unwrap();
        panic!("as planned");
    });
    assert!(panicked.join().is_err());
    assert_eq!(traces.recv().unwrap().left(), [""; 0]);
}

#[test]
fn nothing_is_left_when_the_owner_exits_aborts_or_panics() {
    if !can_have_a_rig("nothing_is_left_when_the_owner_exits_aborts_or_panics") {
        return;
    }
    for end in ["return", "exit", "abort", "panic"] {
        let (mut owner, traces) = start_owner(&format!("ssd-1ms-q128 {end}"));
        owner.wait().unwrap();
        traces.assert_gone_within(PATIENCE);
    }
}

#[test]
fn nothing_is_left_after_ctrl_c() {
    if !can_have_a_rig("nothing_is_left_after_ctrl_c") {
        return;
    }
    let (mut owner, traces) = start_owner("ssd-1ms-q128 wait");
    // What a terminal does: to everybody in the group.
    kill_process_group(pid(owner.id()), Signal::INT).unwrap();
    assert_eq!(owner.wait().unwrap().signal(), Some(libc::SIGINT));
    traces.assert_gone_within(PATIENCE);
}

#[test]
fn nothing_is_left_after_the_owner_is_killed() {
    if !can_have_a_rig("nothing_is_left_after_the_owner_is_killed") {
        return;
    }
    let mut layers = vec!["ssd-1ms-q128", "swap", "swap-file", "local"];
    match MemoryLimit::supported() {
        Ok(()) => layers.push("memory"),
        Err(error) => skip("the limit's part of nothing_is_left_after_the_owner_is_killed", &error),
    }
    for layer in layers {
        let (mut owner, traces) = start_owner(&format!("{layer} wait"));
        owner.kill().unwrap();
        owner.wait().unwrap();
        traces.assert_gone_within(PATIENCE);
    }
}

#[test]
fn nothing_is_left_when_the_owner_is_killed_while_it_starts() {
    if !can_have_a_rig("nothing_is_left_when_the_owner_is_killed_while_it_starts") {
        return;
    }
    for delay_ms in (0..60).step_by(3) {
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "owner"])
            .env(ROLE, "ssd-1ms-q128 wait")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The moments are what is tested; nothing is waited for.
        std::thread::sleep(Duration::from_millis(delay_ms));
        owner.kill().unwrap();
        owner.wait().unwrap();
        let start = Instant::now();
        loop {
            let left = left_of_owner(owner.id());
            if left.is_empty() {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "killed after {delay_ms} ms: {left:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Cleanup processes and folders of an owner of which only the process id is known.
fn left_of_owner(owner: u32) -> Vec<String> {
    let asked = format!("FOREBAY_RIG_OWNER={owner}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let processes = processes.filter(|process| {
        fs::read(process.join("environ"))
            .is_ok_and(|environment| String::from_utf8_lossy(&environment).contains(&asked))
    });
    let prefix = format!("forebay-rig.{owner}.");
    let folders = fs::read_dir(std::env::temp_dir()).unwrap().flatten().map(|entry| entry.path());
    let folders = folders.filter(|folder| name_of(folder).starts_with(&prefix));
    processes.chain(folders).map(|path| path.display().to_string()).collect()
}

#[test]
fn a_disk_in_use_is_taken_away_all_the_same() {
    if !can_have_a_rig("a_disk_in_use_is_taken_away_all_the_same") {
        return;
    }
    let (mut owner, traces) = start_owner("ssd-1ms-q128 wait");
    let user = fs::File::open(traces.folder.as_ref().unwrap().join("data")).unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    let start = Instant::now();
    while is_running(traces.cleanup) || traces.folder.as_ref().unwrap().exists() {
        assert!(start.elapsed() < PATIENCE, "{:?}", traces.left());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(user);
    traces.assert_gone_within(PATIENCE);
}

#[test]
fn nothing_is_left_when_the_cleanup_process_itself_is_killed() {
    if !can_have_a_rig("nothing_is_left_when_the_cleanup_process_itself_is_killed") {
        return;
    }
    let disk = SlowDisk::start(Profile::Ssd1Ms, BYTES).unwrap();
    // Something to write back, which nobody takes any more.
    fs::write(disk.mount_point().join("data"), vec![7; 8 << 20]).unwrap();
    let traces = Traces::of_disk(&disk);
    kill_process(pid(disk.cleanup_pid()), Signal::KILL).unwrap();
    assert!(matches!(disk.device().unwrap().stats(), Err(Error::Cleanup(_))));
    drop(disk);
    traces.assert_gone_within(PATIENCE);
}

#[test]
fn signals_that_end_programs_do_not_end_the_cleanup_process() {
    if !can_have_a_rig("signals_that_end_programs_do_not_end_the_cleanup_process") {
        return;
    }
    let disk = SlowDisk::start(Profile::Ssd1Ms, BYTES).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        kill_process(pid(disk.cleanup_pid()), signal).unwrap();
        // It stays pending, as a signal that is blocked does, so it will not end the process later either.
        assert!(is_pending(disk.cleanup_pid(), signal), "{signal:?}");
    }
    disk.device().unwrap().stats().unwrap();
    let session = rustix::process::getsid(Some(pid(disk.cleanup_pid()))).unwrap();
    assert_eq!(session, pid(disk.cleanup_pid()));
}

#[test]
fn two_processes_have_their_own_rigs_at_the_same_time() {
    if !can_have_a_rig("two_processes_have_their_own_rigs_at_the_same_time") {
        return;
    }
    let ours = SlowDisk::start(Profile::Raid12Ms, BYTES).unwrap();
    let (mut other, traces) = start_owner("ssd-1ms-q128 wait");
    fs::write(ours.mount_point().join("mine"), "mine").unwrap();
    assert!(!traces.folder.as_ref().unwrap().join("mine").exists());
    assert_ne!(Some(ours.device().unwrap().path()), traces.device.as_deref());
    other.kill().unwrap();
    other.wait().unwrap();
    traces.assert_gone_within(PATIENCE);
    ours.make_cold().unwrap();
    assert_eq!(fs::read_to_string(ours.mount_point().join("mine")).unwrap(), "mine");
}

#[test]
fn without_root_the_error_says_what_to_do() {
    const NOBODY: u32 = 65534;
    let test = "without_root_the_error_says_what_to_do";
    if !can_have_a_rig(test) {
        return;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner", "--nocapture"])
        .env(ROLE, "ssd-1ms-q128 wait")
        .uid(NOBODY)
        .output();
    let Ok(run) = run else {
        return skip(test, "an ordinary user cannot start this test program where it is");
    };
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(
        !run.status.success() && said.contains("Unsupported") && said.contains("needs: \"root\""),
        "{said}"
    );
}

/// Whether `signal` was sent to a process and not delivered (proc_pid_status(5)).
fn is_pending(process: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
    u64::from_str_radix(pending.trim(), 16).unwrap() & 1 << (signal.as_raw() - 1) != 0
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number as i32).unwrap()
}
