//! Calls that all hosts make together: hosts and threads that call something else are told.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use forebay_millipage::{Error, Placement};

use super::{SMALL, each, each_together};

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
