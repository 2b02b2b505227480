//! Meters of real processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_counters::{Error, Meter, Options, Readings, Target};

/// A process that is ended when the test is.
struct Running(Child);

impl Running {
    fn shell(script: &str) -> Self {
        let shell = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn();
        Self(shell.expect("sh is everywhere"))
    }

    /// Lets a script that reads its standard input go on.
    fn go_on(&mut self) {
        self.0.stdin = None;
    }

    /// Waits for the end of it without taking its status.
    fn ended(&self) {
        let stat = format!("/proc/{}/stat", self.0.id());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
            assert!(Instant::now() < deadline, "the script does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn options() -> Options {
    Options { interval: Duration::from_millis(20), ..Options::default() }
}

/// What `target` makes of a script that begins to work when it is told to.
fn metered(script: &str, target: fn(u32) -> Target) -> Readings {
    let mut running = Running::shell(&format!("read -r line; {script}"));
    let meter = Meter::start(&target(running.0.id()), &options()).unwrap();
    running.go_on();
    running.ended();
    meter.stop()
}

fn get(readings: &Readings, counter: &str) -> f64 {
    readings.get(counter).unwrap_or_else(|| panic!("no {counter}"))
}

#[test]
fn a_tree_has_what_its_children_used_and_a_process_has_not() {
    let busy = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; sh -c 'sleep 0.5'";
    let tree = metered(busy, Target::Tree);
    let alone = metered(busy, Target::Process);
    assert!(get(&tree, "cpu_user") > 0.0, "{tree:?}");
    assert!(get(&tree, "cpu_user") > get(&alone, "cpu_user"));
    assert!(get(&tree, "minor_faults") > get(&alone, "minor_faults"));
    assert!(tree.readings.iter().any(|one| one.counter.name == "processes" && one.max >= 2.0), "{tree:?}");
}

#[test]
fn children_too_short_to_be_seen_are_counted_where_somebody_waits_for_them() {
    let few = metered("/bin/true; /bin/true", Target::Tree);
    let many = metered("i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i+1)); done", Target::Tree);
    // Each /bin/true takes more than twenty page faults of its own.
    assert!(get(&many, "minor_faults") > get(&few, "minor_faults") + 38.0 * 20.0);
}

#[test]
fn intervals_add_up_to_the_total() {
    let readings =
        metered("i=0; while [ $i -lt 20 ]; do /bin/true; sleep 0.01; i=$((i+1)); done", Target::Tree);
    assert!(readings.intervals.len() > 1);
    let faults = readings.readings.iter().position(|one| one.counter.name == "minor_faults").unwrap();
    let sum: f64 = readings.intervals.iter().map(|interval| interval.values[faults]).sum();
    assert_eq!(sum, get(&readings, "minor_faults"));
    let seconds: f64 = readings.intervals.iter().map(|interval| interval.seconds).sum();
    assert!((seconds - readings.seconds).abs() < 1e-6);
}

#[test]
fn the_machine_has_at_least_what_a_process_of_it_used() {
    let machine = Meter::start(&Target::Machine, &options()).unwrap();
    let tree = metered("i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done", Target::Tree);
    let machine = machine.stop();
    assert!(get(&machine, "minor_faults") >= get(&tree, "minor_faults"));
    assert!(get(&machine, "processes_started") >= 50.0);
    assert!(get(&machine, "active_pages") > 0.0 && get(&machine, "context_switches") > 0.0);
    assert!(machine.own_cpu_seconds > 0.0 && machine.own_share() < 1.0);
}

/// A control group in every hierarchy that has one below its root, removed when the test ends.
struct Group {
    name: String,
    folders: Vec<PathBuf>,
}

impl Group {
    fn make() -> Self {
        let name = format!("forebay-counters-test-{}", std::process::id());
        let roots =
            ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/unified"];
        let groups = roots.iter().map(Path::new).filter(|root| root.join("cgroup.procs").exists());
        let folders = groups.map(|root| root.join(&name)).filter(|folder| fs::create_dir(folder).is_ok());
        Self { folders: folders.collect(), name }
    }

    fn add(&self, process: u32) {
        for folder in &self.folders {
            fs::write(folder.join("cgroup.procs"), process.to_string()).unwrap();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            // A group is busy until its last process is gone entirely.
            let deadline = Instant::now() + Duration::from_secs(10);
            while fs::remove_dir(folder).is_err() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn a_group_has_what_its_processes_used_by_name_and_by_folder() {
    let group = Group::make();
    if group.folders.is_empty() {
        forebay_testkit::skip("a_group", "control groups cannot be made here");
        return;
    }
    let mut running =
        Running::shell("read -r line; i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done");
    group.add(running.0.id());
    let by_name = Meter::start(&Target::Cgroup(group.name.clone().into()), &options()).unwrap();
    let by_folder = Meter::start(&Target::Cgroup(group.folders[0].clone()), &options()).unwrap();
    running.go_on();
    running.ended();
    let (by_name, by_folder) = (by_name.stop(), by_folder.stop());
    drop(running);
    for readings in [by_name, by_folder] {
        let cpu = get(&readings, "cpu_user") + get(&readings, "cpu_system");
        assert!(cpu > 0.01 && cpu < 60.0, "{cpu}");
        assert!(get(&readings, "threads") > 0.0);
        if readings.get("minor_faults").is_some() {
            // Each /bin/true takes more than twenty page faults of its own.
            assert!(get(&readings, "minor_faults") > 4000.0, "{readings:?}");
        }
    }
}

#[test]
fn what_is_not_there_cannot_be_measured() {
    let gone = {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    for target in [Target::Process(gone), Target::Tree(gone)] {
        let error = Meter::start(&target, &options()).unwrap_err();
        assert!(matches!(error, Error::NoProcess { pid } if pid == gone), "{error}");
        assert!(error.to_string().contains("ps -e"), "{error}");
    }
    let error = Meter::start(&Target::Cgroup("/sys/fs/cgroup/no/such".into()), &options()).unwrap_err();
    assert!(error.to_string().contains("'/sys/fs/cgroup/no/such'; name a folder under"), "{error}");
    let hasty = Options { interval: Duration::from_millis(1), ..options() };
    assert!(Meter::start(&Target::Machine, &hasty).unwrap_err().to_string().contains("10ms"));
}
