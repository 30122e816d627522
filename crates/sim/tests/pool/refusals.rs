//! What a pool refuses to be opened from, and how it says so. Nothing is written meanwhile.

use crate::support::{
    BLOCK, HOST, assert_runs, copies, create, heads, open, volume, with_drives, write_runs,
};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::{CreateOptions, Entropy, HostId, Level, NewerFormat, OpenOptions, Pool, PoolError};
use sim::SimDrive;

/// Three drives of a raid5 with 25 runs in a volume, closed.
async fn closed_pool(drives: &[SimDrive]) {
    let pool = create(drives, Level::Raid5).await;
    let id = volume(&pool, "a", 400).await;
    write_runs(&pool, id, 25).await;
    pool.close().await.expect("closed");
}

async fn try_open(drives: &[SimDrive], host: HostId) -> Result<(), PoolError> {
    let before: Vec<_> = drives.iter().map(SimDrive::blocks_written).collect();
    let options = OpenOptions {
        entropy: Entropy::seeded(4),
        ..OpenOptions::new(host)
    };
    match Pool::open(drives.to_vec(), options).await {
        Ok(pool) => pool.close().await,
        Err(error) => {
            let after: Vec<_> = drives.iter().map(SimDrive::blocks_written).collect();
            assert!(before == after, "a refused pool was written: {error}");
            Err(error)
        }
    }
}

/// What is said when the pool is refused.
async fn refused(drives: &[SimDrive]) -> String {
    let refused = try_open(drives, HOST).await;
    refused.expect_err("refused").to_string()
}

async fn overwrite(drive: &SimDrive, at: u64, content: u8) {
    let mut buffer = Buffer::new(BLOCK);
    buffer.fill(content);
    let written = drive.write(Lba(at), buffer, Durability::Durable).await;
    written.1.expect("written");
}

/// The superblocks of a drive: the first in block 1, the other in its last block.
fn slots(drive: &SimDrive) -> Vec<u64> {
    heads(drive).into_iter().chain(copies(drive)).collect()
}

async fn opens_and_reads(drives: &[SimDrive]) {
    let pool = open(drives).await;
    let id = pool.volumes()[0].id;
    assert_runs(&pool, id, 25).await;
    pool.close().await.expect("closed");
}

#[test]
fn an_overwritten_end_of_any_drive_leaves_the_other() {
    for slot in 0..2 {
        with_drives(3, async |drives| {
            closed_pool(&drives).await;
            for drive in &drives {
                overwrite(drive, slots(drive)[slot], 0xaa).await;
            }
            opens_and_reads(&drives).await;
        });
    }
}

#[test]
fn a_drive_without_superblocks_counts_as_missing() {
    with_drives(3, async |drives| {
        closed_pool(&drives).await;
        for slot in slots(&drives[1]) {
            overwrite(&drives[1], slot, 0).await;
        }
        opens_and_reads(&drives).await;
        for slot in slots(&drives[2]) {
            overwrite(&drives[2], slot, 0).await;
        }
        let said = refused(&drives).await;
        assert!(
            said.starts_with("1 of 3 members are there and current; 2 are needed: member"),
            "{said}"
        );
        for slot in slots(&drives[0]) {
            overwrite(&drives[0], slot, 0).await;
        }
        assert_eq!(refused(&drives).await, "no drive carries a pool");
    });
}

#[test]
fn too_few_drives_are_refused_and_the_missing_ones_named() {
    with_drives(3, async |drives| {
        closed_pool(&drives).await;
        let said = refused(&drives[..1]).await;
        assert!(
            said.starts_with("1 of 3 members are there and current; 2 are needed: member 1 ("),
            "{said}"
        );
        assert!(said.contains("is absent, member 2 ("), "{said}");
        opens_and_reads(&drives).await;
    });
}

#[test]
fn a_cloned_drive_is_refused() {
    with_drives(4, async |drives| {
        closed_pool(&drives[..3]).await;
        for (block, content) in drives[1].blocks_written() {
            drives[3].put(block, content);
        }
        assert_eq!(
            refused(&drives).await,
            "two of the drives are copies of one another (member 1); give only the true one"
        );
        opens_and_reads(&drives[..3]).await;
    });
}

#[test]
fn drives_of_two_pools_are_refused() {
    with_drives(6, async |drives| {
        closed_pool(&drives[..3]).await;
        let options = CreateOptions {
            zone_bytes: Some(32 * BLOCK as u64),
            entropy: Entropy::seeded(77),
            ..CreateOptions::new("other", Level::Raid5, HOST)
        };
        let other = Pool::create(drives[3..].to_vec(), options)
            .await
            .expect("a pool");
        other.close().await.expect("closed");
        let mixed = [drives[0].clone(), drives[1].clone(), drives[4].clone()];
        assert_eq!(
            refused(&mixed).await,
            "the drives belong to different pools: \"tank\" and \"other\"; give those of one"
        );
    });
}

#[test]
fn a_drive_of_a_pool_is_not_taken_for_another() {
    with_drives(3, async |drives| {
        closed_pool(&drives).await;
        let options = CreateOptions::new("other", Level::Raid5, HOST);
        let taken = Pool::create(drives.clone(), options).await.err();
        assert_eq!(
            taken.expect("refused").to_string(),
            "drive 0 belongs to pool \"tank\"; wipe it first if that pool is not needed"
        );
    });
}

#[test]
fn a_pool_of_a_newer_version_is_refused_and_left_alone() {
    with_drives(3, async |drives| {
        closed_pool(&drives).await;
        for slot in slots(&drives[1]) {
            let (buffer, read) = drives[1].read(Lba(slot), Buffer::new(BLOCK)).await;
            read.expect("read");
            let mut newer = buffer.to_vec();
            newer[8] = 4;
            newer[12..16].fill(0);
            let checksum = crc_fast::crc32_iscsi(&newer);
            newer[12..16].copy_from_slice(&checksum.to_le_bytes());
            drives[1].put(slot, newer);
        }
        assert_eq!(
            refused(&drives).await,
            "pool \"tank\" has format version 4; this program knows versions up to 3: use a newer \
             one"
        );
        let pool = pool::probe(&drives[0]).await.unwrap().unwrap().pool;
        let newer = PoolError::NewerFormat(NewerFormat {
            version: 4,
            features: 0,
            pool,
            pool_name: "tank".into(),
        });
        assert_eq!(pool::probe(&drives[1]).await.err(), Some(newer));
        let said = Pool::create(drives.clone(), CreateOptions::new("b", Level::Raid5, HOST)).await;
        assert!(said.is_err(), "it is not overwritten either");
    });
}

#[test]
fn a_pool_that_another_host_holds_is_refused_unless_it_is_forced() {
    with_drives(3, async |drives| {
        closed_pool(&drives).await;
        let stranger = HostId([9; 16]);
        let said = try_open(&drives, stranger).await.expect_err("refused");
        assert_eq!(
            said.to_string(),
            format!(
                "host {} holds the pool; export it there, or force if that host is off",
                "01".repeat(16)
            )
        );
        let options = OpenOptions {
            force: true,
            ..OpenOptions::new(stranger)
        };
        let pool = Pool::open(drives.clone(), options).await.expect("forced");
        pool.export().await.expect("exported");
        assert_eq!(try_open(&drives, HOST).await, Ok(()), "nobody holds it");
    });
}

#[test]
fn two_halves_that_were_used_apart_are_refused_together() {
    with_drives(2, async |drives| {
        let pool = create(&drives, Level::Raid1).await;
        pool.close().await.expect("closed");
        for (seed, half) in [(8, &drives[..1]), (9, &drives[1..])] {
            let options = OpenOptions {
                entropy: Entropy::seeded(seed),
                ..OpenOptions::new(HOST)
            };
            let pool = Pool::open(half.to_vec(), options).await;
            let pool = pool.expect("half a mirror is enough");
            volume(&pool, "a", 10).await;
            pool.close().await.expect("closed");
        }
        let said = refused(&drives).await;
        assert!(
            said.starts_with("the drives were used apart: some as epoch"),
            "{said}"
        );
        assert!(said.ends_with("open the pool with only the set that is to be kept"));
    });
}
