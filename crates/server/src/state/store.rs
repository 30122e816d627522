//! [`Store`]: the database under the state. It goes on after its disk has failed it.
//!
//! A database that met an error takes nothing more until it is opened again, which every change
//! and every reading does for itself. What cannot be written is still read, by way of changes that
//! stay in memory; then changes are refused. A change that was refused is not there later either:
//! what its record was before is put back when the database is opened again.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use redb::Database;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::StateError;
use super::backend::{Overlaid, Whole};
use super::change::{Before, Change};
use super::seal::{self, Seal, StateKeys};
use crate::private;

/// How long a disk that answers may take for a change: a pool's drive is told of as late.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is wrong with a disk that takes longer.
const SILENT: &str = "the disk does not answer";

/// The open database, the file that it is in, and what is wrong with either.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Taken before `opened` by whoever takes both.
    writer: Mutex<Writer>,
    opened: RwLock<Opened>,
    problem: Mutex<Option<String>>,
    /// Since when one waits for the disk.
    waits_since: Mutex<Option<Instant>>,
    /// How records are written.
    seal: Seal,
}

/// One at a time writes or opens.
#[derive(Debug)]
struct Writer {
    /// Locked for as long as this is there.
    file: Arc<File>,
    /// The file could be opened for reading only.
    reading: bool,
    /// What changes whose outcome is unknown did away with, oldest first.
    undo: Vec<Before>,
}

#[derive(Debug)]
enum Opened {
    Whole(Database),
    /// To be read: what is changed would be forgotten.
    Overlaid(Database),
    Closed,
}

/// Whether a file was there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was.
    There,
    /// It was made.
    Made,
}

impl Store {
    /// Opens the database in the file `path`, which is made if it is missing. One that cannot be
    /// written is opened to be read; another is written anew if its records are not as `keys` say.
    pub fn open(path: &Path, keys: StateKeys) -> Result<(Store, Found), StateError> {
        // A link stays: what it leads to is the file that is written anew.
        let path = files::followed(path).map_err(|source| StateError::File {
            path: path.to_owned(),
            source,
        })?;
        let (file, reading, found) = open_or_make(&path)?;
        let file = Arc::new(file);
        let mut store = Store {
            path,
            writer: Mutex::new(Writer {
                file,
                reading,
                undo: Vec::new(),
            }),
            opened: RwLock::new(Opened::Closed),
            problem: Mutex::default(),
            waits_since: Mutex::default(),
            seal: Seal::default(),
        };
        let mut writer = store.writer();
        if let Err(error) = store.open_again(&mut writer)
            && matches!(*store.opened(), Opened::Closed)
        {
            return Err(error);
        }
        drop(writer);
        store.unlock(keys)?;
        Ok((store, found))
    }

    /// How records are written.
    pub fn seal(&self) -> &Seal {
        &self.seal
    }

    /// Finds the key that fits, and writes the file anew if another is to.
    fn unlock(&mut self, keys: StateKeys) -> Result<(), StateError> {
        let (seal, wanted) = match &*self.opened() {
            Opened::Whole(database) | Opened::Overlaid(database) => {
                seal::fitting(database, keys, &self.path)?
            }
            Opened::Closed => return Err(redb::Error::DatabaseClosed.into()),
        };
        self.seal = seal;
        let Some(wanted) = wanted else {
            return Ok(());
        };
        let mut writer = self.writer();
        let file = {
            let mut opened = self.opened_guard();
            let Opened::Whole(database) = &*opened else {
                return Ok(());
            };
            let copied = copied(&self.path, (database, &self.seal), &wanted)?;
            *opened = Opened::Closed;
            copied
        };
        writer.file = Arc::new(file);
        self.open_again(&mut writer)?;
        drop(writer);
        self.seal = wanted;
        Ok(())
    }

    /// Why changes are refused, if they are.
    pub fn problem(&self) -> Option<String> {
        let silence = self.silence().map(str::to_owned);
        silence.or_else(|| self.problem_guard().clone())
    }

    /// The same where a change waits for the disk, which takes too long. Never blocks.
    pub fn silence(&self) -> Option<&'static str> {
        let since = self.waits_since_guard().as_ref().map(Instant::elapsed);
        since.filter(|waited| *waited >= PATIENCE).map(|_| SILENT)
    }

    /// Reads.
    pub fn read<T>(
        &self,
        read: impl Fn(&Database) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let once = || match &*self.opened() {
            Opened::Whole(database) | Opened::Overlaid(database) => read(database),
            Opened::Closed => Err(redb::Error::DatabaseClosed.into()),
        };
        match once() {
            Err(StateError::Database(_)) => {
                // What stands in the way of writing need not stand in the way of reading.
                let mut writer = self.writer();
                let waits = Waits::begin(self);
                let _ = self.open_again(&mut writer);
                drop(waits);
                once()
            }
            done => done,
        }
    }

    /// Makes a change, all of it or nothing; durable when it returns. What failed is made again if
    /// the failure was an earlier one's.
    pub fn write(
        &self,
        change: impl Fn(&mut Change) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut writer = self.writer();
        let _waits = Waits::begin(self);
        let done = match self.write_once(&mut writer, &change) {
            Err(StateError::Database(error)) if !matches!(error, redb::Error::Io(_)) => self
                .open_again(&mut writer)
                .and_then(|()| self.write_once(&mut writer, &change)),
            Err(StateError::Database(error)) => {
                // To be read meanwhile. The problem is what stood in the way of this change.
                let _ = self.open_again(&mut writer);
                Err(error.into())
            }
            done => done,
        };
        match &done {
            Ok(()) => *self.problem_guard() = None,
            Err(error @ (StateError::Database(_) | StateError::File { .. })) => {
                *self.problem_guard() = Some(error.to_string());
            }
            Err(_) => {}
        }
        done
    }

    fn write_once(
        &self,
        writer: &mut Writer,
        change: &impl Fn(&mut Change) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let opened = self.opened();
        let Opened::Whole(database) = &*opened else {
            return Err(redb::Error::DatabaseClosed.into());
        };
        let transaction = database.begin_write().map_err(redb::Error::from)?;
        let mut made = Change::new(&transaction, &self.seal);
        change(&mut made)?;
        let before = made.before();
        let committed = transaction.commit().map_err(redb::Error::from);
        if committed.is_err() {
            writer.undo.extend(before);
        }
        Ok(committed?)
    }

    /// Closes the database and opens it again: to be written, or else to be read, with the reason.
    fn open_again(&self, writer: &mut Writer) -> Result<(), StateError> {
        let mut opened = self.opened_guard();
        let to_read = writer.reading && matches!(*opened, Opened::Overlaid(_));
        if to_read && let Err(error) = open_to_write(&self.path) {
            return Err(self.failed(error));
        }
        // The old one first: two over one file would not know of each other.
        *opened = Opened::Closed;
        let whole = self.open_whole(writer);
        match whole {
            Ok(database) => {
                *opened = Opened::Whole(database);
                Ok(())
            }
            Err(error) => {
                let overlaid = Overlaid::new(Arc::clone(&writer.file));
                let database = overlaid.map(|file| Database::builder().create_with_backend(file));
                if let (true, Ok(Ok(database))) = (is_the_disks(&error), database) {
                    *opened = Opened::Overlaid(database);
                }
                *self.problem_guard() = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn open_whole(&self, writer: &mut Writer) -> Result<Database, StateError> {
        if writer.reading {
            let file = open_to_write(&self.path).map_err(|error| self.failed(error))?;
            // One process has both: it must let go of the one to have the other.
            let let_go = writer.file.unlock();
            let_go.map_err(|error| self.failed(error))?;
            lock(&file, &self.path)?;
            writer.file = Arc::new(file);
            writer.reading = false;
        }
        let file = Whole(Arc::clone(&writer.file));
        let database = Database::builder().create_with_backend(file);
        let database = database.map_err(redb::Error::from)?;
        if !writer.undo.is_empty() {
            let transaction = database.begin_write().map_err(redb::Error::from)?;
            let mut change = Change::new(&transaction, &self.seal);
            for before in writer.undo.iter().rev() {
                change.put_back(before)?;
            }
            transaction.commit().map_err(redb::Error::from)?;
            writer.undo.clear();
        }
        Ok(database)
    }

    fn failed(&self, source: io::Error) -> StateError {
        StateError::File {
            path: self.path.clone(),
            source,
        }
    }

    /// What a panic left behind is as good as what an error did.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> RwLockReadGuard<'_, Opened> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened_guard(&self) -> RwLockWriteGuard<'_, Opened> {
        self.opened.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn problem_guard(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits_since_guard(&self) -> MutexGuard<'_, Option<Instant>> {
        let guard = self.waits_since.lock();
        guard.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer waits for the disk until this is dropped.
struct Waits<'a>(&'a Store);

impl Waits<'_> {
    fn begin(store: &Store) -> Waits<'_> {
        *store.waits_since_guard() = Some(Instant::now());
        Waits(store)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        *self.0.waits_since_guard() = None;
    }
}

/// Whether it says nothing about what is in the file.
fn is_the_disks(error: &StateError) -> bool {
    matches!(
        error,
        StateError::File { .. } | StateError::Database(redb::Error::Io(_))
    )
}

/// The locked file, whether it can only be read, and whether it was there.
fn open_or_make(path: &Path) -> Result<(File, bool, Found), StateError> {
    let failed = |source| StateError::File {
        path: path.to_owned(),
        source,
    };
    let (file, reading) = match open_to_write(path) {
        Ok(file) => (file, false),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok((make(path)?, false, Found::Made));
        }
        // A file system that is mounted for reading, say.
        Err(error) => (File::open(path).map_err(|_| failed(error))?, true),
    };
    lock(&file, path)?;
    if file.metadata().map_err(failed)?.len() == 0 {
        return Err(StateError::Empty {
            path: path.to_owned(),
        });
    }
    // Secrets are in it. Where this fails it is another's file, whose mode is theirs to choose.
    let _ = file.set_permissions(PermissionsExt::from_mode(0o600));
    Ok((file, reading, Found::There))
}

fn open_to_write(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// Makes a file with an empty database. It has its name once that is in it, so that a start that
/// is cut short leaves no empty file.
fn make(path: &Path) -> Result<File, StateError> {
    made_anew(path, RenameFlags::NOREPLACE, |_| Ok(()))
}

/// Puts a file with what is in `database` in its place, written by another seal. What the old file
/// holds in pages that are free, records in the clear among it, goes with it.
fn copied(
    path: &Path,
    (database, seal): (&Database, &Seal),
    wanted: &Seal,
) -> Result<File, StateError> {
    let copy = |new: &Database| seal::copy((database, seal), (new, wanted));
    made_anew(path, RenameFlags::empty(), copy)
}

/// Makes a file with what `fill` puts into its database, which gets its name when all is in it.
fn made_anew(
    path: &Path,
    flags: RenameFlags,
    fill: impl FnOnce(&Database) -> Result<(), StateError>,
) -> Result<File, StateError> {
    let new = private::beside(path);
    let failed = |source| StateError::File {
        path: path.to_owned(),
        source,
    };
    if let Ok(left_behind) = open_to_write(&new) {
        lock(&left_behind, path)?;
        std::fs::remove_file(&new).map_err(failed)?;
    }
    let file = private::create(&new).map_err(failed)?;
    let made = lock(&file, path).and_then(|()| {
        let whole = Whole(Arc::new(file.try_clone().map_err(failed)?));
        let created = Database::builder().create_with_backend(whole);
        let created = created.map_err(|error| match redb::Error::from(error) {
            redb::Error::Io(source) => failed(source),
            other => StateError::Database(other),
        })?;
        fill(&created)?;
        drop(created);
        file.sync_all().map_err(failed)?;
        renameat_with(CWD, &new, CWD, path, flags).map_err(|error| failed(error.into()))?;
        let directory = path.parent().unwrap_or(Path::new("."));
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(failed)
    });
    if made.is_err() {
        // It takes space that may be what is lacking.
        let _ = std::fs::remove_file(&new);
    }
    made.map(|()| file)
}

fn lock(file: &File, path: &Path) -> Result<(), StateError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StateError::InUse {
            path: path.parent().unwrap_or(path).to_owned(),
        },
        TryLockError::Error(source) => StateError::File {
            path: path.to_owned(),
            source,
        },
    })
}
