//! [`Reader`]: bytes become records.

use std::io::{ErrorKind, Read};

use crc_fast::{CrcAlgorithm, Digest};
use zstd::bulk::Decompressor;

use crate::error::StreamError;
use crate::header::{FIXED_BYTES, Header, MAGIC, REST_BYTES_MAX, VERSION};
use crate::record::{
    DATA_BYTES_MAX, HEAD_BYTES, Head, Kind, Record, SUMMED_BYTES, Totals, follows,
};

/// A stream that is being read. It was whole once [`next`](Reader::next) says that nothing follows.
pub struct Reader<R> {
    input: R,
    header: Header,
    /// Over all that was read.
    digest: Digest,
    read: u64,
    totals: Totals,
    /// Where the last part ends in the volume.
    end: u64,
    /// The last record was read, and was right.
    ended: bool,
    decompressor: Decompressor<'static>,
    stored: Vec<u8>,
    data: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// Why the input is no stream that can be used.
    pub fn new(mut input: R) -> Result<Reader<R>, StreamError> {
        let mut bytes = [0; FIXED_BYTES];
        let found = fill(&mut input, &mut bytes)?;
        if found < MAGIC.len() || bytes[..MAGIC.len()] != MAGIC {
            return Err(StreamError::NotAStream);
        }
        if found < FIXED_BYTES {
            return Err(StreamError::Cut(found as u64));
        }
        let [_, _, version, length] = words(&bytes);
        if version != VERSION {
            return Err(StreamError::Version(version));
        }
        if length as usize > REST_BYTES_MAX {
            let problem = format!("a header of {length} bytes; allowed: {REST_BYTES_MAX}");
            return Err(StreamError::Nonsense { at: 0, problem });
        }
        let mut all = bytes.to_vec();
        all.resize(FIXED_BYTES + length as usize + 4, 0);
        let found = found + fill(&mut input, &mut all[FIXED_BYTES..])?;
        if found < all.len() {
            return Err(StreamError::Cut(found as u64));
        }
        let (summed, checksum) = all.split_at(all.len() - 4);
        if crc_fast::crc32_iscsi(summed).to_le_bytes() != checksum {
            return Err(StreamError::Damaged {
                part: "the header",
                at: 0,
            });
        }
        let header = Header::decode(&summed[FIXED_BYTES..])
            .map_err(|problem| StreamError::Nonsense { at: 0, problem })?;
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(&all);
        Ok(Reader {
            input,
            header,
            digest,
            read: all.len() as u64,
            totals: Totals::default(),
            end: 0,
            ended: false,
            decompressor: Decompressor::new()?,
            stored: Vec::new(),
            data: Vec::new(),
        })
    }

    /// Of what this is a copy.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What there was so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The next record, whose checksum was right; `None` where the stream ended as it should.
    ///
    /// # Errors
    /// What is wrong with the stream. What came before is not to be used either.
    #[allow(
        clippy::should_implement_trait,
        reason = "a record borrows the reader's memory"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, StreamError> {
        if self.ended {
            return Ok(None);
        }
        let at = self.read;
        let nonsense = move |problem: String| StreamError::Nonsense { at, problem };
        let before = self.digest.finalize();
        let mut bytes = [0; HEAD_BYTES];
        self.take(&mut bytes)?;
        let mut summed = [0; SUMMED_BYTES];
        summed.copy_from_slice(&bytes[..SUMMED_BYTES]);
        // The checksum is over the data too: only the length counts before it was looked at.
        let length = Head::stored(&summed);
        if length > DATA_BYTES_MAX {
            return Err(nonsense(format!(
                "a record of {length} bytes; allowed: {DATA_BYTES_MAX}"
            )));
        }
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(length, 0);
        let taken = self.take(&mut stored);
        self.stored = stored;
        taken?;
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&summed);
        digest.update(&self.stored);
        if (digest.finalize() as u32).to_le_bytes() != bytes[SUMMED_BYTES..] {
            let part = "the record";
            return Err(StreamError::Damaged { part, at });
        }
        let head = Head::decode(&summed).map_err(nonsense)?;
        if head.kind == Kind::End {
            return self.ended(at, before).map(|()| None);
        }
        let Head { start, bytes, .. } = head;
        if !follows(start, bytes, self.end, self.header.volume_bytes) {
            return Err(nonsense(format!(
                "{bytes} bytes from {start} on; allowed: whole blocks from {} to {}",
                self.end, self.header.volume_bytes
            )));
        }
        self.end = start + bytes;
        let record = match head.kind {
            Kind::Zeroes | Kind::End => Record::Zeroes { start, bytes },
            Kind::Plain => Record::Data {
                start,
                bytes: &self.stored,
            },
            Kind::Compressed => {
                self.data.resize(DATA_BYTES_MAX, 0);
                let room = &mut self.data[..bytes as usize];
                let length = self.decompressor.decompress_to_buffer(&self.stored, room);
                if !length.is_ok_and(|length| length as u64 == bytes) {
                    return Err(nonsense(format!("what does not unpack to {bytes} bytes")));
                }
                Record::Data {
                    start,
                    bytes: &self.data[..bytes as usize],
                }
            }
        };
        self.totals.count(&record);
        Ok(Some(record))
    }

    /// Compares what the last record says, which began `at`, with what was read until there.
    fn ended(&mut self, at: u64, before: u64) -> Result<(), StreamError> {
        let said = Totals::decode(&self.stored);
        let (totals, checksum) = said.map_err(|problem| StreamError::Nonsense { at, problem })?;
        if checksum != before {
            return Err(StreamError::Damaged {
                part: "the whole stream",
                at,
            });
        }
        if totals != self.totals {
            let problem = format!("{totals:?} where {:?} came", self.totals);
            return Err(StreamError::Nonsense { at, problem });
        }
        match fill(&mut self.input, &mut [0])? {
            0 => {
                self.ended = true;
                Ok(())
            }
            _ => Err(StreamError::Behind(self.read)),
        }
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), StreamError> {
        let found = fill(&mut self.input, bytes)?;
        self.digest.update(&bytes[..found]);
        self.read += found as u64;
        match found == bytes.len() {
            true => Ok(()),
            false => Err(StreamError::Cut(self.read)),
        }
    }
}

/// Reads until `bytes` are full or the input ends; gives how many there are.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> Result<usize, StreamError> {
    let mut found = 0;
    while found < bytes.len() {
        match input.read(&mut bytes[found..]) {
            Ok(0) => break,
            Ok(more) => found += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn words(bytes: &[u8; FIXED_BYTES]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}
