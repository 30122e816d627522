//! The tree beside a sorted map, over nodes in memory.

use super::*;
use crate::location::Location;
use crate::overlay::Change;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct Memory {
    nodes: RefCell<BTreeMap<Location, Arc<Node>>>,
    next: Cell<u32>,
    live: RefCell<BTreeMap<Location, i64>>,
}

impl Nodes for Memory {
    async fn load(&self, entry: Entry) -> Result<Arc<Node>, IoError> {
        let node = self
            .nodes
            .borrow()
            .get(&entry.at)
            .cloned()
            .ok_or(IoError::UnrecoveredRead)?;
        assert_eq!(node.crc(), entry.crc);
        Ok(node)
    }
}

impl NodeSink for Memory {
    async fn store(&self, node: Node) -> Result<Entry, IoError> {
        self.next.set(self.next.get() + 1);
        let at = Location {
            segment: self.next.get(),
            column: 0,
            row: 0,
        };
        let entry = Entry {
            at,
            crc: node.crc(),
        };
        self.nodes.borrow_mut().insert(at, Arc::new(node));
        Ok(entry)
    }

    fn discard(&self, entry: Entry) {
        assert!(
            self.nodes.borrow_mut().remove(&entry.at).is_some(),
            "discarded twice"
        );
    }

    fn gained(&self, entry: Entry) {
        *self.live.borrow_mut().entry(entry.at).or_default() += 1;
    }

    fn lost(&self, entry: Entry) {
        *self.live.borrow_mut().entry(entry.at).or_default() -= 1;
    }
}

/// Memory never waits, so one poll is the whole run.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("memory waited"),
    }
}

fn data(number: u32) -> Mapping {
    Mapping::Block(Entry {
        at: Location {
            segment: number,
            column: 1,
            row: 1,
        },
        crc: number,
    })
}

/// Sorted disjoint changes out of arbitrary ones.
fn disjoint(raw: Vec<(u64, u64, bool)>, stamp: u32) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut sorted = raw;
    sorted.sort();
    for (number, (start, len, put)) in sorted.into_iter().enumerate() {
        let start = changes.last().map_or(start, |last| start.max(last.end()));
        changes.push(match (put, number % 7) {
            (true, 0) => Change::Put {
                block: start,
                mapping: Mapping::Hole,
            },
            (true, _) => Change::Put {
                block: start,
                mapping: data(stamp + number as u32),
            },
            (false, _) => Change::Clear {
                start,
                end: start + len,
            },
        });
    }
    changes
}

fn check(memory: &Memory, root: Option<Root>, model: &BTreeMap<u64, Mapping>) {
    let mut walked = BTreeMap::new();
    let mut from = root.map(|_| 0);
    while let (Some(start), Some(root)) = (from, root) {
        let (records, next) = now(leaf_from(memory, root, start)).unwrap();
        walked.extend(
            records
                .into_iter()
                .map(|record| (record.block, record.mapping)),
        );
        from = next;
    }
    assert_eq!(&walked, model);
    let mut live: BTreeMap<Location, i64> = BTreeMap::new();
    for entry in model.values().filter_map(|mapping| mapping.entry()) {
        *live.entry(entry.at).or_default() += 1;
    }
    memory.live.borrow_mut().retain(|_, count| *count != 0);
    assert_eq!(*memory.live.borrow(), live, "live counts");
    if let Some(root) = root {
        for block in (0..4000).step_by(13) {
            assert_eq!(
                now(lookup(memory, root, block)).unwrap(),
                model.get(&block).copied()
            );
        }
    }
}

fn apply(model: &mut BTreeMap<u64, Mapping>, changes: &[Change]) {
    for change in changes {
        model.retain(|block, _| !(change.start()..change.end()).contains(block));
        if let Change::Put { block, mapping } = change {
            model.insert(*block, *mapping);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn merges_as_a_sorted_map_would_and_discards_every_old_node(
        batches in proptest::collection::vec(
            proptest::collection::vec((0u64..4000, 1u64..300, prop::bool::weighted(0.9)), 1..700),
            1..8,
        )
    ) {
        let memory = Memory::default();
        let mut model = BTreeMap::new();
        let mut root = None;
        for (number, raw) in batches.into_iter().enumerate() {
            let changes = disjoint(raw, number as u32 * 1000);
            root = now(merge(&memory, 1, root, &changes)).unwrap();
            apply(&mut model, &changes);
            check(&memory, root, &model);
            if let Some(before) = root {
                let odd = |entry: Entry| entry.at.segment % 2 == 1;
                root = Some(now(compact(&memory, 1, before, &odd)).unwrap());
                check(&memory, root, &model);
            }
            let nodes = memory.nodes.borrow().len();
            prop_assert!(nodes <= 2 + model.len() / 40, "{} nodes for {}", nodes, model.len());
        }
        if let Some(root) = root {
            now(remove(&memory, root.mapping, root.level)).unwrap();
        }
        prop_assert!(memory.nodes.borrow().is_empty(), "nodes leaked");
        memory.live.borrow_mut().retain(|_, count| *count != 0);
        prop_assert!(memory.live.borrow().is_empty(), "live counts leaked");
    }
}

/// Runs of changed leaves longer than are kept in memory, and a rest of every length behind them.
#[test]
fn leaves_that_all_change_at_once_are_packed_whole() {
    for blocks in (3000..3600).step_by(19) {
        let (memory, mut model) = (Memory::default(), BTreeMap::new());
        let every = |step: usize, stamp: u32| -> Vec<Change> {
            let put = |block: u64| Change::Put {
                block,
                mapping: data(stamp + block as u32),
            };
            (0..blocks).step_by(step).map(put).collect()
        };
        let mut root = None;
        for changes in [every(1, 10_000), every(50, 20_000), every(1, 30_000)] {
            root = now(merge(&memory, 1, root, &changes)).unwrap();
            apply(&mut model, &changes);
            check(&memory, root, &model);
            let leaves = blocks.div_ceil(254) as usize;
            assert_eq!(memory.nodes.borrow().len(), leaves + 1, "{blocks} blocks");
        }
    }
}
