//! Large writes: those that a host sends at once arrive one by one, and go into one stripe; what is
//! written of one that is cut in two is not written again.

use crate::support::{BLOCK, create, read, try_write, volume, with_drives_of, with_pool, write};
use block::{BlockDevice, Buffer, Durability, Lba};
use pool::Level;

const BLOCKS: u64 = 32;

#[test]
fn large_writes_that_come_turn_by_turn_share_a_stripe() {
    with_pool(Level::Raid6, 6, async |pool, _| {
        let id = volume(&pool, "v", 800).await;
        let device = pool.volume(id).expect("the volume");
        let before = pool.counters().stripes;
        let mut writes = Vec::new();
        for nth in 0..3 {
            let device = device.clone();
            writes.push(reactor::spawn(async move {
                let data = Buffer::zeroed(BLOCKS as usize * BLOCK);
                let at = Lba(nth * BLOCKS);
                device.write(at, data, Durability::Durable).await.1
            }));
            reactor::yield_now().await;
        }
        for write in writes {
            write.await.expect("there is room");
        }
        assert_eq!(pool.counters().stripes - before, 1);
    });
}

/// A write of which a snapshot overtook the rest was written again as a whole: what had been read
/// of it, and then overwritten, came back.
#[test]
fn what_is_written_of_a_write_that_a_snapshot_overtakes_is_not_written_again() {
    with_drives_of(1, 4000, async |drives| {
        let pool = create(&drives, Level::Raid0).await;
        let usable = pool.status().usable_bytes / BLOCK as u64;
        let (held, large) = (usable / 2, usable / 5);
        let id = volume(&pool, "v", held).await;
        write(&pool, id, 0, held, 1).await;
        pool.checkpoint().await.expect("checkpoint");
        // These count as new ones. So there is room for the large write only as the volume holds
        // its blocks, until the snapshot does.
        write(&pool, id, 0, usable * 2 / 5, 2).await;
        let in_parts = {
            let pool = pool.clone();
            reactor::spawn(async move { write(&pool, id, 0, large, 3).await })
        };
        while read(&pool, id, 0, 1).await[0] != 3 {}
        let after_it = {
            let device = pool.volume(id).expect("the volume");
            reactor::spawn(async move { try_write(&device, 0, 1).await })
        };
        reactor::yield_now().await;
        let taken = pool.snapshot(&[(id, "then".to_owned())]).await;
        let then = taken.expect("a snapshot")[0];
        assert_eq!(after_it.await, Ok(()));
        in_parts.await;
        assert_eq!(read(&pool, id, 0, 1).await[0], 0, "overwritten");
        assert_eq!(read(&pool, id, 1, 1).await[0], 3);
        assert_eq!(read(&pool, id, large - 1, 1).await[0], 3);
        let then = pool.snapshot_device(then).expect("the snapshot");
        let last = then.read(Lba(large - 1), Buffer::new(BLOCK)).await;
        assert_eq!(
            last.0[..],
            [2; BLOCK],
            "all was written before the snapshot"
        );
        pool.close().await.expect("closed");
    });
}
