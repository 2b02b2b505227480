//! The measurements of shared memory from end to end, with the built `forebay` and its workload, and little to do.

use std::process::Command;

use forebay_evaluation::share::millipage::{
    Kernel, Setting, Size, chunking, costs, false_sharing, peers, programs,
};
use forebay_evaluation::{Error, Progress};
use forebay_results::Row;
use forebay_testkit::{artifacts, skip};

/// One round, by what this workspace makes.
fn setting() -> Setting {
    artifacts::workload().unwrap();
    Setting { runs: 1, ..Setting::new(artifacts::forebay().unwrap()) }
}

/// Runs a measurement whose progress only grows.
fn measured<R>(run: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<R, Error>) -> R {
    let mut shares = Vec::new();
    let outcome = run(&mut |progress| shares.push(progress.share)).unwrap();
    assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
    outcome
}

fn value(rows: &[Row], subject: &str, case: &str, metric: &str) -> f64 {
    let found = rows.iter().find(|row| row.subject == subject && row.case == case && row.metric == metric);
    found.unwrap_or_else(|| panic!("no {subject} {case} {metric}: {rows:#?}")).value
}

#[test]
fn costs_are_told_for_both_transports_beside_the_messages_that_they_need() {
    let outcome = measured(|progress| {
        let options = costs::Options { hosts: vec![1, 2, 3], times: 10, ..costs::Options::new(setting()) };
        costs::run(&options, progress)
    });
    let rows = outcome.rows();
    for transport in ["shm", "tcp"] {
        let of = |case: &str, metric: &str| value(&rows, "millipage", &format!("{transport}/{case}"), metric);
        for (case, metric) in [
            ("1 host", "look_up"),
            ("1 host", "access"),
            ("1 host", "barrier"),
            ("2 hosts", "read_128"),
            ("2 hosts", "read_beside_computing_4096"),
            ("2 hosts", "lock"),
            ("2 hosts", "remote_lock"),
            ("3 hosts", "write_of_copied_128"),
            ("ucx", "message_4096"),
        ] {
            assert!(of(case, metric) > 0.0, "{case} {metric}");
        }
        // What is left when a read and a grant are taken off may be nothing on a busy machine. With them it takes some time.
        assert!(of("1 host", "fault") + of("1 host", "grant") > 0.0);
        let messages = of("ucx", "message_32") + of("ucx", "message_128");
        let ratio = of("2 hosts", "read_128") / messages;
        assert!((of("2 hosts", "read_128_over_messages") / ratio - 1.0).abs() < 1e-9);
    }
    let table = outcome.table();
    assert!(table.contains("204") && !table.contains("wanted"), "{table}");
}

#[test]
fn neighbours_fault_only_where_the_page_is_shared_as_a_whole() {
    let outcome = measured(|progress| {
        let options = false_sharing::Options {
            pauses_us: vec![0, 100],
            milliseconds: 100,
            ..false_sharing::Options::new(setting())
        };
        false_sharing::run(&options, progress)
    });
    let rows = outcome.rows();
    for pace in ["all the time", "100 us between"] {
        let faults =
            |side: &str| value(&rows, "false sharing", &format!("shm/{pace}/{side}"), "write_faults");
        assert_eq!(faults("neighbours, each a minipage"), 0.0);
        assert_eq!(faults("each on a page of its own"), 0.0);
        assert!(faults("neighbours, the page shared as a whole") > 0.0);
    }
    assert!(!outcome.table().contains("wanted"));
}

#[test]
fn programs_compute_the_same_on_all_sides_and_tell_where_their_time_goes() {
    let outcome = measured(|progress| {
        let options =
            programs::Options { hosts: vec![1, 2], size: Size::Quick, ..programs::Options::new(setting()) };
        programs::run(&options, progress)
    });
    assert!(outcome.is_right(), "{}", outcome.table());
    let rows = outcome.rows();
    for kernel in Kernel::ALL {
        for case in ["shm/1 process/minipages", "shm/2 processes/minipages", "shm/2 processes/pages"] {
            let of = |metric: &str| value(&rows, kernel.name(), case, metric);
            assert_eq!(of("right"), 1.0);
            assert!(of("elapsed") > 0.0 && of("speedup") > 0.0 && of("time/computing") > 0.0);
            let alone = case.starts_with("shm/1 ");
            assert_eq!(of("bytes") == 0.0, alone, "{kernel} {case}");
        }
    }
}

#[test]
fn molecules_are_shared_in_chunks_of_all_sizes() {
    let outcome = measured(|progress| {
        let options = chunking::Options {
            chunks: vec![1, 8, 125],
            size: Size::Quick,
            ..chunking::Options::new(setting())
        };
        chunking::run(&options, progress)
    });
    assert!(outcome.is_right(), "{}", outcome.table());
    let rows = outcome.rows();
    let faults = |chunk: u32| value(&rows, "water", &format!("shm/{chunk} molecules"), "write_faults");
    assert!(faults(1) > faults(125), "{}", outcome.table());
}

#[test]
fn programs_for_mpi_compute_the_same() {
    for program in ["mpicc", "mpirun"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip("programs_for_mpi_compute_the_same", format!("{program} is not installed"));
        }
    }
    let outcome = measured(|progress| {
        peers::run(&peers::Options { size: Size::Quick, ..peers::Options::new(setting()) }, progress)
    });
    assert!(outcome.is_right(), "{}", outcome.table());
    let rows = outcome.rows();
    for kernel in ["sor", "lu"] {
        let ratio = value(&rows, kernel, "shm/2", "elapsed") / value(&rows, kernel, "mpi/2", "elapsed");
        assert!((value(&rows, kernel, "shm/2", "of_mpi") / ratio - 1.0).abs() < 1e-9);
    }
}

#[test]
fn without_its_workload_forebay_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let setting = Setting::new(folder.path().join("forebay"));
    let error = false_sharing::run(&false_sharing::Options::new(setting), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("run make"), "{error}");
}
