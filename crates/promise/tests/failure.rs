//! Whatever of ours fails, the program goes on alone and finishes right.

use std::time::{Duration, Instant};
use std::{fs, thread};

use forebay_promise::guests::build;
use forebay_promise::run::Side;
use forebay_promise::{Case, Outcome, Scratch, long, root, skip, switch};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Cold data, some small files, and a directory for output.
fn data(scratch: &Scratch) {
    scratch.noise("data", 8 << 20, 9).file("out/file", "x");
    for n in 0..60 {
        scratch.text(&format!("small/f{n}"), 50 + n, n as u64);
    }
}

/// The program that failures interrupt, with so many rounds.
fn reader(name: &str, rounds: u32) -> Case {
    let argv = [build("plain_reader").into_os_string(), "data".into(), rounds.to_string().into()];
    Case::new(name, argv).setup(data)
}

/// The statistics' own words for what was missing must say so. Without a speculator nothing may be missing.
#[track_caller]
fn names(outcome: &Outcome, what: &str) {
    if !switch("FOREBAY_PROMISE_PLAIN") {
        assert!(outcome.stats.contains(what), "the statistics do not name {what:?}: {}", outcome.stats);
    }
}

/// `refuse FEATURES` in front of `forebay run`: the kernel has none of them, for the supervisor too.
fn refused(name: &str, features: &str) -> Option<Outcome> {
    reader(name, 4).before([build("refuse").into_os_string(), features.into()]).check()
}

/// `refuse FEATURES` below `forebay run`: the supervisor has them, the program and its speculators do not.
fn refused_to_the_program(name: &str, features: &str) -> Option<Outcome> {
    let argv = [
        build("refuse").into_os_string(),
        features.into(),
        build("plain_reader").into_os_string(),
        "data".into(),
    ];
    Case::new(name, argv).setup(data).check()
}

/// Both, and what the statistics call it.
macro_rules! without_feature {
    ($($name:ident: $feature:literal $(, $named:literal)?;)+) => {
        $(#[test]
        fn $name() {
            let Some(_outcome) = refused(concat!("without_", $feature), $feature) else { return };
            $(names(&_outcome, $named);)?
            let Some(_outcome) = refused_to_the_program(concat!("program_without_", $feature), $feature) else { return };
            $(names(&_outcome, $named);)?
        })+
    };
}

without_feature! {
    without_seccomp_the_program_runs_alone: "seccomp", "seccomp";
    without_landlock_all_else_works: "landlock", "landlock";
    without_perf_events_all_else_works: "perf_event_open";
    without_userfaultfd_all_else_works: "userfaultfd";
    without_preadv2_all_else_works: "preadv2", "RWF_NOWAIT";
    without_reads_that_do_not_wait_all_else_works: "nowait", "RWF_NOWAIT";
    without_openat2_all_else_works: "openat2", "RESOLVE_CACHED";
    without_cachestat_all_else_works: "cachestat", "cachestat";
    without_new_sessions_all_else_works: "setsid";
    without_idle_scheduling_all_else_works: "sched_setscheduler", "SCHED_IDLE";
    without_clone3_all_else_works: "clone3";
    without_pidfds_all_else_works: "pidfd_open";
    without_close_range_all_else_works: "close_range";
    without_advice_all_else_works: "fadvise";
    without_locked_memory_all_else_works: "mlock";
    without_access_to_other_processes_all_else_works: "process_vm";
    without_rseq_all_else_works: "rseq";
}

#[test]
fn without_patched_code_symbols_are_interposed() {
    if let Some(outcome) = refused_to_the_program("program_without_patching", "mprotect_exec") {
        names(&outcome, "patching");
    }
}

#[test]
fn without_many_features_at_once_the_program_runs() {
    let all = "seccomp,landlock,perf_event_open,userfaultfd,preadv2,openat2,cachestat,setsid,sched_setscheduler,\
               pidfd_open,close_range,fadvise,mlock,process_vm";
    let _ = refused("without_many", all);
    let _ = refused_to_the_program("program_without_many", all);
}

/// The program itself cannot fork either; it does not want to.
#[test]
fn without_fork_the_program_runs_alone() {
    let _ = refused_to_the_program("program_without_fork", "fork");
    let _ = refused_to_the_program("program_without_fork_and_seccomp", "fork,seccomp,preadv2");
}

/// Without a memory object there is nothing to share: the supervisor says so in one sentence, and what it does then
/// is its own matter, but a program that it starts finishes right.
#[test]
fn without_memfd_the_program_runs_or_a_sentence_says_why_not() {
    let case = reader("without_memfd", 4).before([build("refuse").into_os_string(), "memfd_create".into()]);
    let outcome = case.run(Side::With);
    assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
    let sentence = String::from_utf8_lossy(&outcome.stderr).lines().count() <= 2;
    assert!(
        outcome.status == 0 || (outcome.status == 125 && sentence && !outcome.stderr.is_empty()),
        "status {}: {}",
        outcome.status,
        String::from_utf8_lossy(&outcome.stderr)
    );
}

macro_rules! limited {
    ($($name:ident: $limit:literal;)+) => {
        $(#[test]
        fn $name() {
            let script = format!("ulimit {}; exec {} data; ", $limit, build("plain_reader").display());
            let _ = Case::new(stringify!($name), ["bash", "-c", &script]).setup(data).check();
            let script = format!("ulimit {}; cat small/* | md5sum; grep -rc mill small | sort", $limit);
            let _ = Case::new(concat!(stringify!($name), "_shell"), ["bash", "-c", &script]).setup(data).check();
        })+
    };
}

limited! {
    with_few_descriptors_the_program_runs: "-n 8";
    with_just_enough_descriptors_the_program_runs: "-n 5";
    with_little_address_space_the_program_runs: "-v 30000";
    with_a_small_stack_the_program_runs: "-s 128";
    with_little_locked_memory_the_program_runs: "-l 0";
    with_few_pending_signals_the_program_runs: "-i 0";
    with_no_core_files_the_program_runs: "-c 0";
    with_little_data_the_program_runs: "-d 8000";
    with_small_files_only_the_program_runs: "-f 2000";
}

/// The limit counts a user's processes, and root's are not limited, so the program runs as somebody else.
#[test]
fn with_few_processes_the_program_runs() {
    if !root() {
        return skip("with_few_processes_the_program_runs", "only root can become a user without processes");
    }
    for limit in [1, 2, 3] {
        let script = format!(
            "chmod -R a+rwX . && setpriv --reuid 64123 --clear-groups bash -c 'ulimit -u {limit}; exec {} data'",
            "./reader"
        );
        let program = build("plain_reader");
        let _ = Case::new(&format!("few_processes_{limit}"), ["bash", "-c", &script])
            .setup(data)
            .setup(move |scratch| {
                fs::copy(&program, scratch.at("reader")).expect("a copy that everybody can execute");
            })
            .needs(&["setpriv"])
            .check();
    }
}

/// All descriptors that the process may have are in use when the stalls come.
#[test]
fn with_all_descriptors_in_use_the_program_runs() {
    let program = build("plain_reader");
    let script = format!(
        "ulimit -n 40; for i in {{3..37}}; do eval \"exec $i</dev/null\"; done; exec {} data",
        program.display()
    );
    let _ = Case::new("descriptors_in_use", ["bash", "-c", &script]).setup(data).check();
}

#[test]
fn without_proc_the_program_runs() {
    if !root() {
        return skip("without_proc_the_program_runs", "only root may unmount");
    }
    let script = format!("umount -l /proc; exec {} data", build("plain_reader").display());
    let _ = Case::new("program_without_proc", ["unshare", "-m", "sh", "-c", &script]).setup(data).check();
}

#[test]
fn with_a_read_only_proc_and_sys_hidden_the_program_runs() {
    if !root() {
        return skip("with_a_read_only_proc_and_sys_hidden_the_program_runs", "only root may mount");
    }
    let script = format!(
        "mount -t tmpfs none /sys && mount -o remount,bind,ro /proc; exec {} data",
        build("plain_reader").display()
    );
    let _ = Case::new("hidden_sys", ["unshare", "-m", "sh", "-c", &script]).setup(data).check();
}

/// The whole run where `/proc` is not there: one sentence and status 125, or the program runs alone.
#[test]
fn without_proc_the_supervisor_says_so_or_runs_the_program() {
    if !root() || switch("FOREBAY_PROMISE_PLAIN") {
        return skip("without_proc_the_supervisor_says_so_or_runs_the_program", "only root may unmount");
    }
    let case =
        reader("without_proc", 4).before(["unshare", "-m", "sh", "-c", "umount -l /proc; exec \"$@\"", "sh"]);
    let outcome = case.run(Side::With);
    assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
    assert!(
        outcome.status == 0 || (outcome.status == 125 && !outcome.stderr.is_empty()),
        "status {}: {}",
        outcome.status,
        String::from_utf8_lossy(&outcome.stderr)
    );
}

#[test]
fn with_a_full_disk_the_program_fails_as_without() {
    if !root() {
        return skip("with_a_full_disk_the_program_fails_as_without", "only root may mount");
    }
    let script = format!(
        "mkdir disk && mount -t tmpfs -o size=100k none disk && mkdir disk/out && head -c 60000 data > disk/fill; \
         cd disk; cat ../data > out/more; echo $?; {} ../data; wc -c < out/log; cd ..; umount disk; rmdir disk",
        build("plain_reader").display()
    );
    let _ = Case::new("full_disk", ["unshare", "-m", "bash", "-c", &script]).setup(data).check();
}

#[test]
fn with_full_shared_memory_the_program_runs() {
    if !root() {
        return skip("with_full_shared_memory_the_program_runs", "only root may mount");
    }
    let fill =
        "mount -t tmpfs -o size=16k none /dev/shm && head -c 16384 /dev/zero > /dev/shm/fill; exec \"$@\"";
    let _ = reader("full_shared_memory", 4).before(["unshare", "-m", "sh", "-c", fill, "sh"]).check();
}

/// Kills processes that carry one name and descend from this test's runs, at moments that differ from try to try.
fn killed_at_random(name: &'static str, victim: &'static str, check: fn(&Outcome, &Outcome)) {
    if switch("FOREBAY_PROMISE_PLAIN") {
        return skip(name, "there is nobody to kill");
    }
    let without = reader(name, 12).run(Side::Without);
    for attempt in 0..if long() { 200 } else { 12 } {
        let case = reader(name, 12).observer(move |scratch| {
            let directory = scratch.path().to_owned();
            let killer = thread::spawn(move || kill_soon(victim, &directory, attempt));
            Box::new(move |_| format!("killed {}", killer.join().expect("the killer")))
        });
        let with = case.run(Side::With);
        assert!(with.complaints.is_empty(), "attempt {attempt}: {:?}", with.complaints);
        check(&without, &with);
    }
}

/// Waits for a process with the name and working directory, then a little longer, and kills it.
fn kill_soon(victim: &str, directory: &std::path::Path, attempt: u64) -> bool {
    let give_up = Instant::now() + Duration::from_secs(2);
    while Instant::now() < give_up {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|s| s.parse::<i32>().ok()) else { continue };
            let named =
                fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim_end() == victim);
            if named && fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == directory) {
                thread::sleep(Duration::from_micros(attempt * attempt * 37 % 9000));
                return kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok();
            }
        }
    }
    false
}

#[test]
fn a_killed_speculator_is_not_missed() {
    killed_at_random("killed_speculator", "forebay:spec", |without, with| {
        assert_eq!(without.status, with.status);
        assert_eq!(without.stdout, with.stdout);
        assert_eq!(without.stderr, with.stderr);
        assert_eq!(without.tree, with.tree);
    });
}

/// With the supervisor goes the one that the shell waits for, so the status is that of the kill. The program itself
/// ends with it or goes on alone; what it wrote is the beginning of what it should write.
#[test]
fn a_killed_supervisor_leaves_no_wrong_data() {
    killed_at_random("killed_supervisor", "forebay", |without, with| {
        assert!(with.status == 137 || with.status == 0, "status {}", with.status);
        assert!(without.stdout.starts_with(&with.stdout), "{:?}", String::from_utf8_lossy(&with.stdout));
        assert!(with.stderr.is_empty(), "{}", String::from_utf8_lossy(&with.stderr));
    });
}

/// A program that outlives its supervisor runs to its end with the right output.
#[test]
fn a_program_goes_on_alone_when_its_supervisor_is_killed() {
    let script = format!(
        "{} data 3 > /dev/null; kill -9 $PPID 2> /dev/null; {} data 6; echo done > out/done",
        build("plain_reader").display(),
        build("plain_reader").display()
    );
    if switch("FOREBAY_PROMISE_PLAIN") {
        return skip("a_program_goes_on_alone_when_its_supervisor_is_killed", "there is nobody to kill");
    }
    let argv = ["sh".to_owned(), "-c".to_owned(), script];
    // Waits on its standard output being closed, not on the supervisor, then for the file.
    let keep =
        "\"$@\" | cat; i=0; while [ ! -e out/done ] && [ $i -lt 100 ]; do sleep 0.05; i=$((i+1)); done";
    let case = Case::new("outlives", argv).setup(data).before(["sh", "-c", keep, "sh"]);
    let outcome = case.run(Side::With);
    assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
    let written: Vec<_> = outcome.tree.keys().map(|name| name.display().to_string()).collect();
    assert!(
        written.iter().any(|name| name == "out/done"),
        "{written:?}, {}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    assert!(String::from_utf8_lossy(&outcome.stdout).contains("checksum"), "{:?}", outcome.stdout);
}

/// Waits in a shell until the program of its session runs, which takes a while on a busy machine.
const RUNNING: &str = "until pgrep -s 0 -x plain_reader >/dev/null; do sleep 0.05; done";

/// Signals to the program's group, as Ctrl-C sends them, end all of it in the way that the program would end.
#[test]
fn an_interrupt_ends_everything() {
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let script = format!(
            "setsid -w bash -c '({RUNNING}; sleep 0.4; kill -{signal} 0) & exec {} data 100000 > /dev/null' ; echo status $?",
            build("plain_reader").display()
        );
        let _ = Case::new(&format!("interrupt_{signal}"), ["bash", "-c", &script])
            .setup(data)
            .normalise(|outcome| {
                outcome.tree.retain(|name, _| !name.ends_with("log"));
                // The shell's message has the process's number in it.
                outcome.stderr.clear();
            })
            .check();
    }
}

/// The terminal's signal reaches supervisor and program alike.
#[test]
fn an_interrupt_of_the_whole_run_ends_it_with_the_signals_status() {
    for signal in ["INT", "TERM"] {
        let before = format!(
            "setsid -w bash -c 'trap : {signal}; ({RUNNING}; sleep 0.5; kill -{signal} 0) & \"$@\"; s=$?; wait; exit $s' sh \"$@\""
        );
        let _ = reader(&format!("interrupt_all_{signal}"), 100_000)
            .before(["bash", "-c", &before, "sh"])
            .normalise(|outcome| {
                outcome.tree.retain(|name, _| !name.ends_with("log"));
                outcome.stdout.clear();
                outcome.stamps.clear();
                // A shell says "Terminated" where the signal itself ended its child.
                outcome.stderr.clear();
            })
            .check();
    }
}
