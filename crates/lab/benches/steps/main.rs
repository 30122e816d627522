//! For how long work on a large pool keeps its core from everybody else: 50,000 snapshots, a PB of
//! drives in memory that is taken as it is written, as many shards as `SHARDS` says (1), all on one
//! core. A step should take less than 10 ms. Shards of one core share a turn: with many of them,
//! the longest one has a step of each. Prints a table, and writes `target/bench/steps.json`.

mod turns;

use std::time::Instant;

use block::{BlockDevice, Buffer, Durability, Geometry, Lba};
use drive::MemoryDrive;
use pool::{
    CreateOptions, Entropy, HostId, Level, OpenOptions, Pool, PoolError, Settings, Shard, Sliced,
    VolumeId, VolumeOptions, Wiring,
};
use reactor::{Reactor, ReactorConfig};
use serde_json::json;
use turns::{SuspendingDrive, Turns};

const BLOCK_BYTES: usize = 4096;
const DRIVES: u64 = 24;
/// Bytes of all drives.
const BYTES: u64 = 1 << 50;
/// Volumes, how many snapshots each has, and every how many turns one of them is written to.
const VOLUMES: u64 = 200;
const SNAPSHOTS: usize = 250;
const HOST: HostId = HostId([1; 16]);

type Drives = Vec<SuspendingDrive>;
type Device = Sliced<pool::PoolVolume<SuspendingDrive>>;

fn main() {
    if !bench::is_asked_for() {
        return;
    }
    let shards: usize = std::env::var("SHARDS")
        .ok()
        .map_or(1, |text| text.parse().expect("a number of shards"));
    let blocks = BYTES / DRIVES / BLOCK_BYTES as u64;
    let geometry = Geometry::new(BLOCK_BYTES as u32, blocks).expect("a size that there is");
    let drives: Drives = (0..=DRIVES)
        .map(|_| SuspendingDrive(MemoryDrive::new(geometry)))
        .collect();
    let reactor = Reactor::io_uring(ReactorConfig::default()).expect("io_uring");
    let steps = reactor.run(measure(shards, drives));
    println!(
        "{} snapshots, 1 PB, {shards} shards",
        VOLUMES as usize * SNAPSHOTS
    );
    println!("{:40} longest step, ms      all, ms", "");
    for (what, longest_ms, all_ms) in &steps {
        println!("{what:40} {longest_ms:16.1} {all_ms:12.0}");
    }
    let steps = steps.into_iter().map(|(what, longest_ms, all_ms)| {
        json!({ "what": what, "longest_step_ms": longest_ms, "ms": all_ms })
    });
    let result = json!({ "shards": shards, "work": steps.collect::<Vec<_>>() });
    bench::save("steps", &["shards"], &result);
}

/// A pool with its shards.
struct Served {
    pool: Pool<SuspendingDrive>,
    others: Vec<Shard<SuspendingDrive>>,
}

impl Served {
    async fn start(
        shards: usize,
        drives: &Drives,
        first: impl AsyncFnOnce(Wiring) -> Result<Pool<SuspendingDrive>, PoolError>,
    ) -> Served {
        let mut wiring = pool::wire(shards);
        let others = wiring.split_off(1).into_iter();
        let joining = others.map(|wiring| reactor::spawn(Shard::join(wiring, drives.clone())));
        let joining: Vec<_> = joining.collect();
        let pool = first(wiring.swap_remove(0)).await.expect("a pool");
        let mut others = Vec::new();
        for joined in joining {
            others.push(joined.await.expect("a shard"));
        }
        Served { pool, others }
    }

    fn volume(&self, id: VolumeId) -> Device {
        let mut parts = vec![self.pool.volume(id).expect("a volume")];
        let others = self.others.iter();
        parts.extend(others.map(|shard| shard.volume(id).expect("a volume")));
        Sliced::new(parts, Settings::default().slice_blocks)
    }

    async fn write(&self, id: VolumeId, at: u64) {
        let buffer = Buffer::zeroed(8 * BLOCK_BYTES);
        let device = self.volume(id);
        let (_, result) = device.write(Lba(at * 8), buffer, Durability::Durable).await;
        result.expect("it fits");
    }

    /// A snapshot of every volume, all at one instant.
    async fn snapshot(&self, volumes: &[VolumeId], turn: usize) {
        let named = volumes.iter().map(|id| (*id, format!("s{}-{turn}", id.0)));
        let named: Vec<_> = named.collect();
        self.pool.snapshot(&named).await.expect("snapshots");
    }
}

/// What was done, its longest step in ms of processor time, and how long all of it took in ms.
type Steps = Vec<(&'static str, f64, f64)>;

async fn measure(shards: usize, mut drives: Drives) -> Steps {
    let spare = drives.pop().expect("a drive more");
    let entropy = |seed| Entropy::seeded(seed);
    let create = CreateOptions {
        entropy: entropy(1),
        ..CreateOptions::new("bench", Level::Raid6, HOST)
    };
    let served = Served::start(shards, &drives, async |first| {
        Pool::create_on(first, drives.clone(), create).await
    })
    .await;
    fill(&served).await;
    served.pool.close().await.expect("closed");
    let turns = Turns::watch();
    let mut steps = Steps::new();
    let mut begun = Instant::now();
    let mut did = |what| {
        let all_ms = begun.elapsed().as_secs_f64() * 1e3;
        steps.push((what, turns.take_longest_ms(), all_ms));
        begun = Instant::now();
    };
    let open = OpenOptions {
        entropy: entropy(2),
        ..OpenOptions::new(HOST)
    };
    let served = Served::start(shards, &drives, async |first| {
        Pool::open_on(first, drives.clone(), open).await
    })
    .await;
    did("opening");
    change(&served, &mut did).await;
    keep_up(&served, spare, &mut did).await;
    served.pool.close().await.expect("closed");
    did("closing");
    steps
}

/// Makes volumes and snapshots, with a block here and there in them.
async fn fill(served: &Served) {
    let mut volumes = Vec::new();
    for at in 0..VOLUMES {
        volumes.push(make(served, &format!("v{at}")).await);
    }
    for turn in 0..SNAPSHOTS {
        for id in volumes.iter().skip(turn % 10).step_by(10) {
            served.write(*id, turn as u64).await;
        }
        served.snapshot(&volumes, turn).await;
    }
}

async fn make(served: &Served, name: &str) -> VolumeId {
    let options = VolumeOptions {
        bytes: 1 << 42,
        reserved: false,
        attributes: Vec::new(),
    };
    let made = served.pool.create_volume(name, options).await;
    made.expect("a volume")
}

/// What users change.
async fn change(served: &Served, did: &mut impl FnMut(&'static str)) {
    let pool = &served.pool;
    let volumes: Vec<_> = pool.volumes().into_iter().map(|volume| volume.id).collect();
    did("listing volumes");
    let snapshots = pool.snapshots();
    did("listing snapshots");
    make(served, "more").await;
    did("making a volume");
    served.snapshot(&volumes[..1], SNAPSHOTS).await;
    did("a snapshot of one volume");
    served.snapshot(&volumes, SNAPSHOTS + 1).await;
    did("a snapshot of all volumes at once");
    served.write(volumes[7], 9).await;
    did("writing");
    let oldest = snapshots.first().expect("a snapshot");
    pool.rollback(oldest.volume, oldest.id)
        .await
        .expect("gone back");
    did("rolling a volume back");
    let newest = snapshots.last().expect("a snapshot");
    let cloned = pool.clone_snapshot(newest.id, "clone").await;
    cloned.expect("a clone");
    did("cloning a snapshot");
    for snapshot in snapshots.iter().step_by(snapshots.len() / 20) {
        let deleted = pool.delete_snapshot(snapshot.id).await;
        // The clone holds its own.
        assert!(deleted.is_ok() || snapshot.id == newest.id, "{deleted:?}");
    }
    did("deleting snapshots");
    pool.delete_volume(volumes[1]).await.expect("deleted");
    did("deleting a volume");
    pool.checkpoint().await.expect("a checkpoint");
    did("a checkpoint");
    pool.status();
    did("the status");
}

/// What the pool does, or is told to.
async fn keep_up(served: &Served, spare: SuspendingDrive, did: &mut impl FnMut(&'static str)) {
    let pool = &served.pool;
    pool.accounting().await.expect("an account");
    did("the account");
    let report = pool.scrub().await.expect("a scrub");
    assert_eq!(report.lost_blocks, 0);
    did("a scrub");
    for shard in &served.others {
        shard.offer_drive(spare.clone());
    }
    pool.add_drive(spare).await.expect("it joins");
    did("adding a drive");
    let first = pool.status().drives[0].id;
    pool.remove_drive(first).await.expect("it leaves");
    did("removing a drive");
}
