//! [`BatchedLookup`]: blocks that reads ask for in one turn of the loop, looked up one step at a
//! time for all of them. Each step of a look-up needs memory that the one before it named and that
//! is in no cache; the processor waits for that of many blocks at once as long as for that of one.

use crate::format::node::Node;
use crate::ids::LayerId;
use crate::location::{BlockNumber, Mapping};
use crate::map::cache::NodeCache;
use crate::map::tree;
use crate::segments::zones::Zone;
use crate::shard::core::Core;
use crate::shard::state::State;
use block::BlockDevice;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;

/// What memory knows of a block: nothing, that it reads as zeroes, or where it is.
type Known = Option<Option<Mapping>>;

/// Where a block is.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// What is to be read; `None` or a hole reads as zeroes, and what is lost fails.
    pub mapping: Option<Mapping>,
    /// The zone in which it is; `None` where its drive is missing.
    pub zone: Option<Zone>,
}

impl Found {
    pub fn of(state: &State, mapping: Option<Mapping>) -> Found {
        let entry = mapping.and_then(Mapping::entry);
        let zone = entry.and_then(|entry| state.segments.zone_of(entry.at));
        Found { mapping, zone }
    }
}

/// A block that is being looked up.
struct Sought {
    /// Whose answer it is.
    index: usize,
    layer: LayerId,
    block: BlockNumber,
    /// Which node of the layer's tree to look into, and its level; none before the first.
    node: Option<(Mapping, u8)>,
}

impl Sought {
    /// The node to look into, if there is one and it is in memory. What is above leaves is in the
    /// processor's caches; a leaf's memory begins to come.
    fn node<'a>(&self, cache: &'a NodeCache) -> Option<&'a Node> {
        let (at, level) = self.node?;
        let node = tree::peek_node(cache, at, level)?;
        if level == 0 {
            node.prefetch(self.block);
        }
        Some(node)
    }

    /// Goes one step further, or breaks with what memory knows; `node` is what it has to look into.
    fn step(&mut self, state: &State, node: Option<&Node>) -> ControlFlow<Known> {
        let Some((_, level)) = self.node else {
            if let Some(recent) = state.updates.get(self.layer, self.block) {
                return ControlFlow::Break(Some(Some(recent)));
            }
            let root = state
                .tables
                .layers
                .get(self.layer)
                .and_then(|layer| layer.root);
            let Some(root) = root else {
                return self.go_below(state);
            };
            self.node = Some((root.mapping, root.level));
            return ControlFlow::Continue(());
        };
        let Some(node) = node else {
            return ControlFlow::Break(None);
        };
        match node.find(self.block) {
            Some(record) if level > 0 => {
                self.node = Some((record.mapping, level - 1));
                ControlFlow::Continue(())
            }
            Some(record) if record.covers(self.block) => {
                ControlFlow::Break(Some(Some(record.mapping)))
            }
            _ => self.go_below(state),
        }
    }

    /// This layer says nothing: what does the one below say?
    fn go_below(&mut self, state: &State) -> ControlFlow<Known> {
        self.node = None;
        match state.tables.parent(self.layer) {
            Some(parent) => {
                self.layer = parent;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(Some(None)),
        }
    }
}

/// Blocks that were asked for and not looked up yet, and the answers to those before.
#[derive(Default)]
pub(crate) struct BatchedLookup {
    /// Counts the times that blocks were looked up.
    round: u64,
    /// By which tables `answers` are.
    tables_version: u64,
    sought: Vec<Sought>,
    known: Vec<Known>,
    answers: Vec<Option<Found>>,
}

/// Names a question.
#[derive(Clone, Copy)]
struct Ticket {
    round: u64,
    index: usize,
}

impl BatchedLookup {
    fn ask(&mut self, layer: LayerId, block: BlockNumber) -> Ticket {
        let index = self.sought.len();
        let node = None;
        self.sought.push(Sought {
            index,
            layer,
            block,
            node,
        });
        Ticket {
            round: self.round,
            index,
        }
    }

    /// Answers all that was asked since it was called last.
    fn look_up(&mut self, state: &State, cache: &NodeCache) {
        self.round += 1;
        self.tables_version = state.tables.version();
        self.known.clear();
        self.known.resize(self.sought.len(), None);
        let mut nodes = Vec::with_capacity(self.sought.len());
        while !self.sought.is_empty() {
            nodes.extend(self.sought.iter().map(|one| one.node(cache)));
            let mut nodes = nodes.drain(..);
            self.sought
                .retain_mut(|one| match one.step(state, nodes.next().flatten()) {
                    ControlFlow::Continue(()) => true,
                    ControlFlow::Break(known) => {
                        self.known[one.index] = known;
                        false
                    }
                });
        }
        let found = self
            .known
            .iter()
            .map(|known| Some(Found::of(state, (*known)?)));
        self.answers.clear();
        self.answers.extend(found);
    }
}

/// Lets every task run that is ready now.
async fn after_those_that_are_ready() {
    let mut been = false;
    poll_fn(|context| {
        if std::mem::replace(&mut been, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<D: BlockDevice> Core<D> {
    /// Where a block of a volume's layer is, looked up with what others ask for in this turn;
    /// `None` where it is to be looked up alone, from the volume on: memory does not know, or the
    /// tables have changed meanwhile. As of an instant while this runs. The caller counts as a
    /// reader.
    pub async fn find_batched(&self, layer: LayerId, block: BlockNumber) -> Option<Found> {
        let tables_version = self.state.borrow().tables.version();
        let ticket = self.batched_lookup.borrow_mut().ask(layer, block);
        after_those_that_are_ready().await;
        let mut lookup = self.batched_lookup.borrow_mut();
        if lookup.round == ticket.round {
            lookup.look_up(&self.state.borrow(), &self.cache.borrow());
        }
        let is_last = lookup.round == ticket.round + 1;
        let answer = is_last && lookup.tables_version == tables_version;
        answer.then(|| lookup.answers[ticket.index])?
    }
}
