//! [`Login`]: what a client needs to know of a node, and [`Logins`], where that is kept.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use api::SecretText;
use files::Access;
use serde::{Deserialize, Serialize};

use crate::Fingerprint;

const DIRECTORY_MODE: u32 = 0o700;

/// A node, and how to be let in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Address of its REST API.
    pub url: String,
    /// The secret of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretText>,
    /// The certificate that the node must have, for `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Fingerprint>,
}

impl Login {
    /// Logins that are kept in `directory`, one file each, in the order of the files' names.
    ///
    /// # Errors
    /// When the directory or a file cannot be read, or a file has no login.
    pub fn all_in(directory: &Path) -> io::Result<Vec<Login>> {
        let entries = fs::read_dir(directory)?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = paths.collect::<io::Result<Vec<PathBuf>>>()?;
        paths.retain(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        });
        paths.sort_unstable();
        let login = |path: &PathBuf| {
            read(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        };
        paths.iter().map(login).collect()
    }
}

/// Logins of a user, one file each, in the user's configuration directory.
#[derive(Clone, Debug)]
pub struct Logins {
    directory: PathBuf,
}

impl Logins {
    /// The logins of the user who runs this: in `$XDG_CONFIG_HOME/flashyard`, or in
    /// `~/.config/flashyard`. None when the environment names neither.
    pub fn of_user() -> Option<Logins> {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let configuration = named("XDG_CONFIG_HOME").map(PathBuf::from);
        let home = || named("HOME").map(|home| PathBuf::from(home).join(".config"));
        let directory = configuration.or_else(home)?.join("flashyard");
        Some(Logins { directory })
    }

    /// The login for the node at `url`, if there is one.
    pub fn find(&self, url: &str) -> Option<Login> {
        read(&self.path(url)).ok()
    }

    /// The node that commands speak to when nothing else is said: the last one logged in to.
    pub fn current(&self) -> Option<String> {
        let url = fs::read_to_string(self.directory.join("current")).ok()?;
        Some(url.trim().to_owned())
    }

    /// Keeps a login; the file is whole or not there.
    pub fn keep(&self, login: &Login) -> io::Result<PathBuf> {
        let path = self.path(&login.url);
        let text = SecretText::from(serde_json::to_string_pretty(login)?);
        write_private(&path, text.reveal())?;
        Ok(path)
    }

    /// Makes the node at `url` the one that commands speak to.
    pub fn make_current(&self, url: &str) -> io::Result<()> {
        write_private(&self.directory.join("current"), url)
    }

    /// The file for `url`, whose characters may be no part of a path.
    fn path(&self, url: &str) -> PathBuf {
        let word = |c: char| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => c,
            _ => '_',
        };
        let name: String = url.trim_end_matches('/').chars().map(word).collect();
        self.directory.join("nodes").join(name + ".json")
    }
}

fn read(path: &Path) -> io::Result<Login> {
    let text = SecretText::from(fs::read_to_string(path)?);
    Ok(serde_json::from_str(text.reveal())?)
}

/// Writes a file that only its owner may read, whole.
fn write_private(path: &Path, contents: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        let mut private = DirBuilder::new();
        private
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(DIRECTORY_MODE))?;
    }
    files::replace(path, contents.as_bytes(), Access::Owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_kept_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let logins = Logins {
            directory: directory.path().join("flashyard"),
        };
        let login = Login {
            url: "https://../node:4400".into(),
            token: Some("fy_secret".into()),
            certificate: Some(Fingerprint::of(b"certificate")),
        };
        let path = logins.keep(&login).unwrap();
        assert!(path.starts_with(directory.path()), "{}", path.display());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(logins.find(&login.url) == Some(login.clone()));
        assert!(logins.find("https://other:4400").is_none());
        assert_eq!(logins.current(), None);
        logins.make_current(&login.url).unwrap();
        assert_eq!(logins.current(), Some(login.url.clone()));
        let nodes = path.parent().unwrap();
        assert!(Login::all_in(nodes).unwrap() == [login]);
        fs::write(nodes.join("other.json"), "{}").unwrap();
        let error = Login::all_in(nodes).err().unwrap().to_string();
        assert!(error.contains("other.json"), "{error}");
    }
}
