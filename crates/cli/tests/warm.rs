//! `forebay warm`: what a pack names is in memory afterwards, and nothing else. Needs the agent library beside the test's build:
//! `cargo build -p forebay-agent --profile agent`.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_linux::cachestat;
use forebay_testkit::skip;
use rustix::fs::{Advice, CWD, FileType, Mode, fadvise, mknodat};

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");
/// Pages of the file that the recorded program reads a part of, and how many it reads.
const PAGES: usize = 500;
const READ: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that a pack was recorded in, and a place for copies.
struct Packed {
    folder: tempfile::TempDir,
}

impl Packed {
    fn new() -> Self {
        let agent = Path::new(FOREBAY).parent().unwrap().join("../agent/libforebay_agent.so");
        assert!(agent.is_file(), "build the agent first: cargo build -p forebay-agent --profile agent");
        let packed = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        fs::create_dir_all(packed.at("original/inner")).unwrap();
        for (name, pages) in [("large", PAGES), ("inner/whole", 3), ("unread", 10)] {
            fs::write(packed.at("original").join(name), vec![7; pages * 4096]).unwrap();
        }
        let script = format!("dd if=large bs=4096 skip=100 count={READ} of=/dev/null; cat inner/whole");
        let output = packed
            .command(&["profile", "pack", "--root", ".", "-o", "../pack", "--", "sh", "-c", &script])
            .current_dir(packed.at("original"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        packed
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(FOREBAY);
        command.args(arguments).stdin(Stdio::null()).current_dir(self.folder.path());
        command.env("HOME", self.folder.path()).env_remove("XDG_STATE_HOME");
        command
    }

    /// A copy of the folder with other inodes, the same contents and the same times.
    fn copy(&self, name: &str) {
        let copied =
            Command::new("cp").arg("-a").arg(self.at("original")).arg(self.at(name)).status().unwrap();
        assert!(copied.success());
        self.chill(name);
    }

    /// Drives all files of a copy out of memory.
    fn chill(&self, name: &str) {
        for file in ["large", "inner/whole", "unread"] {
            let Ok(file) = File::open(self.at(name).join(file)) else { continue };
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
    }

    fn cached(&self, name: &str) -> u64 {
        cachestat(File::open(self.at(name)).unwrap()).unwrap().cached
    }

    #[track_caller]
    fn warm(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(&[&["warm"], arguments].concat()).output().unwrap()
    }
}

/// Whether the kernel tells what of a file is in memory, and drives it out where it is asked to.
fn tells_residency(name: &str) -> bool {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(file.path(), vec![1; 8192]).unwrap();
    file.as_file().sync_all().unwrap();
    fadvise(file.as_file(), 0, None, Advice::DontNeed).unwrap();
    let tells = cachestat(file.as_file()).is_ok_and(|found| found.cached == 0);
    if !tells {
        skip(name, "the kernel does not tell what is in memory, or keeps it there");
    }
    tells
}

#[test]
fn a_pack_warms_the_recorded_pages_of_a_copy_and_no_others() {
    if !tells_residency("a_pack_warms_the_recorded_pages_of_a_copy_and_no_others") {
        return;
    }
    let packed = Packed::new();
    packed.copy("copy");
    let said = packed.warm(&["--wait", "--root", "copy", "pack"]);
    assert!(said.contains("44 KiB of 44 KiB") && said.lines().count() == 1, "{said}");
    let cached = ["large", "inner/whole", "unread"].map(|file| packed.cached(&format!("copy/{file}")));
    assert_eq!(cached, [READ, 3, 0]);
}

#[test]
fn of_a_changed_file_the_first_block_is_fetched_or_what_was_recorded_where_that_is_wanted() {
    if !tells_residency(
        "of_a_changed_file_the_first_block_is_fetched_or_what_was_recorded_where_that_is_wanted",
    ) {
        return;
    }
    let packed = Packed::new();
    packed.copy("copy");
    let now = std::time::SystemTime::now();
    File::options().write(true).open(packed.at("copy/large")).unwrap().set_modified(now).unwrap();
    packed.chill("copy");
    let said = packed.warm(&["--wait", "--root", "copy", "pack"]);
    assert!(said.contains("requests to changed files: 1"), "{said}");
    assert_eq!(["large", "inner/whole"].map(|file| packed.cached(&format!("copy/{file}"))), [1, 3]);
    packed.chill("copy");
    packed.warm(&["--wait", "--even-if-changed", "--root", "copy", "pack"]);
    assert_eq!(packed.cached("copy/large"), READ);
}

#[test]
fn no_link_leads_out_of_the_root_and_no_fifo_is_opened() {
    if !tells_residency("no_link_leads_out_of_the_root_and_no_fifo_is_opened") {
        return;
    }
    let packed = Packed::new();
    packed.copy("copy");
    packed.copy("outside");
    for (name, target) in [("large", packed.at("outside/large")), ("inner", "../outside/inner".into())] {
        let _ = fs::remove_file(packed.at("copy").join(name));
        let _ = fs::remove_dir_all(packed.at("copy").join(name));
        symlink(target, packed.at("copy").join(name)).unwrap();
    }
    let output = packed.output(&["--wait", "--root", "copy", "pack"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing was found below 'copy', so check --root"), "{said}");
    assert_eq!(["large", "inner/whole"].map(|file| packed.cached(&format!("outside/{file}"))), [0, 0]);

    fs::remove_file(packed.at("copy/large")).unwrap();
    mknodat(CWD, packed.at("copy/large"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let output = packed.output(&["--wait", "--root", "copy", "pack"]);
    assert_eq!(output.status.code(), Some(1));
    // Inside, links lead where they lead from the root.
    fs::remove_file(packed.at("copy/large")).unwrap();
    fs::rename(packed.at("outside/large"), packed.at("copy/inside")).unwrap();
    symlink("/inside", packed.at("copy/large")).unwrap();
    packed.warm(&["--wait", "--root", "copy", "pack"]);
    assert_eq!(packed.cached("copy/inside"), READ);
}

#[test]
fn warming_goes_on_when_the_command_has_returned() {
    if !tells_residency("warming_goes_on_when_the_command_has_returned") {
        return;
    }
    let packed = Packed::new();
    packed.copy("copy");
    assert_eq!(packed.warm(&["--root", "copy", "pack"]), "");
    let deadline = Instant::now() + PATIENCE;
    while packed.cached("copy/large") + packed.cached("copy/inner/whole") < READ + 3 {
        assert!(Instant::now() < deadline, "it is not in memory");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn two_at_once_fetch_the_same() {
    let packed = Packed::new();
    packed.copy("copy");
    let start = || {
        let mut command = packed.command(&["warm", "--wait", "--root", "copy", "pack"]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    for child in [start(), start()] {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success() && String::from_utf8_lossy(&output.stderr).contains("44 KiB of 44 KiB")
        );
    }
}

#[test]
fn a_user_s_own_profile_warms_too() {
    let packed = Packed::new();
    let (status, said) = {
        let output = packed.output(&["--wait", "--", "cat", "original/unread"]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(status, Some(1));
    assert!(said.contains("make one with: forebay run -- cat original/unread"), "{said}");
    let run = packed.command(&["run", "--stats", "--", "cat", "original/unread"]).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    packed.chill("original");
    packed.warm(&["--wait", "--", "cat", "original/unread"]);
    if tells_residency("a_user_s_own_profile_warms_too") {
        assert_eq!(packed.cached("original/unread"), 10);
    }
}

#[test]
fn what_a_cold_start_pays_is_explained_and_nothing_is_fetched() {
    let packed = Packed::new();
    packed.copy("copy");
    let explained = packed.command(&["warm", "--explain", "--root", "copy", "pack"]).output().unwrap();
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(text.contains("data read") && text.contains("/inner/whole"), "{text}");
    if tells_residency("what_a_cold_start_pays_is_explained_and_nothing_is_fetched") {
        assert_eq!(packed.cached("copy/large"), 0);
    }
    let json = packed.command(&["warm", "--explain", "--json", "-", "pack"]).output().unwrap().stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["bytes"], 44 << 10, "{json}");
    let json =
        packed.command(&["warm", "--wait", "--json", "-", "--root", "copy", "pack"]).output().unwrap().stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["bytes"], 44 << 10, "{json}");
}

/// CRC-32 (IEEE), as the head of a pack has it.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn what_is_no_sound_pack_is_refused_in_one_sentence() {
    let packed = Packed::new();
    let sound = fs::read(packed.at("pack")).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut pack = sound.clone();
        pack[at..at + bytes.len()].copy_from_slice(bytes);
        pack
    };
    // With other names and the right checksum.
    let renamed = |from: &str, to: &str| {
        let at = sound.windows(from.len()).rposition(|part| part == from.as_bytes()).unwrap();
        let mut pack = with(at, to.as_bytes());
        let sum = checksum(&pack[16..]);
        pack[12..16].copy_from_slice(&sum.to_le_bytes());
        pack
    };
    let cases = [
        ("nothing", vec![]),
        ("text", b"hello".to_vec()),
        ("truncated", sound[..sound.len() - 1].to_vec()),
        ("its head alone", sound[..16].to_vec()),
        ("longer", [&sound[..], b"x"].concat()),
        ("another version", with(8, &[2])),
        ("a profile", with(0, b"fbaccess")),
        ("a flipped bit", with(sound.len() - 1, &[!sound[sound.len() - 1]])),
        ("a name with a slash", renamed("large", "la/ge")),
        ("an absolute name", renamed("large", "/arge")),
        ("a name with a zero", renamed("large", "la\0ge")),
        ("endless", [&sound[..], &vec![0; 2 << 20]].concat()),
    ];
    for (what, bytes) in cases {
        fs::write(packed.at("hostile"), bytes).unwrap();
        for arguments in [&["hostile"][..], &["--wait", "hostile"], &["--explain", "hostile"]] {
            let output = packed.output(arguments);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{what}: {said}");
            assert!(
                said.starts_with("forebay: 'hostile' is refused: ") && said.lines().count() == 1,
                "{said}"
            );
            assert!(output.stdout.is_empty());
        }
    }
    let missing = packed.output(&["missing"]);
    assert_eq!(missing.status.code(), Some(1));
    let elsewhere = packed.output(&["--root", "/nowhere", "pack"]);
    assert!(String::from_utf8(elsewhere.stderr).unwrap().contains("name a folder with --root"));
}

#[test]
fn the_small_program_alone_warms() {
    let packed = Packed::new();
    let lonely = packed.at("forebay");
    forebay_testkit::copy_program(FOREBAY, &lonely);
    let warm = Command::new(&lonely)
        .args(["warm", "--wait", "--root", "original", "-"])
        .current_dir(packed.folder.path())
        .stdin(File::open(packed.at("pack")).unwrap())
        .output()
        .unwrap();
    assert!(warm.status.success(), "{warm:?}");
    let refused =
        Command::new(&lonely).args(["warm", "original/unread"]).current_dir(packed.folder.path()).output();
    assert_eq!(refused.unwrap().status.code(), Some(1));
}
