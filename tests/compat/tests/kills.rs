//! Processes of a run are killed at moments of chance: what lives on has the same results, and nothing is left.

use std::collections::BTreeMap;
use std::fs;

use forebay_compat::case::compare;
use forebay_compat::guests::build;
use forebay_compat::run::Side;
use forebay_compat::{Case, Outcome, Scratch, in_some_run, long, root, skip, switch};

/// How many runs each test makes: all of them together are 1,000 in the exhaustive variant.
fn runs(of_thousand: u64) -> u64 {
    if long() { of_thousand } else { of_thousand / 25 }
}

/// Cold data, some small files, and a directory for output.
fn data(scratch: &Scratch) {
    scratch.noise("data", 8 << 20, 9).file("out/file", "x");
    for n in 0..60 {
        scratch.text(&format!("small/f{n}"), 50 + n, n as u64);
    }
}

/// So large that the agent asks for signals of page faults.
fn mapped_data(scratch: &Scratch) {
    scratch.noise("data", 24 << 20, 9);
}

/// Reads and writes in turn.
fn reader(name: &str) -> Case {
    let argv = [build("plain_reader").into_os_string(), "data".into(), "12".into()];
    Case::new(name, argv).setup(data).without_statistics()
}

/// Several processes at once, and one after another.
fn pipeline(name: &str) -> Case {
    let script = "cat small/* | md5sum; grep -rc mill small | sort | tee out/counts | wc -l; \
                  for n in 1 2 3 4 5; do head -c $((n * 1000000)) data | cksum; done; tail -c 4000000 data > out/tail";
    Case::new(name, ["sh", "-c", script]).setup(data).without_statistics()
}

/// Waits for pages of a mapped file.
fn mapper(name: &str) -> Case {
    let argv = [build("mapped").into_os_string(), "data".into(), "3000".into()];
    let case = Case::new(name, argv).setup(mapped_data).without_statistics();
    // It prints how long it took.
    case.normalise(|outcome| outcome.stderr.clear())
}

/// A moment of the run, and a little after it.
fn moment(random: &mut fastrand::Rng, alone: &Outcome) -> u64 {
    let took_us = u64::try_from(alone.took.as_micros()).unwrap_or(u64::MAX);
    random.u64(0..took_us.saturating_mul(5) / 4)
}

/// A speculator, the executor, the supervisor.
const PARTS: [&str; 3] = ["forebay:spec", "forebay:hints", "forebay"];

/// One of forebay's processes, and when.
fn part(random: &mut fastrand::Rng, alone: &Outcome) -> String {
    format!("{}:{}", random.choice(PARTS).unwrap_or_default(), moment(random, alone))
}

/// One of forebay's processes in each run, or two of them.
#[test]
fn results_are_the_same_whatever_of_forebay_is_killed() {
    const NAME: &str = "killed_parts";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let programs = [reader, pipeline, mapper];
    let alone = programs.map(|program| program(NAME).run(Side::Without));
    let mut killed = BTreeMap::<String, u64>::new();
    for run in 0..runs(700) {
        let mut random = fastrand::Rng::with_seed(run);
        let which = random.usize(0..programs.len());
        let count = random.usize(1..=2);
        let victims: Vec<String> = (0..count).map(|_| part(&mut random, &alone[which])).collect();
        let with = programs[which](NAME).kill(&victims.join(",")).run(Side::With);
        let found = compare(&alone[which], &with);
        assert!(found.is_empty(), "run {run}, program {which}, {victims:?}:\n{}", found.join("\n"));
        with.killed.into_iter().for_each(|victim| *killed.entry(victim).or_default() += 1);
    }
    eprintln!("killed: {killed:?}");
    assert!(PARTS.iter().all(|part| killed.contains_key(*part)), "{killed:?}");
}

/// The reader, and what it has written at the end.
fn watched_reader(name: &str) -> Case {
    reader(name).observer(|scratch| {
        let log = scratch.path().join("out/log");
        Box::new(move |_| fs::read_to_string(log).unwrap_or_default())
    })
}

/// Kills the command itself, and in every other run a process of forebay's, too. What the command has printed and written is the
/// beginning of all that it would print and write.
fn command_is_killed(name: &str, case: fn(&str) -> Case, count: u64) {
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(name, "both sides run without forebay");
    }
    let alone = case(name).run(Side::Without);
    let mut ends = BTreeMap::<i32, u64>::new();
    for run in 0..count {
        let mut random = fastrand::Rng::with_seed(run);
        let mut victim = format!("command:{}", moment(&mut random, &alone));
        if random.bool() {
            victim = format!("{victim},{}", part(&mut random, &alone));
        }
        let with = case(name).kill(&victim).run(Side::With);
        assert!(with.complaints.is_empty(), "run {run}, {victim}: {:?}", with.complaints);
        assert!(with.status == 137 || with.status == alone.status, "run {run}, {victim}: {}", with.status);
        assert!(with.stderr.is_empty(), "run {run}, {victim}: {}", String::from_utf8_lossy(&with.stderr));
        assert!(alone.stdout.starts_with(&with.stdout), "run {run}, {victim}: {:?}", with.stdout);
        assert!(alone.observed.starts_with(&with.observed), "run {run}, {victim}: {}", with.observed);
        *ends.entry(with.status).or_default() += 1;
    }
    eprintln!("{name}: statuses {ends:?}");
    assert!(ends.contains_key(&137), "{ends:?}");
}

#[test]
fn a_killed_program_leaves_what_it_has_done() {
    command_is_killed("killed_program", watched_reader, runs(200));
}

/// With statistics the command is forebay, above the program. The program goes on alone.
#[test]
fn a_killed_parent_leaves_no_wrong_data() {
    let parent = |name: &str| watched_reader(name).with_statistics();
    command_is_killed("killed_parent", parent, runs(100));
}

/// Kills the program while it has a speculator, as processes of its session begin to compute, and ends at once.
const BUSY: &str = "mkfifo out/gate; exec 3<> out/gate
for n in $(seq 24); do (read -n 1 <&3; while :; do :; done) & done
\"$@\" > /dev/null & program=$!
until pgrep -s 0 -x forebay:spec > /dev/null; do kill -0 $program || exit 3; done
printf %24s >&3; kill -9 $program";

/// At idle priority the speculator would get no processor to end with. The warden sees that it ends in time.
#[test]
fn a_killed_program_leaves_no_speculator_on_a_busy_machine() {
    const NAME: &str = "killed_on_a_busy_machine";
    if switch("FOREBAY_COMPAT_PLAIN") || !root() {
        return skip(NAME, "both sides run without forebay, or may not change priorities");
    }
    let kill = || {
        let case = watched_reader(NAME).before(["setsid", "-w", "bash", "-c", BUSY, "bash"]);
        let outcome = case.run(Side::With);
        // The computing processes are left, too, and the warden ends them.
        let stays = outcome.complaints.iter().find(|complaint| complaint.contains("forebay"));
        assert!(stays.is_none(), "{:?}", outcome.complaints);
        // Another status says that the program had ended.
        if outcome.status == 0 && outcome.lingered_ms > 0 { Ok(()) } else { Err(outcome.status.to_string()) }
    };
    (0..4).for_each(|_| in_some_run(kill));
}
