//! Locks: exact, apart from each other, had by all that want them, and limited in number.

use std::time::{Duration, Instant};

use forebay_millipage::{Error, Placement, in_process_together};

use super::{SMALL, each, each_together};

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

#[test]
fn a_lock_too_many_is_refused_and_the_others_stay() {
    let host = in_process_together(1, SMALL).unwrap().remove(0);
    let (lock, refused) =
        (0..).find_map(|lock| Some((lock, host.lock(lock).and_then(|()| host.unlock(lock)).err()?))).unwrap();
    assert!(matches!(refused, Error::TooManyLocks { limit } if limit == lock as usize), "{lock}: {refused}");
    host.lock(17).unwrap();
    host.unlock(17).unwrap();
}
