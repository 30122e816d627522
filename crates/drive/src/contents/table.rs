//! Names for what devices hold: magic numbers at their places, as libblkid knows them.

/// Where btrfs keeps the copies of its superblock that are near no end.
pub(super) const BTRFS_MIRRORS: [u64; 2] = [64 << 20, 256 << 30];

/// Something that is known by its magic number.
pub(super) struct Signature {
    /// Where its superblock is.
    pub place: Place,
    /// Where the magic number is in that.
    pub at: u64,
    pub magic: &'static [u8],
    pub what: &'static str,
    /// Where its identity is in the superblock.
    pub uuid: Uuid,
}

/// Where a superblock is.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// At this byte.
    Start(u64),
    /// So many bytes before the end, counted from the last whole piece of a size.
    End { piece: u64, before: u64 },
}

impl Place {
    /// The byte on a device of `size` bytes, if it has one.
    pub fn on(self, size: u64) -> Option<u64> {
        match self {
            Place::Start(at) => Some(at),
            Place::End { piece, before } => (size - size % piece).checked_sub(before),
        }
    }
}

/// Where an identity is, and how it is written.
#[derive(Clone, Copy)]
pub(super) enum Uuid {
    None,
    /// Sixteen bytes.
    Bytes(u64),
    /// Sixteen bytes in the mixed order of EFI.
    Efi(u64),
    /// Text that ends with a zero.
    Text(u64),
    /// The 32 characters of an LVM physical volume.
    Lvm(u64),
    /// Four words of an MD superblock of version 0.90.
    Words([u64; 4]),
}

const fn start(
    byte: u64,
    at: u64,
    magic: &'static [u8],
    what: &'static str,
    uuid: Uuid,
) -> Signature {
    Signature {
        place: Place::Start(byte),
        at,
        magic,
        what,
        uuid,
    }
}

const fn end(
    (piece, before): (u64, u64),
    at: u64,
    magic: &'static [u8],
    what: &'static str,
    uuid: Uuid,
) -> Signature {
    Signature {
        place: Place::End { piece, before },
        at,
        magic,
        what,
        uuid,
    }
}

pub(super) const EXT: &str = "an ext2, ext3 or ext4 file system";
const BTRFS: &str = "a btrfs file system";
pub(super) const BTRFS_COPY: &str = "a copy of a btrfs file system's superblock";
pub(super) const BTRFS_MAGIC: &[u8] = b"_BHRfS_M";
pub(super) const BTRFS_UUID: Uuid = Uuid::Bytes(32);
const LUKS: &str = "a LUKS volume";
const LUKS_COPY: &str = "the second header of a LUKS volume";
const SKUL: &[u8] = b"SKUL\xba\xbe";
const LUKS_UUID: Uuid = Uuid::Text(168);
const LVM: &str = "an LVM physical volume";
const LVM_MAGIC: &[u8] = b"LABELONE";
const MD: &str = "a member of an MD array";
const MD_MAGIC: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const MD_SWAPPED: &[u8] = &[0xa9, 0x2b, 0x4e, 0xfc];
const MD_UUID: Uuid = Uuid::Bytes(16);
const MD_090_UUID: Uuid = Uuid::Words([20, 52, 56, 60]);
const GPT: &str = "a partition table (GPT)";
const GPT_COPY: &str = "the backup of a partition table (GPT)";
const GPT_MAGIC: &[u8] = b"EFI PART";
const SWAP: &str = "a swap area";
const SWAP_MAGIC: &[u8] = b"SWAPSPACE2";
const SWAP_OLD: &[u8] = b"SWAP-SPACE";
const SWAP_UUID: Uuid = Uuid::Bytes(1036);
const SUSPENDED: &str = "the memory of a machine that hibernates";
pub(super) const ZFS: &str = "a member of a ZFS pool";
const REISER: &str = "a ReiserFS file system";
const REISER_UUID: Uuid = Uuid::Bytes(84);
const F2FS: &str = "an F2FS file system";
const F2FS_MAGIC: &[u8] = &[0x10, 0x20, 0xf5, 0xf2];
const FAT: &str = "a FAT file system";
const NILFS: &str = "a NILFS2 file system";
const OCFS: &str = "an OCFS2 file system";
const UFS: &str = "a UFS file system";
const STRATIS: &str = "a Stratis block device";
const STRATIS_MAGIC: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
const BCACHE_MAGIC: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &str = "a bcachefs file system";
const BCACHEFS_MAGIC: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const SQUASHFS: &str = "a SquashFS file system";
const CRAMFS: &str = "a cramfs file system";
const DRBD: &str = "a DRBD device";
const DDF: &str = "a member of a DDF array";
const NONE: Uuid = Uuid::None;

/// Magic numbers of two bytes are here only if their file systems are common. Contents that are
/// not here have no name.
pub(super) const SIGNATURES: &[Signature] = &[
    start(1024, 56, &[0x53, 0xef], EXT, Uuid::Bytes(104)),
    start(0, 0, b"XFSB", "an XFS file system", Uuid::Bytes(32)),
    start(64 << 10, 64, BTRFS_MAGIC, BTRFS, BTRFS_UUID),
    start(0, 0, b"LUKS\xba\xbe", LUKS, LUKS_UUID),
    start(0x4000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0x8000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0x1_0000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0x2_0000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0x4_0000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0x8_0000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0x10_0000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0x20_0000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0x40_0000, 0, SKUL, LUKS_COPY, LUKS_UUID),
    start(0, 0, LVM_MAGIC, LVM, Uuid::Lvm(32)),
    start(512, 0, LVM_MAGIC, LVM, Uuid::Lvm(32)),
    start(1024, 0, LVM_MAGIC, LVM, Uuid::Lvm(32)),
    start(1536, 0, LVM_MAGIC, LVM, Uuid::Lvm(32)),
    start(0, 0, MD_MAGIC, MD, MD_UUID),
    start(4096, 0, MD_MAGIC, MD, MD_UUID),
    end((4096, 8192), 0, MD_MAGIC, MD, MD_UUID),
    end((1 << 16, 1 << 16), 0, MD_MAGIC, MD, MD_090_UUID),
    end((1 << 16, 1 << 16), 0, MD_SWAPPED, MD, NONE),
    start(512, 0, GPT_MAGIC, GPT, Uuid::Efi(56)),
    start(4096, 0, GPT_MAGIC, GPT, Uuid::Efi(56)),
    end((512, 512), 0, GPT_MAGIC, GPT_COPY, Uuid::Efi(56)),
    end((4096, 4096), 0, GPT_MAGIC, GPT_COPY, Uuid::Efi(56)),
    start(
        0,
        510,
        &[0x55, 0xaa],
        "a partition table or boot sector (MBR)",
        NONE,
    ),
    start(0, 4086, SWAP_MAGIC, SWAP, SWAP_UUID),
    start(0, 4086, SWAP_OLD, SWAP, NONE),
    start(0, 8182, SWAP_MAGIC, SWAP, SWAP_UUID),
    start(0, 16_374, SWAP_MAGIC, SWAP, SWAP_UUID),
    start(0, 32_758, SWAP_MAGIC, SWAP, SWAP_UUID),
    start(0, 65_526, SWAP_MAGIC, SWAP, SWAP_UUID),
    start(0, 4086, b"S1SUSPEND", SUSPENDED, SWAP_UUID),
    start(0, 4086, b"S2SUSPEND", SUSPENDED, SWAP_UUID),
    start(0, 4086, b"ULSUSPEND", SUSPENDED, SWAP_UUID),
    start(0, 4086, b"LINHIB0001", SUSPENDED, SWAP_UUID),
    start(1024, 0, F2FS_MAGIC, F2FS, Uuid::Bytes(108)),
    start(5120, 0, F2FS_MAGIC, F2FS, Uuid::Bytes(108)),
    start(
        1024,
        0,
        &[0xe2, 0xe1, 0xf5, 0xe0],
        "an EROFS file system",
        Uuid::Bytes(48),
    ),
    start(0, 0, b"hsqs", SQUASHFS, NONE),
    start(0, 0, b"sqsh", SQUASHFS, NONE),
    start(0, 0, &[0x45, 0x3d, 0xcd, 0x28], CRAMFS, NONE),
    start(0, 0, &[0x28, 0xcd, 0x3d, 0x45], CRAMFS, NONE),
    start(0, 0, b"-rom1fs-", "a romfs file system", NONE),
    start(4096, 24, BCACHE_MAGIC, "a bcache device", Uuid::Bytes(40)),
    start(4096, 24, BCACHEFS_MAGIC, BCACHEFS, Uuid::Bytes(56)),
    start(2 << 20, 24, BCACHEFS_MAGIC, BCACHEFS, Uuid::Bytes(56)),
    end((1, 1 << 20), 24, BCACHEFS_MAGIC, BCACHEFS, Uuid::Bytes(56)),
    start(0, 3, b"NTFS    ", "an NTFS file system", NONE),
    start(0, 3, b"EXFAT   ", "an exFAT file system", NONE),
    start(0, 3, b"-FVE-FS-", "a BitLocker volume", NONE),
    start(0, 3, b"ReFS\0", "a ReFS file system", NONE),
    start(0, 82, b"FAT32   ", FAT, NONE),
    start(0, 54, b"FAT16   ", FAT, NONE),
    start(0, 54, b"FAT12   ", FAT, NONE),
    start(32 << 10, 1, b"CD001", "an ISO 9660 file system", NONE),
    start(32 << 10, 1, b"BEA01", "a UDF file system", NONE),
    start(32 << 10, 0, b"JFS1", "a JFS file system", Uuid::Bytes(136)),
    start(64 << 10, 52, b"ReIsEr2Fs", REISER, REISER_UUID),
    start(64 << 10, 52, b"ReIsEr3Fs", REISER, REISER_UUID),
    start(64 << 10, 52, b"ReIsErFs", REISER, REISER_UUID),
    start(8 << 10, 52, b"ReIsErFs", REISER, NONE),
    start(64 << 10, 0, b"ReIsEr4", "a Reiser4 file system", NONE),
    start(
        64 << 10,
        0,
        &[1, 0x16, 0x19, 0x70],
        "a GFS2 file system",
        NONE,
    ),
    start(1024, 6, &[0x34, 0x34], NILFS, Uuid::Bytes(152)),
    end((512, 4096), 6, &[0x34, 0x34], NILFS, Uuid::Bytes(152)),
    start(1024, 0, b"OCFSV2", OCFS, NONE),
    start(2048, 0, b"OCFSV2", OCFS, NONE),
    start(4096, 0, b"OCFSV2", OCFS, NONE),
    start(8192, 0, b"OCFSV2", OCFS, NONE),
    start(0, 32, b"ORCLDISK", "an Oracle ASM disk", NONE),
    start(0, 1372, &[0x54, 0x19, 1, 0], UFS, NONE),
    start(8 << 10, 1372, &[0x54, 0x19, 1, 0], UFS, NONE),
    start(64 << 10, 1372, &[0x19, 1, 0x54, 0x19], UFS, NONE),
    start(256 << 10, 1372, &[0x19, 1, 0x54, 0x19], UFS, NONE),
    start(0, 32, b"NXSB", "an APFS container", Uuid::Bytes(72)),
    start(1024, 0, b"H+", "an HFS Plus file system", NONE),
    start(1024, 0, b"HX", "an HFS Plus file system", NONE),
    start(1024, 0, &[0xf5, 0xfc, 1, 0xa5], "a VxFS file system", NONE),
    start(1 << 20, 0, &[0x0d, 0xd0, 1, 0xc0], "a VMFS volume", NONE),
    start(
        2 << 20,
        0,
        &[0x5e, 0xf1, 0xab, 0x2f],
        "a VMFS file system",
        NONE,
    ),
    start(0, 0, b"SFOZ", "a zonefs file system", NONE),
    start(0, 0, b"UBI#", "a UBI volume", NONE),
    start(
        0,
        0,
        b"bluestore block device",
        "a Ceph BlueStore device",
        NONE,
    ),
    start(0, 0, b"dmvdo001", "a VDO device", NONE),
    start(512, 4, STRATIS_MAGIC, STRATIS, NONE),
    start(4608, 4, STRATIS_MAGIC, STRATIS, NONE),
    start(0, 0, b"verity\0\0", "a dm-verity hash device", NONE),
    start(0, 0, b"integrt\0", "a dm-integrity device", NONE),
    start(0, 0, b"SnAp", "a device-mapper snapshot", NONE),
    start(0, 0, b"mpoolDev", "an mpool device", NONE),
    start(
        0,
        0,
        &[0x0b, 0xe5, 0xa9, 0x41],
        "a partition table (SGI)",
        NONE,
    ),
    end((1, 4096), 60, &[0x83, 0x74, 2, 0x6b], DRBD, NONE),
    end((1, 4096), 60, &[0x83, 0x74, 2, 0x6c], DRBD, NONE),
    end((1, 4096), 60, &[0x83, 0x74, 2, 0x6d], DRBD, NONE),
    end((512, 512), 0, &[0xde, 0x11, 0xde, 0x11], DDF, NONE),
    end((512, 512), 0, &[0x11, 0xde, 0x11, 0xde], DDF, NONE),
    end(
        (512, 1024),
        0,
        b"Intel Raid ISM Cfg Sig. ",
        "a member of an Intel array",
        NONE,
    ),
];

/// ZFS has two labels at each end of the last whole 256 KiB. The second half of each is a ring of
/// uberblocks, which begin at multiples of 1 KiB.
pub(super) const ZFS_LABELS: [Place; 4] = [
    Place::Start(0),
    Place::Start(256 << 10),
    Place::End {
        piece: 256 << 10,
        before: 512 << 10,
    },
    Place::End {
        piece: 256 << 10,
        before: 256 << 10,
    },
];
pub(super) const ZFS_RING_AT: u64 = 128 << 10;
pub(super) const ZFS_UBERBLOCKS: u64 = 128;
pub(super) const ZFS_MAGIC: [[u8; 8]; 2] = [
    [0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c],
];
