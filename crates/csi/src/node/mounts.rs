//! What is mounted on this host, as the kernel tells it.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use tonic::Status;

use super::program::run;

const TABLE: &str = "/proc/self/mountinfo";

/// More mounts than calls put over one another at one place.
const LAYERS_MAX: usize = 16;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device's major and minor number.
    pub device: (u32, u32),
    /// Where it is.
    pub point: PathBuf,
    /// Nothing is written through it.
    pub read_only: bool,
}

/// Everything that is mounted.
pub fn all() -> Result<Vec<Mount>, Status> {
    let table = fs::read(TABLE);
    let table = table.map_err(|error| Status::internal(format!("{TABLE}: {error}")))?;
    Ok(parse(&table))
}

/// Whether a path, as the kernel has it, is where something is mounted.
pub fn is_mount_point(path: &Path) -> bool {
    all().is_ok_and(|mounts| mounts.iter().any(|mount| mount.point == path))
}

fn parse(table: &[u8]) -> Vec<Mount> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(parse_line).collect()
}

/// One line: identifiers, `major:minor`, what of it, where, how (proc_pid_mountinfo(5)).
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    let device = std::str::from_utf8(words.next()?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let point = words.nth(1)?;
    let options = words.next()?;
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        point: unescaped(point),
        read_only: options
            .split(|byte| *byte == b',')
            .any(|word| word == b"ro"),
    })
}

/// Blanks and backslashes stand as three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => tail.get(3..).unwrap_or_default(),
            None => tail,
        };
    }
    std::ffi::OsString::from_vec(path).into()
}

/// As the table has the path; what is there may be dead, so it is not looked at itself.
fn as_in_table(path: &Path) -> PathBuf {
    let (parent, name) = (path.parent(), path.file_name());
    let parent = parent.and_then(|parent| fs::canonicalize(parent).ok());
    match (parent, name) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// What is mounted at `path`, the uppermost.
pub fn at(path: &Path) -> Result<Option<Mount>, Status> {
    let path = as_in_table(path);
    let mut mounts = all()?.into_iter().rev();
    Ok(mounts.find(|mount| mount.point == path))
}

/// Where else than at `paths` the device is mounted, or stands as a file.
pub fn elsewhere(device: (u32, u32), paths: &[&Path]) -> Result<Option<PathBuf>, Status> {
    let known: Vec<PathBuf> = paths.iter().map(|path| as_in_table(path)).collect();
    let is_of = |mount: &Mount| {
        mount.device == device || super::block_device::number(&mount.point) == Some(device)
    };
    let mut mounts = all()?.into_iter();
    let other = mounts.find(|mount| is_of(mount) && !known.contains(&mount.point));
    Ok(other.map(|mount| mount.point))
}

/// Mounts `from` at `to` as well.
pub fn bind(from: &Path, to: &Path) -> Result<(), Status> {
    let words = ["--bind".as_ref(), from.as_os_str(), to.as_os_str()];
    run("mount", &words)?.succeeded().map(drop)
}

/// Lets nothing be written through the mount at `path`.
pub fn protect(path: &Path) -> Result<(), Status> {
    let words = ["-o".as_ref(), "remount,bind,ro".as_ref(), path.as_os_str()];
    run("mount", &words)?.succeeded().map(drop)
}

/// Unmounts all that is mounted at `path`.
pub fn unmount(path: &Path) -> Result<(), Status> {
    for _ in 0..LAYERS_MAX {
        if at(path)?.is_none() {
            return Ok(());
        }
        run("umount", &[path])?.succeeded()?;
    }
    let message = format!("{} is mounted on again and again", path.display());
    Err(Status::internal(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_where_and_how() {
        let table = b"22 1 0:5 / /dev rw,nosuid - devtmpfs udev rw\n\
            36 22 7:0 / /var/lib/a\\040b ro,relatime shared:1 - ext4 /dev/loop0 rw\n\
            37 22 7:1 / /x\\134y rw - xfs /dev/loop1 rw\nbad line\n";
        let mounts = parse(table);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[1].device, (7, 0));
        assert_eq!(mounts[1].point, Path::new("/var/lib/a b"));
        assert!(mounts[1].read_only && !mounts[0].read_only);
        assert_eq!(mounts[2].point, Path::new("/x\\y"));
    }

    #[test]
    fn this_system_has_a_root() {
        assert!(
            all()
                .unwrap()
                .iter()
                .any(|mount| mount.point == Path::new("/"))
        );
        assert_eq!(at(Path::new("/nonexistent/x")).unwrap(), None);
    }
}
