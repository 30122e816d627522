//! Finds what is in the table at both ends of a device.

use std::fmt;
use std::ops::Range;

use super::table::{
    BTRFS_COPY, BTRFS_MAGIC, BTRFS_UUID, EXT, SIGNATURES, Signature, Uuid, ZFS, ZFS_LABELS,
    ZFS_MAGIC, ZFS_RING_AT, ZFS_UBERBLOCKS,
};

/// A chunk of an end that has only zeroes, or only what erased flash reads as, is nothing.
const CHUNK_BYTES: usize = 512;
const BLANK: [[u8; CHUNK_BYTES]; 2] = [[0; CHUNK_BYTES], [0xff; CHUNK_BYTES]];

/// A signature that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    what: &'static str,
    uuid: Option<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.what)?;
        match &self.uuid {
            Some(uuid) => write!(formatter, ", UUID {uuid}"),
            None => Ok(()),
        }
    }
}

/// Both ends of a device.
pub struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
    size: u64,
}

impl Ends {
    /// `head` begins a device of `size` bytes, `tail` ends it.
    pub fn new(head: Vec<u8>, tail: Vec<u8>, size: u64) -> Ends {
        Ends { head, tail, size }
    }

    /// The first byte that is something.
    pub fn first_byte(&self) -> Option<u64> {
        let tail = self.size - self.tail.len() as u64;
        let head = first_byte(&self.head);
        head.or_else(|| first_byte(&self.tail).map(|at| tail + at))
    }

    /// Everything that has a name, each once.
    pub fn signatures(&self) -> Vec<Found> {
        let mut all: Vec<Found> = Vec::new();
        for signature in SIGNATURES {
            let Some(found) = self.find(signature) else {
                continue;
            };
            if !all.contains(&found) {
                all.push(found);
            }
        }
        if self.is_zfs() {
            all.push(Found {
                what: ZFS,
                uuid: None,
            });
        }
        all
    }

    fn find(&self, signature: &Signature) -> Option<Found> {
        let superblock = signature.place.on(self.size)?;
        let there = self.bytes(superblock + signature.at, signature.magic.len());
        if there != Some(signature.magic) {
            return None;
        }
        let piece = |at: u64, bytes: usize| self.bytes(superblock + at, bytes);
        let uuid = signature.uuid.read(piece);
        let what = match signature.what {
            EXT => ext(piece),
            what => what,
        };
        Some(Found { what, uuid })
    }

    fn is_zfs(&self) -> bool {
        let labels = ZFS_LABELS.iter().filter_map(|label| label.on(self.size));
        let mut rings = labels.map(|label| label + ZFS_RING_AT);
        rings.any(|ring| {
            let mut blocks = (0..ZFS_UBERBLOCKS).map(|number| ring + (number << 10));
            blocks.any(|at| {
                let there = self.bytes(at, 8);
                there.is_some_and(|there| ZFS_MAGIC.iter().any(|magic| magic == there))
            })
        })
    }

    fn bytes(&self, at: u64, count: usize) -> Option<&[u8]> {
        let of = |part: &'_ Vec<u8>, begins: u64| -> Option<Range<usize>> {
            let from = usize::try_from(at.checked_sub(begins)?).ok()?;
            let range = from..from.checked_add(count)?;
            (range.end <= part.len()).then_some(range)
        };
        if let Some(range) = of(&self.head, 0) {
            return self.head.get(range);
        }
        let range = of(&self.tail, self.size - self.tail.len() as u64)?;
        self.tail.get(range)
    }
}

/// The file system that a superblock between the ends is a copy of.
pub fn mirror(bytes: &[u8]) -> Option<Found> {
    let piece = |at: u64, count: usize| bytes.get(at as usize..at as usize + count);
    (piece(64, BTRFS_MAGIC.len()) == Some(BTRFS_MAGIC)).then(|| Found {
        what: BTRFS_COPY,
        uuid: BTRFS_UUID.read(piece),
    })
}

fn first_byte(bytes: &[u8]) -> Option<u64> {
    let blank = |chunk: &[u8]| BLANK.iter().any(|blank| blank.starts_with(chunk));
    let mut chunks = bytes.chunks(CHUNK_BYTES).enumerate();
    let (number, chunk) = chunks.find(|(_, chunk)| !blank(chunk))?;
    let at = chunk.iter().position(|byte| *byte != 0).unwrap_or(0);
    Some((number * CHUNK_BYTES + at) as u64)
}

/// Which of the three it is, by its features.
fn ext<'a>(superblock: impl Fn(u64, usize) -> Option<&'a [u8]>) -> &'static str {
    let word =
        |at| superblock(at, 4).map_or(0, |bytes| u32::from(bytes[0]) | u32::from(bytes[1]) << 8);
    let (compatible, incompatible, read_only) = (word(92), word(96), word(100));
    // Extents, 64 bits, flexible groups; huge files, checksums, many links, large inodes.
    if incompatible & 0x2c0 != 0 || read_only & 0x478 != 0 {
        "an ext4 file system"
    } else if compatible & 4 != 0 {
        "an ext3 file system"
    } else {
        "an ext2 file system"
    }
}

impl Uuid {
    /// The identity in words, if there is one that is not all zeroes.
    fn read<'a>(self, superblock: impl Fn(u64, usize) -> Option<&'a [u8]>) -> Option<String> {
        let bytes: Vec<u8> = match self {
            Uuid::None => return None,
            Uuid::Text(at) => {
                let text = superblock(at, 40)?;
                return text_of(text.split(|byte| *byte == 0).next()?);
            }
            Uuid::Lvm(at) => {
                let text = text_of(superblock(at, 32)?)?;
                return Some(grouped(&text, &[6, 4, 4, 4, 4, 4, 6]));
            }
            Uuid::Bytes(at) => superblock(at, 16)?.to_vec(),
            Uuid::Efi(at) => {
                let there = superblock(at, 16)?;
                let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
                order.iter().map(|index| there[*index]).collect()
            }
            Uuid::Words(places) => {
                let words = places.iter().map(|at| superblock(*at, 4));
                let words: Option<Vec<&[u8]>> = words.collect();
                words?
                    .iter()
                    .flat_map(|word| word.iter().rev())
                    .copied()
                    .collect()
            }
        };
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let any = bytes.iter().any(|byte| *byte != 0);
        any.then(|| grouped(&digits, &[8, 4, 4, 4, 12]))
    }
}

/// Text that can be shown: what a drive holds comes from anybody.
fn text_of(bytes: &[u8]) -> Option<String> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let shown = !bytes.is_empty() && bytes.iter().all(plain);
    shown.then(|| bytes.iter().map(|byte| char::from(*byte)).collect())
}

fn grouped(text: &str, lengths: &[usize]) -> String {
    let mut rest = text;
    let mut groups = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (group, behind) = rest.split_at((*length).min(rest.len()));
        groups.push(group);
        rest = behind;
    }
    groups.join("-")
}
