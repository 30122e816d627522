//! What a scrub found to be lost, in words: how many blocks of whom, and which.

use std::collections::BTreeMap;

use node::{BlockRange, Holder, ScrubReport, SnapshotInfo, VolumeId, VolumeInfo};

/// Ranges that are named of each volume and snapshot.
const RANGES_NAMED: usize = 8;
/// Bytes of a block that is lost.
const BLOCK_BYTES: u64 = 4096;

/// What volumes and snapshots are called.
pub(super) struct Called(BTreeMap<Holder, String>);

impl Called {
    pub fn new(volumes: &[VolumeInfo], snapshots: &[SnapshotInfo]) -> Called {
        let volumes = volumes.iter().map(|volume| {
            let holder = Holder::Volume(volume.id);
            (holder, format!("volume {}", volume.name))
        });
        let snapshots = snapshots.iter().map(|snapshot| {
            let holder = Holder::Snapshot(snapshot.id);
            (holder, format!("snapshot {}", snapshot.name))
        });
        Called(volumes.chain(snapshots).collect())
    }

    fn name(&self, holder: Holder) -> &str {
        let name = self.0.get(&holder).map(String::as_str);
        name.unwrap_or("one that has been deleted")
    }
}

/// Whose the lost blocks are, each with the first of them. Empty if none is lost that has a name.
pub(super) fn in_words(report: &ScrubReport, called: &Called) -> String {
    let blocks = report.lost.iter().map(|lost| {
        let name = called.name(lost.holder);
        format!("{} of {name}: {}", lost.blocks, ranges(&lost.ranges))
    });
    let nodes = report.nodes_lost.iter().flat_map(|node| {
        let range = range(&node.blocks);
        let holders = node.holders.iter();
        holders.map(move |holder| format!("{}: where {range} are", called.name(*holder)))
    });
    let all: Vec<String> = blocks.chain(nodes).collect();
    all.join("; ")
}

/// How many blocks each volume has lost, by its number; all that a lost node may have told of.
pub(super) fn by_volume(report: &ScrubReport, volumes: &[VolumeInfo]) -> BTreeMap<u32, u64> {
    let sizes = volumes.iter().map(|it| (it.id, it.bytes / BLOCK_BYTES));
    let sizes: BTreeMap<VolumeId, u64> = sizes.collect();
    let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
    let mut lose = |holder: &Holder, blocks: &dyn Fn(u64) -> u64| {
        if let Holder::Volume(id) = holder
            && let Some(size) = sizes.get(id)
            && blocks(*size) > 0
        {
            *lost.entry(id.0).or_default() += blocks(*size);
        }
    };
    for found in &report.lost {
        lose(&found.holder, &|size| found.blocks.min(size));
    }
    for node in &report.nodes_lost {
        let start = node.blocks.start.0;
        let end = start.saturating_add(node.blocks.blocks);
        for holder in &node.holders {
            lose(holder, &|size| end.min(size).saturating_sub(start));
        }
    }
    lost
}

fn ranges(all: &[BlockRange]) -> String {
    let mut named: Vec<String> = all.iter().take(RANGES_NAMED).map(range).collect();
    if all.len() > RANGES_NAMED {
        named.push("and more".to_owned());
    }
    named.join(", ")
}

fn range(range: &BlockRange) -> String {
    let first = range.start.0;
    match range.blocks {
        1 => format!("block {first}"),
        blocks => format!("blocks {first} to {}", first + blocks - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use node::{Lba, Lost, LostNode, SnapshotId};

    #[test]
    fn lost_blocks_are_named_with_who_reads_them() {
        let holder = Holder::Volume(VolumeId(7));
        let called = Called(BTreeMap::from([(holder, "volume demo".to_owned())]));
        let of = |first: u64, blocks| BlockRange::new(Lba(first), blocks);
        let report = ScrubReport {
            lost: vec![Lost {
                holder,
                blocks: 20,
                ranges: (0..10).map(|n| of(100 * n, 1 + n % 2)).collect(),
            }],
            nodes_lost: vec![LostNode {
                layer: 3,
                blocks: of(254, 254),
                holders: vec![holder, Holder::Volume(VolumeId(8))],
            }],
            ..ScrubReport::default()
        };
        assert_eq!(
            in_words(&report, &called),
            "20 of volume demo: block 0, blocks 100 to 101, block 200, blocks 300 to 301, block \
             400, blocks 500 to 501, block 600, blocks 700 to 701, and more; volume demo: where \
             blocks 254 to 507 are; one that has been deleted: where blocks 254 to 507 are"
        );
    }

    #[test]
    fn what_a_volume_has_lost_is_within_its_size() {
        let of = |first: u64, blocks| BlockRange::new(Lba(first), blocks);
        let volume = |id: u32, blocks: u64| VolumeInfo {
            id: VolumeId(id),
            name: format!("v{id}"),
            bytes: blocks * BLOCK_BYTES,
            unique_bytes: 0,
            reserved: false,
            origin: None,
            attributes: Vec::new(),
        };
        let readers = [1, 2, 3, 9].map(|id| Holder::Volume(VolumeId(id)));
        let report = ScrubReport {
            lost: vec![
                Lost {
                    holder: readers[0],
                    blocks: 7,
                    ranges: vec![of(0, 7)],
                },
                Lost {
                    holder: Holder::Snapshot(SnapshotId(4)),
                    blocks: 5,
                    ranges: vec![of(0, 5)],
                },
            ],
            nodes_lost: vec![LostNode {
                layer: 3,
                blocks: of(100, u64::MAX - 100),
                holders: readers.to_vec(),
            }],
            ..ScrubReport::default()
        };
        let lost = by_volume(&report, &[volume(1, 110), volume(2, 130), volume(3, 90)]);
        // The third ends before them, the last has been deleted.
        assert_eq!(lost, BTreeMap::from([(1, 17), (2, 30)]));
    }
}
