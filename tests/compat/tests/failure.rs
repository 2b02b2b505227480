//! When a part of `forebay run` fails, the program goes on without it and ends with the right results.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, iter, thread};

use forebay_compat::guests::build;
use forebay_compat::run::Side;
use forebay_compat::{Case, Outcome, Scratch, comes_to, in_some_run, root, skip, switch};
use forebay_lab::MemoryLimit;
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

fn short_reader(name: &str) -> Case {
    reader(name, 4)
}

/// The program that waits for pages of a mapped file, in an order that only it knows.
fn mapper(name: &str) -> Case {
    let argv = [build("mapped").into_os_string(), "data".into(), "6000".into()];
    Case::new(name, argv).setup(mapped_data).normalise(without_seconds)
}

/// So large that the agent asks for signals of page faults.
fn mapped_data(scratch: &Scratch) {
    scratch.noise("data", 24 << 20, 9);
}

/// The program that waits for pages that are swapped out.
fn gatherer(name: &str) -> Case {
    let argv = [build("gather").into_os_string(), "48".into(), "8000".into()];
    Case::new(name, argv).memory_limit(24).faults().normalise(without_seconds)
}

/// The program that reads a file between its waits for such pages.
fn swapped_reader(name: &str) -> Case {
    let argv = [build("swap_reads").into_os_string(), "data".into()];
    Case::new(name, argv).setup(data).memory_limit(24).faults()
}

/// The guests print how long it took.
fn without_seconds(outcome: &mut Outcome) {
    outcome.stderr.clear();
}

/// `refuse FEATURES`, as a command in front of another one.
fn refuse(features: &str) -> [OsString; 2] {
    [build("refuse").into_os_string(), features.into()]
}

/// What the statistics name as missing.
fn missing(outcome: &Outcome) -> BTreeSet<String> {
    let totals = outcome.totals().into_iter();
    totals
        .filter_map(|(metric, value)| {
            let name = metric.strip_prefix("missing/")?;
            assert!(value == 1.0, "{metric} is {value}");
            Some(name.to_owned())
        })
        .collect()
}

/// `refuse FEATURES` in front of `forebay run`: the kernel has none of them, for the supervisor and for speculators. The
/// statistics name `named`, and nothing else that they do not name where nothing is refused.
fn refused(feature: &str, named: &[&str], case: fn(&str) -> Case) {
    let name = format!("without_{feature}");
    if switch("FOREBAY_COMPAT_PLAIN") {
        let _ = case(&name).before(refuse(feature)).check();
        return;
    }
    let forks = |outcome: &Outcome| outcome.figure("forks");
    let Some(control) = comes_to(&format!("with_{feature}"), 1.0, forks, || case(&name)) else { return };
    let control = missing(&control);
    if let Some(lacking) = named.iter().find(|name| control.contains(**name)) {
        return skip(&name, format!("this machine has no {lacking} anyway"));
    }
    let expected: BTreeSet<String> =
        control.into_iter().chain(named.iter().map(|name| (*name).into())).collect();
    in_some_run(|| {
        let Some(outcome) = case(&name).before(refuse(feature)).check() else { return Ok(()) };
        let found = missing(&outcome);
        assert!(found.is_subset(&expected), "{found:?} are named, beyond {expected:?}");
        let all = || format!("only {found:?} of {expected:?}: {:?}", outcome.totals());
        if found == expected { Ok(()) } else { Err(all()) }
    });
}

/// `refuse FEATURES` below `forebay run`: a program that confines itself is left alone, and counted as such.
fn refused_to_the_program(name: &str, features: &str) {
    let [refuse, features] = refuse(features);
    let argv = [refuse, features, build("plain_reader").into_os_string(), "data".into()];
    let Some(outcome) = Case::new(name, argv).setup(data).check() else { return };
    if !switch("FOREBAY_COMPAT_PLAIN") {
        assert!(outcome.figure("agents_off/confined") > 0.0, "{:?}", outcome.totals());
        assert!(outcome.figure("forks") == 0.0, "{:?}", outcome.totals());
    }
}

/// Both, what the statistics call it, and the program that needs it.
macro_rules! without_feature {
    ($($name:ident: $case:ident of $feature:literal $(named $named:literal)?;)+) => {
        $(#[test]
        fn $name() {
            refused($feature, &[$($named)?], $case);
            refused_to_the_program(concat!("program_without_", $feature), $feature);
        })+
    };
}

without_feature! {
    without_seccomp_there_is_no_speculation: short_reader of "seccomp" named "seccomp";
    without_landlock_all_else_works: short_reader of "landlock" named "landlock";
    without_perf_events_all_else_works: mapper of "perf_event_open" named "perf_events";
    without_userfaultfd_all_else_works: mapper of "userfaultfd" named "userfaultfd";
    without_pagemap_scan_all_else_works: gatherer of "pagemap_scan" named "PAGEMAP_SCAN";
    without_preadv2_all_else_works: swapped_reader of "preadv2" named "RWF_NOWAIT";
    without_reads_that_do_not_wait_all_else_works: mapper of "nowait" named "RWF_NOWAIT";
    without_openat2_all_else_works: short_reader of "openat2" named "RESOLVE_CACHED";
    without_cachestat_all_else_works: mapper of "cachestat" named "cachestat";
    without_new_sessions_all_else_works: short_reader of "setsid";
    without_idle_scheduling_all_else_works: short_reader of "sched_setscheduler" named "SCHED_IDLE";
    without_clone3_all_else_works: short_reader of "clone3";
    without_pidfds_all_else_works: short_reader of "pidfd_open";
    without_close_range_all_else_works: short_reader of "close_range";
    without_advice_all_else_works: short_reader of "fadvise";
    without_locked_memory_all_else_works: short_reader of "mlock";
    without_access_to_other_processes_all_else_works: short_reader of "process_vm";
    without_rseq_all_else_works: short_reader of "rseq";
    without_patched_code_symbols_are_interposed: short_reader of "mprotect_exec" named "patching_of_libc";
}

#[test]
fn without_many_features_at_once_the_program_runs() {
    let all = "seccomp,landlock,perf_event_open,userfaultfd,pagemap_scan,preadv2,openat2,cachestat,setsid,\
               sched_setscheduler,pidfd_open,close_range,fadvise,mlock,process_vm";
    let _ = reader("without_many", 4).before(refuse(all)).check();
    let _ = mapper("mapping_without_many").before(refuse(all)).check();
    refused_to_the_program("program_without_many", all);
}

/// `script` in a mount namespace of its own, in front of another command.
fn with_mounts(script: &str) -> [String; 6] {
    let whole = format!("{script}; exec \"$@\"");
    ["unshare", "-m", "sh", "-c", &whole, "sh"].map(Into::into)
}

/// No group tells of pressure, and neither does the machine.
const NO_PRESSURE: &str = "mount -t tmpfs none /proc/pressure; \
    find /sys/fs/cgroup -name memory.pressure -exec mount --bind /dev/null {} \\;";
const NO_GROUPS: &str = "umount -R -l /sys/fs/cgroup";
const NO_SWAP: &str = "mount --bind /dev/null /proc/swaps";

/// What tells how much memory there is may be missing, and is named then; where there is enough, swap is not missed.
#[test]
fn what_cannot_be_told_of_memory_is_named() {
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip("what_cannot_be_told_of_memory_is_named", "only root may mount");
    }
    // What is missing is known after the supervisor's first look, which a short run may end before.
    let figures = |name: &str, script: &str, is_expected: &dyn Fn(&BTreeSet<String>) -> bool| {
        in_some_run(|| {
            let outcome = reader(name, 4).before(with_mounts(script)).check().expect("unshare");
            let found = missing(&outcome);
            let is_known = |outcome: &Outcome| outcome.figure("stalls_before") > 0.0 && is_expected(&found);
            outcome.wanted(is_known).map(|outcome| missing(&outcome))
        })
    };
    let all = figures("with_all_of_memory", ":", &|_| true);
    for (name, script, named) in
        [("without_pressure", NO_PRESSURE, "PSI"), ("without_groups", NO_GROUPS, "control_group_of_memory")]
    {
        if all.contains(named) {
            skip(name, format!("this machine has no {named} anyway"));
            continue;
        }
        figures(name, script, &|found| found.contains(named));
    }
    figures("without_swap", NO_SWAP, &|found| *found == all);
}

/// A copy counts for as much as the program, which could get less then. Only the supervisor is told so here.
#[test]
fn where_the_kernel_grants_no_more_memory_than_there_is_no_copy_is_made() {
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip("strict_memory", "only root may mount, and both sides run without forebay");
    }
    let script = "mount -t tmpfs none /proc/sys/vm; echo 2 > /proc/sys/vm/overcommit_memory";
    in_some_run(|| {
        let outcome = reader("strict_memory", 4).before(with_mounts(script)).check().expect("unshare");
        assert!(outcome.figure("forks") == 0.0, "{:?}", outcome.totals());
        outcome.wanted(|outcome| outcome.figure("agents_off/strict_memory") > 0.0).map(drop)
    });
}

/// A control group with less memory than `gather` needs, and no swap for it.
fn small_group() -> Option<MemoryLimit> {
    let limit = MemoryLimit::start(24 << 20);
    let Ok(limit) = limit.inspect_err(|why| skip("small_group", why.to_string())) else { return None };
    let members = limit.processes_file();
    let group = members.parent().expect("a folder");
    let refused = ["memory.swappiness", "memory.swap.max"].map(|name| fs::write(group.join(name), "0"));
    assert!(refused.iter().any(Result::is_ok), "{refused:?}");
    Some(limit)
}

/// The kernel's own doing is the program's failure, and said to be that.
#[test]
fn a_program_that_needs_more_memory_than_it_may_have_fails_as_without() {
    let Some(limit) = small_group() else { return };
    let join = format!("echo 0 > {}; {NO_SWAP}", limit.processes_file().display());
    let gather = [build("gather").into_os_string(), "64".into(), "1000".into()];
    let case = || Case::new("too_little_memory", gather.clone()).before(with_mounts(&join));
    // The kernel may kill the supervisor, too, which is in the group. Then there are no figures.
    let has_figures =
        |outcome: &Outcome| switch("FOREBAY_COMPAT_PLAIN") || outcome.figure("exit_status") == 137.0;
    let outcome = in_some_run(|| case().check().map(|outcome| outcome.wanted(has_figures)).transpose());
    let Some(outcome) = outcome else { return };
    assert_eq!(outcome.status, 137);
    if switch("FOREBAY_COMPAT_PLAIN") {
        return;
    }
    assert_eq!(outcome.figure("ended_by_signal"), 9.0);
    assert!(outcome.figure("killed_for_memory") >= 1.0, "{:?}", outcome.totals());
    assert!(missing(&outcome).contains("swap"), "{:?}", outcome.totals());
    in_some_run(|| {
        let said = String::from_utf8(case().options(&["--stats"]).run(Side::With).stderr).expect("text");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_whole = said.starts_with("forebay: gather was ended by signal 9 (SIGKILL) after ")
            && said.contains(": its control group's memory did not suffice stalls ");
        if is_whole { Ok(()) } else { Err(said) }
    });
}

/// The group that counts is the one that the program is in, which need not be forebay's.
#[test]
fn a_program_may_join_a_group_with_too_little_memory() {
    let Some(limit) = small_group() else { return };
    // Forebay looks once a second.
    let script = format!(
        "echo 0 > {}; sleep 2.5; exec {} 64 1000",
        limit.processes_file().display(),
        build("gather").display()
    );
    let Some(outcome) = Case::new("joins_a_group", ["sh", "-c", &script]).check() else { return };
    assert_eq!(outcome.status, 137);
    if !switch("FOREBAY_COMPAT_PLAIN") {
        assert!(outcome.figure("killed_for_memory") >= 1.0, "{:?}", outcome.totals());
    }
}

/// The program itself cannot fork either; it does not want to.
#[test]
fn without_fork_the_program_runs_alone() {
    refused_to_the_program("program_without_fork", "fork");
    refused_to_the_program("program_without_fork_and_seccomp", "fork,seccomp,preadv2");
}

/// A user who may have no more processes: speculation is tried at some of the many stalls, ever more seldom.
#[test]
fn forks_that_the_system_refuses_are_tried_ever_more_seldom() {
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip(
            "no_more_processes",
            "only root may become another user, and both sides run without forebay",
        );
    }
    let _ = in_some_run(|| {
        let mapped = [build("mapped").into_os_string(), "data".into(), "6000".into()];
        let limited = ["bash", "-c", "ulimit -u 0 && exec \"$@\"", "bash"].map(OsString::from);
        let case = Case::new("no_more_processes", limited.into_iter().chain(mapped));
        // As users have it.
        let case = case.env("FOREBAY_FIRST_US", "250");
        let case = case.setup(mapped_data).normalise(without_seconds).without_root();
        let Some(outcome) = case.check() else { return Ok(None) };
        let tried = outcome.figure("agents_off/no_fork");
        assert!(tried <= 40.0, "{:?}", outcome.totals());
        outcome.wanted(|_| tried >= 1.0).map(Some)
    });
}

/// Without a memory object there is nothing to share: the supervisor says so in one sentence, and what it does then
/// is its own matter, but a program that it starts finishes right.
#[test]
fn without_memfd_the_program_runs_or_a_sentence_says_why_not() {
    let case = reader("without_memfd", 4).before(refuse("memfd_create"));
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

/// As a service is whose system calls are filtered: whether it has limits is not known.
#[test]
fn where_limits_are_not_told_the_program_runs() {
    let _ = short_reader("untold_limits").without_statistics().before(refuse("limits")).check();
}

/// As in a container whose engine is older than the kernel.
#[test]
fn where_newer_calls_are_not_permitted_the_program_runs() {
    for with in [Case::with_statistics, Case::without_statistics] {
        let _ = with(short_reader("newer_calls")).before(refuse("newer_calls")).check();
    }
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

#[test]
fn a_core_file_holds_what_is_the_programs() {
    // Mappings of forebay have more than 8 MiB.
    let script = "ulimit -c unlimited; bash -c 'md5sum small/*; kill -SEGV $$'; \
                  for core in core*; do [ ! -e \"$core\" ] || echo $(($(stat -c %s \"$core\") >> 23)); done; rm -f core*";
    let _ = Case::new("core_file", ["bash", "-c", script]).setup(data).normalise(without_process_ids).check();
}

/// The shell says which of its processes has failed.
fn without_process_ids(outcome: &mut Outcome) {
    outcome.stderr = outcome.stderr.iter().filter(|byte| !byte.is_ascii_digit()).copied().collect();
}

/// The limit counts a user's processes, and root's are not limited, so the program runs as another user.
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
                forebay_testkit::copy_program(&program, scratch.at("reader"));
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
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
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

/// Waits for a process with the name and working directory.
fn find(name: &str, directory: &Path) -> Option<Pid> {
    let give_up = Instant::now() + Duration::from_secs(2);
    while Instant::now() < give_up {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|s| s.parse::<i32>().ok()) else { continue };
            let named =
                fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name);
            if named && fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == directory) {
                return Some(Pid::from_raw(pid));
            }
        }
    }
    None
}

/// At idle priority of I/O the program would wait for a disk that serves everybody else first.
#[test]
fn a_speculator_reads_with_the_priority_of_the_program() {
    let name = "priority_of_reads";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(name, "both sides run without forebay");
    }
    for (class, wanted) in
        [(None, "best-effort"), (Some("-c2 -n6"), "best-effort: prio 6"), (Some("-c3"), "idle")]
    {
        in_some_run(|| {
            let mut case = reader(name, 12).observer(move |scratch| {
                let directory = scratch.path().to_owned();
                let watcher = thread::spawn(move || {
                    let pid = find("forebay:spec", &directory)?;
                    let mut last = None;
                    // A speculator that has just been forked may be seen before it has set its own priority.
                    while last.as_ref().is_none_or(|last: &String| !last.starts_with(wanted)) {
                        let ionice = Command::new("ionice").args(["-p", &pid.to_string()]).output().ok()?;
                        if !ionice.status.success() {
                            break;
                        }
                        last = Some(String::from_utf8_lossy(&ionice.stdout).trim().to_owned());
                    }
                    last
                });
                Box::new(move |_| watcher.join().expect("the watcher").unwrap_or_default())
            });
            if let Some(class) = class {
                case = case.before(iter::once("ionice").chain(class.split(' ')));
            }
            let seen = case.run(Side::With).observed;
            if seen.starts_with(wanted) { Ok(()) } else { Err(format!("{class:?}: {seen}")) }
        });
    }
}

/// A program that outlives its supervisor runs to its end with the right output.
#[test]
fn a_program_goes_on_alone_when_its_supervisor_is_killed() {
    let script = format!(
        "{} data 3 > /dev/null; kill -9 $PPID 2> /dev/null; {} data 6; echo done > out/done",
        build("plain_reader").display(),
        build("plain_reader").display()
    );
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(
            "a_program_goes_on_alone_when_its_supervisor_is_killed",
            "both sides run without forebay",
        );
    }
    let argv = ["sh".to_owned(), "-c".to_owned(), script];
    // Waits on its standard output being closed, not on the supervisor, then for the file.
    let keep =
        "\"$@\" | cat; i=0; while [ ! -e out/done ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done";
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

/// Waits in a shell until the program has written its first line. The case's limit of time ends the wait.
const RUNNING: &str = "until [ -s out/log ]; do sleep 0.02; done";

/// Signals to the program's group, as Ctrl-C sends them, end all of it in the way that the program would end.
#[test]
fn an_interrupt_ends_everything() {
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let script = format!(
            "setsid -w bash -c '({RUNNING}; kill -{signal} 0) & exec {} data 100000 > /dev/null' ; echo status $?",
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
            "setsid -w bash -c 'trap : {signal}; ({RUNNING}; kill -{signal} 0) & \"$@\"; s=$?; wait; exit $s' sh \"$@\""
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
