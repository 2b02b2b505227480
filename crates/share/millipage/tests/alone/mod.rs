//! What hosts allocate alone.

use std::{sync::atomic::Ordering::SeqCst, thread};

use forebay_millipage::{Counts, Error, Host, Options, Placement, Value, in_process};

use super::{SMALL, all, chance::leave_alternate_stack, each};

/// A word that all hosts know, by which they tell each other addresses within the memory.
fn told(host: &Host, word: &Value<u64>, from: u16, address: Option<usize>) -> usize {
    let base = host.area().start;
    host.barrier().unwrap();
    if host.rank() == from {
        word.set((address.unwrap() - base) as u64);
    }
    host.barrier().unwrap();
    base + word.get() as usize
}

#[test]
fn what_a_host_allocates_alone_is_used_and_freed_by_all() {
    each(3, SMALL, |host| {
        let word = host.value::<u64>(Placement::On(0)).unwrap();
        for bytes in [1, 16, 250, 3_000, 4_096, 20_000] {
            for from in 0..3 {
                let mine = (host.rank() == from).then(|| host.malloc::<u8>(bytes).unwrap());
                let address = told(host, &word, from, mine.map(|row| row.as_ptr() as usize));
                let row = host.bytes_at(address, bytes).unwrap();
                assert!((0..bytes).all(|byte| row.get(byte) == 0), "{bytes} bytes are not zero");
                for turn in 0..3 {
                    host.barrier().unwrap();
                    if host.rank() == turn {
                        row.write(0, &vec![turn as u8 + 1; bytes]);
                    }
                    host.barrier().unwrap();
                    assert!([0, bytes - 1].iter().all(|byte| row.get(*byte) == turn as u8 + 1));
                }
                host.barrier().unwrap();
                if host.rank() == 2 {
                    for wrong in [address + 1, address - 16, 8, word.row().as_ptr() as usize] {
                        let error = host.free(wrong).unwrap_err();
                        assert!(matches!(error, Error::NotAllocated { .. }), "{error}");
                    }
                    host.free(address).unwrap();
                    assert!(host.free(address).is_err(), "twice");
                }
                host.barrier().unwrap();
                // What was freed is used again, full of zeros.
                if host.rank() == from {
                    let again = host.malloc::<u8>(bytes).unwrap();
                    assert_eq!(again.as_ptr() as usize, address);
                    assert!((0..bytes).all(|byte| again.get(byte) == 0));
                    host.free(address).unwrap();
                }
                host.barrier().unwrap();
            }
        }
    });
}

#[test]
fn hosts_allocate_alone_while_others_compute_and_do_not_disturb_each_other() {
    let small = Options { views: 32, ..SMALL };
    each(3, small, |host| {
        let done = host.rows::<u64>(3, 1, Placement::Cyclic).unwrap();
        let rows: Vec<_> = (0..40).map(|_| host.malloc::<u64>(2).unwrap()).collect();
        let mut addresses: Vec<usize> = rows.iter().map(|row| row.as_ptr() as usize).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= 16));
        for round in 0..50 {
            rows.iter().for_each(|row| row.set(1, row.get(1) + round));
        }
        assert!(rows.iter().all(|row| row.get(1) == 49 * 50 / 2));
        // The others do not take part: they may be here already, or not yet.
        done.row(host.rank().into()).set(0, 1);
        host.barrier().unwrap();
        rows.iter().for_each(|row| host.free(row.as_ptr() as usize).unwrap());
        host.barrier().unwrap();
    });
    // Rows of one host are not fetched for its own use.
    all(&in_process(2, small).unwrap(), &|host| {
        host.malloc::<u64>(2).unwrap();
        host.barrier().unwrap();
        let _ = host.take_counts();
        (0..40).for_each(|_| host.malloc::<u64>(2).unwrap().set(0, 1));
        let Counts { read_faults, write_faults, contents_received, .. } = host.take_counts();
        assert_eq!((read_faults, contents_received), (0, 0));
        assert_eq!(write_faults, 0);
        host.barrier().unwrap();
    });
}

#[test]
fn a_host_that_finds_no_room_learns_how_much_is_left() {
    each(2, Options { bytes: 1 << 16, ..SMALL }, |host| {
        host.barrier().unwrap();
        let error = host.malloc::<u8>(1 << 17).map(drop).unwrap_err().to_string();
        assert!(error.contains("131072 bytes of shared memory do not fit: 65536 of 65536"), "{error}");
        assert!(error.contains("--size"), "{error}");
        host.barrier().unwrap();
        if host.rank() == 0 {
            let large = host.malloc::<u8>(10 * 4_096).unwrap();
            let small = std::iter::from_fn(|| host.malloc::<u8>(200).ok()).count();
            assert_eq!((small, host.malloc_left()), (6 * 16, 0));
            let error = host.malloc::<u64>(1).map(drop).unwrap_err().to_string();
            assert!(error.contains("8 bytes of shared memory do not fit: 0 of 65536"), "{error}");
            host.free(large.as_ptr() as usize).unwrap();
            assert_eq!(host.malloc_left(), 10 * 4_096);
            host.malloc::<u8>(9 * 4_096).unwrap();
        }
        assert!(host.malloc::<u8>(0).is_err());
        // What hosts allocate together has a place of its own.
        host.rows::<u8>(1, 60_000, Placement::Blocks).unwrap();
    });
}

#[test]
fn threads_of_hosts_allocate_and_free_at_the_same_time() {
    each(3, SMALL, |host| {
        // Each host frees what the one before it has allocated.
        let boxes = host.rows::<u64>(3, 1, Placement::Cyclic).unwrap();
        let (mine, before) = (boxes.row(host.rank().into()), boxes.row(((host.rank() + 2) % 3).into()));
        let base = host.area().start;
        thread::scope(|scope| {
            scope.spawn(|| {
                leave_alternate_stack();
                for number in 0..100u64 {
                    mine.wait_until(0, |word| word == 0).unwrap();
                    let row = host.malloc::<u64>(1 + number as usize % 40).unwrap();
                    row.set(0, number);
                    mine.atomic(0).store((row.as_ptr() as usize - base) as u64, SeqCst);
                    mine.ring(0);
                }
            });
            scope.spawn(|| {
                leave_alternate_stack();
                for number in 0..100 {
                    let offset = before.wait_until(0, |word| word != 0).unwrap() as usize;
                    assert_eq!(host.bytes_at(base + offset, 8).unwrap().get(0), number);
                    host.free(base + offset).unwrap();
                    before.atomic(0).store(0, SeqCst);
                    before.ring(0);
                }
            });
        });
        host.barrier().unwrap();
    });
}

#[test]
fn what_is_foretold_may_have_been_freed_and_used_again() {
    each(3, SMALL, |host| {
        let word = host.value::<u64>(Placement::On(0)).unwrap();
        let mut kept = vec![];
        let _ = host.take_counts();
        for round in 0..90u64 {
            let mine = (host.rank() == 0).then(|| host.malloc::<u64>(8).unwrap());
            let address = told(host, &word, 0, mine.map(|row| row.as_ptr() as usize));
            let row = host.bytes_at(address, 64).unwrap();
            let value = 1 + (round % 255) as u8;
            if host.rank() == (round % 2 + 1) as u16 {
                assert!((0..64).all(|byte| row.get(byte) == 0), "round {round}");
                row.write(0, &[value; 64]);
            }
            host.barrier().unwrap();
            assert!((0..64).all(|byte| row.get(byte) == value), "round {round}");
            host.barrier().unwrap();
            // In each third round the number stays taken, and another one is used from then on.
            match round % 3 {
                0 => kept.push((row, value)),
                _ if host.rank() == 2 => host.free(address).unwrap(),
                _ => {}
            }
            host.barrier().unwrap();
        }
        assert!(kept.iter().all(|(row, value)| row.get(0) == *value && row.get(63) == *value));
        host.barrier().unwrap();
    });
}
