//! Hosts that share a machine have one memory there, and what one of them fetched.

use std::{fs::File, io::Read, time::Duration};

use forebay_millipage::{Counts, Error, Host, Options, Placement, Traffic, Usage, in_process_machines};

use super::{SMALL, all, each_together};

/// Hosts on machines of two.
fn each_paired(machines: usize, options: Options, act: impl Fn(&Host) + Sync) {
    all(&in_process_machines(&vec![2; machines], options).unwrap(), &act);
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
