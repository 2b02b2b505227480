//! Hosts that are processes: the example `sharing`.

mod support;

use std::{fs, process::Command, thread, time::Duration};

use forebay_lab::MemoryLimit;
use forebay_launch::environment::{INTERFACE, MACHINE, SEPARATE, SILENCE, SIZE, TRANSPORT, VIEWS};
use forebay_testkit::{long, skip};
use rustix::process::{Pid, Signal, kill_process};
use support::Job;

/// How hosts share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// By one memory.
    Together,
    /// By memories of their own and messages over this transport.
    Separate(&'static str),
    /// By a memory for each machine, with messages between them over this transport. Hosts count as on these, by rank.
    Machines(&'static str, [u16; 4]),
}
use Sharing::{Machines, Separate, Together};

const ALL: [Sharing; 3] = [Together, Separate("shm"), Separate("tcp")];
/// Hosts that serve their machines, and neighbours that do not.
const OF_MACHINES: [Sharing; 3] =
    [Machines("tcp", [0, 1, 0, 1]), Machines("shm", [0, 0, 1, 1]), Machines("auto", [0, 1, 1, 0])];

impl Sharing {
    fn set(self, rank: u16, command: &mut Command) {
        match self {
            Together => command.env_remove(SEPARATE),
            Separate(transport) => command.env(SEPARATE, "1").env(TRANSPORT, transport),
            Machines(transport, of) => {
                let machine = of[usize::from(rank) % of.len()];
                command.env(MACHINE, machine.to_string()).env(TRANSPORT, transport)
            }
        };
    }
}

/// For what takes some seconds where hosts have a processor in turn.
const CROWD_LIMIT: Duration = Duration::from_secs(300);

/// The seconds of silence after which hosts are lost here, so that tests do not wait for long.
const SILENCE_SECONDS: &str = "2";

#[test]
fn contents_of_all_sizes_arrive() {
    for sharing in ALL {
        Job::start(2, &["check"], |rank, command| sharing.set(rank, command)).end_well();
    }
    for sharing in OF_MACHINES {
        Job::start(4, &["check", "1"], |rank, command| sharing.set(rank, command)).end_well();
    }
    for sharing in [Together, Separate("auto"), Separate("ucx"), OF_MACHINES[0]] {
        Job::start(3, &["check", "2"], |rank, command| sharing.set(rank, command)).end_well();
    }
}

/// `FOREBAY_COMPAT_LONG=1`: 128 hosts, three times over each way but UCX.
#[test]
fn many_hosts_share() {
    let (hosts, times) = if long() { (128, 3) } else { (48, 1) };
    let crowd = |hosts, sharing: Sharing| {
        let job = Job::start(hosts, &["crowd"], |rank, command| sharing.set(rank, command));
        job.end_well_within(CROWD_LIMIT);
    };
    for sharing in ALL.into_iter().chain([OF_MACHINES[0]]) {
        (0..times).for_each(|_| crowd(hosts, sharing));
    }
    crowd(48, Separate("ucx"));
}

#[test]
fn a_process_without_a_launcher_is_a_job_of_one() {
    let output = Command::new(support::example("sharing")).arg("rank").output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"0 of 1\n"[..]));
}

#[test]
fn hosts_find_each_other_under_mpirun() {
    for separate in ["0", "1"] {
        let separate = format!("{SEPARATE}={separate}");
        let mut mpirun = Command::new("mpirun");
        mpirun
            .args(["--oversubscribe", "-n", "3", "-x", "FOREBAY_SHARE_VIEWS=8", "-x", &separate])
            .arg(support::example("sharing"))
            .args(["check", "1"]);
        mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        match mpirun.output() {
            Ok(output) => {
                assert!(output.status.success(), "{separate}: {}", String::from_utf8_lossy(&output.stderr))
            }
            Err(error) => return skip("hosts_find_each_other_under_mpirun", &error),
        }
    }
}

/// Maps of memory objects, by their inodes.
fn objects(process: u32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let ours = maps.lines().filter(|line| line.contains("/memfd:forebay"));
    let mut inodes: Vec<String> = ours.map(|line| line.split_whitespace().nth(4).unwrap().into()).collect();
    inodes.sort();
    inodes.dedup();
    inodes
}

#[test]
fn hosts_on_one_machine_map_the_same_objects_and_open_no_network() {
    let of = |sharing| match sharing {
        Together => [0; 3],
        Separate(_) => [0, 1, 2],
        Machines(_, of) => [of[0], of[1], of[2]],
    };
    for sharing in [Together, Separate("auto"), OF_MACHINES[0], OF_MACHINES[1]] {
        let mut job = Job::start(3, &["wait", "late"], |rank, command| sharing.set(rank, command));
        job.told(2);
        let pids: Vec<u32> = job.0.iter().map(|process| process.child.id()).collect();
        let all: Vec<_> = pids.iter().map(|pid| objects(*pid)).collect();
        assert!(all.iter().all(|objects| !objects.is_empty()), "{all:?}");
        let machines = of(sharing);
        // A host that serves its machine may map what others send from, too; none maps another machine's board.
        let has_all = |one: &[String], other: &[String]| other.iter().all(|object| one.contains(object));
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let is_same = machines[one] == machines[other];
            let is_shared = has_all(&all[one], &all[other]) || has_all(&all[other], &all[one]);
            assert_eq!(is_shared, is_same, "{sharing:?}, hosts {one} and {other}: {all:?}");
        }
        let uses_ucx =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().contains("libucp");
        assert!(!pids.iter().any(uses_ucx), "{sharing:?}");
        job.0.iter_mut().for_each(|process| process.child.kill().unwrap());
        (0..3).for_each(|host| drop(job.end(host)));
    }
}

#[test]
fn a_host_of_one_machine_counts_no_memory_that_it_has_not_used() {
    let mut job = Job::start(2, &["wait", "late"], |rank, command| {
        Together.set(rank, command);
        command.env(SIZE, "268435456");
    });
    job.told(1);
    for pid in job.pids().unwrap() {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let shared = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
        let kib: u64 = shared.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 16 << 10, "{kib} KiB of 256 MiB");
    }
}

#[test]
fn memory_of_one_machine_is_as_large_as_need_be_and_costs_what_is_used() {
    const TEST: &str = "memory_of_one_machine_is_as_large_as_need_be_and_costs_what_is_used";
    const BYTES: u64 = 400 << 20;
    if forebay_millipage::free_bytes().is_none_or(|free| free < 4 * BYTES) {
        return skip(TEST, "this machine has little memory free");
    }
    let mut job = Job::start(3, &["grow", &BYTES.to_string()], |rank, command| {
        Together.set(rank, command);
        command.env(SIZE, "0");
    });
    for host in 0..3 {
        let (status, stdout, stderr) = job.end(host);
        assert_eq!((status, &*stderr), (Some(0), ""), "{stdout}");
        let peak =
            stdout.strip_prefix(&format!("1 of {BYTES}, VmHWM:")).unwrap_or_else(|| panic!("{stdout}"));
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 24 << 10, "{kib} KiB");
    }
}

#[test]
fn memories_of_machines_are_as_large_as_need_be_too() {
    const TEST: &str = "memories_of_machines_are_as_large_as_need_be_too";
    // More than a memory by need has at least.
    const BYTES: u64 = 100 << 20;
    if forebay_millipage::free_bytes().is_none_or(|free| free < 24 * BYTES) {
        return skip(TEST, "this machine has little memory free");
    }
    for sharing in [Separate("auto"), OF_MACHINES[0]] {
        let mut job = Job::start(3, &["grow", &BYTES.to_string()], |rank, command| {
            sharing.set(rank, command);
            command.env(SIZE, "0");
        });
        for host in 0..3 {
            let (status, stdout, stderr) = job.end(host);
            assert_eq!((status, &*stderr), (Some(0), ""), "{sharing:?}: {stdout}");
            assert!(stdout.starts_with(&format!("1 of {BYTES}, ")), "{sharing:?}: {stdout}");
        }
    }
}

#[test]
fn a_host_of_several_machines_has_no_memory_that_is_not_allocated() {
    let mut job = Job::start(2, &["wait", "late"], |rank, command| {
        Separate("auto").set(rank, command);
        command.env(SIZE, "268435456");
    });
    job.told(1);
    for pid in job.pids().unwrap() {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let kib = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        let (shared, tables) = (kib("RssShmem:"), kib("VmPTE:"));
        assert!(
            shared < 16 << 10 && tables < 1 << 10,
            "{shared} KiB of 256 MiB, {tables} KiB of page tables"
        );
    }
}

#[test]
fn between_machines_many_small_rows_have_more_views_unless_the_user_says_how_many() {
    let taken = |sharing: Sharing, views: Option<&str>| {
        let mut job = Job::start(3, &["many", "100000"], |rank, command| {
            sharing.set(rank, command);
            command.env(SIZE, "0");
            views.iter().for_each(|views| _ = command.env(VIEWS, views));
        });
        let said: Vec<_> = (0..3).map(|host| job.end(host)).collect();
        assert!(said.iter().all(|one| *one == said[0]), "{sharing:?}: {said:?}");
        assert_eq!(said[0].0, Some(0), "{sharing:?}: {said:?}");
        said[0].1.trim().parse::<usize>().unwrap()
    };
    let pages = |rows: usize| 100_000usize.div_ceil(rows) * 4_096;
    for sharing in [Separate("shm"), OF_MACHINES[0]] {
        assert_eq!(taken(sharing, None), pages(223), "{sharing:?}");
        assert_eq!(taken(sharing, Some("16")), pages(16), "{sharing:?}");
    }
    assert_eq!(taken(Together, None), pages(16));
}

#[test]
fn a_host_that_uses_what_hosts_have_freed_is_ended() {
    for sharing in ALL.into_iter().chain(OF_MACHINES) {
        let mut job = Job::start(4, &["freed"], |rank, command| sharing.set(rank, command));
        let (status, stdout, stderr) = job.end(0);
        assert_eq!((status, &*stdout, &*stderr), (None, "", ""), "{sharing:?}");
        for host in 1..4 {
            let (status, _, stderr) = job.end(host);
            assert!(status == Some(1) && stderr.contains("lost host 0"), "{sharing:?}: {status:?} {stderr}");
        }
    }
}

/// The last host is done something to while the others wait `place`: each of them ends, and names it.
fn lose_the_last(sharing: Sharing, place: &str, lose: Signal) {
    let mut job = Job::start(3, &["wait", place], |rank, command| {
        sharing.set(rank, command);
        command.env(SILENCE, SILENCE_SECONDS);
    });
    let last = job.told(2);
    kill_process(Pid::from_raw(last.parse().unwrap()).unwrap(), lose).unwrap();
    for host in 0..2 {
        let (status, _, stderr) = job.end(host);
        let case = format!("{sharing:?} {place} {lose:?} host {host}: {status:?} {stderr}");
        assert!(stderr.contains("lost host 2"), "{case}");
        if sharing == Together {
            let why = if lose == Signal::KILL {
                "its process has ended"
            } else {
                "nothing was heard of it for too long"
            };
            assert!(stderr.contains(&format!("lost host 2 ({why})")), "{case}");
        }
        let expected: &[i32] = match place {
            "fault" | "computing" => &[70],
            // Who comes very late has been ended.
            "late" => &[1, 70],
            _ => &[1],
        };
        assert!(status.is_some_and(|status| expected.contains(&status)), "{case}");
    }
}

#[test]
fn a_host_that_is_killed_is_missed_wherever_the_others_are() {
    for sharing in ALL.into_iter().chain(OF_MACHINES) {
        for place in ["fault", "barrier", "late", "lock", "computing"] {
            lose_the_last(sharing, place, Signal::KILL);
        }
    }
}

#[test]
fn a_host_that_is_stopped_is_missed() {
    thread::scope(|scope| {
        let separate = [("shm", "fault"), ("tcp", "lock"), ("tcp", "fault"), ("shm", "computing")];
        let separate = separate.map(|(transport, place)| (Separate(transport), place));
        let together = ["fault", "lock", "barrier", "computing"].map(|place| (Together, place));
        let machines = OF_MACHINES.into_iter().zip(["fault", "computing", "barrier"]);
        for (sharing, place) in separate.into_iter().chain(together).chain(machines) {
            scope.spawn(move || lose_the_last(sharing, place, Signal::STOP));
        }
    });
}

#[test]
fn nothing_is_left_in_shared_memory() {
    let ours = |pids: &[u32]| {
        let names = fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().path());
        // Segments have the names of the processes in them, if any, or belong to no living process.
        names.filter(|path| pids.iter().any(|pid| path.to_string_lossy().contains(&pid.to_string()))).count()
    };
    for sharing in [Together, Separate("shm")] {
        let mut job = Job::start(3, &["wait", "fault"], |rank, command| {
            sharing.set(rank, command);
            command.env(SILENCE, SILENCE_SECONDS);
        });
        let pids: Vec<u32> = job.0.iter().map(|process| process.child.id()).collect();
        job.told(2);
        assert_eq!(ours(&pids), 0, "while they run");
        job.0.iter_mut().for_each(|process| process.child.kill().unwrap());
        (0..3).for_each(|host| drop(job.end(host)));
        assert_eq!(ours(&pids), 0, "afterwards");
    }
}

/// All hosts end with 1, and say this.
fn all_refuse(hosts: u16, change: impl Fn(u16, &mut Command), says: &[&str]) {
    refused(Job::start(hosts, &["check"], change), says);
}

fn refused(mut job: Job, says: &[&str]) {
    for host in 0..job.0.len() {
        let (status, _, stderr) = job.end(host);
        assert_eq!(status, Some(1), "host {host}: {stderr}");
        assert!(says.iter().any(|says| stderr.contains(says)), "host {host}: {stderr}");
    }
}

#[test]
fn hosts_that_are_not_started_alike_are_told_which_differs() {
    let views = |rank: u16, command: &mut Command| {
        command.env(VIEWS, if rank == 1 { "8" } else { "16" });
    };
    all_refuse(3, views, &["host 1 has views 8, host 0 has 16"]);
    let transport = |rank: u16, command: &mut Command| {
        command.env(TRANSPORT, if rank == 2 { "tcp" } else { "auto" });
    };
    all_refuse(3, transport, &["host 2 has transport tcp, host 0 has auto"]);
    let separate = |rank: u16, command: &mut Command| {
        command.env(SEPARATE, if rank == 1 { "1" } else { "0" });
    };
    all_refuse(3, separate, &["host 1 has separate memories, host 0 has machines"]);
}

#[test]
fn what_cannot_be_had_is_an_error_on_all_hosts() {
    let set = |name, value| {
        move |_: u16, command: &mut Command| {
            command.env(name, value);
        }
    };
    all_refuse(2, set(VIEWS, "257"), &["there can be 1 to 256 views, not 257"]);
    all_refuse(2, set(SIZE, "1125899906842624"), &["1125899906842624 bytes of shared memory do not fit"]);
    let separate = |rank: u16, command: &mut Command| {
        set(SIZE, "1125899906842624")(rank, command);
        Separate("auto").set(rank, command);
    };
    all_refuse(2, separate, &["2 hosts with 1125899906842624 bytes of shared memory each do not fit"]);
    all_refuse(2, set(SEPARATE, "2"), &["FOREBAY_SHARE_SEPARATE is '2', and should be 0 or 1"]);
    all_refuse(
        2,
        set(TRANSPORT, "pigeon"),
        &["FOREBAY_SHARE_TRANSPORT is 'pigeon', and should be shm, tcp, auto or ucx"],
    );
    let interface = |rank: u16, command: &mut Command| {
        command.env(INTERFACE, "no-such0");
        Separate("tcp").set(rank, command);
    };
    all_refuse(2, interface, &["no-such0 is no network interface that is up and has an address"]);
    let one_of_them = |rank: u16, command: &mut Command| {
        command.env(VIEWS, if rank == 0 { "0" } else { "16" });
    };
    all_refuse(2, one_of_them, &["there can be 1 to 256 views, not 0"]);
}

/// Hosts that take more than their control group allows would be killed.
#[test]
fn more_memory_than_a_control_group_allows_is_refused() {
    let limit = match MemoryLimit::supported().and_then(|()| MemoryLimit::start(96 << 20)) {
        Ok(limit) => limit,
        Err(why) => return skip("more_memory_than_a_control_group_allows_is_refused", &why),
    };
    let host = |what| {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo 0 > \"$1\" && shift && exec \"$@\"", "sh"])
            .arg(limit.processes_file())
            .arg(support::example("sharing"))
            .arg(what);
        command
    };
    let share = |size: &'static str, sharing: Sharing| {
        Job::of(vec![host("check"), host("check")], move |rank, command| {
            command.env(SIZE, size);
            sharing.set(rank, command);
        })
    };
    let separate = Separate("auto");
    refused(share("67108864", separate), &["2 hosts with 67108864 bytes", "ended before all had joined"]);
    share("16777216", separate).end_well();
    // One memory is there once.
    refused(share("134217728", Together), &["134217728 bytes of shared memory do not fit"]);
    share("67108864", Together).end_well();
    // What there is no room for when it is allocated is an error on all hosts, which go on with less. Each has a memory of its own.
    let mut job = Job::of(vec![host("grow"), host("grow")], |rank, command| {
        command.args(["37748736", "25165824"]).env(SIZE, "41943040");
        separate.set(rank, command);
    });
    for host in 0..2 {
        let (status, stdout, stderr) = job.end(host);
        assert_eq!((status, &*stderr), (Some(0), ""), "{stdout}");
        let told = ["2 hosts with 37748736 bytes of shared memory each", ", for which it has no room;"];
        let is_told = stdout.starts_with("refused: ") && told.iter().any(|told| stdout.contains(told));
        assert!(is_told, "host {host}: {stdout}");
    }
    // So it is with one memory.
    let mut job = Job::of(vec![host("grow"), host("grow")], |rank, command| {
        command.args(["62914560", "25165824"]).env(SIZE, "67108864");
        Together.set(rank, command);
    });
    let told = ["62914560 bytes of shared memory do not fit: this machine", ", for which it has no room;"];
    for (host, why) in told.into_iter().enumerate() {
        let (status, stdout, stderr) = job.end(host);
        assert_eq!((status, &*stderr), (Some(0), ""), "{stdout}");
        assert!(stdout.starts_with("refused: ") && stdout.contains(why), "host {host}: {stdout}");
    }
}

#[test]
fn memory_is_at_the_address_that_was_asked_for_or_there_is_an_error() {
    Job::start(2, &["rank", "17592186044416"], |_, _| {}).end_well();
    // The last page that a program can have.
    refused(Job::start(2, &["rank", "140737488343040"], |_, _| {}), &["no address is free on all hosts"]);
}

#[test]
fn a_host_that_ends_before_it_joins_is_an_error_on_the_others() {
    let commands = ["sharing", "true"].map(|program| match program {
        "sharing" => Command::new(support::example("sharing")),
        _ => Command::new("true"),
    });
    let mut job = Job::of(commands.into(), |_, command| {
        command.arg("check");
    });
    let (status, _, stderr) = job.end(0);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("host 1 ended before all had joined"), "{stderr}");
}

/// A host in a network of its own, which waits for a line before it does anything.
fn in_a_network_of_its_own(arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    // UCX looks for networks in /sys, which shows those that it was mounted in, and takes those that are up already.
    let script = r#"mount -t sysfs none /sys && read -r go &&
        until grep -q up /sys/class/net/veth0/operstate; do sleep 0.01; done; exec "$@""#;
    command
        .args(["--net", "--mount", "sh", "-c", script, "sh"])
        .arg(support::example("sharing"))
        .args(arguments);
    command
}

#[test]
fn hosts_in_networks_of_their_own_share_and_miss_each_other_when_the_link_is_down() {
    const TEST: &str = "hosts_in_networks_of_their_own_share_and_miss_each_other_when_the_link_is_down";
    if !rustix::process::geteuid().is_root() {
        return forebay_testkit::skip(TEST, "network namespaces need root");
    }
    let start = |arguments: &[&str]| {
        let commands = (0..2).map(|_| in_a_network_of_its_own(arguments)).collect();
        Job::linked(commands, |rank, command| {
            Separate("tcp").set(rank, command);
            command.env(SILENCE, SILENCE_SECONDS).env(SIZE, "0");
        })
    };
    start(&["check", "1"]).end_well();
    start(&["many", "20000"]).end_well();
    // A machine of two hosts in each network: the second ones need none.
    let machines = |arguments: &[&str]| {
        let mut commands: Vec<_> = (0..2).map(|_| in_a_network_of_its_own(arguments)).collect();
        commands.extend((0..2).map(|_| {
            let mut command = Command::new(support::example("sharing"));
            command.args(arguments);
            command
        }));
        Job::linked(commands, |rank, command| {
            Machines("tcp", [0, 1, 0, 1]).set(rank, command);
            command.env(SILENCE, SILENCE_SECONDS);
        })
    };
    machines(&["check", "1"]).end_well();
    let mut job = machines(&["wait", "fault"]);
    job.told(3);
    job.in_network(0, &["ip", "link", "set", "veth0", "down"]);
    for (host, lost) in [(0, 1), (1, 0), (2, 1)] {
        let (status, _, stderr) = job.end(host);
        assert_eq!(status, Some(70), "host {host}: {stderr}");
        assert!(stderr.contains(&format!("lost host {lost}")), "host {host}: {stderr}");
    }
    let mut job = start(&["wait", "fault"]);
    job.told(1);
    job.in_network(0, &["ip", "link", "set", "veth0", "down"]);
    let (status, _, stderr) = job.end(0);
    assert_eq!(status, Some(70), "{stderr}");
    assert!(stderr.contains("lost host 1"), "{stderr}");
    let (_, _, stderr) = job.end(1);
    assert!(stderr.contains("lost host 0"), "{stderr}");
}

/// Hosts that cannot open the memory of a machine's first host have memories of their own.
#[test]
fn hosts_that_do_not_see_each_other_share_by_messages() {
    const TEST: &str = "hosts_that_do_not_see_each_other_share_by_messages";
    if !rustix::process::geteuid().is_root() {
        return skip(TEST, "namespaces and users need root");
    }
    let host = |before: &[&str]| {
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(support::example("sharing"));
        command
    };
    let plain: &[&str] = &["env"];
    let hidden: &[&str] = &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    // It sees the processes of the others, and may not open what they have.
    let stranger: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    for hosts in [[hidden, hidden, plain], [plain, hidden, plain], [plain, stranger, plain]] {
        for transport in ["tcp", "auto"] {
            let mut job = Job::of(hosts.map(host).into(), |_, command| {
                command.args(["check", "1"]).env(TRANSPORT, transport);
            });
            for host in 0..hosts.len() {
                let (status, stdout, stderr) = job.end(host);
                assert_eq!(
                    (status, &*stderr),
                    (Some(0), ""),
                    "{hosts:?}, {transport}, host {host}: {stdout}"
                );
            }
        }
    }
}
