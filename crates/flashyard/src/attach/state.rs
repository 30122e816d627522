//! What is attached on this host: a small file each, in one directory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use files::Access;
use initiator::TargetAddress;
use serde::{Deserialize, Serialize};

use super::AttachError;

/// One attached volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The volume's addresses, one for each path.
    pub address: String,
    /// How.
    pub way: Way,
    /// The block device.
    pub device: PathBuf,
}

/// How a volume is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// By the kernel's NVMe/TCP host.
    Kernel {
        /// The subsystem.
        nqn: String,
        /// It was this program that had the kernel connect; what older versions remembered.
        #[serde(default = "yes")]
        ours: bool,
    },
    /// By a process of this program, a FUSE file and a loop device.
    Fuse {
        /// The process.
        pid: u32,
        /// How the kernel's requests reach it; what older versions remembered does not say.
        #[serde(default)]
        requests: Requests,
    },
}

fn yes() -> bool {
    true
}

/// How the kernel's FUSE requests reach the process that serves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requests {
    /// Read from `/dev/fuse`, where answers are written.
    #[default]
    Read,
    /// Through rings that are shared with the kernel.
    IoUring,
}

impl Requests {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Requests::Read => "read",
            Requests::IoUring => "io_uring",
        }
    }

    /// What [`Requests::word`] said.
    pub fn of(word: &str) -> Option<Requests> {
        let all = [Requests::Read, Requests::IoUring];
        all.into_iter().find(|one| one.word() == word)
    }
}

/// Where everything about the attachment called `name` is.
pub struct Place {
    pub name: String,
    directory: PathBuf,
}

impl Place {
    /// In `directory`, which is made if it is not there. The kernel's tables of mounts and loop
    /// devices have real paths, so this has one too, whatever `directory` is relative to.
    pub fn new(directory: &Path, name: &str) -> Result<Place, AttachError> {
        let mut place = Place {
            name: name.to_owned(),
            directory: directory.to_owned(),
        };
        fs::create_dir_all(directory).map_err(place.failed(directory))?;
        let real = fs::canonicalize(directory);
        place.directory = real.map_err(place.failed(directory))?;
        Ok(place)
    }

    /// Where everything is about each attachment that is remembered in `directory`, by name.
    pub fn all(directory: &Path) -> Result<Vec<Place>, AttachError> {
        let failed = |source| AttachError::Path {
            path: directory.to_owned(),
            source,
        };
        let real = match fs::canonicalize(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            real => real.map_err(failed)?,
        };
        let entries = fs::read_dir(&real).map_err(failed)?;
        let mut places = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let is_state = path
                .extension()
                .is_some_and(|extension| extension == "json");
            if let Some(name) = path.file_stem().filter(|_| is_state) {
                places.push(Place {
                    name: name.to_string_lossy().into_owned(),
                    directory: real.clone(),
                });
            }
        }
        places.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(places)
    }

    /// Whether another attachment there has the kernel's connection to the subsystem `nqn` as well;
    /// if so, whether this program made it.
    pub fn shares(&self, nqn: &str) -> Result<Option<bool>, AttachError> {
        for place in Place::all(&self.directory)? {
            let attached = match place.name == self.name {
                true => None,
                false => place.load()?,
            };
            match attached.map(|attached| attached.way) {
                Some(Way::Kernel { nqn: other, ours }) if other == nqn => return Ok(Some(ours)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Forgets it. The last attachment that has the kernel's connection to the subsystem `nqn` ends
    /// that, where this program made it.
    pub fn leave(
        &self,
        nqn: &str,
        ours: bool,
        disconnect: impl FnOnce() -> Result<(), AttachError>,
    ) -> Result<(), AttachError> {
        let _turn = self.turn(nqn)?;
        if ours && self.shares(nqn)?.is_none() {
            disconnect()?;
        }
        self.forget(nqn);
        Ok(())
    }

    /// Forgets it, and the turns of a subsystem that no other has. For who has the turn.
    pub fn forget(&self, nqn: &str) {
        if matches!(self.shares(nqn), Ok(None)) {
            let _ = fs::remove_file(self.turns(nqn));
        }
        self.clear();
    }

    /// Keeps others from attaching and detaching it, until what this gives is dropped.
    pub fn lock(&self) -> Result<File, AttachError> {
        self.locked(self.with("lock"))
    }

    /// Keeps others from joining and leaving the kernel's connection to a subsystem, until what
    /// this gives is dropped.
    pub fn turn(&self, nqn: &str) -> Result<File, AttachError> {
        self.locked(self.turns(nqn))
    }

    /// No attachment's own file: those have other endings.
    fn turns(&self, nqn: &str) -> PathBuf {
        let name = name_of(nqn, 1);
        self.directory.join(format!("{name}.subsystem"))
    }

    fn locked(&self, path: PathBuf) -> Result<File, AttachError> {
        loop {
            let failed = || self.failed(&path);
            let file = File::options().create(true).append(true).open(&path);
            let file = file.map_err(failed())?;
            file.lock().map_err(failed())?;
            let own = file.metadata().map_err(failed())?.ino();
            // Who had the lock before may have removed the file with the rest.
            if fs::metadata(&path).is_ok_and(|there| there.ino() == own) {
                return Ok(file);
            }
        }
    }

    fn with(&self, extension: &str) -> PathBuf {
        self.directory.join(format!("{}.{extension}", self.name))
    }

    /// Where the FUSE file system is mounted.
    pub fn mount(&self) -> PathBuf {
        self.with("mount")
    }

    /// What the serving process says.
    pub fn log(&self) -> PathBuf {
        self.with("log")
    }

    /// How the serving process says that its connection stands.
    pub fn standing(&self) -> PathBuf {
        self.with("standing")
    }

    /// What the serving process said last, to go on a sentence with; nothing if it said nothing.
    pub fn last_said(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let last = log.lines().last();
        last.map_or(String::new(), |line| format!("; its log ends: {line}"))
    }

    fn failed<'a>(&self, path: &'a Path) -> impl FnOnce(io::Error) -> AttachError + 'a {
        move |source| AttachError::Path {
            path: path.to_owned(),
            source,
        }
    }

    /// What is attached there, if anything.
    pub fn load(&self) -> Result<Option<Attached>, AttachError> {
        let path = self.with("json");
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| self.failed(&path)(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(&path)(error)),
        }
    }

    /// Remembers what is attached.
    pub fn save(&self, attached: &Attached) -> Result<(), AttachError> {
        let path = self.with("json");
        let text = serde_json::to_string_pretty(attached);
        let text = text.map_err(|error| self.failed(&path)(error.into()))?;
        let written = files::replace(&path, text.as_bytes(), Access::AsBefore);
        written.map_err(self.failed(&path))
    }

    /// Forgets it; what is not there need not be removed.
    pub fn clear(&self) {
        let _ = fs::remove_file(self.with("json"));
        let _ = fs::remove_file(self.log());
        let _ = fs::remove_file(self.standing());
        let _ = fs::remove_file(self.with("protected"));
        let _ = fs::remove_dir(self.mount());
        let _ = fs::remove_file(self.with("lock"));
    }
}

/// Addresses as they are remembered and shown.
pub fn joined(addresses: &[TargetAddress]) -> String {
    let words: Vec<String> = addresses.iter().map(TargetAddress::to_string).collect();
    words.join(" ")
}

/// A name for the attachment of an address: its NQN's last part, as a file name.
pub fn name_of(nqn: &str, nsid: u32) -> String {
    let last = nqn.rsplit(':').next().unwrap_or(nqn);
    let letter = |one: char| {
        if one.is_ascii_alphanumeric() {
            one
        } else {
            '-'
        }
    };
    let name: String = last.chars().map(letter).collect();
    match nsid {
        1 => name,
        nsid => format!("{name}-{nsid}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_was_saved_is_loaded_until_it_is_cleared() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::new(&directory.path().join("run"), "data").unwrap();
        assert_eq!(place.load().unwrap(), None);
        let attached = Attached {
            address: "tcp://127.0.0.1:4420/nqn.x".to_owned(),
            way: Way::Fuse {
                pid: 7,
                requests: Requests::IoUring,
            },
            device: "/dev/loop0".into(),
        };
        place.save(&attached).unwrap();
        assert_eq!(place.load().unwrap(), Some(attached));
        place.clear();
        assert_eq!(place.load().unwrap(), None);
    }

    #[test]
    fn connections_of_the_kernel_are_shared_by_the_volumes_of_a_subsystem() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name| Place::new(directory.path(), name).unwrap();
        for (name, nqn) in [("a", "nqn.x"), ("b", "nqn.x"), ("c", "nqn.y")] {
            let text = format!(r#"{{"kernel":{{"nqn":"{nqn}"}}}}"#);
            let attached = Attached {
                address: format!("tcp://127.0.0.1:4420/{nqn}"),
                way: serde_json::from_str(&text).unwrap(),
                device: "/dev/nvme0n1".into(),
            };
            place(name).save(&attached).unwrap();
        }
        assert_eq!(place("a").shares("nqn.x").unwrap(), Some(true));
        assert_eq!(place("c").shares("nqn.y").unwrap(), None);
        place("b").clear();
        assert_eq!(place("a").shares("nqn.x").unwrap(), None);
    }

    /// However closely they follow each other: one is the last, and disconnects.
    #[test]
    fn of_those_that_leave_at_once_one_disconnects() {
        let directory = tempfile::tempdir().unwrap();
        let nqn = "nqn.x";
        for round in 0..100 {
            let names = ["a", "b", "c"];
            for name in names {
                let attached = Attached {
                    address: format!("tcp://127.0.0.1:4420/{nqn}"),
                    way: Way::Kernel {
                        nqn: nqn.to_owned(),
                        ours: true,
                    },
                    device: "/dev/nvme0n1".into(),
                };
                let place = Place::new(directory.path(), name).unwrap();
                place.save(&attached).unwrap();
            }
            let (ended, start) = (AtomicUsize::new(0), Barrier::new(names.len()));
            std::thread::scope(|scope| {
                for name in names {
                    scope.spawn(|| {
                        let place = Place::new(directory.path(), name).unwrap();
                        start.wait();
                        let disconnect = || {
                            ended.fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        };
                        place.leave(nqn, true, disconnect).unwrap();
                    });
                }
            });
            assert_eq!(ended.into_inner(), 1, "in round {round}");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_says_nothing_of_requests_had_them_read() {
        let way: Way = serde_json::from_str(r#"{"fuse":{"pid":7}}"#).unwrap();
        let requests = Requests::Read;
        assert_eq!(way, Way::Fuse { pid: 7, requests });
        for requests in [Requests::Read, Requests::IoUring] {
            assert_eq!(Requests::of(requests.word()), Some(requests));
            let text = serde_json::to_string(&requests).unwrap();
            assert_eq!(text, format!("\"{}\"", requests.word()));
        }
        assert_eq!(Requests::of("else"), None);
    }

    #[test]
    fn names_are_file_names() {
        assert_eq!(
            name_of("nqn.2026-11.example.flashyard:node-1:data", 1),
            "data"
        );
        assert_eq!(name_of("nqn.2026-11.example:a/b", 3), "a-b-3");
    }
}
