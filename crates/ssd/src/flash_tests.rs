use proptest::prelude::*;

use super::*;
use crate::precondition::Precondition;
use crate::random::Random;
use crate::theory;

fn geometry(superblocks: u32, pages_per_superblock: u32, ratio: f64) -> FlashGeometry {
    let raw = f64::from(superblocks) * f64::from(pages_per_superblock);
    FlashGeometry {
        superblocks,
        pages_per_superblock,
        logical_pages: (raw / ratio) as u32,
        low_water: 2,
    }
}

/// Write amplification of uniform random writes over the first `live` pages.
fn amplification(flash: &mut Flash, live: u32, passes: f64, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    flash.reset_counters();
    let mut batch = [0; 64];
    for _ in 0..(f64::from(live) * passes / 64.0) as u32 {
        for page in &mut batch {
            *page = random.below(live);
        }
        flash.write_batch(&batch);
    }
    flash.counters().write_amplification()
}

fn steady(geometry: FlashGeometry, live: u32, how: Precondition, seed: u64) -> Flash {
    let mut flash = Flash::new(geometry).unwrap();
    let live: Vec<u32> = (0..live).collect();
    how.apply(&mut flash, &live, seed);
    flash
}

/// Raw over live at the four namespace sizes of the published experiment.
const RATIOS: [f64; 4] = [1.1699, 1.2763, 1.4039, 1.5599];

#[test]
fn write_amplification_meets_the_closed_form_at_four_sizes() {
    for ratio in RATIOS {
        let geometry = geometry(800, 1024, ratio);
        let live = geometry.logical_pages;
        let mut flash = steady(geometry, live, Precondition::SteadyRandom, 1);
        let measured = amplification(&mut flash, live, 2.0, 2);
        let share = theory::effective_share(800, 2, 2);
        let expected = theory::write_amplification(ratio * share, 1.0);
        let error = measured / expected - 1.0;
        assert!(
            error.abs() < 0.005,
            "{ratio}: {measured} against {expected}"
        );
    }
}

#[test]
fn the_instant_steady_state_is_the_one_that_writing_leads_to() {
    for ratio in [RATIOS[0], RATIOS[2]] {
        let geometry = geometry(400, 512, ratio);
        let live = geometry.logical_pages;
        let [instant, warmed] = [Precondition::SteadyRandom, Precondition::Warmed].map(|how| {
            let mut flash = steady(geometry, live, how, 3);
            amplification(&mut flash, live, 1.0, 4)
        });
        assert!(
            (instant / warmed - 1.0).abs() < 0.01,
            "{ratio}: {instant} against {warmed}"
        );
    }
}

#[test]
fn neither_the_superblock_size_nor_the_seed_nor_the_scale_changes_the_result() {
    let reference = 3.69;
    // Fewer superblocks lose a larger share of the raw capacity: give it back.
    let share = theory::effective_share(800, 2, 2) / theory::effective_share(400, 2, 2);
    let cases = [
        (geometry(800, 1024, RATIOS[0]), 1),
        (geometry(800, 2048, RATIOS[0]), 1),
        (geometry(800, 1024, RATIOS[0]), 99),
        (geometry(400, 1024, RATIOS[0] * share), 1),
    ];
    for (geometry, seed) in cases {
        let live = geometry.logical_pages;
        let mut flash = steady(geometry, live, Precondition::SteadyRandom, seed);
        let measured = amplification(&mut flash, live, 1.0, seed + 1);
        assert!(
            (measured / reference - 1.0).abs() < 0.01,
            "{geometry:?} {seed}: {measured}"
        );
    }
}

#[test]
fn deallocating_a_share_equals_a_namespace_that_much_smaller() {
    let geometry = geometry(800, 512, 8.985 / 7.68);
    let smaller = (f64::from(geometry.logical_pages) * 6.4 / 7.68) as u32;
    let mut small = steady(geometry, smaller, Precondition::SteadyRandom, 5);
    let expected = amplification(&mut small, smaller, 1.0, 6);
    let mut full = steady(
        geometry,
        geometry.logical_pages,
        Precondition::SteadyRandom,
        5,
    );
    for page in smaller..geometry.logical_pages {
        assert!(full.deallocate(page));
    }
    amplification(&mut full, smaller, 2.0, 7);
    let trimmed = amplification(&mut full, smaller, 1.0, 6);
    assert!(
        (trimmed / expected - 1.0).abs() < 0.01,
        "{trimmed} against {expected}"
    );
}

#[test]
fn sequential_overwriting_copies_nothing() {
    let geometry = geometry(200, 64, 1.17);
    let live = geometry.logical_pages;
    let mut flash = steady(geometry, live, Precondition::Sequential, 1);
    for pass in 0..3 {
        for page in 0..live {
            assert_eq!(flash.write(page).copied, 0, "pass {pass}, page {page}");
        }
    }
}

/// Writes 90% of the time to a tenth of the pages, hot and cold by their own handles where there
/// are two, and returns the amplification once steady.
fn hot_and_cold(handles: u8, isolation: Isolation) -> f64 {
    let geometry = geometry(800, 128, 1.17);
    let mut flash = Flash::with_handles(geometry, handles, isolation).unwrap();
    let hot = geometry.logical_pages / 10;
    let mut random = Random::new(11);
    for page in 0..geometry.logical_pages {
        flash.write_placed(page, u8::from(page >= hot));
    }
    for pass in 0..12_u32 {
        if pass == 8 {
            flash.reset_counters();
        }
        for _ in 0..geometry.logical_pages {
            let is_hot = random.below(10) != 0;
            let cold = hot + random.below(geometry.logical_pages - hot);
            let page = if is_hot { random.below(hot) } else { cold };
            flash.write_placed(page, u8::from(!is_hot));
        }
    }
    flash.counters().write_amplification()
}

#[test]
fn placement_handles_for_hot_and_cold_data_save_copies() {
    let mixed = hot_and_cold(1, Isolation::Initially);
    let initially = hot_and_cold(2, Isolation::Initially);
    let persistently = hot_and_cold(2, Isolation::Persistently);
    assert!(initially < mixed, "{initially} against {mixed}");
    assert!(
        persistently < initially * 0.95,
        "{persistently} against {initially}"
    );
}

#[test]
fn impossible_flash_is_refused_by_name() {
    let good = geometry(100, 64, 1.2);
    assert!(Flash::new(good).is_ok());
    assert_eq!(
        Flash::new(FlashGeometry {
            low_water: 0,
            ..good
        })
        .unwrap_err(),
        FlashError::NoFlash
    );
    let huge = FlashGeometry {
        superblocks: 65_536,
        pages_per_superblock: 65_536,
        ..good
    };
    assert_eq!(
        Flash::new(huge).unwrap_err(),
        FlashError::TooManyPages(1 << 32)
    );
    let full = FlashGeometry {
        logical_pages: 6400,
        ..good
    };
    assert!(matches!(Flash::new(full), Err(FlashError::NoSpare { .. })));
    let handles = Flash::with_handles(good, 0, Isolation::Initially);
    assert_eq!(handles.unwrap_err(), FlashError::NoHandles);
    let reserve = FlashGeometry {
        low_water: u32::MAX,
        ..good
    };
    assert!(matches!(
        Flash::new(reserve),
        Err(FlashError::NoSpare { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever is written and deallocated, through any handle, on flash as full as allowed: each
    /// live page has a physical page of its own, no dead page has one, and the counts agree.
    #[test]
    fn the_map_stays_one_to_one(
        handles in 1_u8..4,
        persistent in any::<bool>(),
        operations in prop::collection::vec((0_u32..500, 0_u8..5, 0_u8..8), 1..4000),
    ) {
        let isolation =
            if persistent { Isolation::Persistently } else { Isolation::Initially };
        let geometry = FlashGeometry {
            superblocks: 40,
            pages_per_superblock: 16,
            logical_pages: 16 * 29,
            low_water: 2,
        };
        let mut flash = Flash::with_handles(geometry, handles, isolation).unwrap();
        let mut live = std::collections::BTreeSet::new();
        for (page, handle, kind) in operations {
            if kind == 0 {
                prop_assert_eq!(flash.deallocate(page), live.remove(&page));
            } else {
                flash.write_placed(page, handle);
                if page < geometry.logical_pages {
                    live.insert(page);
                }
            }
        }
        let mut taken = std::collections::BTreeSet::new();
        for page in 0..520 {
            let physical = flash.lookup(page);
            prop_assert_eq!(physical.is_some(), live.contains(&page));
            if let Some(physical) = physical {
                prop_assert!(taken.insert(physical));
                prop_assert!(u64::from(physical) < geometry.raw_pages());
            }
        }
        prop_assert_eq!(flash.mapped_pages() as usize, live.len());
        let unwritten: u32 = flash.streams.iter().map(|open| open.end - open.next).sum();
        let counted: u32 = flash.live.iter().sum();
        prop_assert_eq!((counted - unwritten) as usize, live.len());
    }
}
