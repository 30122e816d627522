//! Backups by the snapshot metadata service: a full one, then what has changed, restored elsewhere.

use std::fs::File;
use std::os::unix::fs::FileExt;

use csi::proto::volume_capability::access_mode::Mode;
use csi::proto::*;
use csi_calls::{Answer, Caller, Claim, capability};
use tonic::Code;

use crate::cluster::Cluster;
use crate::support::name;

const MIB: usize = 1 << 20;
const BLOCK: usize = 4096;
const VOLUME_MIB: usize = 64;
const VOLUME_BYTES: usize = VOLUME_MIB * MIB;

/// Ranges, and the size that every message names.
type Ranges = Vec<(u64, usize)>;

fn ranges(all: impl IntoIterator<Item = (i64, Vec<BlockMetadata>)>, most: usize) -> Ranges {
    let mut found: Ranges = Vec::new();
    for (capacity, ranges) in all {
        assert_eq!(capacity, VOLUME_BYTES as i64);
        assert!(most == 0 || ranges.len() <= most);
        for range in ranges {
            let (start, bytes) = (range.byte_offset as u64, range.size_bytes as usize);
            let before = found.last().map_or(0, |(at, bytes)| at + *bytes as u64);
            assert!(
                start >= before && bytes > 0,
                "{start}+{bytes} after {before}"
            );
            found.push((start, bytes));
        }
    }
    found
}

fn allocated(caller: &Caller, snapshot: &str, from: i64, most: i32) -> Answer<Ranges> {
    let told = caller.get_metadata_allocated(GetMetadataAllocatedRequest {
        snapshot_id: snapshot.to_owned(),
        starting_offset: from,
        max_results: most,
        ..GetMetadataAllocatedRequest::default()
    })?;
    let parts = told.into_iter();
    let parts = parts.map(|part| (part.volume_capacity_bytes, part.block_metadata));
    Ok(ranges(parts, most as usize))
}

fn delta(caller: &Caller, base: &str, target: &str, from: i64, most: i32) -> Answer<Ranges> {
    let told = caller.get_metadata_delta(GetMetadataDeltaRequest {
        base_snapshot_id: base.to_owned(),
        target_snapshot_id: target.to_owned(),
        starting_offset: from,
        max_results: most,
        ..GetMetadataDeltaRequest::default()
    })?;
    let parts = told.into_iter();
    let parts = parts.map(|part| (part.volume_capacity_bytes, part.block_metadata));
    Ok(ranges(parts, most as usize))
}

/// A volume that starts out as the snapshot, at the host.
fn restored(caller: &Caller, cluster: &Cluster, snapshot: &str) -> Claim {
    let raw = capability(Mode::SingleNodeWriter, None);
    let called = format!("pvc-of-{}", &snapshot[4..20]);
    let mut claim = Claim::new(&called, VOLUME_MIB as i64, raw, cluster.directory.path());
    claim.restore_from(snapshot);
    claim.bring(caller, "host").unwrap();
    claim
}

fn contents(claim: &Claim) -> Vec<u8> {
    let mut all = vec![0; VOLUME_BYTES];
    let device = File::open(&claim.target).unwrap();
    device.read_exact_at(&mut all, 0).unwrap();
    all
}

/// Copies ranges of a volume to a backup; returns how many bytes.
fn copy(claim: &Claim, ranges: &Ranges, to: &mut [u8]) -> usize {
    let device = File::open(&claim.target).unwrap();
    let copied = ranges.iter().map(|(start, bytes)| {
        let at = *start as usize;
        device
            .read_exact_at(&mut to[at..at + bytes], *start)
            .unwrap();
        bytes
    });
    copied.sum()
}

fn bytes_of(ranges: &Ranges) -> usize {
    ranges.iter().map(|(_, bytes)| bytes).sum()
}

/// A full backup, and one of what changed since, with the node started anew in between and the
/// snapshots between deleted: restored, they are the snapshots. Not more is read than was written.
#[test]
fn a_backup_of_what_changed_is_the_snapshot() {
    let mut cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let raw = capability(Mode::SingleNodeWriter, None);
    let directory = cluster.directory.path().to_owned();
    let mut claim = Claim::new("pvc-data", VOLUME_MIB as i64, raw, &directory);
    claim.bring(&caller, "host").unwrap();
    let device = File::options().write(true).open(&claim.target).unwrap();
    for mib in (0..VOLUME_MIB).step_by(4) {
        let block = vec![mib as u8 + 1; MIB];
        device.write_all_at(&block, (mib * MIB) as u64).unwrap();
    }
    device.sync_all().unwrap();
    let first = claim.snapshot(&caller, "first").unwrap().snapshot_id;
    // One block of each hundred, half of them before another snapshot.
    let changed: Vec<usize> = (0..VOLUME_BYTES).step_by(100 * BLOCK).collect();
    let (early, late) = changed.split_at(changed.len() / 2);
    let write = |places: &[usize]| {
        for at in places {
            device.write_all_at(&[0xaa; BLOCK], *at as u64).unwrap();
        }
        device.sync_all().unwrap();
    };
    write(early);
    let between = claim.snapshot(&caller, "between").unwrap().snapshot_id;
    write(late);
    let second = claim.snapshot(&caller, "second").unwrap().snapshot_id;
    drop(device);

    let full = allocated(&caller, &first, 0, 0).unwrap();
    assert_eq!(bytes_of(&full), VOLUME_BYTES / 4);
    let incremental = delta(&caller, &first, &second, 0, 0).unwrap();
    assert_eq!(bytes_of(&incremental), changed.len() * BLOCK);
    for most in [1, 7] {
        let again = delta(&caller, &first, &second, 0, most).unwrap();
        assert_eq!(again, incremental);
    }
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    caller
        .delete_snapshot(DeleteSnapshotRequest {
            snapshot_id: between.clone(),
            ..DeleteSnapshotRequest::default()
        })
        .unwrap();
    // A call that was interrupted goes on where it was.
    let (start, bytes) = incremental[incremental.len() / 2];
    let rest = delta(&caller, &first, &second, start as i64 + bytes as i64, 0).unwrap();
    assert_eq!(rest, incremental[incremental.len() / 2 + 1..]);

    let mut backup = vec![0; VOLUME_BYTES];
    for (snapshot, ranges) in [(&first, &full), (&second, &incremental)] {
        let source = restored(&caller, &cluster, snapshot);
        copy(&source, ranges, &mut backup);
        assert!(contents(&source) == backup, "{snapshot}");
        source.take(&caller, "host").unwrap();
    }
    let gone = delta(&caller, &between, &second, 0, 0).unwrap_err();
    assert_eq!(gone.code(), Code::NotFound, "{gone}");
    claim.take(&caller, "host").unwrap();
    // The volume is gone, its snapshots are as they were.
    let still = delta(&caller, &first, &second, 0, 0).unwrap();
    assert_eq!(still, incremental);
}

/// Mistakes by name, with the status of the specification.
#[test]
fn ranges_of_what_is_not_there_are_refused() {
    let cluster = Cluster::of(1);
    let plugin = cluster.plugin("host");
    let caller = plugin.caller();
    let raw = || capability(Mode::SingleNodeWriter, None);
    let mut snapshots = Vec::new();
    for called in ["pvc-a", "pvc-b"] {
        let directory = cluster.directory.path();
        let mut claim = Claim::new(called, VOLUME_MIB as i64, raw(), directory);
        claim.created(&caller).unwrap();
        snapshots.push(claim.snapshot(&caller, called).unwrap().snapshot_id);
    }
    let [a, b] = [&snapshots[0], &snapshots[1]];
    for from in [0, VOLUME_BYTES as i64] {
        assert_eq!(allocated(&caller, a, from, 0).unwrap(), []);
    }
    let code = |answer: Answer<Ranges>, word: &str| {
        let refused = answer.unwrap_err();
        assert!(refused.message().contains(word), "{refused}");
        refused.code()
    };
    let beyond = VOLUME_BYTES as i64 + 1;
    for from in [-1, beyond] {
        let refused = allocated(&caller, a, from, 0);
        assert_eq!(code(refused, "starting_offset"), Code::OutOfRange);
    }
    assert_eq!(
        code(allocated(&caller, "", 0, 0), "snapshot_id"),
        Code::InvalidArgument
    );
    assert_eq!(
        code(allocated(&caller, a, 0, -1), "max_results"),
        Code::InvalidArgument
    );
    assert_eq!(
        code(allocated(&caller, "none/at-all", 0, 0), "none"),
        Code::NotFound
    );
    assert_eq!(
        code(delta(&caller, "", a, 0, 0), "base"),
        Code::InvalidArgument
    );
    assert_eq!(
        code(delta(&caller, a, "", 0, 0), "target"),
        Code::InvalidArgument
    );
    let foreign = delta(&caller, b, a, 0, 0);
    assert_eq!(
        code(foreign, "snapshots of one volume"),
        Code::InvalidArgument
    );
    // Snapshots that other commands took, by their pool's name and their own.
    let node = &cluster.nodes[0];
    node.answer(&["volume", "snapshot", "pvc-a", "monday"]);
    let pool = node.client().snapshot(&name("monday").into()).unwrap().pool;
    let monday = format!("{pool}/monday");
    assert_eq!(delta(&caller, a, &monday, 0, 0).unwrap(), []);
}
