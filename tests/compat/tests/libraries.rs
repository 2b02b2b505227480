//! The libraries of a program are read ahead of its loader, and nothing else is different.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use forebay_compat::run::Side;
use forebay_compat::{Case, in_some_run, skip, switch};
use forebay_lab::{Profile, SlowDisk};

/// It needs some thirty libraries, in several levels.
const PROGRAM: &str = "/usr/bin/curl";
/// Not one of a version manager's scripts.
const PYTHON: &str = "/usr/bin/python3";
const LIBRARIES_MIN: f64 = 10.0;
const DISK_BYTES: u64 = 256 << 20;

/// The libraries that a program needs, but for the loader and the C library, which the tests use themselves.
fn libraries() -> io::Result<Vec<String>> {
    let listed = Command::new("ldd").arg(PROGRAM).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
    let is_ours = |path: &&str| !path.contains("/libc.so") && !path.contains("/ld-linux");
    Ok(paths.filter(is_ours).map(str::to_owned).collect())
}

/// Copies the program and its libraries, and these once more as modules.
fn fill(folder: &Path) -> io::Result<()> {
    let _ = fs::copy(PROGRAM, folder.join("program"))?;
    fs::create_dir(folder.join("modules"))?;
    libraries()?.iter().enumerate().try_for_each(|(number, path)| {
        let name = Path::new(path).file_name().unwrap_or_default();
        fs::copy(path, folder.join(name))?;
        fs::copy(path, folder.join(format!("modules/{number}.so"))).map(drop)
    })
}

/// `argv` of a program with the folder on a slow disk: some run finds libraries in there not in memory, and reads them ahead.
fn are_read_ahead(name: &'static str, argv: impl Fn(&str) -> Vec<String>) {
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(name, "both sides run without forebay");
    }
    if !Path::new(PROGRAM).exists() || libraries().is_ok_and(|found| (found.len() as f64) < LIBRARIES_MIN) {
        return skip(name, "curl is not installed");
    }
    let disk = match SlowDisk::start(Profile::Ssd1Ms, DISK_BYTES) {
        Ok(disk) => disk,
        Err(why) => return skip(name, why.to_string()),
    };
    disk.fill(fill).expect("fill the slow disk").expect("copy the program");
    let folder = disk.mount_point().to_str().expect("a plain path").to_owned();
    let run = |side| {
        let _ = disk.make_cold().expect("empty the caches of the slow disk");
        let case = Case::new(name, argv(&folder)).options(&["--no-profile"]);
        case.env("LD_LIBRARY_PATH", &folder).run(side)
    };
    let _ = in_some_run(|| {
        let (without, with) = (run(Side::Without), run(Side::With));
        assert!(with.complaints.is_empty(), "{:?}", with.complaints);
        assert_eq!(
            (with.status, &with.stdout, &with.stderr),
            (without.status, &without.stdout, &without.stderr)
        );
        with.wanted(|with| {
            with.figure("library_files") >= LIBRARIES_MIN && with.figure("library_bytes") >= (1 << 20) as f64
        })
    });
}

#[test]
fn the_libraries_of_a_program_are_read_ahead() {
    are_read_ahead("libraries_of_program", |folder| {
        vec![format!("{folder}/program"), "--version".to_owned()]
    });
}

#[test]
fn the_libraries_of_what_a_program_executes_are_read_ahead() {
    are_read_ahead("libraries_of_executed", |folder| {
        vec!["sh".to_owned(), "-c".to_owned(), format!("{folder}/program --version; echo")]
    });
}

#[test]
fn libraries_that_a_program_looks_up_and_loads_are_read_ahead() {
    let loads = "import ctypes, os, sys\n\
        for at in sorted(os.scandir(sys.argv[1] + '/modules'), key=lambda at: at.name):\n \
            print(at.name, os.stat(at.path).st_size, ctypes.CDLL(at.path)._name)";
    are_read_ahead("libraries_looked_up", |folder| [PYTHON, "-c", loads, folder].map(str::to_owned).to_vec());
}
