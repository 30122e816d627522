//! Faults that are planted in the pool: the simulation finds each.
//!
//! [`docs/mutations.md`] lists them. Here is what worlds are tried, and how many at most. A build
//! without debug assertions has no faults to plant.
//!
//! [`docs/mutations.md`]: ../../../docs/mutations.md

#![cfg(debug_assertions)]

use pool::{Level, Mutation, plant};
use sim::promises::{COLUMNS, Fault, TABLE, run_cell};
use sim::{Lie, Options, Report, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Tries worlds with a fault until one shows it. A broken assertion of the pool shows it as well.
fn assert_found(mutation: Mutation, within: u64, live: impl Fn(u64) -> Result<Report, String>) {
    let _planted = plant(mutation);
    let shows = |seed: &u64| {
        let ran = catch_unwind(AssertUnwindSafe(|| live(*seed)));
        !matches!(ran, Ok(Ok(_)))
    };
    let found = (1..=within).find(shows);
    let found = found.unwrap_or_else(|| panic!("{mutation:?} passed {within} seeds"));
    println!("{mutation:?}: seed {found}, of {within}");
}

/// Of any kind, one shard, with all that worlds have by now.
fn newest(seed: u64) -> Options {
    Options::new(seed)
}

/// The same without what came last: seeds stay what they were.
fn any(seed: u64) -> Options {
    Options {
        newcomers: false,
        ..newest(seed)
    }
}

fn sharded(seed: u64) -> Options {
    Options {
        shards_max: 3,
        ..any(seed)
    }
}

fn rivals(seed: u64) -> Options {
    Options {
        rivals: true,
        ..sharded(seed)
    }
}

fn crowded(seed: u64) -> Options {
    Options {
        crowded: Some(true),
        ..sharded(seed)
    }
}

fn liars(seed: u64) -> Options {
    Options {
        liars: true,
        ..any(seed)
    }
}

fn outages(seed: u64) -> Options {
    Options {
        outages: true,
        ..any(seed)
    }
}

fn raid6(seed: u64) -> Options {
    Options {
        level: Some(Level::Raid6),
        ..any(seed)
    }
}

fn raid0(seed: u64) -> Options {
    Options {
        level: Some(Level::Raid0),
        ..any(seed)
    }
}

/// Without redundancy, where nothing hides what hits a zone late.
fn crowded_raid0(seed: u64) -> Options {
    Options {
        level: Some(Level::Raid0),
        shards_max: 1,
        ..crowded(seed)
    }
}

/// Many drives, and without redundancy: no other drive has what a label says.
fn wide_raid0(seed: u64) -> Options {
    Options {
        level: Some(Level::Raid0),
        wide: Some(true),
        ..newest(seed)
    }
}

/// One test for each fault: they run side by side, and each says its name.
macro_rules! found {
    ($($test:ident: $mutation:ident within $within:literal of $world:ident;)*) => {$(
        #[test]
        fn $test() {
            assert_found(Mutation::$mutation, $within, |seed| run(&$world(seed)));
        }
    )*};
}

/// Wrong data on one read of a pool without redundancy.
fn trial(seed: u64) -> Result<Report, String> {
    let mut rows = TABLE.iter();
    let row = rows.position(|(fault, _)| *fault == Fault::Lie(Lie::WrongRead));
    let mut columns = COLUMNS.iter();
    let column = columns.position(|(level, _)| *level == Level::Raid0);
    run_cell(row.expect("a row"), column.expect("a column"), seed).map(|(_, report)| report)
}

found! {
    answers_early: AnswersEarly within 20 of any;
    answers_before_one_flush: AnswersBeforeOneFlush within 20 of any;
    applies_out_of_order: AppliesOutOfOrder within 60 of any;
    goes_on_unfenced: GoesOnUnfenced within 20 of rivals;
    frees_under_readers: FreesUnderReaders within 200 of any;
    frees_under_other_shards: FreesUnderOtherShards within 2000 of sharded;
    views_come_late: ViewsComeLate within 20 of sharded;
    frees_under_writers: FreesUnderWriters within 20 of any;
    forgets_redirects: ForgetsRedirects within 200 of newest;
    cleans_half: CleansHalf within 100 of crowded;
    moves_over_writes: MovesOverWrites within 20 of crowded;
    gate_lets_one_through: GateLetsOneThrough within 20 of any;
    gate_is_local: GateIsLocal within 60 of sharded;
    publishes_before_flush: PublishesBeforeFlush within 300 of any;
    superblock_stays_cached: SuperblockStaysCached within 20 of any;
    overwrites_beside_cached: OverwritesBesideCached within 1200 of wide_raid0;
    takes_older_labels: TakesOlderLabels within 300 of raid0;
    ignores_witnesses: IgnoresWitnesses within 60 of newest;
    takes_torn_stripes: TakesTornStripes within 60 of any;
    forgets_holes: ForgetsHoles within 20 of any;
    forgets_torn_stripes: ForgetsTornStripes within 300 of any;
    uses_zones_after_crash: UsesZonesAfterCrash within 1200 of crowded_raid0;
    names_what_it_uses: NamesWhatItUses within 1000 of any;
    uses_what_another_writes: UsesWhatAnotherWrites within 400 of rivals;
    tables_come_never: TablesComeNever within 20 of sharded;
    forgets_what_is_merged: ForgetsWhatIsMerged within 20 of any;
    reads_unchecked: ReadsUnchecked within 60 of any;
    writes_no_redundancy: WritesNoRedundancy within 20 of raid6;
    leaves_changes_half: LeavesChangesHalf within 200 of any;
    waits_for_silent_drives: WaitsForSilentDrives within 200 of any;
    rebuilds_unchecked: RebuildsUnchecked within 400 of liars;
    takes_misplaced_headers: TakesMisplacedHeaders within 3000 of liars;
    opens_what_is_ready: OpensWhatIsReady within 400 of outages;
    takes_away_for_lost: TakesAwayForLost within 100 of outages;
}

#[test]
fn believes_one_read() {
    assert_found(Mutation::BelievesOneRead, 200, trial);
}
