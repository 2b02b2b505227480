//! Which commands share which profiles, and what those may learn.

use forebay_profile::{Command, Level, Scope};

/// The scopes of a command line in `/work`; `script` and `data` are files there.
fn scopes(line: &str) -> Vec<Scope> {
    scopes_in("/work", line)
}

fn scopes_in(directory: &str, line: &str) -> Vec<Scope> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let command = Command { program: words[0], arguments: &words[1..], directory: directory.as_bytes() };
    let is_file = |path: &[u8]| path.ends_with(b"/script") || path.ends_with(b"/data");
    Scope::of(&command, is_file)
}

/// Which levels of both commands are the same.
fn shared(left: &[Scope], right: &[Scope]) -> Vec<Level> {
    let keys: Vec<_> = right.iter().map(|scope| scope.key).collect();
    left.iter().map(|scope| scope.key).filter(|key| keys.contains(key)).map(|key| key.level).collect()
}

const NONE: [Level; 0] = [];
const ALL: [Level; 3] = [Level::Whole, Level::Subject, Level::Program];

#[test]
fn the_most_specific_profile_is_first() {
    let levels = |line| scopes(line).iter().map(|scope| scope.key.level).collect::<Vec<_>>();
    assert_eq!(levels("/bin/git -c a=b status -s"), ALL);
    assert_eq!(levels("/bin/ls -l"), [Level::Whole, Level::Program], "no subject");
    assert_eq!(levels("/bin/ls"), [Level::Whole, Level::Program]);
    assert_eq!(levels("/bin/ls --"), [Level::Whole, Level::Program]);
}

#[test]
fn commands_share_what_is_the_same_in_both() {
    let general = [Level::Subject, Level::Program];
    for (left, right, expected) in [
        ("/bin/git status", "/bin/git status", &ALL[..]),
        ("/bin/git status", "/bin/git status -s", &general),
        ("/bin/git status", "/bin/git log", &[Level::Program]),
        ("/bin/git status", "/usr/bin/git status", &NONE),
        ("/bin/python -m pip list", "/bin/python -m pip show x", &general),
        ("/bin/python -u script 1", "/bin/python script 2", &general),
        ("/bin/python script", "/bin/python ./script", &general),
        ("/bin/python script", "/bin/python /work/script", &general),
        ("/bin/grep -- -x data", "/bin/grep -- -y data", &[Level::Program]),
        ("/bin/x a bc", "/bin/x ab c", &[Level::Program]),
        ("/bin/x a", "/bin/x", &[Level::Program]),
    ] {
        assert_eq!(shared(&scopes(left), &scopes(right)), expected, "{left} and {right}");
    }
}

#[test]
fn a_script_is_the_same_from_everywhere_and_another_one_elsewhere() {
    let of = scopes_in;
    let general = [Level::Subject, Level::Program];
    assert_eq!(shared(&of("/a", "/bin/py /s/script"), &of("/b", "/bin/py /s/script")), general);
    assert_eq!(shared(&of("/a", "/bin/py script"), &of("/b", "/bin/py script")), [Level::Program]);
    assert_eq!(shared(&of("/a", "/bin/git log"), &of("/b", "/bin/git log")), general, "a sub-command");
}

#[test]
fn names_that_change_from_run_to_run_are_the_same() {
    for (left, right) in [
        ("/bin/as -o /tmp/ccAb3dEf.o /tmp/ccQwErTy.s", "/bin/as -o /tmp/ccx0ZZpq.o /tmp/ccL7mNop.s"),
        ("/bin/x /tmp/tmp.Xa3bQ9zz1K/data", "/bin/x /tmp/tmp.0aZ8kwPPq2/data"),
        ("/bin/x --out=/var/tmp/job-4711/log", "/bin/x --out=/var/tmp/job-99/log"),
        ("/bin/x --parent-pid=4711", "/bin/x --parent-pid=12"),
        ("/bin/x --pid 4711 y", "/bin/x --pid 12 y"),
        ("/bin/x /proc/4711/maps", "/bin/x /proc/12/maps"),
        ("/bin/x -C/run/user/1000", "/bin/x -C/run/user/0"),
    ] {
        assert_eq!(
            shared(&scopes(left), &scopes(right)),
            scopes(left).iter().map(|one| one.key.level).collect::<Vec<_>>(),
            "{left}"
        );
    }
    let of = scopes_in;
    assert_eq!(shared(&of("/tmp/build.q8Zx1k", "/bin/x -v"), &of("/tmp/build.AAbbC3", "/bin/x -v")).len(), 2);
}

#[test]
fn other_numbers_and_names_are_different() {
    for (left, right) in [
        ("/bin/x --port=8080", "/bin/x --port=8081"),
        ("/bin/x a -n 10", "/bin/x a -n 11"),
        ("/bin/x a /data/run-2024", "/bin/x a /data/run-2025"),
        ("/bin/x a /tmp/alpha", "/bin/x a /tmp/beta"),
        ("/bin/x a /tmpfiles/12", "/bin/x a /tmpfiles/13"),
        ("/bin/x --pid x 12", "/bin/x --pid x 13"),
    ] {
        assert!(!shared(&scopes(left), &scopes(right)).contains(&Level::Whole), "{left}");
    }
}

#[test]
fn only_a_subject_that_may_be_a_file_is_asked_for() {
    let asked = std::cell::RefCell::new(Vec::new());
    let ask = |arguments: &[&[u8]]| {
        let command = Command { program: b"/bin/x", arguments, directory: b"/work" };
        let _ = Scope::of(&command, |path| {
            asked.borrow_mut().push(String::from_utf8_lossy(path).into_owned());
            false
        });
    };
    ask(&[b"-v", b"sub", b"other"]);
    ask(&[b"/a/b", b"c"]);
    ask(&[b"-v"]);
    assert_eq!(asked.into_inner(), ["/work/sub"]);
}

fn admitted(scope: &Scope, paths: &[&'static str]) -> Vec<&'static str> {
    paths.iter().copied().filter(|path| scope.admits(path.as_bytes())).collect()
}

#[test]
fn general_profiles_leave_out_what_belongs_to_one_run() {
    let paths = ["/lib/libc.so", "/work", "/work/src/a.c", "/workshop", "/data/in", "/inc/a.h", "/out/o"];
    let scopes = scopes("/bin/cc src/a.c -I/inc --out=/out /data");
    assert_eq!(admitted(&scopes[0], &paths), paths, "all is the command's own");
    for scope in &scopes[2..] {
        assert_eq!(admitted(scope, &paths), ["/lib/libc.so", "/workshop"]);
    }
}

#[test]
fn a_script_s_own_folder_is_part_of_its_profile() {
    let paths = ["/lib/x", "/work/script", "/work/module", "/data/in"];
    let scopes = scopes("/bin/py script /data");
    assert_eq!(admitted(&scopes[1], &paths), ["/lib/x", "/work/script", "/work/module"]);
    assert_eq!(admitted(&scopes[2], &paths), ["/lib/x"]);
}

#[test]
fn a_program_s_own_folder_is_part_of_its_profile() {
    let paths = ["/work/bin/tool", "/work/lib/x", "/data/in"];
    let scopes = scopes("/work/bin/tool /data");
    assert_eq!(admitted(&scopes[2], &paths), ["/work/bin/tool", "/work/lib/x"]);
    let from_root = scopes_in("/", "/bin/tool -v");
    assert_eq!(admitted(&from_root[1], &paths), paths);
}
