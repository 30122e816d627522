//! Pools that earlier versions left open in today's code and read back exactly.

use crate::support::settle;
use pool::{Entropy, OpenOptions, Pool};
use reactor::Reactor;
use sim::golden;

/// Each image and the checksum of its file: to change one, this line has to be changed too, and
/// with it the promise that what is on disk stays readable.
pub const IMAGES: [(&str, &[u8], u64); 9] = [
    (
        "v1-raid6-exported",
        include_bytes!("../../../../tests/golden/v1-raid6-exported.image"),
        0x95a8_6231_d08b_66c3,
    ),
    (
        "v1-raid10-crashed",
        include_bytes!("../../../../tests/golden/v1-raid10-crashed.image"),
        0x639b_0068_4f6a_e316,
    ),
    (
        "v1-raid1-degraded",
        include_bytes!("../../../../tests/golden/v1-raid1-degraded.image"),
        0xb1dd_fadd_8d98_fa00,
    ),
    (
        "v1-raid5-reused",
        include_bytes!("../../../../tests/golden/v1-raid5-reused.image"),
        0xb1d1_ca29_7d71_57b3,
    ),
    (
        "v2-raid6-folding",
        include_bytes!("../../../../tests/golden/v2-raid6-folding.image"),
        0xb418_2539_5824_4ad9,
    ),
    (
        "v2-raid0-exported",
        include_bytes!("../../../../tests/golden/v2-raid0-exported.image"),
        0x33b4_e35b_0d13_14ef,
    ),
    (
        "v3-raid1-degraded",
        include_bytes!("../../../../tests/golden/v3-raid1-degraded.image"),
        0x90f7_d62c_68c8_847d,
    ),
    (
        "v3-raid5-reused",
        include_bytes!("../../../../tests/golden/v3-raid5-reused.image"),
        0xdfbb_2e1e_bcac_7686,
    ),
    (
        "v3-raid6-folding",
        include_bytes!("../../../../tests/golden/v3-raid6-folding.image"),
        0x1633_cbcd_bec0_e6c1,
    ),
];

#[test]
fn golden_images_are_the_ones_that_were_made() {
    let known: Vec<&str> = golden::ALL.iter().map(|image| image.name).collect();
    for (name, bytes, checksum) in IMAGES {
        assert!(known.contains(&name));
        assert_eq!(sim::checksum(bytes), checksum, "{name} is another file");
    }
    assert_eq!(known.len(), IMAGES.len());
}

#[test]
fn pools_of_earlier_versions_open_and_read_back_exactly() {
    for (name, bytes, _) in IMAGES {
        let drives = golden::drives(bytes).expect("an image");
        Reactor::simulated(5).run(async {
            for opening in 0..3 {
                let options = OpenOptions {
                    entropy: Entropy::seeded(4 + opening),
                    ..OpenOptions::new(golden::HOST)
                };
                let pool = Pool::open(drives.clone(), options).await;
                let pool = pool.unwrap_or_else(|error| panic!("{name}: {error}"));
                let found = golden::verify(&pool).await;
                found.unwrap_or_else(|error| panic!("{name}, opening {opening}: {error}"));
                let knows_when = pool.snapshots().iter().all(|it| it.taken.is_some());
                assert_eq!(
                    knows_when,
                    name.starts_with("v3"),
                    "{name}: times of snapshots"
                );
                let report = pool.scrub().await.expect("a scrub");
                assert!(report.lost.is_empty() && report.lost_nodes == 0, "{name}");
                settle().await;
                pool.close().await.expect("closed");
            }
        });
    }
}

/// The maker still works, so that a new format can have its images.
#[test]
fn an_image_made_today_is_one() {
    for image in &golden::ALL {
        let bytes = golden::make(image).expect("an image");
        let drives = golden::drives(&bytes).expect("it is one");
        Reactor::simulated(5).run(async {
            let options = OpenOptions {
                entropy: Entropy::seeded(4),
                ..OpenOptions::new(golden::HOST)
            };
            let pool = Pool::open(drives, options).await.expect("it opens");
            golden::verify(&pool).await.expect("the same");
            pool.close().await.expect("closed");
        });
    }
}
