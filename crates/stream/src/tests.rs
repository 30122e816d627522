//! What is written comes back; what was changed, cut or made up on the way is refused, and never
//! makes the reader panic or take much memory.

use proptest::prelude::*;

use crate::*;

const BLOCK: u64 = BLOCK_BYTES;
const VOLUME: u64 = 64 << 20;

fn header(base: Option<Origin>) -> Header {
    Header {
        volume_bytes: VOLUME,
        block_bytes: 4096,
        volume: "data".to_owned(),
        snapshot: origin("tuesday", 2),
        base,
    }
}

fn origin(name: &str, number: u8) -> Origin {
    Origin {
        name: name.to_owned(),
        uuid: [number; 16],
    }
}

/// A part as a test has it: where it is, how many blocks, and from what its data follows.
type Part = (u64, Option<Vec<u8>>, u64);

fn stream(header: &Header, parts: &[Part]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    for (start, data, bytes) in parts {
        let (start, bytes) = (*start, *bytes);
        let record = match data {
            Some(bytes) => Record::Data { start, bytes },
            None => Record::Zeroes { start, bytes },
        };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap().0
}

fn read(bytes: &[u8]) -> Result<(Header, Vec<Part>), StreamError> {
    let mut reader = Reader::new(bytes)?;
    let mut parts = Vec::new();
    while let Some(record) = reader.next()? {
        parts.push(match record {
            Record::Data { start, bytes } => (start, Some(bytes.to_vec()), bytes.len() as u64),
            Record::Zeroes { start, bytes } => (start, None, bytes),
        });
    }
    assert!(matches!(reader.next(), Ok(None)), "the end stays the end");
    Ok((reader.header().clone(), parts))
}

/// Data that does not shrink.
fn noise(blocks: u64, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let bytes = (0..blocks * BLOCK).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    });
    bytes.collect()
}

fn small() -> Vec<u8> {
    let parts = [
        (0, Some(vec![7; 4096]), 4096),
        (BLOCK, None, 2 * BLOCK),
        (8 * BLOCK, Some(noise(1, 5)), BLOCK),
    ];
    stream(&header(Some(origin("monday", 1))), &parts)
}

/// What another program wrote by the page about the format.
#[test]
fn what_the_page_says_is_what_is_read() {
    let found = |name: &str| {
        let path = format!(
            "{}/../../fuzz/corpus/stream/{name}",
            env!("CARGO_MANIFEST_DIR")
        );
        read(&std::fs::read(path).unwrap())
    };
    let (header, parts) = found("plain").unwrap();
    assert_eq!((header.volume.as_str(), header.base), ("data", None));
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(parts, [(BLOCK, Some(bytes.repeat(16)), BLOCK)]);
    let (header, parts) = found("compressed").unwrap();
    assert_eq!(
        (header.block_bytes, header.base),
        (512, Some(origin("monday", 1)))
    );
    let compressed = (2 * BLOCK, Some(vec![7; 8192]), 2 * BLOCK);
    assert_eq!(parts, [(0, None, BLOCK), compressed]);
    assert!(found("overlapping").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_comes_back(
        shapes in prop::collection::vec((0..40_u64, 1..40_u64, 0..3_u8, any::<u64>()), 0..12),
        based: bool,
    ) {
        let mut at = 0;
        let mut parts: Vec<Part> = Vec::new();
        for (gap, blocks, kind, seed) in shapes {
            at += gap * BLOCK;
            let data = match kind {
                0 => None,
                1 => Some(noise(blocks, seed)),
                _ => Some(vec![seed as u8; (blocks * BLOCK) as usize]),
            };
            parts.push((at, data, blocks * BLOCK));
            at += blocks * BLOCK;
        }
        let header = header(based.then(|| origin("monday", 1)));
        let bytes = stream(&header, &parts);
        prop_assert_eq!(read(&bytes).unwrap(), (header, parts));
    }

    #[test]
    fn bytes_that_are_made_up_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&bytes).is_err());
        let whole = small();
        bytes.splice(0..0, whole[..whole.len() - 60].iter().copied());
        prop_assert!(read(&bytes).is_err());
    }
}

#[test]
fn the_largest_record_comes_back() {
    let bytes = DATA_BYTES_MAX as u64;
    let parts = [
        (0, Some(noise(bytes / BLOCK, 1)), bytes),
        (bytes, None, VOLUME - bytes),
    ];
    let stream = stream(&header(None), &parts);
    // What does not shrink takes no more than its own bytes and a head.
    assert!(stream.len() < DATA_BYTES_MAX + 300, "{}", stream.len());
    assert_eq!(read(&stream).unwrap().1, parts);
}

#[test]
fn what_is_written_plain_comes_back() {
    let writer = Writer::new(Vec::new(), &header(None)).unwrap();
    let mut writer = writer.plain();
    let bytes = [7; BLOCK as usize];
    let record = Record::Data {
        start: BLOCK,
        bytes: &bytes,
    };
    writer.write(&record).unwrap();
    let stream = writer.finish().unwrap().0;
    assert!(stream.len() > bytes.len(), "{}", stream.len());
    let expected = [(BLOCK, Some(bytes.to_vec()), BLOCK)];
    assert_eq!(read(&stream).unwrap().1, expected);
}

#[test]
fn what_repeats_takes_little() {
    let parts = [(0, Some(vec![9; DATA_BYTES_MAX]), DATA_BYTES_MAX as u64)];
    assert!(stream(&header(None), &parts).len() < 1000);
}

#[test]
fn a_stream_that_was_cut_anywhere_is_refused() {
    let whole = small();
    for length in 0..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        match length {
            0..8 => assert!(
                matches!(error, StreamError::NotAStream),
                "{length}: {error}"
            ),
            _ => assert!(
                matches!(error, StreamError::Cut(at) if at == length as u64),
                "{error}"
            ),
        }
    }
}

#[test]
fn a_byte_that_changed_anywhere_is_found() {
    let whole = small();
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            assert!(read(&bytes).is_err(), "byte {at} ^ {flip:#x}");
        }
    }
}

/// Each checksum of a record is right, and yet one is missing or there twice.
#[test]
fn records_that_are_missing_or_repeated_are_found() {
    let parts = [
        (0, None, BLOCK),
        (BLOCK, None, BLOCK),
        (2 * BLOCK, None, BLOCK),
    ];
    let whole = stream(&header(None), &parts);
    let head = whole.len() - (28 + 32) - 3 * 28;
    let without = [&whole[..head + 28], &whole[head + 56..]].concat();
    assert!(matches!(
        read(&without),
        Err(StreamError::Damaged {
            part: "the whole stream",
            ..
        })
    ));
    let twice = [&whole[..head + 28], &whole[head..]].concat();
    let error = read(&twice).unwrap_err().to_string();
    assert!(error.contains("4096 bytes from 0 on"), "{error}");
}

#[test]
fn what_is_wrong_is_said() {
    let whole = small();
    let mut newer = whole.clone();
    newer[8] = 2;
    let mut long = whole.clone();
    long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let two = [&whole[..], &whole[..]].concat();
    let mut damaged = whole.clone();
    let last = damaged.len() - 100;
    damaged[last] ^= 1;
    let cases: [(&[u8], &str); 6] = [
        (b"", "no stream"),
        (b"a file of another kind", "no stream"),
        (&newer, "version 2; allowed: 1"),
        (&long, "4294967295 bytes; allowed"),
        (&two, "goes on behind"),
        (&damaged, "checksum of the record"),
    ];
    for (bytes, words) in cases {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}, not {words}");
    }
}

/// Numbers that cannot be, under checksums that are right.
#[test]
fn headers_that_cannot_be_are_refused() {
    let wrong = [
        Header {
            volume_bytes: 0,
            ..header(None)
        },
        Header {
            volume_bytes: 4097,
            ..header(None)
        },
        Header {
            block_bytes: 1024,
            ..header(None)
        },
        Header {
            snapshot: origin("tuesday", 0),
            ..header(None)
        },
    ];
    for header in wrong {
        let writer = Writer::new(Vec::new(), &header).unwrap();
        let bytes = writer.finish().unwrap().0;
        assert!(matches!(
            read(&bytes),
            Err(StreamError::Nonsense { at: 0, .. })
        ));
    }
}
