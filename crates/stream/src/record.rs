//! [`Record`]: what stands at a place of the volume.

use crate::header::Fields;

/// Records begin and end at multiples of this: no place of a pool is smaller.
pub const BLOCK_BYTES: u64 = 4096;
/// The most bytes of a volume in one record of data: what both sides hold in memory.
pub const DATA_BYTES_MAX: usize = 1 << 20;
/// Bytes before the data of a record: its head and its checksum.
pub(crate) const HEAD_BYTES: usize = 28;
/// Of these, what the checksum is of.
pub(crate) const SUMMED_BYTES: usize = 24;
/// Bytes of what the last record says.
pub(crate) const END_BYTES: usize = 32;

/// More than what comes before the first record, and the last one.
const ENDS_BYTES: u64 = 64 << 10;

/// How long the stream of a volume may get: each block may be a record of its own, which does not
/// compress.
#[must_use]
pub fn bytes_max(volume_bytes: u64) -> u64 {
    let records = volume_bytes / BLOCK_BYTES;
    volume_bytes
        .saturating_add(records.saturating_mul(HEAD_BYTES as u64))
        .saturating_add(ENDS_BYTES)
}

/// What a stream says of a part of the volume. Parts come in order and do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The bytes from `start` on.
    Data {
        /// The first byte in the volume.
        start: u64,
        /// At most [`DATA_BYTES_MAX`] of them, whole blocks.
        bytes: &'a [u8],
    },
    /// Nothing is there: it reads as zeroes.
    Zeroes {
        /// The first byte in the volume.
        start: u64,
        /// How many, whole blocks.
        bytes: u64,
    },
}

/// What a stream has in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records, the last one not among them.
    pub records: u64,
    /// Bytes of the volume that came as data.
    pub data_bytes: u64,
    /// Bytes of the volume that came as zeroes.
    pub zero_bytes: u64,
}

impl Totals {
    pub(crate) fn count(&mut self, record: &Record<'_>) {
        self.records += 1;
        match record {
            Record::Data { bytes, .. } => self.data_bytes += bytes.len() as u64,
            Record::Zeroes { bytes, .. } => self.zero_bytes += bytes,
        }
    }

    /// What the last record says, with the checksum over all bytes before it.
    pub(crate) fn encode(&self, checksum: u64) -> [u8; END_BYTES] {
        let mut bytes = [0; END_BYTES];
        let words = [self.records, self.data_bytes, self.zero_bytes, checksum];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The totals, and the checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Totals, u64), String> {
        let mut fields = Fields(bytes);
        let mut word = || fields.array().map(u64::from_le_bytes);
        let totals = Totals {
            records: word()?,
            data_bytes: word()?,
            zero_bytes: word()?,
        };
        Ok((totals, word()?))
    }
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain = 1,
    Compressed = 2,
    Zeroes = 3,
    End = 4,
}

/// The first bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    /// Bytes that follow in the stream.
    pub stored: u32,
    /// The place in the volume.
    pub start: u64,
    pub bytes: u64,
}

impl Head {
    pub fn encode(&self) -> [u8; SUMMED_BYTES] {
        let mut bytes = [0; SUMMED_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.stored.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.start.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// How many bytes follow in the stream, which may be any number as yet.
    pub fn stored(bytes: &[u8; SUMMED_BYTES]) -> usize {
        let [_, stored, ..] = bytes.as_chunks::<4>().0 else {
            return 0;
        };
        u32::from_le_bytes(*stored) as usize
    }

    /// What a head says whose checksum is right.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn decode(bytes: &[u8; SUMMED_BYTES]) -> Result<Head, String> {
        let mut fields = Fields(bytes);
        let [kind, first, second, third]: [u8; 4] = fields.array()?;
        let kind = match (kind, [first, second, third]) {
            (1, [0, 0, 0]) => Kind::Plain,
            (2, [0, 0, 0]) => Kind::Compressed,
            (3, [0, 0, 0]) => Kind::Zeroes,
            (4, [0, 0, 0]) => Kind::End,
            (kind, _) => return Err(format!("a record of kind {kind}; allowed: 1 to 4")),
        };
        let head = Head {
            kind,
            stored: u32::from_le_bytes(fields.array()?),
            start: u64::from_le_bytes(fields.array()?),
            bytes: u64::from_le_bytes(fields.array()?),
        };
        let (stored, bytes) = (u64::from(head.stored), head.bytes);
        let right = match kind {
            Kind::Plain => stored == bytes && bytes <= DATA_BYTES_MAX as u64,
            Kind::Compressed => stored < bytes && bytes <= DATA_BYTES_MAX as u64,
            Kind::Zeroes => stored == 0,
            Kind::End => stored == END_BYTES as u64 && head.start == 0 && bytes == 0,
        };
        match right {
            true => Ok(head),
            false => Err(format!(
                "a record of kind {} with {stored} bytes for {bytes}; allowed: as many, at most \
                 {DATA_BYTES_MAX}, or fewer where they are compressed",
                kind as u8
            )),
        }
    }
}

/// Whether a part of a volume of `volume_bytes` may follow what ends at `before`.
pub(crate) fn follows(start: u64, bytes: u64, before: u64, volume_bytes: u64) -> bool {
    let whole = start.is_multiple_of(BLOCK_BYTES) && bytes.is_multiple_of(BLOCK_BYTES);
    let end = start.checked_add(bytes);
    whole && bytes > 0 && start >= before && end.is_some_and(|end| end <= volume_bytes)
}
