use super::*;
use crate::profiles;

fn good() -> Profile {
    profiles::named("cm7-r-7.68").unwrap()
}

fn error_of(change: impl FnOnce(&mut Profile)) -> ProfileError {
    let mut profile = good();
    change(&mut profile);
    profile.validate().unwrap_err()
}

#[test]
fn impossible_values_are_refused_by_name() {
    let refused = |key: &str, change: fn(&mut Profile)| match error_of(change) {
        ProfileError::Value { key: found, .. } => assert_eq!(found, key),
        error => panic!("{key}: {error}"),
    };
    refused("nand.dies", |profile| profile.nand.dies = 0);
    refused("nand.plane_groups", |profile| profile.nand.plane_groups = 0);
    refused("nand.superblocks", |profile| profile.nand.superblocks = 0);
    refused("nand.low_water", |profile| profile.nand.low_water = 0);
    refused("nand.read_us", |profile| profile.nand.read_us = -1.0);
    refused("nand.read_us", |profile| profile.nand.read_us = f64::NAN);
    refused("nand.suspend_copy_us", |profile| {
        profile.nand.suspend_copy_us = 1.0
    });
    refused("nand.page_kib", |profile| profile.nand.page_kib = 6);
    refused("nand.program_gb_s", |profile| {
        profile.nand.program_gb_s = 0.0
    });
    refused("controller.read_overhead_us", |profile| {
        profile.controller.read_overhead_us = -0.1
    });
    refused("controller.command_kiops", |profile| {
        profile.controller.command_kiops = f64::INFINITY
    });
    refused("link.lanes", |profile| profile.link.lanes = 0);
    refused("link.pcie_generation", |profile| {
        profile.link.pcie_generation = 2
    });
    refused("link.sequential_read_gb_s", |profile| {
        profile.link.sequential_read_gb_s = 16.0
    });
    refused("drive.capacity_tb", |profile| {
        profile.drive.capacity_tb = -7.68
    });
    refused("drive.capacity_tb", |profile| {
        profile.drive.capacity_tb = 1e9
    });
    refused("endurance.warranty_years", |profile| {
        profile.endurance.warranty_years = 0.0
    });
}

#[test]
fn more_user_capacity_than_flash_is_refused() {
    let no_spare = |error| assert!(matches!(error, ProfileError::NoSpare { .. }), "{error}");
    no_spare(error_of(|profile| profile.nand.raw_tb = 7.0));
    no_spare(error_of(|profile| profile.nand.raw_tb = 7.68));
    no_spare(error_of(|profile| profile.nand.low_water = 400));
    no_spare(error_of(|profile| profile.nand.superblocks = 4));
}

#[test]
fn a_value_without_a_source_or_a_source_without_a_value_is_refused() {
    let source = |error| assert!(matches!(error, ProfileError::Source { .. }), "{error}");
    source(error_of(|profile| {
        drop(profile.source.remove("nand.raw_tb"))
    }));
    source(error_of(|profile| {
        drop(
            profile
                .source
                .insert("nand.colour".into(), "assumed".into()),
        )
    }));
    source(error_of(|profile| {
        drop(profile.source.insert("nand.dies".into(), "guessed".into()))
    }));
}

#[test]
fn broken_text_and_unknown_keys_are_refused() {
    let text = good().to_toml();
    for broken in [
        text.replace("dies", "dice"),
        text.replace('=', ":"),
        String::new(),
    ] {
        let error = Profile::parse(&broken).unwrap_err();
        assert!(matches!(error, ProfileError::Syntax(_)), "{error}");
    }
}

#[test]
fn arithmetic_holds_for_a_32_tb_drive() {
    let mut profile = good();
    profile.drive.capacity_tb = 32.0;
    profile.nand.raw_tb = 32.0 * 1.17;
    profile.validate().unwrap();
    assert_eq!(profile.capacity_bytes(), 32_000_000_000_000);
    let studied = profile.geometry(profile.study_scale()).unwrap();
    assert_eq!(studied.pages_per_superblock, 2048);
    let half = profile.geometry(0.4).unwrap();
    assert!(half.raw_pages() > 3_600_000_000 && half.logical_pages > 3_000_000_000);
    let whole = profile.geometry(1.0).unwrap_err();
    assert!(whole.to_string().contains("4294967294"), "{whole}");
    let amplification = profile.write_amplification(32.0);
    assert!((amplification - 3.687).abs() < 0.01, "{amplification}");
}

#[test]
fn a_slot_of_an_older_generation_clips_the_ceilings() {
    let drive = profiles::named("xd7p-3.84").unwrap().in_slot(3).unwrap();
    assert!((drive.link.sequential_read_gb_s - 3.938).abs() < 0.001);
    assert!((drive.link.sequential_write_gb_s - 3.938).abs() < 0.001);
    let drive = profiles::named("xd6-3.84").unwrap().in_slot(3).unwrap();
    assert_eq!(drive.link.sequential_write_gb_s, 2.35);
    assert!(drive.in_slot(9).is_err());
}

#[test]
fn a_slice_is_slower_by_its_part_and_as_prompt_as_the_drive() {
    let drive = profiles::named("cm7-r-3.84").unwrap();
    let slice = drive.slice(32).unwrap();
    assert_eq!(slice.nand.dies * 32, drive.nand.dies);
    assert_eq!(
        slice.controller.command_kiops * 32.0,
        drive.controller.command_kiops
    );
    assert_eq!(slice.nand.read_us, drive.nand.read_us);
    assert_eq!(slice.drive, drive.drive);
    // The flash, not the drive's size, says what random writes cost it.
    let cost = |profile: &Profile| profile.write_amplification(profile.drive.capacity_tb);
    assert_eq!(cost(&slice), cost(&drive));
    // Nothing is left of a drive that is cut into too many.
    assert!(drive.slice(1_000_000).is_err());
}
