//! `forebay report` as its caller sees it, and its page as a real browser shows it.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use forebay_results::{Report, Row, Spread};
use forebay_testkit::skip;
use serde_json::Value;
use tempfile::TempDir;

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");
const CHROMIUM: &str = "/usr/bin/chromium";
/// Looks at the page in its frame from outside, so that the page is just what a reader gets.
const INSPECTION: &str = include_str!("report/inspection.html");
/// No browser takes longer, however busy the machine is.
const BROWSER_LIMIT: Duration = Duration::from_secs(240);
const PAGE_BYTES_MAX: u64 = 10 << 18;
/// What a reader scrolls, prints, and steps through with the tabulator key.
const PHONE_HEIGHT_MAX: u64 = 32_000;
const SCREEN_HEIGHT_MAX: u64 = 16_000;
const PRINTED_PAGES_MAX: usize = 12;
const STOPS_MAX: u64 = 500;

fn report(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(FOREBAY)
        .arg("report")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn made(folder: &Path, arguments: &[&str]) -> Output {
    let output = report(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

/// What `forebay report` says of a refusal: one line.
#[track_caller]
fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let output = report(folder, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.starts_with("forebay: "), "{said}");
    said
}

fn write(folder: &TempDir, name: &str, rows: Vec<Row>) {
    let report = Report::new("abc", "forebay evaluate speculation --json x.json", rows);
    fs::write(folder.path().join(name), serde_json::to_string(&report).unwrap()).unwrap();
}

fn row(subject: &str, case: &str, values: &[f64]) -> Row {
    Row::of(subject, case, "elapsed", "s", Spread::of(values).unwrap())
}

/// The committed pages are those that the committed results make, so they cannot go stale.
#[test]
fn the_pages_of_benchmarks_are_made_of_the_committed_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = |folder: &Path, ending: &str| -> Vec<PathBuf> {
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|one| one == ending)).collect();
        files.sort();
        files
    };
    let results = files(&root.join("benches/results"), "json");
    let results: Vec<&str> = results.iter().map(|path| path.to_str().unwrap()).collect();
    let made_here = tempfile::tempdir().unwrap();
    made(made_here.path(), &[results.as_slice(), &["--markdown", "."]].concat());
    let pages = files(made_here.path(), "md");
    assert!(pages.len() >= 7, "{pages:?}");
    for page in pages {
        let name = page.file_name().unwrap();
        let fresh = fs::read_to_string(&page).unwrap();
        let committed = fs::read_to_string(root.join("docs/benchmarks").join(name)).unwrap_or_default();
        assert_eq!(
            committed, fresh,
            "make it again: forebay report benches/results/*.json --markdown docs/benchmarks"
        );
        assert!(fresh.lines().count() <= 250, "{name:?} is too long");
    }
}

/// A reader who measures again types what the file was measured with.
#[test]
fn the_list_of_committed_results_has_the_command_of_each() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/README.md");
    let list = fs::read_to_string(list).unwrap();
    for path in published() {
        let report =
            Report::read(serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap()).unwrap();
        // Figures are not kept.
        let command = report.command.split(" --svg ").next().unwrap();
        let name = Path::new(&path).file_name().unwrap().to_str().unwrap();
        let line = format!("| `{name}` | `{command}`");
        assert!(list.contains(&line), "benches/README.md has no line that begins: {line}");
    }
}

#[test]
fn a_page_goes_to_standard_output_and_several_need_a_folder() {
    let folder = before_and_after();
    let rows = |case: &str| vec![row("ld", case, &[1.0, 2.0, 3.0])];
    write(&folder, "one.json", rows("local/original"));
    let page = made(folder.path(), &["one.json", "--markdown", "-"]);
    assert!(
        String::from_utf8(page.stdout).unwrap().starts_with("# forebay run: programs that wait for files")
    );
    let overhead = Report::new("abc", "forebay evaluate overhead", rows("warm/original"));
    fs::write(folder.path().join("two.json"), serde_json::to_string(&overhead).unwrap()).unwrap();
    assert!(refusal(folder.path(), &["one.json", "two.json", "--markdown", "-"]).contains("make 2 pages"));
}

/// What schema 1 wrote is read with the names of today.
#[test]
fn results_of_the_first_schema_are_read_and_of_a_later_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rows = vec![Row::once("gnuld", "cloud/forebay", "page_reclaims", "1", 3.0)];
    let mut old = serde_json::to_value(Report::new("abc", "forebay evaluate speculation", rows)).unwrap();
    for schema in [1, 7] {
        old["schema"] = schema.into();
        fs::write(folder.path().join(format!("{schema}.json")), old.to_string()).unwrap();
    }
    let csv = made(folder.path(), &["1.json", "--csv", "-"]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    assert!(csv.contains("ld,ssd-1ms-q128/forebay,minor_faults,1,3"), "{csv}");
    assert!(
        refusal(folder.path(), &["7.json", "-o", "-"])
            .contains("of schema 7, and this forebay reads schemas 1 to 2")
    );
}

/// Two files, of which the second is what the first became.
fn before_and_after() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rows = |factor: f64| {
        let sides = [
            ("ld", "ssd-1ms-q128/original", 4.0),
            ("ld", "ssd-1ms-q128/forebay", 2.0),
            ("grep", "ssd-1ms-q128/original", 9.0),
        ];
        sides
            .map(|(subject, case, value)| {
                row(subject, case, &[1.0, 1.1, 1.2].map(|run| run * value * factor))
            })
            .into()
    };
    write(&folder, "before.json", rows(1.0));
    write(&folder, "after.json", rows(3.0));
    folder
}

fn published() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/results");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|one| one == "json"))
        .map(|path| path.into_os_string().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_form_is_written_and_merged_results_are_read_again() {
    let folder = before_and_after();
    let at = |name: &str| folder.path().join(name);
    write(&folder, "other.json", vec![row("random-reads", "ssd-1ms-q128/forebay", &[1.0])]);
    made(
        folder.path(),
        &[
            "before.json",
            "other.json",
            "-o",
            "page.html",
            "--csv",
            "rows.csv",
            "--json",
            "all.json",
            "--svg",
            "figures",
        ],
    );
    assert!(fs::read_to_string(at("page.html")).unwrap().starts_with("<!DOCTYPE html>"));
    assert_eq!(fs::read_to_string(at("rows.csv")).unwrap().lines().count(), 1 + 4);
    let names: Vec<_> =
        fs::read_dir(at("figures")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["evaluate-speculation-elapsed.svg"]);
    let again = made(folder.path(), &["all.json", "--csv", "-"]).stdout;
    assert_eq!(again.iter().filter(|byte| **byte == b'\n').count(), 1 + 4);
}

#[test]
fn a_comparison_has_a_page_and_lines() {
    let folder = before_and_after();
    let arguments =
        ["before.json", "--compare", "after.json", "-o", "changes.html", "--csv", "-", "--svg", "figures"];
    let lines = String::from_utf8(made(folder.path(), &arguments).stdout).unwrap();
    assert_eq!(lines.matches(",worse,").count(), 3, "{lines}");
    let page = fs::read_to_string(folder.path().join("changes.html")).unwrap();
    assert!(page.contains("3 values are worse than before by 5"), "{page}");
    assert!(folder.path().join("figures/change-ratio-of-elapsed.svg").is_file());
}

#[test]
fn a_comparison_fails_where_that_is_asked_for() {
    let folder = before_and_after();
    let status = |fail_on: &str| {
        let output = report(folder.path(), &["before.json", "--compare", "after.json", "--fail-on", fail_on]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = status("worse:5%");
    assert_eq!((code, said.lines().count()), (Some(3), 3), "{said}");
    assert!(said.contains("elapsed is worse: "), "{said}");
    assert_eq!(status("worse:900%"), (Some(0), String::new()));
    let (code, said) = status("better:5%");
    assert!(code == Some(2) && said.contains("such as worse:5%"), "{said}");
    // The other way round all is better.
    let turned = ["after.json", "--compare", "before.json", "--fail-on"];
    assert_eq!(report(folder.path(), &[&turned[..], &["worse:5%"]].concat()).status.code(), Some(0));
    assert_eq!(report(folder.path(), &[&turned[..], &["change:5%"]].concat()).status.code(), Some(3));
}

#[test]
fn a_comparison_that_could_not_be_made_does_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    let three = [1.0, 1.001, 1.002];
    write(&folder, "one.json", vec![row("ld", "local", &[1.0])]);
    write(&folder, "twice.json", vec![row("ld", "local", &[2.0])]);
    write(&folder, "both.json", vec![row("ld", "local", &three), row("grep", "local", &[1.0])]);
    write(&folder, "part.json", vec![row("ld", "local", &three), row("grep", "local", &[2.0])]);
    write(&folder, "ld.json", vec![row("ld", "local", &three)]);
    for (before, after, status, said) in [
        ("one.json", "twice.json", 3, "forebay: 1 of 1 value could not be judged; "),
        ("both.json", "ld.json", 3, "forebay: 1 row of before is missing after; "),
        ("ld.json", "both.json", 0, ""),
        ("both.json", "part.json", 0, ""),
        ("one.json", "ld.json", 3, "forebay: 1 of 1 value could not be judged; "),
        ("one.json", "one.json", 0, ""),
    ] {
        let output = report(folder.path(), &[before, "--compare", after, "--fail-on", "worse:5%"]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{before} to {after}: {told}");
        assert!(told.starts_with(said), "{before} to {after}: {told}");
    }
}

#[test]
fn several_files_of_a_side_are_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let sample =
        |value: f64| row("ld", "local/warm", &[value, value * 1.001, value * 1.002]).of_samples(None);
    for (number, scatter) in [0.9, 1.0, 1.1].into_iter().enumerate() {
        write(&folder, &format!("b{number}.json"), vec![sample(scatter)]);
        write(&folder, &format!("same{number}.json"), vec![sample(scatter * 1.01)]);
        write(&folder, &format!("a{number}.json"), vec![sample(scatter * 2.0)]);
    }
    let verdict = |before: &[&str], after: &[&str]| {
        let after = after.iter().flat_map(|file| ["--compare", file]);
        let arguments: Vec<&str> = before.iter().copied().chain(after).chain(["--csv", "-"]).collect();
        let lines = String::from_utf8(made(folder.path(), &arguments).stdout).unwrap();
        lines.lines().nth(1).unwrap().split(',').rev().nth(1).unwrap().to_owned()
    };
    let before = ["b0.json", "b1.json", "b2.json"];
    assert_eq!(verdict(&before, &["a0.json", "a1.json", "a2.json"]), "worse");
    assert_eq!(verdict(&before, &["same0.json", "same1.json", "same2.json"]), "cannot tell");
    assert_eq!(verdict(&before[..1], &["a0.json"]), "cannot tell");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = before_and_after();
    for output in ["--output", "--csv", "--json"] {
        let mut command = Command::new(FOREBAY);
        command.args(["report", "before.json", output, "-"]).current_dir(folder.path());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended =
            command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr.len()), (Some(0), 0), "{output}: {ended:?}");
    }
}

#[test]
fn two_outputs_do_not_go_to_one_place() {
    let folder = before_and_after();
    for both in
        [["-o", "-", "--csv", "-"], ["-o", "x", "--csv", "./x"], ["--csv", "-", "--json", "/dev/stdout"]]
    {
        let said = refusal(folder.path(), &[&["before.json"][..], &both].concat());
        assert!(said.contains("where they would mix"), "{both:?}: {said}");
        assert!(!folder.path().join("x").exists());
    }
}

#[test]
fn what_cannot_be_read_is_refused_in_a_sentence_and_nothing_is_written() {
    let folder = before_and_after();
    fs::write(folder.path().join("text"), "no results").unwrap();
    fs::write(folder.path().join("newer.json"), r#"{"schema":3,"rows":[]}"#).unwrap();
    fs::write(folder.path().join("binary"), [0xff, 0xfe, 0]).unwrap();
    write(&folder, "empty.json", vec![]);
    for (file, why) in [
        ("text", "is not JSON"),
        ("binary", "is not JSON"),
        ("newer.json", "has results of schema 3"),
        ("empty.json", "has no rows"),
        ("nothing.json", "cannot read 'nothing.json' (No such file or directory)"),
        (".", "cannot read '.' (Is a directory)"),
    ] {
        let said = refusal(folder.path(), &["before.json", file, "-o", "page.html"]);
        assert!(said.contains(why), "{file}: {said}");
        assert!(!folder.path().join("page.html").exists(), "{file}");
    }
    for unwritable in [["--csv", "/nowhere/rows.csv"], ["--svg", "before.json/figures"]] {
        let said = refusal(folder.path(), &[&["before.json", "-o", "page.html"][..], &unwritable].concat());
        assert!(said.contains("cannot write") && !folder.path().join("page.html").exists(), "{said}");
    }
    let said = refusal(folder.path(), &["before.json", "--svg", "-"]);
    assert!(said.contains("figures are several files") && !folder.path().join("-").exists(), "{said}");
    write(&folder, "other.json", vec![row("random-reads", "local/warm", &[1.0])]);
    let said = refusal(folder.path(), &["before.json", "--compare", "other.json", "-o", "page.html"]);
    assert!(said.contains("nothing to compare"), "{said}");
}

#[test]
fn refused_files_are_left_out_where_that_is_wanted() {
    let folder = before_and_after();
    fs::write(folder.path().join("text"), "<b>no results</b>").unwrap();
    let output = made(folder.path(), &["text", "before.json", "--keep-going", "-o", "page.html"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("it is left out"));
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("Left out: 'text' is not JSON"), "{page}");
    assert!(refusal_of_all(folder.path()).contains("no file is left"));
}

/// The last line, behind a line for each file.
fn refusal_of_all(folder: &Path) -> String {
    let output = report(folder, &["text", "--keep-going", "-o", "page.html"]);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap().lines().last().unwrap().to_owned()
}

#[test]
fn a_report_without_a_form_is_a_mistake() {
    let folder = before_and_after();
    assert_eq!(report(folder.path(), &["before.json"]).status.code(), Some(2));
    let both = ["before.json", "--compare", "after.json", "--json", "-"];
    assert_eq!(report(folder.path(), &both).status.code(), Some(2));
}

#[test]
fn the_page_of_all_published_results_works_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let names = published();
    let arguments: Vec<&str> = names.iter().map(String::as_str).chain(["-o", "page.html"]).collect();
    made(folder.path(), &arguments);
    let bytes = fs::metadata(folder.path().join("page.html")).unwrap().len();
    assert!(bytes < PAGE_BYTES_MAX, "{bytes}");
    let Some(seen) = inspected(&folder, "the_page_of_all_published_results_works_in_a_browser") else {
        return;
    };
    assert!(number(&seen, "figures") >= 5, "{seen}");
    assert!(number(&seen, "marks") >= 100, "{seen}");
    assert!(number(&seen, "rows") >= 4000, "{seen}");
    assert!((3..=5).contains(&number(&seen, "findings")), "{seen}");
    let heights: Vec<u64> =
        seen["heights"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect();
    assert!(heights[0] <= PHONE_HEIGHT_MAX && heights[1] <= SCREEN_HEIGHT_MAX, "{heights:?}");
    works(&seen);
    let pages = printed_pages(&folder);
    assert!((1..=PRINTED_PAGES_MAX).contains(&pages), "{pages}");
}

/// What no version of this program knows has figures and findings all the same.
#[test]
fn the_page_of_an_unknown_experiment_has_titles_with_units_and_findings() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = Vec::new();
    for (subject, factor) in [("a server with quite a long name of its own", 1.0), ("b", 1.3)] {
        for tenants in [1, 4, 16, 64] {
            for limit in ["", "/memory 24 MiB"] {
                let case = format!("{tenants} tenants/a condition that takes many words{limit}");
                let value = factor * f64::from(tenants) * if limit.is_empty() { 1.0 } else { 40.0 };
                rows.push(Row::once(subject, &case, "queue_sojourn_p99", "ms", value));
                rows.push(Row::once(subject, case, "widgets_turned", "widgets/s", 9e6 / value));
            }
        }
    }
    write(&folder, "new.json", rows);
    made(folder.path(), &["new.json", "-o", "page.html"]);
    let Some(seen) =
        inspected(&folder, "the_page_of_an_unknown_experiment_has_titles_with_units_and_findings")
    else {
        return;
    };
    works(&seen);
    let axes = seen["axes"].to_string();
    for title in ["queue sojourn p99, s", "widgets turned, widgets/s", "tenants, count"] {
        assert!(axes.contains(title), "{title}: {axes}");
    }
    assert_eq!((number(&seen, "figures"), number(&seen, "findings")), (2, 2), "{seen}");
}

#[test]
fn the_page_of_a_comparison_works_in_a_browser() {
    let folder = before_and_after();
    made(folder.path(), &["before.json", "--compare", "after.json", "-o", "page.html"]);
    let Some(seen) = inspected(&folder, "the_page_of_a_comparison_works_in_a_browser") else { return };
    assert_eq!((number(&seen, "figures"), number(&seen, "marks")), (1, 3), "{seen}");
    works(&seen);
}

#[test]
fn what_results_say_is_text_and_never_markup() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = "</title></script></style><script>document.title='owned'</script><img src=//127.0.0.1/x onerror=alert(1)>\"'";
    let mut rows: Vec<Row> =
        [1.0, 2.0, 3.0].map(|value| row(&format!("{hostile}{value}"), hostile, &[value])).into();
    rows.push(Row::once("s", "c", hostile, hostile, 1.0));
    let mut report = Report::new(hostile, format!("forebay {hostile}"), rows);
    (report.host.cpu, report.host.kernel) = (hostile.into(), hostile.into());
    fs::write(folder.path().join("hostile.json"), serde_json::to_string(&report).unwrap()).unwrap();
    made(folder.path(), &["hostile.json", "-o", "page.html", "--svg", "figures"]);
    let Some(seen) = inspected(&folder, "what_results_say_is_text_and_never_markup") else { return };
    assert_eq!(seen["title"], "Forebay results", "{seen}");
    // Its own, and the values of its one section.
    assert_eq!((number(&seen, "scripts"), number(&seen, "images")), (2, 0), "{seen}");
    works(&seen);
}

/// What holds of every page.
#[track_caller]
fn works(seen: &Value) {
    for broken in ["errors", "flat", "deadLinks", "unsorted", "overlaps", "outside", "untitled"] {
        assert_eq!(seen[broken], Value::Array(vec![]), "{broken}: {seen}");
    }
    assert!(number(seen, "sorted") >= 4, "{seen}");
    assert_eq!(number(seen, "requests"), 0, "{seen}");
    assert_eq!(seen["themeChanges"], true, "{seen}");
    assert_eq!(seen["overflows"], false, "{seen}");
    for led in ["linkLeads", "markLeads", "noted"] {
        assert_eq!(seen[led], true, "{led}: {seen}");
    }
    assert_eq!(number(seen, "unnamed"), 0, "{seen}");
    assert!(number(seen, "stops") <= number(seen, "stopsOpen"), "{seen}");
    assert!(number(seen, "stopsOpen") <= STOPS_MAX, "{seen}");
    assert_eq!(seen["policy"], "default-src 'none'", "{seen}");
}

fn number(seen: &Value, field: &str) -> u64 {
    seen[field].as_u64().unwrap_or_else(|| panic!("{field}: {seen}"))
}

/// What Chromium finds in `page.html` of `folder`; `None` where there is no Chromium. Anything on its console fails.
fn inspected(folder: &TempDir, test: &str) -> Option<Value> {
    if !Path::new(CHROMIUM).is_file() {
        skip(test, "there is no /usr/bin/chromium; 'scripts/setup test' installs it");
        return None;
    }
    fs::write(folder.path().join("inspection.html"), INSPECTION).unwrap();
    let (dom, log) = browsed(
        folder,
        "inspection.html",
        &["--allow-file-access-from-files", "--virtual-time-budget=60000", "--dump-dom"],
    );
    let console: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(console, [""; 0]);
    let found = dom.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("nothing was found: {dom}\n{log}"));
    let plain = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&plain).unwrap_or_else(|error| panic!("{error}: {found}")))
}

/// How many pages `page.html` of `folder` has on paper.
fn printed_pages(folder: &TempDir) -> usize {
    browsed(folder, "page.html", &["--no-pdf-header-footer", "--print-to-pdf=printed.pdf"]);
    let printed = fs::read(folder.path().join("printed.pdf")).unwrap();
    let is_page = |text: &&[u8]| text.starts_with(b"/Type /Page") && !text.starts_with(b"/Type /Pages");
    printed.windows(12).filter(is_page).count()
}

/// What Chromium writes to its outputs when it opens a file of `folder`.
fn browsed(folder: &TempDir, file: &str, arguments: &[&str]) -> (String, String) {
    let at = |name: &str| folder.path().join(name);
    let (output, log) = (at("output"), at("log"));
    let mut browser = Command::new(CHROMIUM)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
        ])
        .args(arguments)
        .arg(format!("--user-data-dir={}", at("profile").display()))
        .arg(format!("file://{}", at(file).display()))
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .stdout(File::create(&output).unwrap())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + BROWSER_LIMIT;
    let status = loop {
        if let Some(status) = browser.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            browser.kill().unwrap();
            browser.wait().unwrap();
            panic!("Chromium does not end: {}", fs::read_to_string(&log).unwrap());
        }
        sleep(Duration::from_millis(20));
    };
    let (output, log) = (fs::read_to_string(output).unwrap(), fs::read_to_string(log).unwrap());
    assert!(status.success(), "{status}: {log}");
    (output, log)
}
