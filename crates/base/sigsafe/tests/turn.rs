//! State that one entry at a time uses. Miri runs these too: it sees references that overlap.

use std::thread;

use forebay_sigsafe::turn::Turn;

static COUNTED: Turn<(u64, [u64; 4])> = Turn::new((0, [0; 4]));

/// What a handler does at any moment: it counts, if nothing is in.
fn handler(turn: &Turn<u64>) -> bool {
    turn.enter(2).map(|mut held| *held += 1).is_some()
}

#[test]
fn a_second_entry_gets_nothing_while_the_first_is_in() {
    let turn = Turn::new(5u64);
    let mut first = turn.enter(1).expect("nothing is in");
    let value = &mut *first;
    *value += 1;
    assert!(!handler(&turn), "another entry");
    assert!(turn.enter(1).is_none(), "nor one with the same name");
    *value += 1;
    assert_eq!(turn.holder(), 1);
    drop(first);
    assert_eq!(turn.holder(), 0);
    assert!(handler(&turn));
    assert_eq!(turn.enter(1).map(|held| *held), Some(8));
}

#[test]
fn an_entry_without_a_name_gets_nothing() {
    assert!(Turn::new(()).enter(0).is_none());
}

#[test]
fn a_copy_that_forgets_what_it_holds_never_gets_it_again() {
    let turn = Turn::new(());
    std::mem::forget(turn.enter(1));
    assert!(turn.enter(1).is_none());
    assert_eq!(turn.holder(), 1);
}

#[test]
fn threads_see_what_the_entry_before_them_did() {
    let rounds = if cfg!(miri) { 50 } else { 10_000 };
    let worker = |name: usize| {
        move || {
            let mut entered = 0;
            for _ in 0..rounds {
                if let Some(mut held) = COUNTED.enter(name) {
                    let (sum, all) = &mut *held;
                    *sum += 1;
                    all[name % 4] += 1;
                    entered += 1;
                }
            }
            entered
        }
    };
    let threads: Vec<_> = (1..4).map(|name| thread::spawn(worker(name))).collect();
    let entered: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    let held = COUNTED.enter(1).expect("all have left");
    assert!(entered > 0);
    assert_eq!(held.0, entered);
    assert_eq!(held.1.iter().sum::<u64>(), entered);
}
