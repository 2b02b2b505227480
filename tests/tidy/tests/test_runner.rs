//! `scripts/test` fails where a suite does: also one that cannot be started, or was not run.

#![forbid(unsafe_code)]

use std::process::Command;

use forebay_tidy::workspace::Workspace;

/// Runs two suites in one lane, of which the first cannot be started, and leaves out a third one.
const RUN: &str = r#"
import importlib.machinery, importlib.util, pathlib, sys
loader = importlib.machinery.SourceFileLoader("runner", sys.argv[1])
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
loader.exec_module(runner)
folder = pathlib.Path(sys.argv[2])
runner.OUTPUT, runner.SKIPS = folder, folder / "skipped"
good = ["sh", "-c", "echo 'test result: ok. 3 passed; 0 failed;'"]
suites = [runner.Suite(*suite, folder) for suite in (("a::missing", ["/no/such/program"]), ("a::good", good), ("a::left", good))]
runner.run(suites[:2], 1)
sys.exit(runner.conclude(suites))
"#;

#[test]
fn a_suite_without_a_result_has_failed_and_its_lane_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = Workspace::load().root.join("scripts/test");
    let mut python = Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", RUN]).arg(script).arg(folder.path());
    let ended = python.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.ends_with("3 passed, 2 failed, 0 skipped\n"), "{said}");
    for name in ["a::missing", "a::left"] {
        assert!(said.contains(&format!("  {name}  (the whole suite: ")), "{said}");
    }
}
