//! Files and directories that only their owner can read, from their first instant on, whatever the
//! umask is.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const FILE_MODE: u32 = 0o600;

const DIRECTORY_MODE: u32 = 0o700;

/// Makes a directory, with those above it, if it is missing. One that is there keeps its mode.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
}

/// Makes a file that is not there yet, to be read and written.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    options.mode(FILE_MODE).open(path)
}

/// Where a file is written before it takes the place of another.
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_private_from_its_first_instant() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/b");
        make_directory(&inner).unwrap();
        assert_eq!(
            (mode(&inner), mode(&directory.path().join("a"))),
            (0o700, 0o700)
        );
        let file = inner.join("secret");
        create(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        let again = create(&file).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
