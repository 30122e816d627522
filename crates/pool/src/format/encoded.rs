//! Tables as drives have them: [`Encoded`], and beside what they say: [`WrittenTables`].

use crate::format::body::Body;
use crate::format::superblock::VERSION;

/// Tables of so many bytes are read again at once, where assertions are on.
const TRIED_BYTES_MAX: usize = 16 << 10;

/// The bytes of tables, with their checksum: it is counted once, for however many drives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoded {
    bytes: Vec<u8>,
    checksum: u32,
}

impl Encoded {
    pub fn new(bytes: Vec<u8>) -> Encoded {
        let checksum = crc_fast::crc32_iscsi(&bytes);
        Encoded { bytes, checksum }
    }

    /// What was read, and has this checksum.
    pub fn read(bytes: Vec<u8>, checksum: u32) -> Encoded {
        Encoded { bytes, checksum }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// CRC-32C of the bytes.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }
}

/// Tables that drives have, or are to have, and what they say: nobody decodes what this node has
/// written.
pub(crate) struct WrittenTables {
    pub body: Body,
    pub encoded: Encoded,
}

impl WrittenTables {
    /// Writes tables down. Others on this core have a turn after so many entries.
    pub async fn of(body: Body, in_a_row: usize) -> WrittenTables {
        let bytes = body.encode_in_turns(in_a_row).await;
        debug_assert!(
            bytes.len() > TRIED_BYTES_MAX || Body::decode(&bytes, VERSION).as_ref() == Ok(&body),
            "tables that read as others than they were written"
        );
        WrittenTables {
            body,
            encoded: Encoded::new(bytes),
        }
    }
}
