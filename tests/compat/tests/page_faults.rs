//! Programs that wait for pages, swapped out or of mapped files, do the same with `forebay run` as without. They are
//! hostile guests and real command lines.

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use forebay_compat::guests::build;
use forebay_compat::run::Side;
use forebay_compat::{Case, Outcome, Scratch, comes_to, in_some_run, observe, root, scratch, skip, switch};
use forebay_lab::{Profile, SlowDisk, cold};

/// Half of what the guests have (`MEMORY` in `tests/guests/swap/faulting.h`).
const LIMIT_MIB: u64 = 24;
/// Blocks of the file that guests map.
const BLOCKS: u32 = 6000;

/// A directory of things to change.
fn victims(scratch: &Scratch) {
    scratch.text("out/file", 2000, 5);
    for victim in 0..4 {
        scratch.text(&format!("out/victim{victim}"), 30, victim + 50);
    }
}

/// The same, and a file of blocks that say of themselves that they are good, and which they are.
fn blocks(scratch: &Scratch) {
    static DATA: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut data = Vec::with_capacity(BLOCKS as usize * 4096);
        for block in 0..BLOCKS {
            for word in [0x600d_600d, block, block.wrapping_mul(2_654_435_761)] {
                data.extend_from_slice(&word.to_le_bytes());
            }
            data.resize((block as usize + 1) * 4096, (block % 251) as u8 + 1);
        }
        data
    });
    victims(scratch);
    scratch.file("data", &*DATA);
}

/// A guest whose memory does not fit.
fn swapping(guest: &str, arguments: &[&str]) -> Case {
    let mut argv = vec![build(guest).into_os_string()];
    argv.extend(arguments.iter().map(Into::into));
    Case::new(guest, argv).setup(victims).memory_limit(LIMIT_MIB).faults()
}

/// A guest that maps the cold file.
fn mapping(guest: &str) -> Case {
    Case::new(guest, [build(guest).into_os_string(), "data".into()]).setup(blocks).faults()
}

/// Threads that wait for pages of the cold mapped file, and do something else besides.
fn threads(way: &str) -> Case {
    let argv = [build("mapped_threads").into_os_string(), "data".into(), way.into()];
    Case::new(&format!("mapped_threads_{way}"), argv).setup(blocks).faults()
}

macro_rules! guests {
    ($($name:ident: $case:expr;)+) => {
        $(#[test]
        fn $name() {
            let _ = $case.check();
        })+
    };
}

guests! {
    effects_between_waits_for_swap_happen_once: swapping("swap_effects", &[]);
    much_output_after_waits_for_swap_is_written_once: swapping("swap_output", &[]);
    swapped_memory_may_move_and_go_and_change: swapping("swap_moves", &[]);
    a_swapped_heap_may_shrink_and_grow: swapping("swap_heap", &[]);
    unused_pages_between_swapped_ones_may_be_used: swapping("swap_holes", &[]);
    swapped_shared_memory_is_counted_in_once: swapping("swap_shared", &[]);
    swapped_system_v_memory_is_counted_in_once: swapping("swap_shared", &["system-v"]).named("swap_system_v");
    swapped_stacks_and_locked_memory_stay_what_they_are: swapping("swap_stack", &[]);
    a_coroutine_needs_no_room_for_signals: swapping("swap_small_stacks", &[]);
    a_small_alternate_stack_is_the_programs_own: swapping("swap_small_stacks", &["6144"]).named("swap_alternate_stack");
    an_alternate_stack_of_the_usual_size_is_the_programs_own:
        swapping("swap_small_stacks", &["8192"]).named("swap_usual_alternate_stack");
    calls_are_not_interrupted_amid_waits_for_swap: swapping("swap_calls", &[]);
    a_pager_of_the_programs_own_works_over_swap: swapping("swap_pager", &[]);
    threads_and_timers_may_wait_for_swap_together: swapping("swap_threads", &[]);
    programs_may_be_executed_amid_waits_for_swap: swapping("swap_exec", &[]);
    userfaultfd_of_the_programs_own_works: swapping("own_userfaultfd", &[]);
    a_thread_that_blocks_signals_sees_none_of_its_faults: mapping("blocked_signals");
    nor_does_one_that_was_started_so:
        mapping("blocked_signals").named("started_with_blocked_signals").before(["env", "--block-signal"]);
    threads_may_wait_for_mapped_pages: threads("touch");
    threads_have_the_signal_stacks_that_they_make: threads("stack");
    threads_that_block_signals_see_none_of_their_faults: threads("block");
    threads_may_end_amid_their_faults: threads("end");
    threads_may_fork_amid_their_faults: threads("fork");
    threads_may_execute_amid_their_faults: threads("exec");
    threads_that_were_started_with_blocked_signals_see_none: threads("born");
    threads_get_the_signals_that_the_program_handles: threads("handle");
    handlers_of_threads_have_room_on_the_alternate_stack: threads("large");
    writes_to_mapped_files_happen_once_or_never: mapping("mapped_writes");
    mapped_files_may_change_and_shrink: mapping("mapped_changes");
    mapped_files_may_be_moved_and_doubled_and_locked: mapping("mapped_moves");
    mapped_files_may_be_moved_under_a_memory_limit:
        mapping("mapped_moves").named("mapped_moves_limited").memory_limit(LIMIT_MIB);
    mapped_files_may_change_under_a_memory_limit: mapping("mapped_changes").named("mapped_changes_limited").memory_limit(LIMIT_MIB);
    effects_between_waits_for_both_happen_once:
        mapping("fault_effects").named("fault_effects_limited").memory_limit(LIMIT_MIB);
}

#[test]
fn nothing_is_written_before_its_time_amid_waits_for_swap() {
    let _ = swapping("swap_effects", &[])
        .named("swap_effects_observed")
        .observer(observe::directory(&["child", "kept"]))
        .check();
}

macro_rules! misled {
    ($($name:ident: $way:literal;)+) => {
        /// A speculator that believes a predicted page does the worst it can, and the program shows nothing of it.
        mod a_misled_speculator {
            use super::{Case, LIMIT_MIB, blocks, build};
            $(#[test]
            fn $name() {
                let argv = [build("misled").into_os_string(), "data".into(), $way.into(), "pages".into()];
                let case = Case::new(concat!("misled_by_pages_", $way), argv);
                let _ = case.setup(blocks).memory_limit(LIMIT_MIB).faults().check();
            })+
        }
    };
}

misled! {
    may_kill: "kill";
    may_write_everywhere: "write";
    may_write_to_what_is_shared: "share";
    may_overwrite_its_memory: "stray-writes";
    may_move_its_memory: "move";
    may_unmap_itself: "unmap";
    may_take_all_memory: "memory";
    may_fault: "segv";
    may_overflow_its_stack: "overflow";
    may_take_over_its_handlers: "handlers";
    may_make_stray_calls: "stray-calls";
    may_exec: "exec";
    may_fork_without_end: "fork";
}

/// Lines of text, and bytes that cannot be made fewer.
fn texts(scratch: &Scratch) {
    scratch.text("some.txt", 30_000, 3).noise("data.bin", 1 << 20, 4);
    let some = std::fs::read(scratch.at("some.txt")).expect("what was just written");
    scratch.file("long.txt", some.repeat(6));
}

/// A database larger than the limit.
fn database(scratch: &Scratch) {
    let script = "pragma journal_mode=off; pragma synchronous=off; \
                  create table t(id integer primary key, name text, v blob); \
                  with recursive n(i) as (select 1 union all select i+1 from n where i<24000) \
                  insert into t select i, 'name'||(i*7919%24001), zeroblob(1000) from n; \
                  create index un on t(name);";
    let made = Command::new("sqlite3")
        .arg(scratch.at("db"))
        .arg(script)
        .stdout(std::process::Stdio::null())
        .status();
    if let Ok(status) = made {
        assert!(status.success());
    }
}

/// A repository whose one pack is larger than what the agent takes for little memory.
fn repository(scratch: &Scratch) {
    static ARCHIVE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let place = Scratch::fresh(std::env::temp_dir().join(format!("forebay-pack-{}", std::process::id())));
        for n in 0..40 {
            place.text(&format!("texts/t{n}"), 100, n).noise(&format!("noise/n{n}"), 600_000, n);
        }
        let script = "git init -q -b main . && git config core.compression 1 && git add -A && git commit -qm one && \
                      for n in 1 2 3 4; do echo $n >> texts/t$n; git commit -qam change-$n; done; \
                      git gc -q && rm -r noise && tar cf - .";
        let mut make = Command::new("sh");
        make.args(["-c", script]).current_dir(place.path());
        for (name, value) in GIT {
            make.env(name, value);
        }
        let made = make.output().expect("sh");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    });
    let archive = scratch.at("archive");
    std::fs::write(&archive, &*ARCHIVE).expect("write the archive");
    let made = Command::new("tar").args(["xf", "archive"]).current_dir(scratch.path()).status();
    assert!(made.expect("tar").success());
    std::fs::remove_file(archive).expect("remove the archive");
}

const GIT: [(&str, &str); 8] = [
    ("GIT_AUTHOR_NAME", "A"),
    ("GIT_AUTHOR_EMAIL", "a@example.org"),
    ("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "A"),
    ("GIT_COMMITTER_EMAIL", "a@example.org"),
    ("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("HOME", "/nonexistent"),
];

/// A program in C with many functions.
fn program(scratch: &Scratch) {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for n in 0..200 {
        text.push_str(&format!(
            "static int f{n}(int x, char *s)\n{{\n int length = x;\n for (int i = 0; i < length; i++) {{\n  \
             s[i] += i * {n};\n  if (s[i] > {n}) x ^= s[i];\n }}\n return x + (int)strlen(s);\n}}\n"
        ));
    }
    text.push_str("int main(void) {\n char s[64] = \"start\"; int x = 5;\n");
    for n in 0..200 {
        text.push_str(&format!(" x = f{n}(x & 31, s) & 63;\n"));
    }
    text.push_str(" printf(\"%d\\n\", x); return 0; }\n");
    scratch.file("a.c", text);
}

fn nothing(_: &Scratch) {}

/// Git's index holds inode numbers and times; its other files must agree.
fn without_index(outcome: &mut Outcome) {
    outcome.tree.retain(|path, _| !path.ends_with("index"));
}

macro_rules! limited {
    ($($name:ident: $setup:expr, $mib:literal MiB, [$($argument:expr),+ $(,)?];)+) => {
        $(#[test]
        fn $name() {
            let case = Case::new(stringify!($name), [$($argument),+]).setup($setup).normalise(without_index);
            if let Some(outcome) = case.memory_limit($mib).faults().check() {
                assert_eq!(outcome.status, 0, "a program that fails either way proves nothing");
            }
        })+
    };
}

limited! {
    python_gathers_from_lists: nothing, 30 MiB,
        ["python3", "-c", "n = 400000; a = [str(i) for i in range(n)]; b = [(i * 7919) % n for i in range(0, n, 200)]\n\
          s = 0\nfor r in range(2):\n  for i in b: s = (s * 31 + len(a[i]) + int(a[i])) % 1000003\n  print(r, s)"];
    python_forks_amid_dictionaries: nothing, 30 MiB,
        ["python3", "-c", "import os\nd = {str(i): [i] for i in range(120000)}\n\
          for i in range(0, 120000, 97): d[str((i * 7919) % 120000)].append(i)\n\
          p = os.fork()\nif not p: print('child', sum(d[str(i)][0] for i in range(0, 120000, 89)), flush=True); os._exit(3)\n\
          print(os.waitpid(p, 0)[1], sum(len(d[str(i)]) for i in range(0, 120000, 7)))"];
    // Strings so small that all of them are in the heap, which grows by `brk`.
    perl_looks_up_in_a_hash: nothing, 40 MiB,
        ["perl", "-e", "my (@b, %n); push @b, \"text $_\" for 1..300000; $n{$_} = \"value $_\" for 1..120000; my $s = @b; \
          for (my $i = 1; $i < 120000; $i += 41) { $s = ($s * 31 + length($n{$i * 7919 % 120000 + 1})) % 1000003 } print \"$s\\n\""];
    gawk_looks_up_in_arrays: texts, 28 MiB,
        ["gawk", "{ n[NR] = $0; m[$1] += $2 } END { for (i = 0; i < 100000; i += 67) \
          s += m[sprintf(\"%05d\", i * 7919 % 100000)] + length(n[i]); print s, length(n) }", "long.txt"];
    sort_of_more_than_fits: texts, 16 MiB,
        ["sort", "-S", "40M", "--parallel=1", "-k3,3", "-k1n", "long.txt", "-o", "sorted.txt"];
    sort_with_a_small_buffer: texts, 16 MiB,
        ["sort", "-S", "14M", "--parallel=1", "-T", ".", "-k3,3", "-k1n", "long.txt", "-o", "sorted.txt"];
    gcc_compiles_in_little_memory: program, 30 MiB, ["sh", "-c", "cc -O1 -o prog a.c && ./prog"];
    sqlite_maps_its_file: database, 20 MiB,
        ["sqlite3", "-batch", "db", "pragma mmap_size=100000000; \
          select count(*), sum(length(v)) from t where name > 'name5' and id % 7 = 0; \
          update t set v = zeroblob(999) where id % 500 = 0; select sum(id) from t; select v is null from t where name = 'name77';"];
    xz_compresses_at_its_best: texts, 60 MiB, ["sh", "-c", "head -c 60000 data.bin > some.bin; xz -9k some.bin"];
    git_packs_again: repository, 14 MiB,
        ["sh", "-c", "git -c pack.threads=1 gc -q --prune=now; git count-objects -v; git cat-file -p HEAD~2:texts/t9 | tail -3"];
}

/// Without a limit: the pack is only cold.
#[test]
fn git_checks_a_mapped_pack() {
    let _ = Case::new("git_checks_a_mapped_pack", ["git", "fsck", "--full", "--strict", "--no-progress"])
        .setup(repository)
        .normalise(without_index)
        .faults()
        .check();
}

#[test]
fn sqlite_queries_a_mapped_file() {
    let query = "pragma mmap_size=100000000; select sum(length(v)) from t where id * 7919 % 24001 < 4000; \
                 select id from t where name in ('name5', 'name7001', 'name23000');";
    let _ = Case::new("sqlite_queries_a_mapped_file", ["sqlite3", "-readonly", "-batch", "db", query])
        .setup(database)
        .faults()
        .check();
}

/// Without this the others would prove nothing: a speculator runs ahead of the guest's faults, and past its effects. The
/// largest figure of a run, where that can be told.
fn takes_place(name: &str, figure: &str, wanted: f64, case: fn() -> Case) {
    let _ = comes_to(name, wanted, |outcome| outcome.figure(figure), case);
}

macro_rules! takes_place {
    ($($(#[$comment:meta])* $name:ident($short:literal): $wanted:literal $figure:ident of $case:expr;)+) => {
        $($(#[$comment])*
        #[test]
        fn $name() {
            takes_place(concat!("takes_place_", $short), stringify!($figure), $wanted, || $case);
        })+
        /// Where the user is not root, less can be seen of the original, and of files of others.
        mod without_root {
            use super::*;
            $($(#[$comment])*
            #[test]
            fn $name() {
                let name = concat!("takes_place_", $short, "_without_root");
                takes_place(name, stringify!($figure), $wanted, || $case.without_root());
            })+
        }
    };
}

takes_place! {
    speculation_takes_place_at_swapped_pages("swapped"): 100.0 hints_used of swapping("swap_effects", &[]);
    speculation_takes_place_at_pages_of_a_heap("heap"): 100.0 hints_used of swapping("swap_heap", &[]);
    speculation_takes_place_at_mapped_pages("mapped"): 100.0 hints_used of mapping("mapped_changes");
    speculation_takes_place_at_pages_of_threads("threads"): 100.0 hints_used of threads("touch");
    speculation_takes_place_where_registers_hold_no_addresses("calls"): 100.0 hints_used of mapping("mapped_calls");
    speculation_takes_place_at_mapped_pages_that_move("moves"): 100.0 hints_used of mapping("mapped_moves");
    /// A speculator's stacks grow as the program's do: hints come from beyond the first page.
    speculation_takes_place_while_stacks_grow_down("growing"): 100.0 hints_used of mapping("grows_down");
    /// Where a value that was made up decides what follows, the speculation goes on from before it.
    speculators_carry_on_from_their_checkpoints("repaired"): 1.0 repairs of phases();
}

/// Strays again and again.
fn phases() -> Case {
    swapping("phases", &["48", "6000"]).env("FOREBAY_CHECKPOINT_US_MIN", "0").normalise(|outcome| {
        let unseen = outcome.figure("missing/PAGEMAP_SCAN");
        assert!(unseen == 0.0, "what carried on could not see the original's memory any more");
        // The time that it took.
        outcome.stderr.clear();
    })
}

/// The guest can wait 1,200 times, and uses 12,000 pages for the first time. Were those hinted, it would seem to have been spared
/// waits that it never had: ten for each that it was spared.
#[test]
fn unused_pages_count_as_no_hints() {
    const WAITS_MAX: f64 = 1_200.0;
    const HINTS: f64 = 200.0;
    let name = "unused_pages_count_as_no_hints";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(name, "both sides run without forebay");
    }
    let mut used = 0.0;
    in_some_run(|| {
        let Some(outcome) = swapping("swap_holes", &[]).named(name).check() else { return Ok(()) };
        let waits = outcome.figure("stalls_before");
        assert!(waits < WAITS_MAX + 100.0, "{waits} waits, those included that were spared");
        used += outcome.figure("hints_used");
        if used >= HINTS { Ok(()) } else { Err(format!("{used} hints were used in all")) }
    });
}

/// Huge pages that the machine has for programs, for as long as this lives.
struct HugePages(String);

impl HugePages {
    const POOL: &str = "/proc/sys/vm/nr_hugepages";

    /// Adds `count` to those that there are; `None` where that is not possible.
    fn add(count: u32) -> Option<Self> {
        let before = std::fs::read_to_string(Self::POOL).ok()?;
        let wanted = before.trim().parse::<u32>().ok()? + count;
        let pool = Self(before);
        std::fs::write(Self::POOL, wanted.to_string()).ok()?;
        let got = std::fs::read_to_string(Self::POOL).ok()?.trim().parse::<u32>().ok()?;
        (got == wanted).then_some(pool)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::POOL, &self.0);
    }
}

/// The pool has no page more than the program needs: what copies of it keep, the program would miss.
#[test]
fn huge_pages_are_left_to_the_program() {
    const NEEDED: u32 = 4;
    let Some(_pool) = HugePages::add(NEEDED) else {
        return skip(
            "huge_pages_are_left_to_the_program",
            "the machine gives no huge pages, or only to root",
        );
    };
    for _ in 0..5 {
        let Some(outcome) = mapping("huge_pages").check() else { return };
        assert_eq!(outcome.status, 0, "{}", String::from_utf8_lossy(&outcome.stderr));
        if !switch("FOREBAY_COMPAT_PLAIN") {
            assert!(outcome.figure("agents_off/huge_pages") > 0.0, "{:?}", outcome.totals());
        }
    }
}

/// A speculator would wait for its memory as the program does.
#[test]
fn without_userfaultfd_nothing_is_forked_at_page_faults() {
    let case = Case::new(
        "faults_without_userfaultfd",
        // Long enough for the supervisor to see it wait.
        [build("gather").as_os_str(), "48".as_ref(), "20000".as_ref()],
    )
    .before([build("refuse").into_os_string(), "userfaultfd".into()])
    .memory_limit(LIMIT_MIB)
    // What few calls of its start wait pays for no fork. What it waits for pages would pay for some.
    .env("FOREBAY_FIRST_US", "0")
    // The time that it took.
    .normalise(|outcome| outcome.stderr.clear());
    if let Some(outcome) = case.check().filter(|_| !switch("FOREBAY_COMPAT_PLAIN")) {
        // A call of its start may wait, too. It waits for thousands of pages.
        let stalls = outcome.figure("stalls_before");
        assert!(stalls < 100.0, "{}", outcome.stats);
        assert_eq!(outcome.figure("forks"), 0.0, "{}", outcome.stats);
        // The supervisor reports that only for programs that waited for pages.
        assert_eq!(outcome.figure("missing/userfaultfd"), 1.0, "{}", outcome.stats);
    }
}

/// A speculator that waited for the shared memory which is swapped out would never be ready: one ends by itself, so it was.
#[test]
fn shared_memory_is_not_waited_for() {
    takes_place("takes_place_shared", "speculator_minor_faults", 500.0, || {
        let case = swapping("shared_gather", &["40", "6000"]).options(&["--memory-limit", "100M"]);
        case.normalise(|outcome| {
            let waits = outcome.figure("speculator_major_faults");
            assert!(waits < 1000.0, "they waited for {waits} pages");
        })
    });
}

/// A speculator would have to copy what is shared. On a busy machine the first ones may end before they can say so.
#[test]
fn a_program_with_much_shared_memory_is_soon_left_alone() {
    let _ = in_some_run(|| {
        let outcome = swapping("shared_gather", &["96", "4000"]).check();
        let is_left_alone = |outcome: &Outcome| {
            let forks = outcome.figure("forks");
            let said_so = outcome.figure("agents_off/shared_memory") == 1.0;
            switch("FOREBAY_COMPAT_PLAIN") || forks < 2.0 || (forks <= 3.0 && said_so)
        };
        outcome.map(|outcome| outcome.wanted(is_left_alone)).transpose()
    });
}

/// Nothing would come of them.
#[test]
fn a_program_that_maps_a_file_that_it_has_locked_gets_no_signals_of_faults() {
    let script = "import fcntl, mmap, struct\n\
                  f = open('out/file'); fcntl.fcntl(f, 37, struct.pack('hhqqi', 0, 0, 0, 0, 0))\n\
                  m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n\
                  b = bytearray(48 << 20); s = 0\n\
                  for i in range(0, len(b), 4096): b[i] = i * 7 % 251\n\
                  for i in range(20000): s = s * 31 % 1000003 + b[i * 7919 * 4096 % len(b)]\n\
                  print(s)";
    let _ = in_some_run(|| {
        let case = Case::new("locks_and_faults", ["python3", "-c", script]).setup(victims);
        let outcome = case.memory_limit(LIMIT_MIB).faults().check();
        let is_told_of_few = |outcome: &Outcome| {
            outcome.figure("stalls_before") < outcome.figure("major_faults") / 4.0
                || switch("FOREBAY_COMPAT_PLAIN")
        };
        outcome.map(|outcome| outcome.wanted(is_told_of_few)).transpose()
    });
}

/// Nor is a handler needed for them.
#[test]
fn a_program_that_may_not_speculate_keeps_its_signals() {
    let script =
        "my $n = 32 << 20; my $b = 'x' x $n; open F, '/proc/self/status'; print grep /^Sig[IC]/, <F>";
    let _ = Case::new("no_speculation", ["perl", "-e", script]).options(&["--no-speculation"]).check();
}

/// However small files are, the first fault in each may wait. A handler for SIGURG tells that a program is to be told.
#[test]
fn a_program_that_maps_many_small_files_is_told_of_its_faults() {
    const NAME: &str = "many_small_files";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    const SIGURG: u32 = 1 << (23 - 1);
    let script = "import mmap, sys\n\
                  f = open('small')\n\
                  for i in range(int(sys.argv[1])): mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ).close()\n\
                  print(next(l for l in open('/proc/self/status') if l.startswith('SigCgt')).split()[1][8:])";
    let is_told = |files: &str| {
        let argv = ["/usr/bin/python3", "-I", "-c", script, files];
        let case = Case::new(NAME, argv).setup(|scratch| {
            let _ = scratch.text("small", 1, 5);
        });
        let outcome = case.run(Side::With);
        assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
        let caught = String::from_utf8(outcome.stdout).expect("hexadecimal digits");
        u32::from_str_radix(caught.trim(), 16).expect("a set of signals") & SIGURG != 0
    };
    assert_eq!(["4", "128"].map(is_told), [false, true]);
}

/// Of a file that the user may read and does not own, the kernel says that all of it is resident.
#[test]
fn of_others_files_no_more_is_read_than_is_touched() {
    const NAME: &str = "others_file";
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "only root can become a user who does not own a file");
    }
    // Not where the program runs: all files there are read afterwards.
    let place = Scratch::fresh(scratch::base().join("others_files"));
    let data = place.noise("data", 64 << 20, 3).at("data");
    let run = |side| {
        place.settle(false);
        let argv = [build("mapped").into_os_string(), data.clone().into(), "3000".into()];
        let outcome = Case::new(NAME, argv).without_root().run(side);
        assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
        let resident = cold::resident_pages(&data).ok().flatten().expect("a number of pages");
        // What a stream reads ahead is judged elsewhere.
        let streamed = outcome.figure("stream_bytes") as u64 / 4096;
        (outcome.figure("hints_used"), resident.saturating_sub(streamed))
    };
    let (_, alone) = run(Side::Without);
    in_some_run(|| {
        let (used, with) = run(Side::With);
        assert!(with < alone + alone / 4, "{with} pages of the file were read, {alone} without");
        if used < 100.0 { Err(format!("{used} hints were used")) } else { Ok(()) }
    });
}

const READS: f64 = 1_000.0;

/// A run of the guest that reads a mapped file on a device that serves one request at a time: the speculator maps that
/// before the program does.
fn on_a_busy_device(disk: &SlowDisk, name: &'static str, options: &[&str], first_us: &str) -> Outcome {
    disk.make_cold().expect("empty the caches of the slow disk");
    let data = disk.mount_point().join("data");
    let mut argv = vec![build("mapped").into_os_string(), data.into(), READS.to_string().into()];
    argv.extend(options.iter().map(Into::into));
    let outcome = Case::new(name, argv).env("FOREBAY_FIRST_US", first_us).run(Side::With);
    assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
    outcome
}

/// What a thread does between two faults is no wait for a page: an account would be paid for it, and would pay for forks.
#[test]
fn rests_between_faults_are_no_stalls() {
    const NAME: &str = "rests";
    const READS: u32 = 150;
    const RESTS: u32 = 60;
    const REST: Duration = Duration::from_millis(50);
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let disk = match SlowDisk::start(Profile::Ssd1Ms, 256 << 20) {
        Ok(disk) => disk,
        Err(why) => return skip(NAME, why.to_string()),
    };
    let place = Scratch::fresh(scratch::base().join(NAME));
    let data = place.noise("data", 64 << 20, 3).at("data");
    let copied = disk.fill(|folder| std::fs::copy(data, folder.join("data")));
    let _ = copied.expect("fill the slow disk").expect("copy the data");
    let _ = in_some_run(|| {
        disk.make_cold().expect("empty the caches of the slow disk");
        let mut argv = vec![build(NAME).into_os_string(), disk.mount_point().join("data").into()];
        argv.extend([READS, RESTS, REST.as_micros() as u32].map(|number| number.to_string().into()));
        let outcome = Case::new(NAME, argv).run(Side::With);
        assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
        // It was told of its faults, and of those between rests.
        let (stalls, counted) = (outcome.figure("stalls_before"), outcome.figure("stall_time"));
        let are_told = stalls >= f64::from(READS + RESTS) * 0.9;
        // On a busy machine the faults themselves may take long.
        outcome.wanted(|_| are_told && counted < (RESTS * REST).as_secs_f64() / 2.0)
    });
}

/// Hints of pages are judged in mappings that the speculator made, too: of those that nothing comes of there are few, and
/// those that the program comes to are known to be used.
#[test]
fn hints_in_a_mapping_to_come_are_judged() {
    const NAME: &str = "mapping_to_come";
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let disk = match SlowDisk::start(Profile::Hdd1Ms, 256 << 20) {
        Ok(disk) => disk,
        Err(why) => return skip(NAME, why.to_string()),
    };
    let place = Scratch::fresh(scratch::base().join(NAME));
    let data = place.noise("data", 64 << 20, 3).at("data");
    let copied = disk.fill(|folder| std::fs::copy(data, folder.join("data")));
    let _ = copied.expect("fill the slow disk").expect("copy the data");
    in_some_run(|| {
        // On a busy machine speculations fail at first, so the first program may spend more. The second one may what users may.
        let used = on_a_busy_device(&disk, NAME, &[], "1000000").figure("hints_used");
        let outcome = on_a_busy_device(&disk, NAME, &["--chased"], "250");
        let (chased, forks) = (outcome.figure("hints_data"), outcome.figure("forks"));
        // The first page that a speculator foretells is one that the program reaches as soon: it spares nothing.
        if used >= READS / 2.0 && chased < READS / 4.0 && forks < READS / 40.0 {
            return Ok(());
        }
        Err(format!("{used} hints of use in one, {chased} of none after {forks} forks in the other"))
    });
}
