//! Compilers, linkers and what starts them.

use super::super::case::{Case, Compared, Data, Kind, Need};

const GCC: Need = Need::Debian("gcc", "gcc");
const BINUTILS: Need = Need::Debian("binutils", "ld");
const OBJECTS: &[Data] = &[Data::Objects("objects", 400)];

/// Sixty C files with a header each, in a folder; and a script behind that, in the folder.
macro_rules! sources {
    ($then:literal) => {
        concat!(
            "mkdir source; cd source; i=0; while [ $i -lt 60 ]; do
                echo \"int value_$i(int);\" > unit_$i.h
                printf '#include <stdio.h>\\n#include <stdlib.h>\\n#include \"unit_%s.h\"\\nint value_%s(int x) { return x * %s; }\\n' \\
                    $i $i $i > unit_$i.c
                i=$((i + 1))
            done
            ",
            $then
        )
    };
}

pub(super) const CASES: &[Case] = &[
    Case::new(Kind::Build, "gcc", &["gcc", "-O0", "-c", "one.c", "-o", "one.o"], &[GCC])
        .prepare(
            "for header in stdio stdlib string math time errno signal unistd fcntl pthread netdb sys/socket sys/stat \
             sys/wait arpa/inet netinet/tcp linux/fs linux/perf_event linux/bpf; do echo \"#include <$header.h>\"; done > one.c
             echo 'int main(void) { return 0; }' >> one.c",
        )
        .writes(&["one.o"]),
    Case::new(Kind::Build, "g-plus-plus", &["g++", "-O0", "-c", "one.cpp", "-o", "one.o"], &[Need::Debian("g++", "g++")])
        .prepare(
            "for header in iostream vector map regex thread future filesystem random algorithm; do
                 echo \"#include <$header>\"; done > one.cpp
             echo 'int main() { std::cout << 1; }' >> one.cpp",
        )
        .writes(&["one.o"]),
    Case::new(Kind::Build, "ld", &["sh", "-c", "ld -r -o linked objects/*.o"], &[BINUTILS])
        .data(OBJECTS)
        .writes(&["linked"]),
    Case::new(Kind::Build, "lld", &["sh", "-c", "ld.lld -r -o linked objects/*.o"], &[Need::Debian("lld", "ld.lld")])
        .data(OBJECTS)
        .writes(&["linked"]),
    Case::new(Kind::Build, "mold", &["sh", "-c", "mold -r -o linked objects/*.o"], &[Need::Debian("mold", "mold")])
        .data(OBJECTS)
        .writes(&["linked"]),
    Case::new(Kind::Build, "ar-nm", &["sh", "-c", "ar qcD all.a objects/*.o && nm -s all.a"], &[BINUTILS])
        .data(OBJECTS)
        .writes(&["all.a"]),
    Case::new(Kind::Build, "make", &["make", "-s", "-C", "source", "-j2"], &[GCC, Need::Debian("make", "make")])
        .prepare(sources!("printf 'all: $(patsubst %%.c,%%.o,$(sort $(wildcard *.c)))\\n%%.o: %%.c\\n\\t@gcc -c $< -o $@\\n' > Makefile; rm unit_[2-5]?.c"))
        .restore("rm -f source/*.o")
        .compared(Compared::Files),
    Case::new(Kind::Build, "make-nothing", &["make", "-s", "-C", "tree"], &[Need::Debian("make", "make")])
        .data(&[Data::Tree("tree", 3000)])
        .prepare(
            "cd tree; echo 'all: done' > Makefile; echo \"done: $(find . -name '*.[ch]' | sort | tr '\\n' ' ')\" >> Makefile
             printf '\\ttouch done\\n' >> Makefile; sleep 1; touch done",
        ),
    Case::new(Kind::Build, "ninja", &["ninja", "-C", "source", "-n", "-d", "explain"], &[Need::Debian("ninja-build", "ninja")])
        .prepare(
            "mkdir source; cd source
             printf 'rule copy\\n  command = cp $in $out\\n' > build.ninja
             i=0; while [ $i -lt 3000 ]; do
                 mkdir -p d$((i / 50)); echo $i > d$((i / 50))/$i.in; echo $i > d$((i / 50))/$i.out
                 echo \"build d$((i / 50))/$i.out: copy d$((i / 50))/$i.in\" >> build.ninja; i=$((i + 1))
             done",
        )
        .compared(Compared::Files),
    Case::new(Kind::Build, "cargo-check", &["{rust}/bin/cargo", "check", "-q", "--offline"], &[Need::Rust])
        .prepare(
            "mkdir src; printf '[package]\\nname = \"one\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml
             i=0; while [ $i -lt 100 ]; do
                 echo \"pub fn value_$i(x: u64) -> u64 { x * $i }\" > src/unit_$i.rs; echo \"pub mod unit_$i;\" >> src/lib.rs
                 i=$((i + 1))
             done",
        )
        .environment(&[("RUSTC", "{rust}/bin/rustc"), ("CARGO_HOME", "/mnt/.cargo")])
        .restore("rm -rf target")
        .compared(Compared::Files),
    Case::new(Kind::Build, "javac", &["javac", "-d", "out", "@sources"], &[Need::Debian("default-jdk-headless", "javac")])
        .prepare(
            "mkdir in; i=0; while [ $i -lt 100 ]; do
                 echo \"public class Unit$i { public int value() { return $i; } }\" > in/Unit$i.java; echo in/Unit$i.java >> sources
                 i=$((i + 1))
             done",
        )
        .writes(&["out"]),
];
