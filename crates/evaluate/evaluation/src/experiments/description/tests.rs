use super::*;

const FILES_OVER_HTTP: &str =
    "title = \"t\"\n[web]\nservers = [\"nginx\"]\ndocument = [\"10K\"]\nclients = [4]\ndocuments = \"1M\"\n";

#[test]
fn an_unknown_key_is_told_with_its_line_and_column() {
    let error =
        Description::read(&FILES_OVER_HTTP.replace("clients", "cleints"), &[]).unwrap_err().to_string();
    assert!(error.contains("line 5, column 1") && error.contains("cleints"), "{error}");
}

#[test]
fn a_factor_without_levels_is_told_with_its_line_and_column() {
    let error = Description::read(&FILES_OVER_HTTP.replace("[4]", "[]"), &[]).unwrap_err().to_string();
    assert!(error.contains("line 5, column 11") && error.contains("at least one"), "{error}");
}

#[test]
fn a_level_that_makes_no_sense_is_told_with_its_line() {
    let error =
        Description::read(&FILES_OVER_HTTP.replace("\"10K\"", "\"10KB\""), &[]).unwrap_err().to_string();
    assert!(error.contains("line 4") && error.contains("such as 64M"), "{error}");
}

#[test]
fn numbers_out_of_bounds_are_told_with_their_line_and_column() {
    let bad = [("runs", "0"), ("seconds", "0.0"), ("seconds", "nan"), ("seconds", "3601"), ("warm_up", "-1")];
    for (key, value) in bad {
        let text = FILES_OVER_HTTP.replace("[web]", &format!("{key} = {value}\n[web]"));
        let error = Description::read(&text, &[]).unwrap_err().to_string();
        let place = format!("line 2, column {}", key.len() + 4);
        assert!(error.contains(&place) && error.contains(&format!("{key} is from")), "{error}");
        let error = Description::read(FILES_OVER_HTTP, &[format!("{key}={value}")]).unwrap_err().to_string();
        assert!(error.contains(&format!("--set {key}={value}: {key} is from")), "{error}");
    }
}

#[test]
fn a_level_that_is_there_twice_is_told_with_its_line() {
    for (from, to) in
        [("[4]", "[4, 4]"), ("[\"10K\"]", "[\"10K\", \"10K\"]"), ("[\"nginx\"]", "[\"nginx\", \"nginx\"]")]
    {
        let error = Description::read(&FILES_OVER_HTTP.replace(from, to), &[]).unwrap_err().to_string();
        assert!(error.contains("line ") && error.contains("give each level once"), "{error}");
    }
    let error = Description::read(FILES_OVER_HTTP, &["clients=2,2".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("--set clients=2,2: level 2 of this factor"), "{error}");
}

#[test]
fn a_number_that_leaves_nothing_to_measure_is_told_with_its_line() {
    let streaming = "title = \"t\"\n[streaming]\nservers = [\"forebay\"]\nbitrate = [\"1M\"]\nclients = [1]\nmedia = [1]\n";
    let any = "title = \"t\"\n[any]\nname = \"n\"\nserver = [\"s\"]\nurl = \"http://localhost/\"\nport = 1\nrate = 1\n";
    for (text, from, to, line) in [
        (FILES_OVER_HTTP, "[4]", "[0]", 5),
        (FILES_OVER_HTTP, "[4]", "-1", 5),
        (FILES_OVER_HTTP, "[4]", "65536", 5),
        (streaming, "clients = [1]", "clients = 0", 5),
        (streaming, "media = [1]", "media = [2, 0]", 6),
        (any, "port = 1", "port = 0", 6),
        (any, "rate = 1", "rate = 0", 7),
        (any, "rate = 1", "rate = 1e-300", 7),
    ] {
        assert!(Description::read(text, &[]).is_ok());
        let error = Description::read(&text.replace(from, to), &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("line {line}")) && error.contains("give "), "{error}");
    }
}

#[test]
fn exactly_one_kind_of_experiment_is_described() {
    let error = Description::read("title = \"t\"", &[]).unwrap_err();
    assert!(error.to_string().contains("[router]"), "{error}");
}

#[test]
fn levels_are_set_from_the_command_line() {
    let set = ["clients=1,2", "document=5", "memory=24M", "runs=7", "connections=new", "seconds=0.5"];
    let described = Description::read(FILES_OVER_HTTP, &set.map(str::to_owned)).unwrap();
    let web = described.web.unwrap();
    assert_eq!((described.runs, described.seconds, web.connections), (7, 0.5, Connections::New));
    assert_eq!(web.clients.iter().map(|clients| clients.get()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(web.document, Levels::one("5".parse().unwrap()));
    assert_eq!(web.memory, Levels::one(Memory::Limited("24M".parse().unwrap())));
}

const OF_ONES_OWN: &str = "title = \"t\"\n[any]\nname = \"n\"\nserver = [\"s\", \"{mode}\", \"{port}\"]\n\
                   url = \"http://localhost:{port}/\"\n[any.factors]\nmode = [\"a\", \"b\"]\n";

#[test]
fn a_factor_of_ones_own_is_set_as_text() {
    for set in ["mode=1,2", "factors.mode=1,2"] {
        let any = Description::read(OF_ONES_OWN, &[set.to_owned()]).unwrap().any.unwrap();
        assert_eq!(any.factors["mode"].iter().collect::<Vec<_>>(), ["1", "2"], "{set}");
    }
    let without = OF_ONES_OWN.replace("[any.factors]\nmode = [\"a\", \"b\"]\n", "");
    assert!(Description::read(&without, &["factors.mode=a".to_owned()]).is_ok());
    let error = Description::read(OF_ONES_OWN, &["mood=1".to_owned()]).unwrap_err().to_string();
    assert_eq!(error, "--set mood=1: there is no factor mood; there are clients, rate, memory, mode");
}

#[test]
fn a_name_in_braces_that_stands_for_nothing_is_told() {
    let any = |lines: &str| {
        Description::read(&format!("title = \"t\"\n[any]\nname = \"n\"\n{lines}"), &[]).map(|_| ())
    };
    for (lines, says) in [
        ("server = [\"s\", \"-{nosuch}\"]\nurl = \"http://localhost/\"", "{nosuch} in server"),
        ("server = [\"s\", \"{files}\"]\nurl = \"http://localhost/\"", "{files} in server"),
        ("server = [\"s\", \"{dependency}\"]\nurl = \"http://localhost/\"", "{dependency} in server"),
        (
            "server = [\"s\"]\nready = [\"r\", \"{clients}\"]\nurl = \"http://localhost/\"",
            "{clients} in ready",
        ),
        ("pid = 1\nurl = \"http://localhost:{port}/\"", "{port} in url"),
        ("pid = 1\nload = [\"l\", \"{nosuch}\"]", "{nosuch} in load"),
    ] {
        let error = any(lines).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("stands for nothing"), "{error}");
    }
    for lines in [
        "server = [\"s\", \"{files}\", \"{dependency_port}\"]\nfiles = \"/\"\ndependency = \"a:1\"\nurl = \"http://a/\"",
        "pid = 1\nport = 80\nload = [\"sh\", \"-c\", \"x ${HOME} {} {print $1} {a,b} {port} {seconds}\"]",
    ] {
        assert_eq!(any(lines), Ok(()), "{lines}");
    }
}

#[test]
fn a_factor_does_not_take_the_name_of_another_thing() {
    for name in ["port", "clients", "memory", "seconds"] {
        let error = Description::read(&OF_ONES_OWN.replace("mode =", &format!("{name} =")), &[]).unwrap_err();
        assert_eq!(error, Error::TakenName(name.to_owned()));
    }
}

#[test]
fn what_cannot_be_set_is_named() {
    for (set, says) in [("cleints=1", "cleints"), ("clients", "NAME=LEVEL"), ("clients=many", "many")] {
        let error = Description::read(FILES_OVER_HTTP, &[set.to_owned()]).unwrap_err().to_string();
        assert!(error.contains(&format!("--set {set}")) && error.contains(says), "{error}");
    }
}

#[test]
fn a_server_of_the_users_own_has_one_target_and_one_load() {
    let any = |lines: &str| Description::read(&format!("title = \"t\"\n[any]\nname = \"n\"\n{lines}"), &[]);
    assert!(any("pid = 1\nurl = \"http://localhost/\"").is_ok());
    for (lines, says) in [
        ("url = \"u\"", "one of server"),
        ("pid = 1\ncgroup = \"/x\"\nurl = \"u\"", "one of server"),
        ("pid = 1", "either url"),
        ("pid = 1\nload = [\"x\"]\nbody = \"b\"", "give url"),
        ("pid = 1\nurl = \"u\"\np99_after = \"99%\"", "give load"),
        ("pid = 1\nload = [\"x\"]\np99_unit = \"ms\"", "p99_after; give that too"),
        ("pid = 1\nload = [\"x\"]\np99_after = \"99%\"\np99_unit = \"parsec\"", "no unit of time"),
        ("server = []\nurl = \"u\"", "at least the program"),
        ("pid = 1\nurl = \"u\"\nready = [\"true\"]", "ready is of a server that forebay starts"),
        ("pid = 1\nurl = \"u\"\nmemory = [\"1M\"]", "forebay starts"),
    ] {
        let error = any(lines).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
