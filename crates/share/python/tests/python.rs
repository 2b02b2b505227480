//! Builds and unpacks the wheel as for users, and runs Python programs with it, alone and as hosts of a job.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use forebay_testkit::artifacts;

/// Seconds that a program gets, on a machine that has much else to do.
const PATIENCE: &str = "120";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where tests keep what lasts: a folder of cargo's.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("python").join(name)
}

/// The environment with NumPy and maturin that scripts/setup makes.
fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("python/bin/python");
    assert!(python.exists(), "there is no {}: run scripts/setup test", python.display());
    python
}

fn output_of(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The wheel's content.
fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let (wheels, package) = (folder("wheels"), folder("package"));
        for folder in [&wheels, &package] {
            // What is there may be of other sources.
            let _ = fs::remove_dir_all(folder);
        }
        let mut maturin = Command::new(python());
        maturin.args(["-m", "maturin", "build", "--locked", "--quiet", "--profile", "dev"]);
        maturin.arg("--manifest-path").arg(here("Cargo.toml")).arg("--out").arg(&wheels);
        // A folder of its own, since pyo3 is configured for an interpreter here.
        maturin.arg("--target-dir").arg(folder("build")).arg("--interpreter").arg(python());
        output_of(&mut maturin);
        let wheel = fs::read_dir(&wheels).unwrap().next().expect("a wheel").unwrap().path();
        assert!(wheel.to_string_lossy().contains("-cp39-abi3-"), "{}", wheel.display());
        output_of(Command::new(python()).args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&package));
        package
    })
}

/// Runs Python with these arguments under `forebay share` as so many hosts; alone for 0.
fn run(hosts: usize, arguments: &[&str]) -> Output {
    run_with(&["-n", &hosts.to_string()][..if hosts > 0 { 2 } else { 0 }], arguments)
}

/// The same with these options; alone without any.
fn run_with(share: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE]).env("PYTHONPATH", package());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    if !share.is_empty() {
        command.arg(artifacts::forebay().unwrap()).arg("share").args(share).arg("--");
    }
    command.arg(python()).args(arguments).output().unwrap()
}

fn prints(hosts: usize, arguments: &[&str]) -> String {
    let output = run(hosts, arguments);
    assert!(output.status.success(), "{hosts} hosts: {}: {}", output.status, said(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn arrays_are_shared_as_documented() {
    // What wraps system calls lies beside the command.
    artifacts::c_library().unwrap();
    let checks = here("tests/checks.py");
    let checks = checks.to_str().unwrap();
    for hosts in [0, 2, 3] {
        // Python 3.12 and later warn of the fork that is among the checks.
        prints(hosts, &["-W", "ignore", checks]);
    }
    for between in [&["-n", "3", "--separate"][..], &["-n", "4", "--machines", "2"]] {
        let output = run_with(between, &["-W", "ignore", checks]);
        assert!(output.status.success(), "{between:?}: {}: {}", output.status, said(&output));
    }
}

#[test]
fn workers_without_a_launcher_share_arrays() {
    let workers = here("tests/workers.py");
    prints(0, &["-W", "ignore", workers.to_str().unwrap()]);
}

#[test]
fn the_first_program_computes_the_same_with_any_number_of_hosts() {
    let heat = here("examples/heat.py");
    let alone = prints(0, &[heat.to_str().unwrap()]);
    // What the same program in C and in Rust prints, and a sequential one.
    assert_eq!(alone, "12.791648 degrees in the middle\n");
    for hosts in [1, 2, 3] {
        assert_eq!(prints(hosts, &[heat.to_str().unwrap()]), alone);
    }
}

#[test]
fn an_exception_on_one_host_ends_the_others_waits() {
    // The hosts write to one standard error: each at once, so that neither text is in the other.
    let program = "
import os, sys, traceback
from forebay import share
def act(host):
    numbers, semaphore, condition = host.array(3, int), host.semaphore(), host.condition(5)
    both, lock = host.read_write_lock(), host.lock(3)
    def wait_for_notice():
        with condition:
            condition.wait()
    calls = {'barrier': host.barrier, 'semaphore': semaphore.acquire, 'condition': wait_for_notice, 'reader': both.read,
        'number': lambda: host.atomic(numbers, 0).wait_until('>', 0), 'lock': lock.acquire,
        'team': lambda: host.team().all_reduce(1)}
    if host.rank == 1:
        both.write()
        lock.acquire()
    host.barrier()
    if host.rank == 1:
        raise KeyError('gone')
    calls[sys.argv[1]]()
try:
    with share.join(size=8 << 20) as host:
        act(host)
except Exception:
    os.write(2, traceback.format_exc().encode())
    sys.exit(1)
";
    for place in ["barrier", "semaphore", "condition", "reader", "number", "lock", "team"] {
        for share in [&["-n", "2"][..], &["-n", "2", "--separate"]] {
            let output = run_with(share, &["-c", program, place]);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(1), "{place} {share:?}: {said}");
            assert!(said.contains("KeyError: 'gone'"), "{place} {share:?}: {said}");
            // Where memory is separate, the other host may see the end of the process before it reads that word.
            let is_told = |reason: &str| said.contains(&format!("lost host 1 ({reason})"));
            let is_end_seen = share.contains(&"--separate") && is_told("its process has ended");
            assert!(is_told("it has failed") || is_end_seen, "{place} {share:?}: {said}");
        }
    }
}

#[test]
fn an_exception_that_ends_a_program_without_a_block_ends_the_others_waits() {
    let program = "
from forebay import share
host = share.join()
semaphore = host.semaphore()
if host.rank == 1:
    raise KeyError('gone')
semaphore.acquire()
";
    let output = run(2, &["-c", program]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("gone") && said.contains("lost host 1"), "{said}");
}

#[test]
fn a_host_that_has_lost_another_one_as_it_ends_says_so_by_its_status() {
    let program = "
import os
from forebay import share
host = share.join()
if host.rank == 1:
    os._exit(0)
";
    let output = run(2, &["-c", program]);
    assert_eq!(output.status.code(), Some(70));
    assert!(said(&output).contains("host 0 of 2 ends: lost host 1"), "{}", said(&output));
}

#[test]
fn a_host_leaves_as_the_interpreter_ends() {
    let program = "
from forebay import share
host = share.join()
array = host.array((10, 10))
host.barrier()
";
    assert_eq!(prints(2, &["-c", program]), "");
}

/// A process interrupts itself when its thread sleeps in a call.
const INTERRUPT: &str = "
import os, signal, threading, time
def interrupt(main):
    path = f'/proc/self/task/{main}/syscall'
    # futex(2), among processes
    while not (words := open(path).read().split()) or words[0] != '202' or words[2] != '0x0':
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
";

#[test]
fn ctrl_c_ends_a_program_that_waits_for_itself() {
    let program = "
from forebay import share
host = share.join()
numbers = host.array(2, int)
semaphore, condition, lock = host.semaphore(), host.condition(2), host.lock(1)
calls = [lock.acquire, semaphore.acquire, condition.wait, lambda: host.atomic(numbers, 0).wait_until('>', 0)]
lock.acquire()
with condition:
    for call in calls:
        thread = threading.Thread(target=interrupt, args=(threading.get_native_id(),))
        thread.start()
        try:
            call()
        except KeyboardInterrupt:
            print('interrupted')
        thread.join()
";
    let program = [INTERRUPT, program].concat();
    assert_eq!(prints(0, &["-c", &program]), "interrupted\n".repeat(4));
}

#[test]
fn one_ctrl_c_ends_what_hosts_of_two_machines_wait_for() {
    // Each has the lock that the other one wants.
    let program = "
import numpy as np
from forebay import share
host = share.join()
np.ones((300, 300)) @ np.ones((300, 300))
with host.lock(host.rank):
    host.barrier()
    threading.Thread(target=interrupt, args=(threading.get_native_id(),)).start()
    try:
        host.lock(1 - host.rank).acquire()
    except KeyboardInterrupt:
        os.write(1, b'interrupted\\n')
    host.barrier()
";
    let program = [INTERRUPT, program].concat();
    let output = run_with(&["-n", "2", "--machines", "2"], &["-c", &program]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), &*told), (Some(0), "interrupted\ninterrupted\n"), "{}", said(&output));
}

#[test]
fn who_cannot_join_is_told_why() {
    let output = run(0, &["-c", "from forebay import share; share.join(views=1000)"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("ShareError: there can be 1 to 256 views, not 1000"), "{}", said(&output));
}

#[test]
fn the_package_is_typed() {
    for name in [
        "__init__.py",
        "share.py",
        "_array.py",
        "_distributed.py",
        "_fetched.py",
        "_host_arrays.py",
        "_memory.py",
        "_parts.py",
        "_share.pyi",
        "_sync.py",
        "_team.py",
        "py.typed",
        "_share.abi3.so",
    ] {
        assert!(package().join("forebay").join(name).is_file(), "{name}");
    }
}
