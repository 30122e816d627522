//! Which room of a crate may import which, held in one table for each crate that has many rooms.
//!
//! A room is a file or a folder of the crate's `src`. The crate's `lib.rs` says what is in each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use tidy::Source;

/// A crate, and its floors from the ground up with the rooms of each. A room imports only rooms of
/// floors below its own: two rooms of one floor know nothing of each other.
struct House {
    sources: &'static str,
    floors: &'static [&'static [&'static str]],
}

const POOL: House = House {
    sources: "crates/pool/src",
    floors: &[
        &["entropy", "hashing", "ids", "level", "mutation", "offline"],
        &["chunked", "join", "location"],
        &["volumes"],
        &["segments"],
        &["format"],
        &["error", "options", "reporting"],
        &["drives", "map"],
        &["labels", "stripes"],
        &["shard"],
        &["reading"],
        &["membership"],
        &["checkpoint"],
        &["writing"],
        &["recovery"],
        &["cleaning"],
        &["scrub"],
        &["pool"],
    ],
};

const NODE: House = House {
    sources: "crates/node/src",
    floors: &[
        &["counts", "error", "spec"],
        &["managed", "volume"],
        &["taking"],
        &["core"],
        &["layout"],
        &["node"],
    ],
};

const SERVER: House = House {
    sources: "crates/server/src",
    floors: &[
        &[
            "endpoints",
            "interfaces",
            "locked_memory",
            "mdns",
            "names",
            "notify",
            "open_files",
            "outage",
            "private",
            "replications",
            "words",
        ],
        &["syslog"],
        &["events"],
        &["jobs", "schedules", "tokens"],
        &["metrics", "state"],
        &["config", "rules"],
        &["logging"],
        &["control"],
        &["develop", "listening", "routes"],
        &["http"],
        &["daemon", "rehearsal"],
    ],
};

const HOUSES: [&House; 3] = [&POOL, &NODE, &SERVER];

/// Types of the pool that have methods in many rooms, which `use` does not show.
const SHARED: [&str; 2] = ["Core", "Coordinator"];

/// Methods of these that a room below theirs calls, and that room.
const CALLED_FROM_BELOW: [(&str, &str); 4] = [
    ("deal_room", "shard"),
    ("judge_silence", "shard"),
    ("verify", "shard"),
    ("body_with_ready", "membership"),
];

/// Methods of these that iterators have too: a call may be either's.
const AMBIGUOUS: [&str; 1] = ["find"];

/// A line that imports, or names a path.
struct Import {
    place: String,
    from: String,
    to: String,
}

impl House {
    /// The room that a path belongs to.
    fn room(&self, path: &Path) -> Option<String> {
        let first = path.strip_prefix(self.sources).ok()?.components().next()?;
        let Component::Normal(name) = first else {
            return None;
        };
        let name = name.to_str()?;
        Some(name.strip_suffix(".rs").unwrap_or(name).to_owned())
    }

    /// Every file but `lib.rs`, with its room.
    fn files(&self) -> Vec<(String, Source)> {
        let root = tidy::root();
        let paths = tidy::files_with_extension("rs").into_iter();
        let rooms = paths.filter_map(|path| Some((self.room(&path)?, path)));
        rooms
            .filter(|(room, _)| room != "lib")
            .map(|(room, path)| {
                let source = Source::read(&root, path).expect("a source file is readable");
                (room, source)
            })
            .collect()
    }

    fn imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        for (from, source) in self.files() {
            for (index, line) in source.lines.iter().enumerate() {
                let others = named(line).filter(|to| *to != from);
                found.extend(others.map(|to| Import {
                    place: format!("{}:{}", source.path.display(), index + 1),
                    from: from.clone(),
                    to,
                }));
            }
        }
        found
    }

    /// Room -> the number of its floor.
    fn numbers(&self) -> BTreeMap<&'static str, usize> {
        let floors = self.floors.iter().enumerate();
        floors
            .flat_map(|(floor, rooms)| rooms.iter().map(move |room| (*room, floor)))
            .collect()
    }
}

/// The words that follow `crate::` in a line of code.
fn named(line: &str) -> impl Iterator<Item = String> {
    let code = line.split("//").next().unwrap_or_default();
    code.split("crate::").skip(1).map(|path| {
        let name = path.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '{');
        name.into_iter().next().unwrap_or_default().to_owned()
    })
}

#[test]
fn imports_between_rooms_run_down_only() {
    let mut broken = Vec::new();
    for house in HOUSES {
        let floors = house.numbers();
        let imports = house.imports().into_iter().filter_map(|import| {
            let Import { place, from, to } = import;
            match (floors.get(from.as_str()), floors.get(to.as_str())) {
                (Some(here), Some(there)) if there < here => None,
                (_, None) => Some(format!("{place}: `crate::{to}` names no room of the table")),
                _ => Some(format!("{place}: {from} -> {to} does not run down")),
            }
        });
        broken.extend(imports);
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// `super` stays in its room, so that `crate::` shows every import of another one.
#[test]
fn super_does_not_leave_its_room() {
    for house in HOUSES {
        let above = Path::new(house.sources).components().count();
        for (_, source) in house.files() {
            let depth = source.path.components().count() - above;
            let lines = source.lines.iter().filter(|line| line.starts_with("use "));
            for line in lines {
                let ups = line.matches("super::").count();
                assert!(ups < depth, "{}: {line}", source.path.display());
            }
        }
    }
}

#[test]
fn every_room_has_one_row_and_every_row_a_room() {
    for house in HOUSES {
        let rooms: BTreeSet<String> = house.files().into_iter().map(|(room, _)| room).collect();
        let rows: Vec<&str> = house.floors.concat();
        assert_eq!(rows.len(), house.numbers().len(), "a room has two rows");
        for room in &rooms {
            assert!(
                rows.contains(&room.as_str()),
                "room `{room}` of {} has no row in the table of floors",
                house.sources
            );
        }
        for row in rows {
            assert!(rooms.contains(row), "row `{row}` of the table has no room");
        }
    }
}

/// A method of a type that has some in many rooms.
struct Method {
    owner: &'static str,
    name: String,
    room: String,
    is_public: bool,
}

fn methods() -> Vec<Method> {
    let mut found = Vec::new();
    for (room, source) in POOL.files() {
        let mut owner = None;
        for line in &source.lines {
            if line.starts_with("impl<D") && !line.contains(" for ") {
                let of = |shared: &&&str| line.contains(&format!(" {shared}<D> "));
                owner = SHARED.iter().find(of).copied();
            } else if line == "}" {
                owner = None;
            }
            let (Some(owner), Some(name)) = (owner, function_name(line)) else {
                continue;
            };
            found.push(Method {
                owner,
                name,
                room: room.clone(),
                is_public: line.starts_with("    pub "),
            });
        }
    }
    assert!(found.len() > 100, "found only {} methods", found.len());
    found
}

/// The name of the method that a line of an `impl` begins.
fn function_name(line: &str) -> Option<String> {
    let (before, after) = line.strip_prefix("    ")?.split_once("fn ")?;
    let words = before.split(' ').filter(|word| !word.is_empty());
    let mut qualifiers = words.map(|word| word.starts_with("pub") || word == "async");
    let name = after.split(['(', '<']).next()?;
    qualifiers.all(|known| known).then(|| name.to_owned())
}

/// The name of a method says whose it is, to readers and to the test below.
#[test]
fn no_method_of_the_coordinator_has_the_name_of_one_of_a_shard() {
    let methods = methods();
    for method in methods.iter().filter(|method| method.owner == SHARED[1]) {
        let twin = methods
            .iter()
            .find(|other| other.owner == SHARED[0] && other.name == method.name);
        assert!(twin.is_none(), "`{}` is a method of both", method.name);
    }
}

/// Calls are told by names, so those that are not a method's of these types alone are left out.
#[test]
fn calls_between_rooms_run_down_but_for_those_listed() {
    let floors = POOL.numbers();
    let mut listed: BTreeSet<(&str, &str)> = CALLED_FROM_BELOW.into_iter().collect();
    let methods = methods();
    let methods: Vec<&Method> = methods
        .iter()
        .filter(|method| method.is_public && !AMBIGUOUS.contains(&method.name.as_str()))
        .collect();
    let mut broken = Vec::new();
    for (room, source) in POOL.files() {
        // Nothing below knows the types.
        let above = |method: &&&Method| {
            let (here, there) = (floors.get(room.as_str()), floors[method.room.as_str()]);
            here.is_some_and(|here| (floors["shard"]..there).contains(here))
        };
        for method in methods.iter().filter(above) {
            let call = format!(".{}(", method.name);
            if !source.lines.iter().any(|line| line.contains(&call)) {
                continue;
            }
            let row = (method.name.as_str(), room.as_str());
            let known = CALLED_FROM_BELOW.into_iter().find(|known| *known == row);
            match known {
                Some(known) => {
                    listed.remove(&known);
                }
                None => broken.push(format!(
                    "{}: `{}` of {}",
                    source.path.display(),
                    method.name,
                    method.room
                )),
            }
        }
    }
    assert!(broken.is_empty(), "calls run up:\n{}", broken.join("\n"));
    assert!(listed.is_empty(), "nobody calls {listed:?} from below");
}
