//! [`Backing`]: what is below a file.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, StatxFlags};

use crate::blocking::blocking;

/// STATX_DIOALIGN of statx(2), since Linux 6.1.
const DIRECT_ALIGNMENT: StatxFlags = StatxFlags::from_bits_retain(0x2000);

/// Types of file systems whose bytes another process or machine has, as statfs(2) names them.
const ELSEWHERE: [u32; 9] = [
    0x6573_5546, // FUSE
    0x6969,      // NFS
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x517b,      // SMB
    0x00c3_6400, // Ceph
    0x0102_1997, // 9P, virtio's included
    0x5346_414f, // AFS
    0x0bd0_0bd0, // Lustre
];

/// What is below a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    /// Another process or machine answers for the bytes. The kernel asks for them in the call that
    /// submits a request, and waits there for the answer: FUSE and NFS know of no other way. A
    /// thread of the kernel's waits instead when asked to, which costs each request some
    /// microseconds.
    pub elsewhere: bool,
    /// Direct I/O reaches a block device of this machine. tmpfs, for one, takes O_DIRECT and
    /// copies to and from pages of its cache all the same.
    pub reaches_device: bool,
}

impl Backing {
    /// Below a block device is its drive, and below a simulated file nothing that would wait.
    pub const LOCAL: Backing = Backing {
        elsewhere: false,
        reaches_device: true,
    };

    /// The backing of a regular file. A file system that says nothing about itself counts as one
    /// elsewhere.
    pub async fn of(file: OwnedFd) -> (OwnedFd, Backing) {
        blocking(move || {
            let found = rustix::fs::fstatfs(&file);
            // Where the number is signed, those of 32 bits are negative.
            let known = found.map(|found| ELSEWHERE.contains(&(found.f_type as u32)));
            let elsewhere = known.unwrap_or(true);
            let backing = Backing {
                elsewhere,
                reaches_device: !elsewhere && tells_alignment(&file),
            };
            (file, backing)
        })
        .await
    }
}

/// Whether the file system says how direct I/O is to be aligned: only those do whose direct I/O
/// goes to a device.
fn tells_alignment(file: &OwnedFd) -> bool {
    let found = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, DIRECT_ALIGNMENT);
    found.is_ok_and(|found| {
        found.stx_mask & DIRECT_ALIGNMENT.bits() != 0 && found.stx_dio_mem_align != 0
    })
}
