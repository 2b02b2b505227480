//! The rules of the repository. Each test collects everything that breaks its rule and prints it all.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_tidy::markdown;
use forebay_tidy::sources::{has_extension, text, written_files};
use forebay_tidy::tokens::RustFile;
use forebay_tidy::workspace::{Package, Workspace};

/// What each crate is linked with or built by, from the bottom up: no more, and no less. `ANY` may use everything. A new
/// crate gets a line here.
const LAYERS: &[(&str, &[&str])] = &[
    ("sigsafe", &[]),
    ("linux", &[]),
    ("quantity", &[]),
    ("names", &[]),
    ("results", &["linux"]),
    ("vm", &["linux", "sigsafe"]),
    ("protocol", &[]),
    ("policy", &["protocol"]),
    ("profile", &[]),
    ("agent", &["policy", "protocol", "sigsafe"]),
    ("supervisor", &["linux", "policy", "profile", "protocol", "quantity", "results"]),
    ("coherence", &[]),
    ("channel", &[]),
    ("ucx-sys", &[]),
    ("launch", &["linux"]),
    ("millipage", &["channel", "coherence", "launch", "linux", "sigsafe", "ucx-sys", "vm"]),
    ("capi", &["millipage"]),
    ("python", &["millipage"]),
    ("rtsp", &[]),
    ("media", &["rtsp"]),
    ("streaming", &["media", "rtsp"]),
    ("hls", &["media", "rtsp", "streaming"]),
    ("cameras", &["hls", "media", "rtsp"]),
    ("server", &["cameras", "hls", "linux", "media", "quantity", "rtsp", "streaming"]),
    ("lab", &["linux", "names"]),
    ("counters", &["linux", "quantity", "results"]),
    ("probes", &["linux", "names", "quantity", "results", "vm"]),
    ("report", &["quantity", "results"]),
    ("stream-clients", &["linux", "names"]),
    ("share-workload", &["coherence", "launch", "millipage", "vm"]),
    (
        "evaluation",
        &[
            "coherence",
            "counters",
            "lab",
            "linux",
            "millipage",
            "names",
            "probes",
            "quantity",
            "results",
            "share-workload",
            "stream-clients",
            "vm",
        ],
    ),
    ("cli", ANY),
    ("testkit", &[]),
    ("compat", &["lab", "testkit"]),
    ("tidy", &[]),
];
const ANY: &[&str] = &["*"];

/// No crate depends on these: a user comes in there, or tests live there.
const LEAVES: &[&str] = &["cli", "capi", "python", "compat", "tidy"];

/// Crates of tests. What a user runs is linked with none of them.
const OF_TESTS: &[&str] = &["compat", "testkit", "tidy"];

/// Folders of source files with no input, no output and no clock: time and events come in as arguments, so these are
/// tested by simulation.
const PURE: &[&str] = &[
    "crates/base/linux/src/kernel_text",
    "crates/run/policy/src",
    "crates/run/profile/src",
    "crates/run/protocol/src",
    "crates/share/channel/src",
    "crates/share/coherence/src",
    "crates/serve/cameras/src",
    "crates/serve/rtsp/src",
    "crates/serve/streaming/src",
    "crates/evaluate/evaluation/src/experiments",
    "crates/evaluate/evaluation/src/model",
    "crates/evaluate/evaluation/src/projection",
    "crates/evaluate/report/src",
    "crates/evaluate/share-workload/src/kernels",
    "crates/evaluate/stream-clients/src/protocol",
];

/// What a pure file does not name of the standard library outside its tests.
const IMPURE_MODULES: &[&str] = &["env", "fs", "io", "net", "os", "process", "thread", "time"];

/// Crates that a pure file does not name, because they are made of input, output and clocks.
const IMPURE_CRATES: &[&str] = &["libc", "mio", "nix", "rustix", "tokio"];

/// The crates whose work is unsafe by nature.
const UNSAFE_CRATES: &[&str] = &["sigsafe", "linux", "vm", "agent", "millipage", "capi", "ucx-sys"];

/// The only files with unsafe code outside those crates. Their crates deny it everywhere else.
const UNSAFE_FILES: &[&str] = &[
    "crates/run/supervisor/src/ffi/clock.rs",
    "crates/run/supervisor/src/ffi/events.rs",
    "crates/run/supervisor/src/ffi/fault_samples.rs",
    "crates/run/supervisor/src/ffi/fault_signals.rs",
    "crates/run/supervisor/src/ffi/lease_list.rs",
    "crates/run/supervisor/src/ffi/mapping.rs",
    "crates/run/supervisor/src/ffi/own_code.rs",
    "crates/run/supervisor/src/ffi/thread_usage.rs",
    "crates/evaluate/lab/src/sys.rs",
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "util", "utils", "helper", "helpers", "misc"];

/// The page that shows [`FIRST_PROGRAMS`].
const GUIDE_OF_SHARE: &str = "docs/guide/share.md";

/// A first program of shared memory, in three languages.
const FIRST_PROGRAMS: &[&str] = &[
    "crates/share/millipage/examples/heat.rs",
    "crates/share/capi/examples/heat.c",
    "crates/share/python/examples/heat.py",
];

/// The longest that such a program may be, in lines.
const FIRST_PROGRAM_LINES_MAX: usize = 29;

/// The longest that a source file may get, in lines.
const LINES_MAX: usize = 800;

/// The numbers of the policy of `forebay run`.
const NUMBERS: &str = "crates/run/policy/src/price.rs";

/// The words by which a number says where it is from.
const SOURCES: &[&str] = &["Choice", "Measured", "Source"];

/// Extensions of the files that people write in a programming language.
const SOURCE_EXTENSIONS: &[&str] = &["rs", "c", "h", "py", "sh"];

#[test]
fn crates_depend_on_the_layers_below_them_as_listed() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for package in &workspace.packages {
        let name = package.short_name();
        let Some((_, listed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            broken.push(format!("{name} has no line in LAYERS: say there what it depends on"));
            continue;
        };
        let found: BTreeSet<&str> = package.own_dependencies().collect();
        if *listed != ANY {
            let listed: BTreeSet<&str> = listed.iter().copied().collect();
            let more = found.difference(&listed);
            broken.extend(more.map(|one| format!("{name} depends on {one}, which LAYERS does not list")));
            let less = listed.difference(&found);
            broken.extend(less.map(|one| format!("LAYERS lists {one} for {name}, which does not use it")));
        }
        for one in found {
            if LEAVES.contains(&one) {
                broken.push(format!("{name} depends on {one}, which is a leaf"));
            }
            if OF_TESTS.contains(&one) && !OF_TESTS.contains(&name) {
                broken.push(format!("{name} ships with {one}, which is for tests"));
            }
        }
    }
    for (name, _) in LAYERS {
        if !workspace.packages.iter().any(|package| package.short_name() == *name) {
            broken.push(format!("{name} has a line in LAYERS and is no crate"));
        }
    }
    assert_none(broken);
}

#[test]
fn layers_are_listed_from_the_bottom_up() {
    let broken = LAYERS.iter().enumerate().flat_map(|(index, (name, uses))| {
        let below = &LAYERS[..index];
        let above = uses.iter().filter(|one| **one != "*" && !below.iter().any(|(layer, _)| layer == *one));
        above.map(move |one| format!("{name} uses {one}, which LAYERS lists after it"))
    });
    assert_none(broken.collect());
}

#[test]
fn dependencies_from_elsewhere_name_a_version() {
    let workspace = Workspace::load();
    let broken = workspace.packages.iter().flat_map(|package| {
        let loose = package.dependencies.iter().filter(|one| one.path.is_none() && one.req.contains('*'));
        loose.map(move |one| format!("{} depends on {} {}", package.name, one.name, one.req))
    });
    assert_none(broken.collect());
}

#[test]
fn pure_folders_do_no_input_or_output_and_read_no_clock() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for folder in PURE {
        let files = rust_files(&workspace.root.join(folder));
        if files.is_empty() {
            broken.push(format!("{folder} is in PURE and has no Rust file"));
        }
        for (path, file) in files {
            for (module, line) in file.std_modules() {
                if IMPURE_MODULES.contains(&module.as_str()) {
                    broken.push(format!("{}:{line}: std::{module}", workspace.relative(&path)));
                }
            }
            for name in IMPURE_CRATES {
                let lines = file.lines_of_word(name);
                broken
                    .extend(lines.iter().map(|line| format!("{}:{line}: {name}", workspace.relative(&path))));
            }
        }
    }
    assert_none(broken);
}

#[test]
fn unsafe_code_stays_where_it_belongs() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for file in UNSAFE_FILES {
        if !workspace.root.join(file).is_file() {
            broken.push(format!("{file} is in UNSAFE_FILES but not in the tree"));
        }
    }
    for package in workspace.packages.iter().filter(|package| !UNSAFE_CRATES.contains(&package.short_name()))
    {
        for (path, file) in rust_files(package.folder()) {
            let name = workspace.relative(&path);
            if UNSAFE_FILES.contains(&name) {
                continue;
            }
            // `#[unsafe(no_mangle)]` counts: it is a promise to the linker that no tool checks.
            let lines = file.lines_of_word("unsafe");
            broken.extend(lines.iter().map(|line| format!("{name}:{line}: unsafe code in a safe crate")));
        }
        broken.extend(roots_without_forbid(&workspace, package));
    }
    assert_none(broken);
}

/// The library and binaries of a safe crate say so themselves, so the compiler holds it for generated code as well.
fn roots_without_forbid(workspace: &Workspace, package: &Package) -> Vec<String> {
    let folder = format!("{}/", workspace.relative(package.folder()));
    let level = if UNSAFE_FILES.iter().any(|file| file.starts_with(&folder)) { "deny" } else { "forbid" };
    let shipped = package.targets.iter().filter(|target| {
        target
            .kind
            .iter()
            .any(|kind| matches!(kind.as_str(), "lib" | "bin" | "cdylib" | "staticlib" | "proc-macro"))
    });
    shipped
        .filter(|target| !parse(&target.src_path).has_inner_attribute(level, "unsafe_code"))
        .map(|target| format!("{}: no #![{level}(unsafe_code)]", workspace.relative(&target.src_path)))
        .collect()
}

#[test]
fn every_crate_inherits_the_workspace_s_lints_and_facts() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for package in &workspace.packages {
        let manifest = text(&package.manifest_path);
        let lines: Vec<&str> = manifest.lines().map(str::trim).collect();
        if !lines.windows(2).any(|two| two == ["[lints]", "workspace = true"]) {
            broken.push(format!("{} does not inherit the workspace's lints", package.name));
        }
        for fact in ["version", "edition", "rust-version", "license"] {
            if !lines.contains(&format!("{fact}.workspace = true").as_str()) {
                broken.push(format!("{} does not inherit {fact}", package.name));
            }
        }
    }
    assert_none(broken);
}

#[test]
fn names_say_what_is_inside() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for path in written_files(&workspace.root) {
        let name = workspace.relative(&path);
        let stems = name.split('/').map(|part| part.split('.').next().unwrap_or(part));
        broken.extend(stems.filter(|stem| EMPTY_NAMES.contains(stem)).map(|stem| format!("{name}: {stem}")));
    }
    for (path, file) in rust_files(&workspace.root) {
        let modules = file.modules();
        let empty = modules.iter().filter(|module| EMPTY_NAMES.contains(&module.as_str()));
        broken.extend(empty.map(|module| format!("{}: mod {module}", workspace.relative(&path))));
    }
    assert_none(broken);
}

#[test]
fn files_are_short_enough_to_read() {
    let workspace = Workspace::load();
    let sources =
        written_files(&workspace.root).into_iter().filter(|path| has_extension(path, SOURCE_EXTENSIONS));
    let broken = sources.filter_map(|path| {
        let lines = text(&path).lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines", workspace.relative(&path)))
    });
    assert_none(broken.collect());
}

#[test]
fn each_number_of_the_policy_says_where_it_is_from() {
    let list = text(&Workspace::load().root.join(NUMBERS));
    let (mut about, mut numbers, mut broken) = (String::new(), 0, Vec::new());
    for (line, at) in list.lines().zip(1..) {
        if let Some(words) = line.strip_prefix("///") {
            about.push_str(words);
            continue;
        }
        if line.starts_with("pub const ") && !line.starts_with("pub const fn ") {
            numbers += 1;
            if !SOURCES.iter().any(|word| about.contains(word)) {
                broken.push(format!("{NUMBERS}:{at}: {line}"));
            }
        }
        about.clear();
    }
    assert!(numbers > 0, "{NUMBERS} has no number");
    assert_none(broken);
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file does not break its own rule.
    let marks =
        ["TO_DO", "FIX_ME", "to_do!", "un_implemented!", "#[ig_nore"].map(|mark| mark.replace('_', ""));
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for path in written_files(&workspace.root) {
        let named = ["Makefile", "run", "setup"].iter().any(|name| path.ends_with(name));
        if !named && !has_extension(&path, SOURCE_EXTENSIONS) && !has_extension(&path, &["md", "toml"]) {
            continue;
        }
        for (line, number) in text(&path).lines().zip(1..) {
            let found = marks.iter().filter(|mark| line.contains(mark.as_str()));
            broken.extend(found.map(|mark| format!("{}:{number}: {mark}", workspace.relative(&path))));
        }
    }
    assert_none(broken);
}

#[test]
fn architecture_names_every_crate() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for page in ["ARCHITECTURE.md"] {
        let page_text = text(&workspace.root.join(page));
        for package in &workspace.packages {
            let folder = workspace.relative(package.folder());
            if !page_text.contains(folder) {
                broken.push(format!("{page} does not mention {folder}"));
            }
        }
    }
    assert_none(broken);
}

#[test]
fn the_guide_shows_the_first_programs_as_they_are() {
    let workspace = Workspace::load();
    let guide = text(&workspace.root.join(GUIDE_OF_SHARE));
    let mut broken = Vec::new();
    for path in FIRST_PROGRAMS {
        let program = text(&workspace.root.join(path));
        if !guide.contains(&format!("\n{program}```\n")) {
            broken.push(format!("{GUIDE_OF_SHARE} does not show {path} as it is"));
        }
        if program.lines().count() > FIRST_PROGRAM_LINES_MAX {
            broken.push(format!("{path} is too long for a first program"));
        }
    }
    assert_none(broken);
}

#[test]
fn links_between_pages_lead_somewhere() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for path in written_files(&workspace.root).into_iter().filter(|path| has_extension(path, &["md"])) {
        for (link, line) in markdown::links(&text(&path)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            if let Err(why) = resolve(&path, &link) {
                broken.push(format!("{}:{line}: {link}: {why}", workspace.relative(&path)));
            }
        }
    }
    assert_none(broken);
}

fn resolve(page: &Path, link: &str) -> Result<(), &'static str> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let folder = page.parent().expect("a page lies in a folder");
    let target = if file.is_empty() { page.to_path_buf() } else { folder.join(file) };
    if !target.exists() {
        return Err("no such file");
    }
    match anchor {
        Some(anchor) if has_extension(&target, &["md"]) => {
            let anchors: BTreeSet<String> = markdown::anchors(&text(&target)).into_iter().collect();
            if anchors.contains(anchor) { Ok(()) } else { Err("no such heading") }
        }
        _ => Ok(()),
    }
}

fn rust_files(folder: &Path) -> Vec<(PathBuf, RustFile)> {
    let paths = written_files(folder).into_iter().filter(|path| has_extension(path, &["rs"]));
    paths
        .map(|path| {
            let file = parse(&path);
            (path, file)
        })
        .collect()
}

fn parse(path: &Path) -> RustFile {
    RustFile::parse(&text(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
fn assert_none(broken: Vec<String>) {
    assert!(broken.is_empty(), "{} times:\n  {}", broken.len(), broken.join("\n  "));
}
