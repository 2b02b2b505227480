//! Hosts in one process, each with a computing thread: each on a machine of its own, all on one machine, and on machines of several.

mod alone;
mod chance;
mod locks;
mod machines;
mod meeting;
mod together;

use std::{
    fs::File,
    io::Read,
    sync::atomic::Ordering::SeqCst,
    thread,
    time::{Duration, Instant},
};

use chance::leave_alternate_stack;
use forebay_coherence::MESSAGE_BYTES;
use forebay_millipage::{
    Granularity, Host, Options, Placement, Usage, in_process, in_process_machines, in_process_together,
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
