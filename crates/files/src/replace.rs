//! [`replace`]: a new file beside the old one, put in its place when it is whole.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Links that lead to a file, before they count as a circle; as many as Linux follows.
const LINKS_MAX: usize = 40;

/// Only its owner may read and write it.
const PRIVATE_MODE: u32 = 0o600;

/// The readers and writers of a file that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The same as before; a new file has what the process gives new files.
    AsBefore,
    /// Its owner alone, whatever it was before.
    Owner,
}

/// Makes `path` have `contents`, durably.
///
/// A regular file is replaced, and keeps its owner and permissions. A symbolic link is followed,
/// and stays. A character device or a FIFO is written to. Nothing else is touched.
///
/// # Errors
/// The system's, with what was there as it was; or what is there that cannot be replaced.
pub fn replace(path: &Path, contents: &[u8], access: Access) -> io::Result<()> {
    replace_by(path, contents, access, true)
}

/// As [`replace`], for what may be as it was before after a power loss: nothing is waited for.
///
/// # Errors
/// As of [`replace`].
pub fn replace_cached(path: &Path, contents: &[u8], access: Access) -> io::Result<()> {
    replace_by(path, contents, access, false)
}

fn replace_by(path: &Path, contents: &[u8], access: Access, durable: bool) -> io::Result<()> {
    let path = &followed(path)?;
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => put(path, contents, (access, durable), Some(&found)),
        Ok(found) => write_to(path, &found, contents),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            put(path, contents, (access, durable), None)
        }
        Err(error) => Err(error),
    }
}

/// The place that a path leads to by symbolic links, if need be to nothing: what is put there by
/// renaming leaves the links as they are.
///
/// # Errors
/// The system's, or that the links lead in a circle.
pub fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            // A relative link starts from its own directory.
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            // No link, or nothing at all.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Puts a new file in the place of `before`, or of nothing.
fn put(
    path: &Path,
    contents: &[u8],
    (access, durable): (Access, bool),
    before: Option<&Metadata>,
) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| refusal("not the path of a file"))?;
    let mut new_name = std::ffi::OsString::from(".");
    new_name.push(name);
    new_name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(new_name);
    let written = write_new(&new, contents, access, before).and_then(|file| {
        if durable {
            file.sync_all()?;
        }
        fs::rename(&new, path)
    });
    if written.is_err() {
        // The first error is the one to report.
        drop(fs::remove_file(&new));
        return written;
    }
    if !durable {
        return Ok(());
    }
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_new(
    new: &Path,
    contents: &[u8],
    access: Access,
    before: Option<&Metadata>,
) -> io::Result<File> {
    // One that a process with this number left when it was killed.
    match fs::remove_file(new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if access == Access::Owner || before.is_some() {
        options.mode(PRIVATE_MODE);
    }
    let mut file = options.open(new)?;
    if let Some(before) = before {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
            // Only root gives files away: others keep what they may write.
            drop(fchown(&file, Some(before.uid()), Some(before.gid())));
        }
        if access == Access::AsBefore {
            file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
        }
    }
    file.write_all(contents)?;
    Ok(file)
}

/// Writes to what takes bytes as they come.
fn write_to(path: &Path, found: &Metadata, contents: &[u8]) -> io::Result<()> {
    let kind = found.file_type();
    if !kind.is_char_device() && !kind.is_fifo() {
        let what = if kind.is_dir() {
            "a directory"
        } else if kind.is_block_device() {
            "a block device"
        } else {
            "no file"
        };
        return Err(refusal(&format!(
            "is {what}; allowed: a regular file, a character device or a FIFO"
        )));
    }
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(contents)
}

fn refusal(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_regular_file_is_replaced_and_keeps_its_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results");
        replace(&path, b"first", Access::AsBefore).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        replace(&path, b"second", Access::AsBefore).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(mode(&path), 0o640);
        assert_ne!(
            fs::metadata(&path).unwrap().ino(),
            before,
            "written in place"
        );
        replace(&path, b"third", Access::Owner).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(names(directory.path()), ["results"]);
    }

    #[test]
    fn a_secret_is_never_readable_by_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        replace(&path, b"secret", Access::Owner).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn symbolic_links_are_followed_and_stay() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        let [link, again, file] =
            ["link", "again", "other/file"].map(|name| directory.path().join(name));
        symlink("other/file", &link).unwrap();
        symlink(&link, &again).unwrap();
        // First to nothing, then to a file.
        for contents in [b"one", b"two"] {
            replace(&again, contents, Access::AsBefore).unwrap();
            assert_eq!(fs::read(&file).unwrap(), contents);
        }
        assert!(link.is_symlink() && again.is_symlink());
        assert_eq!(names(&other), ["file"]);
        let circle = directory.path().join("circle");
        symlink("circle", &circle).unwrap();
        replace(&circle, b"x", Access::AsBefore).unwrap_err();
        assert!(circle.is_symlink());
    }

    #[test]
    fn a_fifo_is_written_to_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let reader = path.clone();
        let read = std::thread::spawn(move || {
            let mut text = String::new();
            File::open(reader)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            text
        });
        replace(&path, b"contents", Access::AsBefore).unwrap();
        assert_eq!(read.join().unwrap(), "contents");
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_character_device_is_written_to_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        symlink("/dev/null", &link).unwrap();
        replace(&link, b"contents", Access::AsBefore).unwrap();
        assert!(link.is_symlink());
        assert!(
            fs::metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
        );
        let error = replace(Path::new("/dev/full"), b"x", Access::AsBefore).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn directories_and_sockets_are_refused_and_stay() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, what) in [(directory.path(), "a directory"), (&socket, "no file")] {
            let error = replace(path, b"x", Access::AsBefore).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        assert_eq!(names(directory.path()), ["socket"]);
    }

    #[test]
    fn what_could_not_be_written_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing/file");
        let error = replace(&path, b"x", Access::AsBefore).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(names(directory.path()), [""; 0]);
    }
}
