//! A tree of C-like source files, in size and nesting like the source of an operating system.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::harness::random::Random;

/// Half of the files are smaller than this, as in the Linux source.
const FILE_BYTES_MEDIAN: f64 = 6.0 * 1024.0;
/// Standard deviation of the logarithm of the size: makes the mean twice the median.
const FILE_BYTES_SPREAD: f64 = 1.177;
const FILE_BYTES_MIN: usize = 64;
const FILE_BYTES_MAX: usize = 256 * 1024;
const FILES_PER_FOLDER: usize = 17;
const DEPTH_MAX: usize = 5;

const SUBJECTS: [&str; 32] = [
    "acpi", "block", "bridge", "bus", "cache", "clock", "crypto", "disk", "dma", "event", "filter", "frame",
    "gpio", "host", "inode", "irq", "journal", "key", "lock", "memory", "net", "page", "pci", "power",
    "queue", "route", "sched", "sensor", "socket", "timer", "usb", "volume",
];
const ACTIONS: [&str; 20] = [
    "alloc", "attach", "check", "clear", "close", "commit", "detach", "find", "flush", "free", "get", "init",
    "lookup", "map", "open", "probe", "put", "release", "reset", "update",
];
const KINDS: [&str; 8] = ["int", "void", "long", "size_t", "u32", "u64", "bool", "ssize_t"];

/// One file of the tree, not yet written.
#[derive(Debug, PartialEq)]
struct Planned {
    path: PathBuf,
    bytes: usize,
    seed: u64,
}

/// Writes a tree of `files` files below `root`, which must not exist. No file contains the word `forebay`.
pub(crate) fn write(root: &Path, files: usize) -> io::Result<()> {
    let (folders, planned) = plan(files);
    fs::create_dir_all(root)?;
    for folder in folders {
        fs::create_dir(root.join(folder))?;
    }
    for file in planned {
        fs::write(root.join(&file.path), text(file.bytes, file.seed))?;
    }
    Ok(())
}

/// Folders, each after its parent, and the files in them.
fn plan(files: usize) -> (Vec<PathBuf>, Vec<Planned>) {
    let mut random = Random::new(files as u64);
    let mut folders = vec![PathBuf::new()];
    for number in 0..files.div_ceil(FILES_PER_FOLDER) {
        let parent = loop {
            let parent = random.pick(&folders);
            if parent.components().count() < DEPTH_MAX {
                break parent.clone();
            }
        };
        folders.push(parent.join(format!("{}{number}", random.pick(&SUBJECTS))));
    }
    let planned = (0..files)
        .map(|number| {
            let folder = random.pick(&folders[1..]);
            let suffix = *random.pick(&["c", "c", "c", "c", "h", "h", "S", "txt"]);
            let name = format!("{}_{}_{number}.{suffix}", random.pick(&SUBJECTS), random.pick(&ACTIONS));
            let bytes = random.log_normal(FILE_BYTES_MEDIAN, FILE_BYTES_SPREAD) as usize;
            let bytes = bytes.clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
            Planned { path: folder.join(name), bytes, seed: random.next() }
        })
        .collect();
    (folders.split_off(1), planned)
}

/// Text that reads like C, exactly `bytes` bytes of it.
pub(crate) fn text(bytes: usize, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut text = String::with_capacity(bytes + 512);
    let _ = writeln!(
        text,
        "/* {} {} of the {} layer */",
        random.pick(&SUBJECTS),
        random.pick(&ACTIONS),
        random.pick(&SUBJECTS)
    );
    for _ in 0..random.below(8) {
        let _ = writeln!(text, "#include <{}/{}.h>", random.pick(&SUBJECTS), random.pick(&SUBJECTS));
    }
    while text.len() < bytes {
        function(&mut text, &mut random);
    }
    text.truncate(bytes - 1);
    text.push('\n');
    text
}

fn function(text: &mut String, random: &mut Random) {
    let (subject, action) = (*random.pick(&SUBJECTS), *random.pick(&ACTIONS));
    let kind = *random.pick(&KINDS);
    let _ = write!(
        text,
        "\nstatic {kind} {subject}_{action}(struct {subject} *{subject}, unsigned long flags)\n{{\n"
    );
    for _ in 0..2 + random.below(14) {
        let (other, verb) = (*random.pick(&SUBJECTS), *random.pick(&ACTIONS));
        let number = random.below(4096);
        let _ = match random.below(6) {
            0 => writeln!(
                text,
                "\tif ({subject}->{other} && !(flags & {number:#06x}))\n\t\treturn -E{};",
                verb.to_uppercase()
            ),
            1 => writeln!(text, "\t{subject}->{other} = {other}_{verb}({subject}, {number});"),
            2 => writeln!(
                text,
                "\tlist_for_each_entry({other}, &{subject}->{other}s, node)\n\t\t{other}_{verb}({other});"
            ),
            3 => writeln!(text, "\tpr_debug(\"{subject}: {verb} of {other} %lu\\n\", flags);"),
            4 => writeln!(text, "\t/* {verb} the {other} before the {subject} is seen by others */"),
            _ => {
                writeln!(text, "\tfor (i = 0; i < {number}; i++)\n\t\t{subject}->{other}[i] ^= {verb}_mask;")
            }
        };
    }
    text.push_str("\treturn 0;\n}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every regular file below a folder, sorted.
    fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir()? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    files.push(entry.path());
                }
            }
        }
        files.sort();
        Ok(files)
    }

    #[test]
    fn the_same_number_of_files_is_the_same_tree() {
        assert_eq!(plan(300), plan(300));
        assert_eq!(text(5_000, 9), text(5_000, 9));
        assert_ne!(text(5_000, 9), text(5_000, 10));
    }

    #[test]
    fn sizes_and_nesting_are_those_of_a_source_tree() {
        let (folders, files) = plan(3_000);
        assert!((150..=200).contains(&folders.len()), "{} folders", folders.len());
        assert_eq!(files.len(), 3_000);
        let mut sizes: Vec<usize> = files.iter().map(|file| file.bytes).collect();
        sizes.sort_unstable();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((5_500..6_900).contains(&sizes[1_500]), "median {}", sizes[1_500]);
        assert!((10_500..14_000).contains(&mean), "mean {mean}");
        assert!(files.iter().all(|file| file.path.components().count() <= DEPTH_MAX + 1));
    }

    #[test]
    fn a_tree_has_the_planned_files_and_never_the_word_searched_for() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        write(&root, 40).unwrap();
        let mut planned: Vec<(PathBuf, usize)> =
            plan(40).1.into_iter().map(|file| (root.join(file.path), file.bytes)).collect();
        planned.sort();
        let found = files_below(&root).unwrap();
        assert_eq!(found, planned.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>());
        for (path, bytes) in planned {
            let text = fs::read_to_string(path).unwrap();
            assert_eq!(text.len(), bytes);
            assert!(!text.contains("forebay"));
        }
    }
}
