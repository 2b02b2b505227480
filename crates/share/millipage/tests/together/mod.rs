//! What all hosts allocate and free together.

use forebay_millipage::{Error, Placement};

use super::{SMALL, each, each_separate};

#[test]
fn memory_that_all_hosts_have_freed_is_used_again_full_of_zeros() {
    const PLACEMENTS: [Placement; 4] =
        [Placement::Blocks, Placement::Cyclic, Placement::On(1), Placement::Copies];
    each(3, SMALL, |host| {
        let kept = host.rows::<u64>(5, 7, Placement::Cyclic).unwrap();
        kept.row(0).push();
        // Of 1 MiB in all.
        for round in 0..60u64 {
            let placement = PLACEMENTS[(round % 4) as usize];
            let large = host.rows_in_chunks::<u64>(60, 300, 7, placement).unwrap();
            let small = host.value::<u64>(placement).unwrap();
            for row in 0..large.len() {
                assert!([0, 299].iter().all(|column| large.row(row).get(*column) == 0), "{round} {row}");
            }
            assert_eq!(small.get(), 0);
            host.barrier().unwrap();
            for row in (usize::from(host.rank())..large.len()).step_by(3) {
                large.row(row).write(0, &[round + 1; 300]);
            }
            if host.rank() == 0 {
                small.set(round + 1);
                kept.row(1).set(6, round);
            }
            host.barrier().unwrap();
            assert!((0..60).all(|row| large.row(row).get(299) == round + 1) && small.get() == round + 1);
            for first in [large.row(0).as_ptr() as usize, small.row().as_ptr() as usize] {
                host.free_together(first).unwrap();
                let error = host.free_together(first).unwrap_err();
                assert!(matches!(error, Error::NotAllocatedTogether { .. }), "{error}");
            }
            assert_eq!(kept.row(1).get(6), round);
            host.barrier().unwrap();
        }
        for wrong in [kept.row(1).as_ptr() as usize, host.area().end] {
            assert!(matches!(host.free_together(wrong), Err(Error::NotAllocatedTogether { .. })));
        }
    });
}

#[test]
fn memory_that_was_freed_is_that_of_all_sizes() {
    each(3, SMALL, |host| {
        let all = host.left();
        for round in 0..60 {
            let rows = 1 + round % 50;
            let one = host.rows::<u8>(rows, 4_096, Placement::Blocks).unwrap();
            let other = host.rows::<u8>(3 * rows, 1_000, Placement::Cyclic).unwrap();
            let address = other.row(0).as_ptr() as usize;
            assert!(host.bytes_at(address, 1_000).is_ok());
            let mine = round % 3 == usize::from(host.rank());
            for row in (0..rows).filter(|_| mine) {
                assert_eq!((one.row(row).get(0), other.row(row).get(999)), (0, 0), "{row} in round {round}");
                one.row(row).write(0, &[7; 4_096]);
                other.row(row).set(999, 7);
            }
            for first in [one.row(0).as_ptr() as usize, address] {
                host.free_together(first).unwrap();
            }
            assert!(host.bytes_at(address, 1).is_err());
            assert_eq!(host.left(), all);
        }
        host.rows::<u8>(1, all, Placement::Blocks).unwrap();
    });
}

#[test]
fn hosts_that_free_different_rows_are_told() {
    each(2, SMALL, |host| {
        let rows = [0, 1].map(|_| host.rows::<u64>(4, 100, Placement::Blocks).unwrap());
        let address = rows[usize::from(host.rank())].row(0).as_ptr() as usize;
        let error = host.free_together(address).unwrap_err();
        assert!(matches!(error, Error::Disagreement { .. }), "{error}");
        rows.iter().for_each(|rows| assert!(host.bytes_at(rows.row(3).as_ptr() as usize, 800).is_ok()));
        host.barrier().unwrap();
    });
}

/// No thread waits for what is asked for in advance, so much of it is under way when hosts free the rows.
#[test]
fn what_is_asked_for_in_advance_is_over_when_rows_are_freed() {
    each_separate(3, SMALL, |host| {
        for round in 0..60usize {
            let (count, home) = (1 + round * 7 % 60, (round % 3) as u16);
            let rows = host.rows::<u64>(count, 1 + round % 40, Placement::On(home)).unwrap();
            let is_new = |row: usize| rows.row(row).get(0) == 0;
            assert!(
                (0..count).filter(|row| row % 3 == usize::from(host.rank())).all(is_new),
                "round {round}"
            );
            host.barrier().unwrap();
            for row in 0..count {
                match (row + round + usize::from(host.rank())) % 4 {
                    0 => rows.row(row).prefetch_for_writing(),
                    1 => rows.row(row).set(0, 1 + round as u64),
                    2 => rows.row(row).push(),
                    _ => rows.row(row).prefetch(),
                }
            }
            host.free_together(rows.row(0).as_ptr() as usize).unwrap();
        }
    });
}
