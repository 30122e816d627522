//! Files whose bytes another process or machine has.
//!
//! The kernel asks for such bytes in the call that submits a request, and waits there for the
//! answer: FUSE and NFS know of no other way. A thread of the kernel's waits instead when asked to,
//! which costs each request some microseconds. So only such files are asked for like that.

use std::os::fd::OwnedFd;

use crate::blocking::blocking;

/// Types of such file systems, as statfs(2) names them.
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

/// Whether somebody else answers for a file. One whose file system says nothing counts as such.
pub(super) async fn is_elsewhere(file: OwnedFd) -> (OwnedFd, bool) {
    blocking(move || {
        let found = rustix::fs::fstatfs(&file);
        // Where the number is signed, those of 32 bits are negative.
        let known = found.map(|found| ELSEWHERE.contains(&(found.f_type as u32)));
        (file, known.unwrap_or(true))
    })
    .await
}
