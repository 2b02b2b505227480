//! The program finds the same surroundings under `forebay run` as without it, wherever and however the run is started.

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
    Case::new(name, argv).setup(data).without_statistics().before(["bash", "-c", script, "bash"])
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

/// A shell function that starts the command in a process group of its own and reads its number, which the command prints.
const IN_A_GROUP: &str = "set -m; coproc W { exec \"$@\"; }; exec 3<&${W[0]}; read -ru 3 n; \
    [ $n = $W_PID ] && echo the process that was started";

/// Each kind of signal is queued, so the program would take two of them twice.
#[test]
fn a_signal_to_the_group_arrives_once() {
    let script = format!(
        "{IN_A_GROUP}; for s in 3 4 5; do kill -RTMIN+$s -- -$n; read -ru 3 s t; echo $s; done; \
        kill -TERM -- -$n; cut -d' ' -f1 <&3; wait"
    );
    let _ = started_by("signal_to_the_group", "watch_signals", &[], &script).check();
}

/// Also with statistics, where forebay is of the group: the program has the signal then, and gets none back.
#[test]
fn a_signal_of_the_program_to_its_own_group_arrives_once() {
    // No condition can tell that nothing more comes.
    let program = "import os, signal as s\ntold = {s.SIGRTMIN + 3}\ns.pthread_sigmask(s.SIG_BLOCK, told)\n\
                   open('data', 'rb').read()\nos.kill(0, s.SIGRTMIN + 3)\nwhile s.sigtimedwait(told, 0.1): print('told')";
    for with in [Case::with_statistics, Case::without_statistics] {
        let case = Case::new("signal_to_its_own_group", ["python3", "-c", program]).setup(data);
        let _ = with(case).before(["setsid", "-w"]).check();
    }
}

#[test]
fn a_signal_to_the_process_that_was_started_reaches_the_program() {
    let script = format!(
        "{IN_A_GROUP}; for s in RTMIN+3 HUP USR1 WINCH; do kill -$s $n; read -ru 3 s t; echo $s; done; \
        kill -TERM $n; cut -d' ' -f1 <&3; wait"
    );
    let _ = started_by("signal_to_the_process", "watch_signals", &[], &script).check();
}

#[test]
fn the_programs_parent_is_the_process_that_started_the_run() {
    let script = "trap 'echo told' USR1; \"$@\"; echo $?";
    let program = "[ $PPID = $1 ]; echo $?; kill -USR1 $PPID";
    let _ = Case::new("the_programs_parent", ["sh", "-c", program, "sh"])
        .setup(data)
        .without_statistics()
        .before(["bash", "-c", &format!("set -- \"$@\" $$; {script}"), "bash"])
        .check();
}

/// As it is said of sockets that were opened for a service, and of its watchdog.
#[test]
fn variables_that_name_the_process_name_the_program() {
    let script = "LISTEN_PID=$$ WATCHDOG_PID=$$ exec \"$@\"";
    let program = "[ $LISTEN_PID = $$ ] && [ $WATCHDOG_PID = $$ ]; echo $?";
    for with in [Case::with_statistics, Case::without_statistics] {
        let case = Case::new("variables_name_the_process", ["sh", "-c", program]).setup(data);
        let _ = with(case).before(["bash", "-c", script, "bash"]).check();
    }
}

/// A reader sees the end of a pipe when the program has closed it, and not when the run ends.
#[test]
fn the_supervisor_holds_nothing_of_the_program() {
    let program = "wc -c < data; exec >&-; read line < out/end";
    let script = "mkfifo out/end; \"$@\" | { cat; echo end > out/end; }; echo ${PIPESTATUS[*]}";
    let _ = Case::new("the_supervisor_holds_nothing", ["sh", "-c", program])
        .setup(data)
        .without_statistics()
        .before(["bash", "-c", script, "bash"])
        .normalise(|outcome| outcome.tree.retain(|path, _| !path.ends_with("end")))
        .check();
}

#[test]
fn the_supervisor_is_no_child_of_the_program() {
    let program = "import os; open('data', 'rb').read()\ntry: print(os.waitpid(-1, 0))\nexcept ChildProcessError: print('none')";
    let _ = Case::new("the_supervisor_is_no_child", ["python3", "-c", program])
        .setup(data)
        .without_statistics()
        .check();
}

/// The other user may have no rights in the directories of the user that started the run.
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
            forebay_testkit::copy_program(&program, scratch.at("reader"));
        })
        .needs(&["setpriv", "su"])
        .normalise(|outcome| outcome.stdout.retain(|byte| !byte.is_ascii_digit()))
        .check();
}

/// A run inside a run is a run.
#[test]
fn runs_may_be_nested() {
    if switch("FOREBAY_COMPAT_PLAIN") {
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

/// An interactive shell at a terminal, in which the command is started and keys are pressed. Each step waits for what it
/// brings about, and prints whether it came.
const TERMINAL: &str = r#"
import os, pty, sys, time, select, shlex, signal
keys, command = sys.argv[1], sys.argv[2:]
shell, terminal = pty.fork()
if shell == 0:
    os.environ['PS1'] = ''
    os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])
shown = b''
def until(name, condition):
    end = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    print(name, bool(found), flush=True)
def shows(text):
    def condition():
        global shown
        if select.select([terminal], [], [], 0)[0]:
            try: shown += os.read(terminal, 4096)
            except OSError: pass
        before, found, after = shown.partition(text)
        if found: shown = after
        return found
    until(text.decode(), condition)
def enter(line):
    os.write(terminal, line.encode() + b'\n')
def shell_is_in_front(wanted):
    until('shell in front' if wanted else 'command in front', lambda: (os.tcgetpgrp(terminal) == shell) == wanted)
def is_gone(group):
    try: os.killpg(group, 0)
    except ProcessLookupError: return True
enter('stty -echo; echo "rea""dy"')
shows(b'ready')
enter(' '.join(shlex.quote(word) for word in command) + ' > /dev/null')
until('began', lambda: os.path.exists('out/log') and os.path.getsize('out/log') > 0)
for key in keys:
    if key == 'Z':
        os.write(terminal, b'\x1a'); shows(b'Stopped')
        shell_is_in_front(True)
        enter('echo "jobs:"$(jobs | wc -l)'); shows(b'jobs:1')
    if key == 'F':
        enter('fg'); shell_is_in_front(False)
    if key == 'B':
        enter('bg; echo "jobs:"$(jobs | grep -c Running)'); shows(b'jobs:1')
    if key in 'CQ':
        os.write(terminal, b'\x03' if key == 'C' else b'\x1c')
        shell_is_in_front(True)
        enter('echo "ended:"$?'); shows(b'ended:130' if key == 'C' else b'ended:131')
    if key == 'H':
        group = os.tcgetpgrp(terminal)
        os.close(terminal)
        until('program gone', lambda: is_gone(group))
if 'H' not in keys:
    enter('exit'); enter('exit')
until('shell gone', lambda: os.waitpid(shell, os.WNOHANG)[0] == shell)
"#;

/// What keys at a terminal do to a run in the foreground.
fn at_a_terminal(name: &str, keys: &str) -> Case {
    let argv = [build("plain_reader").into_os_string(), "data".into(), "100000".into()];
    Case::new(name, argv)
        .setup(data)
        .without_statistics()
        .needs(&["python3"])
        .before(["python3", "-c", TERMINAL, keys])
        .seconds(200)
        .normalise(|outcome| {
            let printed = String::from_utf8_lossy(&outcome.stdout).into_owned();
            assert!(!printed.contains("False"), "{printed}");
            outcome.tree.retain(|path, _| !path.ends_with("log"));
        })
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
