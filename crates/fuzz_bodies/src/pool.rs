//! Drives of a pool on which numbers are others, every checksum right: their pool is refused or
//! works, whatever the numbers are.

use crate::Input;
use sim::SimDrive;
use sim::crafted::{self, Place};
use sim::golden;
use std::sync::OnceLock;

/// So many numbers of one image are changed at most.
const CHANGES_MAX: usize = 8;

/// Images of today's format: closed, crashed in a fold, and crashed twice.
const IMAGES: [&str; 3] = ["v2-raid0-exported", "v2-raid6-folding", "v1-raid5-reused"];

/// The drives of an image as it was made.
fn drives(input: &mut Input<'_>) -> Vec<SimDrive> {
    static MADE: [OnceLock<Vec<u8>>; IMAGES.len()] = [const { OnceLock::new() }; IMAGES.len()];
    let chosen = usize::from(input.byte()) % IMAGES.len();
    let image = MADE[chosen].get_or_init(|| {
        let found = golden::ALL.iter().find(|it| it.name == IMAGES[chosen]);
        golden::make(found.expect("an image")).expect("a pool")
    });
    golden::drives(image).expect("drives")
}

/// A number that is to be another.
fn changes(input: &mut Input<'_>, places: &[Place], from: &[u8]) -> Vec<(Place, u64)> {
    let mut changes = Vec::new();
    while !input.is_empty() && changes.len() < CHANGES_MAX && !places.is_empty() {
        let place = places[usize::from(input.short()) % places.len()];
        let extremes = place.extremes(from);
        let chosen = usize::from(input.byte());
        let value = match extremes.get(chosen) {
            Some(extreme) => *extreme,
            None => u64::from(input.word()) | u64::from(input.word()) << 32,
        };
        changes.push((place, value));
    }
    changes
}

fn write(changes: &[(Place, u64)], to: &mut [u8]) {
    for (place, value) in changes {
        if place.offset + place.bytes <= to.len() {
            place.write(to, *value);
        }
    }
}

/// Which of the drives are changed: all of them, or one.
fn some<'a>(input: &mut Input<'_>, drives: &'a [SimDrive]) -> Vec<&'a SimDrive> {
    let chosen = usize::from(input.byte());
    match drives.get(chosen) {
        Some(one) => vec![one],
        None => drives.iter().collect(),
    }
}

fn end(drives: Vec<SimDrive>) {
    assert!(crafted::open_and_use(drives).is_some(), "it never ends");
}

/// Labels are others.
pub fn pool_label(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let drives = drives(&mut input);
    let changed = some(&mut input, &drives);
    let label = drives[0].content(1);
    let changes = changes(&mut input, &crafted::label_places(), &label);
    for drive in changed {
        crafted::alter_labels(drive, |label| write(&changes, label));
    }
    end(drives);
}

/// Tables are others.
pub fn pool_tables(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let drives = drives(&mut input);
    let changed = some(&mut input, &drives);
    let tables = crafted::tables(&drives[0]);
    let changes = changes(&mut input, &crafted::table_places(&tables), &tables);
    for drive in changed {
        crafted::alter_tables(drive, |tables| write(&changes, tables));
    }
    end(drives);
}

/// Headers of stripes are others: all, or the last.
pub fn pool_stripe(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let drives = drives(&mut input);
    let all = input.byte() & 1 == 0;
    let last = crafted::last_sequence(&drives);
    let changes = changes(&mut input, &crafted::header_places(), &[0; 4096]);
    for drive in &drives {
        crafted::alter_headers(drive, |header| {
            if all || crafted::SEQUENCE.read(header) == last {
                write(&changes, header);
            }
        });
    }
    end(drives);
}

/// Nodes of the maps are others: all, leaves, or those above.
pub fn pool_node(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let drives = drives(&mut input);
    let concerned = input.byte() % 3;
    let changes = changes(&mut input, &crafted::node_places(), &[0; 4096]);
    crafted::alter_nodes(&drives, |node| {
        let leaf = node[4] == 0;
        if concerned == 0 || leaf == (concerned == 1) {
            write(&changes, node);
        }
    });
    end(drives);
}
