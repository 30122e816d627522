//! Streams of snapshots, as whoever sends one may have written them.

use stream::{BLOCK_BYTES, DATA_BYTES_MAX, Header, Reader, Record, StreamError, Writer};

/// Bytes before the records' own: magic, version and length of the header.
const FIXED: usize = 16;
/// Bytes of a record's head before its checksum.
const HEAD: usize = 24;

/// Reads `bytes` as a stream, as they are and with checksums made right. What is one reads back
/// the same when it is written again; parts come in order, within the volume.
pub fn stream(bytes: &[u8]) {
    check(bytes);
    check(&sealed(bytes));
}

fn check(bytes: &[u8]) {
    let Ok((header, parts)) = read(bytes) else {
        return;
    };
    let mut writer = Writer::new(Vec::new(), &header).expect("memory takes it");
    let mut end = 0;
    for (start, data, length) in &parts {
        let (start, bytes) = (*start, *length);
        assert!(start >= end && start % BLOCK_BYTES == 0 && bytes % BLOCK_BYTES == 0);
        end = start + bytes;
        let record = match data {
            Some(bytes) => Record::Data { start, bytes },
            None => Record::Zeroes { start, bytes },
        };
        writer.write(&record).expect("memory takes it");
    }
    assert!(end <= header.volume_bytes);
    let again = writer.finish().expect("memory takes it").0;
    assert!(read(&again).is_ok_and(|read| read == (header, parts)));
}

type Parts = Vec<(u64, Option<Vec<u8>>, u64)>;

fn read(bytes: &[u8]) -> Result<(Header, Parts), StreamError> {
    let mut reader = Reader::new(bytes)?;
    let mut parts = Vec::new();
    while let Some(record) = reader.next()? {
        parts.push(match record {
            Record::Data { start, bytes } => {
                assert!(bytes.len() <= DATA_BYTES_MAX);
                (start, Some(bytes.to_vec()), bytes.len() as u64)
            }
            Record::Zeroes { start, bytes } => (start, None, bytes),
        });
    }
    Ok((reader.header().clone(), parts))
}

/// The bytes with right checksums of the header, of each record, and over all in the last one.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(word.try_into().ok()?) as usize)
    };
    let Some(rest) = word(&bytes, FIXED - 4).filter(|rest| *rest < bytes.len()) else {
        return bytes;
    };
    let header = FIXED + rest;
    let sum = |bytes: &mut Vec<u8>, at: usize, parts: [std::ops::Range<usize>; 2]| {
        let all: Vec<u8> = parts
            .into_iter()
            .flat_map(|part| bytes[part].to_vec())
            .collect();
        let sum = crc_fast::crc32_iscsi(&all).to_le_bytes();
        bytes[at..at + 4].copy_from_slice(&sum);
    };
    if bytes.len() < header + 4 {
        return bytes;
    }
    sum(&mut bytes, header, [0..header, 0..0]);
    let mut at = header + 4;
    while let Some(stored) = word(&bytes, at + 4) {
        let data = at + HEAD + 4;
        let end = data.saturating_add(stored);
        if end > bytes.len() {
            break;
        }
        // The last record ends with the checksum over all before it.
        if bytes[at] == 4 && stored == 32 {
            let all = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &bytes[..at]);
            bytes[end - 8..end].copy_from_slice(&all.to_le_bytes());
        }
        sum(&mut bytes, at + HEAD, [at..at + HEAD, data..end]);
        at = end;
    }
    bytes
}
