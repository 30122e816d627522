//! Sizes, banned words and the shape of `lib.rs`.

use std::path::Path;

use tidy::Source;

const CODE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARACTERS_MAX: usize = 100;

/// The crates that talk to the kernel's ring, to SIMD registers or to raw memory.
const UNSAFE_ROOMS: [&str; 4] = ["block", "reactor", "parity", "rdma"];

/// Spelled in halves, so that this file passes its own test.
const BANNED: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("db", "g!("),
];

fn sources() -> Vec<Source> {
    let root = tidy::root();
    let paths = tidy::files_with_extension("rs").into_iter();
    let sources: Vec<Source> = paths
        .map(|path| Source::read(&root, path).expect("a source file is readable"))
        .collect();
    assert!(
        sources.len() > 5,
        "found only {} source files",
        sources.len()
    );
    sources
}

/// Fails with every broken rule at once, one line each.
fn assert_none(broken: &[String]) {
    assert!(
        broken.is_empty(),
        "{} broken:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

#[test]
fn files_are_short() {
    let sources = sources();
    let long = sources
        .iter()
        .filter(|source| source.code_lines() > CODE_LINES_MAX);
    let report = long.map(|source| {
        let lines = source.code_lines();
        format!(
            "{}: {lines} lines of code, at most {CODE_LINES_MAX}",
            source.path.display()
        )
    });
    assert_none(&report.collect::<Vec<_>>());
}

#[test]
fn functions_fit_a_screen() {
    let mut broken = Vec::new();
    for source in sources() {
        let long = source.functions().into_iter();
        for function in long.filter(|function| function.length > FUNCTION_LINES_MAX) {
            broken.push(format!(
                "{}:{}: fn {} has {} lines, at most {FUNCTION_LINES_MAX}",
                source.path.display(),
                function.line,
                function.name,
                function.length
            ));
        }
    }
    assert_none(&broken);
}

#[test]
fn lines_are_narrow() {
    let mut broken = Vec::new();
    for source in sources() {
        for (index, line) in source.lines.iter().enumerate() {
            let characters = line.chars().count();
            if characters > LINE_CHARACTERS_MAX {
                let place = format!("{}:{}", source.path.display(), index + 1);
                broken.push(format!(
                    "{place}: {characters} characters, at most {LINE_CHARACTERS_MAX}"
                ));
            }
        }
    }
    assert_none(&broken);
}

#[test]
fn nothing_is_left_for_later() {
    let mut broken = Vec::new();
    for source in sources() {
        for (index, line) in source.lines.iter().enumerate() {
            for word in BANNED.iter().filter(|word| line.contains(*word)) {
                broken.push(format!("{}:{}: {word}", source.path.display(), index + 1));
            }
        }
    }
    assert_none(&broken);
}

/// A standard output that is full, closed or slow has one meaning for every command.
#[test]
fn standard_output_is_written_in_one_place() {
    let ways = [
        concat!("stdo", "ut()"),
        concat!("pri", "nt!("),
        concat!("print", "ln!("),
    ];
    let rooms = ["crates/flashyard/src", "crates/server/src"];
    let mut broken = Vec::new();
    for source in sources() {
        let concerned = rooms.iter().any(|room| source.path.starts_with(room));
        if !concerned || source.path.starts_with("crates/flashyard/src/output") {
            continue;
        }
        for (index, line) in source.lines.iter().enumerate() {
            for way in ways.iter().filter(|way| line.contains(*way)) {
                let place = format!("{}:{}", source.path.display(), index + 1);
                broken.push(format!("{place}: {way}, not the program's `output`"));
            }
        }
    }
    assert_none(&broken);
}

/// A file that is put in the place of another follows symbolic links, and replaces regular files
/// only: `files` knows how.
#[test]
fn files_are_put_in_place_by_one_piece_of_code() {
    let ways = [concat!("fs::ren", "ame("), concat!("ren", "ameat")];
    // The database, which is put where its links lead.
    let rooms = ["crates/files/src", "crates/server/src/state/store.rs"];
    let mut broken = Vec::new();
    for source in sources() {
        let text = source.path.to_string_lossy();
        let program = text.starts_with("crates/") && text.contains("/src/");
        if !program || rooms.iter().any(|room| source.path.starts_with(room)) {
            continue;
        }
        for (index, line) in source.lines.iter().enumerate() {
            for way in ways.iter().filter(|way| line.contains(*way)) {
                let place = format!("{}:{}", source.path.display(), index + 1);
                broken.push(format!("{place}: {way}, not `files::replace`"));
            }
        }
    }
    assert_none(&broken);
}

#[test]
fn unsafe_stays_in_its_rooms() {
    let opening = concat!("allow(unsafe", "_code");
    let mut broken = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| !UNSAFE_ROOMS.contains(&source.room().as_str()))
    {
        for (index, _) in source
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.contains(opening))
        {
            broken.push(format!(
                "{}:{}: {opening}",
                source.path.display(),
                index + 1
            ));
        }
    }
    assert_none(&broken);
}

/// Rooms that hold secrets of tokens and of hosts, or pass them on.
const SECRETIVE: [&str; 5] = ["api", "client", "server", "csi", "flashyard"];

/// The type that a line gives to something with the name of a secret, where that is a plain one.
fn plain_secret(line: &str) -> Option<&str> {
    let kinds = ["secret", "token", "psk", "password"];
    let of_kind = |name: &&str| kinds.iter().any(|kind| name.ends_with(kind));
    let plain = |kind: &&str| ["String", "Vec<u8>"].iter().any(|word| kind.contains(word));
    let name = |before: &str| {
        let words = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_');
        words.into_iter().next().filter(of_kind).is_some()
    };
    if let Some((signature, result)) = line.split_once(" -> ") {
        // Of a result, what there is without an error.
        let result = result.split(", ").next().unwrap_or(result);
        let called = signature
            .split_once('(')
            .map_or(signature, |(name, _)| name);
        if called.contains("fn ") && name(called) && plain(&result) {
            return Some(result);
        }
    }
    let colons = line.match_indices(": ");
    let mut typed = colons.filter(|(at, _)| name(&line[..*at]));
    typed.find_map(|(at, colon)| {
        let kind = line[at + colon.len()..].split([',', ')', '=', '{']).next();
        kind.filter(plain)
    })
}

#[test]
fn secrets_have_the_type_that_is_wiped_and_never_printed() {
    let mut broken = Vec::new();
    for source in sources() {
        let concerned = SECRETIVE.contains(&source.room().as_str());
        for (index, line) in source.product().iter().enumerate() {
            if let Some(kind) = plain_secret(line).filter(|_| concerned) {
                let place = format!("{}:{}", source.path.display(), index + 1);
                broken.push(format!("{place}: {kind}, not api::SecretText"));
            }
        }
    }
    assert_none(&broken);
}

#[test]
fn a_secret_of_a_plain_type_is_found() {
    for line in [
        "    pub token: Option<String>,",
        "    fn token(&self) -> Result<String, String> {",
        "pub fn keep(url: &str, token: String) -> Result<(), String> {",
        "    host_secret: Option<Zeroizing<Vec<u8>>>,",
    ] {
        assert!(plain_secret(line).is_some(), "{line}");
    }
    for line in [
        "    pub token: Option<SecretText>,",
        "    fn token(&self) -> Result<SecretText, String> {",
        "pub fn hash(secret: &str) -> String {",
        "    secret_sha256: String,",
    ] {
        assert_eq!(plain_secret(line), None, "{line}");
    }
}

/// Without the workspace's lints a crate could use `unsafe` or leave its interface undocumented.
#[test]
fn every_crate_takes_the_workspace_lints() {
    let root = tidy::root();
    let mut broken = Vec::new();
    for path in tidy::files_with_extension("toml") {
        let text = std::fs::read_to_string(root.join(&path)).expect("a manifest is readable");
        let inherits = text.contains("[lints]\nworkspace = true");
        if path.ends_with("Cargo.toml") && text.contains("version.workspace") && !inherits {
            broken.push(format!(
                "{}: lacks `[lints] workspace = true`",
                path.display()
            ));
        }
    }
    assert_none(&broken);
}

#[test]
fn every_room_says_what_it_is_and_holds_no_logic_in_lib_rs() {
    let mut broken = Vec::new();
    let sources = sources();
    let rooms = sources
        .iter()
        .filter(|source| source.path.ends_with(Path::new("src/lib.rs")));
    for source in rooms {
        let path = source.path.display();
        if !source
            .lines
            .first()
            .is_some_and(|line| line.starts_with("//! "))
        {
            broken.push(format!(
                "{path}: must start with `//!`, saying what the room is"
            ));
        }
        for function in source.functions() {
            broken.push(format!("{path}: fn {} belongs in a module", function.name));
        }
    }
    assert_none(&broken);
}
