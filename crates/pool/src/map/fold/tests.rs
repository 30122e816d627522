//! Layers without a map, of which nothing keeps a merge waiting.

use super::*;
use crate::chunked::Chunked;
use crate::format::node::Node;
use crate::ids::{Generation, LayerId, SnapshotId, VolumeId};
use crate::location::Entry;
use crate::map::tree::Nodes;
use crate::volumes::{Snapshot, Volume};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Where there is no node; counts how often others had a turn.
#[derive(Default)]
struct Nothing {
    turns: Cell<usize>,
}

impl Nodes for Nothing {
    async fn load(&self, _: Entry) -> Result<Arc<Node>, IoError> {
        Err(IoError::Internal)
    }
}

impl NodeSink for Nothing {
    async fn store(&self, _: Node) -> Result<Entry, IoError> {
        Err(IoError::Internal)
    }

    fn discard(&self, _: Entry) {}

    fn unreadable(&self, _: LayerId, _: Range<BlockNumber>) -> Result<Range<BlockNumber>, IoError> {
        Err(IoError::Internal)
    }

    fn passed_over(&self) {}

    fn gained(&self, _: Entry) {}

    fn lost(&self, _: Entry) {}
}

impl Ledger for Nothing {
    fn take_mapped(&self) -> i64 {
        0
    }

    fn nodes(&self) -> usize {
        0
    }

    fn room(&self) -> usize {
        1000
    }

    async fn give_way(&self) {
        self.turns.set(self.turns.get() + 1);
        reactor::yield_now().await;
    }
}

/// A volume with so many snapshots, in none of which anything was written.
fn idle_volume(snapshots: u32) -> Tables {
    let mut tables = Tables::default();
    let mut layer = tables.add_layer(None).unwrap();
    for number in 0..snapshots {
        let id = SnapshotId(tables.take_id().unwrap());
        let snapshot = Snapshot {
            name: format!("of {number}"),
            blocks: 1000,
            layer,
            volume: VolumeId(1),
            taken: None,
        };
        tables.snapshots.insert(id, snapshot);
        layer = tables.add_layer(Some(layer)).unwrap();
    }
    let volume = Volume {
        name: "idle".to_owned(),
        blocks: 1000,
        layer,
        origin: None,
        reserved: false,
        attributes: Vec::new(),
    };
    let id = VolumeId(tables.take_id().unwrap());
    tables.volumes.insert(id, volume);
    tables
}

/// All snapshots of an idle volume are deleted: as many layers go as a checkpoint takes out, others
/// on the core have a turn among them again and again, and each layer costs as little as if there
/// were few.
#[test]
fn layers_without_blocks_go_and_others_have_their_turns_meanwhile() {
    const SNAPSHOTS: u32 = 20_000;
    const AT_ONCE: usize = 4096;
    let sink = Nothing::default();
    let mut tables = idle_volume(SNAPSHOTS);
    tables.snapshots = Chunked::default();
    let layers = tables.layers.len();
    reactor::Reactor::simulated(1).run(async {
        let mut towards = None;
        remove_unneeded(
            &sink,
            &mut tables,
            &mut towards,
            Generation::new(7),
            AT_ONCE,
        )
        .await
        .unwrap();
    });
    assert_eq!(tables.layers.len(), layers - AT_ONCE);
    // First they are looked at.
    let looks = 1 + layers.div_ceil(LAYERS_JUDGED_IN_A_ROW);
    assert_eq!(sink.turns.get(), looks + AT_ONCE / LAYERS_IN_A_ROW);
    let volume = tables.volumes.values().next().unwrap();
    for layer in (1..layers as u32).map(LayerId::new) {
        let heir = tables.resolve(layer);
        assert!(heir.is_none_or(|heir| heir <= volume.layer));
    }
    // Nothing else is to be done for them: the redirects name who has the blocks now.
    tables.prune_redirects(Generation::new(7));
    assert_eq!(tables.redirects.len(), AT_ONCE);
}
