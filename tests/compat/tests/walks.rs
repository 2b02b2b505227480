//! Walks over many folders. Speculators need idle processors to be ahead of one, so nothing runs beside this suite.

use std::fs;
use std::path::Path;

use forebay_compat::mounted::launch;
use forebay_compat::run::Side;
use forebay_compat::{Scratch, in_some_run, scratch, skip, switch};
use forebay_lab::{Profile, SlowDisk};

/// The program lists the folder of them all before it is forked. It visits them as they are listed, in another order, or backward.
#[test]
fn most_of_many_small_folders_are_in_memory_when_a_walk_comes_to_them() {
    const NAME: &str = "most_of_many_small_folders_are_in_memory_when_a_walk_comes_to_them";
    const WALKED: usize = 500;
    // Speculators take 25 ms for the walk where they have a processor.
    const STARVED_S: f64 = 0.007;
    const STARVED_RUNS: u32 = 5;
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "both sides run without forebay");
    }
    let disk = match SlowDisk::start(Profile::Ssd1Ms, 512 << 20) {
        Ok(disk) => disk,
        Err(why) => return skip(NAME, why.to_string()),
    };
    let fill = |root: &Path| {
        for number in 0..WALKED {
            let folder = root.join(format!("tree/{number}"));
            fs::create_dir_all(&folder).expect("make a folder");
            fs::write(folder.join("file"), "x").expect("write a file");
        }
    };
    disk.fill(fill).expect("fill the slow disk");
    let tree = disk.mount_point().join("tree").display().to_string();
    let backward = "import os, sys\nfor at in reversed(list(os.scandir(sys.argv[1]))): os.listdir(at.path)";
    for argv in [
        &["find", &tree, "-size", "+1"][..],
        &["du", "-s", &tree],
        &["ls", "-lR", &tree],
        &["/usr/bin/python3", "-c", backward, &tree],
    ] {
        let mut starved = 0;
        let seen = in_some_run(|| {
            disk.make_cold().expect("make the disk cold");
            let outcome = launch(&Scratch::fresh(scratch::base().join(NAME)), Side::With, argv);
            assert!(outcome.figure("stalls_before") > 0.0, "{argv:?}: {:?}", outcome.totals());
            assert_eq!((outcome.status, &*outcome.stderr), (0, &b""[..]), "{argv:?}");
            if outcome.figure("stalls_after") < WALKED as f64 / 2.0 {
                return Ok(true);
            }
            starved = if outcome.figure("speculator_cpu") < STARVED_S { starved + 1 } else { 0 };
            if starved == STARVED_RUNS { Ok(false) } else { Err(format!("{argv:?}: {:?}", outcome.totals())) }
        });
        if !seen {
            return skip(NAME, "other programs take the processors all the time");
        }
    }
}
