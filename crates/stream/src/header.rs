//! [`Header`]: of what a stream is a copy, and what it builds on.

use crate::record::BLOCK_BYTES;

/// What every stream begins with. Bytes beyond ASCII and both ends of lines tell at once when
/// something on the way took it for text.
pub(crate) const MAGIC: [u8; 8] = *b"\x89FYS\r\n\x1a\n";
/// The version that is written, and the only one that is read.
pub(crate) const VERSION: u32 = 1;
/// Bytes before the part that has a length of its own: magic, version, that length.
pub(crate) const FIXED_BYTES: usize = 16;
/// The longest name; those of volumes and snapshots have 63 bytes at most.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest part behind the fixed one.
pub(crate) const REST_BYTES_MAX: usize = 12 + 2 * 16 + 3 * (1 + NAME_BYTES_MAX);

/// A snapshot that a stream speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its name where the stream was written.
    pub name: String,
    /// Its identity, which its copies have too; not all zeroes.
    pub uuid: [u8; 16],
}

/// What stands before the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The size of the snapshot: whole blocks of 4 KiB.
    pub volume_bytes: u64,
    /// Bytes in a logical block as hosts saw the volume: 512 or 4096.
    pub block_bytes: u32,
    /// The name of the volume; empty where that was gone.
    pub volume: String,
    /// The snapshot that the stream is a copy of.
    pub snapshot: Origin,
    /// The snapshot that the records are a difference to; none: they are all there is.
    pub base: Option<Origin>,
}

impl Header {
    /// The header as bytes, without its checksum.
    ///
    /// # Panics
    /// When a name is longer than [`NAME_BYTES_MAX`].
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        rest.extend_from_slice(&self.volume_bytes.to_le_bytes());
        rest.extend_from_slice(&self.block_bytes.to_le_bytes());
        rest.extend_from_slice(&self.snapshot.uuid);
        let base = self.base.as_ref();
        rest.extend_from_slice(&base.map_or([0; 16], |base| base.uuid));
        let base = base.map_or("", |base| &base.name);
        for name in [self.volume.as_str(), &self.snapshot.name, base] {
            assert!(name.len() <= NAME_BYTES_MAX, "a name of {}", name.len());
            rest.push(name.len() as u8);
            rest.extend_from_slice(name.as_bytes());
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(rest.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&rest);
        bytes
    }

    /// What the part behind the fixed one says.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub(crate) fn decode(rest: &[u8]) -> Result<Header, String> {
        let mut fields = Fields(rest);
        let volume_bytes = u64::from_le_bytes(fields.array()?);
        let block_bytes = u32::from_le_bytes(fields.array()?);
        let uuids: [[u8; 16]; 2] = [fields.array()?, fields.array()?];
        let [volume, snapshot, base] = [fields.name()?, fields.name()?, fields.name()?];
        if !fields.0.is_empty() {
            return Err(format!(
                "{} bytes follow its names; allowed: none",
                fields.0.len()
            ));
        }
        let header = Header {
            volume_bytes,
            block_bytes,
            volume,
            snapshot: Origin {
                name: snapshot,
                uuid: uuids[0],
            },
            base: (uuids[1] != [0; 16]).then_some(Origin {
                name: base,
                uuid: uuids[1],
            }),
        };
        header.check().map(|()| header)
    }

    fn check(&self) -> Result<(), String> {
        if self.volume_bytes == 0 || !self.volume_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(format!(
                "a size of {} bytes; allowed: multiples of {BLOCK_BYTES}",
                self.volume_bytes
            ));
        }
        if ![512, 4096].contains(&self.block_bytes) {
            return Err(format!(
                "blocks of {} bytes; allowed: 512, 4096",
                self.block_bytes
            ));
        }
        match self.snapshot.uuid == [0; 16] {
            true => Err("a snapshot without an identity; allowed: one with".to_owned()),
            false => Ok(()),
        }
    }
}

/// Bytes that are taken from the front.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], String> {
        let short = || format!("{} bytes where {bytes} are to be", self.0.len());
        let (head, rest) = self.0.split_at_checked(bytes).ok_or_else(short)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    fn name(&mut self) -> Result<String, String> {
        let [length] = self.array()?;
        let bytes = self.take(usize::from(length))?;
        let text = str::from_utf8(bytes).map_err(|_| "a name that is no UTF-8 text".to_owned())?;
        Ok(text.to_owned())
    }
}
