//! `forebay evaluate need`, by its command line.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_testkit::{copy_program, guests, skip};
use serde_json::Value;

/// A user that is not root.
const USER: u32 = 64123;

/// A group of memory that belongs to a user. It goes when it is dropped.
struct Delegated {
    top: PathBuf,
    /// Where the user's processes are.
    leaf: PathBuf,
}

impl Delegated {
    /// `None` where this process may make none.
    fn new() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let of = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?.to_owned(), fields.next()?.trim_start_matches('/').to_owned()))
        };
        let groups: Vec<(String, String)> = text.lines().filter_map(of).collect();
        let (controllers, path) = groups
            .iter()
            .find(|(controllers, _)| controllers.split(',').any(|one| one == "memory"))
            .or_else(|| groups.iter().find(|(controllers, _)| controllers.is_empty()))?;
        let name = format!("forebay-user-{}", std::process::id());
        let top = if controllers.is_empty() {
            // The root may have processes beside groups.
            Path::new("/sys/fs/cgroup").join(name)
        } else {
            Path::new("/sys/fs/cgroup/memory").join(path).join(name)
        };
        fs::create_dir(&top).ok()?;
        let leaf = if controllers.is_empty() { top.join("leaf") } else { top.clone() };
        let group = Self { top, leaf };
        if controllers.is_empty() {
            fs::write(group.top.join("cgroup.subtree_control"), "+memory").ok()?;
            fs::create_dir(&group.leaf).ok()?;
        }
        for folder in [&group.top, &group.leaf] {
            let files = ["", "cgroup.procs"].map(|file| folder.join(file));
            files.iter().try_for_each(|file| chown(file, Some(USER), Some(USER))).ok()?;
        }
        Some(group)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        for group in [&self.leaf, &self.top] {
            let begun = Instant::now();
            while fs::remove_dir(group).is_err() && group.exists() && begun.elapsed().as_secs() < 10 {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn a_user_measures_in_a_delegated_group() {
    let test = "a_user_measures_in_a_delegated_group";
    let Some(group) = Delegated::new() else { return skip(test, "no group can be made for a user") };
    let shared = tempfile::tempdir().unwrap();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copied = |from: &Path| {
        let to = shared.path().join(from.file_name().unwrap());
        copy_program(from, &to);
        to
    };
    let forebay = copied(Path::new(env!("CARGO_BIN_EXE_forebay")));
    copied(Path::new(env!("CARGO_BIN_EXE_forebay-commands")));
    let program = copied(&guests::build("working_set"));
    let file = shared.path().join("set");
    fs::write(&file, vec![7; 8 << 20]).unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec setpriv --reuid {USER} --regid {USER} --clear-groups {} evaluate need \
         --rounds 1 --pairs 1 --seconds 0.1 --json - -- {} cyclic 8 {}",
        group.leaf.display(),
        forebay.display(),
        program.display(),
        file.display()
    );
    let measured = Command::new("sh")
        .args(["-c", &script])
        .current_dir("/")
        .env("TMPDIR", shared.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{said}");
    let results: Value = serde_json::from_slice(&measured.stdout).unwrap();
    let rows = results["rows"].as_array().unwrap();
    let need = rows.iter().find(|row| row["metric"] == "need").unwrap_or_else(|| panic!("{said}"));
    let mebibytes = need["value"].as_f64().unwrap() / 1_048_576.0;
    assert!((7.8..9.0).contains(&mebibytes), "{said}");
    assert_eq!(results["statements"][0]["kind"], "conclusion");
}

#[test]
fn an_experiment_or_a_program_is_asked_for() {
    let asked = |arguments: &[&str]| {
        let command = [&["evaluate", "need"], arguments].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_forebay")).args(command).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for wrong in [&[][..], &["web", "--", "true"], &["--set", "clients=1", "--", "true"]] {
        assert_eq!(asked(wrong).0, Some(2), "{wrong:?}");
    }
    let (status, said) = asked(&["--seconds", "nan", "--", "true"]);
    assert!(status == Some(2) && said.contains("give seconds from 0.05 to 3600"), "{said}");
}
