//! FUSE's messages (`linux/fuse.h`, protocol 7), of which a file system of one file needs few: what
//! the kernel asks, and the answers' bytes. Numbers are in this machine's byte order.

/// Bytes before a request's arguments.
const HEADER_BYTES: usize = 40;

/// Bytes before a write's data: the header and `fuse_write_in`.
const WRITE_AT: usize = 80;

/// The operations whose requests have more than a structure of their own.
const LOOKUP: u32 = 1;
const WRITE: u32 = 16;

/// Bytes before an answer's payload.
pub const ANSWER_BYTES: usize = 16;

/// Every read of this file goes past the page cache, and writes need not wait for each other.
const DIRECT_IO: u32 = 1;
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// `S_IFDIR` and `S_IFREG`.
pub const DIRECTORY: u32 = 0o040_000;
pub const REGULAR: u32 = 0o100_000;

/// How long the kernel may believe which inode a name has: that never changes.
const NAMES_SECONDS: u64 = 86_400;

/// How long it may believe an inode's attributes: the volume may grow at any time, and no read or
/// write of the file asks for them.
const ATTRIBUTES_SECONDS: u64 = 0;

/// Longest name in the directory, as every file system has it.
const NAME_BYTES_MAX: u32 = 255;

/// Space is given back in pieces of at least so much, whatever the logical block size.
const GIVEN_BACK_BYTES_MIN: u32 = 4096;

/// `fallocate`'s modes, from `linux/falloc.h`.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;

/// What the kernel asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// What `name` in a directory is.
    Lookup {
        parent: u64,
        name: &'a [u8],
    },
    /// What an inode is.
    Attributes {
        inode: u64,
    },
    /// How large and how full the file system is.
    Statistics,
    /// Opens a file or a directory.
    Open,
    /// What is in the directory, from entry `from` on.
    List {
        from: u64,
    },
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    Flush,
    Deallocate {
        offset: u64,
        bytes: u64,
    },
    WriteZeroes {
        offset: u64,
        bytes: u64,
    },
    /// A change of the allocation that a volume does not know.
    OtherAllocation,
    /// Closes something, or begins to.
    Close,
    /// Something that wants no answer.
    Nothing,
    /// Anything else.
    Unknown,
}

/// Bytes that are read from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }
}

/// The number that the answer has to carry, and what is asked; `None` for what is no message.
pub fn parse(message: &[u8]) -> Option<(u64, Asked<'_>)> {
    let (header, rest) = message.split_at_checked(HEADER_BYTES)?;
    let operation = u32::from_ne_bytes(*header[4..].first_chunk()?);
    let (arguments, data) = match operation {
        LOOKUP => (&[][..], rest),
        WRITE => rest.split_at_checked(WRITE_AT - HEADER_BYTES)?,
        _ => (rest, &[][..]),
    };
    parse_parts(header, arguments, data)
}

/// As [`parse`], for a request whose parts lie apart: the header, the operation's own structure,
/// and what else belongs to it. Bytes behind the first two are not looked at.
pub fn parse_parts<'a>(
    header: &'a [u8],
    arguments: &'a [u8],
    data: &'a [u8],
) -> Option<(u64, Asked<'a>)> {
    let mut fields = Fields(header);
    let (bytes, operation) = (fields.u32()?, fields.u32()?);
    let (unique, inode) = (fields.u64()?, fields.u64()?);
    let length = (bytes as usize).checked_sub(HEADER_BYTES + data.len())?;
    let fields = Fields(arguments.get(..length)?);
    let asked = match operation {
        LOOKUP => Asked::Lookup {
            parent: inode,
            name: data.split(|byte| *byte == 0).next()?,
        },
        3 => Asked::Attributes { inode },
        14 | 27 => Asked::Open,
        17 => Asked::Statistics,
        15 | WRITE | 28 => transfer(operation, fields, data)?,
        20 => Asked::Flush,
        18 | 25 | 29 => Asked::Close,
        // Forgetting, interrupting, and the end: there is nothing to forget or to hurry.
        2 | 36 | 38 | 42 => Asked::Nothing,
        43 => allocation(fields)?,
        _ => Asked::Unknown,
    };
    Some((unique, asked))
}

/// READ, WRITE and READDIR, whose arguments begin alike.
fn transfer<'a>(operation: u32, mut fields: Fields<'_>, data: &'a [u8]) -> Option<Asked<'a>> {
    let _handle = fields.u64()?;
    let (offset, bytes) = (fields.u64()?, fields.u32()?);
    Some(match operation {
        15 => Asked::Read { offset, bytes },
        WRITE => Asked::Write {
            offset,
            data: data.get(..bytes as usize)?,
        },
        _ => Asked::List { from: offset },
    })
}

fn allocation(mut fields: Fields<'_>) -> Option<Asked<'static>> {
    let _handle = fields.u64()?;
    let (offset, bytes, mode) = (fields.u64()?, fields.u64()?, fields.u32()?);
    Some(match mode & !KEEP_SIZE {
        PUNCH_HOLE => Asked::Deallocate { offset, bytes },
        ZERO_RANGE => Asked::WriteZeroes { offset, bytes },
        _ => Asked::OtherAllocation,
    })
}

/// The head of an answer whose payload has `bytes`; `errno` 0 says that all is well.
pub fn answer(unique: u64, errno: i32, bytes: usize) -> [u8; ANSWER_BYTES] {
    let mut head = [0; ANSWER_BYTES];
    let length = (ANSWER_BYTES + bytes) as u32;
    head[..4].copy_from_slice(&length.to_ne_bytes());
    head[4..8].copy_from_slice(&(-errno).to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub inode: u64,
    /// Kind and permissions.
    pub mode: u32,
    pub bytes: u64,
    pub block_bytes: u32,
}

impl Attributes {
    /// `struct fuse_attr`.
    fn put(&self, answer: &mut Vec<u8>) {
        for number in [self.inode, self.bytes, self.bytes / 512, 0, 0, 0] {
            answer.extend(number.to_ne_bytes());
        }
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let owner = [user.as_raw(), group.as_raw()];
        // Nanoseconds of three times, mode, links, owner, device number, block size, flags.
        let numbers = [0, 0, 0, self.mode, 1];
        let last = [0, self.block_bytes, 0];
        for number in numbers.into_iter().chain(owner).chain(last) {
            answer.extend(number.to_ne_bytes());
        }
    }

    /// The payload of the answer to [`Asked::Lookup`]: `struct fuse_entry_out`.
    pub fn entry(&self) -> Vec<u8> {
        let mut answer = Vec::new();
        for number in [self.inode, 0, NAMES_SECONDS, ATTRIBUTES_SECONDS, 0] {
            answer.extend(number.to_ne_bytes());
        }
        self.put(&mut answer);
        answer
    }

    /// The payload of the answer to [`Asked::Attributes`]: `struct fuse_attr_out`.
    pub fn attributes(&self) -> Vec<u8> {
        let mut answer = Vec::new();
        for number in [ATTRIBUTES_SECONDS, 0] {
            answer.extend(number.to_ne_bytes());
        }
        self.put(&mut answer);
        answer
    }
}

/// The payload of the answer to [`Asked::Statistics`]: `struct fuse_statfs_out`. The volume fills
/// the file system. A loop device discards in units of the block size that is said here.
pub fn statistics(block_bytes: u32, block_count: u64) -> Vec<u8> {
    let mut answer = Vec::new();
    // Blocks, free ones, those for everybody; inodes, free ones.
    for number in [block_count, 0, 0, 2, 0] {
        answer.extend(number.to_ne_bytes());
    }
    let unit = block_bytes.max(GIVEN_BACK_BYTES_MIN);
    // The last seven are padding and room for more.
    for number in [unit, NAME_BYTES_MAX, block_bytes, 0, 0, 0, 0, 0, 0, 0] {
        answer.extend(number.to_ne_bytes());
    }
    answer
}

/// The payload of the answer to [`Asked::Open`]: `struct fuse_open_out`.
pub fn opened() -> Vec<u8> {
    let mut answer = vec![0; 8];
    answer.extend((DIRECT_IO | PARALLEL_DIRECT_WRITES).to_ne_bytes());
    answer.extend([0; 4]);
    answer
}

/// The payload of the answer to a write: `struct fuse_write_out`.
pub fn written(bytes: u32) -> Vec<u8> {
    [bytes.to_ne_bytes(), [0; 4]].concat()
}

/// The payload of the answer to [`Asked::List`]: a `struct fuse_dirent` for each of `entries`
/// (inode, kind, name) from number `from` on.
pub fn listed(entries: &[(u64, u32, &str)], from: u64) -> Vec<u8> {
    let mut answer = Vec::new();
    for (next, (inode, kind, name)) in (1_u64..).zip(entries).skip(from as usize) {
        answer.extend(inode.to_ne_bytes());
        answer.extend(next.to_ne_bytes());
        answer.extend((name.len() as u32).to_ne_bytes());
        // The kind as directories have it: without the bits of permissions.
        answer.extend((kind >> 12).to_ne_bytes());
        answer.extend(name.as_bytes());
        answer.resize(answer.len().next_multiple_of(8), 0);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of the kernel's.
    fn message(operation: u32, inode: u64, arguments: &[u8]) -> Vec<u8> {
        let bytes = (HEADER_BYTES + arguments.len()) as u32;
        let mut message = [bytes.to_ne_bytes(), operation.to_ne_bytes()].concat();
        message.extend([7_u64.to_ne_bytes(), inode.to_ne_bytes()].concat());
        message.resize(HEADER_BYTES, 0);
        message.extend(arguments);
        message
    }

    fn numbers(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|one| one.to_ne_bytes()).collect()
    }

    #[test]
    fn requests_are_what_the_kernel_asks() {
        let read = message(15, 2, &numbers(&[0, 8192, 4096, 0, 0]));
        let asked = Asked::Read {
            offset: 8192,
            bytes: 4096,
        };
        assert_eq!(parse(&read), Some((7, asked)));
        let mut arguments = numbers(&[0, 512, 3, 0, 0]);
        arguments.extend(b"abc");
        let write = message(16, 2, &arguments);
        let asked = Asked::Write {
            offset: 512,
            data: b"abc",
        };
        assert_eq!(parse(&write), Some((7, asked)));
        let lookup = message(1, 1, b"volume\0");
        let asked = Asked::Lookup {
            parent: 1,
            name: b"volume",
        };
        assert_eq!(parse(&lookup), Some((7, asked)));
        let mode = u64::from(PUNCH_HOLE | KEEP_SIZE);
        let punched = message(43, 2, &numbers(&[0, 4096, 8192, mode]));
        let asked = Asked::Deallocate {
            offset: 4096,
            bytes: 8192,
        };
        assert_eq!(parse(&punched), Some((7, asked)));
        // Growing the file, as `posix_fallocate` does.
        let allocated = message(43, 2, &numbers(&[0, 0, 8192, 0]));
        assert_eq!(parse(&allocated), Some((7, Asked::OtherAllocation)));
        let statistics = message(17, 1, &[]);
        assert_eq!(parse(&statistics), Some((7, Asked::Statistics)));
        assert_eq!(parse(&message(99, 2, &[])), Some((7, Asked::Unknown)));
    }

    /// As they are over io_uring: the parts apart, in areas that are larger than they are.
    #[test]
    fn requests_in_parts_are_those_in_one_piece() {
        let mut arguments = numbers(&[0, 512, 3, 0, 0]);
        let header = |operation, bytes: usize| {
            let mut header = message(operation, 2, &vec![0; bytes]);
            header.resize(128, 0xEE);
            header.truncate(128);
            header[HEADER_BYTES..].fill(0xEE);
            header
        };
        let write = header(16, arguments.len() + 3);
        let lookup = header(1, 7);
        arguments.resize(128, 0xEE);
        let asked = Asked::Write {
            offset: 512,
            data: b"abc",
        };
        assert_eq!(parse_parts(&write, &arguments, b"abc"), Some((7, asked)));
        let asked = Asked::Lookup {
            parent: 2,
            name: b"volume",
        };
        assert_eq!(
            parse_parts(&lookup, &arguments, b"volume\0"),
            Some((7, asked))
        );
        // Less or more data than the header says.
        assert_eq!(parse_parts(&write, &arguments, b"ab"), None);
        assert_eq!(parse_parts(&lookup, &arguments, &[0; 8]), None);
        assert_eq!(parse_parts(&write, &arguments[..40], &[0; 200]), None);
    }

    #[test]
    fn what_is_cut_short_is_no_request() {
        let whole = message(16, 2, &numbers(&[0, 0, 8, 0, 0, 5]));
        assert!(parse(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), None);
            let mut short = whole[..length].to_vec();
            if let Some(bytes) = short.first_chunk_mut::<4>() {
                *bytes = (length as u32).to_ne_bytes();
                assert_eq!(parse(&short), None, "{length} bytes");
            }
        }
    }

    #[test]
    fn answers_have_the_sizes_that_the_kernel_asks_for() {
        let volume = Attributes {
            inode: 2,
            mode: REGULAR | 0o600,
            bytes: 1 << 20,
            block_bytes: 4096,
        };
        assert_eq!(volume.entry().len(), 128);
        assert_eq!(volume.attributes().len(), 104);
        assert_eq!(statistics(512, 100).len(), 80);
        assert_eq!((opened().len(), written(3).len()), (16, 8));
        let head = answer(7, 5, 8);
        assert_eq!(head[..4], 24_u32.to_ne_bytes());
        assert_eq!(head[4..8], (-5_i32).to_ne_bytes());
        let all = [(1, DIRECTORY, "."), (2, REGULAR, "volume")];
        assert_eq!(listed(&all, 0).len(), 64);
        assert_eq!(listed(&all, 1).len(), 32);
        assert!(listed(&all, 2).is_empty());
    }
}
