//! Where rights are missing, or storage disappears, a program gets what it gets alone. Statistics name why a program has no agent.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use forebay_compat::case::NOBODY;
use forebay_compat::guests::build;
use forebay_compat::{Case, Outcome, Scratch, in_some_run, root, skip, switch};
use forebay_testkit::elf::headers_last;

/// Cold data and somewhere to write.
fn data(scratch: &Scratch) {
    scratch.noise("data", 8 << 20, 9).file("out/file", "x");
}

/// Many small files, each of one block.
fn small_files(scratch: &Scratch) {
    data(scratch);
    for file in 0..200 {
        scratch.text(&format!("small/f{file:03}"), 40, file);
    }
}

/// A program that reads cold data as a user without rights, and that `privilege` gives rights. The program runs without an agent;
/// beside it another one runs that has no such rights.
fn runs_with_rights(name: &str, privilege: fn(&Path)) {
    if !root() {
        return skip(name, "only root can give rights");
    }
    let program = build("plain_reader");
    let argv = ["sh", "-c", "./reader data; echo $?; cksum data; exec ./reader data 2"];
    let case = Case::new(name, argv).setup(data).without_root().setup(move |scratch| {
        let reader = scratch.at("reader");
        fs::copy(&program, &reader).expect("a copy that everybody can execute");
        privilege(&reader);
    });
    let Some(outcome) = case.check() else { return };
    let named = outcome.figure("processes_unassisted/privileged");
    assert!(switch("FOREBAY_COMPAT_PLAIN") || named == 2.0, "{:?}", outcome.totals());
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn a_set_user_id_program_runs_as_alone_and_is_named() {
    runs_with_rights("set_user_id", |program| set_mode(program, 0o4755));
}

#[test]
fn a_set_group_id_program_runs_as_alone_and_is_named() {
    runs_with_rights("set_group_id", |program| set_mode(program, 0o2755));
}

#[test]
fn a_program_with_capabilities_runs_as_alone_and_is_named() {
    runs_with_rights("capabilities_of_a_file", |program| {
        let mut command = Command::new("setcap");
        let given = command.arg("cap_net_bind_service+ep").arg(program).status();
        assert!(given.expect("setcap of libcap2-bin").success());
    });
}

/// The speculators of a user find doors closed where the program does, and read nothing else of other users.
#[test]
fn what_a_user_may_not_read_stays_unread() {
    if !root() {
        return skip("closed_to_the_user", "only root can close files to a user");
    }
    let argv = [
        "sh",
        "-c",
        "grep -rc mill small; find small | sort | tail -3; cat small/* | cksum; ls -ld small/*5",
    ];
    let case = Case::new("closed_to_the_user", argv).setup(small_files).without_root().setup(|scratch| {
        for (file, mode) in [("f003", 0o600), ("f004", 0o000), ("f005", 0o640)] {
            let path = scratch.at(&format!("small/{file}"));
            chown(&path, Some(0), Some(0)).expect("root's own");
            set_mode(&path, mode);
        }
        scratch.text("small/closed/inner", 30, 1);
        set_mode(&scratch.at("small/closed"), 0o700);
    });
    let _ = case.cold_names().check();
}

/// `script` in a mount namespace of its own, and the command as a user without rights.
fn with_mounts_as_nobody(script: &str) -> Vec<OsString> {
    let whole = format!("{script}; exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups \"$@\"");
    ["unshare", "-m", "sh", "-c", &whole, "sh"].map(OsString::from).to_vec()
}

/// A user may see no process but its own.
#[test]
fn where_other_processes_are_hidden_the_program_runs() {
    if !root() {
        return skip("hidden_processes", "only root may mount");
    }
    let argv = [build("plain_reader").into_os_string(), "data".into()];
    let case = Case::new("hidden_processes", argv).setup(data).without_root();
    let _ = case.before(with_mounts_as_nobody("mount -t proc -o hidepid=2 proc /proc")).check();
}

/// The loader would complain of it.
#[test]
fn where_the_agent_may_not_be_read_the_program_runs_alone() {
    const NAME: &str = "unreadable_agent";
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "only root may mount, and both sides must differ");
    }
    let agent = forebay_testkit::artifacts::agent().expect("build the agent");
    let hide = format!("cp {0} ../agent && chmod 600 ../agent && mount --bind ../agent {0}", agent.display());
    let case = || {
        let argv = [build("plain_reader").into_os_string(), "data".into()];
        Case::new(NAME, argv).setup(data).without_root().before(with_mounts_as_nobody(&hide))
    };
    let _ = case().without_statistics().check();
    let Some(outcome) = case().check() else { return };
    let named = outcome.figure("processes_unassisted/agent_unreachable");
    assert!(named == 1.0, "{:?}", outcome.totals());
}

/// The loader would complain of it. The second time, the launcher finds the mount.
#[test]
fn where_the_agent_may_not_be_mapped_the_program_runs_alone() {
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip("agent_without_code", "only root may mount, and both sides must differ");
    }
    let agent = forebay_testkit::artifacts::agent().expect("build the agent");
    let folder = agent.parent().expect("a folder").display();
    let hide = format!("mount --bind {folder} {folder} && mount -o remount,bind,noexec {folder}");
    let reader = build("plain_reader").into_os_string();
    let within: [OsString; 5] =
        ["unshare", "-m", "sh", "-c", &format!("{hide} && \"$0\" data && cat data | cksum")].map(Into::into);
    let argv: Vec<_> = within.into_iter().chain([reader.clone()]).collect();
    let launched = Case::new("agent_without_code_launched", [reader, "data".into()]).before([
        "unshare",
        "-m",
        "sh",
        "-c",
        &format!("{hide} && exec \"$@\""),
        "sh",
    ]);
    for case in [Case::new("agent_without_code", argv), launched] {
        let Some(outcome) = case.setup(data).check() else { continue };
        let named = outcome.figure("processes_unassisted/agent_unreachable");
        assert!(named >= 1.0, "{:?}", outcome.totals());
    }
}

/// A speculator would be a process of the namespace, too.
#[test]
fn the_first_process_of_a_namespace_runs_as_alone_and_is_named() {
    if !root() {
        return skip("first_process", "only root may");
    }
    let reader = build("plain_reader").into_os_string();
    let argv = ["unshare", "-p", "-f", "--mount-proc"].map(OsString::from).into_iter();
    let case =
        Case::new("first_process", argv.chain([reader, "data".into()])).setup(data).needs(&["unshare"]);
    let Some(outcome) = case.check() else { return };
    let named = outcome.figure("agents_off/copies_visible");
    assert!(switch("FOREBAY_COMPAT_PLAIN") || named == 1.0, "{:?}", outcome.totals());
}

/// A fork during a direct read may lose what it reads.
#[test]
fn a_program_that_reads_around_the_page_cache_is_not_copied() {
    for how in ["open", "openat2", "fcntl", "child", "child openat2"] {
        let argv = [build("direct_beside").into_os_string(), how.into()];
        in_some_run(|| {
            let case = Case::new("direct_beside", argv.clone()).setup(|scratch| {
                scratch.noise("data", 9 << 20, 1).noise("other", 9 << 20, 2);
            });
            let Some(outcome) = case.env("FOREBAY_FIRST_US", "0").check() else { return Ok(()) };
            let is_named = |it: &Outcome| it.figure("agents_off/O_DIRECT") > 0.0 && it.figure("forks") == 0.0;
            if switch("FOREBAY_COMPAT_PLAIN") { Ok(()) } else { outcome.wanted(is_named).map(drop) }
        });
    }
}

/// Reads files of a folder before and after a shell command, and tells what it gets: all by one process, in one order.
const READS_AROUND: &str = r#"
    use Cwd;
    my ($here, $folder, $command) = (getcwd, @ARGV);
    sub take {
        my ($bytes, %failed) = (0);
        for my $name (map { sprintf '%s/f%03d', $_[0], $_ } $_[1] .. $_[2]) {
            my ($file, $text);
            if (open $file, '<', $name) { $text = sysread($file, my $read, 8192) }
            defined $text ? $bytes += $text : $failed{"$!"}++;
            -e $name or $failed{"no entry: $!"}++;
        }
        print "$_[0]: $bytes bytes", (map { ", $failed{$_} $_" } sort keys %failed), "\n";
    }
    sub list { opendir(my $folder, $_[0]) or return print "$!\n"; my @names = readdir $folder; print scalar(@names), " names $!\n" }
    $| = 1;
    take($folder, 0, 79);
    chdir $folder;
    take('.', 60, 119);
    print system("cd '$here'; $command"), "\n";
    take('.', 0, 199); list('.');
    chdir $here;
    take($folder, 0, 199); list($folder);
"#;

/// The reads around a command that makes the file system at `at` go away.
fn reads_around(name: &str, before: &str, at: &str, command: &str) {
    if !root() {
        return skip(name, "only root may mount");
    }
    let script = format!("{before}; exec \"$@\"");
    let argv = ["perl", "-e", READS_AROUND, at, command];
    let _ = Case::new(name, argv)
        .setup(small_files)
        .setup(|scratch| {
            let make = "mkdir at; mkfs.ext4 -q -b 4096 -O ^has_journal -d small image 16M > /dev/null";
            let made = Command::new("sh").args(["-c", make]).current_dir(scratch.path()).status();
            assert!(made.expect("a shell").success());
        })
        .needs(&["perl", "unshare"])
        .before(["unshare", "-m", "bash", "-c", &script, "bash"])
        .normalise(|outcome| outcome.tree.retain(|path, _| !path.ends_with("image")))
        .check();
}

/// The device of the file system is free when the program has ended, and no speculator holds it.
#[test]
fn a_file_system_may_be_detached_while_a_program_reads() {
    reads_around(
        "detached_file_system",
        "mount -o loop,ro image at; \"$@\"; \
         for n in {1..200}; do [ -z \"$(losetup -j image)\" ] && break; sleep 0.02; done; losetup -j image; exit",
        "at",
        "umount -l at",
    );
}

/// The device has lost its second half. Files of one block are there or not.
#[test]
fn a_device_may_have_errors() {
    reads_around(
        "device_with_errors",
        "mount -o loop,ro image at; ls -lR at > /dev/null; dd if=small/f100 of=/dev/null status=none; \
         start=$(filefrag -e at/f100 2>/dev/null | awk '$1 == \"0:\" { sub(/\\.\\.*/, \"\", $4); print $4 }'); \
         truncate -s $((${start:-2048} * 4096)) image",
        "at",
        "true",
    );
}

/// A FUSE mount whose server has ended answers each request with ENOTCONN.
#[test]
fn a_fuse_mount_may_have_lost_its_server() {
    if !Path::new("/dev/fuse").exists() {
        return skip("lost_server", "there is no /dev/fuse");
    }
    reads_around(
        "lost_server",
        "mkdir dead; exec 7<>/dev/fuse; mount -i -t fuse -o fd=7,rootmode=40000,user_id=0,group_id=0 none dead; exec 7>&-",
        "small",
        "ls dead; cat dead/f000; cksum small/f001; stat -c %s dead; grep -rc mill dead small | sort | tail -1; cd dead",
    );
}

/// A program and a library of its own, both with their program headers behind everything else.
fn moved_program(scratch: &Scratch) {
    data(scratch);
    scratch.file(
        "library.c",
        "#include <fcntl.h>\n#include <unistd.h>\n\
         long sum(const char *name) {\n\
         long sum = 0; unsigned char block[4096]; int file = open(name, O_RDONLY);\n\
         for (ssize_t read_; (read_ = read(file, block, sizeof block)) > 0;) sum += block[read_ / 2];\n\
         return close(file), sum; }\n",
    );
    scratch.file(
        "program.c",
        "#include <stdio.h>\nlong sum(const char *);\nint main(int count, char **names) {\n\
         return printf(\"%ld\\n\", sum(names[1])) < 0; }\n",
    );
    let compile = |arguments: &[&str]| {
        let done = Command::new("gcc").current_dir(scratch.path()).args(arguments).status();
        assert!(done.expect("gcc").success());
    };
    compile(&["-O1", "-shared", "-fPIC", "-o", "libsum.so", "library.c"]);
    compile(&["-O1", "-o", "program", "program.c", "-L.", "-lsum", "-Wl,-rpath,$ORIGIN"]);
    for name in ["libsum.so", "program"] {
        let path = scratch.at(name);
        fs::write(&path, headers_last(&fs::read(&path).expect("what was compiled"))).expect("written again");
    }
}

#[test]
fn a_program_with_its_headers_elsewhere_runs_as_alone_and_has_an_agent() {
    for (name, options) in [("headers_last", &[][..]), ("headers_last_not_patched", &["--no-patching"])] {
        let argv = ["sh", "-c", "./program data; echo $?; exec ./program out/file"];
        let Some(outcome) = Case::new(name, argv).setup(moved_program).options(options).check() else {
            continue;
        };
        let assisted = outcome.figure("processes_assisted");
        assert!(switch("FOREBAY_COMPAT_PLAIN") || assisted >= 3.0, "{:?}", outcome.totals());
    }
}
