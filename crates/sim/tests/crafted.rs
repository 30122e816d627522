//! Drives that a stranger has made, every checksum right: each number of a label, of tables, of a
//! stripe's header and of a map's node at its extremes. A pool is refused or works: nothing ends
//! the process, nothing goes on for ever, and no memory is taken because an image says so.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use sim::crafted::{self, Place};
use sim::{SimDrive, golden};
use std::sync::mpsc;
use std::time::Duration;

/// What the process may take at most: images have some hundred kilobytes.
const MEMORY_MOST_KIB: u64 = 768 << 10;
/// A pool of this size opens in some milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// An image of today's format, called as one of the golden ones that ended so.
fn image(name: &str) -> Vec<u8> {
    let mut all = golden::ALL.iter();
    golden::make(all.find(|image| image.name == name).unwrap()).unwrap()
}

/// Opens the drives of an image as `craft` leaves them. Whatever comes of it is in order, but for a
/// panic, and for what does not end.
fn survives(
    image: &[u8],
    craft: impl FnOnce(&[SimDrive]) + Send + 'static,
) -> Result<String, String> {
    let image = image.to_vec();
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let drives = golden::drives(&image).unwrap();
        craft(&drives);
        let opened = crafted::open_and_use(drives);
        let _ = done.send(opened.map(|opened| match opened {
            Ok(()) => "works".to_owned(),
            Err(error) => error.to_string(),
        }));
    });
    let end = match ended.recv_timeout(PATIENCE) {
        Ok(Some(said)) => Ok(said),
        Ok(None) => Err("waits for ever".to_owned()),
        Err(mpsc::RecvTimeoutError::Timeout) => Err("does not end".to_owned()),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let panic = thread.join().unwrap_err();
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| it.to_string()));
            Err(format!("panics: {}", text.unwrap_or_default()))
        }
    };
    let most = peak_kib();
    match most > MEMORY_MOST_KIB {
        true => Err(format!("the process has taken {} MiB by now", most >> 10)),
        false => end,
    }
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

/// What is tried of one image: a number, what it becomes, and on which drives.
type Craft = fn(&[SimDrive], Place, u64);

/// Tries every number at its extremes, and tells of all that do harm.
fn try_all(name: &str, image: &[u8], places: &[(Place, Vec<u64>)], craft: Craft) {
    let mut harm = Vec::new();
    let mut tried = 0;
    for (place, values) in places {
        for value in values {
            let (place, value) = (*place, *value);
            let end = survives(image, move |drives| craft(drives, place, value));
            tried += 1;
            match end {
                Ok(said) => println!("{name}: {} = {value:#x}: {said}", place.name),
                Err(how) => harm.push(format!("{name}: {} = {value:#x} {how}", place.name)),
            }
        }
    }
    assert!(tried > 0, "{name}: nothing to try");
    assert!(
        harm.is_empty(),
        "{} of {tried}:\n{}",
        harm.len(),
        harm.join("\n")
    );
}

fn extremes(places: Vec<Place>, from: &[u8]) -> Vec<(Place, Vec<u64>)> {
    let with = |place: Place| (place, place.extremes(from));
    places.into_iter().map(with).collect()
}

#[test]
fn labels_that_cannot_be_are_refused() {
    for name in ["v2-raid0-exported", "v2-raid6-folding", "v3-raid1-degraded"] {
        let image = image(name);
        let label = golden::drives(&image).unwrap()[0].content(1);
        let places = extremes(crafted::label_places(), &label);
        // Of one drive, and of all: then nothing else tells what is right.
        try_all(name, &image, &places, |drives, place, value| {
            crafted::alter_labels(&drives[0], |label| place.write(label, value));
        });
        try_all(name, &image, &places, |drives, place, value| {
            for drive in drives {
                crafted::alter_labels(drive, |label| place.write(label, value));
            }
        });
    }
}

#[test]
fn tables_that_cannot_be_are_refused() {
    for name in ["v2-raid0-exported", "v2-raid6-folding", "v1-raid5-reused"] {
        let image = image(name);
        let tables = crafted::tables(&golden::drives(&image).unwrap()[0]);
        // Of numbers that are called the same the first three.
        let mut places = crafted::table_places(&tables);
        let mut seen = std::collections::BTreeMap::new();
        places.retain(|place| {
            let count = seen.entry(place.name).or_insert(0);
            *count += 1;
            *count <= 3
        });
        let mut places = extremes(places, &tables);
        for (place, values) in &mut places {
            // A count that becomes too low is taken as zero; with debug assertions, which are
            // about faults of the pool's own, it ends the program.
            if cfg!(debug_assertions) && place.name == "segment live_blocks" {
                values.retain(|value| *value >= place.read(&tables));
            }
        }
        try_all(name, &image, &places, |drives, place, value| {
            for drive in drives {
                // The earlier tables of a drive may be shorter.
                crafted::alter_tables(drive, |tables| {
                    if place.offset + place.bytes <= tables.len() {
                        place.write(tables, value);
                    }
                });
            }
        });
    }
}

#[test]
fn headers_of_stripes_that_cannot_be_count_for_nothing() {
    for name in ["v1-raid10-crashed", "v2-raid6-folding", "v1-raid5-reused"] {
        let image = image(name);
        let header = [0; 4096];
        let places = extremes(crafted::header_places(), &header);
        try_all(name, &image, &places, |drives, place, value| {
            for drive in drives {
                crafted::alter_headers(drive, |header| place.write(header, value));
            }
        });
        // Of the last one alone: the others are as they should be.
        try_all(name, &image, &places, |drives, place, value| {
            let last = crafted::last_sequence(drives);
            for drive in drives {
                crafted::alter_headers(drive, |header| {
                    if crafted::SEQUENCE.read(header) == last {
                        place.write(header, value);
                    }
                });
            }
        });
    }
}

#[test]
fn nodes_of_maps_that_cannot_be_are_as_good_as_lost() {
    for name in ["v2-raid0-exported", "v2-raid6-folding"] {
        let image = image(name);
        let node = [0; 4096];
        let places = extremes(crafted::node_places(), &node);
        try_all(name, &image, &places, |drives, place, value| {
            crafted::alter_nodes(drives, |node| place.write(node, value));
        });
    }
}

/// What crafting leaves as it is opens as before: the checksums are right.
#[test]
fn what_is_sealed_again_unchanged_is_the_same_pool() {
    for image in &golden::ALL {
        let bytes = golden::make(image).unwrap();
        let drives = golden::drives(&bytes).unwrap();
        for drive in &drives {
            crafted::alter_headers(drive, |_| ());
            crafted::alter_labels(drive, |_| ());
        }
        crafted::alter_nodes(&drives, |_| ());
        let before = golden::drives(&bytes).unwrap();
        for (before, after) in before.iter().zip(&drives) {
            assert_eq!(
                before.blocks_written(),
                after.blocks_written(),
                "{}",
                image.name
            );
        }
    }
}
