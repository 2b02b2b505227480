//! An interrupt keeps what an experiment has measured.
//!
//! Signals are of the whole process, so all experiments are one test, one after the other.
#![forbid(unsafe_code)]

use std::time::Duration;

use forebay_evaluation::machine::meter;
use forebay_evaluation::run::overhead;
use forebay_evaluation::share::millipage::{Kernel, Size};
use forebay_evaluation::share::{multiview, projection};
use forebay_evaluation::{Error, Progress};
use forebay_results::Row;
use signal_hook::{consts::SIGINT, low_level::raise};

/// In this thread, so that the handler has run when this returns.
fn interrupt() {
    raise(SIGINT).unwrap();
}

/// Runs an experiment that gets SIGINT when its progress has come to `share`, and gives what it has kept.
#[track_caller]
fn interrupted<O>(
    share: f64,
    run: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<O, Error>,
    kept: impl FnOnce(O) -> (Vec<Row>, Option<Error>),
) {
    let mut is_sent = false;
    let mut at = 0.0;
    let outcome = run(&mut |progress| {
        if progress.share >= share && !is_sent {
            is_sent = true;
            at = progress.share;
            interrupt();
        }
    });
    assert!(at < 1.0, "it ended before the interrupt");
    let (rows, stopped) = kept(outcome.unwrap());
    assert!(matches!(stopped, Some(Error::Interrupted)), "{stopped:?}");
    assert!(!rows.is_empty() && rows.iter().all(|row| row.value.is_finite()), "{rows:#?}");
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let options =
        multiview::Options { sizes_bytes: vec![8 << 10, 64 << 10], views_max: 8, runs: 2, read_bytes: 1 };
    let kept = |outcome: multiview::Outcome| (outcome.rows(), outcome.stopped);
    let at_once = multiview::run(&options, &mut |_| interrupt());
    assert!(matches!(at_once, Err(Error::Interrupted)), "nothing was measured");
    interrupted(0.5, |progress| multiview::run(&options, progress), kept);

    let options = projection::Options {
        kernels: vec![Kernel::Sor, Kernel::Is],
        hosts: vec![2],
        latencies_ns: vec![5_000],
        runs: 1,
        size: Size::Quick,
        ..projection::Options::new()
    };
    let kept = |outcome: projection::Outcome| (outcome.rows(), outcome.stopped);
    interrupted(0.55, |progress| projection::run(&options, progress), kept);

    let options = meter::overhead::Options {
        pairs: 3,
        run: Duration::from_millis(20),
        ..meter::overhead::Options::new()
    };
    let kept = |outcome: meter::overhead::Outcome| (outcome.rows(), outcome.stopped);
    interrupted(0.6, |progress| meter::overhead::run(&options, progress), kept);

    let folder = tempfile::tempdir().unwrap();
    let forebay = folder.path().join("forebay");
    forebay_testkit::script(
        &forebay,
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n",
    );
    let size = overhead::Size {
        files: 20,
        passes: 2,
        objects: 6,
        summed_bytes: 1 << 20,
        text_bytes: 1 << 16,
        turns: 1_000,
        processes: 3,
    };
    let options = overhead::Options { pairs: 2, start_pairs: 2, size, forebay };
    let kept = |outcome: overhead::Outcome| (outcome.rows(), outcome.stopped);
    interrupted(0.5, |progress| overhead::run(&options, progress), kept);
}
