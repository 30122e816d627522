//! Large writes that a host sends at once arrive one by one, and go into one stripe.

use crate::support::{BLOCK, volume, with_pool};
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
