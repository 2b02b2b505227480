//! Builds C programs against `forebay.h` and `libforebay.so`, and runs them alone and as hosts of a job.
#![cfg(target_os = "linux")]

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use forebay_testkit::artifacts;
use tempfile::TempDir;

/// Seconds that a program gets, on a machine that has much else to do.
const PATIENCE: &str = "120";

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A folder with the library, under the names that the linker and the loader look for.
fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libforebay");
        fs::create_dir_all(&folder).unwrap();
        for name in ["libforebay.so", "libforebay.so.0"] {
            // One that is left from before.
            let _ = fs::remove_file(folder.join(name));
            symlink(artifacts::c_library().unwrap(), folder.join(name)).unwrap();
        }
        folder
    })
}

/// A program, compiled and linked.
fn program(compiler: &[&str], source: &str, folder: &TempDir) -> PathBuf {
    let to = folder.path().join("program");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(STRICT).arg("-I").arg(here("include")).arg(here(source));
    command.arg("-o").arg(&to).arg("-L").arg(library()).args(["-lforebay", "-lpthread"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    to
}

/// Runs it under `forebay share` with these options, or alone without any.
fn run(share: &[&str], program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE]).env("LD_LIBRARY_PATH", library());
    if !share.is_empty() {
        command.arg(artifacts::forebay().unwrap()).arg("share").args(share).arg("--");
    }
    command.arg(program).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it prints as so many hosts: on one machine, each on one of its own, and on two; alone for 0.
fn prints(hosts: usize, program: &Path, arguments: &[&str]) -> String {
    let count = hosts.to_string();
    let together: &[&str] = if hosts == 0 { &[] } else { &["-n", &count] };
    let printed = prints_with(together, program, arguments);
    if hosts > 0 {
        for machines in [&["--separate"][..], &["--machines", "2"]] {
            let options = [together, machines].concat();
            assert_eq!(prints_with(&options, program, arguments), printed);
        }
    }
    printed
}

fn prints_with(share: &[&str], program: &Path, arguments: &[&str]) -> String {
    let output = run(share, program, arguments);
    assert!(output.status.success(), "{share:?}: {}: {}", output.status, said(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_function_does_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    let c = program(&["gcc", "-std=c11"], "tests/every_function.c", &folder);
    for hosts in [0, 1, 2, 3] {
        prints(hosts, &c, &[]);
    }
    prints(0, &c, &["refused"]);
}

#[test]
fn the_header_is_of_cpp_too() {
    let folder = tempfile::tempdir().unwrap();
    let cpp = program(&["g++", "-std=c++17", "-x", "c++"], "tests/every_function.c", &folder);
    prints(2, &cpp, &[]);
}

#[test]
fn the_first_program_computes_the_same_with_any_number_of_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let heat = program(&["gcc", "-std=c11"], "examples/heat.c", &folder);
    let alone = prints(0, &heat, &[]);
    assert_eq!(alone, format!("{:.6} degrees in the middle\n", middle_of_the_plate()));
    for hosts in [1, 2, 3] {
        assert_eq!(prints(hosts, &heat, &[]), alone);
    }
}

/// What the first programs are to find.
fn middle_of_the_plate() -> f64 {
    const SIZE: usize = 64;
    let mut now = vec![[0.0; SIZE]; SIZE];
    now[0] = [100.0; SIZE];
    for _ in 0..1_000 {
        let last = now.clone();
        for (i, j) in (1..SIZE - 1).flat_map(|i| (1..SIZE - 1).map(move |j| (i, j))) {
            now[i][j] = (last[i - 1][j] + last[i + 1][j] + last[i][j - 1] + last[i][j + 1]) / 4.0;
        }
    }
    now[SIZE / 2][SIZE / 2]
}

#[test]
fn a_failure_is_told_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let heat = program(&["gcc", "-std=c11"], "examples/heat.c", &folder);
    let output = run(&["-n", "2", "--size", "4K"], &heat, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("heat: 32768 bytes of shared memory do not fit"), "{}", said(&output));
}

/// As two hosts in every way that hosts of one machine can share.
fn is_well_in_every_way(program: &Path, what: &str) {
    let ways: [&[&str]; 3] =
        [&[], &["--separate", "--transport", "shm"], &["--separate", "--transport", "tcp"]];
    for way in ways {
        let share = [&["-n", "2"], way].concat();
        assert_eq!(prints_with(&share, program, &[what]), format!("{what}: well\n"), "{way:?}");
    }
}

#[test]
fn a_programs_signals_are_its_own_in_every_call_and_access() {
    let folder = tempfile::tempdir().unwrap();
    let signals = program(&["gcc", "-std=gnu11"], "tests/signals.c", &folder);
    for what in ["blocked", "threads", "calls", "jump"] {
        is_well_in_every_way(&signals, what);
    }
}

#[test]
fn memory_that_a_program_locks_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let signals = program(&["gcc", "-std=gnu11"], "tests/signals.c", &folder);
    for what in ["locked", "locked first"] {
        is_well_in_every_way(&signals, what);
    }
}

#[test]
fn mutexes_in_shared_memory_work_on_one_machine_and_are_refused_between_machines() {
    let folder = tempfile::tempdir().unwrap();
    let mutex = program(&["gcc", "-std=gnu11"], "tests/mutex.c", &folder);
    assert_eq!(prints_with(&["-n", "3"], &mutex, &[]), "60000\n");
    let output = run(&["-n", "3", "--separate"], &mutex, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "refused\n", "{}", said(&output));
    assert!(said(&output).contains("host 0 called pthread_mutex_init()"), "{}", said(&output));
    assert!(said(&output).contains("use forebay_lock()"), "{}", said(&output));
}

/// The functions of POSIX threads that the library refuses between machines.
const REFUSED: [&str; 5] =
    ["pthread_barrier_init", "pthread_cond_init", "pthread_mutex_init", "pthread_rwlock_init", "sem_init"];

/// The functions that a text declares or names.
fn functions(text: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter)).filter(|word| word.starts_with("forebay_"));
    let mut names: Vec<String> = words.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn header_library_and_man_page_have_the_same_functions() {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only"]).arg(library().join("libforebay.so"));
    let symbols = String::from_utf8(nm.output().unwrap().stdout).unwrap();
    let exported: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let (exported, others): (Vec<&str>, Vec<&str>) =
        exported.into_iter().partition(|name| name.starts_with("forebay_"));
    let (mut refused, wrappers): (Vec<&str>, Vec<&str>) =
        others.into_iter().partition(|name| REFUSED.contains(name));
    refused.sort_unstable();
    assert_eq!(refused, REFUSED);
    let header = fs::read_to_string(here("include/forebay.h")).unwrap();
    let declared: Vec<String> = functions(&header)
        .into_iter()
        .filter(|name| header.contains(&format!("{name}(")) && name != "forebay_share")
        .collect();
    let is_macro = |name: &&String| header.contains(&format!("#define {name}("));
    let functions: Vec<&String> = declared.iter().filter(|name| !is_macro(name)).collect();
    let mut exported: Vec<&str> = exported;
    exported.sort_unstable();
    assert_eq!(exported, functions);
    let page = fs::read_to_string(here("man/forebay_share.3")).unwrap();
    let missing: Vec<_> = declared.iter().filter(|name| !page.contains(&format!("{name}("))).collect();
    assert!(missing.is_empty(), "not in the man page: {missing:?}");
    // libc's functions that programs call are named there; its inner ones are not.
    let missing: Vec<_> =
        wrappers.iter().filter(|name| !name.starts_with("__") && !page.contains(**name)).collect();
    assert!(wrappers.contains(&"read") && missing.is_empty(), "not in the man page: {missing:?}");
}
