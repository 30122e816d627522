//! Filling a device and writing over it at random, as a host with a queue does.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Lba};
use lab::load::{Permutation, SplitMix};

use crate::sparse::BLOCK_BYTES;

/// Blocks of the requests that fill a device.
const FILL_BLOCKS: u64 = 16;
/// Blocks of those that read it in order.
const READ_BLOCKS: u64 = 32;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Uniform,
    /// Four writes in five go to one block in five.
    Skewed,
}

impl Pattern {
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Uniform => "uniform",
            Pattern::Skewed => "80/20",
        }
    }

    fn choose(self, random: &mut SplitMix, scattered: &Permutation, blocks: u64) -> u64 {
        let hot = blocks / 5;
        match self {
            Pattern::Uniform => random.below(blocks),
            Pattern::Skewed if random.below(5) < 4 => scattered.at(random.below(hot)),
            Pattern::Skewed => scattered.at(hot + random.below(blocks - hot)),
        }
    }
}

/// Writes every block once, in order.
pub async fn fill<D: BlockDevice>(device: &Rc<D>, blocks: u64) {
    for start in (0..blocks).step_by(FILL_BLOCKS as usize) {
        let count = (blocks - start).min(FILL_BLOCKS) as usize;
        let buffer = Buffer::zeroed(count * BLOCK_BYTES);
        let (_, result) = device.write(Lba(start), buffer, Durability::Durable).await;
        result.expect("the volume fits the pool");
    }
}

/// Reads every block, but for a few at the end, in order, 128 KiB at a time; returns with how many
/// requests.
pub async fn read_in_order<D: BlockDevice>(device: &Rc<D>, blocks: u64) -> u64 {
    let requests = blocks / READ_BLOCKS;
    for request in 0..requests {
        let buffer = Buffer::new(READ_BLOCKS as usize * BLOCK_BYTES);
        let (_, result) = device.read(Lba(request * READ_BLOCKS), buffer).await;
        result.expect("it was written");
    }
    requests
}

/// Writes `writes` single blocks with `outstanding` of them under way.
pub async fn random_writes<D: BlockDevice + 'static>(
    device: &Rc<D>,
    blocks: u64,
    writes: u64,
    outstanding: u64,
    pattern: Pattern,
) {
    let left = Rc::new(Cell::new(writes));
    let scattered = Rc::new(Permutation::new(blocks, 7));
    let tasks: Vec<_> = (0..outstanding)
        .map(|slot| {
            let (device, left, scattered) = (device.clone(), left.clone(), scattered.clone());
            reactor::spawn(async move {
                let mut random = SplitMix::new(slot << 32 | writes);
                let mut buffer = Buffer::zeroed(BLOCK_BYTES);
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    let at = Lba(pattern.choose(&mut random, &scattered, blocks));
                    let (back, result) = device.write(at, buffer, Durability::Durable).await;
                    result.expect("overwriting needs no room");
                    buffer = back;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await;
    }
}
