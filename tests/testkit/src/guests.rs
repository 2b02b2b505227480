//! Compiles the small C programs in `tests/guests/`. For tests, which run where the sources are.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, artifacts};

const FLAGS: [&str; 3] = ["-O2", "-g", "-Wall"];
/// Lines at the top of a source among which `// cc: FLAGS` is looked for.
const HEAD_LINES: usize = 20;

/// The compiled program `tests/guests/<name>.c`: the one of an earlier call, in this process or another, if neither source
/// nor flags have changed since.
///
/// The compiler is `$CC`, or cc. A line `// cc: -pthread -static` among the first 20 of the source adds flags.
///
/// # Errors
///
/// [`Error::Program`] with what the compiler said, and when there is no such source.
pub fn build(name: &str) -> Result<PathBuf, Error> {
    let source = artifacts::workspace().join("tests/guests").join(format!("{name}.c"));
    let text = fs::read_to_string(&source).map_err(|error| Error::at("read", &source, error))?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let own_flags = flags_in(&text);

    let mut hasher = DefaultHasher::new();
    (&text, &compiler, FLAGS, &own_flags).hash(&mut hasher);
    let folder = artifacts::target_folder().join("guests");
    let program = folder.join(format!("{name}-{:016x}", hasher.finish()));
    if program.exists() {
        return Ok(program);
    }
    fs::create_dir_all(&folder).map_err(|error| Error::at("make", &folder, error))?;
    // Another process may be building the same: each has its own file, and the last rename wins.
    let unfinished = folder.join(format!(".{name}-{}-{}", std::process::id(), thread_number()));
    let compiled = compile(&compiler, &own_flags, &source, &unfinished).and_then(|()| {
        fs::rename(&unfinished, &program).map_err(|error| Error::at("rename", &program, error))
    });
    if compiled.is_err() {
        // It may not even be there.
        let _ = fs::remove_file(&unfinished);
    }
    compiled.map(|()| program)
}

fn compile(compiler: &str, own_flags: &[&str], source: &Path, program: &Path) -> Result<(), Error> {
    let mut command = Command::new(compiler);
    // Libraries among the guest's flags must come after what needs them.
    command.args(FLAGS).arg("-o").arg(program).arg(source).args(own_flags);
    let run = command.output().map_err(|error| Error::io(format!("start {compiler}"), error))?;
    if run.status.success() {
        return Ok(());
    }
    Err(Error::Program {
        command: format!("{compiler} {}", source.display()),
        said: String::from_utf8_lossy(&run.stderr).trim().to_owned(),
    })
}

fn flags_in(text: &str) -> Vec<&str> {
    let head = text.lines().take(HEAD_LINES);
    head.filter_map(|line| line.trim().strip_prefix("// cc:")).flat_map(str::split_whitespace).collect()
}

fn thread_number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_from_the_head_of_the_source() {
        let late = "\n".repeat(HEAD_LINES);
        let text =
            format!("/* does this */\n// cc: -pthread -static\nint x; // cc: -no\n{late}// cc: -late\n");
        assert_eq!(flags_in(&text), ["-pthread", "-static"]);
    }
}
