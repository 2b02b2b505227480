//! Hosts in one process, each with a computing thread: each on a machine of its own, all on one machine, and on machines of several.

mod alone;
mod chance;
mod together;

use std::{
    fs::File,
    io::Read,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use chance::leave_alternate_stack;
use forebay_coherence::MESSAGE_BYTES;
use forebay_millipage::{
    Counts, Error, Granularity, Host, Options, Placement, Traffic, Usage, in_process, in_process_machines,
    in_process_together,
};

/// Hosts of all kinds.
fn each(hosts: u16, options: Options, act: impl Fn(&Host) + Sync) {
    all(&in_process(hosts, options).unwrap(), &act);
    all(&in_process_together(hosts, options).unwrap(), &act);
    if hosts > 1 {
        all(&in_process_machines(&[hosts - 1, 1], options).unwrap(), &act);
    }
    if hosts > 2 {
        all(&in_process_machines(&[hosts - 2, 2], options).unwrap(), &act);
    }
}

/// Hosts on machines of two.
fn each_paired(machines: usize, options: Options, act: impl Fn(&Host) + Sync) {
    all(&in_process_machines(&vec![2; machines], options).unwrap(), &act);
}

/// Hosts with memories of their own.
fn each_separate(hosts: u16, options: Options, act: impl Fn(&Host) + Sync) {
    all(&in_process(hosts, options).unwrap(), &act);
}

/// Hosts with one memory.
fn each_together(hosts: u16, options: Options, act: impl Fn(&Host) + Sync) {
    all(&in_process_together(hosts, options).unwrap(), &act);
}

fn all(hosts: &[Host], act: &(impl Fn(&Host) + Sync)) {
    thread::scope(|scope| {
        for host in hosts {
            scope.spawn(|| {
                leave_alternate_stack();
                act(host);
            });
        }
    });
}

const SMALL: Options = Options { bytes: 1 << 20, views: 16, at: None, granularity: Granularity::Fine };

#[test]
fn what_one_host_writes_the_others_read() {
    each(3, SMALL, |host| {
        let rows = host.rows::<u64>(30, 32, Placement::Blocks).unwrap();
        for round in 1..20u64 {
            for index in (usize::from(host.rank())..rows.len()).step_by(3) {
                (0..32)
                    .for_each(|column| rows.row(index).set(column, round * 1_000 + (index + column) as u64));
            }
            host.barrier().unwrap();
            for index in 0..rows.len() {
                for column in 0..32 {
                    assert_eq!(rows.row(index).get(column), round * 1_000 + (index + column) as u64);
                }
            }
            host.barrier().unwrap();
        }
    });
}

#[test]
fn bytes_are_found_by_their_address_within_an_allocation_only() {
    each(1, SMALL, |host| {
        let rows = host.rows::<u8>(40, 100, Placement::Blocks).unwrap();
        let large = host.rows::<u8>(1, 10_000, Placement::Blocks).unwrap();
        let chunks = host.rows_in_chunks::<u8>(10, 100, 4, Placement::Blocks).unwrap();
        let (row, large) = (rows.row(17).as_ptr() as usize, large.row(0).as_ptr() as usize);
        let (chunk, last) = (chunks.row(4).as_ptr() as usize, chunks.row(9).as_ptr() as usize);
        rows.row(17).set(99, 7);
        assert_eq!(host.bytes_at(row + 99, 1).unwrap().get(0), 7);
        for (address, bytes) in [(row, 100), (large, 10_000), (large + 5_000, 5_000), (chunk, 400)] {
            assert_eq!(host.bytes_at(address, bytes).unwrap().len(), bytes);
        }
        let foreign = [(row, 101), (row + 100, 1), (row, 0), (row - 1, 1), (row, usize::MAX), (row, 4_100)];
        let others = [(large, 10_001), (chunk, 401), (last, 1 << 30), (&raw const row as usize, 8), (0, 1)];
        for (address, bytes) in foreign.into_iter().chain(others) {
            let error = host.bytes_at(address, bytes).err().map(|error| error.to_string());
            assert!(error.unwrap_or_default().contains("not all of one allocation"), "{address:#x} {bytes}");
        }
    });
}

#[test]
fn a_lock_makes_a_sum_exact() {
    each(4, SMALL, |host| {
        let sum = host.rows::<u64>(1, 1, Placement::On(1)).unwrap();
        for _ in 0..500 {
            host.lock(7).unwrap();
            sum.row(0).set(0, sum.row(0).get(0) + 1);
            host.unlock(7).unwrap();
        }
        host.barrier().unwrap();
        assert_eq!(sum.row(0).get(0), 2_000);
        assert!(matches!(host.unlock(7), Err(Error::NotLocked(7))));
        host.barrier().unwrap();
    });
}

/// Store buffering: with sequential consistency not both can read the old value.
#[test]
fn stores_are_seen_before_later_loads() {
    each_separate(2, SMALL, |host| {
        let flags = host.rows::<u64>(2, 1, Placement::Cyclic).unwrap();
        let seen = host.rows::<u64>(2, 1, Placement::Cyclic).unwrap();
        let (mine, other) = (usize::from(host.rank()), usize::from(1 - host.rank()));
        for round in 1..300 {
            flags.row(mine).set(0, round);
            seen.row(mine).set(0, flags.row(other).get(0));
            host.barrier().unwrap();
            assert!(seen.row(0).get(0) == round || seen.row(1).get(0) == round);
            host.barrier().unwrap();
        }
    });
}

#[test]
fn what_is_pushed_and_prefetched_is_the_same() {
    each(3, SMALL, |host| {
        let rows = host.rows::<u32>(6, 100, Placement::Copies).unwrap();
        for round in 1..100u32 {
            if host.rank() == (round % 3) as u16 {
                (0..100).for_each(|column| rows.row(2).set(column, round + column as u32));
                rows.row(2).push();
            } else {
                rows.row(2).prefetch();
            }
            host.barrier().unwrap();
            assert!((0..100).all(|column| rows.row(2).get(column) == round + column as u32));
            host.barrier().unwrap();
        }
    });
}

#[test]
fn rows_of_several_pages_travel_whole() {
    each(2, SMALL, |host| {
        let rows = host.rows::<u64>(4, 1_500, Placement::Cyclic).unwrap();
        for round in 1..10u64 {
            let index = (round % 4) as usize;
            if u64::from(host.rank()) == round % 2 {
                (0..1_500).for_each(|column| rows.row(index).set(column, round ^ column as u64));
            }
            host.barrier().unwrap();
            assert!((0..1_500).all(|column| rows.row(index).get(column) == round ^ column as u64));
            host.barrier().unwrap();
        }
    });
}

#[test]
fn a_host_tells_what_it_did_and_where_its_time_went() {
    each_separate(2, SMALL, |host| {
        let rows = host.rows::<u64>(4, 32, Placement::On(0)).unwrap();
        let begun = Instant::now();
        let _ = host.take_usage();
        if host.rank() == 1 {
            (0..4).for_each(|row| assert_eq!(rows.row(row).get(0), 0));
            rows.row(0).set(0, 1);
        }
        let usage = host.take_usage();
        let Usage { counts, traffic, times } = usage;
        assert!(times.elapsed <= begun.elapsed() && times.computing() <= times.elapsed, "{usage:?}");
        if host.rank() == 1 {
            assert_eq!((counts.read_faults, counts.write_faults), (4, 1));
            assert!(times.read_faults > times.barriers && times.write_faults > Duration::ZERO, "{usage:?}");
            // Four rows, and a grant.
            assert_eq!(traffic.messages_received, 5);
            assert_eq!(traffic.bytes_received, 5 * MESSAGE_BYTES as u64 + 4 * 32 * 8);
            assert!(traffic.bytes_sent >= 5 * MESSAGE_BYTES as u64, "{usage:?}");
        } else {
            assert_eq!((times.read_faults, times.write_faults), (Duration::ZERO, Duration::ZERO));
        }
        host.barrier().unwrap();
    });
}

#[test]
fn chunks_are_shared_at_a_time_and_rows_keep_their_places() {
    for granularity in [Granularity::Fine, Granularity::Page] {
        each_separate(2, Options { granularity, ..SMALL }, |host| {
            // The last chunk is not full; in pages, rows begin on one and end on the next.
            let rows = host.rows_in_chunks::<u32>(50, 75, 7, Placement::Blocks).unwrap();
            for index in host.block(50) {
                let values: Vec<u32> = (0..75).map(|column| (index * 100 + column) as u32).collect();
                rows.row(index).write(0, &values[..70]);
                rows.row(index).write(70, &values[70..]);
            }
            host.barrier().unwrap();
            let _ = host.take_counts();
            let mut values = [0; 74];
            for index in 0..50 {
                rows.row(index).read(1, &mut values);
                let expected = (1..75).map(|column| (index * 100 + column) as u32);
                assert!(expected.eq(values), "row {index}: {values:?}");
                assert_eq!(rows.row(index).get(0), index as u32 * 100);
            }
            let faults = host.take_counts().read_faults;
            // Half of 8 chunks or of 4 pages, and one that both wrote to.
            assert!((1..=5).contains(&faults), "{faults} faults");
            host.barrier().unwrap();
        });
    }
}

#[test]
fn atomics_add_up_and_values_arrive() {
    each(3, SMALL, |host| {
        let (sum, last) =
            (host.rows::<u64>(1, 3, Placement::On(1)).unwrap(), host.value(Placement::On(2)).unwrap());
        for _ in 0..200 {
            sum.row(0).atomic(2).fetch_add(1, SeqCst);
        }
        host.barrier().unwrap();
        assert_eq!((last.get(), sum.row(0).get(2)), (0.0, 600));
        host.barrier().unwrap();
        if host.rank() == 0 {
            last.set(2.5);
            last.row().push();
        }
        host.barrier().unwrap();
        assert_eq!(last.get(), 2.5);
        host.barrier().unwrap();
    });
}

#[test]
fn rows_in_several_pages_can_be_touched_pushed_and_prefetched() {
    each(2, Options { granularity: Granularity::Page, ..SMALL }, |host| {
        let rows = host.rows::<u8>(3, 5_000, Placement::On(0)).unwrap();
        let row = rows.row(1);
        if host.rank() == 1 {
            row.prefetch_for_writing();
            row.touch_for_writing();
            let _ = host.take_counts();
            row.write(0, &[7; 5_000]);
            assert_eq!(host.take_counts().write_faults, 0);
            row.push();
        }
        host.barrier().unwrap();
        row.touch();
        assert_eq!((row.get(0), row.get(4_999)), (7, 7));
        host.barrier().unwrap();
    });
}

#[test]
#[should_panic(expected = "outside the row")]
fn nothing_is_read_behind_the_end_of_a_row() {
    let host = in_process(1, SMALL).unwrap().remove(0);
    host.rows::<u8>(2, 10, Placement::On(0)).unwrap().row(0).read(3, &mut [0; 8]);
}

#[test]
fn hosts_that_call_different_things_are_told() {
    each(2, SMALL, |host| {
        let more = usize::from(host.rank());
        let error = host.rows::<u8>(4 + more, 8, Placement::Cyclic).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(&format!("host {more} of 2 called rows_in_chunks({}, ", 4 + more)), "{error}");
        assert!(
            host.rows::<u8>(4, 1 << 20, Placement::Cyclic)
                .map(|_| ())
                .unwrap_err()
                .to_string()
                .contains("do not fit")
        );
        // What comes after is in the same place on both.
        let rows = host.rows::<u16>(3, 7, Placement::Cyclic).unwrap();
        rows.row(1).set(more, 100 + more as u16);
        host.barrier().unwrap();
        assert_eq!((rows.row(1).get(0), rows.row(1).get(1)), (100, 101));
        host.barrier().unwrap();
    });
}

/// A system call into a row: where this host may not write it fails, and never writes elsewhere.
#[test]
fn system_calls_need_a_touch_and_say_so() {
    each_separate(2, SMALL, |host| {
        let rows = host.rows::<u8>(2, 64, Placement::On(0)).unwrap();
        host.barrier().unwrap();
        if host.rank() == 1 {
            let row = rows.row(1);
            let fill = || {
                // SAFETY: the row's memory is mapped; no other thread uses it now.
                let buffer = unsafe { std::slice::from_raw_parts_mut(row.as_ptr(), row.len()) };
                File::open("/proc/self/maps").unwrap().read(buffer)
            };
            assert_eq!(fill().unwrap_err().raw_os_error(), Some(14), "EFAULT");
            row.touch();
            assert_eq!(fill().unwrap_err().raw_os_error(), Some(14), "reading is not enough");
            row.touch_for_writing();
            assert_eq!(fill().unwrap(), 64);
        }
        host.barrier().unwrap();
        assert!(rows.row(1).get(12) == b'-', "{}", rows.row(1).get(12));
        host.barrier().unwrap();
    });
}

#[test]
fn several_threads_of_a_host_fault_at_the_same_time() {
    each(2, SMALL, |host| {
        let rows = host.rows::<u64>(64, 4, Placement::Cyclic).unwrap();
        thread::scope(|scope| {
            for part in 0..4 {
                let rows = &rows;
                scope.spawn(move || {
                    for round in 0..50 {
                        let row = rows.row((part * 13 + round * 7) % 64);
                        row.set(part, row.get(part) + 1);
                    }
                });
            }
        });
        host.barrier().unwrap();
        // Each host accesses an element once, so that it is 1 or 2 there: one of two hosts' additions may be lost.
        let sum: u64 = (0..64)
            .flat_map(|row| (0..4).map(move |column| (row, column)))
            .map(|(row, column)| rows.row(row).get(column))
            .sum();
        assert!((200..=400).contains(&sum), "{sum}");
        host.barrier().unwrap();
    });
}

#[test]
fn hosts_with_one_memory_do_not_fault_and_send_nothing() {
    each_together(3, SMALL, |host| {
        let rows = host.rows_in_chunks::<u32>(50, 75, 7, Placement::Copies).unwrap();
        rows.row(3).push();
        rows.row(4).prefetch_for_writing();
        for round in 1..20 {
            for index in host.block(50) {
                (0..75).for_each(|column| {
                    rows.row(index).set(column, (round * 1_000 + index * 75 + column) as u32)
                });
            }
            host.barrier().unwrap();
            for index in 0..50 {
                for column in 0..75 {
                    assert_eq!(rows.row(index).get(column), (round * 1_000 + index * 75 + column) as u32);
                }
            }
            host.barrier().unwrap();
        }
        host.lock(5).unwrap();
        host.unlock(5).unwrap();
        let usage = host.take_usage();
        assert_eq!((usage.counts, usage.traffic), (Counts::default(), Traffic::default()));
        assert!(usage.times.barriers > Duration::ZERO && usage.times.locks > Duration::ZERO, "{usage:?}");
        assert_eq!(usage.times.read_faults + usage.times.write_faults, Duration::ZERO);
    });
}

/// A system call into a row needs nothing first where there is one memory.
#[test]
fn system_calls_reach_one_memory() {
    each_together(2, SMALL, |host| {
        let row = host.rows::<u8>(2, 64, Placement::On(0)).unwrap().row(1);
        if host.rank() == 1 {
            // SAFETY: the row's memory is mapped; no other thread uses it now.
            let buffer = unsafe { std::slice::from_raw_parts_mut(row.as_ptr(), row.len()) };
            assert_eq!(File::open("/proc/self/maps").unwrap().read(buffer).unwrap(), 64);
        }
        host.barrier().unwrap();
        assert_eq!(row.get(12), b'-');
        host.barrier().unwrap();
    });
}

#[test]
fn thousands_of_locks_are_apart() {
    const LOCKS: u32 = 5_000;
    each_together(2, SMALL, |host| {
        let number =
            |index: u32| if index.is_multiple_of(2) { index } else { index.wrapping_mul(0x9e37_79b9) };
        let sums = host.rows_in_chunks::<u32>(LOCKS as usize, 1, 4_096, Placement::On(0)).unwrap();
        // All at the same time: one that was another one could not be taken.
        if host.rank() == 0 {
            (0..LOCKS).for_each(|index| host.lock(number(index)).unwrap());
            (0..LOCKS).for_each(|index| host.unlock(number(index)).unwrap());
        }
        host.barrier().unwrap();
        for index in 0..LOCKS {
            host.lock(number(index)).unwrap();
            let sum = sums.row(index as usize);
            sum.set(0, sum.get(0) + 1);
            host.unlock(number(index)).unwrap();
        }
        host.barrier().unwrap();
        assert!((0..LOCKS as usize).all(|index| sums.row(index).get(0) == 2));
        for lock in [u32::MAX, 7, 1 << 20] {
            host.barrier().unwrap();
            if host.rank() == 1 {
                host.lock(lock).unwrap();
            }
            host.barrier().unwrap();
            assert_eq!(host.unlock(lock).is_ok(), host.rank() == 1, "lock {lock} of host {}", host.rank());
            assert!(matches!(host.unlock(lock), Err(Error::NotLocked(_))));
        }
        host.barrier().unwrap();
    });
}

/// A host that takes a lock again and again, until another one has had it.
#[test]
fn a_lock_that_is_always_wanted_is_had_by_all() {
    each(2, SMALL, |host| {
        let flag = host.value::<u64>(Placement::On(0)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        if host.rank() == 1 {
            host.lock(1).unwrap();
            flag.set(1);
            host.unlock(1).unwrap();
        } else {
            loop {
                host.lock(1).unwrap();
                let is_set = flag.get() == 1;
                host.unlock(1).unwrap();
                if is_set {
                    break;
                }
                assert!(Instant::now() < deadline, "the other host never has the lock");
            }
        }
        host.barrier().unwrap();
    });
}

#[test]
fn a_second_thread_at_a_barrier_is_told() {
    let is_told = AtomicBool::new(false);
    each(2, SMALL, |host| {
        is_told.store(false, SeqCst);
        host.barrier().unwrap();
        if host.rank() == 1 {
            // Not before a thread of the other host has been told.
            while !is_told.load(SeqCst) {
                thread::yield_now();
            }
            return host.barrier().unwrap();
        }
        let arrive = || {
            let arrived = host.barrier();
            is_told.store(true, SeqCst);
            arrived
        };
        let both = thread::scope(|scope| {
            let both = [scope.spawn(arrive), scope.spawn(arrive)];
            both.map(|thread| thread.join().unwrap())
        });
        assert_eq!(both.iter().filter(|arrived| arrived.is_ok()).count(), 1, "{both:?}");
        assert!(both.iter().any(|arrived| matches!(arrived, Err(Error::BarrierTaken(0)))), "{both:?}");
    });
}

#[test]
fn hosts_that_make_calls_of_different_kinds_are_told() {
    each(2, SMALL, |host| {
        let told = match host.rank() {
            0 => host.barrier(),
            _ => host.rows::<u8>(4, 8, Placement::Cyclic).map(|_| ()),
        };
        let told = told.unwrap_err().to_string();
        assert!(told.contains(&format!("host {} of 2 called ", host.rank())), "{told}");
        host.barrier().unwrap();
    });
}

#[test]
fn hosts_of_one_machine_that_disagree_hear_what_the_other_one_called() {
    each_together(2, SMALL, |host| {
        let called = |error: Error, other: u16, theirs: &str| {
            let (told, me) = (error.to_string(), 1 - other);
            let (mine, theirs) = (format!("host {me} of 2 called "), format!("host {other} called {theirs}"));
            assert!(told.starts_with(&mine) && told.contains(&theirs), "{told}");
        };
        let (me, other) = (host.rank(), 1 - host.rank());
        for round in 0..5 {
            let rows = |count: usize| host.rows::<u8>(count, 8, Placement::Cyclic).map(|_| ()).unwrap_err();
            called(rows(4 + usize::from(me)), other, &format!("rows_in_chunks({}, 8, 1, Cyclic)", 4 + other));
            match me == round % 2 {
                true => called(host.barrier().unwrap_err(), other, "rows_in_chunks(9, "),
                false => called(rows(9), other, "barrier()"),
            }
            host.barrier().unwrap();
        }
    });
}

#[test]
fn a_lock_too_many_is_refused_and_the_others_stay() {
    let host = in_process_together(1, SMALL).unwrap().remove(0);
    let (lock, refused) =
        (0..).find_map(|lock| Some((lock, host.lock(lock).and_then(|()| host.unlock(lock)).err()?))).unwrap();
    assert!(matches!(refused, Error::TooManyLocks { limit } if limit == lock as usize), "{lock}: {refused}");
    host.lock(17).unwrap();
    host.unlock(17).unwrap();
}

/// With two machines of two, hosts 0 and 2 are on one, and 1 and 3 on the other.
#[test]
fn hosts_of_one_machine_fetch_nothing_from_each_other() {
    each_paired(2, SMALL, |host| {
        let rows = host.rows::<u64>(8, 16, Placement::Cyclic).unwrap();
        let mine = rows.row(host.rank().into());
        mine.set(0, 7);
        host.barrier().unwrap();
        let _ = host.take_usage();
        host.barrier().unwrap();
        for _ in 0..10 {
            let neighbours = rows.row(usize::from(host.rank() + 2) % 4);
            assert_eq!(neighbours.get(0), 7);
            neighbours.set(1, 8);
        }
        host.barrier().unwrap();
        let Usage { counts, traffic, .. } = host.take_usage();
        assert_eq!(counts, Counts::default());
        // Two barriers, each a message there and one back, of which some may have come before.
        assert!(traffic.messages_sent + traffic.messages_received <= 6, "{traffic:?}");
        host.barrier().unwrap();
    });
}

#[test]
fn what_one_host_of_a_machine_has_fetched_its_neighbours_have() {
    each_paired(2, SMALL, |host| {
        let rows = host.rows::<u64>(20, 16, Placement::On(0)).unwrap();
        for turn in [1, 3] {
            if host.rank() == turn {
                (0..20).for_each(|row| assert_eq!(rows.row(row).get(3), 0));
            }
            host.barrier().unwrap();
            // The first host of a machine counts for all of them.
            let reads = host.take_counts().read_faults;
            let expected = if host.rank() == 1 && turn == 1 { 20 } else { 0 };
            assert_eq!(reads, expected, "host {} in turn {turn}", host.rank());
            host.barrier().unwrap();
        }
        // What is written takes the copies of both away.
        if host.rank() == 2 {
            (0..20).for_each(|row| rows.row(row).set(3, 9));
        }
        host.barrier().unwrap();
        assert!((0..20).all(|row| rows.row(row).get(3) == 9));
        host.barrier().unwrap();
    });
}

#[test]
fn machines_of_several_hosts_lock_and_meet() {
    each_paired(3, SMALL, |host| {
        let sum = host.value::<u64>(Placement::On(4)).unwrap();
        for round in 1..30u64 {
            for lock in [3, 4] {
                host.lock(lock).unwrap();
            }
            sum.set(sum.get() + 1);
            for lock in [3, 4] {
                host.unlock(lock).unwrap();
                assert!(matches!(host.unlock(lock), Err(Error::NotLocked(_))));
            }
            host.barrier().unwrap();
            assert_eq!(sum.get(), 6 * round);
            host.barrier().unwrap();
        }
        // One host calls something else: all hosts of all machines learn it.
        let told = match host.rank() {
            5 => host.rows::<u8>(4, 8, Placement::Cyclic).map(|_| ()),
            _ => host.barrier(),
        };
        let (told, me) = (told.unwrap_err().to_string(), host.rank());
        assert!(told.starts_with(&format!("host {me} of 6 called ")), "{told}");
        host.barrier().unwrap();
    });
}

#[test]
fn what_a_loop_fetches_between_its_barriers_is_foretold() {
    const ROUNDS: u64 = 100;
    const ROWS: usize = 8;
    each_separate(2, SMALL, |host| {
        let rows = host.rows::<u64>(ROWS, 64, Placement::Blocks).unwrap();
        let shared = host.value::<u64>(Placement::On(0)).unwrap();
        for round in 1..=ROUNDS {
            host.block(ROWS).for_each(|row| rows.row(row).set(0, round));
            host.lock(0).unwrap();
            shared.set(shared.get() + 1);
            host.unlock(0).unwrap();
            host.barrier().unwrap();
            host.block_of(1 - host.rank(), ROWS).for_each(|row| assert_eq!(rows.row(row).get(0), round));
            assert_eq!(shared.get(), 2 * round);
            host.barrier().unwrap();
        }
        let counts = host.take_counts();
        // Each row is fetched once in a round, to be written or to be read.
        assert!(counts.foretold > ROUNDS * ROWS as u64 * 8 / 10, "{counts:?}");
        assert!(counts.foretold_sampled < ROUNDS && counts.foretold_unneeded < ROUNDS / 4, "{counts:?}");
        host.barrier().unwrap();
    });
}
