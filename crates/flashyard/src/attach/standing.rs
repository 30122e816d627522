//! How attachments stand: what a serving process tells of its connection, in a file beside its log,
//! and `flashyard attached`, which lists that.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use files::Access;
use serde::{Deserialize, Serialize};

use super::state::{Attached, Place, Way};
use super::{AttachError, Directory, is_served, kernel};
use crate::exit;
use crate::output::{Output, table};

/// Whether I/O of an attachment reaches its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// It does.
    Connected,
    /// It does, and some paths to the node are lost.
    Degraded,
    /// The node is lost, and I/O waits for it.
    Reconnecting,
    /// The node says that the volume is not ready, and I/O waits for it.
    NotReady,
    /// I/O fails. The node is tried on.
    GaveUp,
    /// Nobody serves it any more: it is to be attached anew.
    Gone,
    /// An older version serves it, which does not say.
    Unknown,
}

impl Condition {
    fn words(self) -> &'static str {
        match self {
            Condition::Connected => "connected",
            Condition::Degraded => "degraded",
            Condition::Reconnecting => "reconnecting",
            Condition::NotReady => "not ready",
            Condition::GaveUp => "gave up",
            Condition::Gone => "gone",
            Condition::Unknown => "unknown",
        }
    }
}

/// How one attachment stands, since when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub condition: Condition,
    /// RFC 3339; nothing where nobody noted it.
    pub since: Option<String>,
    pub why: Option<String>,
}

impl Standing {
    fn unnoted(condition: Condition, why: Option<&str>) -> Standing {
        Standing {
            condition,
            since: None,
            why: why.map(str::to_owned),
        }
    }

    /// Makes it what the file `path` says.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        files::replace_cached(path, &serde_json::to_vec(self)?, Access::AsBefore)
    }

    /// How the attachment stands that is remembered at `place`.
    fn of(attached: &Attached, place: &Place) -> Standing {
        if let Way::Kernel { nqn, .. } = &attached.way {
            return match kernel::paths(nqn) {
                (_, 0) => Standing::unnoted(
                    Condition::Gone,
                    Some("the kernel's host has given the node up, or was told to disconnect"),
                ),
                (0, _) => Standing::unnoted(Condition::Reconnecting, None),
                (live, all) if live < all => {
                    let why = format!("{live} of {all} paths");
                    Standing::unnoted(Condition::Degraded, Some(&why))
                }
                _ => Standing::unnoted(Condition::Connected, None),
            };
        }
        if !is_served(attached, place) {
            let why = "the serving process has ended: attach the volume anew";
            return Standing::unnoted(Condition::Gone, Some(why));
        }
        let text = fs::read(place.standing()).unwrap_or_default();
        let noted = serde_json::from_slice(&text);
        noted.unwrap_or(Standing::unnoted(Condition::Unknown, None))
    }
}

/// List what is attached to this host, and whether its I/O reaches the node.
#[derive(Args)]
pub struct List {
    #[command(flatten)]
    directory: Directory,
}

/// One line of the list.
#[derive(Debug, Serialize)]
pub struct Listed {
    name: String,
    #[serde(flatten)]
    attached: Attached,
    #[serde(flatten)]
    standing: Standing,
}

impl List {
    pub fn run(self, output: Output) -> ExitCode {
        match listed(&self.directory) {
            Ok(listed) => {
                output.show(&listed, |listed| text(listed));
                exit::done()
            }
            Err(error) => exit::failed(&error),
        }
    }
}

/// What is attached to this host, and how it stands.
pub fn listed(directory: &Directory) -> Result<Vec<Listed>, AttachError> {
    let mut listed = Vec::new();
    for place in Place::all(&directory.directory)? {
        // It may have been detached just now.
        if let Some(attached) = place.load()? {
            listed.push(Listed {
                standing: Standing::of(&attached, &place),
                name: place.name,
                attached,
            });
        }
    }
    Ok(listed)
}

impl Listed {
    /// In a line, if its I/O does not reach the node.
    pub fn trouble(&self) -> Option<String> {
        let Standing {
            condition,
            since,
            why,
        } = &self.standing;
        let mut line = match condition {
            Condition::Connected => return None,
            other => format!("{}: {}", self.name, other.words()),
        };
        if let Some(since) = since {
            line.push_str(&format!(" since {since}"));
        }
        if let Some(why) = why {
            line.push_str(&format!(": {}", api::plain(why)));
        }
        Some(line)
    }
}

fn text(listed: &[Listed]) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |one: &Listed| {
        vec![
            one.name.clone(),
            one.attached.device.display().to_string(),
            one.standing.condition.words().to_owned(),
            or_none(&one.standing.since),
            or_none(&one.standing.why),
        ]
    };
    let header = ["volume", "device", "state", "since", "reason"];
    table(&header, listed.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_that_nobody_serves_is_gone_whatever_was_noted_last() {
        let directory = tempfile::tempdir().unwrap();
        let there = Directory {
            directory: directory.path().to_owned(),
        };
        assert!(listed(&there).unwrap().is_empty());
        let place = Place::new(directory.path(), "data").unwrap();
        let attached: Attached = serde_json::from_value(serde_json::json!({
            "address": "tcp://127.0.0.1:4420/nqn.x", "way": { "fuse": { "pid": 0 } },
            "device": "/dev/loop0",
        }))
        .unwrap();
        place.save(&attached).unwrap();
        let noted = Standing::unnoted(Condition::Connected, None);
        noted.save(&place.standing()).unwrap();
        let found = listed(&there).unwrap();
        assert_eq!(found[0].standing.condition, Condition::Gone);
        assert!(text(&found).contains("data"), "{}", text(&found));
        let said = found[0].trouble().unwrap();
        assert!(said.starts_with("data: gone: the serving"), "{said}");
        place.clear();
        assert!(listed(&there).unwrap().is_empty());
        assert!(!place.standing().exists());
    }
}
