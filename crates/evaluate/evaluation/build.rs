//! Builds the guest programs that the experiments carry with them, so that a machine without a C
//! compiler can run the experiments too.

use std::env;
use std::path::PathBuf;

const GUESTS: [&str; 10] = [
    "slices",
    "mapped",
    "mapscan",
    "resident",
    "agrep_hinted",
    "accounted",
    "matvec",
    "fft",
    "multigrid",
    "gather",
];
const HEADER: &str = "scientific.h";

fn main() {
    let guests = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../../tests/guests/bench");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed={}", guests.join(HEADER).display());
    let compiler = cc::Build::new().opt_level(2).debug(false).get_compiler();
    for guest in GUESTS {
        let source = guests.join(guest).with_extension("c");
        println!("cargo::rerun-if-changed={}", source.display());
        let status = compiler
            .to_command()
            .args(["-Wall", "-Wextra", "-pthread", "-o"])
            .arg(out.join(guest))
            .arg(&source)
            .arg("-lm")
            .status()
            .unwrap_or_else(|error| {
                panic!("the C compiler that builds {} did not start: {error}", source.display())
            });
        assert!(status.success(), "{} does not compile", source.display());
    }
}
