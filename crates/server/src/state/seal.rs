//! [`Seal`]: encryption of the records in the state, so that a copy of its file gives no secret
//! away.
//!
//! Each record is encrypted by itself with AES-256-GCM and a nonce of its own, and is bound to its
//! table and its name: none can be put in another's place. Names of tables and of objects stay
//! readable, as do the node's identity and how much the audit log holds.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, TableHandle};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::{IDENTITY, Identity, META, StateError, audit};

/// The record that tells which key fits.
const CHECK: &str = "seal";
const CHECK_TEXT: &[u8] = b"this key fits";

/// What a sealed record begins with.
const VERSION: u8 = 1;

/// Digits of a key as text.
const KEY_DIGITS: usize = 64;

/// The environment's name for the directory of systemd's credentials.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// A key for the state. It is not shown.
pub struct StateKey(LessSafeKey);

impl fmt::Debug for StateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StateKey(..)")
    }
}

/// The key that the state is to have, and one that it may have yet.
#[derive(Debug, Default)]
pub struct StateKeys {
    /// Records are sealed with it; without one they are in the clear.
    pub current: Option<StateKey>,
    /// Of former starts.
    pub previous: Option<StateKey>,
}

impl StateKeys {
    /// Reads the keys in these files. A name without a slash is a credential of systemd's.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn read(current: Option<&Path>, previous: Option<&Path>) -> Result<StateKeys, StateError> {
        Ok(StateKeys {
            current: current
                .map(|file| StateKey::read("state_key_file", file))
                .transpose()?,
            previous: previous
                .map(|file| StateKey::read("state_key_file_previous", file))
                .transpose()?,
        })
    }
}

impl StateKey {
    fn read(setting: &'static str, file: &Path) -> Result<StateKey, StateError> {
        let unusable = |path: &Path, problem: String| StateError::Key {
            setting,
            path: path.to_owned(),
            problem,
        };
        let is_name = file.components().count() == 1 && !file.is_absolute();
        let path = match (is_name, std::env::var_os(CREDENTIALS)) {
            (false, _) => file.to_owned(),
            (true, Some(directory)) => PathBuf::from(directory).join(file),
            (true, None) => {
                let problem = format!(
                    "a name without a directory is a credential of systemd's, and \
                     ${CREDENTIALS} is not set; allowed: LoadCredential= in the unit, or a path"
                );
                return Err(unusable(file, problem));
            }
        };
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| unusable(&path, error.to_string()))?;
        StateKey::parse(&Zeroizing::new(text)).map_err(|problem| unusable(&path, problem))
    }

    /// A key from its text.
    ///
    /// # Errors
    /// What is wrong with it, without showing it.
    pub fn parse(text: &str) -> Result<StateKey, String> {
        let digits = text.trim().as_bytes();
        let allowed = "allowed: 64 hexadecimal digits, as `openssl rand -hex 32` prints";
        if digits.len() != KEY_DIGITS {
            return Err(format!("{} characters; {allowed}", digits.len()));
        }
        let mut key = Zeroizing::new(Vec::with_capacity(KEY_DIGITS / 2));
        for pair in digits.chunks_exact(2) {
            let byte = std::str::from_utf8(pair).ok();
            let byte = byte.filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let byte = byte.and_then(|pair| u8::from_str_radix(pair, 16).ok());
            key.push(byte.ok_or_else(|| format!("a character that is no such digit; {allowed}"))?);
        }
        let key = UnboundKey::new(&AES_256_GCM, &key);
        let key = key.map_err(|_| format!("not usable; {allowed}"))?;
        Ok(StateKey(LessSafeKey::new(key)))
    }
}

/// How the records of a state are written: with a key, or in the clear.
#[derive(Debug, Default)]
pub struct Seal(Option<StateKey>);

impl Seal {
    /// Whether records are encrypted.
    pub fn is_closed(&self) -> bool {
        self.0.is_some()
    }

    /// A record as it is written.
    pub fn close<'r>(
        &self,
        table: &str,
        name: &[u8],
        record: &'r [u8],
    ) -> Result<Cow<'r, [u8]>, StateError> {
        let Some(StateKey(key)) = self.key(table, name) else {
            return Ok(Cow::Borrowed(record));
        };
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| StateError::Random)?;
        let mut sealed = Zeroizing::new(record.to_vec());
        let bound = Aad::from(binding(table, name));
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce_used, bound, &mut *sealed)
            .map_err(|_| unsealable(name))?;
        let written = [&[VERSION][..], &nonce, &sealed].concat();
        Ok(Cow::Owned(written))
    }

    /// What a written record says.
    pub fn open(
        &self,
        table: &str,
        name: &[u8],
        written: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, StateError> {
        let Some(StateKey(key)) = self.key(table, name) else {
            return Ok(Zeroizing::new(written.to_vec()));
        };
        let opened = opened(key, table, name, written);
        opened.ok_or_else(|| unsealable(name))
    }

    /// The key of a record; the node's identity has none, for it says which version may read.
    fn key(&self, table: &str, name: &[u8]) -> Option<&StateKey> {
        let clear = table == META.name() && name == IDENTITY.as_bytes();
        self.0.as_ref().filter(|_| !clear)
    }
}

fn opened(
    key: &LessSafeKey,
    table: &str,
    name: &[u8],
    written: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let (&version, rest) = written.split_first()?;
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
    if version != VERSION {
        return None;
    }
    let mut record = Zeroizing::new(sealed.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let bound = Aad::from(binding(table, name));
    let length = key.open_in_place(nonce, bound, &mut record).ok()?.len();
    record.truncate(length);
    Some(record)
}

/// What a record is bound to.
fn binding(table: &str, name: &[u8]) -> Vec<u8> {
    [table.as_bytes(), &[0], name].concat()
}

fn unsealable(name: &[u8]) -> StateError {
    StateError::Sealed {
        name: String::from_utf8_lossy(name).into_owned(),
    }
}

/// How the records of `database` are written, by the keys that there are, and whether that is how
/// they are to be.
///
/// # Errors
/// They are encrypted, and no key fits.
pub fn fitting(
    database: &Database,
    keys: StateKeys,
    path: &Path,
) -> Result<(Seal, Option<Seal>), StateError> {
    let StateKeys { current, previous } = keys;
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    let check = match transaction.open_table(META) {
        Ok(table) => table.get(CHECK).map_err(redb::Error::from)?,
        Err(TableError::TableDoesNotExist(_)) => None,
        Err(other) => return Err(StateError::Database(other.into())),
    };
    let Some(check) = check else {
        let wanted = current.map(|key| Seal(Some(key)));
        return Ok((Seal(None), wanted));
    };
    let fits = |key: &Option<StateKey>| {
        key.as_ref().is_some_and(|StateKey(key)| {
            opened(key, META.name(), CHECK.as_bytes(), check.value()).is_some()
        })
    };
    if fits(&current) {
        Ok((Seal(current), None))
    } else if fits(&previous) {
        Ok((Seal(previous), Some(Seal(current))))
    } else {
        Err(StateError::Locked {
            path: path.to_owned(),
            given: current.is_some() || previous.is_some(),
        })
    }
}

/// Copies every record, as one seal has written it, to be as another writes it.
pub fn copy(from: (&Database, &Seal), to: (&Database, &Seal)) -> Result<(), StateError> {
    let ((from, opens), (to, closes)) = (from, to);
    let source = from.begin_read().map_err(redb::Error::from)?;
    let target = to.begin_write().map_err(redb::Error::from)?;
    for table in source.list_tables().map_err(redb::Error::from)? {
        let name = table.name();
        if audit::TABLES.contains(&name) {
            let definition = TableDefinition::<u64, &[u8]>::new(name);
            let read = source.open_table(definition).map_err(redb::Error::from)?;
            let mut written = target.open_table(definition).map_err(redb::Error::from)?;
            for entry in read.iter().map_err(redb::Error::from)? {
                let (id, record) = entry.map_err(redb::Error::from)?;
                let bound = id.value().to_le_bytes();
                let record = opens.open(name, &bound, record.value())?;
                let record = closes.close(name, &bound, &record)?;
                written
                    .insert(id.value(), &*record)
                    .map_err(redb::Error::from)?;
            }
            continue;
        }
        let definition = TableDefinition::<&str, &[u8]>::new(name);
        let read = source.open_table(definition).map_err(redb::Error::from)?;
        let mut written = target.open_table(definition).map_err(redb::Error::from)?;
        for entry in read.iter().map_err(redb::Error::from)? {
            let (key, record) = entry.map_err(redb::Error::from)?;
            let key = key.value();
            // The log counts its bytes anew.
            if name == META.name() && (key == CHECK || audit::BYTES_KEYS.contains(&key)) {
                continue;
            }
            let mut record = opens.open(name, key.as_bytes(), record.value())?;
            if name == META.name() && key == IDENTITY {
                record = of_format(&record, closes)?;
            }
            let record = closes.close(name, key.as_bytes(), &record)?;
            written.insert(key, &*record).map_err(redb::Error::from)?;
        }
    }
    if closes.is_closed() {
        let mut meta = target.open_table(META).map_err(redb::Error::from)?;
        let check = closes.close(META.name(), CHECK.as_bytes(), CHECK_TEXT)?;
        meta.insert(CHECK, &*check).map_err(redb::Error::from)?;
    }
    target.commit().map_err(redb::Error::from)?;
    Ok(())
}

/// The node's identity with the format of such a state.
fn of_format(record: &[u8], seal: &Seal) -> Result<Zeroizing<Vec<u8>>, StateError> {
    let wrong = |source| StateError::Record {
        name: IDENTITY.to_owned(),
        source,
    };
    let mut identity: Identity = serde_json::from_slice(record).map_err(wrong)?;
    identity.format = super::format_of(seal);
    Ok(Zeroizing::new(
        serde_json::to_vec(&identity).map_err(wrong)?,
    ))
}
