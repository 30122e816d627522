//! The test every [`BlockDevice`] passes: seeded random operations against a byte-for-byte model.
//!
//! Runs on whatever executor the caller awaits it on. Failures are returned as text with the seed,
//! so that one line reproduces them. The device's first blocks are overwritten.

use crate::{BlockDevice, BlockRange, Buffer, Durability, IoError, Lba};

/// How much of the device is exercised, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Chooses every operation.
    pub seed: u64,
    /// Number of random operations.
    pub operations: u32,
    /// Blocks from the start of the device that are used (at most its capacity).
    pub blocks: u64,
    /// Largest single transfer in blocks.
    pub transfer_blocks: u64,
}

impl Plan {
    /// A quick plan: 500 operations over 256 blocks.
    pub fn quick(seed: u64) -> Plan {
        Plan {
            seed,
            operations: 500,
            blocks: 256,
            transfer_blocks: 32,
        }
    }
}

/// Checks `device` against the contract of [`BlockDevice`].
///
/// # Errors
/// The first deviation found, with the seed and the operation's number.
pub async fn check<D: BlockDevice>(device: &D, plan: Plan) -> Result<(), String> {
    refuses_bad_requests(device)
        .await
        .map_err(|found| format!("seed={} {found}", plan.seed))?;
    let mut run = Run::start(device, plan).await?;
    for number in 0..plan.operations {
        run.step()
            .await
            .map_err(|found| format!("seed={} operation {number}: {found}", plan.seed))?;
    }
    run.verify(0, run.blocks)
        .await
        .map_err(|found| format!("seed={} at the end: {found}", plan.seed))
}

async fn refuses_bad_requests<D: BlockDevice>(device: &D) -> Result<(), String> {
    let geometry = device.geometry();
    let block = geometry.block_bytes as usize;
    let cases = [
        (
            "a read past the end",
            Lba(geometry.block_count),
            block,
            IoError::OutOfRange,
        ),
        (
            "a read across the end",
            Lba(geometry.block_count - 1),
            2 * block,
            IoError::OutOfRange,
        ),
        (
            "a read that wraps",
            Lba(u64::MAX),
            2 * block,
            IoError::OutOfRange,
        ),
        (
            "a read of part of a block",
            Lba(0),
            block - 1,
            IoError::InvalidRequest,
        ),
        ("an empty read", Lba(0), 0, IoError::InvalidRequest),
    ];
    for (what, start, bytes, expected) in cases {
        let (buffer, result) = device.read(start, Buffer::new(bytes)).await;
        expect_refused(what, &buffer, bytes, result, expected)?;
        let (buffer, result) = device
            .write(start, Buffer::zeroed(bytes), Durability::Cached)
            .await;
        expect_refused(
            &what.replace("read", "write"),
            &buffer,
            bytes,
            result,
            expected,
        )?;
        refuses_vectored(device, what, start, bytes, expected).await?;
    }
    let past = BlockRange::new(Lba(geometry.block_count), 1);
    let wraps = BlockRange::new(Lba(u64::MAX), 2);
    for range in [past, wraps] {
        let results = [
            device.deallocate(range).await,
            device.write_zeroes(range, Durability::Cached).await,
        ];
        if results != [Err(IoError::OutOfRange); 2] {
            return Err(format!(
                "deallocate and write zeroes of {range:?} gave {results:?}"
            ));
        }
    }
    let empty = BlockRange::new(Lba(0), 0);
    match (
        device.deallocate(empty).await,
        device.write_zeroes(empty, Durability::Cached).await,
    ) {
        (Ok(()), Ok(())) => Ok(()),
        found => Err(format!(
            "deallocate and write zeroes of nothing gave {found:?}"
        )),
    }
}

/// A vectored write is refused as one of a single buffer is, and if one of its buffers is no whole
/// number of blocks.
async fn refuses_vectored<D: BlockDevice>(
    device: &D,
    what: &str,
    start: Lba,
    bytes: usize,
    expected: IoError,
) -> Result<(), String> {
    let block = device.geometry().block_bytes as usize;
    let inside = Lba(start.0.min(device.geometry().block_count.saturating_sub(2)));
    let halves = vec![Buffer::zeroed(block / 2), Buffer::zeroed(block - block / 2)];
    let cases = [
        (start, vec![Buffer::zeroed(bytes)], expected),
        (inside, halves, IoError::InvalidRequest),
        (inside, Vec::new(), IoError::InvalidRequest),
    ];
    for (start, buffers, expected) in cases {
        let lengths: Vec<usize> = buffers.iter().map(|buffer| buffer.len()).collect();
        let write = device.write_vectored(start, buffers, Durability::Cached);
        let (buffers, result) = write.await;
        let back: Vec<usize> = buffers.iter().map(|buffer| buffer.len()).collect();
        if back != lengths || result != Err(expected) {
            return Err(format!(
                "{what}, vectored, buffers of {lengths:?}: expected {expected:?}, found {result:?} \
                 and buffers of {back:?}"
            ));
        }
    }
    Ok(())
}

fn expect_refused(
    what: &str,
    buffer: &Buffer,
    bytes: usize,
    result: Result<(), IoError>,
    expected: IoError,
) -> Result<(), String> {
    if buffer.len() != bytes {
        return Err(format!(
            "{what}: buffer of {bytes} bytes came back with {}",
            buffer.len()
        ));
    }
    if result != Err(expected) {
        return Err(format!("{what}: expected {expected:?}, found {result:?}"));
    }
    Ok(())
}

/// One run: the device beside the bytes it should hold.
struct Run<'a, D> {
    device: &'a D,
    model: Vec<u8>,
    random: SplitMix,
    block: usize,
    blocks: u64,
    transfer_blocks: u64,
}

impl<'a, D: BlockDevice> Run<'a, D> {
    async fn start(device: &'a D, plan: Plan) -> Result<Run<'a, D>, String> {
        let geometry = device.geometry();
        let blocks = plan.blocks.min(geometry.block_count).max(1);
        let range = BlockRange::new(Lba(0), blocks);
        device
            .write_zeroes(range, Durability::Cached)
            .await
            .map_err(|error| format!("seed={}: first write zeroes: {error}", plan.seed))?;
        let block = geometry.block_bytes as usize;
        Ok(Run {
            device,
            model: vec![0; blocks as usize * block],
            random: SplitMix(plan.seed),
            block,
            blocks,
            transfer_blocks: plan.transfer_blocks.clamp(1, blocks),
        })
    }

    async fn step(&mut self) -> Result<(), String> {
        let start = self.random.below(self.blocks);
        let longest = self.transfer_blocks.min(self.blocks - start);
        let blocks = 1 + self.random.below(longest);
        match self.random.below(10) {
            0..=3 => self.write(start, blocks).await,
            4..=6 => self.verify(start, blocks).await,
            7 => self.zero(start, blocks).await,
            8 => self.deallocate(start, blocks).await,
            _ => self
                .device
                .flush()
                .await
                .map_err(|error| format!("flush: {error}")),
        }
    }

    fn bytes(&self, start: u64, blocks: u64) -> std::ops::Range<usize> {
        start as usize * self.block..(start + blocks) as usize * self.block
    }

    fn durability(&mut self) -> Durability {
        if self.random.below(4) == 0 {
            Durability::Durable
        } else {
            Durability::Cached
        }
    }

    async fn write(&mut self, start: u64, blocks: u64) -> Result<(), String> {
        let bytes = self.bytes(start, blocks);
        self.random.fill(&mut self.model[bytes.clone()]);
        let expected = bytes.len();
        let durability = self.durability();
        if self.random.below(2) == 0 {
            return self.write_in_pieces(start, blocks, durability).await;
        }
        let data = Buffer::copy_of(&self.model[bytes]);
        let (buffer, result) = self.device.write(Lba(start), data, durability).await;
        if buffer.len() != expected {
            return Err(format!(
                "write of {expected} bytes gave back {}",
                buffer.len()
            ));
        }
        result.map_err(|error| format!("write of {blocks} blocks at {start}: {error}"))
    }

    /// Writes what the model has in buffers of random lengths.
    async fn write_in_pieces(
        &mut self,
        start: u64,
        blocks: u64,
        durability: Durability,
    ) -> Result<(), String> {
        let mut buffers = Vec::new();
        let mut at = start;
        while at < start + blocks {
            let piece = 1 + self.random.below(start + blocks - at);
            buffers.push(Buffer::copy_of(&self.model[self.bytes(at, piece)]));
            at += piece;
        }
        let write = self.device.write_vectored(Lba(start), buffers, durability);
        let (buffers, result) = write.await;
        let pieces = buffers.len();
        result.map_err(|error| format!("write of {pieces} buffers at {start}: {error}"))?;
        let back: Vec<u8> = buffers
            .iter()
            .flat_map(|buffer| buffer.iter().copied())
            .collect();
        if back != self.model[self.bytes(start, blocks)] {
            return Err(format!(
                "write of {pieces} buffers at {start}: others came back"
            ));
        }
        Ok(())
    }

    async fn zero(&mut self, start: u64, blocks: u64) -> Result<(), String> {
        let bytes = self.bytes(start, blocks);
        self.model[bytes].fill(0);
        let durability = self.durability();
        self.device
            .write_zeroes(BlockRange::new(Lba(start), blocks), durability)
            .await
            .map_err(|error| format!("write zeroes of {blocks} blocks at {start}: {error}"))
    }

    async fn deallocate(&mut self, start: u64, blocks: u64) -> Result<(), String> {
        self.device
            .deallocate(BlockRange::new(Lba(start), blocks))
            .await
            .map_err(|error| format!("deallocate of {blocks} blocks at {start}: {error}"))?;
        if self.device.geometry().deallocates {
            let bytes = self.bytes(start, blocks);
            self.model[bytes].fill(0);
        }
        Ok(())
    }

    async fn verify(&self, start: u64, blocks: u64) -> Result<(), String> {
        let mut at = start;
        while at < start + blocks {
            let step = self.transfer_blocks.min(start + blocks - at);
            let bytes = self.bytes(at, step);
            let (buffer, result) = self.device.read(Lba(at), Buffer::new(bytes.len())).await;
            result.map_err(|error| format!("read of {step} blocks at {at}: {error}"))?;
            if buffer[..] != self.model[bytes.clone()] {
                let wrong = buffer
                    .iter()
                    .zip(&self.model[bytes])
                    .position(|(a, b)| a != b);
                return Err(format!(
                    "read of {step} blocks at {at}: differs at byte {wrong:?}"
                ));
            }
            at += step;
        }
        Ok(())
    }
}

/// SplitMix64: enough randomness for a test, and no dependency for the lowest crate.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}
