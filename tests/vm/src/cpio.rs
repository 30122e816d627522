//! Writes cpio archives in the "newc" format that the kernel unpacks as its initramfs.

use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const SYMLINK: u32 = 0o120_777;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive being written to `W`. Directories must come before what is in them.
pub struct Archive<W: Write> {
    out: W,
    inode: u32,
}

impl<W: Write> Archive<W> {
    /// Starts an empty archive.
    pub fn new(out: W) -> Archive<W> {
        Archive { out, inode: 0 }
    }

    /// Adds a directory.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        self.entry(name, DIRECTORY, (0, 0), &[])
    }

    /// Adds an executable file.
    pub fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.entry(name, FILE, (0, 0), content)
    }

    /// Adds a symbolic link to `target`.
    pub fn symlink(&mut self, name: &str, target: &str) -> io::Result<()> {
        self.entry(name, SYMLINK, (0, 0), target.as_bytes())
    }

    /// Adds a character device node.
    pub fn character_device(&mut self, name: &str, number: (u32, u32)) -> io::Result<()> {
        self.entry(name, CHARACTER_DEVICE, number, &[])
    }

    /// Ends the archive.
    pub fn finish(mut self) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.out.flush()
    }

    fn entry(
        &mut self,
        name: &str,
        mode: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        self.inode += 1;
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name_size = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        write!(self.out, "070701")?;
        // Inode, mode, owner, group, links, time, size, device of the file, of the node, name, sum.
        let (major, minor) = device;
        for field in [
            self.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0,
        ] {
            write!(self.out, "{field:08X}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(110 + name.len() + 1)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    /// Fills up to the next multiple of four after `written` bytes.
    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.out
            .write_all(&[0; 3][..written.next_multiple_of(4) - written])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_to_four_bytes() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.directory("a").expect("memory takes it");
        archive.file("a/b", b"12345").expect("memory takes it");
        archive.finish().expect("memory takes it");
        assert_eq!(bytes.len() % 4, 0);
        let second = 112;
        assert_eq!(&bytes[second..second + 6], b"070701");
        assert_eq!(&bytes[second + 54..second + 62], b"00000005");
        assert_eq!(&bytes[second + 110..second + 114], b"a/b\0");
    }
}
