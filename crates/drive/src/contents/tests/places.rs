//! Where libblkid finds what it knows, against the ends of a device that are looked at.

use super::super::table::Place::{self, End, Start};
use super::{END_BYTES, SIZE, seen_and_gone};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SECTOR: u64 = 512;

/// So many sectors before the end.
const fn sectors(before: u64) -> Place {
    End {
        piece: SECTOR,
        before: before * SECTOR,
    }
}

/// The magic numbers of libblkid, in util-linux 2.41.5: `.kboff` and `.sboff` of `blkid_magics` in
/// `libblkid/src/superblocks/*.c` and `libblkid/src/partitions/*.c`. Where a file has none, the
/// places that its probe reads.
const PLACES: &[(&str, &[Place])] = &[
    // Partition tables.
    ("aix, dos, mac, minix, PMBR, sgi", &[Start(0), Start(510)]),
    ("atari", &[Start(0), Start(454)]),
    ("bsd", &[Start(64), Start(128), Start(512)]),
    ("gpt", &[Start(512), Start(4096), sectors(1)]),
    ("solaris", &[Start(512 + 12)]),
    ("sun", &[Start(508)]),
    ("ultrix", &[Start(16 * KIB - 72)]),
    ("unixware", &[Start(29 * SECTOR + 4)]),
    // Members of arrays.
    ("adaptec, jmicron, lsi, silicon, via", &[sectors(1)]),
    ("ddf", &[sectors(1), sectors(257)]),
    (
        "drbd",
        &[End {
            piece: KIB,
            before: 4 * KIB,
        }],
    ),
    ("drbdmanage, drbdproxy", &[Start(0)]),
    ("highpoint", &[Start(4 * KIB + 544), sectors(11)]),
    (
        "isw",
        &[
            sectors(2),
            End {
                piece: 4 * KIB,
                before: 8 * KIB,
            },
        ],
    ),
    (
        "linux_raid",
        &[
            Start(0),
            Start(4 * KIB),
            End {
                piece: 4 * KIB,
                before: 8 * KIB,
            },
            End {
                piece: 64 * KIB,
                before: 64 * KIB,
            },
        ],
    ),
    ("nvidia", &[sectors(2)]),
    (
        "promise",
        &[
            sectors(63),
            sectors(255),
            sectors(256),
            sectors(16),
            sectors(399),
            sectors(591),
            sectors(675),
            sectors(735),
            sectors(911),
            sectors(974),
            sectors(991),
            sectors(951),
            sectors(3087),
        ],
    ),
    ("stratis", &[Start(SECTOR + 4), Start(9 * SECTOR + 4)]),
    (
        "LVM1, DM_snapshot_cow, DM_verity_hash, DM_integrity, vdo",
        &[Start(0)],
    ),
    (
        "LVM2",
        &[
            Start(0x18),
            Start(0x218),
            Start(KIB + 0x18),
            Start(KIB + 0x218),
        ],
    ),
    (
        "zfs",
        &[
            Start(16 * KIB),
            Start(272 * KIB),
            End {
                piece: 256 * KIB,
                before: 496 * KIB,
            },
            End {
                piece: 256 * KIB,
                before: 240 * KIB,
            },
        ],
    ),
    // Encryption and caches.
    ("bcache", &[Start(4 * KIB + 24)]),
    (
        "bcachefs",
        &[
            Start(4 * KIB + 24),
            Start(2 * MIB + 24),
            End {
                piece: KIB,
                before: MIB - 24,
            },
        ],
    ),
    (
        "BitLocker, cs_fvault2, bluestore, mpool",
        &[Start(0), Start(88)],
    ),
    (
        "crypto_LUKS",
        &[
            Start(0),
            Start(0x4000),
            Start(0x8000),
            Start(0x10000),
            Start(0x20000),
            Start(0x40000),
            Start(0x80000),
            Start(0x10_0000),
            Start(0x20_0000),
            Start(0x40_0000),
        ],
    ),
    // File systems.
    (
        "apfs, exfat, ntfs, ReFS, vfat",
        &[Start(0), Start(3), Start(32), Start(0x36), Start(0x52)],
    ),
    ("befs", &[Start(0x20), Start(0x220)]),
    (
        "bfs, cramfs, exfs, romfs, squashfs, ubi, ubifs, xfs, zonefs",
        &[Start(0)],
    ),
    ("btrfs", &[Start(64 * KIB + 0x40), Start(0x40)]),
    ("erofs, f2fs", &[Start(KIB), Start(5 * KIB)]),
    ("ext2, ext3, ext4, jbd", &[Start(KIB + 0x38)]),
    ("gfs, gfs2, reiser4", &[Start(64 * KIB)]),
    ("hfs, hfsplus", &[Start(KIB)]),
    ("hpfs", &[Start(8 * KIB)]),
    ("iso9660, udf", &[Start(32 * KIB + 1), Start(32 * KIB + 9)]),
    ("jfs", &[Start(32 * KIB)]),
    ("minix", &[Start(KIB + 0x10), Start(KIB + 0x18)]),
    (
        "nilfs2",
        &[
            Start(KIB + 6),
            End {
                piece: SECTOR,
                before: 4 * KIB - 6,
            },
        ],
    ),
    ("nss", &[Start(4 * KIB)]),
    (
        "ocfs, ocfs2, oracleasm",
        &[
            Start(32),
            Start(KIB),
            Start(2 * KIB),
            Start(4 * KIB),
            Start(8 * KIB),
        ],
    ),
    (
        "reiserfs",
        &[
            Start(8 * KIB + 20),
            Start(8 * KIB + 0x34),
            Start(64 * KIB + 0x34),
        ],
    ),
    (
        "swap, swsuspend",
        &[
            Start(0),
            Start(0xff6),
            Start(0x1ff6),
            Start(0x3ff6),
            Start(0x7ff6),
            Start(0xfff6),
        ],
    ),
    (
        "sysv, xenix",
        &[Start(512), Start(2 * KIB), Start(18 * KIB + 512)],
    ),
    (
        "ufs",
        &[
            Start(0x55c),
            Start(0x255c),
            Start(0x1_055c),
            Start(0x4_055c),
        ],
    ),
    ("VMFS", &[Start(MIB), Start(2 * MIB)]),
    ("vxfs", &[Start(KIB), Start(8 * KIB)]),
    ("xfs_external_log", &[Start(0), Start(255 * KIB)]),
];

/// Whether our table has a name for it or not, it is content, and nothing of it is left.
#[test]
fn whatever_libblkid_finds_is_seen_and_wiped() {
    for (named, places) in PLACES {
        for place in *places {
            let at = place.on(SIZE).unwrap();
            let near = at < END_BYTES || SIZE - at <= END_BYTES;
            assert!(near, "{named} at {at} is far from both ends");
            let seen = seen_and_gone(SIZE, at, &[0x5a]);
            assert!(seen.is_some(), "{named} at {at}");
        }
    }
}
