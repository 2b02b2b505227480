//! Hostile guests: right after cold reads each guest does one thing that other processes can see. Each effect happens once,
//! and not early.

use std::net::{TcpListener, UdpSocket};
use std::sync::LazyLock;

use forebay_compat::guests::{Kind, build, build_as};
use forebay_compat::observe::{self, LockKind, SignalTarget};
use forebay_compat::{Case, Scratch, comes_to, long, root, skip, switch};

/// Blocks of the file that every guest reads.
const BLOCKS: u32 = 2048;
/// A mount of an image that waits for nothing that other programs write to the image's disk.
const UNSYNCED: &str = "loop,barrier=0";
/// A mount and its end wait for every processor of a busy machine, up to a second each.
const MOUNTS_S: u64 = 180;

/// What every guest finds: cold data of good blocks, and a directory of things to change.
fn victims(scratch: &Scratch) {
    static DATA: LazyLock<Vec<u8>> = LazyLock::new(good_blocks);
    scratch.file("data", &*DATA).text("out/file", 2000, 5);
    for victim in 0..4 {
        scratch.text(&format!("out/victim{victim}"), 30, victim + 50);
        std::fs::create_dir(scratch.at(&format!("out/old{victim}"))).expect("a directory");
    }
    let fifo = scratch.at("events");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("a FIFO");
}

/// Blocks that say of themselves that they are good, and which they are.
fn good_blocks() -> Vec<u8> {
    let mut data = Vec::with_capacity(BLOCKS as usize * 4096);
    let mut word = 1_u32;
    for block in 0..BLOCKS {
        data.extend_from_slice(&0x600d_600d_u32.to_le_bytes());
        data.extend_from_slice(&block.to_le_bytes());
        for _ in 2..1024 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            data.extend_from_slice(&(word ^ (word >> 13)).to_le_bytes());
        }
    }
    data
}

/// The guest `guest` with the cold file and further arguments.
fn guest(guest: &str, arguments: &[&str]) -> Case {
    let mut argv = vec![build(guest).into_os_string(), "data".into()];
    argv.extend(arguments.iter().map(Into::into));
    Case::new(guest, argv).setup(victims)
}

/// Tests of guests that only change files: nothing in `out` changes before the first effect.
macro_rules! files {
    ($($name:ident: $guest:literal;)+) => {
        $(#[test]
        fn $name() {
            let _ = guest($guest, &[]).without_statistics().observer(observe::directory(&["log", "grow"])).check();
        })+
    };
}

/// Tests of guests whose output says everything.
macro_rules! guests {
    ($($name:ident: $guest:literal $(, $argument:expr)*;)+) => {
        $(#[test]
        fn $name() {
            let _ = guest($guest, &[$($argument),*]).without_statistics().check();
        })+
    };
}

/// Tests of guests that only root can run.
macro_rules! root_guests {
    ($($name:ident: $guest:literal;)+) => {
        $(#[test]
        fn $name() {
            if !root() {
                return skip(stringify!($name), "only root may");
            }
            let _ = guest($guest, &[]).without_statistics().check();
        })+
    };
}

root_guests! {
    the_first_process_of_a_namespace_is_the_programs: "new_namespaces";
    permissions_are_asked_for_as_often_as_without: "gives_permission";
    what_was_removed_makes_room: "full_file_system";
}

files! {
    a_write_happens_once: "write";
    an_append_happens_once: "append";
    an_append_through_stdio_happens_once: "stdio_append";
    an_overwrite_happens_once_and_not_early: "pwrite";
    a_gathered_write_happens_once: "writev";
    a_truncation_by_path_happens_once: "truncate";
    a_truncation_by_descriptor_or_open_happens_once: "ftruncate";
    an_allocation_happens_once: "fallocate";
    a_renaming_happens_once: "rename";
    an_unlinking_happens_once_and_not_early: "unlink";
    a_link_is_made_once: "link";
    a_symbolic_link_is_made_once: "symlink";
    directories_are_made_and_removed_once: "mkdir";
    a_mode_is_changed_once_and_not_early: "chmod";
    an_owner_is_changed_once_and_not_early: "chown";
    times_are_set_once_and_not_early: "utimes";
    attributes_are_set_once: "xattr";
    nodes_are_made_once: "mknod";
    an_exclusive_file_is_created_by_the_original_only: "exclusive_create";
    a_copy_inside_the_kernel_happens_once: "copy_range";
    flags_of_a_file_and_of_its_description_change_once: "file_flags";
    a_file_that_grows_is_never_read_stale: "growing_file";
    jumping_out_of_nested_reads_is_seen_once: "long_jump";
    two_processes_append_in_turn: "append_shared";
}

guests! {
    memory_mapped_where_other_memory_was_kept_from_children_is_theirs: "kept_and_mapped_anew";
    a_spawned_program_has_descriptors_of_its_own: "flock_and_spawn";
    a_file_that_is_mapped_no_more_can_be_sealed: "seals";
    threads_that_wait_may_be_confined: "confined_threads";
    a_shared_file_mapping_is_counted_once: "map_shared_file";
    memory_shared_with_a_child_is_counted_once: "map_shared_child";
    system_v_shared_memory_is_counted_once: "sysv_shm";
    posix_shared_memory_is_counted_once: "posix_shm";
    system_v_queues_and_semaphores_are_used_once: "sysv_queue";
    posix_queues_and_semaphores_are_used_once: "posix_queue";
    event_descriptors_change_once: "event_descriptors";
    a_socket_is_emptied_by_the_original_only: "consume_socket";
    connections_are_accepted_by_the_original_only: "accept_connections";
    a_raised_signal_runs_its_handler_once: "raise_handler";
    limits_and_priorities_of_the_original_change_once: "self_pid";
    terminal_modes_change_once_and_not_early: "tty_mode";
    forked_children_are_started_once_and_collected: "fork_child";
    a_vfork_child_reads_and_moves_descriptors_before_exec: "vfork_exec";
    programs_are_spawned_once: "spawn";
    a_chain_of_execs_runs_each_link_once: "exec_self";
    io_uring_submits_once: "io_uring";
    handlers_run_on_the_alternate_stack: "alternate_stack";
    a_handler_may_jump_out_of_a_read: "jump_from_handler", "events";
    exit_handlers_run_once: "exit_handlers";
    an_abort_is_an_abort: "abort";
    every_way_to_end_is_the_same: "quick_exits";
    threads_read_together_and_write_in_turn: "threads";
    cancelled_threads_clean_up_once: "thread_cancel";
    the_main_thread_may_end_first: "thread_exit_first";
    the_parents_death_is_signalled: "parent_death";
    timers_go_off_once: "timers";
    a_traced_reader_stops_as_without: "traced";
    a_program_without_children_has_none: "wait_for_none";
    identities_do_not_change: "identity";
    descriptor_numbers_are_the_programs_own: "open_descriptors";
    the_end_of_a_pipe_arrives_at_once: "pipe_end";
    who_adopts_orphans_gets_none_of_ours: "adopts_orphans";
    stacks_in_shared_memory_stay_the_programs: "shared_stack";
    a_stack_that_is_not_forked_leaves_no_core_file: "stack_not_forked";
    who_is_told_of_forks_is_told_of_its_own: "told_of_forks";
    who_watches_files_sees_its_own_accesses: "watches_files";
    a_program_that_is_told_of_reads_is_told_of_its_own: "told_of_reads";
    a_program_is_executed_from_a_stack_of_a_page: "little_stack_exec";
    who_waits_for_the_execution_of_a_child_is_woken: "clear_tid_exec";
    posix_locks_outlast_the_execution_of_what_is_locked: "locked_exec";
    bad_pointers_are_bad_addresses: "bad_pointers_exec";
    a_forked_child_finds_signals_as_they_were: "forked_signals";
    the_thread_pointer_may_be_anything_meanwhile: "other_thread_pointer";
    moved_descriptors_mean_what_they_should: "descriptor_moves";
    a_shared_offset_moves_by_what_is_read: "shared_offset";
    direct_reads_are_exact: "direct_reads";
    reads_at_the_edges_are_exact: "read_edges";
    interrupted_calls_are_exact: "interrupted", "events";
    a_sandbox_of_the_program_keeps_working: "sandboxed";
    the_strictest_sandbox_keeps_working: "strict_sandbox";
    a_program_may_give_up_the_clock: "no_clock";
    raw_system_calls_work: "raw_syscalls";
    the_environment_is_the_programs_own: "environment";
    paths_of_every_length_work: "long_paths";
    a_deleted_working_directory_works: "deleted_directory";
    registers_survive_every_call: "registers";
    the_smallest_stacks_suffice: "small_stacks";
    a_lease_is_broken_by_the_original_only: "leases";
    a_fifo_is_opened_by_the_original_only: "open_fifo", "events";
    every_way_to_exec_works_and_fails_as_without: "exec_kinds";
    as_many_arguments_can_be_executed: "exec_limits";
    a_thread_may_exec_while_others_read: "thread_exec";
    threads_may_read_while_others_fork: "thread_forks";
    unusual_memory_can_be_read_into: "unusual_memory";
    a_storm_of_signals_changes_nothing: "signal_storm";
    a_program_may_catch_its_own_faults: "guard_pages";
    effects_between_page_faults_happen_once: "fault_effects";
    handlers_of_the_programs_own_faults_and_urgent_signals_run: "fault_handlers";
    a_second_c_library_works: "other_namespace";
    processes_may_share_descriptors_and_memory: "shared_table";
}

/// A tree of names, and nothing of it known to the kernel where that can be arranged.
#[test]
fn names_are_looked_up_as_without() {
    let _ = guest("path_calls", &[])
        .setup(|scratch| {
            for d in 0..12 {
                for f in 0..6 {
                    scratch.text(&format!("tree/d{d}/f{f}"), 3 + f, (d * 10 + f) as u64);
                }
                for (link, target) in [("link", "f3"), ("dangling", "nowhere"), ("loop", "loop")] {
                    std::os::unix::fs::symlink(target, scratch.at(&format!("tree/d{d}/{link}")))
                        .expect("a link");
                }
                let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
                nix::unistd::mkfifo(&scratch.at(&format!("tree/d{d}/fifo")), mode).expect("a FIFO");
            }
        })
        .cold_names()
        .check();
}

/// The tracer ends, and tells what it has seen, after the program.
#[test]
fn a_tracer_sees_the_programs_own_processes_and_signals() {
    let wait = "\"$@\"; s=$?; until [ -s out/seen ]; do sleep 0.01; done; exit $s";
    let _ = guest("seized", &[]).without_statistics().before(["sh", "-c", wait, "sh"]).check();
}

/// A daemon reads on after the run that started it is over.
#[test]
fn a_daemon_goes_on_after_the_run() {
    let wait = "\"$@\"; s=$?; i=0; while [ ! -e out/done ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; exit $s";
    let _ = guest("daemonize", &[]).before(["sh", "-c", wait, "sh"]).check();
}

#[test]
fn datagrams_are_sent_once_and_not_early() {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = receiver.local_addr().expect("an address").port().to_string();
    let _ = guest("udp_send", &[&port]).observer(observe::datagrams(receiver)).check();
}

#[test]
fn connections_are_made_and_used_once_and_not_early() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let _ = guest("tcp_send", &[&port]).observer(observe::connections(listener)).check();
}

#[test]
fn descriptors_are_passed_once_and_not_early() {
    let _ = guest("unix_send", &["socket"]).observer(observe::passed_descriptors("socket")).check();
}

#[test]
fn messages_in_a_pipe_are_sent_once_and_not_early() {
    let _ = guest("pipe_send", &["events"]).observer(observe::lines("events")).check();
}

#[test]
fn standard_input_is_consumed_by_the_original_only() {
    let _ =
        guest("consume_pipe", &[]).stdin("0123456789abcdefghijklmnopqrstuvwxyz, once and in order").check();
}

#[test]
fn signals_to_others_are_sent_once_and_not_early() {
    let target = SignalTarget::start();
    let pid = target.pid().to_string();
    let _ = guest("kill", &[&pid]).observer(target.observer()).check();
}

#[test]
fn a_flock_is_held_exactly_as_long_as_the_program_holds_it() {
    let _ = guest("flock", &["events"]).observer(observe::lock(LockKind::Flock, "events")).check();
}

#[test]
fn a_flock_of_a_file_open_for_reading_is_held_as_long() {
    let case = guest("flock", &["events", "read"]).named("flock_for_reading");
    let _ = case.observer(observe::lock(LockKind::Flock, "events")).check();
}

#[test]
fn a_flock_of_a_mapped_file_is_held_as_long() {
    let case = guest("flock", &["events", "map"]).named("flock_and_map");
    let _ = case.observer(observe::lock(LockKind::Flock, "events")).check();
}

/// Its speculators have open files of their own.
#[test]
fn a_program_that_locks_is_forked() {
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip("locks_and_forks", "both sides run without forebay");
    }
    for arguments in [&["events"][..], &["events", "read"]] {
        let case = || guest("flock", arguments).observer(observe::lock(LockKind::Flock, "events"));
        let _ = comes_to("locks_and_forks", 1.0, |outcome| outcome.figure("hints_used"), case);
    }
}

/// Its speculators have the memory that its children lack.
#[test]
fn a_program_that_keeps_memory_from_its_children_is_forked() {
    takes_place("keeps_memory", "keeps_memory");
}

#[test]
fn a_posix_lock_on_the_program_is_handed_on() {
    let program = build("locked_exec");
    let argv = [program.clone().into_os_string(), "data".into(), program.clone().into_os_string()];
    let script = format!(
        "import fcntl, os, sys\nfile = os.open({program:?}, os.O_RDONLY)\nos.set_inheritable(file, True)\n\
         fcntl.lockf(file, fcntl.LOCK_SH)\nos.execvp(sys.argv[1], sys.argv[1:])"
    );
    let case = Case::new("locked_program", argv).setup(victims).before(["python3", "-c", &script]);
    let _ = case.without_statistics().check();
}

#[test]
fn a_posix_lock_is_held_exactly_as_long_as_the_program_holds_it() {
    let _ = guest("posix_lock", &["events"]).observer(observe::lock(LockKind::Posix, "events")).check();
}

#[test]
fn a_description_lock_is_held_exactly_as_long_as_the_program_holds_it() {
    let _ = guest("ofd_lock", &["events"]).observer(observe::lock(LockKind::Description, "events")).check();
}

/// A shell that waits for a program can take the program's locks, and see the end of its pipes, at once.
#[test]
fn locks_are_free_when_the_wait_for_the_program_returns() {
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do \
           {} data events 8<>events > /dev/null; dd if=events iflag=nonblock bs=100 status=none 2>/dev/null | wc -c; \
           flock -n out/file echo free $i || echo busy $i; \
         done 9<>events",
        build("flock").display()
    );
    let _ = Case::new("locks_are_free_after_wait", ["bash", "-c", &script])
        .setup(victims)
        .needs(&["flock"])
        .check();
}

#[test]
fn a_library_is_loaded_by_the_original_only() {
    let library = build_as("preloaded", Kind::Library);
    let _ = guest("load_library", &[library.to_str().expect("a plain path")]).check();
}

#[test]
fn the_users_preloaded_library_sees_every_call() {
    let library = build_as("preloaded", Kind::Library);
    let preload = format!("LD_PRELOAD={}", library.display());
    for program in ["stdio_append", "fork_child", "raise_handler"] {
        let argv = [
            "env".into(),
            preload.clone().into(),
            "PRELOADED_REPORTS=1".into(),
            build(program).into_os_string(),
            "data".into(),
        ];
        let _ = Case::new(&format!("preload_{program}"), argv).setup(victims).check();
    }
}

#[test]
fn a_static_program_works() {
    for program in ["raw_syscalls", "stdio_append", "threads"] {
        let argv = [build_as(program, Kind::Static).into_os_string(), "data".into()];
        let _ = Case::new(&format!("static_{program}"), argv).setup(victims).check();
    }
}

/// Its functions are bound when they are called first: the slots of those stay writable beside the ones that are replaced.
#[test]
fn a_program_at_a_fixed_address_works_with_and_without_patching() {
    for (name, options) in [("fixed_patched", &[][..]), ("fixed_not_patched", &["--no-patching"])] {
        let argv = [build_as("read_edges", Kind::Fixed).into_os_string(), "data".into()];
        let _ = Case::new(name, argv).setup(victims).options(options).check();
    }
}

/// Checkpoints sleep with the files open that the speculator had.
#[test]
fn what_was_read_can_be_unmounted() {
    if !root() {
        return skip("what_was_read_can_be_unmounted", "only root may mount");
    }
    let _ = guest("unmounts", &[]).env("FOREBAY_CHECKPOINT_US_MIN", "0").check();
}

#[test]
fn a_program_may_change_its_root() {
    if !root() {
        return skip("a_program_may_change_its_root", "only root may");
    }
    let _ = guest("change_root", &[]).check();
}

#[test]
fn a_program_may_give_up_root() {
    if !root() {
        return skip("a_program_may_give_up_root", "only root can");
    }
    let _ = guest("drop_user", &[]).check();
}

/// Each file system that a program used can be unmounted right when it has ended.
#[test]
fn a_file_system_is_free_when_the_program_has_ended() {
    if !root() {
        return skip("a_file_system_is_free_when_the_program_has_ended", "only root may mount");
    }
    let program = build("plain_reader");
    let script = format!(
        "mkdir disk && truncate -s 24M image && mkfs.ext4 -q image && for i in 1 2 3; do \
           mount -o {UNSYNCED} image disk || exit 9; mkdir -p disk/out; [ -e disk/data ] || cp data disk/; cd disk; \
           sync; dd of=data oflag=nocache conv=notrunc,fdatasync count=0 status=none; \
           {} data; cd ..; umount disk && echo free || {{ umount -l disk; echo busy; }}; \
         done; rm -r image disk",
        program.display()
    );
    let script = format!("unshare -m sh -c '{script}'");
    let _ = Case::new("umount_after", ["sh", "-c", &script])
        .setup(victims)
        .needs(&["mkfs.ext4", "unshare"])
        .seconds(MOUNTS_S)
        .check();
}

/// Also where profiles are replayed and recorded: by a short program, again and again, with and without a profile.
#[test]
fn a_file_system_is_free_when_a_recorded_program_has_ended() {
    if !root() {
        return skip("a_file_system_is_free_when_a_recorded_program_has_ended", "only root may mount");
    }
    let runs = if long() { 300 } else { 12 };
    let script = format!(
        "mkdir disk && truncate -s 24M image && mkfs.ext4 -q image && mount -o {UNSYNCED} image disk && \
         for n in 1 2 3 4 5 6 7 8; do cp out/file disk/$n; done; umount disk; \
         for i in $(seq {runs}); do mount -o loop,ro image disk && cd disk && cat 1 2 3 4 5 6 7 8 | cksum; cd ..; \
           umount disk && echo free || {{ umount -l disk; echo busy; }}; done; rm -r image disk"
    );
    let script = format!("unshare -m sh -c '{script}'");
    let _ = Case::new("umount_after_recording", ["sh", "-c", &script])
        .setup(victims)
        .needs(&["mkfs.ext4", "unshare"])
        .seconds(MOUNTS_S)
        .check();
}

/// Also by a program that a shell starts which has itself stalled in there, and with hints under way for a program that
/// ended early.
#[test]
fn a_file_system_is_free_after_cold_look_ups() {
    if !root() {
        return skip("a_file_system_is_free_after_cold_look_ups", "only root may mount");
    }
    let script = format!(
        "unshare -m sh -c 'mkdir disk && truncate -s 24M image && mkfs.ext4 -q image && \
        mount -o {UNSYNCED} image disk && for i in 0 1 2 3 4 5 6 7; do mkdir disk/d$i && \
          for j in 0 1 2 3 4 5 6 7; do cp out/file disk/d$i/f$j; done; done; umount disk; \
        for i in 5 10 15 20 25 30 35 40; do mount -o loop,ro image disk && cd disk && \
          awk \"FNR == 1 && ++n == $i {{ exit }} {{ print }}\" d*/f* | cksum; \
          cd ..; umount disk && echo free || {{ umount -l disk; echo busy; }}; done; rm -r image disk'"
    );
    let _ = Case::new("umount_after_look_ups", ["sh", "-c", &script])
        .setup(victims)
        .needs(&["mkfs.ext4", "unshare", "awk"])
        .seconds(MOUNTS_S)
        .check();
}

macro_rules! misled {
    ($($name:ident: $way:literal;)+) => {
        /// A speculator that believes predicted data does the worst it can, and the program shows nothing of it.
        mod a_misled_speculator {
            use super::guest;
            $(#[test]
            fn $name() {
                let case = guest("misled", &[$way]);
                let _ = case.named(concat!("misled_", $way)).check();
            })+
        }
    };
}

misled! {
    may_kill: "kill";
    may_remove_files: "remove";
    may_write_everywhere: "write";
    may_exec: "exec";
    may_fork_without_end: "fork";
    may_spin: "spin";
    may_block: "block";
    may_deadlock: "deadlock";
    may_fault: "segv";
    may_trap: "trap";
    may_divide_by_zero: "divide";
    may_abort: "abort";
    may_exit: "exit";
    may_overflow_its_stack: "overflow";
    may_take_all_memory: "memory";
    may_make_stray_calls: "stray-calls";
    may_overwrite_its_memory: "stray-writes";
    may_close_everything: "close";
    may_start_threads: "threads";
    may_unmap_itself: "unmap";
    may_read_other_files: "peek";
    may_change_limits: "limits";
    may_shut_down_sockets: "shutdown";
}

/// Without this the others would prove nothing: a speculator runs through the guests' reads, and past their effects.
#[test]
fn speculation_takes_place() {
    takes_place("speculation_takes_place", "write");
}

/// What a program reads depends on data that its speculator does not have, but not where: it stays on track.
#[test]
fn speculation_takes_place_where_contents_tell_how_much_is_read() {
    takes_place("speculation_takes_place_where_contents_tell_how_much_is_read", "sized_by_contents");
}

/// Output is taken at once as a rule, and a wait for it ends no speculation.
#[test]
fn speculation_takes_place_where_a_program_waits_for_output() {
    takes_place("speculation_takes_place_where_a_program_waits_for_output", "waits_for_output");
}

/// More hints are used than by luck, of 160 cold reads that the guest makes.
fn takes_place(name: &str, program: &str) {
    // Of 160 cold reads.
    let _ = comes_to(name, 41.0, |outcome| outcome.figure("hints_used"), || guest(program, &[]));
}

/// The guests whose races are worth many tries, many times over.
#[test]
fn repetition_changes_nothing() {
    let times = if long() { 25 } else { 1 };
    for _ in 0..times {
        for program in
            ["append", "pipe_end", "fork_child", "threads", "exec_self", "event_descriptors", "shared_offset"]
        {
            let argv = [build(program).into_os_string(), "data".into()];
            let _ = Case::new(&format!("again_{program}"), argv).setup(victims).check();
        }
    }
}
