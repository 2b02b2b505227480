//! However and wherever a run is started, the program finds itself in the same surroundings as without it.

use std::fs;

use forebay_compat::guests::build;
use forebay_compat::run::Side;
use forebay_compat::{Case, Scratch, root, skip, switch};

/// Cold data and somewhere to write.
fn data(scratch: &Scratch) {
    scratch.noise("data", 8 << 20, 9).file("out/file", "x");
}

/// A guest, started by a shell script in which `"$@"` is the command, with `forebay run` on one side.
fn started_by(name: &str, guest: &str, arguments: &[&str], script: &str) -> Case {
    let mut argv = vec![build(guest).into_os_string(), "data".into()];
    argv.extend(arguments.iter().map(Into::into));
    Case::new(name, argv).setup(data).before(["bash", "-c", script, "bash"])
}

/// `name: guest, script`.
macro_rules! started {
    ($($name:ident: $guest:literal, $script:expr $(=> $($call:ident($($value:expr),*)).+)?;)+) => {
        $(#[test]
        fn $name() {
            let _ = started_by(stringify!($name), $guest, &[], $script) $($(.$call($($value),*))+)? .check();
        })+
    };
}

started! {
    without_standard_input: "open_descriptors", "\"$@\" <&-";
    without_standard_output: "plain_reader", "\"$@\" >&-";
    without_standard_error: "open_descriptors", "\"$@\" 2>&-";
    without_any_descriptor: "plain_reader", "\"$@\" <&- >&- 2>&-";
    with_many_inherited_descriptors: "open_descriptors",
        "for i in {3..9} 50 63 64 100 255 511; do eval \"exec $i</dev/null\"; done; \"$@\"";
    with_ignored_signals: "identity", "trap '' INT QUIT TERM HUP USR1 PIPE CHLD; \"$@\"";
    with_blocked_signals: "identity", "env --block-signal \"$@\"";
    with_ignored_and_default_signals: "identity", "env --ignore-signal --default-signal=CHLD \"$@\"";
    with_a_umask_and_limits: "self_pid", "umask 0377; ulimit -n 300; ulimit -c 0; ulimit -s 4096; umask 022; \"$@\"";
    with_a_priority: "self_pid", "nice -n 3 \"$@\"";
    on_one_processor: "plain_reader", "taskset -c 0 \"$@\"" => needs(&["taskset"]);
    at_idle_priority: "plain_reader", "chrt --idle 0 \"$@\"" => needs(&["chrt"]);
    in_real_time: "plain_reader", "chrt --fifo 1 \"$@\" 2>/dev/null || \"$@\"" => needs(&["chrt"]);
    without_restartable_sequences: "plain_reader", "GLIBC_TUNABLES=glibc.pthread.rseq=0 \"$@\"";
    threads_without_restartable_sequences: "threads", "GLIBC_TUNABLES=glibc.pthread.rseq=0 \"$@\"";
    without_address_randomisation: "registers", "setarch -R \"$@\"" => needs(&["setarch"]);
    with_the_old_memory_layout: "plain_reader", "setarch -L \"$@\"" => needs(&["setarch"]);
    with_readable_means_executable: "plain_reader", "setarch -X \"$@\"" => needs(&["setarch"]);
    with_an_unlimited_stack: "plain_reader", "ulimit -s unlimited 2>/dev/null; \"$@\"";
    without_an_environment: "identity", "env -i FOREBAY_STALL_US_MIN=8 \"$@\"";
    with_a_large_environment: "plain_reader", "for i in {1..200}; do export V$i=$(printf %05000d $i); done; \"$@\"";
    with_immediate_binding: "plain_reader", "LD_BIND_NOW=1 \"$@\"";
    in_a_new_session: "identity", "setsid -w \"$@\"";
    in_the_background: "plain_reader", "\"$@\" & wait $!";
    in_a_process_group_of_the_background: "plain_reader", "set -m; \"$@\" & wait $!";
    many_at_once: "registers", "for i in 1 2 3 4 5 6; do \"$@\" | grep -v stamp & done; wait";
    one_after_another: "registers", "for i in 1 2 3 4 5 6; do \"$@\" | grep -v stamp; done";
    under_strace: "fork_child", "strace -f -o /dev/null \"$@\"" => needs(&["strace"]);
    under_gdb: "plain_reader", "gdb -q -batch -nx -ex run -ex 'info inferiors' --args \"$@\" 2>/dev/null | grep -c checksum"
        => needs(&["gdb"]);
    under_a_time_limit: "plain_reader", "timeout 20 \"$@\"";
    with_a_private_directory_for_temporary_files: "plain_reader", "TMPDIR=/nonexistent \"$@\"";
    with_no_new_privileges: "spawn", "setpriv --no-new-privs \"$@\"" => needs(&["setpriv"]);
}

/// `name: guest, script` for root only.
macro_rules! started_as_root {
    ($($name:ident: $guest:literal, $script:expr $(=> $($call:ident($($value:expr),*)).+)?;)+) => {
        $(#[test]
        fn $name() {
            if !root() {
                return skip(stringify!($name), "only root may");
            }
            let _ = started_by(stringify!($name), $guest, &[], $script) $($(.$call($($value),*))+)? .check();
        })+
    };
}

started_as_root! {
    in_new_namespaces: "thread_forks", "unshare -p -f -m -i -u -n --mount-proc \"$@\"" => needs(&["unshare"]);
    in_a_user_namespace: "plain_reader", "unshare -U -r \"$@\"" => needs(&["unshare"]);
    without_capabilities: "plain_reader", "setpriv --bounding-set=-all --inh-caps=-all \"$@\"" => needs(&["setpriv"]);
    with_a_read_only_root: "plain_reader",
        "unshare -m bash -c 'p=$(cd ..; pwd -P); mount --bind $p $p && mount -o remount,ro,bind / && cd $p/scratch && \"$@\"' bash \"$@\""
        => needs(&["unshare"]);
    without_a_home: "plain_reader", "HOME=/nonexistent/home \"$@\"";
}

/// The program enters other namespaces by itself, below the run.
#[test]
fn a_program_may_enter_namespaces() {
    if !root() {
        return skip("a_program_may_enter_namespaces", "only root may");
    }
    let reader = build("fork_child");
    for (name, options) in
        [("pid", "-p -f --mount-proc"), ("user", "-U -r"), ("all", "-p -f -m -i -u -n -C --mount-proc")]
    {
        let script = format!("unshare {options} {} data; echo $?", reader.display());
        let _ = Case::new(&format!("enters_{name}"), ["bash", "-c", &script]).setup(data).check();
    }
}

/// Another user can be anybody with no rights in the directories of the user who started the run.
#[test]
fn a_program_may_become_another_user() {
    if !root() {
        return skip("a_program_may_become_another_user", "only root can");
    }
    let script = "chmod -R a+rwX . ; setpriv --reuid 65534 --clear-groups ./reader data; \
                  su -s /bin/sh nobody -c './reader data' 2>&1; ls -ln out";
    let program = build("plain_reader");
    let _ = Case::new("other_user", ["bash", "-c", script])
        .setup(data)
        .setup(move |scratch| {
            fs::copy(&program, scratch.at("reader")).expect("a copy that everybody can execute");
        })
        .needs(&["setpriv", "su"])
        .normalise(|outcome| outcome.stdout.retain(|byte| !byte.is_ascii_digit()))
        .check();
}

/// A run inside a run is a run.
#[test]
fn runs_may_be_nested() {
    if switch("FOREBAY_PROMISE_PLAIN") {
        return skip("runs_may_be_nested", "both sides run without forebay");
    }
    let forebay = forebay_testkit::artifacts::forebay().expect("build forebay");
    let reader = build("fork_child");
    let without =
        Case::new("nested", [reader.clone().into_os_string(), "data".into()]).setup(data).run(Side::Without);
    let argv = [forebay.into_os_string(), "run".into(), "--".into(), reader.into_os_string(), "data".into()];
    let with = Case::new("nested", argv).setup(data).run(Side::With);
    let found = forebay_compat::case::compare(&without, &with);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What a person at a terminal does: starts a shell there, starts the command, presses keys.
fn at_a_terminal(name: &str, keys: &str) -> Case {
    const PERSON: &str = r#"
import os, pty, sys, time, select, shlex, signal
keys, command = sys.argv[1], sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.environ['PS1'] = ''
    os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])
shown = b''
def until(what, seconds=15):
    global shown
    end = time.time() + seconds
    while what not in shown and time.time() < end:
        if select.select([fd], [], [], 0.05)[0]:
            try: shown += os.read(fd, 4096)
            except OSError: break
    found = what in shown
    shown = shown.split(what, 1)[-1]
    print(what.decode().strip(), found, flush=True)
os.write(fd, b'stty -echo\n'); time.sleep(0.3)
line = ' '.join(shlex.quote(c) for c in command)
os.write(fd, (line + ' > /dev/null\n').encode())
def began(log='out/log'):
    return os.path.exists(log) and os.path.getsize(log) > 0
end = time.time() + 15
while not began() and time.time() < end: time.sleep(0.02)
time.sleep(0.2)
for key in keys:
    if key == 'Z':
        os.write(fd, b'\x1a'); until(b'Stopped')
        os.write(fd, b'echo "jobs:"$(jobs | wc -l)\n'); until(b'jobs:1')
    if key == 'F':
        os.write(fd, b'fg\n'); time.sleep(0.3)
    if key == 'B':
        os.write(fd, b'bg; sleep 0.2; echo "jobs:"$(jobs | grep -c Running)\n'); until(b'jobs:1')
    if key == 'C':
        os.write(fd, b'\x03'); time.sleep(0.4); os.write(fd, b'echo "ended:"$?\n'); until(b'ended:130')
    if key == 'Q':
        os.write(fd, b'\x1c'); time.sleep(0.4); os.write(fd, b'echo "ended:"$?\n'); until(b'ended:131')
    if key == 'H':
        os.close(fd); fd = None; time.sleep(0.3)
if fd is not None:
    os.write(fd, b'exit\nexit\n')
time.sleep(0.1)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
"#;
    let argv = [build("plain_reader").into_os_string(), "data".into(), "100000".into()];
    Case::new(name, argv)
        .setup(data)
        .needs(&["python3"])
        .before(["python3", "-c", PERSON, keys])
        .normalise(|outcome| outcome.tree.retain(|path, _| !path.ends_with("log")))
}

#[test]
fn a_terminals_interrupt_ends_the_run() {
    let _ = at_a_terminal("terminal_interrupt", "C").check();
}

#[test]
fn a_terminals_quit_ends_the_run() {
    let _ = at_a_terminal("terminal_quit", "Q").check();
}

#[test]
fn a_run_can_be_stopped_and_continued_at_a_terminal() {
    let _ = at_a_terminal("terminal_stop", "ZFC").check();
}

#[test]
fn a_stopped_run_can_continue_in_the_background() {
    let _ = at_a_terminal("terminal_background", "ZBFC").check();
}

#[test]
fn a_run_ends_when_its_terminal_goes_away() {
    let _ = at_a_terminal("terminal_hangup", "H").check();
}
