//! Small rows that a host allocates alone travel in company between machines, while their users agree: what that saves, and what it
//! costs where they do not.

mod chance;
mod told;

use std::thread;

use chance::{Deadline, leave_alternate_stack};
use forebay_millipage::{Counts, Host, Options, Placement, Row, Usage, in_process, in_process_machines};
use told::rows_alone;

/// Rows of 64 bytes, 16 to a page.
const COLUMNS: usize = 8;
const A_PAGE: usize = 16;
const ROWS: usize = 20 * A_PAGE;
const LIMIT: std::time::Duration = std::time::Duration::from_secs(120);
const OPTIONS: Options =
    Options { bytes: 1 << 20, views: A_PAGE, at: None, granularity: forebay_millipage::Granularity::Fine };

/// What hosts with memories of their own did in all, in `act` alone.
fn counted(hosts: u16, act: impl Fn(&Host, &[Row<u64>]) + Sync, from: impl Fn(usize) -> u16 + Sync) -> Usage {
    let _deadline = Deadline::new("hosts with rows of their own", LIMIT);
    let hosts = in_process(hosts, OPTIONS).unwrap();
    let each = |host: &Host| {
        leave_alternate_stack();
        let rows = rows_alone(host, ROWS, COLUMNS, &from);
        let _ = host.take_usage();
        host.barrier().unwrap();
        act(host, &rows);
        host.barrier().unwrap();
        let usage = host.take_usage();
        host.barrier().unwrap();
        usage
    };
    thread::scope(|scope| {
        let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(|| each(host))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold(Usage::default(), |mut all, one| {
            all += one;
            all
        })
    })
}

fn faults(Usage { counts: Counts { read_faults, write_faults, .. }, .. }: &Usage) -> u64 {
    read_faults + write_faults
}

/// Of what one fetch takes where no two parties to it are on one machine.
const MESSAGES: u64 = 4;

#[test]
fn rows_that_one_host_allocates_and_another_one_uses_come_a_page_at_a_time() {
    let all = |host: &Host, rows: &[Row<u64>]| {
        if host.rank() == 1 {
            rows.iter().for_each(|row| row.set(0, row.get(0) + 1));
            rows.iter().for_each(|row| assert_eq!(row.get(0), 1));
        }
    };
    let usage = counted(2, all, |_| 0);
    let pages = (ROWS / A_PAGE) as u64;
    // To read and then to write; the first page that a host claims may be one of several.
    assert!(faults(&usage) <= 2 * (pages + 2), "{usage:?}");
    assert!(usage.counts.in_company >= 2 * (ROWS as u64 - pages - 2), "{usage:?}");
    assert!(usage.traffic.messages_sent <= 2 * (pages + 2) * MESSAGES + 16, "{usage:?}");
}

#[test]
fn rows_that_hosts_use_in_turn_travel_together() {
    const ROUNDS: u64 = 10;
    let in_turn = |host: &Host, rows: &[Row<u64>]| {
        for round in 0..ROUNDS {
            for turn in 0..3 {
                if host.rank() == turn {
                    rows.iter().for_each(|row| row.set(1, row.get(1) + 1));
                }
                host.barrier().unwrap();
            }
            assert!(rows.iter().all(|row| row.get(1) == 3 * (round + 1)));
            host.barrier().unwrap();
        }
    };
    let usage = counted(3, in_turn, |_| 0);
    // Alone, each row is fetched 3 times to be written and 3 times to be read in each round.
    let alone = ROUNDS * 6 * ROWS as u64;
    assert!(faults(&usage) < alone / 2, "{} of {alone}: {usage:?}", faults(&usage));
}

/// Neighbours of which each host has every other one.
fn own(host: &Host, rows: &[Row<u64>], rounds: u64) {
    let mine = || rows.iter().skip(host.rank().into()).step_by(2);
    for round in 1..=rounds {
        mine().for_each(|row| row.set(0, row.get(0) + 1));
        assert!(mine().all(|row| row.get(0) == round));
    }
}

#[test]
fn rows_that_different_hosts_use_come_apart_for_good() {
    let few = counted(2, |host, rows| own(host, rows, 20), |_| 0);
    let many = counted(2, |host, rows| own(host, rows, 2_000), |_| 0);
    // Each row of the second host is fetched once to be read and once to be written, and takes one of the first host's along at most.
    let most = 2 * 2 * ROWS as u64;
    assert!(faults(&few) <= most && faults(&many) <= most, "{few:?}, {many:?}");
}

#[test]
fn rows_that_a_third_host_has_allocated_go_to_their_users_alone() {
    let of_two = |host: &Host, rows: &[Row<u64>]| {
        if host.rank() < 2 {
            (0..100)
                .for_each(|_| rows.iter().skip(host.rank().into()).step_by(2).for_each(|row| row.set(0, 1)));
        }
    };
    let usage = counted(3, of_two, |_| 2);
    assert!(faults(&usage) <= ROWS as u64 + ROWS as u64 / 8, "{usage:?}");
}

/// Rows of a kind that machines compete for begin apart, once that is known.
#[test]
fn what_was_learned_of_rows_holds_for_those_that_are_allocated_later() {
    let _deadline = Deadline::new("hosts that allocate again", LIMIT);
    let hosts = in_process(2, OPTIONS).unwrap();
    let each = |host: &Host| -> Vec<u64> {
        leave_alternate_stack();
        let batch = |batch: u64| {
            let rows = rows_alone(host, 4 * A_PAGE, COLUMNS, |_| 0);
            let _ = host.take_usage();
            host.barrier().unwrap();
            // The host that has allocated them uses all the time what the other one does not.
            for round in 1..=50 {
                rows.iter()
                    .skip(host.rank().into())
                    .step_by(2)
                    .for_each(|row| row.set(0, batch * 50 + round));
            }
            host.barrier().unwrap();
            faults(&host.take_usage())
        };
        (0..8).map(batch).collect()
    };
    let faults: Vec<Vec<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(|| each(host))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (first, last) = (faults[0][0], *faults[0].iter().min().unwrap());
    // Its own rows are taken along at first, and later are not.
    assert!(last * 4 <= first || first < 8, "{faults:?}");
}

#[test]
fn rows_that_are_freed_and_used_again_are_their_allocators() {
    let _deadline = Deadline::new("rows that are used again", LIMIT);
    let hosts = in_process(2, OPTIONS).unwrap();
    let each = |host: &Host| {
        leave_alternate_stack();
        let mut in_all = 0;
        for round in 0..30u64 {
            let rows = rows_alone(host, 4, COLUMNS, |_| 0);
            let kept = rows_alone(host, 4, COLUMNS, |_| 0);
            if host.rank() == 1 {
                rows.iter().for_each(|row| row.set(0, round));
                kept.iter().for_each(|row| row.set(0, round));
            }
            host.barrier().unwrap();
            let _ = host.take_usage();
            if host.rank() == 0 {
                rows.iter().for_each(|row| assert_eq!(row.get(0), round));
                rows.iter().for_each(|row| host.free(row.as_ptr() as usize).unwrap());
                let again: Vec<_> = (0..4).map(|_| host.malloc::<u64>(COLUMNS).unwrap()).collect();
                again.iter().for_each(|row| assert_eq!(row.get(0), 0));
                again.iter().for_each(|row| host.free(row.as_ptr() as usize).unwrap());
            } else {
                (0..1_000).for_each(|_| kept.iter().for_each(|row| row.set(1, row.get(1) + 1)));
                assert!(kept.iter().all(|row| (row.get(0), row.get(1)) == (round, 1_000)));
                kept.iter().for_each(|row| host.free(row.as_ptr() as usize).unwrap());
            }
            in_all += faults(&host.take_usage());
            host.barrier().unwrap();
        }
        in_all
    };
    thread::scope(|scope| hosts.iter().for_each(|host| _ = scope.spawn(|| assert!(each(host) < 30 * 40))));
}

#[test]
fn machines_of_several_hosts_use_rows_in_company() {
    let _deadline = Deadline::new("machines of several hosts", LIMIT);
    let hosts = in_process_machines(&[2, 2], OPTIONS).unwrap();
    let each = |host: &Host| {
        leave_alternate_stack();
        let rows = rows_alone(host, 4 * A_PAGE, COLUMNS, |index| index as u16 % 4);
        let sum = host.value::<u64>(Placement::On(0)).unwrap();
        for round in 1..=20u64 {
            host.lock(1).unwrap();
            rows.iter().for_each(|row| row.set(0, row.get(0) + 1));
            sum.set(sum.get() + 1);
            assert!(rows.iter().all(|row| row.get(0) == sum.get()));
            host.unlock(1).unwrap();
            if round % 5 == 0 {
                host.barrier().unwrap();
            }
        }
        host.barrier().unwrap();
        assert!(rows.iter().all(|row| row.get(0) == 80));
        host.barrier().unwrap();
    };
    thread::scope(|scope| hosts.iter().for_each(|host| _ = scope.spawn(|| each(host))));
}
