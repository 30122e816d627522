//! Every command of nvme-cli that we print or document, tried at each nvme-cli that hosts have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use vm::{Origin, Suite};

use crate::{profile_directory, tools};

/// nvme-cli 2.3, 2.13, and 3.
const ORIGINS: [Origin; 3] = [
    Origin::Release(Suite::Bookworm),
    Origin::Release(Suite::Trixie),
    Origin::Newest,
];

/// Of users, but for the pages at the top.
const FOLDERS: [&str; 8] = [
    "ansible",
    "clients",
    "crates",
    "deploy",
    "docs",
    "examples",
    "openstack",
    "web",
];

const EXTENSIONS: [&str; 10] = [
    "json", "md", "py", "rs", "sh", "toml", "ts", "tsx", "yaml", "yml",
];

/// Words before `nvme` that make it something else.
const BEFORE: [&str; 2] = ["-p", "modprobe"];

/// Commands and options that some lack, and which these are: whoever prints one says for whom.
const LACKING: [(&str, &[&str]); 8] = [
    ("check-tls-key --hostnqn", &["bookworm"]),
    ("check-tls-key --identity", &["bookworm"]),
    ("check-tls-key --insert", &["bookworm", "experimental"]),
    ("check-tls-key --keydata", &["bookworm"]),
    ("check-tls-key --subsysnqn", &["bookworm"]),
    ("connect --tls", &["bookworm"]),
    ("connect --tls-key", &["bookworm"]),
    ("keys insert-tls-psk", &["bookworm", "trixie"]),
];

/// Commands by the options that they are told with.
type Told = BTreeMap<String, BTreeSet<String>>;

#[test]
fn every_command_that_is_told_is_known_to_each_nvme_cli() {
    let told = told();
    for command in [
        "connect",
        "connect-all",
        "discover",
        "gen-dhchap-key",
        "list",
    ] {
        assert!(
            told.contains_key(command),
            "nobody tells of {command}: {told:?}"
        );
    }
    let mut lacking: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for origin in ORIGINS {
        let program = NvmeCli::of(origin);
        for (command, options) in &told {
            if !program.knows(command, None) {
                lacking
                    .entry(command.clone())
                    .or_default()
                    .push(origin.name());
                continue;
            }
            for option in options
                .iter()
                .filter(|it| !program.knows(command, Some(it)))
            {
                let told = format!("{command} {option}");
                lacking.entry(told).or_default().push(origin.name());
            }
        }
    }
    let known = LACKING.map(|(command, origins)| (command.to_owned(), origins.to_vec()));
    assert_eq!(lacking, known.into());
}

/// A version of nvme-cli, with libraries of its own.
struct NvmeCli(PathBuf);

impl NvmeCli {
    fn of(origin: Origin) -> NvmeCli {
        let directory = profile_directory().with_file_name("vm").join("commands");
        NvmeCli(tools::fetched(
            &directory,
            origin,
            "nvme-cli",
            &["nvme-cli"],
        ))
    }

    /// Whether it has a command, or an option of one. It is asked for help, so it does nothing.
    fn knows(&self, command: &str, option: Option<&str>) -> bool {
        let libraries = ["lib", "usr/lib"].map(|place| self.0.join(place).join("x86_64-linux-gnu"));
        let loader = libraries
            .iter()
            .map(|place| place.join("ld-linux-x86-64.so.2"));
        let loader = loader.into_iter().find(|loader| loader.exists());
        let libraries = libraries.map(|place| place.display().to_string()).join(":");
        let mut nvme = Command::new(loader.expect("a loader among the libraries"));
        nvme.args(["--library-path", &libraries]);
        nvme.arg(self.0.join("usr/sbin/nvme"))
            .args(command.split(' '));
        match option {
            // One that takes no value says so.
            Some(long) if long.starts_with("--") => drop(nvme.arg(format!("{long}=1"))),
            Some(short) => drop(nvme.args([short, "1"])),
            None => {}
        }
        let said = nvme.arg("--help").output().expect("nvme-cli runs");
        let said = [said.stdout, said.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(
            said.to_lowercase().contains("usage: nvme"),
            "{nvme:?}: {said}"
        );
        let unknown = [
            "unrecognized option",
            "invalid option",
            "Invalid sub-command",
        ];
        !unknown.iter().any(|words| said.contains(words))
    }
}

/// Everything that is told to users.
fn told() -> Told {
    let mut told = Told::new();
    let root = tidy::root();
    for extension in EXTENSIONS {
        let files = tidy::files_with_extension(extension).into_iter();
        for file in files.filter(|file| is_for_users(file)) {
            let text = std::fs::read(root.join(&file)).expect("a file can be read");
            add(&String::from_utf8_lossy(&text), &mut told);
        }
    }
    told
}

fn is_for_users(file: &Path) -> bool {
    let mut parts = file.components().map(|part| part.as_os_str());
    let is_at_top = parts.clone().count() == 1;
    let folder = parts.next().and_then(|folder| folder.to_str());
    let left_out = ["tests", "tests.rs", "node_modules", "dist"];
    let is_left_out = parts.any(|part| left_out.iter().any(|out| part == *out));
    is_at_top || folder.is_some_and(|folder| FOLDERS.contains(&folder)) && !is_left_out
}

/// Adds the commands of a text, of which one may go over several lines.
fn add(text: &str, told: &mut Told) {
    for line in text.replace("\\\n", " ").replace("\\n", ";").lines() {
        for (at, name) in line.match_indices("nvme ") {
            let (before, rest) = (&line[..at], &line[at + name.len()..]);
            let is_a_word = !before.ends_with(|c: char| c.is_alphanumeric() || "_/.:-".contains(c));
            let before = before.split_whitespace().next_back().unwrap_or_default();
            if is_a_word && !BEFORE.contains(&before) {
                add_command(rest, told);
            }
        }
    }
}

/// Adds a command by what follows `nvme`, if that is one.
fn add_command(rest: &str, told: &mut Told) {
    let rest = rest
        .split(['`', '"', '#', '|', ';', '(', ')', '<', ','])
        .next();
    let mut words = rest.unwrap_or_default().split_whitespace().peekable();
    let is_name = |word: &&str| {
        word.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    let first = words.next().map(|word| word.trim_end_matches(['.', ':']));
    let Some(first) = first.filter(is_name).filter(|word| !word.starts_with('-')) else {
        return;
    };
    // Commands of a kind are one below it.
    let second = words.next_if(|word| first == "keys" && is_name(word));
    let command = [Some(first), second].into_iter().flatten();
    let command = command.collect::<Vec<_>>().join(" ");
    let options = words.filter(|word| word.starts_with('-') && word.len() > 1);
    let options = options.filter_map(|word| word.split('=').next().map(str::to_owned));
    told.entry(command).or_default().extend(options);
}
