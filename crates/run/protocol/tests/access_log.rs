//! The access log: what is written is read, whatever becomes of writers and of the memory.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use forebay_protocol::access_log::{
    AccessLog, Attributes, BLOCK_WORDS, Cursor, Entry, Outcome, PATH_BYTES_MAX, PATHS, RANGES, Record,
    UNFINISHED, Use,
};
use proptest::prelude::*;

type Log = AccessLog<Vec<AtomicU64>>;

/// Words of a record with attributes.
const FILE_WORDS: u32 = 6;

fn log(blocks: usize) -> Log {
    let word = || AtomicU64::new(0);
    let words = (0..blocks * BLOCK_WORDS).map(|_| word()).collect();
    let (paths, ranges) = ([const { AtomicU64::new(0) }; PATHS], [const { AtomicU64::new(0) }; RANGES]);
    AccessLog { wanted: word(), since: word(), head: word(), paths, ranges, words }
}

/// A record, with a path of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Written {
    Path(Outcome, u32, u32, Vec<u8>),
    Range(Use, u32, u32, u64, u64, bool),
    File(u32, u32, Attributes),
}

impl From<Record<'_>> for Written {
    fn from(record: Record<'_>) -> Self {
        match record {
            Record::Path { outcome, at, base, path } => Self::Path(outcome, at, base, path.to_vec()),
            Record::Range { used, at, file, start, end, is_unfinished } => {
                Self::Range(used, at, file, start, end, is_unfinished)
            }
            Record::File { opened, file, attributes } => Self::File(opened, file, attributes),
        }
    }
}

/// All records with their places, and how many holes there are.
fn read(log: &Log) -> (Vec<(u32, Written)>, u64) {
    let (mut cursor, mut path) = (Cursor::default(), [0; PATH_BYTES_MAX]);
    let mut records = Vec::new();
    while let Some((place, record)) = cursor.next(log, &mut path) {
        records.push((place, record.into()));
    }
    (records, cursor.holes())
}

fn append(log: &Log, record: &Written) -> Option<u32> {
    match record {
        Written::Path(outcome, at, base, path) => log.append_path(*outcome, *at, *base, path),
        Written::Range(used, at, file, start, end, is_unfinished) => {
            let place = log.append_range(*used, *at, *file, *start, *start)?;
            log.extend(place, *end);
            log.mark(place, *is_unfinished);
            Some(place)
        }
        Written::File(opened, file, attributes) => {
            let at = log.head.load(Relaxed);
            log.append_attributes(*opened, *file, attributes);
            let head = log.head.load(Relaxed);
            (head != at).then(|| head as u32 - FILE_WORDS + 1)
        }
    }
}

fn any_record() -> impl Strategy<Value = Written> {
    use Outcome::{Executed, Found, Link, Made, Missing, Named};
    let outcome = prop::sample::select(vec![Named, Found, Missing, Link, Executed, Made]);
    let path = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..60),
        1 => prop::collection::vec(any::<u8>(), 0..=PATH_BYTES_MAX),
    ];
    let used = prop::sample::select(vec![Use::Read, Use::Mapped, Use::Listed]);
    let range = (0..UNFINISHED, 0..UNFINISHED).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![
        (outcome, any::<u32>(), any::<u32>(), path)
            .prop_map(|(outcome, at, base, path)| Written::Path(outcome, at, base, path)),
        (used, any::<u32>(), any::<u32>(), range, any::<bool>()).prop_map(
            |(used, at, file, (start, end), open)| { Written::Range(used, at, file, start, end, open) }
        ),
        (any::<[u32; 2]>(), any::<[u64; 3]>(), any::<i64>()).prop_map(
            |([at, file], [dev, ino, size], mtime_ns)| {
                Written::File(at, file, Attributes { dev, ino, size, mtime_ns })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn records_are_read_as_they_were_written(records in prop::collection::vec(any_record(), 0..120)) {
        let log = log(200);
        let written: Vec<_> = records.into_iter().map(|record| (append(&log, &record).unwrap(), record)).collect();
        prop_assert_eq!(read(&log), (written, 0));
    }

    #[test]
    fn a_full_log_keeps_what_it_has(records in prop::collection::vec(any_record(), 100..200)) {
        let log = log(2);
        let written: Vec<_> =
            records.into_iter().filter_map(|record| Some((append(&log, &record)?, record))).collect();
        prop_assert_eq!(read(&log), (written, 0));
    }

    #[test]
    fn garbage_never_panics_and_records_stay_bounded(
        words in prop::collection::vec(any::<u64>(), 2 * BLOCK_WORDS),
        small in prop::collection::vec((0..2 * BLOCK_WORDS, 0..20u64, 0..40u64, 0..70u64), 0..60),
        head in prop_oneof![0..3 * BLOCK_WORDS as u64, any::<u64>()],
        place in any::<u32>(),
    ) {
        let log = log(2);
        for (word, value) in log.words.iter().zip(words) {
            word.store(value, Relaxed);
        }
        for (index, kind, count, bytes) in small {
            log.words[index].store(kind | count << 8 | bytes << 24, Relaxed);
        }
        log.head.store(head, Relaxed);
        let (records, holes) = read(&log);
        prop_assert!(records.len() <= 2 * BLOCK_WORDS && holes <= 2);
        log.extend(place, head);
        log.extend(place % 1100, head);
        log.mark(place % 1100, true);
        let _ = log.append_path(Outcome::Found, 0, 0, b"path");
        let _ = log.append_range(Use::Read, 0, 0, 1, 2);
        log.append_attributes(0, 0, &Attributes { dev: 1, ino: 2, size: 3, mtime_ns: 4 });
    }
}

#[test]
fn behind_a_hole_the_next_block_is_read() {
    let log = log(3);
    let before = append(&log, &Written::Path(Outcome::Found, 0, 0, b"/before".to_vec())).unwrap();
    // A writer that was killed.
    log.head.fetch_add(5, Relaxed);
    while append(&log, &Written::Path(Outcome::Found, 0, 0, vec![b'x'; 1000])).unwrap() as usize
        <= BLOCK_WORDS
    {}
    let (records, holes) = read(&log);
    let places: Vec<u32> = records.iter().map(|(place, _)| *place).collect();
    assert_eq!((places, holes), (vec![before, BLOCK_WORDS as u32 + 1], 1));
}

#[test]
fn a_range_only_grows() {
    let log = log(1);
    let place = log.append_range(Use::Read, 7, 9, 100, 200).unwrap();
    let state =
        |end, is_unfinished| (vec![(place, Written::Range(Use::Read, 7, 9, 100, end, is_unfinished))], 0);
    log.extend(place, 300);
    assert_eq!(read(&log), state(300, false));
    log.mark(place, true);
    log.extend(place, 250);
    assert_eq!(read(&log), state(300, true));
    log.extend(place, 400);
    assert_eq!(read(&log), state(400, true));
    log.mark(place, false);
    log.extend(0, 900);
    log.mark(u32::MAX, true);
    assert_eq!(read(&log), state(400, false), "of no record");
}

#[test]
fn a_path_that_is_too_long_is_not_written() {
    let log = log(1);
    assert_eq!(log.append_path(Outcome::Found, 0, 0, &[b'x'; PATH_BYTES_MAX + 1]), None);
    assert!(log.append_path(Outcome::Found, 0, 0, &[b'x'; PATH_BYTES_MAX]).is_some());
}

#[test]
fn a_table_finds_the_last_two_of_those_with_one_place() {
    let log = log(1);
    let (hash, other, third) = (7 << 32 | 5, 8 << 32 | 5, 9 << 32 | 5);
    let entry = Entry::new(&log.paths, hash);
    assert_eq!(entry.place(), None);
    entry.keep(3);
    assert_eq!((entry.place(), Entry::new(&log.paths, other).place()), (Some(3), None));
    assert!(entry.opens(3) && !entry.opens(3));
    assert_eq!(entry.place(), Some(3));
    Entry::new(&log.paths, other).keep(4);
    assert_eq!((entry.place(), Entry::new(&log.paths, other).place()), (Some(3), Some(4)));
    assert!(!entry.opens(3));
    Entry::new(&log.paths, third).keep(5);
    assert_eq!((entry.place(), Entry::new(&log.paths, other).place()), (None, Some(4)));
    assert!(entry.opens(3), "that is forgotten, too");
}

#[test]
fn times_count_from_the_start_of_the_run() {
    let log = log(1);
    log.since.store(1 << 20, Relaxed);
    assert_eq!(log.time(0), 0);
    assert_eq!(log.time((1 << 20) + (5 << 12)), 5);
    assert_eq!(log.time(u64::MAX), u32::MAX);
}

#[test]
fn threads_that_write_at_once_write_whole_records() {
    const THREADS: u32 = 4;
    const RECORDS: u32 = 5_000;
    let log = log(400);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for number in 0..RECORDS {
                    let path = format!("/{thread}/{number}/{}", "x".repeat(number as usize % 50));
                    log.append_path(Outcome::Found, thread, number, path.as_bytes()).unwrap();
                }
            });
        }
    });
    let (records, holes) = read(&log);
    let mut found = HashSet::new();
    for (_, record) in records {
        let Written::Path(Outcome::Found, thread, number, path) = record else { panic!("{record:?}") };
        let expected = format!("/{thread}/{number}/{}", "x".repeat(number as usize % 50));
        assert_eq!(String::from_utf8(path).unwrap(), expected);
        assert!(found.insert((thread, number)));
    }
    assert_eq!((found.len() as u32, holes), (THREADS * RECORDS, 0));
}
