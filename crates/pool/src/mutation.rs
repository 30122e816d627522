//! Faults that can be planted in the pool, for the simulator to find: a simulator that finds one
//! would have found it in earnest.
//!
//! There are none in a program that is built for release: the places where one is asked for then
//! hold nothing. A build with debug assertions asks one variable of the thread. So all tests use
//! one build, with one set of features, and no setting of a pool can plant one.
//!
//! [`docs/mutations.md`] lists them, and within how many seeds each is found.
//!
//! [`docs/mutations.md`]: ../../../docs/mutations.md

#[cfg(debug_assertions)]
pub(crate) use planted::break_at;
#[cfg(debug_assertions)]
pub use planted::{Planted, plant};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Writes are acknowledged before their stripe is durable.
    AnswersEarly,
    /// The first column of a stripe is acknowledged from the drive's cache.
    AnswersBeforeOneFlush,
    /// Stripes are applied, and acknowledged, as they land, in any order.
    AppliesOutOfOrder,
    /// A holder goes on after another host has taken the pool.
    GoesOnUnfenced,
    /// Freed segments are used again while they are still being read.
    FreesUnderReaders,
    /// The same, for readers at other shards.
    FreesUnderOtherShards,
    /// Other shards get the maps of a checkpoint some time after they have said that they have.
    ViewsComeLate,
    /// Segments that lie ready, or are being written, are freed when nothing in them lives.
    FreesUnderWriters,
    /// Layers that went are forgotten while stripes name them.
    ForgetsRedirects,
    /// A segment counts as emptied when the first piece of it has been moved.
    CleansHalf,
    /// A block that was overwritten while it was moved is what it was before.
    MovesOverWrites,
    /// A gate is closed with one stripe in flight.
    GateLetsOneThrough,
    /// Other shards go on while a change is made.
    GateIsLocal,
    /// A checkpoint publishes maps whose nodes are in drives' caches.
    PublishesBeforeFlush,
    /// Superblocks are not flushed.
    SuperblockStaysCached,
    /// A label that is in a drive's cache alone is not flushed before the other one is overwritten.
    OverwritesBesideCached,
    /// Labels that have decayed are passed over for those before them, and have no copies.
    TakesOlderLabels,
    /// Both ends of a slot are written at once, also while requests of a dead process may land.
    WritesEndsAtOnce,
    /// Stripes that tell of a later label than the one that was opened are believed nothing.
    IgnoresWitnesses,
    /// A torn stripe counts.
    TakesTornStripes,
    /// Recovery passes over deallocations.
    ForgetsHoles,
    /// Recovery forgets which stripes it has found torn.
    ForgetsTornStripes,
    /// Segments that a former holder may still write to are used at once.
    UsesWhatAnotherWrites,
    /// Zones that were free when a process died are used at once when the pool is opened.
    UsesZonesAfterCrash,
    /// Superblocks name zones as set apart that the pool uses next.
    NamesWhatItUses,
    /// Other shards do not hear of changes of volumes before the next checkpoint.
    TablesComeNever,
    /// Updates that a checkpoint is merging are in nobody's sight meanwhile.
    ForgetsWhatIsMerged,
    /// Blocks that were read are not compared with their checksums.
    ReadsUnchecked,
    /// Parity and copies are not made.
    WritesNoRedundancy,
    /// A change ends where its caller stops waiting for it.
    LeavesChangesHalf,
    /// An opening waits for every drive, however long it answers nothing.
    WaitsForSilentDrives,
    /// A block that a drive reads wrong once is lost, and a stripe with such a block is torn.
    BelievesOneRead,
    /// What is rebuilt from a row is not compared with its checksum.
    RebuildsUnchecked,
    /// Headers of stripes count wherever they are.
    TakesMisplacedHeaders,
    /// An opening does without drives that are not ready for a moment.
    OpensWhatIsReady,
    /// What drives that are not ready have is lost.
    TakesAwayForLost,
}

#[cfg(debug_assertions)]
mod planted {
    use super::Mutation;
    use std::cell::Cell;
    use std::sync::OnceLock;

    /// The variable of the environment that has the text of [`break_at`].
    const BREAKS_AT: &str = "FLASHYARD_POOL_BREAKS_AT";

    thread_local! {
        static PLANTED: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// While it lives, pools of this thread have a fault.
    #[derive(Debug)]
    pub struct Planted(());

    impl Drop for Planted {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }

    /// Plants a fault in every pool of this thread.
    pub fn plant(mutation: Mutation) -> Planted {
        PLANTED.set(Some(mutation));
        Planted(())
    }

    impl Mutation {
        /// Whether it is planted.
        pub(crate) fn is_planted(self) -> bool {
            PLANTED.get() == Some(self)
        }
    }

    /// A broken invariant, for tests of whole processes: a pool that is about to write a block
    /// which begins with a text has found itself wrong. Without that text, or with an empty one,
    /// no block has it.
    pub(crate) fn break_at(blocks: &[&[u8]]) {
        static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
        let text = TEXT.get_or_init(|| {
            let text = std::env::var_os(BREAKS_AT).unwrap_or_default();
            text.into_encoded_bytes()
        });
        let broken = !text.is_empty() && blocks.iter().any(|block| block.starts_with(text));
        assert!(!broken, "planted in a block that is written");
    }
}

#[cfg(not(debug_assertions))]
impl Mutation {
    /// Never.
    pub(crate) const fn is_planted(self) -> bool {
        false
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub(crate) const fn break_at(_: &[&[u8]]) {}
