//! Every option and argument that takes a number, at its extremes: refused by name before anything
//! is allocated or made, or meant so. Which options there are, the program's own help says: one
//! that is new is tried without being named here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{Node, flashyard, name, text};

/// Words that are no numbers, and numbers that nobody means.
const EXTREMES: [&str; 7] = [
    "0",
    "-1",
    "18446744073709551615",
    "99999999999999999999999",
    "NaN",
    "many",
    "",
];

/// Text that nobody means.
const TEXTS: [&str; 3] = ["", "a\nb\x1b[2J", "long"];

/// Words in the help for what is a number.
const NUMBERS: [&str; 25] = [
    "BYTES",
    "COUNT",
    "CPU",
    "CPUS",
    "DAYS",
    "FACTOR",
    "GENERATION",
    "HANDLES",
    "ID",
    "IODEPTH",
    "IOPS",
    "MILLISECONDS",
    "N",
    "NSID",
    "NUMJOBS",
    "PASSES",
    "PERCENT",
    "POINTS",
    "SECONDS",
    "SEED",
    "SHARE",
    "SIZE",
    "SNAPSHOTS",
    "TIME",
    "VOLUMES",
];

/// Words in the help for what is text, and is tried as text.
const WORDS: [&str; 37] = [
    "ADDRESS:PORT",
    "DIGITS",
    "DIR",
    "DRIVE",
    "DRIVES",
    "FIDELITY",
    "FILE",
    "FORMAT",
    "GROUP",
    "HASH",
    "HOST",
    "HOST:PORT",
    "IDENTITY",
    "ISOLATION",
    "KEY=VALUE",
    "LEVEL",
    "METHOD",
    "MODE",
    "NAME",
    "NQN",
    "PATH",
    "PATH or ADDRESS",
    "POOL",
    "PRECONDITION",
    "PREFIX",
    "PROFILE",
    "REQUESTS/NAMESPACE",
    "ROLE",
    "RW",
    "SCENARIO",
    "SIZE..SIZE",
    "TENANT",
    "TRANSPORT",
    "URL",
    "VERIFY",
    "VOLUME=NAME",
    "s3://BUCKET/KEY",
];

/// How each command that takes a value is called otherwise; `NODE` stands for the node's address
/// and token, `TARGET` for a volume of it.
const CALLS: [(&str, &[&str]); 45] = [
    (
        "serve",
        &["--dev=dev", "--profile=cm7-r-7.68", "--check-config"],
    ),
    ("status", &["NODE"]),
    ("top", &["NODE", "--once"]),
    ("drive add", &["NODE", "x"]),
    ("namespace create", &["NODE", "e", "--size=1GiB"]),
    ("namespace delete", &["NODE", "e", "@NSID"]),
    ("namespace attach", &["NODE", "e", "@NSID"]),
    ("namespace detach", &["NODE", "e", "@NSID"]),
    (
        "pool create",
        &["NODE", "q", "--level=raid1", "--drives=x0,x1"],
    ),
    ("pool import", &["NODE", "q"]),
    (
        "volume create",
        &["NODE", "w", "--pool=pool", "--size=1GiB"],
    ),
    ("volume clone", &["NODE", "s", "w"]),
    ("volume resize", &["NODE", "v", "@SIZE"]),
    ("volume limit", &["NODE", "v"]),
    ("snapshot extents", &["NODE", "s"]),
    ("snapshot send", &["NODE", "s"]),
    ("volume receive", &["NODE", "w"]),
    ("snapshot schedule", &["NODE", "v"]),
    (
        "volume replicate",
        &[
            "NODE",
            "v",
            "--to=http://127.0.0.1:9",
            "--pool=p",
            "--every=1h",
        ],
    ),
    ("tenant limit", &["NODE", "acme"]),
    ("tenant grant", &["NODE", "acme", "pool"]),
    ("host add", &["NODE", "h", "--nqn=none"]),
    ("host key", &["NODE", "h", "--generate"]),
    ("host tls-key", &["NODE", "h", "--generate"]),
    ("port set", &["NODE", "@ID", "--path=optimized"]),
    ("login", &["http://127.0.0.1:1"]),
    ("token create", &["NODE", "t", "--role=viewer"]),
    ("token reset-admin", &[]),
    ("audit list", &["NODE"]),
    ("settings set", &["NODE", "--graphite=127.0.0.1:9"]),
    ("event list", &["NODE"]),
    ("job show", &["NODE", "@ID"]),
    ("attach", &["tcp://nowhere"]),
    ("attached", &[]),
    ("detach", &["nothing"]),
    (
        "csi",
        &["--endpoint=unix:///nowhere/csi.sock", "--mode=controller"],
    ),
    ("perf", &["TARGET", "--runtime=10ms", "--size=64k"]),
    ("ssd simulate", &["cm7-r-7.68", "--fidelity=closed-form"]),
    (
        "ssd sweep",
        &[
            "cm7-r-7.68",
            "--fidelity=closed-form",
            "--namespace=5.76TB..7.68TB",
        ],
    ),
    ("ssd fit", &["none.toml"]),
    ("lab run", &["none"]),
    ("lab report", &["none.json"]),
    ("lab compare", &["RESULTS", "RESULTS"]),
    ("sim", &["--runs=1", "--scenario=calm"]),
    // Refused: otherwise it takes long.
    ("demo", &["--runtime=0"]),
];

/// The same for options that only some calls take.
const OTHER_CALLS: [(&str, &str, &[&str]); 5] = [
    ("lab run", "size", &["namespace"]),
    ("drive add", "size", &["NODE", "x", "/nowhere/x.img"]),
    (
        "drive add",
        "scale",
        &["NODE", "x", "--emulated=cm7-r-7.68"],
    ),
    (
        "drive add",
        "dilation",
        &["NODE", "x", "--emulated=cm7-r-7.68"],
    ),
    (
        "perf",
        "verify-journal",
        &["TARGET", "--runtime=10ms", "--size=64k", "--verify=none"],
    ),
];

/// Options, and the extremes that they allow.
const MEANT: &[(&str, &[&str])] = &[
    ("seed", &["0", "18446744073709551615"]),
    ("after", &["0", "18446744073709551615"]),
    ("from", &["0", "18446744073709551615"]),
    // So many at most.
    ("volumes", &["0", "18446744073709551615"]),
    ("snapshots", &["0"]),
    ("number-ios", &["18446744073709551615"]),
    ("rate-iops", &["18446744073709551615"]),
    // None of it, or at once.
    ("rwmixread", &["0"]),
    ("ramp-time", &["0"]),
    ("reconnect", &["0"]),
    ("offset", &["0"]),
    ("warm-up", &["0"]),
    ("threshold", &["0"]),
    ("scrub-interval", &["0"]),
    ("cores", &["0"]),
];

/// The same for one command only: of nothing, or of all there ever is.
const MEANT_HERE: &[(&str, &str, &[&str])] = &[
    ("tenant grant", "size", &["0", "18446744073709551615"]),
    ("perf", "runtime", &["0"]),
    ("serve", "drives", &["0"]),
];

/// Other names by which a refusal may call an option.
const ALSO_CALLED: [(&str, &str); 15] = [
    ("memory", "size"),
    ("null", "size"),
    ("burst", "burst_ms"),
    ("expires-in", "expires"),
    ("read-bandwidth", "read.bytes_per_second"),
    ("write-bandwidth", "write.bytes_per_second"),
    ("bandwidth", "total.bytes_per_second"),
    ("bandwidth-per-gib", "total.bytes_per_second_per_gib"),
    ("bs", "block size"),
    ("slot", "pcie_generation"),
    ("cores", "core"),
    ("NSID", "namespace"),
    ("ID", "job"),
    ("ID", "port"),
    ("namespace", "sizes"),
];

/// An option or an argument of a command, and a value for it.
struct Case {
    command: String,
    option: String,
    value: String,
    arguments: Vec<String>,
    number: bool,
}

/// Commands with what takes a value, as the help has it: name, and what the value is.
fn commands() -> BTreeMap<String, Vec<(String, String)>> {
    let mut found = BTreeMap::new();
    let mut left = vec![Vec::<String>::new()];
    while let Some(path) = left.pop() {
        let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = text(&flashyard(&arguments).stdout);
        let mut part = "";
        let mut values = Vec::new();
        for line in help.lines() {
            match line {
                "Commands:" | "Arguments:" | "Options:" => part = line,
                _ if line.starts_with("  ") && part == "Commands:" => {
                    let word = line.split_whitespace().next().unwrap_or_default();
                    if !line.starts_with("   ") && word != "help" {
                        left.push([&path[..], &[word.to_owned()]].concat());
                    }
                }
                _ => values.extend(taken(line, part)),
            }
        }
        if !path.is_empty() {
            found.insert(path.join(" "), values);
        }
    }
    found
}

/// The option or argument with a value on a line of the help. Options that every command has do
/// not count.
fn taken(line: &str, part: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    if part == "Arguments:" {
        let word = line.strip_prefix(['<', '['])?.split(['>', ']']).next()?;
        return NUMBERS
            .contains(&word)
            .then(|| (format!("@{word}"), word.to_owned()));
    }
    let option = &line[line.find("--")?..];
    if !line.starts_with('-') {
        return None;
    }
    let (name, rest) = option[2..].split_once(" <")?;
    let value = rest.split('>').next()?;
    let of_all = ["node", "token-file", "output"].contains(&name) || name.contains(' ');
    (!of_all).then(|| (name.to_owned(), value.to_owned()))
}

/// Letters and digits alone, for names are written in several ways.
fn plain(text: &str) -> String {
    let kept = text.chars().filter(char::is_ascii_alphanumeric);
    kept.collect::<String>().to_lowercase()
}

fn cases(context: &BTreeMap<&str, Vec<String>>) -> Vec<Case> {
    let mut cases = Vec::new();
    for (command, values) in commands() {
        for (option, kind) in values {
            let call = call_of(&command, &option);
            let number = NUMBERS.contains(&kind.as_str());
            assert!(
                number || WORDS.contains(&kind.as_str()),
                "what is {kind} of {command}?"
            );
            let tried: &[&str] = if number { &EXTREMES } else { &TEXTS };
            for value in tried {
                let value = value.replace("long", &"x".repeat(5000));
                let mut arguments: Vec<String> = command.split(' ').map(str::to_owned).collect();
                let of_option = format!("--{option}=");
                for word in call {
                    match context.get(word) {
                        Some(words) => arguments.extend(words.iter().cloned()),
                        None if *word == option => arguments.push(value.clone()),
                        None if word.starts_with(&of_option) => {}
                        None => arguments.push((*word).to_owned()),
                    }
                }
                if !option.starts_with('@') {
                    arguments.push(format!("{of_option}{value}"));
                }
                cases.push(Case {
                    command: command.clone(),
                    option: option.clone(),
                    value,
                    arguments,
                    number,
                });
            }
        }
    }
    cases
}

/// The call of a command to try an option in.
fn call_of(command: &str, option: &str) -> &'static [&'static str] {
    let mut others = OTHER_CALLS.iter();
    if let Some((.., call)) = others.find(|(name, of, _)| (*name, *of) == (command, option)) {
        return call;
    }
    let found = CALLS.iter().find(|(name, _)| *name == command);
    found
        .unwrap_or_else(|| panic!("{command} takes --{option}: name a call"))
        .1
}

/// The program with little memory, ended after a while if it does not end.
fn run(arguments: &[String], directory: &Path) -> Option<Output> {
    let limited = "ulimit -v 4000000; exec \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_flashyard")])
        .args(arguments)
        .current_dir(directory)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env_remove("FLASHYARD_NODE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(100) {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(child.wait_with_output().unwrap())
}

/// The fault in how a case ended.
fn problem(case: &Case, directory: &Path) -> Option<String> {
    let Some(output) = run(&case.arguments, directory) else {
        return Some("does not end".to_owned());
    };
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let ended = output.status.code();
    if ended.is_none_or(|code| code > 3) || message.contains("panicked") {
        return Some(format!("{:?}: {message}", output.status));
    }
    if !case.number || is_meant(case) {
        return None;
    }
    if !matches!(ended, Some(1 | 2)) {
        return Some(format!("is taken: {:?} {message}", output.status));
    }
    let option = case.option.trim_start_matches('@');
    let also = ALSO_CALLED.iter().filter(|(name, _)| *name == option);
    let mut names = also.map(|(_, called)| *called).chain([option]);
    let said = plain(&message);
    (!names.any(|name| said.contains(&plain(name)))).then(|| format!("is not named: {message}"))
}

fn is_meant(case: &Case) -> bool {
    let value = case.value.as_str();
    let anywhere = MEANT
        .iter()
        .any(|(option, values)| *option == case.option && values.contains(&value));
    let here = MEANT_HERE.iter().any(|(command, option, values)| {
        (*command, *option) == (&*case.command, &*case.option) && values.contains(&value)
    });
    anywhere || here
}

#[test]
fn every_number_at_its_extremes_is_refused_by_name_or_meant() {
    let node = Node::develop(&[]);
    let create = ["volume", "create", "v", "--pool", "pool", "--size", "8MiB"];
    node.answer(&[&create[..], &["--allow", "any"]].concat());
    node.answer(&["volume", "snapshot", "v", "s"]);
    for drive in ["x0", "x1"] {
        node.answer(&["drive", "add", drive, "--memory", "16MiB"]);
    }
    let token_file = node.path().join(server::tokens::ADMIN_TOKEN_FILE);
    let access = ["--node", &node.endpoints().api, "--token-file"];
    let mut access: Vec<String> = access.map(str::to_owned).to_vec();
    access.push(token_file.to_str().unwrap().to_owned());
    let nqn = node.client().volume(&name("v")).unwrap().nqn;
    let target = format!("tcp://{}/{nqn}", node.endpoints().nvme[0]);
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/raid6.json");
    let context = BTreeMap::from([
        ("NODE", access),
        ("TARGET", vec![target]),
        ("RESULTS", vec![results.to_owned()]),
    ]);
    let cases = cases(&context);
    assert!(cases.len() > 500, "the help is not read: {}", cases.len());

    let emulated = [
        "drive",
        "add",
        "e",
        "--emulated",
        "cm7-r-7.68",
        "--scale",
        "0.0001",
    ];
    node.answer(&emulated);
    let [numbers, texts] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let next = AtomicUsize::new(0);
    let problems = Mutex::new(Vec::new());
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            // A chart may be called as it likes.
            let directory = if case.number { &numbers } else { &texts };
            if let Some(problem) = problem(case, directory.path()) {
                let (command, option) = (&case.command, &case.option);
                let value: String = case.value.chars().take(40).collect();
                let said = format!("{command} --{option}={value:?} {problem}");
                problems.lock().unwrap().push(said);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let made: Vec<_> = std::fs::read_dir(numbers.path()).unwrap().collect();
    assert!(made.is_empty(), "{made:?}");
    assert_eq!(node.client().drives().unwrap().items.len(), 9);
    assert_eq!(node.client().volumes().unwrap().items.len(), 2);
    assert_eq!(node.client().pools().unwrap().items.len(), 1);
    assert_eq!(node.client().tokens().unwrap().items.len(), 1);
}
