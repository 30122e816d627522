mod places;

use block::{BlockDevice, Buffer, Durability, Geometry, Lba};
use reactor::Reactor;

use super::table::{
    BTRFS_MAGIC, BTRFS_MIRRORS, SIGNATURES, ZFS_LABELS, ZFS_MAGIC, ZFS_RING_AT, ZFS_UBERBLOCKS,
};
use super::*;
use crate::MemoryDrive;

/// Larger than both ends and the first mirror, and no multiple of what ends are counted by.
const SIZE: u64 = (96 << 20) + 5 * 4096;

fn blank_drive(size: u64) -> MemoryDrive {
    MemoryDrive::new(Geometry::new(4096, size / 4096).unwrap())
}

/// Writes `bytes` at a byte, whatever the blocks.
async fn put(device: &MemoryDrive, at: u64, bytes: &[u8]) {
    let (first, last) = (at / 4096, (at + bytes.len() as u64 - 1) / 4096);
    let buffer = Buffer::new(((last - first + 1) * 4096) as usize);
    let (mut buffer, result) = device.read(Lba(first), buffer).await;
    result.unwrap();
    let from = (at - first * 4096) as usize;
    buffer[from..from + bytes.len()].copy_from_slice(bytes);
    let written = device.write(Lba(first), buffer, Durability::Cached).await;
    written.1.unwrap();
}

async fn said(device: &MemoryDrive) -> Option<String> {
    let found = contents(device, &[]).await.unwrap();
    found.map(|found| found.to_string())
}

/// The words for a device with `bytes` at a place. Nothing is left of it after it was wiped.
fn seen_and_gone(size: u64, at: u64, bytes: &[u8]) -> Option<String> {
    Reactor::simulated(1).run(async {
        let device = blank_drive(size);
        put(&device, at, bytes).await;
        let seen = said(&device).await;
        wipe(&device).await.unwrap();
        assert_eq!(said(&device).await, None, "byte {at}");
        let (first, from) = (Lba(at / 4096), (at % 4096) as usize);
        let (block, result) = device.read(first, Buffer::new(4096)).await;
        result.unwrap();
        let bytes = &block[from..(from + bytes.len()).min(4096)];
        assert!(bytes.iter().all(|byte| *byte == 0), "byte {at} is left");
        seen
    })
}

#[test]
fn every_signature_of_the_table_is_seen_by_name_and_wiped() {
    for signature in SIGNATURES {
        let at = signature.place.on(SIZE).unwrap() + signature.at;
        let seen = seen_and_gone(SIZE, at, signature.magic).unwrap();
        // Some begin alike: the name of the one that was written is among those that were found.
        let what = match signature.what {
            "an ext2, ext3 or ext4 file system" => "an ext2 file system",
            what => what,
        };
        assert!(seen.contains(what), "{what} is called {seen}");
    }
}

#[test]
fn every_label_of_zfs_is_seen_whichever_of_its_uberblocks_is_left() {
    for label in ZFS_LABELS {
        for (number, magic) in [0, 1, 77, ZFS_UBERBLOCKS - 1]
            .into_iter()
            .zip(ZFS_MAGIC.iter().cycle())
        {
            let at = label.on(SIZE).unwrap() + ZFS_RING_AT + (number << 10);
            let seen = seen_and_gone(SIZE, at, magic);
            assert_eq!(seen.as_deref(), Some("a member of a ZFS pool"), "byte {at}");
        }
    }
}

#[test]
fn copies_of_btrfs_superblocks_are_seen_and_wiped() {
    for mirror in BTRFS_MIRRORS {
        let seen = seen_and_gone(mirror + (64 << 20), mirror + 64, BTRFS_MAGIC).unwrap();
        assert!(seen.contains("btrfs"), "{seen}");
    }
}

#[test]
fn what_has_no_name_is_content_wherever_it_is_in_an_end() {
    for at in [
        0,
        1,
        511,
        4096,
        (8 << 20) - 1,
        SIZE - (8 << 20),
        SIZE - 4097,
        SIZE - 1,
    ] {
        let seen = seen_and_gone(SIZE, at, &[7]).unwrap();
        let expected = format!("not known, from byte {at} on");
        assert!(seen.contains(&expected), "{seen}");
    }
    // A device that is all ends.
    for (size, at) in [(4096, 4095), (8 << 20, 5), (12 << 20, (8 << 20) + 1)] {
        assert!(seen_and_gone(size, at, &[7]).is_some(), "{size}, {at}");
    }
}

#[test]
fn zeroes_and_erased_flash_are_nothing() {
    Reactor::simulated(1).run(async {
        let device = blank_drive(SIZE);
        assert_eq!(said(&device).await, None);
        put(&device, 8192, &[0xff; 8192]).await;
        assert_eq!(said(&device).await, None);
        put(&device, 9000, &[0]).await;
        assert!(said(&device).await.is_some());
    });
}

#[test]
fn what_lies_behind_the_last_whole_block_counts() {
    Reactor::simulated(1).run(async {
        let device = blank_drive(SIZE);
        let mut rest = [0; 1536];
        assert_eq!(contents(&device, &rest).await, Ok(None));
        rest[1024..1032].copy_from_slice(b"EFI PART");
        let seen = contents(&device, &rest).await.unwrap().unwrap();
        assert_eq!(seen.to_string(), "the backup of a partition table (GPT)");
    });
}

#[test]
fn identities_are_written_as_people_know_them() {
    let uuid: Vec<u8> = (1..=16).collect();
    let plain = "01020304-0506-0708-090a-0b0c0d0e0f10";
    type Case<'a> = (u64, &'a [u8], u64, &'a [u8], String);
    let cases: [Case<'_>; 5] = [
        (
            1080,
            &[0x53, 0xef],
            1128,
            &uuid,
            format!("an ext2 file system, UUID {plain}"),
        ),
        (
            512,
            b"EFI PART",
            568,
            &uuid,
            "a partition table (GPT), UUID 04030201-0605-0807-090a-0b0c0d0e0f10".into(),
        ),
        (
            0,
            b"LUKS\xba\xbe",
            168,
            plain.as_bytes(),
            format!("a LUKS volume, UUID {plain}"),
        ),
        (
            512,
            b"LABELONE",
            544,
            b"abcdefGHIJklmnOPQRstuvWXYZ012345",
            "an LVM physical volume, UUID abcdef-GHIJ-klmn-OPQR-stuv-WXYZ-012345".into(),
        ),
        // An identity that cannot be shown is left out.
        (0, b"LUKS\xba\xbe", 168, b"\x1b[2J", "a LUKS volume".into()),
    ];
    for (at, magic, uuid_at, uuid, expected) in cases {
        let seen = Reactor::simulated(1).run(async {
            let device = blank_drive(SIZE);
            put(&device, uuid_at, uuid).await;
            put(&device, at, magic).await;
            said(&device).await
        });
        assert_eq!(seen, Some(expected));
    }
}
