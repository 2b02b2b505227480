//! The rules of the repository. Each test collects everything that breaks its rule and prints it all.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_architecture::markdown;
use forebay_architecture::sources::{has_extension, text, written_files};
use forebay_architecture::tokens::RustFile;
use forebay_architecture::workspace::{Package, Workspace};

/// Who may depend on whom, from the bottom up. `ANY` may use everything. A new crate gets a line here.
const LAYERS: &[(&str, &[&str])] = &[
    ("sigsafe", &[]),
    ("sys", &["sigsafe"]),
    ("groups", &[]),
    ("vm", &["sigsafe", "sys"]),
    ("coherence", &[]),
    ("ucx-sys", &[]),
    ("rendezvous", &[]),
    ("projection", &["coherence"]),
    (
        "millipage",
        &["coherence", "groups", "projection", "rendezvous", "sigsafe", "testkit", "ucx-sys", "vm"],
    ),
    ("kernels", &["millipage"]),
    ("capi", &["millipage", "testkit"]),
    ("python", &["millipage", "testkit"]),
    ("workload", &["coherence", "kernels", "millipage", "rendezvous", "vm"]),
    ("model", &[]),
    ("rtsp", &[]),
    ("media", &["rtsp", "testkit"]),
    ("streaming", &["media", "rtsp"]),
    ("server", &["media", "rtsp", "streaming", "testkit"]),
    ("playback", &[]),
    ("players", &["playback", "testkit"]),
    ("speculation", &[]),
    ("agent", &["sigsafe", "speculation", "sys", "vm"]),
    ("meter", &[]),
    ("probes", &["meter", "vm"]),
    ("experiments", &["meter"]),
    ("report", &["meter"]),
    ("counters", &["groups", "meter", "sys", "testkit"]),
    ("testkit", &["groups", "meter", "sys"]),
    ("supervisor", &["groups", "meter", "rendezvous", "speculation", "sys"]),
    (
        "evaluation",
        &[
            "experiments",
            "counters",
            "meter",
            "model",
            "players",
            "probes",
            "speculation",
            "supervisor",
            "sys",
            "testkit",
            "vm",
            "millipage",
            "projection",
            "workload",
        ],
    ),
    ("promise", &["meter", "testkit"]),
    ("cli", ANY),
    ("architecture", &[]),
];
const ANY: &[&str] = &["*"];

/// Nobody depends on these: they are where a user comes in, or where tests live.
const LEAVES: &[&str] = &["cli", "capi", "python", "promise", "architecture"];

/// No input, no output, no clock: time and events come in as arguments, so these are tested by simulation.
const PURE: &[&str] = &[
    "coherence",
    "experiments",
    "kernels",
    "model",
    "playback",
    "projection",
    "report",
    "rtsp",
    "speculation",
    "streaming",
];

/// What a pure crate does not name of the standard library outside its tests.
const IMPURE_MODULES: &[&str] = &["env", "fs", "io", "net", "os", "process", "thread", "time"];

/// Crates that a pure crate does not depend on, because they are made of input, output and clocks.
const IMPURE_CRATES: &[&str] = &["libc", "mio", "nix", "rustix", "tokio"];

/// The crates whose work is unsafe by nature.
const UNSAFE_CRATES: &[&str] = &["sigsafe", "sys", "vm", "agent", "millipage", "capi", "ucx-sys"];

/// The only files with unsafe code outside those crates. Their crates deny it everywhere else.
const UNSAFE_FILES: &[&str] = &[
    "crates/supervisor/src/ffi.rs",
    "crates/supervisor/src/ffi/fault_signals.rs",
    "crates/supervisor/src/ffi/own_code.rs",
    "crates/testkit/src/sys.rs",
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "util", "utils", "helper", "helpers", "misc"];

/// What README shows of shared memory, in three languages.
const FIRST_PROGRAMS: &[&str] =
    &["crates/millipage/examples/heat.rs", "crates/capi/examples/heat.c", "crates/python/examples/heat.py"];

/// The longest that such a program may be, in lines.
const FIRST_PROGRAM_LINES_MAX: usize = 29;

/// The longest that a source file may get, in lines.
const LINES_MAX: usize = 800;

/// Extensions of the files that people write in a programming language.
const SOURCE_EXTENSIONS: &[&str] = &["rs", "c", "h", "py", "sh"];

#[test]
fn crates_depend_only_on_the_layers_below_them() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for package in &workspace.packages {
        let name = package.short_name();
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            broken.push(format!("{name} has no line in LAYERS: say there what it may depend on"));
            continue;
        };
        for dependency in package.own_dependencies() {
            if *allowed != ANY && !allowed.contains(&dependency) {
                broken.push(format!("{name} depends on {dependency}, which is not below it"));
            }
            if LEAVES.contains(&dependency) {
                broken.push(format!("{name} depends on {dependency}, which is a leaf"));
            }
        }
    }
    assert_none(broken);
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
fn pure_crates_do_no_input_or_output_and_read_no_clock() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for package in workspace.packages.iter().filter(|package| PURE.contains(&package.short_name())) {
        let normal = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
        for dependency in normal.filter(|dependency| IMPURE_CRATES.contains(&dependency.name.as_str())) {
            broken.push(format!("{} depends on {}", package.name, dependency.name));
        }
        for (path, file) in rust_files(&package.folder().join("src")) {
            for (module, line) in file.std_modules() {
                if IMPURE_MODULES.contains(&module.as_str()) {
                    broken.push(format!("{}:{line}: std::{module}", workspace.relative(&path)));
                }
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
            // `#[unsafe(no_mangle)]` counts: it is a promise to the linker that nobody checks.
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
fn readme_and_architecture_name_every_crate() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for page in ["README.md", "ARCHITECTURE.md"] {
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
fn readme_shows_the_first_programs_as_they_are() {
    let workspace = Workspace::load();
    let readme = text(&workspace.root.join("README.md"));
    let mut broken = Vec::new();
    for path in FIRST_PROGRAMS {
        let program = text(&workspace.root.join(path));
        if !readme.contains(&format!("\n{program}```\n")) {
            broken.push(format!("README.md does not show {path} as it is"));
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
