//! The experiments from end to end, with tiny data and a stand-in for `forebay` that only runs the program.

mod stand_in;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use forebay_evaluation::{
    Error, FileSystem, Profile, Program, Scale, Side, SwappingProgram, SwappingSize,
    run::demo,
    run::memory_control,
    run::overhead,
    run::side_effects,
    run::speculation,
    share::millipage::{Kernel, Size},
    share::projection,
};
use forebay_lab::{MemoryLimit, SlowDevice};
use forebay_results::{Row, Tier};
use forebay_testkit::skip;
use stand_in::stand_in;

const TINY: Scale = Scale {
    files: 40,
    objects: 12,
    array_bytes: 1 << 20,
    reads: 300,
    mapped_bytes: 1 << 20,
    mapped_reads: 100,
    resident_mib: 4,
    steps: 3,
};

fn tiny(forebay: PathBuf, programs: &[Program]) -> speculation::Options {
    speculation::Options {
        programs: programs.to_vec(),
        runs: 2,
        scale: TINY,
        ..speculation::Options::new(Profile::Local, forebay)
    }
}

#[test]
fn every_side_of_every_program_runs_in_every_round() {
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let mut shares = Vec::new();
    let options = tiny(forebay, &Program::ALL);
    let outcome = speculation::run(&options, &mut |progress| shares.push(progress.share)).unwrap();
    assert!(outcome.stopped.is_none() && outcome.identical(), "{}", speculation::table(&outcome));
    assert_eq!(outcome.measured.iter().map(|measured| measured.program).collect::<Vec<_>>(), Program::ALL);
    assert_eq!(shares.first(), Some(&0.0));
    assert_eq!(shares.last(), Some(&1.0));
    assert!(shares.is_sorted());
    let rows = outcome.rows();
    for measured in &outcome.measured {
        let program = measured.program;
        // What these read next is known too late to hint it, or there is no call for it.
        let unhinted = matches!(program, Program::Chased | Program::Resident | Program::FindLs);
        let absent = |side| unhinted && side == Side::Hinted;
        for side in Side::ALL {
            let runs = if absent(side) { 0 } else { 2 };
            assert_eq!(measured.elapsed_s(side).values().len(), runs, "{program}");
        }
        for (case, metric) in [
            ("local/original", "elapsed"),
            ("local/forebay", "elapsed"),
            ("local/hinted", "elapsed"),
            ("local/warm", "elapsed"),
            ("local/forebay", "speedup"),
            ("local/forebay", "stalls_before"),
            ("local/forebay", "output_identical"),
        ] {
            let is_this =
                |row: &&Row| (&*row.subject, &*row.case, &*row.metric) == (program.name(), case, metric);
            let expected = !(absent(Side::Hinted) && case == "local/hinted");
            assert_eq!(rows.iter().any(|row| is_this(&row)), expected, "{program} {case} {metric}");
        }
    }
}

#[test]
fn programs_run_on_a_remote_file_system_which_is_never_warm() {
    let test = "programs_run_on_a_remote_file_system_which_is_never_warm";
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let programs = [Program::Grep, Program::Tar, Program::FindLs, Program::CpR, Program::RandomReads];
    let options = speculation::Options { profile: Profile::Remote, runs: 1, ..tiny(forebay, &programs) };
    let outcome = match speculation::run(&options, &mut |_| ()) {
        Err(Error::Rig(error @ forebay_lab::Error::Unsupported { .. })) => return skip(test, &error),
        outcome => outcome.unwrap(),
    };
    assert!(outcome.stopped.is_none() && outcome.identical(), "{}", speculation::table(&outcome));
    for measured in &outcome.measured {
        let runs =
            [Side::Original, Side::Forebay, Side::Warm].map(|side| measured.elapsed_s(side).values().len());
        assert_eq!(runs, [1, 1, 0], "{}", measured.program);
        // Each file is at least one request of 5 ms.
        assert!(
            measured.elapsed_s(Side::Original).median() > 0.005 * TINY.files as f64,
            "{}",
            measured.program
        );
    }
}

#[test]
fn programs_run_one_after_another_on_a_file_system_that_is_made_of_their_data() {
    let test = "programs_run_one_after_another_on_a_file_system_that_is_made_of_their_data";
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let options = speculation::Options {
        profile: Profile::Nvme,
        file_system: FileSystem::Squashfs,
        runs: 1,
        ..tiny(forebay, &[Program::Grep, Program::RandomReads, Program::Tar])
    };
    let outcome = match speculation::run(&options, &mut |_| ()) {
        Err(Error::Rig(error @ forebay_lab::Error::Unsupported { .. })) => return skip(test, &error),
        outcome => outcome.unwrap(),
    };
    assert!(outcome.stopped.is_none() && outcome.identical(), "{}", speculation::table(&outcome));
    assert_eq!(outcome.measured.len(), 3);
    assert!(outcome.rows().iter().all(|row| row.case.starts_with("nvme/squashfs/")));
}

#[test]
fn what_was_measured_before_something_failed_is_kept() {
    let (_folder, forebay) = stand_in(r#"if [ "$1" = ld ]; then rm "$0"; fi; exec "$@""#);
    let options = tiny(forebay, &[Program::RandomReads, Program::Ld, Program::Grep]);
    let outcome = speculation::run(&options, &mut |_| ()).unwrap();
    assert!(matches!(&outcome.stopped, Some(Error::Start { .. })), "{:?}", outcome.stopped);
    assert_eq!(outcome.measured.len(), 1);
    assert_eq!(outcome.measured[0].elapsed_s(Side::Forebay).values().len(), 2);
    assert!(outcome.rows().iter().all(|row| row.subject == "random-reads"));
}

#[test]
fn a_side_that_prints_something_else_is_told() {
    let (_folder, forebay) = stand_in(r#""$@"; status=$?; echo more; exit $status"#);
    let outcome = speculation::run(&tiny(forebay, &[Program::RandomReads]), &mut |_| ()).unwrap();
    assert!(!outcome.identical());
    assert_eq!(outcome.measured[0].differences.len(), 2);
    assert!(
        speculation::table(&outcome).contains("forebay printed something else"),
        "{}",
        speculation::table(&outcome)
    );
}

#[test]
fn a_side_that_writes_another_file_is_told() {
    let (_folder, forebay) = stand_in(
        r#""$@" && case $1 in
    ld) [ "$2" != -o ] || echo more >> "$3" ;;
    tar) [ "$2" != cf ] || echo more >> "$3" ;;
    cp) [ "$2" != -r ] || echo more > "$4/more" ;;
esac"#,
    );
    for program in [Program::Ld, Program::Tar, Program::CpR] {
        let outcome = speculation::run(&tiny(forebay.clone(), &[program]), &mut |_| ()).unwrap();
        let table = speculation::table(&outcome);
        assert!(table.contains("forebay wrote another file"), "{table}");
    }
}

#[test]
fn a_forebay_that_is_not_there_is_named() {
    let error = speculation::run(&tiny("/nonexistent/forebay".into(), &[Program::RandomReads]), &mut |_| ())
        .unwrap_err();
    assert!(matches!(&error, Error::Start { .. }), "{error}");
    assert!(error.to_string().contains("/nonexistent/forebay"), "{error}");
}

#[test]
fn side_effects_are_those_of_the_program_itself_and_what_forebay_counted() {
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let outcome = side_effects::run(&tiny(forebay, &[Program::Ld]), &mut |_| ()).unwrap();
    assert!(outcome.identical(), "{}", side_effects::table(&outcome));
    assert!(side_effects::table(&outcome).contains("ld, hinted"), "{}", side_effects::table(&outcome));
    let rows = outcome.rows();
    let found = |case: &str, metric: &str| {
        rows.iter().find(|row| row.case == case && row.metric == metric).map(|row| (row.value, row.runs))
    };
    for case in ["local/original", "local/hinted"] {
        assert!(found(case, "max_rss").is_some_and(|(bytes, runs)| bytes > 1e6 && runs == 2));
        assert!(found(case, "minor_faults").is_some_and(|(count, _)| count > 100.0));
    }
    assert_eq!(found("local/forebay", "stalls_before"), Some((7.0, 2)));
}

#[test]
fn programs_that_swap_run_on_every_side_with_every_size_of_memory() {
    let test = "programs_that_swap_run_on_every_side_with_every_size_of_memory";
    if let Err(error) = MemoryLimit::supported().and_then(|()| SlowDevice::supported()) {
        return skip(test, &error);
    }
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let size =
        SwappingSize { words: 5, matvec_mib: 8, fft_mib: 2, multigrid_mib: 6, gather_mib: 8, gathered: 50 };
    for (program, shares) in [
        (SwappingProgram::Matvec, vec![0.6, 1.5]),
        (SwappingProgram::Fft, vec![1.5]),
        (SwappingProgram::Multigrid, vec![1.5]),
        (SwappingProgram::Gather, vec![0.6, 1.5]),
        (SwappingProgram::Sphinx, vec![1.5]),
    ] {
        if let Err(missing) = program.check_installed() {
            skip(&format!("the part of {program} in {test}"), &missing);
            continue;
        }
        let options = memory_control::Options {
            programs: vec![program],
            runs: 1,
            size,
            shares: Some(shares.clone()),
            ..memory_control::Options::new(Profile::Ssd1Ms, forebay.clone())
        };
        let mut told = Vec::new();
        let outcome = memory_control::run(&options, &mut |progress| told.push(progress.share)).unwrap();
        assert!(outcome.identical(), "{}", outcome.table());
        assert!(told.is_sorted() && told.last() == Some(&1.0));
        let sizes = &outcome.measured[0].sizes;
        assert_eq!(sizes.len(), shares.len());
        for at in sizes {
            assert!(at.sides.values().all(|cell| cell.elapsed_s.values().len() == 1), "{}", outcome.table());
            let off = &at.sides[&memory_control::Speculation::Off];
            assert!(at.share > 1.0 || off.major_faults.median() > 0.0, "{}", outcome.table());
        }
    }
}

#[test]
fn a_program_that_changes_its_output_where_memory_is_short_is_told() {
    let test = "a_program_that_changes_its_output_where_memory_is_short_is_told";
    if let Err(error) = MemoryLimit::supported().and_then(|()| SlowDevice::supported()) {
        return skip(test, &error);
    }
    let (_folder, forebay) = stand_in(r#""$@"; echo more"#);
    let size =
        SwappingSize { words: 5, matvec_mib: 8, fft_mib: 2, multigrid_mib: 6, gather_mib: 2, gathered: 10 };
    let options = memory_control::Options {
        programs: vec![SwappingProgram::Gather],
        runs: 1,
        size,
        shares: Some(vec![2.0]),
        ..memory_control::Options::new(Profile::Ssd1Ms, forebay)
    };
    let outcome = memory_control::run(&options, &mut |_| ()).unwrap();
    assert!(!outcome.identical());
    assert!(outcome.table().contains("MiB printed something else"), "{}", outcome.table());
}

#[test]
fn a_program_that_shares_memory_is_projected_and_the_projection_checked() {
    let options = projection::Options {
        kernels: vec![Kernel::Sor, Kernel::Tsp],
        hosts: vec![4, 16],
        latencies_ns: vec![1_000, 100_000],
        runs: 2,
        size: Size::Quick,
        ..Default::default()
    };
    let outcome = projection::run(&options, &mut |_| ()).unwrap();
    let [sor, tsp] = &outcome.programs[..] else { panic!() };
    for program in [sor, tsp] {
        assert_eq!((program.refused.len(), program.cells.len()), (0, 4), "{}", outcome.table());
        assert_eq!(program.measured_s.values().len(), 2);
    }
    let [near, far, ..] = &sor.cells[..] else { panic!() };
    assert!(far.projection.elapsed_ns > near.projection.elapsed_ns + 4 * 99_000, "{}", outcome.table());
    assert!(outcome.table().contains("PROJECTED, not measured"), "{}", outcome.table());
    let rows = outcome.rows();
    assert!(rows.iter().all(|row| row.tier == Tier::Simulated || row.case == "2 hosts/in process"));
    for (case, metric) in
        [("16 hosts/100 us", "speedup"), ("2 hosts/in process", "projection_error"), ("1 host", "elapsed")]
    {
        assert!(rows.iter().any(|row| row.case == case && row.metric == metric), "{case} {metric}");
    }
}

const SMALL: overhead::Size = overhead::Size {
    files: 20,
    passes: 2,
    objects: 6,
    summed_bytes: 1 << 20,
    text_bytes: 1 << 16,
    turns: 1_000,
    processes: 3,
};

#[test]
fn overhead_is_measured_in_pairs() {
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let options = overhead::Options { pairs: 3, start_pairs: 5, size: SMALL, forebay };
    let outcome = overhead::run(&options, &mut |_| ()).unwrap();
    assert!(outcome.identical(), "{}", outcome.table());
    let rows = outcome.rows();
    for case in &outcome.cases {
        let runs = if case.name == "start of /bin/true" { 5 } else { 3 };
        for (side, metric) in [
            ("warm/original", "elapsed"),
            ("warm/forebay", "elapsed"),
            ("warm/forebay", "overhead"),
            ("warm/forebay", "extra"),
            ("warm/profiles", "elapsed"),
            ("warm/profiles", "overhead"),
            ("warm/profiles", "extra"),
            ("warm/control", "overhead"),
        ] {
            let is_this = |row: &&Row| (&*row.subject, &*row.case, &*row.metric) == (case.name, side, metric);
            let row = rows.iter().find(is_this);
            assert_eq!(row.map(|row| row.runs), Some(runs), "{} {side} {metric}", case.name);
        }
    }
}

#[test]
fn overhead_is_measured_without_profiles_and_with_profiles_of_its_own() {
    let (folder, forebay) = stand_in(
        r#"case $options in "run --no-profile -- "*) side=without;; "run -- "*) side=with;; esac
echo "$side $XDG_STATE_HOME" >> "${0%/*}/runs"
exec "$@""#,
    );
    let options = overhead::Options { pairs: 1, start_pairs: 1, size: SMALL, forebay };
    let outcome = overhead::run(&options, &mut |_| ()).unwrap();
    assert!(outcome.identical(), "{}", outcome.table());
    let runs = fs::read_to_string(folder.path().join("runs")).unwrap();
    let (without, with): (Vec<_>, Vec<_>) = runs.lines().partition(|run| run.starts_with("without "));
    assert_eq!(without.len(), with.len());
    let state = with[0].strip_prefix("with /").expect("a folder of profiles");
    let user_state = std::env::var("XDG_STATE_HOME").unwrap_or_default();
    assert_ne!(format!("/{state}"), user_state);
    assert!(with.iter().all(|run| run.strip_prefix("with /") == Some(state)), "{runs}");
}

#[test]
fn the_demonstration_shows_every_program() {
    let (_folder, forebay) = stand_in(r#"exec "$@""#);
    let options = demo::Options {
        budget: Duration::from_secs(1),
        slow_disk: false,
        scale: Some(TINY),
        ..demo::Options::new(forebay)
    };
    let outcome = demo::run(&options, &mut |_| ()).unwrap();
    assert!(outcome.identical(), "{}", outcome.table());
    for program in Program::PUBLISHED {
        assert!(outcome.table().contains(program.description()), "{}", outcome.table());
    }
    assert!(outcome.table().contains("Left out: the disk with a latency of 1 ms"), "{}", outcome.table());
}
