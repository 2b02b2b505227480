//! The hint log: order, bounds, and what it does with memory that a broken process wrote to.

mod support;

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use forebay_protocol::hint_log::{Consumed, Consumer, Full, KEPT, Producer, Readers, WINDOW, reset};
use forebay_protocol::layout::{LOG_ENTRIES, mark};
use proptest::prelude::*;

const MATCHED: Consumed = Consumed::Matched { mark: 0, skipped: 0 };

#[test]
fn calls_are_consumed_in_the_order_they_were_made() {
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 3), Consumer::new(&slot, 3));
    for signature in 1..=3 {
        producer.push(signature, signature << 8 | mark::HINTED).unwrap();
    }
    assert_eq!((producer.len(), producer.position()), (3, 3));
    assert_eq!(consumer.consume(1, Readers::One), Consumed::Matched { mark: 1 << 8 | 1, skipped: 0 });
    assert_eq!(consumer.consume(3, Readers::One), Consumed::Matched { mark: 3 << 8 | 1, skipped: 1 });
    assert_eq!(consumer.consume(2, Readers::One), Consumed::Absent { empty: true });
    assert_eq!((consumer.position(), producer.len()), (3, 0));
}

#[test]
fn only_hinted_entries_count_as_skipped() {
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 0), Consumer::new(&slot, 0));
    for (signature, mark) in [(1, 0), (2, mark::HINTED), (3, mark::PREDICTED), (4, 0)] {
        producer.push(signature, mark).unwrap();
    }
    assert_eq!(consumer.consume(4, Readers::One), Consumed::Matched { mark: 0, skipped: 1 });
}

#[test]
fn a_call_beyond_the_window_is_absent_and_disturbs_nothing() {
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 0), Consumer::new(&slot, 0));
    for signature in 0..=WINDOW {
        producer.push(signature + 1, 0).unwrap();
    }
    assert_eq!(consumer.consume(WINDOW + 1, Readers::One), Consumed::Absent { empty: false });
    assert_eq!(consumer.consume(1, Readers::One), MATCHED);
    assert_eq!(consumer.consume(WINDOW + 1, Readers::One), MATCHED);
}

#[test]
fn a_full_log_takes_more_as_soon_as_an_entry_is_consumed() {
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 0), Consumer::new(&slot, 0));
    for signature in 0..LOG_ENTRIES as u64 - 1 {
        producer.push(signature + 1, 0).unwrap();
    }
    assert_eq!(producer.push(9, 0), Err(Full));
    assert_eq!(consumer.consume(1, Readers::One), MATCHED);
    assert_eq!(producer.push(9, 0), Ok(()));
    assert_eq!(producer.push(9, 0), Err(Full));
}

#[test]
fn abandoned_hints_are_counted_once() {
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 1), Consumer::new(&slot, 1));
    for signature in 0..10 {
        producer.push(signature + 1, signature & mark::HINTED).unwrap();
    }
    assert_eq!(consumer.abandon(), 5);
    assert_eq!(consumer.abandon(), 0);
    assert!(consumer.is_empty());
}

#[test]
fn generations_use_logs_in_turn_and_a_reset_log_is_empty() {
    let slot = support::slot();
    Producer::new(&slot, 1).push(7, 0).unwrap();
    assert_eq!(Consumer::new(&slot, 2).consume(7, Readers::One), Consumed::Absent { empty: true });
    assert_eq!(Consumer::new(&slot, 5).len(), 1);
    reset(&slot, 5);
    assert_eq!(Consumer::new(&slot, 1).consume(7, Readers::One), Consumed::Absent { empty: true });
    assert_eq!(Producer::new(&slot, u32::MAX).position(), 0);
}

#[test]
fn several_threads_find_their_calls_in_any_order() {
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 0), Consumer::new(&slot, 0));
    for signature in 1..=KEPT {
        producer.push(signature, mark::HINTED).unwrap();
    }
    let hinted = Consumed::Matched { mark: mark::HINTED, skipped: 0 };
    for signature in (1..=KEPT).rev() {
        assert_eq!(consumer.consume(signature, Readers::Several), hinted);
        assert_eq!(consumer.consume(signature, Readers::Several), Consumed::Absent { empty: true }, "again");
        assert_eq!(consumer.len(), if signature == 1 { 0 } else { KEPT });
    }
    assert_eq!(consumer.abandon(), 0);
}

#[test]
fn the_speculator_knows_what_was_found_behind_other_entries() {
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 0), Consumer::new(&slot, 0));
    for signature in 1..=4 {
        producer.push(signature, signature << 8).unwrap();
    }
    let _ = (consumer.consume(2, Readers::Several), consumer.consume(4, Readers::Several));
    assert_eq!(producer.found().collect::<Vec<_>>(), [2 << 8, 4 << 8]);
    let _ = consumer.consume(1, Readers::Several);
    assert_eq!(producer.found().collect::<Vec<_>>(), [4 << 8]);
}

#[test]
fn what_no_thread_comes_for_is_dropped_in_the_end() {
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 0), Consumer::new(&slot, 0));
    for signature in 1..=KEPT + 2 {
        producer.push(signature, mark::HINTED).unwrap();
    }
    let passed = |skipped| Consumed::Matched { mark: mark::HINTED, skipped };
    assert_eq!(consumer.consume(2, Readers::Several), passed(0));
    assert_eq!(consumer.consume(KEPT + 2, Readers::Several), passed(1));
    assert_eq!(consumer.position(), 2);
    assert_eq!(consumer.consume(1, Readers::Several), Consumed::Absent { empty: true });
    assert_eq!(consumer.abandon(), KEPT - 1);
}

#[test]
fn threads_that_consume_at_once_find_each_entry_once() {
    const CALLS: u64 = 100_000;
    const THREADS: u64 = 3;
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 0), Consumer::new(&slot, 0));
    let found: u64 = std::thread::scope(|scope| {
        scope.spawn(|| {
            for call in 1..=CALLS {
                while producer.push(call, call << 8).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let readers = (0..THREADS).map(|_| {
            scope.spawn(|| {
                // Each looks for all of them, and the one that is behind finds none until it has caught up.
                let mut found = 0;
                for call in 1..=CALLS {
                    while consumer.is_empty() && consumer.position() < CALLS && call > consumer.position() {
                        std::thread::yield_now();
                    }
                    if let Consumed::Matched { mark, .. } = consumer.consume(call, Readers::Several) {
                        assert_eq!(mark, call << 8);
                        found += 1;
                    }
                }
                found
            })
        });
        readers.collect::<Vec<_>>().into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert_eq!(found, CALLS);
}

#[test]
fn two_threads_pass_every_entry_whole() {
    const CALLS: u64 = 300_000;
    let slot = support::slot();
    let (producer, consumer) = (Producer::new(&slot, 0), Consumer::new(&slot, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for call in 1..=CALLS {
                while producer.push(call, call.wrapping_mul(3) << 1).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        for call in 1..=CALLS {
            loop {
                match consumer.consume(call, Readers::One) {
                    Consumed::Matched { mark, skipped } => {
                        assert_eq!((mark, skipped), (call.wrapping_mul(3) << 1, 0));
                        break;
                    }
                    Consumed::Absent { empty } => {
                        assert!(empty, "call {call} was not first in line");
                        std::thread::yield_now();
                    }
                }
            }
        }
    });
    assert!(consumer.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Push(u64, u64),
    Consume(u64),
    Abandon,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..40u64, any::<u64>()).prop_map(|(signature, mark)| Step::Push(signature, mark)),
        4 => (1..40u64).prop_map(Step::Consume),
        1 => Just(Step::Abandon),
    ]
}

proptest! {
    #[test]
    fn the_log_is_a_queue_searched_near_its_front(steps in prop::collection::vec(step(), 0..400)) {
        let slot = support::slot();
        let (producer, consumer) = (Producer::new(&slot, 2), Consumer::new(&slot, 2));
        let mut queue = VecDeque::new();
        for step in steps {
            match step {
                Step::Push(signature, mark) => {
                    prop_assert!(producer.push(signature, mark).is_ok());
                    queue.push_back((signature, mark));
                }
                Step::Consume(signature) => {
                    let found = queue.iter().take(WINDOW as usize).position(|entry| entry.0 == signature);
                    let expected = match found {
                        Some(index) => {
                            let skipped = queue.drain(..index).filter(|entry| entry.1 & 1 == 1).count();
                            let (_, mark) = queue.pop_front().unwrap();
                            Consumed::Matched { mark, skipped: skipped as u32 }
                        }
                        None => Consumed::Absent { empty: queue.is_empty() },
                    };
                    prop_assert_eq!(consumer.consume(signature, Readers::One), expected);
                }
                Step::Abandon => {
                    let wrong = queue.drain(..).filter(|entry| entry.1 & 1 == 1).count();
                    prop_assert_eq!(consumer.abandon(), wrong as u64);
                }
            }
            prop_assert_eq!(producer.len(), queue.len() as u64);
            prop_assert_eq!(consumer.len(), queue.len() as u64);
        }
    }

    #[test]
    fn garbage_positions_never_panic_and_results_stay_bounded(
        head in any::<u64>(), distance in prop_oneof![0..10_000u64, any::<u64>()], fill in any::<u64>(),
        generation in any::<u32>(), signature in any::<u64>(),
    ) {
        let slot = support::slot();
        let log = generation as usize % 4;
        slot.heads[log].store(head, Relaxed);
        slot.tails[log].store(head.wrapping_sub(distance), Relaxed);
        for entry in &slot.logs[log] {
            entry.signature.store(fill, Relaxed);
            entry.mark.store(fill, Relaxed);
        }
        let (producer, consumer) = (Producer::new(&slot, generation), Consumer::new(&slot, generation));
        prop_assert!(producer.len() <= LOG_ENTRIES as u64);
        prop_assert!(consumer.len() <= LOG_ENTRIES as u64);
        if let Consumed::Matched { skipped, .. } = consumer.consume(signature, Readers::One) {
            prop_assert!(u64::from(skipped) < WINDOW);
        }
        if let Consumed::Matched { skipped, .. } = consumer.consume(fill, Readers::One) {
            prop_assert!(u64::from(skipped) < WINDOW);
        }
        prop_assert!(producer.found().count() as u64 <= WINDOW + KEPT);
        let _ = producer.push(signature, fill);
        prop_assert!(consumer.abandon() <= LOG_ENTRIES as u64);
        reset(&slot, generation);
        prop_assert_eq!(producer.len(), 0);
    }
}
