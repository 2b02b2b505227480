//! Atomic operations, and what threads of all hosts wait with: hosts in one process, each on a machine of its own, all on one
//! machine, and on machines of several.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use forebay_millipage::{
    Comparison, Condition, Error, Host, Operation, Options, Placement, ReadWrite, Row, Semaphore, Word,
    ending_at, has_atomics_of_128_bits, in_process, in_process_machines, in_process_together, interruptible,
};

const HOSTS: u16 = 3;
/// For whatever ends at once when nothing is wrong.
const LIMIT: Duration = Duration::from_secs(60);

/// Hosts of all kinds.
fn each(act: impl Fn(&Host) + Sync) {
    let options = Options { bytes: 1 << 20, ..Options::default() };
    let machines = [vec![1; HOSTS.into()], vec![HOSTS], vec![HOSTS - 1, 1]];
    for machines in machines {
        let hosts = in_process_machines(&machines, options).unwrap();
        thread::scope(|scope| {
            for host in &hosts {
                scope.spawn(|| act(host));
            }
        });
    }
}

/// A word of its own.
fn word(host: &Host) -> Row<u64> {
    host.value::<u64>(Placement::On(1)).unwrap().row()
}

fn until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "it is never so");
        thread::yield_now();
    }
}

/// Sums, and bits that each host sets, of words of one size.
macro_rules! exact {
    ($host:expr, $type:ty) => {{
        let host: &Host = $host;
        let row = host.rows::<$type>(1, 5, Placement::On(1)).unwrap().row(0);
        let (mine, times) = ((host.rank() + 1) as $type, 20);
        for _ in 0..times {
            row.atomic(0).fetch_add(mine, SeqCst);
            row.atomic(1).fetch_xor(1 << host.rank(), SeqCst);
            row.atomic(2).fetch_or(1 << host.rank(), SeqCst);
            row.atomic(3).fetch_max(mine, SeqCst);
            let next = |now: $type| Some(now + 1);
            row.atomic(4).fetch_update(SeqCst, SeqCst, next).unwrap();
        }
        host.barrier().unwrap();
        let found: Vec<$type> = (0..5).map(|column| row.get(column)).collect();
        assert_eq!(found, [6 * times, 0, 7, 3, 3 * times]);
        host.barrier().unwrap();
        row.atomic(2).fetch_and(!(1 << host.rank()), SeqCst);
        host.barrier().unwrap();
        assert_eq!(<$type>::load(row.atomic(2)), 0);
    }};
}

#[test]
fn atomic_operations_of_every_size_are_exact_for_all_hosts() {
    each(|host| {
        exact!(host, u8);
        exact!(host, i16);
        exact!(host, u32);
        exact!(host, i64);
        exact!(host, usize);
        if has_atomics_of_128_bits() {
            exact!(host, u128);
        }
    });
}

#[test]
fn what_is_swapped_into_a_word_comes_out_once() {
    each(|host| {
        let (row, sum) = (word(host), word(host));
        for number in 1..=100 {
            let was = row.atomic(0).swap(1_000 * u64::from(host.rank()) + number, SeqCst);
            sum.atomic(0).fetch_add(was, SeqCst);
        }
        host.barrier().unwrap();
        assert_eq!(sum.get(0) + row.get(0), 3 * 5_050 + 100 * 3_000);
        host.barrier().unwrap();
    });
}

#[test]
fn operations_by_address_are_those_by_type() {
    let alone = &in_process(1, Options::default()).unwrap()[0];
    let bytes = alone.rows::<u8>(1, 64, Placement::On(0)).unwrap().row(0);
    let address = bytes.as_ptr() as usize;
    for size in [1usize, 2, 4, 8, 16] {
        if size == 16 && !has_atomics_of_128_bits() {
            continue;
        }
        let at = address + 2 * size;
        let largest = u128::MAX >> (128 - 8 * size as u32);
        let operate = |operation, value| alone.operate(at, size, operation, value).unwrap();
        let compare = |expected, value| operate(Operation::CompareExchange { expected }, value);
        assert_eq!(operate(Operation::Store, largest), 0);
        assert_eq!(operate(Operation::Add, 3), largest);
        assert_eq!(compare(5, 9), 2);
        assert_eq!(compare(2, 12), 2);
        assert_eq!(operate(Operation::Xor, 10), 12);
        assert_eq!(operate(Operation::Or, 1), 6);
        assert_eq!(operate(Operation::And, 5), 7);
        assert_eq!(operate(Operation::Load, 0), 5);
        assert_eq!(operate(Operation::Store, 0), 5);
        assert_eq!((bytes.get(2 * size - 1), bytes.get(3 * size)), (0, 0));
    }
    let said = |address, size| alone.operate(address, size, Operation::Load, 0).unwrap_err().to_string();
    for (address, size) in [(address + 1, 2), (address, 3), (address, 0), (address + 8, 16), (address, 32)] {
        assert!(said(address, size).contains("1, 2, 4, 8 or 16 bytes"), "{size}: {}", said(address, size));
    }
    assert!(said(address + 64, 8).contains("not all of one allocation"), "{}", said(address + 64, 8));
}

#[test]
fn a_thread_waits_until_a_word_is_as_it_wants_however_it_is_stored() {
    each(|host| {
        let row = word(host);
        let (me, hosts) = (u64::from(host.rank()), u64::from(HOSTS));
        for round in 0..20 {
            assert_eq!(row.wait_until(0, |turn| turn >= round * hosts + me).unwrap(), round * hosts + me);
            row.set(0, round * hosts + me + 1);
        }
        let address = row.as_ptr() as usize;
        let number = i128::from(20 * hosts);
        for (is_signed, comparison, other) in [
            (true, Comparison::GreaterOrEqual, number),
            (true, Comparison::Greater, -5),
            (false, Comparison::Greater, -5),
            (false, Comparison::Less, i128::MAX),
        ] {
            let ended = host.wait_until(address, 8, is_signed, comparison, other).unwrap();
            assert_eq!(ended, number.cast_unsigned());
        }
        host.barrier().unwrap();
    });
}

#[test]
fn a_word_is_compared_with_numbers_that_it_cannot_be() {
    fn at_once() -> bool {
        true
    }
    let alone = &in_process(1, Options::default()).unwrap()[0];
    let bytes = alone.rows::<u8>(1, 8, Placement::On(0)).unwrap().row(0);
    let address = bytes.as_ptr() as usize;
    for (word, is_signed, value) in [(0, false, 0), (200, false, 200), (200, true, -56)] {
        bytes.set(0, word);
        for number in [-256, -1, 200, 255, 256, 1 << 40] {
            for (comparison, is_met) in [
                (Comparison::Equal, value == number),
                (Comparison::NotEqual, value != number),
                (Comparison::Less, value < number),
                (Comparison::LessOrEqual, value <= number),
                (Comparison::Greater, value > number),
                (Comparison::GreaterOrEqual, value >= number),
            ] {
                let ended =
                    interruptible(at_once, || alone.wait_until(address, 1, is_signed, comparison, number));
                assert_eq!(ended.is_ok(), is_met, "{value} {comparison:?} {number}: {ended:?}");
            }
        }
    }
}

#[test]
fn no_more_threads_have_a_unit_of_a_semaphore_than_there_are() {
    each(|host| {
        let (units, inside, most) = (word(host), word(host), word(host));
        let semaphore = Semaphore::of(&units, 0);
        if host.rank() == 0 {
            semaphore.release(2).unwrap();
        }
        for _ in 0..50 {
            semaphore.acquire().unwrap();
            let now = inside.atomic(0).fetch_add(1, SeqCst) + 1;
            most.atomic(0).fetch_max(now, SeqCst);
            inside.atomic(0).fetch_sub(1, SeqCst);
            semaphore.release(1).unwrap();
        }
        host.barrier().unwrap();
        assert_eq!((semaphore.units(), inside.get(0)), (2, 0));
        assert!(most.get(0) <= 2, "{} threads have one of two units", most.get(0));
        host.barrier().unwrap();
        if host.rank() == 1 {
            assert!(semaphore.try_acquire() && semaphore.try_acquire() && !semaphore.try_acquire());
            assert!(matches!(Semaphore::of(&units, 0).release(u32::MAX), Ok(())));
            assert!(matches!(semaphore.release(1), Err(Error::TooManyUnits)));
        }
        host.barrier().unwrap();
    });
}

#[test]
fn a_condition_wakes_as_many_threads_as_are_notified() {
    each(|host| {
        let (condition, state) = (word(host), host.rows::<u64>(1, 2, Placement::On(0)).unwrap().row(0));
        let condition = Condition::of(&condition, 0);
        let (waiting, woken) = (0, 1);
        if host.rank() > 0 {
            host.lock(9).unwrap();
            state.set(waiting, state.get(waiting) + 1);
            condition.wait(host, 9).unwrap();
            state.set(woken, state.get(woken) + 1);
            host.unlock(9).unwrap();
        } else {
            let locked = |column| {
                host.lock(9).unwrap();
                let now = state.get(column);
                host.unlock(9).unwrap();
                now
            };
            until(|| locked(waiting) == 2);
            condition.notify(1);
            until(|| locked(woken) == 1);
            condition.notify(u32::MAX);
            until(|| locked(woken) == 2);
        }
        host.barrier().unwrap();
        // Without the lock there is nothing to give up.
        assert!(matches!(condition.wait(host, 77), Err(Error::NotLocked(77))));
        host.barrier().unwrap();
    });
}

#[test]
fn items_pass_from_hosts_to_hosts_once_each() {
    each(|host| {
        let (condition, queue) = (word(host), host.rows::<u64>(1, 4, Placement::On(1)).unwrap().row(0));
        let condition = Condition::of(&condition, 0);
        let (put, taken, sum, items) = (0, 1, 2, 60);
        let change = |column, by| queue.set(column, queue.get(column) + by);
        loop {
            host.lock(1).unwrap();
            // Host 0 puts items that the others take, two at most at a time.
            let is_producer = host.rank() == 0;
            let can_go_on = || {
                let ready = queue.get(put) - queue.get(taken);
                if is_producer { ready < 2 } else { ready > 0 || queue.get(put) == items }
            };
            while !can_go_on() {
                condition.wait(host, 1).unwrap();
            }
            let is_over = if is_producer { queue.get(put) == items } else { queue.get(taken) == items };
            if !is_over && is_producer {
                change(put, 1);
            } else if !is_over && queue.get(put) > queue.get(taken) {
                change(taken, 1);
                change(sum, queue.get(taken));
            }
            condition.notify(u32::MAX);
            host.unlock(1).unwrap();
            if is_over {
                break;
            }
        }
        host.barrier().unwrap();
        assert_eq!((queue.get(taken), queue.get(sum)), (items, items * (items + 1) / 2));
        host.barrier().unwrap();
    });
}

#[test]
fn readers_never_see_what_a_writer_has_half_done() {
    each(|host| {
        let (lock, pair) = (word(host), host.rows::<u64>(2, 1, Placement::Cyclic).unwrap());
        let lock = ReadWrite::of(&lock, 0);
        for round in 0..40 {
            if (round + host.rank()).is_multiple_of(4) {
                lock.write().unwrap();
                (0..2).for_each(|index| pair.row(index).set(0, pair.row(index).get(0) + 1));
            } else {
                lock.read().unwrap();
                assert_eq!(pair.row(0).get(0), pair.row(1).get(0));
            }
            lock.unlock().unwrap();
        }
        host.barrier().unwrap();
        assert_eq!(pair.row(0).get(0), 30);
        host.barrier().unwrap();
        if host.rank() == 0 {
            assert!(matches!(lock.unlock(), Err(Error::NotTaken)));
            assert!(lock.try_read() && lock.try_read() && !lock.try_write());
            lock.unlock().and_then(|()| lock.unlock()).unwrap();
            assert!(lock.try_write() && !lock.try_read());
        }
        host.barrier().unwrap();
    });
}

#[test]
fn a_lock_that_is_tried_is_had_by_one_thread_at_a_time() {
    each(|host| {
        let sum = word(host);
        let mut got = 0;
        while got < 20 {
            if host.try_lock(6).unwrap() {
                sum.set(0, sum.get(0) + 1);
                got += 1;
                host.unlock(6).unwrap();
            } else {
                thread::yield_now();
            }
        }
        host.barrier().unwrap();
        assert_eq!(sum.get(0), 60);
        // A lock that another host has is not to be had.
        if host.rank() == 2 {
            host.lock(6).unwrap();
        }
        host.barrier().unwrap();
        assert!(!host.try_lock(6).unwrap());
        host.barrier().unwrap();
        if host.rank() == 2 {
            host.unlock(6).unwrap();
        }
        host.barrier().unwrap();
        until(|| host.try_lock(6).unwrap());
        host.unlock(6).unwrap();
        host.barrier().unwrap();
    });
}

#[test]
fn a_recursive_lock_is_given_up_when_it_is_unlocked_as_often() {
    each(|host| {
        let sum = word(host);
        for _ in 0..10 {
            (0..3).for_each(|_| host.lock_recursive(2).unwrap());
            sum.set(0, sum.get(0) + 1);
            (0..2).for_each(|_| host.unlock(2).unwrap());
            let from_another_thread = thread::scope(|scope| scope.spawn(|| host.unlock(2)).join().unwrap());
            assert!(matches!(from_another_thread, Err(Error::NotMine(2))));
            sum.set(0, sum.get(0) + 1);
            host.unlock(2).unwrap();
        }
        host.barrier().unwrap();
        assert_eq!(sum.get(0), 60);
        assert!(matches!(host.unlock(2), Err(Error::NotLocked(2))));
        host.barrier().unwrap();
    });
}

#[test]
fn a_call_that_waits_can_be_interrupted_and_leaves_nothing_behind() {
    fn at_once() -> bool {
        true
    }
    for host in in_process_together(1, Options::default()).unwrap() {
        let words = host.rows::<u64>(4, 1, Placement::On(0)).unwrap();
        let semaphore = Semaphore::of(&words.row(0), 0);
        let lock = ReadWrite::of(&words.row(1), 0);
        let condition = Condition::of(&words.row(2), 0);
        host.lock(1).unwrap();
        lock.read().unwrap();
        let calls: [&dyn Fn() -> Result<(), Error>; 4] =
            [&|| host.lock(1), &|| semaphore.acquire(), &|| lock.write(), &|| {
                words.row(3).wait_until(0, |now| now > 0).map(|_| ())
            }];
        for call in calls {
            assert!(matches!(interruptible(at_once, call), Err(Error::Interrupted)));
            assert!(matches!(ending_at(Some(Instant::now()), call), Err(Error::Interrupted)));
        }
        assert!(matches!(interruptible(at_once, || condition.wait(&host, 1)), Err(Error::Interrupted)));
        let waited = ending_at(Some(Instant::now()), || condition.wait(&host, 1));
        assert!(matches!(waited, Err(Error::Interrupted)) && !host.try_lock(1).unwrap());
        // A reader would wait for a writer, and a unit would be someone else's.
        assert!(lock.try_read());
        semaphore.release(1).unwrap();
        assert!(semaphore.try_acquire());
        assert!(host.try_lock(5).unwrap());
        let is_notified = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                condition.wait(&host, 5).unwrap();
                is_notified.store(true, SeqCst);
                host.unlock(5).unwrap();
            });
            until(|| host.try_lock(5).unwrap());
            condition.notify(1);
            host.unlock(5).unwrap();
        });
        assert!(is_notified.load(SeqCst));
    }
}

#[test]
fn a_call_that_waits_for_hosts_of_other_machines_can_be_interrupted() {
    fn at_once() -> bool {
        true
    }
    each(|host| {
        let team = host.team(&[0, 1]).unwrap();
        if host.rank() == 1 {
            host.lock(1).unwrap();
        }
        host.barrier().unwrap();
        if host.rank() != 1 {
            assert!(matches!(interruptible(at_once, || host.lock(1)), Err(Error::Interrupted)));
        }
        host.barrier().unwrap();
        if host.rank() == 1 {
            host.unlock(1).unwrap();
        }
        // A host that has ceased to wait has nothing, and can have it later.
        for _ in 0..3 {
            host.lock(1).unwrap();
            host.unlock(1).unwrap();
        }
        host.barrier().unwrap();
        let alone = match host.rank() {
            0 => interruptible(at_once, || team.barrier()),
            2 => interruptible(at_once, || host.barrier()),
            _ => return,
        };
        assert!(matches!(alone, Err(Error::Interrupted)), "{alone:?}");
        // Others may have passed it, or wait for this host in the next one.
        for later in [host.barrier(), host.everyone().map(|_| ())] {
            assert!(later.unwrap_err().to_string().contains("this call was interrupted"));
        }
    });
}

#[test]
fn every_wait_ends_when_a_host_fails() {
    let options = Options { bytes: 1 << 20, ..Options::default() };
    let hosts = in_process_machines(&[HOSTS], options).unwrap();
    thread::scope(|scope| {
        for host in &hosts {
            scope.spawn(|| {
                let row = word(host);
                let address = row.as_ptr() as usize;
                host.barrier().unwrap();
                if host.rank() == 2 {
                    return host.fail();
                }
                for ended in [
                    Semaphore::at(host, address).unwrap().acquire(),
                    row.wait_until(0, |word| word == u64::MAX).map(drop),
                    host.barrier(),
                    host.barrier(),
                ] {
                    assert!(matches!(ended, Err(Error::Lost { host: 2, .. })), "{ended:?}");
                }
            });
        }
    });
}

#[test]
fn hosts_of_different_machines_learn_what_the_others_called() {
    let machines = in_process_machines(&[2, 1, 1], Options::default()).unwrap();
    let heard = AtomicU32::new(0);
    thread::scope(|scope| {
        for host in &machines {
            let heard = &heard;
            scope.spawn(move || {
                // Hosts 0 and 3 are on one machine.
                let is_one_of_all = host.rank() == 2;
                let called = if is_one_of_all {
                    host.rows::<u64>(1, 2, Placement::Blocks).err()
                } else {
                    host.barrier().err()
                };
                let said = called.unwrap().to_string();
                let wanted =
                    if is_one_of_all { "host 0 called barrier()" } else { "host 2 called rows_in_chunks()" };
                assert!(said.contains(wanted), "{said}");
                let other = host.rows::<u64>(1 + usize::from(is_one_of_all), 3, Placement::Blocks).err();
                let said = other.unwrap().to_string();
                assert!(said.contains("called rows_in_chunks() with other arguments"), "{said}");
                host.barrier().unwrap();
                heard.fetch_add(1, SeqCst);
            });
        }
    });
    assert_eq!(heard.load(SeqCst), 4);
}
