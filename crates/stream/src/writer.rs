//! [`Writer`]: records become bytes.

use std::io::{self, Write};

use crc_fast::{CrcAlgorithm, Digest};
use zstd::bulk::Compressor;

use crate::header::Header;
use crate::record::{DATA_BYTES_MAX, Head, Kind, Record, Totals, follows};

/// How hard data is compressed: zstd's own default, which is quicker than most networks.
const LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// A stream that is being written. Without [`finish`](Writer::finish) its reader finds it cut off.
pub struct Writer<W> {
    output: W,
    /// Over all that was written.
    digest: Digest,
    written: u64,
    totals: Totals,
    /// Where the last part ends, and where the volume does.
    end: u64,
    volume_bytes: u64,
    /// Nothing: data is written as it is.
    compressor: Option<Compressor<'static>>,
    compressed: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What the output says.
    pub fn new(output: W, header: &Header) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            output,
            digest: Digest::new(CrcAlgorithm::Crc64Nvme),
            written: 0,
            totals: Totals::default(),
            end: 0,
            volume_bytes: header.volume_bytes,
            compressor: Some(Compressor::new(LEVEL)?),
            compressed: Vec::with_capacity(DATA_BYTES_MAX),
        };
        let bytes = header.encode();
        writer.put(&bytes)?;
        writer.put(&crc_fast::crc32_iscsi(&bytes).to_le_bytes())?;
        Ok(writer)
    }

    /// The same, but writes data as it is.
    #[must_use]
    pub fn plain(self) -> Writer<W> {
        Writer {
            compressor: None,
            ..self
        }
    }

    /// Writes what stands at a place.
    ///
    /// # Errors
    /// What the output says.
    ///
    /// # Panics
    /// When the part is not whole blocks, too long, or does not follow the one before.
    pub fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let (start, bytes) = match record {
            Record::Data { start, bytes } => (*start, bytes.len() as u64),
            Record::Zeroes { start, bytes } => (*start, *bytes),
        };
        assert!(
            follows(start, bytes, self.end, self.volume_bytes),
            "{bytes} bytes from {start} on, behind {}",
            self.end
        );
        self.end = start + bytes;
        self.totals.count(record);
        let Record::Data { bytes: data, .. } = record else {
            return self.record(Kind::Zeroes, (start, bytes), &[]);
        };
        assert!(data.len() <= DATA_BYTES_MAX, "{} bytes", data.len());
        let Some(compressor) = &mut self.compressor else {
            return self.record(Kind::Plain, (start, bytes), data);
        };
        // No room for as many: what does not shrink is written as it is.
        let mut room = std::mem::take(&mut self.compressed);
        room.resize(data.len() - 1, 0);
        let done = match compressor.compress_to_buffer(data, &mut room[..]) {
            Ok(length) => self.record(Kind::Compressed, (start, bytes), &room[..length]),
            Err(_) => self.record(Kind::Plain, (start, bytes), data),
        };
        self.compressed = room;
        done
    }

    /// Writes the last record, which says how much there was. Gives the output back, and how many
    /// bytes the stream has.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(mut self) -> io::Result<(W, Totals, u64)> {
        let last = self.totals.encode(self.digest.finalize());
        self.record(Kind::End, (0, 0), &last)?;
        self.output.flush()?;
        Ok((self.output, self.totals, self.written))
    }

    fn record(&mut self, kind: Kind, (start, bytes): (u64, u64), data: &[u8]) -> io::Result<()> {
        let head = Head {
            kind,
            // At most DATA_BYTES_MAX.
            stored: data.len() as u32,
            start,
            bytes,
        };
        let head = head.encode();
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&head);
        digest.update(data);
        let checksum = digest.finalize() as u32;
        self.put(&head)?;
        self.put(&checksum.to_le_bytes())?;
        self.put(data)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)?;
        self.digest.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }
}
