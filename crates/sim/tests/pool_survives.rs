//! The pool loses nothing, and the simulation would notice if it did.

use pool::Level;
use sim::{Options, Report, promises, run};

/// Runs a world, which has to find nothing.
#[track_caller]
fn lives(options: &Options) -> Report {
    run(options).unwrap_or_else(|found| panic!("{found}"))
}

fn survives(seeds: std::ops::Range<u64>, level: Option<Level>) {
    for seed in seeds {
        let options = Options {
            level,
            ..Options::new(seed)
        };
        let report = lives(&options);
        assert!(
            report.requests > 0 || report.crashes > 0,
            "seed={seed} did nothing"
        );
    }
}

#[test]
fn a_pool_of_any_level_survives_power_failures_and_bad_drives() {
    survives(1..41, None);
}

#[test]
fn raid6_survives_power_failures_and_two_bad_drives() {
    survives(1000..1030, Some(Level::Raid6));
}

#[test]
fn wide_pools_survive() {
    for seed in 2000..2006 {
        let options = Options {
            wide: Some(true),
            ..Options::new(seed)
        };
        lives(&options);
    }
}

/// Volumes that reserve space among others that want all there is, and no drive lost: never a
/// refusal.
#[test]
fn crowded_pools_keep_what_they_promised() {
    for seed in 3000..3010 {
        let options = Options {
            crowded: Some(true),
            bad_drives: false,
            ..Options::new(seed)
        };
        lives(&options);
    }
}

#[test]
fn a_pool_survives_with_another_number_of_shards_each_time() {
    for seed in 1..31 {
        let options = Options {
            shards_max: 3,
            ..Options::new(seed)
        };
        lives(&options);
    }
}

/// Runs worlds that failed once: their seeds, how many shards at most, and whether crowded.
fn worlds_survive<const WORLDS: usize>(worlds: [(u64, u64, Option<bool>); WORLDS]) {
    for (seed, shards_max, crowded) in worlds {
        let options = Options {
            shards_max,
            crowded,
            latecomers: false,
            newcomers: false,
            ..Options::new(seed)
        };
        lives(&options);
    }
}

/// Worlds that once were not: segments lacked more drives than were gone and not forgotten.
#[test]
fn pools_that_lost_drives_while_they_were_full_survive_the_loss_of_others() {
    worlds_survive([(992_444, 1, Some(true)), (992_248, 3, None)]);
}

/// Worlds that once refused writes for which there was room. In one shard had a segment to write,
/// and had not come to look at it; in the other the pool was opened full and without a drive, which
/// shards beside the first did not know, so they took none of the segments that lacked it.
#[test]
fn shards_that_have_segments_to_write_are_refused_nothing() {
    worlds_survive([(24_851, 3, None), (106_524, 2, Some(true))]);
}

/// A world that once refused writes when a drive that had been read from for long was given up at
/// last: cleaning had been in vain, and what it had freed was there at that very moment.
#[test]
fn what_was_freed_while_it_was_read_is_not_refused() {
    let options = Options {
        lives: 12,
        level: Some(Level::Raid6),
        shards_max: 3,
        crowded: Some(true),
        latecomers: false,
        newcomers: false,
        ..Options::new(100_806)
    };
    lives(&options);
}

/// Worlds in which one wrong bit in the newest label of the only current drive once took the pool
/// back: snapshots and volumes that had been acknowledged were gone.
#[test]
fn no_wrong_bit_in_a_label_takes_a_pool_back() {
    for seed in [
        135, 481, 653, 674, 716, 848, 877, 907, 1163, 1349, 1379, 1498,
    ] {
        let options = Options {
            newcomers: false,
            ..Options::new(seed)
        };
        lives(&options);
    }
}

/// More drives than may be lost are not ready for reads for seconds, while a pool is opened too.
#[test]
fn a_pool_survives_outages() {
    let mut outages = 0;
    for seed in 1..60 {
        let options = Options {
            outages: true,
            shards_max: 1 + seed % 3,
            ..Options::new(seed)
        };
        let report = lives(&options);
        outages += report.outages;
    }
    assert!(outages > 100, "{outages} outages");
}

/// A world in which writers waited for space on drives that were not ready. They were asked to look
/// for it, and said at once that there is none, over and over in the same instant.
#[test]
fn writers_that_wait_for_drives_are_asked_once_whether_there_is_space() {
    let options = Options {
        outages: true,
        shards_max: 2,
        ..Options::new(90_000_204)
    };
    lives(&options);
}

/// A world in which nothing was left on a drive that was to leave, while others were not ready with
/// what they hold: it was said to hold blocks that cannot be read, and stayed.
#[test]
fn a_drive_that_holds_nothing_leaves_while_others_are_not_ready() {
    let options = Options {
        outages: true,
        shards_max: 2,
        ..Options::new(100_000_078)
    };
    lives(&options);
}

/// A world in which a drive that joined was not ready for a moment when the other shards looked
/// whether it is the one that they were offered: its caller was told that they were offered none.
#[test]
fn a_drive_that_is_not_ready_when_it_joins_is_said_to_be_so() {
    let options = Options {
        outages: true,
        shards_max: 3,
        ..Options::new(100_000_299)
    };
    lives(&options);
}

/// A world in which three drives were away, one of which was the pool's no longer. The pool went on
/// without the other two, and a third one is bad: those are more than raid6 survives.
#[test]
fn more_drives_of_the_pool_are_away_in_an_outage_than_may_be_lost() {
    let options = Options {
        outages: true,
        ..Options::new(200_000_883)
    };
    lives(&options);
}

/// A world in which the pool goes on without drives after an outage, and a bad one of the others is
/// not ready for some requests: hosts come again.
#[test]
fn reads_that_are_told_to_wait_after_an_outage_come_again() {
    let options = Options {
        outages: true,
        shards_max: 3,
        ..Options::new(150_000_592)
    };
    lives(&options);
}

/// A world in which one drive tells nothing of its label while it answers everything else. Others
/// were asked half a second later, each time tables were published: hosts waited for a minute.
#[test]
fn a_drive_that_refuses_to_tell_who_has_the_pool_holds_nobody_up() {
    let options = Options {
        liars: true,
        ..Options::new(172_000_174)
    };
    lives(&options);
}

/// A world in which all of a small pool is kept open by seven shards: it holds nothing, and can
/// spare no drive.
#[test]
fn drives_stay_where_what_shards_keep_open_is_all_of_a_pool() {
    let options = Options {
        bad_drives: false,
        shards_max: 8,
        ..Options::new(180_000_345)
    };
    lives(&options);
}

/// A world of seven shards, whose segments to write are most of a small pool: the model once asked
/// for more room than a drive less leaves.
#[test]
fn drives_stay_where_what_shards_keep_open_is_most_of_a_pool() {
    let options = Options {
        shards_max: 8,
        newcomers: false,
        ..Options::new(12)
    };
    lives(&options);
}

/// A world of segments that are nearly as wide as there are drives, which differ in size: more room
/// goes with one than it has.
#[test]
fn drives_stay_where_segments_are_nearly_as_wide_as_there_are_drives() {
    let options = Options {
        wide: Some(true),
        shards_max: 8,
        ..Options::new(140_000_565)
    };
    lives(&options);
}

/// A world whose pool, nearly full and with a promise to a volume, is opened with more shards than
/// before: the segments that these keep open are not there for what was promised.
#[test]
fn more_shards_may_break_a_promise_of_a_pool_that_is_too_full_for_them() {
    let options = Options {
        bad_drives: false,
        shards_max: 8,
        ..Options::new(70_000_027)
    };
    lives(&options);
}

/// A world of eight shards, in which four processes died one after the other in a pool that was
/// nearly full. Each shard was lent a segment to move blocks to, though it had none to move. No
/// segment was left for those that had.
#[test]
fn shards_take_no_segments_to_move_what_others_have() {
    let options = Options {
        bad_drives: false,
        shards_max: 8,
        ..Options::new(100_000_380)
    };
    lives(&options);
}

/// A world of raid0 in which a process died before its label had left a drive's cache. Power failed
/// while the next process overwrote the label beside it, and both were gone.
#[test]
fn a_label_in_a_cache_lasts_before_the_other_one_is_overwritten() {
    let options = Options {
        wide: Some(true),
        shards_max: 2,
        ..Options::new(220_000_566)
    };
    lives(&options);
}

/// A world in which a label of a dead process lands on one drive, and another drive fails. The pool
/// was not opened any more: these were two drives of raid10 to do without.
#[test]
fn a_drive_with_a_late_label_is_used_when_another_has_failed() {
    let options = Options {
        liars: true,
        ..Options::new(210_000_957)
    };
    lives(&options);
}

/// A world in which power failed while a drive joined, and its label arrived after the next life
/// had looked at the drives. It is a member then, and is refused when it is asked to join.
#[test]
fn a_drive_whose_label_comes_late_joins_before_it_is_asked_to() {
    let options = Options {
        liars: true,
        shards_max: 2,
        ..Options::new(250_000_354)
    };
    lives(&options);
}

/// A world of four shards in a small pool that eight shards left full of half-empty segments. The
/// one segment to move blocks to went to one shard. Nobody asked the others, which had no block in
/// the segment that was being cleaned, and a write was refused.
#[test]
fn a_segment_that_is_being_cleaned_is_cleaned_by_all_shards() {
    let options = Options {
        bad_drives: false,
        shards_max: 8,
        ..Options::new(200_001_527)
    };
    lives(&options);
}

/// A world in which a label of a dead process lands on one drive, and another drive answers nothing
/// in the next life: the pool is opened when it answers.
#[test]
fn a_late_label_and_a_silent_drive_keep_an_opening_no_longer_than_the_drive_is_silent() {
    let options = Options {
        wide: Some(true),
        shards_max: 8,
        ..Options::new(100_000_275)
    };
    lives(&options);
}

/// A world in which a process opens the pool and dies. Its label lands on one drive after the next
/// process has looked at the drives: that is no other host.
#[test]
fn a_label_that_lands_while_the_pool_is_opened_again_is_no_other_host() {
    let options = Options {
        shards_max: 3,
        ..Options::new(140_002_045)
    };
    lives(&options);
}

/// A world in which two volumes share an ancestor, and are cut shorter than it is. It keeps what
/// neither of them reads any more, until one of them is alone with it.
#[test]
fn what_is_cut_off_volumes_that_share_an_ancestor_may_still_take_space() {
    let options = Options {
        crowded: Some(true),
        shards_max: 3,
        ..Options::new(270_000_280)
    };
    lives(&options);
}

/// A world in which a host stood still while it opened a pool that nobody had. Another took the
/// pool meanwhile, and stood still in its turn. The first went on, and took it without force.
#[test]
fn a_host_that_stood_still_while_it_opened_a_pool_takes_it_from_nobody() {
    let options = Options {
        rivals: true,
        shards_max: 2,
        newcomers: false,
        ..Options::new(20_000_005)
    };
    lives(&options);
}

/// Bad drives lose writes, misdirect them, ignore flushes, read wrong data or old data, discard
/// late or in part, and say nothing of it.
#[test]
fn a_pool_survives_drives_that_lie() {
    for (seed, shards_max) in (5000..5030).map(|seed| (seed, 1 + 2 * (seed % 2))) {
        let options = Options {
            shards_max,
            liars: true,
            ..Options::new(seed)
        };
        lives(&options);
    }
}

/// More lives than others, so that drives are lost, replaced, and lost again.
#[test]
fn pools_that_may_lose_two_drives_survive_the_loss_of_many_one_after_the_other() {
    for seed in 300_000..300_008 {
        for level in [Level::Raid1, Level::Raid6] {
            let options = Options {
                lives: 14,
                level: Some(level),
                shards_max: 2,
                ..Options::new(seed)
            };
            lives(&options);
        }
    }
}

/// The seed comes from the commit, so that every commit is tried on worlds nobody has seen.
#[test]
fn a_pool_survives_the_seed_of_this_commit() {
    let seed = std::env::var("FLASHYARD_SIM_SEED")
        .ok()
        .and_then(|word| word.parse().ok());
    let first: u64 = seed.unwrap_or(77);
    survives(first..first + 5, None);
    for seed in first..first + 5 {
        let sharded = Options {
            shards_max: 3,
            ..Options::new(seed)
        };
        let crowded = Options {
            crowded: Some(true),
            ..sharded.clone()
        };
        let rivals = Options {
            rivals: true,
            ..sharded.clone()
        };
        let liars = Options {
            liars: true,
            ..sharded.clone()
        };
        let mut worlds = vec![sharded, crowded, rivals, liars];
        if seed == first {
            worlds.push(Options {
                wide: Some(true),
                ..worlds[0].clone()
            });
        }
        for options in worlds {
            run(&options).unwrap_or_else(|found| panic!("{found} in {options:?}"));
        }
    }
    for seed in first..first + 20 {
        promises::run(seed).unwrap_or_else(|found| panic!("{found}"));
    }
}

#[test]
fn a_seed_says_everything() {
    for seed in 1..4 {
        for shards_max in [1, 3] {
            let options = Options {
                shards_max,
                ..Options::new(seed)
            };
            assert_eq!(run(&options), run(&options), "seed={seed}");
        }
    }
}

/// Hosts stand still at any moment, others take the pool from them by force, and then they go on:
/// some know how long they stood still, others do not.
#[test]
fn a_pool_survives_hosts_that_have_lost_it() {
    let mut takeovers = 0;
    for (seed, shards_max) in (4000..4030).map(|seed| (seed, 1 + 2 * (seed % 2))) {
        let options = Options {
            rivals: true,
            shards_max,
            ..Options::new(seed)
        };
        let report = lives(&options);
        takeovers += report.takeovers;
    }
    assert!(takeovers > 50, "{takeovers} pools changed hands");
}
