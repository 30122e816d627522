//! The tree beside a sorted map, over nodes in memory.

use super::*;
use crate::ids::{LayerId, SegmentNumber};
use crate::location::{Location, each_of, numbered};
use crate::map::overlay::{Change, Run};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context, Poll, Waker};

const LAYER: LayerId = LayerId::new(1);
/// No volume is larger.
const END: BlockNumber = BlockNumber::new(16_000);

#[derive(Default)]
struct Memory {
    nodes: RefCell<BTreeMap<Location, Arc<Node>>>,
    next: Cell<u32>,
    live: RefCell<BTreeMap<Location, i64>>,
    /// Nodes that cannot be read.
    spoiled: RefCell<BTreeSet<Location>>,
    given_up: RefCell<Vec<Range<BlockNumber>>>,
}

impl Nodes for Memory {
    async fn load(&self, entry: Entry) -> Result<Arc<Node>, IoError> {
        let node = self
            .nodes
            .borrow()
            .get(&entry.at)
            .cloned()
            .ok_or(IoError::Internal)?;
        assert_eq!(node.crc(), entry.crc);
        match self.spoiled.borrow().contains(&entry.at) {
            true => Err(IoError::UnrecoveredRead),
            false => Ok(node),
        }
    }
}

impl NodeSink for Memory {
    async fn store(&self, node: Node) -> Result<Entry, IoError> {
        self.next.set(self.next.get() + 1);
        let at = Location {
            segment: SegmentNumber::new(self.next.get()),
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

    fn unreadable(
        &self,
        _: LayerId,
        blocks: Range<BlockNumber>,
    ) -> Result<Range<BlockNumber>, IoError> {
        let blocks = blocks.start..blocks.end.min(END).max(blocks.start + 1);
        self.given_up.borrow_mut().push(blocks.clone());
        Ok(blocks)
    }

    fn passed_over(&self) {}
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

fn data(number: u32) -> Entry {
    Entry {
        at: Location {
            segment: SegmentNumber::new(number),
            column: 1,
            row: 1,
        },
        crc: number,
    }
}

/// Sorted disjoint changes out of arbitrary ones.
fn disjoint(raw: Vec<(u64, u64, bool)>, stamp: u32) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut sorted = raw;
    sorted.sort();
    for (number, (start, len, put)) in sorted.into_iter().enumerate() {
        let start = BlockNumber::new(start);
        let start = changes.last().map_or(start, |last| start.max(last.end()));
        let end = start + len;
        changes.push(match (put, number % 7) {
            (true, 0) => Change::Cover {
                start,
                end: start + 1 + len % 20,
                run: if len % 5 == 0 { Run::Lost } else { Run::Hole },
            },
            (true, _) => Change::Put {
                block: start,
                entry: data(stamp + number as u32),
            },
            (false, _) => Change::Clear { start, end },
        });
    }
    changes
}

/// Says where two differ first.
fn assert_alike(found: &BTreeMap<BlockNumber, Mapping>, model: &BTreeMap<BlockNumber, Mapping>) {
    let differs = |block: &&BlockNumber| found.get(block) != model.get(block);
    let first = found.keys().chain(model.keys()).filter(differs).min();
    assert_eq!(first, None, "they differ there");
}

/// What a tree says about every block.
fn contents(memory: &Memory, root: Option<Root>) -> BTreeMap<BlockNumber, Mapping> {
    let mut walked = BTreeMap::new();
    let mut from = root.map(|_| BlockNumber::FIRST);
    while let (Some(start), Some(root)) = (from, root) {
        let (records, next) = now(leaf_from(memory, root, start)).unwrap();
        for record in records {
            let end = match record.end() {
                BlockNumber::END => END,
                end => end,
            };
            for block in each_of(record.block..end) {
                let again = walked.insert(block, record.mapping);
                assert_eq!(again, None, "{block} is said twice");
            }
        }
        from = next;
    }
    walked
}

fn check(memory: &Memory, root: Option<Root>, model: &BTreeMap<BlockNumber, Mapping>) {
    assert_alike(&contents(memory, root), model);
    let mut live: BTreeMap<Location, i64> = BTreeMap::new();
    for entry in model.values().filter_map(|mapping| mapping.entry()) {
        *live.entry(entry.at).or_default() += 1;
    }
    memory.live.borrow_mut().retain(|_, count| *count != 0);
    assert_eq!(*memory.live.borrow(), live, "live counts");
    if let Some(root) = root {
        for block in each_of(numbered(0..4000)).step_by(13) {
            assert_eq!(
                now(lookup(memory, root, block)).unwrap(),
                model.get(&block).copied()
            );
        }
    }
}

fn apply(model: &mut BTreeMap<BlockNumber, Mapping>, changes: &[Change]) {
    for change in changes {
        model.retain(|block, _| !(change.start()..change.end()).contains(block));
        lay_below(model, change);
    }
}

/// Fills what the model says nothing about.
fn lay_below(model: &mut BTreeMap<BlockNumber, Mapping>, change: &Change) {
    for block in each_of(change.start()..change.end()) {
        match *change {
            Change::Put { entry, .. } => drop(model.entry(block).or_insert(Mapping::Block(entry))),
            Change::Cover { run, .. } => drop(model.entry(block).or_insert(run.into())),
            Change::Clear { .. } => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
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
            let laid = if number % 3 == 2 { Laid::Below } else { Laid::Above };
            root = now(merge(&memory, LAYER, root, &changes, laid)).unwrap();
            match laid {
                Laid::Above => apply(&mut model, &changes),
                Laid::Below => changes.iter().for_each(|change| lay_below(&mut model, change)),
            }
            check(&memory, root, &model);
            if let Some(before) = root {
                let odd = |entry: Entry| entry.at.segment.get() % 2 == 1;
                root = Some(now(compact(&memory, LAYER, before, &odd)).unwrap());
                check(&memory, root, &model);
            }
            let nodes = memory.nodes.borrow().len();
            prop_assert!(nodes <= 2 + model.len() / 40, "{} nodes for {}", nodes, model.len());
        }
        while let Some(left) = root {
            let first = now(first_leaves(&memory, left, 3)).unwrap();
            let end = first.end.unwrap_or(BlockNumber::END);
            let clear = [Change::Clear { start: BlockNumber::FIRST, end }];
            root = now(merge(&memory, LAYER, root, &clear, Laid::Above)).unwrap();
            model.retain(|block, _| *block >= end);
            assert_alike(&contents(&memory, root), &model);
            prop_assert_eq!(root.is_none(), first.end.is_none());
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
            let put = |block: BlockNumber| Change::Put {
                block,
                entry: data(stamp + block.get() as u32),
            };
            each_of(numbered(0..blocks))
                .step_by(step)
                .map(put)
                .collect()
        };
        let mut root = None;
        for changes in [every(1, 10_000), every(50, 20_000), every(1, 30_000)] {
            root = now(merge(&memory, LAYER, root, &changes, Laid::Above)).unwrap();
            apply(&mut model, &changes);
            check(&memory, root, &model);
            let leaves = blocks.div_ceil(254) as usize;
            assert_eq!(memory.nodes.borrow().len(), leaves + 1, "{blocks} blocks");
        }
    }
}

/// A tree in which every block is said.
fn tall(memory: &Memory, blocks: u64) -> (Option<Root>, BTreeMap<BlockNumber, Mapping>) {
    let put = |block: BlockNumber| Change::Put {
        block,
        entry: data(block.get() as u32),
    };
    let changes: Vec<Change> = each_of(numbered(0..blocks)).map(put).collect();
    let mut model = BTreeMap::new();
    apply(&mut model, &changes);
    let root = now(merge(memory, LAYER, None, &changes, Laid::Above)).unwrap();
    (root, model)
}

/// The first leaves of a tree are where a walk over its leaves gets to.
#[test]
fn the_first_leaves_are_counted_across_nodes() {
    let memory = Memory::default();
    let (root, _) = tall(&memory, 254 * 300);
    let root = root.unwrap();
    assert_eq!(root.level, 2);
    for most in [1, 2, 149, 150, 151, 299, 300, 301, 1000] {
        let mut expected = First {
            leaves: 0,
            end: Some(BlockNumber::FIRST),
        };
        while let Some(from) = expected.end.filter(|_| expected.leaves < most) {
            expected.leaves += 1;
            expected.end = now(leaf_from(&memory, root, from)).unwrap().1;
        }
        assert_eq!(now(first_leaves(&memory, root, most)).unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// What nodes that cannot be read were about is lost where something is done to it, and not
    /// taken for anything else; nothing beside it is.
    #[test]
    fn nodes_that_cannot_be_read_become_runs_that_are_lost(
        spoil in proptest::collection::vec(any::<prop::sample::Index>(), 1..6),
        raw in proptest::collection::vec(
            (0u64..15_000, 1u64..300, prop::bool::weighted(0.9)),
            1..100,
        ),
        moves in any::<bool>(),
    ) {
        let memory = Memory::default();
        let (root, mut model) = tall(&memory, 254 * 60);
        let root = root.unwrap();
        let nodes: Vec<Location> = memory.nodes.borrow().keys().copied().collect();
        for index in spoil {
            memory.spoiled.borrow_mut().insert(nodes[index.index(nodes.len())]);
        }
        let before = contents(&memory, Some(root));
        let unreadable = |block: &BlockNumber| before.get(block) == Some(&Mapping::Lost);
        let after = if moves {
            let odd = |entry: Entry| entry.at.segment.get() % 2 == 1;
            Some(now(compact(&memory, LAYER, root, &odd)).unwrap())
        } else {
            let changes = disjoint(raw, 1 << 20);
            let after = now(merge(&memory, LAYER, Some(root), &changes, Laid::Above)).unwrap();
            let mut expected = before.clone();
            apply(&mut expected, &changes);
            model = expected;
            after
        };
        let found = contents(&memory, after);
        for (block, mapping) in &model {
            if moves && unreadable(block) {
                prop_assert_eq!(found.get(block), Some(&Mapping::Lost));
            } else {
                prop_assert_eq!(found.get(block), Some(mapping), "block {}", block);
            }
        }
        let given_up = memory.given_up.borrow().len();
        let spoiled = memory.spoiled.borrow();
        let left = spoiled.iter().filter(|at| memory.nodes.borrow().contains_key(at)).count();
        prop_assert!(given_up <= spoiled.len() && left + given_up <= spoiled.len());
    }
}
