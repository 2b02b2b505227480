//! Limits: a speculator takes no more memory than its own, and forebay takes nothing of what the program may have.

use std::path::Path;

use forebay_compat::guests::build;
use forebay_compat::mounted::launch;
use forebay_compat::run::Side;
use forebay_compat::scratch::base;
use forebay_compat::{Case, Scratch, in_some_run, root, skip, switch};

/// Cold data.
fn data(scratch: &Scratch) {
    scratch.noise("data", 8 << 20, 9);
}

/// Speculators that must have ended for what they took. One that the system's clock was late for would say nothing.
const ENDS_MIN: f64 = 4.0;

/// Speculators of the guest may take 1 MiB. Some end because of that, and on average they have taken `pages_max` at most.
#[track_caller]
fn is_limited(name: &'static str, guest: &Path, arguments: &[&str], pages_max: f64) {
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(name, "both sides run without forebay");
    }
    let (mut speculators, mut taken, mut ends) = (0.0, 0.0, 0.0);
    in_some_run(|| {
        let mut argv = vec![guest.as_os_str().to_owned()];
        argv.extend(arguments.iter().map(Into::into));
        let case = Case::new(name, argv).setup(data).options(&["--memory-limit", "1M"]);
        // Some guests print the time that they took.
        let Some(outcome) = case.normalise(|outcome| outcome.stderr.clear()).check() else { return Ok(()) };
        speculators += outcome.figure("forks") + outcome.figure("repairs");
        taken += outcome.figure("speculator_minor_faults");
        ends += outcome.figure("speculator_ends/memory");
        if ends < ENDS_MIN { Err(format!("{ends} of {speculators} took too much")) } else { Ok(()) }
    });
    assert!(taken <= speculators * pages_max, "{taken} pages for {speculators} speculators");
}

/// A page fault is a copy only as long as another process maps the page.
#[test]
fn what_faults_when_the_speculator_has_ended_is_no_copy() {
    const FAULTS: f64 = 100_000.0;
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip("writes_later", "both sides run without forebay");
    }
    // One that is late to the pipe lives on during the faults, and counts them rightly: most are not.
    let (mut came, mut few) = (0, 0);
    in_some_run(|| {
        let argv = [build("writes_later").into_os_string(), "data".into(), FAULTS.to_string().into()];
        let Some(outcome) = Case::new("writes_later", argv).setup(data).check() else { return Ok(()) };
        if outcome.figure("speculator_ends/call_not_emulated") > 0.0 {
            came += 1;
            few += usize::from(outcome.figure("copied_pages") < FAULTS / 10.0);
        }
        if came >= 3 && few > came / 2 {
            return Ok(());
        }
        Err(format!("of {came} speculators that reached the pipe, {few} had few copies"))
    });
}

/// The heap grows by brk, so its size is known before.
#[test]
fn the_heap_of_a_speculator_is_limited() {
    is_limited("limited_heap", &build("heap_growth"), &["data", "200"], 1_000.0);
}

/// Copies of memory that the speculator shares with the original are seen at the next tick, after some thousand pages.
#[test]
fn copies_of_inherited_memory_are_limited() {
    let guest = build("resident");
    is_limited("limited_copies", &guest, &["64", "1000", "data", "10"], 12_000.0);
}

/// Shared memory becomes private in the speculator.
#[test]
fn copies_of_shared_memory_are_limited() {
    is_limited("limited_shared", &build("shared_gather"), &["16", "400", "data"], 1_000.0);
}

/// A command that a shell has put under limits.
fn limited(name: &str, guest: &str, limits: &str) -> Case {
    let script = format!("{limits}; \"$@\"; echo status $?");
    Case::new(name, [build(guest).into_os_string(), "data".into()])
        .setup(data)
        .without_statistics()
        .before(["bash", "-c", &script, "bash"])
}

#[test]
fn a_limit_that_leaves_forebay_no_room_changes_nothing() {
    for (name, limit) in [
        ("address_space", "-v 60000"),
        ("more_address_space", "-v 200000"),
        ("data", "-d 20000"),
        ("file_size", "-f 0"),
        ("descriptors", "-n 16"),
        ("few_descriptors", "-n 5"),
        ("locked_memory", "-l 0"),
        ("pending_signals", "-i 0"),
        ("stack", "-s 256"),
    ] {
        let _ = limited(&format!("limit_of_{name}"), "plain_reader", &format!("ulimit {limit}")).check();
        let _ = limited(&format!("unlimited_{name}"), "fork_child", &format!("ulimit -S {limit}")).check();
    }
}

/// The agent would be a part of it.
#[test]
fn a_program_has_all_of_its_address_space() {
    let script = "import mmap
n, step, kept = 0, 64 << 20, []
while step >= 65536:
    try: kept.append(mmap.mmap(-1, step)); n += step
    except (OSError, MemoryError): step //= 2
print(n)";
    let limit = "ulimit -v 900000; exec \"$@\"";
    let _ = Case::new("all_address_space", ["python3", "-S", "-c", script])
        .without_statistics()
        .needs(&["python3", "setarch"])
        .before(["setarch", "-R", "bash", "-c", limit, "bash"])
        .check();
    let _ = Case::new(
        "all_address_space_of_a_child",
        ["bash", "-c", limit, "bash", "python3", "-S", "-c", script],
    )
    .without_statistics()
    .needs(&["python3", "setarch"])
    .before(["setarch", "-R"])
    .check();
}

/// The agent is there when the program sets the limit, and what runs then needs most of it.
#[test]
fn a_limit_that_a_program_sets_leaves_it_what_it_would_have() {
    let files = |scratch: &Scratch| {
        std::fs::create_dir(scratch.at("files")).expect("a folder");
        for number in 0..40 {
            scratch.file(&format!("files/{number}"), format!("{number}\n"));
        }
    };
    let told = "ulimit -v; ulimit -Hv; ulimit -d; ulimit -Hd";
    let counts = "n=0; for f in files/*; do read -r line < $f; n=$((n + $(echo $line))); done; echo $n; \
                  text=$(printf %1000000s); echo ${#text}";
    let children =
        format!("(bash -c '{told}'; true); bash -c '{told}' | cat; grep -E 'space|data' /proc/self/limits");
    for limit in ["-v 20000", "-d 4000", "-S -v 20000", "-S -d 4000"] {
        let script = format!(
            "{counts}; ulimit {limit}; {counts}; {told}; {children}; no-such-program; echo $?; {counts}; \
             ulimit -v 30000; echo $?; {told}; (ulimit -v 18000; {told}; {children}; {counts})"
        );
        let case = |name: &str| Case::new(&format!("{name}{limit}"), ["bash", "-c", &script]).setup(files);
        let _ = case("own_limit").without_statistics().check();
        let _ = case("own_limit_of_a_user").without_statistics().needs(&["setpriv"]).without_root().check();
    }
}

/// To what the loader takes for one library more, and to the steps in which this asks for memory.
#[test]
fn a_program_has_all_that_it_limits_itself_to() {
    const STEP: u64 = 64 << 10;
    let script = "import mmap, resource, sys
kind, most = getattr(resource, sys.argv[1]), int(sys.argv[2]) << 20
for limit in (most, most), (most // 2, most), (most, most):
    resource.setrlimit(kind, limit)
    told = resource.getrlimit(kind), resource.prlimit(0, kind, limit), resource.prlimit(0, kind)
    assert told == (limit,) * 3, told
    n, step, kept = 0, 64 << 20, []
    while step >= 65536:
        try: kept.append(mmap.mmap(-1, step, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)); n += step
        except (OSError, MemoryError): step //= 2
    del kept
    print(n)
try: resource.setrlimit(kind, (most + 1, most))
except ValueError: print('refused')";
    for (resource, most) in [("RLIMIT_AS", "300"), ("RLIMIT_DATA", "200")] {
        let [without, with] = [Side::Without, Side::With].map(|side| {
            let place = Scratch::fresh(base().join(format!("own_{resource}_{side:?}")));
            let outcome = launch(&place, side, &["python3", "-S", "-c", script, resource, most]);
            assert_eq!(String::from_utf8_lossy(&outcome.stderr), "");
            String::from_utf8_lossy(&outcome.stdout).into_owned()
        });
        let lines: Vec<_> = without.lines().zip(with.lines()).collect();
        assert!(lines.len() == 4 && lines[3] == ("refused", "refused"), "{without}{with}");
        for (without, with) in &lines[..3] {
            let [without, with] = [without, with].map(|line| line.parse::<u64>().expect("a number of bytes"));
            assert!(with.abs_diff(without) <= STEP, "{resource}: {with} bytes and not {without}");
        }
    }
}

/// Children that are made in other ways, and a process that confines itself: they and what they execute have the program's limits.
#[test]
fn what_a_program_under_its_own_limit_executes_has_that() {
    let script = "import ctypes, os, resource, subprocess, sys
most = 300 << 20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
show = ['bash', '-c', 'ulimit -v; ulimit -Hv']
def run(**options): print(subprocess.run(show, capture_output=True, text=True, **options).stdout, flush=True)
run()
run(close_fds=False)
run(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most // 2, most)))
print(os.spawnvp(os.P_WAIT, 'bash', show), flush=True)
pid = os.posix_spawnp('bash', show, os.environ); os.waitpid(pid, 0)
for path in ('/no/such/file', '/', __file__ if '__file__' in globals() else '/etc/passwd'):
    try: os.execv(path, ['x'])
    except OSError as error: print(error.errno, flush=True)
print(resource.getrlimit(resource.RLIMIT_AS), flush=True)
kept = bytearray(200 << 20)
print(len(kept), flush=True)
del kept
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
allow = ctypes.create_string_buffer(bytes([6, 0, 0, 0, 0, 0, 255, 127]))
print(libc.prctl(22, 2, ctypes.byref(Program(1, ctypes.addressof(allow))), 0, 0), flush=True)
print(resource.getrlimit(resource.RLIMIT_AS), flush=True)
resource.setrlimit(resource.RLIMIT_AS, (most // 2, most))
print(resource.getrlimit(resource.RLIMIT_AS), flush=True)
os.execvp('bash', show)";
    let _ = Case::new("own_limit_executes", ["python3", "-S", "-c", script])
        .without_statistics()
        .needs(&["python3"])
        .check();
    let _ = Case::new("own_limit_of_a_user_executes", ["/usr/bin/python3", "-S", "-c", script])
        .without_statistics()
        .needs(&["python3", "setpriv"])
        .without_root()
        .check();
}

/// Forebay has lowered its part of a limit before a filter can forbid that.
#[test]
fn a_program_that_may_set_no_limits_any_more_has_its_own() {
    let script = "import ctypes, os, resource
most = 300 << 20
resource.setrlimit(resource.RLIMIT_AS, (most, most))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
class Filter(ctypes.Structure):
    _fields_ = [('code', ctypes.c_ushort), ('then', ctypes.c_ubyte), ('other', ctypes.c_ubyte), ('value', ctypes.c_uint)]
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
PRLIMIT, SETRLIMIT, KILL, ALLOW = 302, 160, 1 << 31, 0x7fff0000
# One that only asks for a limit has no new one.
filters = (Filter * 7)((0x20, 0, 0, 0), (0x15, 1, 0, PRLIMIT), (0x15, 2, 3, SETRLIMIT),
                       (0x20, 0, 0, 32), (0x15, 1, 0, 0), (6, 0, 0, KILL), (6, 0, 0, ALLOW))
print(libc.prctl(22, 2, ctypes.byref(Program(7, ctypes.addressof(filters))), 0, 0), flush=True)
print(open('/proc/self/limits').read(), len(bytearray(100 << 20)), flush=True)
pid = os.fork()
if pid == 0: os.execv('/bin/cat', ['cat', '/proc/self/limits'])
print(os.waitpid(pid, 0)[1], flush=True)
os.execv('/bin/cat', ['cat', '/proc/self/limits'])";
    let _ = Case::new("forbidden_limits", ["python3", "-S", "-c", script])
        .without_statistics()
        .needs(&["python3"])
        .check();
}

/// A speculator, the supervisor and each of its threads would count.
#[test]
fn a_program_has_as_many_processes_as_its_group_may_have() {
    in_a_group("processes_of_a_group", 40, "forks_most", &[]);
}

/// They begin on stacks of their own. The limit leaves room for forebay at first.
#[test]
fn a_program_has_as_many_threads_as_its_group_may_have() {
    in_a_group("threads_of_a_group", 400, "threads_most", &["1000"]);
}

#[test]
fn a_program_spawns_as_many_processes_as_its_group_may_have() {
    in_a_group("spawned_in_a_group", 400, "threads_most", &["380"]);
}

/// A guest that has as many tasks as its control group may have.
fn in_a_group(name: &str, most: u32, guest: &str, arguments: &[&str]) {
    if !root() {
        return skip(name, "only root may");
    }
    let group = format!(
        "g=/sys/fs/cgroup/pids; [ -d $g ] || g=/sys/fs/cgroup; g=$g/forebay-compat-$$; mkdir $g && \
        echo {most} > $g/pids.max && echo 0 > $g/cgroup.procs || echo no group"
    );
    let ungroup = "echo 0 > ${g%/*}/cgroup.procs; rmdir $g";
    let script = format!("{group}; \"$@\"; echo status $?; {ungroup}");
    // Forebay takes little of the limit in some runs.
    for _ in 0..3 {
        let mut argv = vec![build(guest).into_os_string(), "data".into()];
        argv.extend(arguments.iter().map(Into::into));
        let case = Case::new(name, argv);
        let _ = case.setup(data).without_statistics().before(["bash", "-c", &script, "bash"]).check();
    }
}

#[test]
fn a_program_has_as_many_processes_as_its_user_may_have() {
    if !root() {
        return skip("processes_of_a_user", "only root can be a user that has no other processes");
    }
    // Tests that run elsewhere have other users.
    let user = 100_000 + std::process::id();
    let script = format!("ulimit -u 30; exec setpriv --reuid={user} --clear-groups \"$@\"");
    let case = Case::new("processes_of_a_user", [build("forks_most").into_os_string(), "data".into()]);
    let case = case.setup(data).setup(|scratch| {
        std::fs::set_permissions(scratch.at("data"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .expect("rights");
    });
    let _ = case.without_statistics().needs(&["setpriv"]).before(["bash", "-c", &script, "bash"]).check();
}
