//! `forebay serve` as its operator sees it.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Ends after a minute, far beyond what any of this takes.
fn forebay(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", "60", env!("CARGO_BIN_EXE_forebay"), "serve"])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    forebay(arguments).output().unwrap()
}

/// A server, and where it says that it listens.
fn start(arguments: &[&str]) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("serve")
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    (child, said, address)
}

fn describe(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "DESCRIBE rtsp://{address}/a.mp4 RTSP/1.0\r\nCSeq: 1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn a_script_of_cameras_is_refused_with_line_and_column_and_cameras_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (film, script) = (place("a.aac"), place("script.toml"));
    // Frames of AAC with their headers (ADTS): 44.1 kHz, one channel, 32 bytes.
    let mut frame = [0x21; 32];
    frame[..7].copy_from_slice(&[0xFF, 0xF1, 0x50, 0x40, 0x04, 0x1F, 0xFC]);
    fs::write(&film, frame.repeat(100)).unwrap();
    let list = |text: &str, more: &[&str]| {
        fs::write(&script, text).unwrap();
        let mut arguments = vec!["--cameras", "3", "--list-cameras", "--script", &script, &film];
        arguments.extend(more);
        let output = output(&arguments);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    };
    let (status, said) = list("[[camera]]\nnumber = 2\nname = \"door\"\n", &["--faults", "100"]);
    assert_eq!((status, said.lines().count()), (Some(0), 3), "{said}");
    assert!(said.lines().nth(1).unwrap().starts_with("door "), "{said}");
    assert_eq!(list("", &[]), list("", &["--seed", "1"]));
    assert_ne!(list("", &[]), list("", &["--seed", "2"]));
    let (status, said) = list("[[fault]]\nkind = \"loss\"\nchance = 2\n", &[]);
    assert_eq!(status, Some(1));
    assert!(said.contains("script.toml:3:10: a share is wanted, from 0 to 1"), "{said}");
    let (status, said) = list("[[camera]]\nnumber = 4\n", &[]);
    assert!(status == Some(1) && said.contains("camera 4, and --cameras makes 3"), "{said}");
    for (arguments, words) in [
        (&["--cameras", "1", "--epoch", "noon", &film][..], "a time in UTC is wanted"),
        (
            &["--cameras", "1", "--epoch", "2199-01-01T00:00:00Z", "--listen", "127.0.0.1:0", &film],
            "is to come",
        ),
        (&["--cameras", "0", &film], "0 is not in 1..="),
        (&["--seed", "3", &film], "--cameras"),
        (&["--cameras", "1", "--listen", "127.0.0.1:0", &script], "script.toml: "),
    ] {
        let output = output(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(words), "{arguments:?}: {said}");
    }
}

/// The words of an instruction of the container file.
fn words_of_container(instruction: &str) -> Vec<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/Containerfile");
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(instruction)).expect(instruction).trim();
    serde_json::from_str(line).unwrap_or_else(|_| line.split(' ').map(str::to_owned).collect())
}

/// Without a container: the command line serves, on ports that the image names, what the package has installed where it says.
#[test]
fn the_command_of_the_container_serves_its_volume() {
    let folder = tempfile::tempdir().unwrap();
    let volumes = words_of_container("VOLUME ");
    let inside = |word: &String| match volumes.contains(word) {
        true => folder.path().join(word.trim_start_matches('/')).to_str().unwrap().to_owned(),
        false => word.clone(),
    };
    assert_eq!(words_of_container("ENTRYPOINT "), ["/usr/bin/forebay", "serve"]);
    let command: Vec<String> = words_of_container("CMD ").iter().map(inside).collect();
    assert!(volumes.iter().all(|volume| command.contains(&inside(volume))), "{command:?}");
    fs::create_dir(folder.path().join("media")).unwrap();
    let mut arguments = vec!["--listen", "127.0.0.1:0"];
    arguments.extend(command.iter().map(String::as_str));
    let (mut child, _, listens) = start(&arguments);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(listens.contains("127.0.0.1:"), "{listens}");
    let usual = forebay_server::Settings::new("media".into());
    let ports = format!("{}-{}/udp", usual.udp_ports.start(), usual.udp_ports.end());
    assert_eq!(words_of_container("EXPOSE "), [format!("{}/tcp", forebay_server::PORT), ports]);
    // Where the package puts its program.
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/deb/build");
    assert!(fs::read_to_string(package).unwrap().contains("DESTDIR=\"$root\" PREFIX=/usr "));
}

#[test]
fn several_folders_have_names_that_differ() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let settings = folder.path().join("serve.toml");
    fs::write(&settings, "[[folders]]\nname = \"films\"\npath = \"a\"\n").unwrap();
    for (arguments, words) in [
        (vec![at("a/films"), at("b/films")], "two folders are called films"),
        (vec![at("a"), "/".to_owned()], "/: the folder has no name for URLs"),
        (vec!["--config".to_owned(), settings.to_str().unwrap().to_owned(), at("a")], "leave out DIR"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = String::from_utf8(output(&arguments).stderr).unwrap();
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn a_file_of_settings_is_checked_with_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.toml");
    let path = file.to_str().unwrap();
    for (text, succeeds, words) in [
        ("folder = \".\"\n", true, "serve.toml is right"),
        ("folder = \".\"\nbuffers = 99\n", false, "serve.toml:2:11: "),
        ("folder = \"nowhere\"\n", false, "nowhere: No such file"),
        (
            "folder = \".\"\n[tls]\nlisten = [1]\ncertificate = \"c\"\nkey = \"k\"\n",
            false,
            "c: it cannot be read",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let output = output(&["--check", path]);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(i32::from(!succeeds)), "{text}: {said}");
        assert!(said.contains(words), "{text}: {said}");
    }
}

/// The example of a settings file, out of a text that indents it.
fn example(text: &str) -> String {
    let from = text.find("  folder = ").expect("an example");
    let lines = text[from..].lines().take_while(|line| line.is_empty() || line.starts_with("  "));
    lines.map(|line| format!("{}\n", line.trim_start())).collect()
}

/// The man page as the source of its example: groff reads `\\-` as a hyphen, and keeps lines after `.nf`.
fn man_page() -> String {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["man", "--dir", folder.path().to_str().unwrap()];
    let made = Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).status().unwrap();
    assert!(made.success());
    let page = fs::read_to_string(folder.path().join("forebay-serve.1")).unwrap();
    assert!(page.contains(".nf\n  folder = "), "groff would fill the example: {page}");
    page.replace("\\-", "-").replace("\\*(Aq", "'")
}

#[test]
fn the_settings_file_of_the_help_and_of_the_man_page_is_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("films")).unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let file = folder.path().join("serve.toml");
    let helps = ["80", "100"].map(|columns| {
        let output = forebay(&["--help"]).env("COLUMNS", columns).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    let page = man_page();
    for text in [&helps[0], &helps[1], &page] {
        let settings = example(text);
        assert!(settings.contains("[[users]]"), "{settings}");
        fs::write(&file, &settings).unwrap();
        let checked = output(&["--check", file.to_str().unwrap()]);
        assert!(checked.status.success(), "{settings}\n{}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn the_program_that_has_a_port_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = output(&["--listen", &address, folder.path().to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("(process {})", std::process::id())) && said.contains("--listen"),
        "{said}"
    );
}

#[test]
fn signals_end_it_and_reload_users() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.toml");
    let settings = "folder = \".\"\nlisten = [\"127.0.0.1:0\"]\n";
    fs::write(&file, settings).unwrap();
    let (mut child, mut said, address) = start(&["--config", file.to_str().unwrap()]);
    let pid = Pid::from_child(&child);
    assert!(describe(&address).starts_with("RTSP/1.0 404"));
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("a.mp4: there is no such file"), "{line}");

    let with_user = format!("{settings}[[users]]\nname = \"ada\"\npassword = \"lovelace\"\n");
    for (text, words, status) in [
        (with_user.as_str(), "are reloaded", "401"),
        ("folder = 3\n", "stay as they were", "401"),
        (settings, "are reloaded", "404"),
    ] {
        fs::write(&file, text).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
        line.clear();
        said.read_line(&mut line).unwrap();
        assert!(line.contains(words), "{line}");
        let response = describe(&address);
        assert!(response.starts_with(&format!("RTSP/1.0 {status}")), "{response}");
        if status == "404" {
            said.read_line(&mut line).unwrap();
        }
    }
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn root_switches_to_another_user() {
    if !rustix::process::getuid().is_root() {
        let refused = output(&["--listen", "127.0.0.1:0", "--user", "root", "."]);
        assert!(String::from_utf8(refused.stderr).unwrap().contains("only root can do that"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().to_str().unwrap();
    let (mut child, _said, _) = start(&["--listen", "127.0.0.1:0", "--user", "nobody", path]);
    for task in fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        let uids = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
        assert!(!uids.split_whitespace().skip(1).any(|uid| uid == "0"), "{uids}");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let output = output(&["--listen", "127.0.0.1:0", "--user", "nobody-at-all", path]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("no such user"));
}
