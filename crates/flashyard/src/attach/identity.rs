//! This host's identity: the name and the identifier that nvme-cli keeps in /etc/nvme, made where
//! they are missing. The kernel's host, nvme-cli and this program are then one host to every node.

use std::fs;
use std::io;
use std::path::Path;

use initiator::ConnectOptions;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::AttachError;

/// Where a host's name and identifier are.
pub const DIRECTORY: &str = "/etc/nvme";

const NAME_FILE: &str = "hostnqn";
const IDENTIFIER_FILE: &str = "hostid";

/// A host, as it connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Host NQN.
    pub nqn: String,
    /// Host identifier: of one host, always the same.
    pub id: Uuid,
}

impl Identity {
    /// This host, or one that is called `given`. Kernels refuse one identifier under two names, so
    /// another name has an identifier of its own, which follows from it.
    pub fn of(given: Option<&str>, directory: &Path) -> Result<Identity, AttachError> {
        let own = read(directory, NAME_FILE)?;
        match (given, own) {
            (Some(given), own) if own.as_deref() != Some(given) => Ok(Identity::named(given)),
            (_, Some(own)) => Identity::with_identifier(own, directory),
            (_, None) => Identity::make(directory),
        }
    }

    /// A host that nothing is known of but its name.
    fn named(nqn: &str) -> Identity {
        let options = ConnectOptions::new(nqn);
        Identity {
            id: Uuid::from_bytes(options.host_id),
            nqn: options.host_nqn,
        }
    }

    fn with_identifier(nqn: String, directory: &Path) -> Result<Identity, AttachError> {
        Ok(match read(directory, IDENTIFIER_FILE)? {
            Some(text) => Identity {
                nqn,
                id: parsed(directory, &text)?,
            },
            None => Identity::named(&nqn),
        })
    }

    /// Names this host after its identifier, which is made too if it is missing.
    fn make(directory: &Path) -> Result<Identity, AttachError> {
        let text = match read(directory, IDENTIFIER_FILE)? {
            Some(text) => text,
            None => keep(directory, IDENTIFIER_FILE, &Uuid::new_v4().to_string())?,
        };
        let id = parsed(directory, &text)?;
        let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{id}");
        Ok(Identity {
            nqn: keep(directory, NAME_FILE, &nqn)?,
            id,
        })
    }

    /// Options for connections of this host.
    pub fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new(&self.nqn);
        options.host_id = self.id.into_bytes();
        options
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> AttachError {
    let path = path.to_owned();
    |source| AttachError::Path { path, source }
}

/// The text of a file; none if there is no file.
fn read(directory: &Path, file: &str) -> Result<Option<String>, AttachError> {
    let path = directory.join(file);
    match fs::read_to_string(&path) {
        Ok(text) if text.trim().is_empty() => Err(AttachError::Identity {
            path,
            reason: "it is empty; without the file a name is made".to_owned(),
        }),
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&path)(error)),
    }
}

fn parsed(directory: &Path, text: &str) -> Result<Uuid, AttachError> {
    text.parse().map_err(|_| AttachError::Identity {
        path: directory.join(IDENTIFIER_FILE),
        reason: format!("'{text}' is no UUID"),
    })
}

/// Makes a file that is missing; gives what it says, which is another's if that was quicker.
fn keep(directory: &Path, file: &str, text: &str) -> Result<String, AttachError> {
    let path = directory.join(file);
    let new = directory.join(format!("{file}.{}", std::process::id()));
    fs::create_dir_all(directory).map_err(failed(directory))?;
    fs::write(&new, format!("{text}\n")).map_err(failed(&new))?;
    let linked = fs::hard_link(&new, &path);
    fs::remove_file(&new).map_err(failed(&new))?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(&path)(error)),
        _ => read(directory, file).map(|kept| kept.unwrap_or_else(|| text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "nqn.2014-08.org.nvmexpress:uuid:545f69b5-c851-4701-afb4-2a5488f5aa12";
    const IDENTIFIER: &str = "fb5160f4-cdf4-4d39-9bc8-ddf422e951be";

    fn of(given: Option<&str>, directory: &Path) -> Identity {
        Identity::of(given, directory).unwrap()
    }

    #[test]
    fn a_host_is_what_nvme_cli_calls_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join(NAME_FILE), format!("{NAME}\n")).unwrap();
        // Without an identifier of its own it has the one in its name.
        let alone = of(None, at);
        assert_eq!(alone.nqn, NAME);
        assert_eq!(alone.id.to_string(), NAME.rsplit(':').next().unwrap());
        fs::write(at.join(IDENTIFIER_FILE), format!("{IDENTIFIER}\n")).unwrap();
        let both = of(None, at);
        assert_eq!(
            (both.nqn.as_str(), both.id.to_string()),
            (NAME, IDENTIFIER.into())
        );
        assert_eq!(both.options().host_id, both.id.into_bytes());
        assert_eq!(of(Some(NAME), at), both);
    }

    #[test]
    fn another_name_has_another_identifier() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join(NAME_FILE), NAME).unwrap();
        fs::write(at.join(IDENTIFIER_FILE), IDENTIFIER).unwrap();
        let other = of(Some("nqn.2026-11.example:other"), at);
        assert_eq!(other.nqn, "nqn.2026-11.example:other");
        assert_ne!(other.id.to_string(), IDENTIFIER);
        assert_eq!(other, of(Some("nqn.2026-11.example:other"), at));
    }

    #[test]
    fn a_name_that_is_missing_is_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("nvme");
        let made = of(None, &at);
        assert_eq!(
            made.nqn,
            format!("nqn.2014-08.org.nvmexpress:uuid:{}", made.id)
        );
        assert_eq!(of(None, &at), made);
        // Under the identifier that there was, if there was one.
        fs::remove_file(at.join(NAME_FILE)).unwrap();
        assert_eq!(of(None, &at), made);
        // The second to come takes what is there, and nothing is left beside it.
        assert_eq!(
            keep(&at, NAME_FILE, "nqn.2026-11.example:late").unwrap(),
            made.nqn
        );
        assert_eq!(fs::read_dir(&at).unwrap().count(), 2);
        // A name that is given makes nothing.
        let elsewhere = directory.path().join("elsewhere");
        of(Some("nqn.2026-11.example:other"), &elsewhere);
        assert!(!elsewhere.exists());
    }

    #[test]
    fn files_that_say_nothing_of_use_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join(NAME_FILE), "\n").unwrap();
        let error = Identity::of(None, at).unwrap_err().to_string();
        assert!(
            error.contains("hostnqn") && error.contains("empty"),
            "{error}"
        );
        fs::write(at.join(NAME_FILE), NAME).unwrap();
        fs::write(at.join(IDENTIFIER_FILE), "here").unwrap();
        let error = Identity::of(None, at).unwrap_err().to_string();
        assert!(error.contains("hostid: 'here' is no UUID"), "{error}");
    }
}
