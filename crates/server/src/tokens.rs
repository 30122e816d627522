//! Tokens: 256 random bits that let a client in; the node keeps their hash.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use api::{Caller, ErrorBody, Name, Role, SecretText, Token, TokenSpec};
use files::Access;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::events::{seconds, timestamp};
use crate::words::hexadecimal;

/// Holds the secret of the token that a first start makes, in the state directory.
pub const ADMIN_TOKEN_FILE: &str = "admin.token";

/// Holds the secret that the admin's token is to get, until the node has taken it.
const RESET_FILE: &str = "admin.token.reset";

/// Says what it is to those who find one, and to programs that look for leaked secrets.
const PREFIX: &str = "fy_";

/// Random bytes in a secret: guessing one is out of reach, so that a plain hash hides it.
const SECRET_BYTES: usize = 32;

/// A token as it is remembered: without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    role: Role,
    tenant: Option<Name>,
    created_seconds: u64,
    expires_seconds: Option<u64>,
    secret_sha256: String,
}

impl TokenRecord {
    /// A new token as `spec` says, and its secret.
    pub fn new(spec: &TokenSpec, now: SystemTime) -> Result<(TokenRecord, SecretText), ErrorBody> {
        if spec.role == Role::Admin && spec.tenant.is_some() {
            let message = "a token of a tenant cannot be an admin's; allowed: viewer, operator";
            return Err(ErrorBody::invalid("role", message));
        }
        let expires = expires_seconds(spec)?;
        if expires.is_some_and(|expires| expires <= seconds(now)) {
            let message = format!("it is {} already; allowed: a later time", timestamp(now));
            return Err(ErrorBody::invalid("expires", message));
        }
        let secret = new_secret().map_err(|error| {
            let message = format!("the system has no random bytes: {error}");
            ErrorBody::new(api::ErrorCode::Internal, message)
        })?;
        let record = TokenRecord {
            role: spec.role,
            tenant: spec.tenant.clone(),
            created_seconds: seconds(now),
            expires_seconds: expires,
            secret_sha256: hash(secret.reveal()),
        };
        Ok((record, secret))
    }

    /// The admin's token with this secret.
    pub fn of_admin(secret: &SecretText, now: SystemTime) -> TokenRecord {
        TokenRecord {
            role: Role::Admin,
            tenant: None,
            created_seconds: seconds(now),
            expires_seconds: None,
            secret_sha256: hash(secret.reveal()),
        }
    }

    /// Whether this is what `spec` asks for.
    pub fn is(&self, spec: &TokenSpec) -> Result<bool, ErrorBody> {
        let expires = expires_seconds(spec)?;
        Ok(self.role == spec.role && self.tenant == spec.tenant && self.expires_seconds == expires)
    }

    /// Whether the secret with this [`hash`] lets in at the time `now`.
    pub fn admits(&self, hash: &str, now: SystemTime) -> bool {
        self.secret_sha256 == hash && self.expires_seconds.is_none_or(|end| seconds(now) < end)
    }

    /// Who uses it.
    pub fn caller(&self, name: &Name) -> Caller {
        Caller {
            name: name.clone(),
            role: self.role,
            tenant: self.tenant.clone(),
        }
    }

    /// The token as people see it.
    pub fn shown(&self, name: &Name, secret: Option<SecretText>) -> Token {
        let time = |seconds| timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        Token {
            name: name.clone(),
            role: self.role,
            tenant: self.tenant.clone(),
            created: time(self.created_seconds),
            expires: self.expires_seconds.map(time),
            secret,
        }
    }
}

/// What is kept of a secret.
pub fn hash(secret: &str) -> String {
    hexadecimal(&Sha256::digest(secret))
}

/// Writes the secret of the admin's token where only the node's user can read it.
pub fn write_admin_token(state_directory: &Path, secret: &SecretText) -> io::Result<()> {
    write_line(&state_directory.join(ADMIN_TOKEN_FILE), secret)
}

/// Asks the node, whether or not it runs, to give the admin's token a new secret: whoever may write
/// to the state directory may. Gives the file that is there until the node has taken it; then the
/// secret is in [`ADMIN_TOKEN_FILE`].
pub fn ask_for_admin_reset(state_directory: &Path) -> io::Result<PathBuf> {
    let path = state_directory.join(RESET_FILE);
    write_line(&path, &new_secret()?)?;
    // Root asks for a node that runs as another user.
    let owner = state_directory.metadata()?;
    std::os::unix::fs::chown(&path, Some(owner.uid()), Some(owner.gid()))?;
    Ok(path)
}

/// The secret that the admin's token is to get, if somebody asked for one.
pub fn admin_reset_asked(state_directory: &Path) -> io::Result<Option<SecretText>> {
    let file = match File::open(state_directory.join(RESET_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = String::new();
    let secret_bytes = (PREFIX.len() + 2 * SECRET_BYTES) as u64;
    file.take(secret_bytes + 2).read_to_string(&mut text)?;
    let text = SecretText::from(text);
    let secret = text.reveal().trim();
    match secret.starts_with(PREFIX) && secret.len() as u64 == secret_bytes {
        true => Ok(Some(secret.into())),
        false => Err(io::Error::other("it holds no secret of a token")),
    }
}

/// Puts a secret that the admin's token has got where people look for it.
pub fn admin_reset_taken(state_directory: &Path) -> io::Result<()> {
    if let Some(secret) = admin_reset_asked(state_directory)? {
        // Not by renaming: a symbolic link stays, and what it leads to is replaced.
        write_admin_token(state_directory, &secret)?;
        std::fs::remove_file(state_directory.join(RESET_FILE))?;
    }
    Ok(())
}

/// The secret, and the end of the line.
fn write_line(path: &Path, secret: &SecretText) -> io::Result<()> {
    let line = SecretText::from(format!("{}\n", secret.reveal()));
    files::replace(path, line.reveal().as_bytes(), Access::Owner)
}

fn new_secret() -> Result<SecretText, getrandom::Error> {
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random)?;
    Ok(format!("{PREFIX}{}", hexadecimal(&random)).into())
}

/// Reads what [`write_admin_token`] wrote.
pub fn read_admin_token(state_directory: &Path) -> io::Result<SecretText> {
    let text = std::fs::read_to_string(state_directory.join(ADMIN_TOKEN_FILE))?;
    Ok(SecretText::from(text).reveal().trim().into())
}

fn expires_seconds(spec: &TokenSpec) -> Result<Option<u64>, ErrorBody> {
    let parse = |text: &String| {
        let time = humantime::parse_rfc3339(text).map_err(|_| {
            let message = format!("{text:?}; allowed: a time such as 2027-01-31T00:00:00Z");
            ErrorBody::invalid("expires", message)
        })?;
        Ok(seconds(time))
    };
    spec.expires.as_ref().map(parse).transpose()
}

/// Two digits a byte.
#[cfg(test)]
mod tests {
    use super::*;

    fn spec(expires: Option<&str>) -> TokenSpec {
        TokenSpec {
            role: Role::Viewer,
            tenant: None,
            expires: expires.map(str::to_owned),
        }
    }

    fn at(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn a_token_admits_its_secret_until_it_expires() {
        let now = at("2026-11-21T12:00:00Z");
        let spec = spec(Some("2026-11-21T12:00:01Z"));
        let (record, secret) = TokenRecord::new(&spec, now).unwrap();
        let secret = secret.reveal();
        assert_eq!(secret.len(), PREFIX.len() + 2 * SECRET_BYTES);
        assert!(!serde_json::to_string(&record).unwrap().contains(secret));
        assert!(record.admits(&hash(secret), now));
        assert!(!record.admits(&hash("fy_"), now));
        assert!(!record.admits(&hash(secret), at("2026-11-21T12:00:01Z")));
        assert!(record.is(&spec).unwrap());
    }

    /// Whoever put a link in the place of the token finds the new secret where it leads.
    #[test]
    fn a_new_secret_of_the_admin_follows_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (state, secrets) = (directory.path().join("state"), directory.path().join("s"));
        std::fs::create_dir(&state).unwrap();
        write_line(&secrets, &"former".to_owned().into()).unwrap();
        let link = state.join(ADMIN_TOKEN_FILE);
        std::os::unix::fs::symlink(&secrets, &link).unwrap();
        let asked = ask_for_admin_reset(&state).unwrap();
        let secret = admin_reset_asked(&state).unwrap().unwrap();
        admin_reset_taken(&state).unwrap();
        assert!(!asked.exists());
        assert_eq!(std::fs::read_link(&link).unwrap(), secrets);
        let read = std::fs::read_to_string(&secrets).unwrap();
        assert_eq!(read, format!("{}\n", secret.reveal()));
        assert_eq!(secrets.metadata().unwrap().mode() & 0o777, 0o600);
        admin_reset_taken(&state).unwrap();
    }

    #[test]
    fn tokens_that_make_no_sense_are_refused() {
        let now = at("2026-11-21T12:00:00Z");
        let refused = |spec: &TokenSpec| TokenRecord::new(spec, now).unwrap_err().field;
        let past = spec(Some("2026-11-21T11:59:59Z"));
        assert_eq!(refused(&past).as_deref(), Some("expires"));
        assert_eq!(refused(&spec(Some("soon"))).as_deref(), Some("expires"));
        let admin = TokenSpec {
            role: Role::Admin,
            tenant: Some("acme".parse().unwrap()),
            expires: None,
        };
        assert_eq!(refused(&admin).as_deref(), Some("role"));
    }
}
