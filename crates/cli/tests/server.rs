//! `forebay evaluate server`: what a user sees when it goes wrong, and that nothing stays behind.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use forebay_results::Report;
use forebay_testkit::{artifacts, skip};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

struct Trial {
    folder: TempDir,
}

impl Trial {
    /// An experiment in a folder of its own: `any` is what its section says.
    fn new(any: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text =
            format!("title = \"t\"\nruns = 1\nseconds = 0.3\nwarm_up = 0\n[any]\nname = \"server\"\n{any}");
        fs::write(folder.path().join("experiment.toml"), text).unwrap();
        Self { folder }
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(["evaluate", "server", "experiment.toml", "--json", "results.json"]).args(more);
        // What is killed cannot tidy up.
        command.current_dir(self.folder.path()).env("TMPDIR", self.folder.path());
        command
    }

    fn run(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    /// The message of a run that could not measure anything, and left no results.
    fn refusal(&self, more: &[&str]) -> String {
        let output = self.run(more);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(!self.folder.path().join("results.json").exists());
        String::from_utf8(output.stderr).unwrap()
    }

    fn results(&self) -> Report {
        serde_json::from_slice(&fs::read(self.folder.path().join("results.json")).unwrap()).unwrap()
    }
}

/// A server that works, as a command line in an experiment file, and what it is called.
fn working() -> (String, String) {
    let program = artifacts::example("forebay-evaluation", "faulty_server").unwrap();
    let program = program.to_str().unwrap().to_owned();
    (format!("[{program:?}, \"none\", \"{{port}}\"]"), program)
}

const URL: &str = "url = \"http://127.0.0.1:{port}/\"\n";

#[test]
fn an_unknown_key_is_told_with_line_and_column() {
    let message = Trial::new(&format!("server = [\"x\"]\n{URL}cleints = 3\n")).refusal(&[]);
    assert!(message.contains("line 9, column 1") && message.contains("cleints"), "{message}");
}

#[test]
fn an_unknown_factor_is_told_with_those_that_there_are_and_bytes_are_told_from_mebibytes() {
    let (server, _) = working();
    let trial = Trial::new(&format!("server = {server}\n{URL}"));
    let message = trial.refusal(&["--set", "cleints=3"]);
    assert!(
        message.contains("cleints") && message.contains("clients") && message.contains("memory"),
        "{message}"
    );
    let message = trial.refusal(&["--set", "memory=64"]);
    assert!(message.contains("64 is 64 B") && message.contains("write 64M"), "{message}");
}

#[test]
fn a_server_that_goes_into_the_background_is_told_and_does_not_stay() {
    let (_, program) = working();
    let trial = Trial::new("");
    let description = trial.folder.path().join("experiment.toml");
    // What the server's command line names tells it from others.
    let script = format!("setsid {program} none $0 {} & exit 0", description.display());
    let text = fs::read_to_string(&description).unwrap();
    let server = format!("{text}server = [\"sh\", \"-c\", {script:?}, \"{{port}}\"]\n{URL}");
    fs::write(&description, server).unwrap();
    let message = trial.refusal(&[]);
    assert!(message.contains("keeps it in the foreground"), "{message}");
    if rustix::process::geteuid().is_root() {
        assert_eq!(processes_with(&description), [""; 0]);
    } else {
        skip(
            "a_server_that_goes_into_the_background_is_told_and_does_not_stay",
            "without root there is no group that knows its processes",
        );
    }
}

#[test]
fn a_server_that_does_not_start_is_quoted() {
    let server = "server = [\"sh\", \"-c\", \"echo no such configuration >&2; exit 3\"]\n";
    let message = Trial::new(&format!("{server}{URL}")).refusal(&[]);
    assert!(message.contains("no such configuration") && message.contains("exit status: 3"), "{message}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let message = Trial::new(&format!("server = [\"sleep\", \"9\"]\nport = {port}\n{URL}")).refusal(&[]);
    assert!(message.contains(&format!("port {port} is taken")), "{message}");
}

#[test]
fn a_load_generator_that_is_missing_is_named_before_anything_is_started() {
    let trial = Trial::new("server = [\"touch\", \"started\"]\nload = [\"no-such-generator\"]\n");
    let message = trial.refusal(&[]);
    assert!(message.contains("no program no-such-generator"), "{message}");
}

#[test]
fn a_server_that_runs_already_and_is_not_there_is_named() {
    let url = URL.replace("{port}", "9");
    let message = Trial::new(&format!("pid = 999999999\n{url}")).refusal(&[]);
    assert!(message.contains("999999999"), "{message}");
    let message = Trial::new(&format!("cgroup = \"/no/such/group\"\n{url}")).refusal(&[]);
    assert!(message.contains("/no/such/group"), "{message}");
}

#[test]
fn what_was_measured_is_kept_when_a_server_fails() {
    let (_, program) = working();
    let script = format!("test {{how}} = well && exec {program} none {{port}}; echo that was it >&2; exit 5");
    let any =
        format!("server = [\"sh\", \"-c\", {script:?}]\n{URL}[any.factors]\nhow = [\"well\", \"badly\"]\n");
    let trial = Trial::new(&any);
    let output = trial.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (shown, message) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("how well/8 clients") && shown.contains("Not all of it"), "{shown}");
    assert!(message.contains("that was it"), "{message}");
    let rows = trial.results().rows;
    assert!(rows.iter().any(|row| row.metric == "transactions" && row.value > 0.0), "{rows:?}");
    assert!(rows.iter().all(|row| row.case == "how well/8 clients"), "{rows:?}");
}

#[test]
fn a_load_of_somebody_elses_is_read() {
    let (server, _) = working();
    let script =
        "sleep {seconds}; echo Requests/sec:; echo 7; echo Requests/sec: 1.2005e+03; echo '99%  1.50ms'";
    let load = format!("load = [\"sh\", \"-c\", \"{script}\"]\n");
    let labels = "transactions_after = \"Requests/sec:\"\np99_after = \"99%\"\n";
    let trial = Trial::new(&format!("server = {server}\n{load}{labels}"));
    let output = trial.run(&[]);
    assert!(output.status.success(), "{output:?}");
    let rows = trial.results().rows;
    let of = |metric: &str| rows.iter().find(|row| row.metric == metric).unwrap();
    assert!((of("transactions").value - 1200.5).abs() < 0.01, "{:?}", of("transactions"));
    assert!((of("latency_p99").value - 0.0015).abs() < 1e-9, "{:?}", of("latency_p99"));
}

#[test]
fn a_server_is_loaded_once_it_is_ready() {
    let (server, _) = working();
    let ready = "ready = [\"sh\", \"-c\", \"echo {port} >> asked; test $(wc -l < asked) = 3\"]\n";
    let load =
        "load = [\"sh\", \"-c\", \"echo asked $(wc -l < ../asked)\"]\ntransactions_after = \"asked\"\n";
    let trial = Trial::new(&format!("server = {server}\n{ready}{load}"));
    let output = trial.run(&[]);
    assert!(output.status.success(), "{output:?}");
    let rows = trial.results().rows;
    let transactions = rows.iter().find(|row| row.metric == "transactions").unwrap();
    assert!((transactions.value - 3.0).abs() < 1e-9, "{transactions:?}");
}

/// A server of the test's own, which closes each connection with what `answer` gives for its number; to be attached to.
fn answering(answer: impl Fn(usize) -> &'static str + Send + 'static) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(answer(number).as_bytes());
        }
    });
    format!("pid = {}\nport = {port}\n{URL}", std::process::id())
}

#[test]
fn failed_requests_are_among_the_results() {
    let good = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let bad = "HTTP/1.1 500 Oh No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let trial = Trial::new(&answering(move |number| if number % 4 == 0 { bad } else { good }));
    let output = trial.run(&["--set", "clients=1", "--set", "seconds=1"]);
    assert!(output.status.success(), "{output:?}");
    let rows = trial.results().rows;
    let value = |metric: &str| rows.iter().find(|row| row.metric == metric).unwrap().value;
    let (good, failed) = (value("transactions"), value("failed"));
    assert!(failed > 0.0 && failed < good, "{failed} of {good}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("the server answers 500"), "{output:?}");
}

#[test]
fn a_server_that_answers_nothing_is_a_failure() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let message = Trial::new(&format!("pid = {}\nport = {port}\n{URL}", std::process::id())).refusal(&[]);
    assert!(message.contains("the server answered no request within 0.3 s"), "{message}");
    let refusing = answering(|_| "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let message = Trial::new(&refusing).refusal(&[]);
    assert!(message.contains("no request succeeded") && message.contains("answers 503"), "{message}");
}

#[test]
fn requests_that_cannot_be_are_told_before_anything_is_started() {
    for (any, says) in [
        ("server = [\"touch\", \"started\"]\nurl = \"ftp://127.0.0.1/\"\n", "give http://HOST:PORT/PATH"),
        (&format!("server = [\"touch\", \"started\"]\n{URL}method = \"GE T\"\n"), "no method of HTTP"),
        (&format!("server = [\"touch\", \"started\"]\n{URL}headers = {{ \"a b\" = \"c\" }}\n"), "no header"),
        ("server = [\"x\"]\nload = [\"y\"]\nmethod = \"POST\"\n", "give url instead of load"),
    ] {
        let trial = Trial::new(any);
        let message = trial.refusal(&[]);
        assert!(message.contains(says), "{message}");
        assert!(!trial.folder.path().join("started").exists());
    }
}

#[test]
fn a_schedule_is_kept_and_latency_is_against_it() {
    let (server, _) = working();
    let trial = Trial::new(&format!("server = {server}\n{URL}"));
    let output = trial.run(&["--set", "rate=50", "--set", "seconds=2"]);
    assert!(output.status.success(), "{output:?}");
    let rows = trial.results().rows;
    let transactions = rows.iter().find(|row| row.metric == "transactions").unwrap();
    assert!((40.0..=51.0).contains(&transactions.value), "{transactions:?}");
    assert_eq!(transactions.case, "8 clients/rate 50");
}

/// An experiment that goes on and on, and a file that its servers name on their command lines and tell their starts to.
fn endless() -> (Trial, PathBuf) {
    let (_, program) = working();
    let trial = Trial::new("");
    let mark = trial.folder.path().join("started");
    let script = format!("echo x >> {}; exec {program} none {{port}} {}", mark.display(), mark.display());
    let text = fs::read_to_string(trial.folder.path().join("experiment.toml")).unwrap();
    let text = format!("{text}server = [\"sh\", \"-c\", {script:?}]\n{URL}")
        .replace("runs = 1", "runs = 1000")
        .replace("seconds = 0.3", "seconds = 1");
    fs::write(trial.folder.path().join("experiment.toml"), text).unwrap();
    (trial, mark)
}

#[test]
fn servers_end_with_forebay_however_that_ends() {
    let (trial, mark) = endless();
    let mut running = trial.command(&[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Before it is the server, it is a shell that has yet to say when it wants to end.
    let (_, program) = working();
    wait(&mut running, || processes_with(&mark).iter().any(|line| line.starts_with(&program)));
    running.kill().unwrap();
    running.wait().unwrap();
    let begun = Instant::now();
    while !processes_with(&mark).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", processes_with(&mark));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_leaves_nothing_running() {
    let (trial, mark) = endless();
    let mut running = trial.command(&[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let started = || fs::read(&mark).map_or(0, |marks| marks.len() / 2);
    // A run that the machine disturbed may be made three times.
    wait(&mut running, || started() > 2 * 3);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = running.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(1));
    assert!(trial.results().rows.iter().any(|row| row.metric == "transactions" && row.runs >= 2));
    assert_eq!(processes_with(&mark), [""; 0]);
}

/// Against itself, where what encodes media is installed.
#[test]
fn forebay_is_a_streaming_server_among_others() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("streaming.json");
    let short =
        ["servers=forebay", "runs=1", "seconds=2", "warm_up=1", "bitrate=300K", "clients=3", "media=2"];
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["evaluate", "server", "streaming", "--json"])
        .arg(&json)
        .args(short.iter().flat_map(|setting| ["--set", setting]))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("is not installed") {
        return forebay_testkit::skip("forebay_is_a_streaming_server_among_others", &said);
    }
    assert!(output.status.success(), "{said}");
    let report: Report = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let value = |metric: &str| report.rows.iter().find(|row| row.metric == metric).unwrap().value;
    assert!((0.3..1.8).contains(&value("throughput")), "{report:#?}");
    assert!(report.rows.iter().all(|row| row.subject == "forebay"));
}

#[test]
fn experiments_that_come_along_are_listed_and_can_be_started_from() {
    let forebay = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_forebay")).args(["evaluate", "server"]).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let list = forebay(&["--list"]);
    for name in ["web", "streaming", "router", "any"] {
        assert!(list.contains(name), "{list}");
        assert!(forebay(&["--print", name]).contains(&format!("[{name}]")));
    }
}

/// Waits for something while a child runs, which is killed if that takes too long, and whose messages are shown then.
fn wait(child: &mut Child, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        let ended = child.try_wait().unwrap();
        if begun.elapsed() > PATIENCE || ended.is_some() {
            let _ = child.kill();
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("it never came to that, {ended:?}: {said}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Command lines that name a file.
fn processes_with(file: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(file.to_str().unwrap())).collect()
}
