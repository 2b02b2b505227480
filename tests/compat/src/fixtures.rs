//! What command lines are run in, and what of their output programs leave to chance.

use crate::{Outcome, Scratch};

/// A few texts, one of them long, and some binary data.
pub fn texts(scratch: &Scratch) {
    scratch
        .text("a.txt", 400, 1)
        .text("b.txt", 300, 2)
        .text("long.txt", 40_000, 3)
        .noise("data.bin", 1_500_000, 4);
    scratch.file("empty", "").file("no-newline", "the last line has no end").file("numbers", {
        let mut lines = String::new();
        for n in 0..3000_u32 {
            lines.push_str(&format!("{}\n", n.wrapping_mul(2_654_435_761) % 10_007));
        }
        lines
    });
}

/// A source tree: directories, many small files, links.
pub fn sources(scratch: &Scratch) {
    for module in 0..12 {
        for part in 0..8 {
            let name = format!("src/module{module}/part{part}.txt");
            scratch.text(&name, 20 + 7 * part, (module * 100 + part) as u64);
        }
        std::os::unix::fs::symlink("part0.txt", scratch.at(&format!("src/module{module}/first")))
            .expect("a link");
    }
    scratch.file("src/empty/.keep", "").script("src/run.sh", "#!/bin/sh\necho ran \"$@\"\n");
    std::fs::hard_link(scratch.at("src/module0/part1.txt"), scratch.at("src/hard")).expect("a hard link");
}

/// A C project of many units and its makefile.
pub fn project(scratch: &Scratch) {
    let mut main = String::from("#include <stdio.h>\n");
    for unit in 0..12 {
        scratch.file(
            &format!("unit{unit}.c"),
            format!("#include \"shared.h\"\nint unit{unit}(int x) {{ return x * FACTOR + {unit}; }}\n"),
        );
        main.push_str(&format!("int unit{unit}(int);\n"));
    }
    main.push_str("int main(void) {\n int x = 1;\n");
    for unit in 0..12 {
        main.push_str(&format!(" x = unit{unit}(x) % 10007;\n"));
    }
    main.push_str(" printf(\"%d\\n\", x);\n return 0;\n}\n");
    scratch.file("main.c", main).file("shared.h", "#define FACTOR 31\n").file(
        "Makefile",
        "OBJECTS = main.o $(patsubst %.c,%.o,$(wildcard unit*.c))\nprog: $(OBJECTS)\n\t@cc -o $@ $(OBJECTS)\n\
         %.o: %.c shared.h\n\t@cc -O1 -c -o $@ $<\n",
    );
}

/// An empty folder.
pub fn nothing(_: &Scratch) {}

/// `name=ADDRESS`-like texts: replaces every run of digits.
pub fn digits(outcome: &mut Outcome) {
    for text in [&mut outcome.stdout, &mut outcome.stderr] {
        let mut out = Vec::with_capacity(text.len());
        for &byte in text.iter() {
            if !byte.is_ascii_digit() {
                out.push(byte);
            } else if out.last() != Some(&b'0') {
                out.push(b'0');
            }
        }
        *text = out;
    }
}

/// Lines in any order.
pub fn line_order(outcome: &mut Outcome) {
    let mut lines: Vec<&[u8]> = outcome.stdout.split_inclusive(|&b| b == b'\n').collect();
    lines.sort_unstable();
    outcome.stdout = lines.concat();
}
